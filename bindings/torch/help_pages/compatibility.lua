-- What help knows of the names in torch.compatibility and torch.composed that no comment stands above.
local rows = {
  {"torch.pi", "", "The number 3.14159...", example = "torch.sin(torch.tensor(torch.pi / 2)) --> f32 []  1"},
  {"torch.e", "", "The number 2.71828...", see = "exp"},
  {"torch.inf", "", "Infinity, as math.huge.", see = "isinf"},
  {"torch.nan", "", "What is no number; it differs from itself.", see = "isnan"},
  {"torch.strided", "", "How the memory of every tensor is laid out."},
  {"torch.contiguous_format", "", "Row-major order: a memory_format for contiguous, to, clone, empty and the *_like functions.", see = "to, contiguous"},
  {"torch.preserve_format", "", "The order of the tensor it is made from: a memory_format for to, clone and the *_like functions.", see = "to, contiguous"},
  {"torch.channels_last", "", "Images [batch, channels, height, width] with the channels of a pixel side by side in memory: a memory_format for contiguous, to, clone, empty and the *_like functions. Shapes and values stay; strides change.", see = "to, contiguous"},
  {"torch.channels_last_3d", "", "As channels_last, for volumes [batch, channels, depth, height, width].", see = "to, contiguous"},
  {"torch.backends", "", "Libraries below: cudnn (convolutions on GPUs), cuda.matmul, mkldnn, mps. cudnn.enabled says that it is used where it is there, benchmark that its ways are timed and the fastest stays, deterministic that bits repeat, allow_tf32 that float32 is multiplied in 11 bits; cudnn.is_available() and version() answer.",
    see = "conv2d, torch.set_float32_matmul_precision, torch.use_deterministic_algorithms", example = "torch.backends.cudnn.allow_tf32 --> true"},
  {"torch.Tensor", "data | sizes", "A tensor of the default type from a list of numbers, or of given sizes, not filled.", see = "torch.tensor, empty",
    example = "torch.Tensor{1, 2} --> f32 [2]  1 2\ntorch.Tensor(2, 3).shape --> [2, 3]"},
  {"F.fractional_max_pool2d", "input, kernel_size, {output_size=nil, output_ratio=nil, return_indices=false}",
    "The largest element of windows at random distances.", see = "nn.FractionalMaxPool2d"},
  {"F.fractional_max_pool3d", "input, kernel_size, {output_size=nil, output_ratio=nil, return_indices=false}",
    "The largest element of windows at random distances.", see = "nn.FractionalMaxPool3d"},
  {"torch.hann_window", "length, {periodic=true, dtype=nil}", "The window 0.5 - 0.5 cos(2 pi i / n).", see = "torch.hamming_window",
    example = "torch.hann_window(4) --> f32 [4]   0  0.5  1  0.5"},
  {"torch.hamming_window", "length, {periodic=true, alpha=0.54, beta=0.46, dtype=nil}", "The window alpha - beta cos(2 pi i / n).", see = "torch.hann_window"},
  {"torch.blackman_window", "length, {periodic=true, dtype=nil}", "The window 0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n).", see = "torch.hann_window"},
  {"torch.bartlett_window", "length, {periodic=true, dtype=nil}", "The window of a triangle.", see = "torch.hann_window",
    example = "torch.bartlett_window(4) --> f32 [4]   0  0.5  1  0.5"},
  {"Tensor.H", "", "The transposed matrix, as x.T.", see = "t"},
  {"Tensor.mH", "", "The last two dimensions exchanged, as x.mT.", see = "transpose"},
  {"Tensor.is_cpu", "", "Whether the tensor lies in the CPU's memory.", see = "devices"},
  {"Tensor.is_sparse", "", "Whether most elements are left out: never, here."},
  {"Tensor.layout", "", "How the memory is laid out: always torch.strided."},
  {"Tensor.itemsize", "", "Bytes of one element.", see = "dtypes", example = "torch.ones(2).itemsize --> 4"},
  {"Tensor.nbytes", "", "Bytes of all elements.", see = "dtypes", example = "torch.ones(2, 3).nbytes --> 24"},
  {"Tensor.retains_grad", "", "Whether a computed tensor keeps its gradient.", see = "retain_grad"},
  {"Tensor.is_pinned", "", "Whether devices read the memory by themselves (pin_memory).", see = "pin_memory"},
  {"Tensor.is_shared", "", "Whether other processes may see the memory.", see = "share_memory_, torch.multiprocessing"},
}
for name, kind in pairs {Float = "float32", Double = "float64", Half = "float16", BFloat16 = "bfloat16", Long = "int64", Int = "int32",
  Short = "int16", Char = "int8", Byte = "uint8", Bool = "bool"} do
  rows[#rows + 1] = {("torch.%sTensor"):format(name), "data | sizes", ("A tensor of %s from a list of numbers, or of given sizes, not filled."):format(kind), see = "torch.tensor"}
end
for name, row in pairs {
  is_complex = {"Whether the elements are complex numbers: never, here."},
  is_signed = {"Whether the elements can be negative.", "torch.tensor{1}:is_signed() --> true"},
  is_nonzero = {"Whether the one element is not zero.", "torch.tensor{2}:is_nonzero() --> true"},
  is_same_size = {"Whether another tensor has the same sizes."},
  get_device = {"The number of the CUDA device, -1 on the CPU.", "torch.ones(1):get_device() --> -1"},
} do
  for _, place in ipairs {"torch.", "Tensor."} do
    rows[#rows + 1] = {place .. name, (place == "torch." and "x" or "") .. (name == "is_same_size" and (place == "torch." and ", " or "") .. "other" or ""),
      row[1], example = place == "Tensor." and row[2] or nil}
  end
end
return rows
