-- What help, completion and editors know of the names that are no operations of the op table: functions
-- made in C++, fields of tensors, classes made from rows. Each is {name, arguments, sentence, see=,
-- example=}; examples are run by the tests as those of the op table. Functions written in Lua with `---`
-- comments above them need no row here.
local pages = {}
local function add(list)
  for _, row in ipairs(list) do pages[#pages + 1] = row end
end

-- --- making and reading tensors ---
add {
  {"torch.tensor", "data, {dtype, device, requires_grad=false}", "A tensor from numbers or nested tables: integers give int64, floats the default type, booleans bool.",
    see = "zeros, full, arange, torch.save", example = "torch.tensor{1, 2, 3} --> i64 [3]  1 2 3\ntorch.tensor{{1, 2.5}, {3, 4}} --> f32 [2, 2]\n 1.0  2.5\n 3.0  4.0\ntorch.tensor({1, 2}, {dtype=\"float64\"}) --> f64 [2]  1 2"},
  {"torch.is_tensor", "value", "Whether a value is a tensor.", example = "torch.is_tensor(torch.ones(1)) --> true\ntorch.is_tensor(1) --> false"},
  {"torch.none", "", "Says None where an argument needs saying so; a missing or nil argument is otherwise enough."},
  {"torch.ellipsis", "", "All dimensions that an index leaves out: x[{torch.ellipsis, 1}].", see = "indexing",
    example = "torch.arange(4):view(2, 2)[{torch.ellipsis, 1}] --> i64 [2]  view  non-contiguous  0 2"},
  {"torch.newaxis", "", "A new dimension of size 1 in an index: x[{{}, torch.newaxis}].", see = "unsqueeze, indexing",
    example = "torch.arange(3)[{{}, torch.newaxis}].shape --> [3, 1]"},
  {"torch.save", "object, path", "Writes tensors, tables, numbers, strings and booleans to a file: PyTorch's format, or .safetensors, .npy, .npz by the name's end.", see = "torch.load, nn.Module.state_dict"},
  {"torch.load", "path, {map_location=nil, mmap=nil, weights_only=nil}", "Reads a file that torch.save or PyTorch wrote, or .safetensors, .npy, .npz; never runs code, whatever weights_only says. map_location, where tensors go: a device, a table {[\"cuda:0\"] = \"cpu\"}, or f(bytes, saved_on). mmap=true reads elements only when they are used, and never changes the file; .safetensors does so unless mmap=false.", see = "torch.save"},
  {"torch.io.read_idx", "path", "Reads a file of the MNIST kind (idx, also gzipped) into a tensor."},
  {"torch.perf_counter", "", "Seconds of a clock that only moves forward, for measuring time.", see = "%time, %bench, torch.cuda.synchronize"},
  {"torch.until_interrupt", "f, ...", "Calls f(...) and gives true and its results; when Ctrl-C stops it, false and the place where, and the code after it goes on: to save what was trained so far.", see = "torch.uninterrupted, torch.save",
    example = "torch.until_interrupt(function(x) return x + 1 end, 2) --> true  3"},
  {"torch.uninterrupted", "f, ...", "Calls f(...) and gives its results; a Ctrl-C that comes meanwhile acts when f has ended, so that what belongs together is done whole. A second Ctrl-C stops f.", see = "torch.until_interrupt",
    example = "torch.uninterrupted(function(x) return x + 1 end, 2) --> 3"},
  {"torch.device", "name, number=nil, f=nil", "A device by name (\"cpu\", \"cuda\", \"cuda:1\") or by kind and number. With a function, the default device inside of it: torch.device(\"cuda\", function() ... end).", see = "devices",
    example = "torch.device(\"cpu\") --> device cpu"},
  {"torch.set_default_device", "device", "Where torch.zeros, torch.tensor, layers and whatever makes tensors put them when no device is named; nil: the CPU again.",
    see = "torch.get_default_device, devices", example = "torch.set_default_device(\"cpu\")\ntorch.ones(2).device --> device cpu"},
  {"torch.set_default_dtype", "dtype", "The type that new floating point tensors get (float32 at first).", see = "torch.get_default_dtype, dtypes"},
  {"torch.get_default_dtype", "", "The type that new floating point tensors get.", see = "torch.set_default_dtype", example = "torch.get_default_dtype() --> torch.float32"},
  {"torch.set_fusion", "on", "Whether chains of elementwise operations on large tensors run together, when something needs their values: true (from 8,192 elements on, on devices from the first, as at the start), false, or from how many elements on. The numbers are the same, bit for bit; TYCHO_FUSE=0 turns it off for a whole run.", see = "torch.get_fusion, fusion"},
  {"torch.get_fusion", "", "Whether chains of elementwise operations run together, and from how many elements on.", see = "torch.set_fusion",
    example = "torch.get_fusion() --> true  8192"},
  {"torch.set_num_threads", "n", "How many threads of the CPU one operation may use.", see = "torch.get_num_threads"},
  {"torch.get_num_threads", "", "How many threads of the CPU one operation may use.", see = "torch.set_num_threads"},
}

-- --- pictures ---
add {
  {"torch.plot", "y | x, y, {title=nil, xlabel=nil, ylabel=nil, labels=nil, colours=nil, xlog=false, ylog=false, points=false, file=nil, width=nil, height=nil, font=nil, fontsize=13, linewidth=2}",
    "Draws curves in the terminal, or into a file that ends with .svg or .png: plot(y), plot(x, y), plot(x, y1, y2), plot{train=a, test=b}; at the prompt also `plot`. colours by position or name ({train=\"red\", test=\"#208040\"}); for papers plot(y, {file=\"loss.svg\", font=\"Times New Roman\", fontsize=16}).", see = "torch.figure, torch.hist, show"},
  {"torch.figure", "plots, {title=nil, file=nil, width=nil, height=nil, font=nil, fontsize=13, linewidth=2}",
    "Several plots in one figure, one below the other, in the terminal or a file: each a table of what plot takes, or a matrix or a picture. figure{{train=a, test=b, title=\"loss\"}, {accuracy=c}, file=\"run.svg\"}.", see = "torch.plot, show"},
  {"torch.hist", "x, bins=nil, {range=nil, log=false, title=nil, xlabel=nil, ylabel=nil, file=nil, width=nil, height=nil}",
    "Draws how often values occur, in the terminal or into a file that ends with .svg or .png; at the prompt also `hist`.", see = "torch.plot, histc"},
}

-- --- dtypes ---
for name, what in pairs {
  float32 = "Numbers of 32 bits with 7 digits: the usual type.", float64 = "Numbers of 64 bits with 16 digits.",
  float16 = "Numbers of 16 bits with 3 digits, up to 65504.", bfloat16 = "Numbers of 16 bits with 2 to 3 digits and float32's range.",
  int64 = "Integers of 64 bits: positions, labels, counts.", int32 = "Integers of 32 bits.", int16 = "Integers of 16 bits.",
  int8 = "Integers from -128 to 127.", uint8 = "Integers from 0 to 255: bytes, pixels.", bool = "true or false: masks.",
  float = "Another name of float32.", double = "Another name of float64.", half = "Another name of float16.",
  long = "Another name of int64.", int = "Another name of int32.", short = "Another name of int16.",
} do
  add {{"torch." .. name, "", what, see = "dtypes, to"}}
end

-- --- random numbers ---
add {
  {"torch.manual_seed", "seed", "Starts the random numbers afresh from a seed: the same seed gives the same numbers, those of PyTorch on the CPU.", see = "rand, torch.Generator, random",
    example = "torch.manual_seed(1);\ntorch.rand(2) --> f32 [2]   0.758  0.279"},
  {"torch.seed", "", "Starts the random numbers from a seed that differs each time, and returns it.", see = "torch.manual_seed"},
  {"torch.initial_seed", "", "The seed that the random numbers started from.", see = "torch.manual_seed"},
  {"torch.get_rng_state", "", "The state of the random numbers as a tensor of bytes.", see = "torch.set_rng_state"},
  {"torch.set_rng_state", "state", "Puts back a state that get_rng_state gave.", see = "torch.get_rng_state"},
  {"torch.Generator", "device=\"cpu\"", "A stream of random numbers of its own, for the argument `generator`; it has manual_seed, seed, initial_seed, get_state and set_state.", see = "torch.manual_seed, random"},
  {"torch.default_generator", "", "The stream that random operations use unless they are given one.", see = "torch.Generator"},
}

-- --- scopes and memory ---
add {
  {"torch.no_grad", "f=nil", "No gradients are recorded inside f, or until the scope's block ends: do local _ <close> = torch.no_grad() ... end.", see = "torch.enable_grad, torch.inference_mode, detach, scopes",
    example = "w = torch.tensor({2.0}, {requires_grad=true})\ntorch.no_grad(function() return w * 3 end) --> f32 [1]  6"},
  {"torch.enable_grad", "f=nil", "Gradients are recorded inside f, also within no_grad.", see = "torch.no_grad, scopes"},
  {"torch.set_grad_enabled", "on, f=nil", "Switches the recording of gradients, for f or for the rest of the block.", see = "torch.no_grad, scopes"},
  {"torch.inference_mode", "f=nil", "As no_grad; its tensors can never require grad, which saves a little more.", see = "torch.no_grad, scopes"},
  {"torch.is_grad_enabled", "", "Whether gradients are recorded now.", see = "torch.no_grad", example = "torch.is_grad_enabled() --> true"},
  {"torch.is_inference_mode_enabled", "", "Whether inference_mode is on.", see = "torch.inference_mode"},
  {"torch.autocast", "device_type, {dtype, enabled=true}, f=nil", "Inside f matrix products and convolutions run in a short type (bfloat16 unless given), sums and losses in float32.", see = "scopes, dtypes",
    example = "torch.autocast(\"cpu\", {dtype=\"bfloat16\"}, function() return torch.ones(2, 2):matmul(torch.ones(2, 2)).dtype end) --> torch.bfloat16"},
  {"torch.is_autocast_enabled", "", "Whether autocast is on.", see = "torch.autocast"},
  {"torch.get_autocast_dtype", "device_type", "The type that autocast computes in for a kind of device.", see = "torch.autocast", example = "torch.get_autocast_dtype(\"cpu\") --> torch.bfloat16"},
  {"torch.scope", "f=nil", "Frees every tensor made inside when it ends, except what is returned or stored in an object made outside.", see = "scopes, %mem"},
  {"torch.memory_allocated", "device=\"cpu\"", "Bytes that tensors hold.", see = "%mem, torch.max_memory_allocated"},
  {"torch.max_memory_allocated", "device=\"cpu\"", "The most bytes that tensors held at one time.", see = "torch.reset_peak_memory_stats"},
  {"torch.memory_reserved", "device=\"cpu\"", "Bytes taken from the system for tensors, those kept for reuse included.", see = "torch.empty_cache"},
  {"torch.reset_peak_memory_stats", "device=\"cpu\"", "max_memory_allocated counts from now on.", see = "torch.max_memory_allocated"},
  {"torch.empty_cache", "", "Gives memory that no tensor uses back to the system.", see = "torch.memory_reserved"},
}

add(require "torch.help_pages.devices")

-- --- gradients ---
add {
  {"torch.autograd.grad", "outputs, inputs, {grad_outputs, retain_graph, create_graph=false, allow_unused=false}", "The gradients of outputs with respect to inputs, as several values; .grad is left alone.", see = "backward, autograd",
    example = "x = torch.tensor({3.0}, {requires_grad=true})\ntorch.autograd.grad((x ^ 2):sum(), {x}) --> f32 [1]  6"},
  {"Tensor.backward", "gradient=nil, {retain_graph=false, create_graph=false, inputs=nil}", "Adds the gradient of this tensor (one number, or weighted by `gradient`) to .grad of every leaf that it was computed from.", see = "Tensor.grad, torch.autograd.grad, autograd",
    example = "x = torch.tensor({3.0}, {requires_grad=true})\n(x ^ 2):sum():backward();\nx.grad --> f32 [1]  6"},
  {"Tensor.register_hook", "f", "Calls f with the tensor's gradient in backward; what f returns replaces it. Returns a handle with remove().", see = "backward"},
  {"Tensor.retain_grad", "", "Keeps the gradient of a tensor that was computed, as leaves do.", see = "Tensor.grad"},
  {"Tensor.requires_grad_", "on=true", "Switches the recording of gradients for a leaf; returns the tensor.", see = "Tensor.requires_grad, detach",
    example = "torch.ones(2):requires_grad_().requires_grad --> true"},
  {"Tensor.requires_grad", "", "Whether gradients are computed for this tensor; assignable for leaves.", see = "Tensor.requires_grad_"},
  {"Tensor.grad", "", "The gradient that backward left, or nil; assignable: x.grad = nil.", see = "backward, Tensor.retain_grad"},
  {"Tensor.grad_fn", "", "Of a computed tensor: the operation that made it, as a table with name and where.", see = "%graph"},
  {"Tensor.is_leaf", "", "Whether the tensor was made by hand, not computed from one that requires grad.", see = "autograd"},
  {"Tensor.detach_", "", "Takes the tensor itself out of the graph.", see = "detach"},
  {"Tensor.data", "", "The same values outside of the graph; assignable, which gives the tensor other values.", see = "detach"},
}

-- --- what a tensor says of itself ---
add {
  {"Tensor.shape", "", "The sizes as a table that prints as [2, 3], compares with == and counts from 1.", see = "Tensor.size, view", example = "torch.zeros(2, 3).shape --> [2, 3]\ntorch.zeros(2, 3).shape[1] --> 2"},
  {"Tensor.dtype", "", "The element type.", see = "dtypes, to", example = "torch.ones(2).dtype --> torch.float32"},
  {"Tensor.device", "", "Where the tensor lies.", see = "devices, to", example = "torch.ones(2).device --> device cpu"},
  {"Tensor.ndim", "", "The number of dimensions.", see = "Tensor.dim", example = "torch.zeros(2, 3).ndim --> 2"},
  {"Tensor.is_cuda", "", "Whether the tensor lies on a CUDA device.", see = "devices"},
  {"Tensor.T", "", "The tensor with its dimensions in reverse order.", see = "t, Tensor.mT, permute", example = "torch.tensor{{1, 2}, {3, 4}}.T --> i64 [2, 2]  view  non-contiguous\n 1  3\n 2  4"},
  {"Tensor.mT", "", "The tensor with its last two dimensions exchanged.", see = "transpose, Tensor.T", example = "torch.zeros(5, 2, 3).mT.shape --> [5, 3, 2]"},
  {"Tensor.size", "dim=nil", "All sizes, or the size of one dimension.", see = "Tensor.shape, Tensor.numel", example = "torch.zeros(2, 3):size() --> [2, 3]\ntorch.zeros(2, 3):size(-1) --> 3"},
  {"Tensor.stride", "dim=nil", "How many elements lie between neighbours along each dimension.", see = "%layout, as_strided", example = "torch.zeros(2, 3):stride() --> [3, 1]"},
  {"Tensor.dim", "", "The number of dimensions.", see = "Tensor.ndim", example = "torch.zeros(2, 3):dim() --> 2"},
  {"Tensor.ndimension", "", "The number of dimensions.", see = "Tensor.dim"},
  {"Tensor.numel", "", "The number of elements.", see = "Tensor.size", example = "torch.zeros(2, 3):numel() --> 6"},
  {"Tensor.nelement", "", "The number of elements.", see = "Tensor.numel"},
  {"Tensor.is_contiguous", "", "Whether the elements lie in row-major order without gaps.", see = "contiguous, %layout", example = "torch.zeros(2, 3):t():is_contiguous() --> false"},
  {"Tensor.storage_offset", "", "How many elements of the storage lie before the first one.", see = "%layout", example = "torch.arange(5)[{{3, 5}}]:storage_offset() --> 2"},
  {"Tensor.element_size", "", "Bytes of one element.", see = "dtypes", example = "torch.ones(2):element_size() --> 4"},
  {"Tensor.data_ptr", "", "The address of the first element.", see = "%layout"},
  {"Tensor.is_floating_point", "", "Whether the elements are floating point numbers.", see = "dtypes", example = "torch.ones(2):is_floating_point() --> true"},
  {"Tensor.item", "", "The one element as a number or boolean of Lua.", see = "Tensor.tolist", example = "torch.tensor{{7}}:item() --> 7\n(torch.tensor{1, 2} * 1.5):sum():item() --> 4.5"},
  {"Tensor.tolist", "", "The elements as nested tables; of a 0-d tensor the number.", see = "Tensor.item, torch.tensor", example = "torch.tensor{{1, 2}, {3, 4}}:tolist()[2][1] --> 3"},
  {"Tensor.cpu", "", "The tensor on the CPU; itself when it lies there.", see = "to, devices"},
  {"Tensor.cuda", "number=nil", "The tensor on a CUDA device.", see = "to, devices"},
  {"Tensor.float", "", "The tensor as float32.", see = "to, dtypes", example = "torch.tensor{1, 2}:float() --> f32 [2]  1 2"},
  {"Tensor.double", "", "The tensor as float64.", see = "to, dtypes"},
  {"Tensor.half", "", "The tensor as float16.", see = "to, dtypes"},
  {"Tensor.bfloat16", "", "The tensor as bfloat16.", see = "to, dtypes"},
  {"Tensor.long", "", "The tensor as int64; fractions are cut off.", see = "to, dtypes", example = "torch.tensor{1.7, -1.7}:long() --> i64 [2]  1 -1"},
  {"Tensor.int", "", "The tensor as int32; fractions are cut off.", see = "to, dtypes"},
  {"Tensor.short", "", "The tensor as int16; fractions are cut off.", see = "to, dtypes"},
  {"Tensor.char", "", "The tensor as int8; fractions are cut off.", see = "to, dtypes"},
  {"Tensor.byte", "", "The tensor as uint8; fractions are cut off.", see = "to, dtypes"},
  {"Tensor.bool", "", "The tensor as bool: true where it is not zero.", see = "to, dtypes", example = "torch.tensor{0, 2}:bool() --> bool [2]  . #"},
}

-- --- layers ---
add {
  {"nn.Linear", "", "A layer of weights: x W^T + b over the last dimension, W [out, in].", rule = "[.., in] -> [.., out]", see = "nn.Sequential, F.linear",
    example = "nn.Linear(3, 2)(torch.ones(5, 3)).shape --> [5, 2]"},
  {"nn.Conv1d", "", "Convolution of signals.", rule = "[N, in, L] -> [N, out, (L + 2 padding - dilation (k - 1) - 1) // stride + 1]", see = "F.conv1d, nn.MaxPool1d",
    example = "nn.Conv1d(2, 4, 3)(torch.ones(1, 2, 8)).shape --> [1, 4, 6]"},
  {"nn.Conv2d", "", "Convolution of images.", rule = "[N, in, H, W] -> [N, out, (H + 2 padding - dilation (k - 1) - 1) // stride + 1, the same of W]", see = "F.conv2d, nn.MaxPool2d, nn.BatchNorm2d",
    example = "nn.Conv2d(3, 8, 3, {padding=1})(torch.ones(1, 3, 28, 28)).shape --> [1, 8, 28, 28]"},
  {"nn.Conv3d", "", "Convolution of volumes.", rule = "[N, in, D, H, W] -> [N, out, and each size (n + 2 padding - dilation (k - 1) - 1) // stride + 1]", see = "F.conv3d",
    example = "nn.Conv3d(1, 2, 3)(torch.ones(1, 1, 4, 4, 4)).shape --> [1, 2, 2, 2, 2]"},
  {"nn.Embedding", "", "A table of trained rows, found by id (from 1).", rule = "ids [..] -> [.., embedding_dim]", see = "F.embedding, F.one_hot",
    example = "nn.Embedding(10, 4)(torch.tensor{1, 10}).shape --> [2, 4]"},
  {"nn.Sequential", "", "Layers one after the other; net[2] is the second, #net their number, append adds one.", see = "nn.ModuleList, nn.class",
    example = "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\nnet(torch.ones(5, 4)).shape --> [5, 2]\n#net --> 3"},
  {"nn.ModuleList", "", "A list whose modules are registered, for a forward of one's own.", see = "nn.Sequential, nn.class"},
  {"nn.Module", "", "What all layers and networks share; make one with nn.class.", see = "nn.class, nn.Module.parameters, nn.Module.state_dict"},
  {"nn.functional", "", "Layers as plain functions, F at the prompt: F.relu(x), F.cross_entropy(scores, labels).", see = "modules, nn.Linear"},
}
local layers = {
  {"Identity", "", "Gives back its input."},
  {"ReLU", "", "Each element, or 0 where it is negative.", "relu"},
  {"Sigmoid", "", "1 / (1 + exp(-x)).", "sigmoid"},
  {"Tanh", "", "Hyperbolic tangent.", "tanh"},
  {"GELU", "", "x times the normal distribution's Phi(x).", "F.gelu"},
  {"SiLU", "", "x * sigmoid(x).", "F.silu"},
  {"LeakyReLU", "", "Each element, times a slope where negative.", "F.leaky_relu"},
  {"ELU", "", "Each element, or alpha * (exp(x) - 1) where negative.", "F.elu"},
  {"Softplus", "", "log(1 + exp(beta x)) / beta.", "F.softplus"},
  {"Softmax", "", "Positive numbers along a dimension that add up to 1.", "softmax"},
  {"LogSoftmax", "", "The logarithm of softmax.", "log_softmax"},
  {"Dropout", "", "In training, 0 with probability p and else scaled by 1 / (1 - p); in evaluation nothing.", "F.dropout"},
}
for _, row in ipairs(layers) do
  add {{"nn." .. row[1], row[2], row[3], rule = "any shape -> the same shape", see = row[4] or "nn.Sequential",
    example = ("nn.%s():eval()(torch.zeros(1, 2)).shape --> [1, 2]"):format(row[1])}}
end
add {
  {"nn.Flatten", "", "Makes dimensions into one; the first (the batch) stays.", rule = "[N, a, b, ..] -> [N, a * b * ..]", see = "flatten", example = "nn.Flatten()(torch.zeros(5, 2, 3)).shape --> [5, 6]"},
  {"nn.MaxPool1d", "", "The largest element of each window.", rule = "[.., C, L] -> [.., C, (L - kernel) // stride + 1]", see = "F.max_pool1d", example = "nn.MaxPool1d(2)(torch.zeros(1, 3, 8)).shape --> [1, 3, 4]"},
  {"nn.MaxPool2d", "", "The largest element of each window.", rule = "[.., C, H, W] -> [.., C, (H - kernel) // stride + 1, the same of W]", see = "F.max_pool2d", example = "nn.MaxPool2d(2)(torch.zeros(1, 3, 8, 8)).shape --> [1, 3, 4, 4]"},
  {"nn.AvgPool2d", "", "The mean of each window.", rule = "[.., C, H, W] -> [.., C, (H - kernel) // stride + 1, the same of W]", see = "F.avg_pool2d", example = "nn.AvgPool2d(2)(torch.zeros(1, 3, 8, 8)).shape --> [1, 3, 4, 4]"},
  {"nn.AdaptiveAvgPool2d", "", "The means of as many windows as the result is to have.", rule = "[.., C, H, W] -> [.., C, out_h, out_w]", see = "F.adaptive_avg_pool2d", example = "nn.AdaptiveAvgPool2d(1)(torch.zeros(2, 3, 8, 8)).shape --> [2, 3, 1, 1]"},
  {"nn.AdaptiveMaxPool2d", "", "The largest elements of as many windows as the result is to have.", rule = "[.., C, H, W] -> [.., C, out_h, out_w]", see = "F.adaptive_max_pool2d", example = "nn.AdaptiveMaxPool2d(1)(torch.zeros(2, 3, 8, 8)).shape --> [2, 3, 1, 1]"},
  {"nn.LayerNorm", "", "Brings every sample's last dimensions to mean 0 and variance 1.", rule = "[.., normalized_shape] -> the same shape", see = "F.layer_norm, nn.BatchNorm1d", example = "nn.LayerNorm(4)(torch.zeros(2, 4)).shape --> [2, 4]"},
  {"nn.BatchNorm1d", "", "Brings every feature to mean 0 and variance 1 over the batch; running averages serve in evaluation.", rule = "[N, C] or [N, C, L] -> the same shape", see = "F.batch_norm, nn.LayerNorm", example = "nn.BatchNorm1d(3)(torch.randn(4, 3)).shape --> [4, 3]"},
  {"nn.BatchNorm2d", "", "Brings every channel to mean 0 and variance 1 over the batch; running averages serve in evaluation.", rule = "[N, C, H, W] -> the same shape", see = "F.batch_norm, nn.Conv2d", example = "nn.BatchNorm2d(3)(torch.randn(2, 3, 4, 4)).shape --> [2, 3, 4, 4]"},
  {"nn.BatchNorm3d", "", "Brings every channel to mean 0 and variance 1 over the batch; running averages serve in evaluation.", rule = "[N, C, D, H, W] -> the same shape", see = "F.batch_norm, nn.Conv3d", example = "nn.BatchNorm3d(3)(torch.randn(2, 3, 2, 2, 2)).shape --> [2, 3, 2, 2, 2]"},
}

-- --- losses ---
for _, row in ipairs {
  {"CrossEntropyLoss", "", "-log softmax(scores) at the labels (from 1).", "F.cross_entropy", "torch.zeros(1, 4), torch.tensor{3}", "1.3863"},
  {"NLLLoss", "", "Minus the log-probability at the labels (from 1).", "F.nll_loss", "torch.tensor{{-0.5, -2.0}}, torch.tensor{1}", "0.5"},
  {"MSELoss", "", "The mean of (input - target)^2.", "F.mse_loss", "torch.tensor{1.0, 2.0}, torch.tensor{0.0, 4.0}", "2.5"},
  {"L1Loss", "", "The mean of |input - target|.", "F.l1_loss", "torch.tensor{1.0, 2.0}, torch.tensor{0.0, 4.0}", "1.5"},
  {"SmoothL1Loss", "", "L1Loss with a parabola near 0.", "F.smooth_l1_loss", "torch.tensor{0.5, 3.0}, torch.tensor{0.0, 0.0}", "1.3125"},
  {"HuberLoss", "", "Half the squared difference, and linear where it is larger than delta.", "F.huber_loss", "torch.tensor{0.5, 3.0}, torch.tensor{0.0, 0.0}", "1.3125"},
  {"BCELoss", "", "Cross entropy of probabilities and targets in [0, 1].", "F.binary_cross_entropy", "torch.tensor{0.5}, torch.tensor{1.0}", "0.69315"},
  {"BCEWithLogitsLoss", "", "Cross entropy of sigmoid(input) and targets in [0, 1], without overflow.", "F.binary_cross_entropy_with_logits", "torch.tensor{0.0}, torch.tensor{1.0}", "0.69315"},
  {"KLDivLoss", "", "Kullback-Leibler divergence; the input holds log-probabilities.", "F.kl_div", "torch.tensor{{0.5, 0.5}}:log(), torch.tensor{{0.5, 0.5}}", "0"},
} do
  add {{"nn." .. row[1], row[2], row[3], rule = "input and target -> []", see = row[4], example = ("nn.%s()(%s) --> f32 []  %s"):format(row[1], row[5], row[6])}}
end

-- --- training ---
add {
  {"optim.SGD", "params, {lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=false, maximize=false}", "Stochastic gradient descent, with momentum when asked.", see = "optim.Adam, optim.Optimizer.step, optim.Optimizer.zero_grad",
    example = "w = torch.tensor({1.0}, {requires_grad=true})\nopt = optim.SGD({w}, {lr=0.5})\n(w * 4):sum():backward();\nopt:step();\nw:detach() --> f32 [1]  -1"},
  {"optim.Adam", "params, {lr=0.001, betas={0.9, 0.999}, eps=1e-8, weight_decay=0, amsgrad=false, maximize=false}", "Adam: steps scaled by running averages of the gradients and their squares.", see = "optim.AdamW, optim.SGD"},
  {"optim.AdamW", "params, {lr=0.001, betas={0.9, 0.999}, eps=1e-8, weight_decay=0.01, amsgrad=false, maximize=false}", "Adam with weight decay apart from the gradient.", see = "optim.Adam, optim.SGD"},
  {"optim.Adamax", "params, {lr=0.002, betas={0.9, 0.999}, eps=1e-8, weight_decay=0, maximize=false}", "Adam with the largest recent gradient in place of the averaged square.", see = "optim.Adam"},
  {"optim.NAdam", "params, {lr=0.002, betas={0.9, 0.999}, eps=1e-8, weight_decay=0, momentum_decay=0.004, decoupled_weight_decay=false, maximize=false}", "Adam with Nesterov's momentum.", see = "optim.Adam"},
  {"optim.RAdam", "params, {lr=0.001, betas={0.9, 0.999}, eps=1e-8, weight_decay=0, decoupled_weight_decay=false, maximize=false}", "Adam that starts with plain steps until its averages can be trusted.", see = "optim.Adam"},
  {"optim.RMSprop", "params, {lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=false, maximize=false}", "Steps divided by the root of a running average of squared gradients.", see = "optim.Adam, optim.Adagrad"},
  {"optim.Adagrad", "params, {lr=0.01, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, maximize=false}", "Steps divided by the root of the sum of all squared gradients.", see = "optim.RMSprop, optim.Adadelta"},
  {"optim.Adadelta", "params, {lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, maximize=false}", "Steps scaled by running averages of earlier steps and gradients; no rate to choose.", see = "optim.RMSprop"},
  {"optim.ASGD", "params, {lr=0.01, lambd=0.0001, alpha=0.75, t0=1e6, weight_decay=0, maximize=false}", "Gradient descent that also averages the weights (state.ax).", see = "optim.SGD"},
  {"optim.Rprop", "params, {lr=0.01, etas={0.5, 1.2}, step_sizes={1e-6, 50}, maximize=false}", "A step size for each weight, grown and shrunk by the gradient's sign; for whole batches.", see = "optim.SGD"},
  {"optim.LBFGS", "params, {lr=1, max_iter=20, max_eval=25, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, line_search_fn=nil}", "A quasi-Newton method; step takes a closure that computes the loss and its gradients.", see = "optim.SGD, optim.Optimizer.step",
    example = "x = torch.zeros(2, {requires_grad=true})\nopt = optim.LBFGS({x}, {line_search_fn=\"strong_wolfe\"})\nopt:step(function() opt:zero_grad() loss = ((x - 3) ^ 2):sum() loss:backward() return loss end);\nx:detach() --> f32 [2]  3 3"},
  {"optim.lr_scheduler.LambdaLR", "optimizer, lr_lambda", "The first rate times a function of the epoch (from 0).", see = "optim.lr_scheduler.MultiplicativeLR"},
  {"optim.lr_scheduler.MultiplicativeLR", "optimizer, lr_lambda", "The current rate times a function of the epoch, each epoch.", see = "optim.lr_scheduler.LambdaLR"},
  {"optim.lr_scheduler.StepLR", "optimizer, step_size, gamma=0.1", "The rate times gamma every step_size epochs.", see = "optim.lr_scheduler.MultiStepLR, optim.lr_scheduler.ExponentialLR",
    example = "opt = optim.SGD({torch.ones(1, {requires_grad=true})}, {lr=0.5})\nscheduler = optim.lr_scheduler.StepLR(opt, {step_size=1, gamma=0.5})\nopt:step();\nscheduler:step()\nopt.param_groups[1].lr --> 0.25"},
  {"optim.lr_scheduler.MultiStepLR", "optimizer, milestones, gamma=0.1", "The rate times gamma at each milestone (epochs done).", see = "optim.lr_scheduler.StepLR"},
  {"optim.lr_scheduler.ConstantLR", "optimizer, factor=1/3, total_iters=5", "A smaller rate for the first epochs.", see = "optim.lr_scheduler.LinearLR"},
  {"optim.lr_scheduler.LinearLR", "optimizer, start_factor=1/3, end_factor=1.0, total_iters=5", "A warm-up: the rate grows in a straight line.", see = "optim.lr_scheduler.SequentialLR"},
  {"optim.lr_scheduler.ExponentialLR", "optimizer, gamma", "The rate times gamma every epoch.", see = "optim.lr_scheduler.StepLR"},
  {"optim.lr_scheduler.PolynomialLR", "optimizer, total_iters=5, power=1.0", "The rate falls to 0 as a power of the epochs left.", see = "optim.lr_scheduler.LinearLR"},
  {"optim.lr_scheduler.CosineAnnealingLR", "optimizer, T_max, eta_min=0", "The rate falls along half a cosine in T_max epochs.", see = "optim.lr_scheduler.CosineAnnealingWarmRestarts"},
  {"optim.lr_scheduler.CosineAnnealingWarmRestarts", "optimizer, T_0, T_mult=1, eta_min=0", "Half cosines that start again, each T_mult times as long.", see = "optim.lr_scheduler.CosineAnnealingLR"},
  {"optim.lr_scheduler.OneCycleLR", "optimizer, max_lr, total_steps=nil, epochs=nil, steps_per_epoch=nil, pct_start=0.3, anneal_strategy=\"cos\", cycle_momentum=true, base_momentum=0.85, max_momentum=0.95, div_factor=25, final_div_factor=1e4, three_phase=false", "One cycle up to max_lr and far down, the momentum against it; a step for each batch.", see = "optim.lr_scheduler.CyclicLR"},
  {"optim.lr_scheduler.CyclicLR", "optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=nil, mode=\"triangular\", gamma=1, scale_fn=nil, scale_mode=\"cycle\", cycle_momentum=true, base_momentum=0.8, max_momentum=0.9", "The rate goes up and down between two bounds; a step for each batch.", see = "optim.lr_scheduler.OneCycleLR"},
  {"optim.lr_scheduler.ReduceLROnPlateau", "optimizer, mode=\"min\", factor=0.1, patience=10, threshold=1e-4, threshold_mode=\"rel\", cooldown=0, min_lr=0, eps=1e-8", "The rate falls when the number given to step no longer gets better.", see = "optim.lr_scheduler.StepLR"},
  {"optim.lr_scheduler.SequentialLR", "optimizer, schedulers, milestones", "Schedules one after the other, the next from each milestone on.", see = "optim.lr_scheduler.ChainedScheduler"},
  {"optim.lr_scheduler.ChainedScheduler", "schedulers, optimizer=nil", "Several schedules at once: each changes what the others made of the rate.", see = "optim.lr_scheduler.SequentialLR"},
  {"optim.swa_utils.AveragedModel", "model, {device=nil, avg_fn=nil, multi_avg_fn=nil, use_buffers=false}", "A copy of a model that holds averages of its weights: update_parameters(model) after each step.", see = "optim.swa_utils.get_ema_multi_avg_fn, optim.swa_utils.update_bn",
    example = "net = nn.Linear(1, 1)\nema = optim.swa_utils.AveragedModel(net, {multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9)})\nema:update_parameters(net)\nema.n_averaged:item() --> 1"},
  {"optim.swa_utils.SWALR", "optimizer, swa_lr, anneal_epochs=10, anneal_strategy=\"cos\"", "Brings the rate to swa_lr and keeps it there.", see = "optim.swa_utils.AveragedModel"},
  {"data.Dataset", "", "The base of datasets: data.class(\"Set\"), then Set:get(i) (i from 1) and Set:__len().", see = "data.DataLoader, data.TensorDataset"},
  {"data.TensorDataset", "tensor, tensor, ..", "Tensors of the same first size; item i is {t1[i], t2[i], ..}.", see = "data.DataLoader", example = "#data.TensorDataset(torch.zeros(5, 2), torch.ones(5)) --> 5"},
  {"data.Subset", "dataset, indices", "Some items of another dataset, by position.", see = "data.TensorDataset"},
  {"data.DataLoader", "dataset, {batch_size=1, shuffle=false, num_workers=0, pin_memory=false, drop_last=false, sampler=nil, batch_sampler=nil, collate_fn=nil, generator=nil, timeout=0, worker_init_fn=nil, prefetch_factor=2, persistent_workers=false, in_order=true}",
    "Batches of a dataset: for x, y in loader() do .. end. num_workers threads load them ahead, in the same order; each has a copy of the dataset and of what its functions use (tensors are shared), and random numbers of its own.",
    see = "data.TensorDataset, data.default_collate, data.get_worker_info",
    example = "loader = data.DataLoader(data.TensorDataset(torch.zeros(5, 2)), {batch_size=2})\n#loader --> 3\nfor x in loader() do shape = x.shape end\nshape --> [1, 2]"},
  {"data.ConcatDataset", "datasets", "Several datasets, one after the other; a + b makes one too.", see = "data.Subset, data.random_split",
    example = "a, b = data.TensorDataset(torch.zeros(5)), data.TensorDataset(torch.ones(3))\n#data.ConcatDataset{a, b} --> 8"},
  {"data.get_worker_info", "", "In a worker of a loader: {id = 1 to num_workers, num_workers =, seed =, dataset = its copy}; elsewhere nil.", see = "data.DataLoader, data.IterableDataset", example = "data.get_worker_info() --> nil"},
  {"data.IterableDataset", "", "The base of datasets read in order: define Set:iter(), which returns an iterator function.", see = "data.DataLoader, data.Dataset"},
  {"data.ChainDataset", "datasets", "Datasets read in order, one after the other.", see = "data.IterableDataset"},
  {"data.Sampler", "", "The base of samplers: define Mine:iter(), which returns an iterator function, and Mine:__len().", see = "data.RandomSampler"},
  {"data.SequentialSampler", "dataset", "The positions 1 to n in order.", see = "data.RandomSampler"},
  {"data.RandomSampler", "dataset, {replacement=false, num_samples=nil, generator=nil}", "The positions 1 to n in random order, or num_samples of them.", see = "randperm, data.WeightedRandomSampler"},
  {"data.SubsetRandomSampler", "indices, generator=nil", "The given positions in random order.", see = "data.RandomSampler"},
  {"data.WeightedRandomSampler", "weights, num_samples, replacement=true, generator=nil", "Positions drawn with probabilities in proportion to weights: for classes of uneven size.", see = "multinomial, data.RandomSampler"},
  {"data.BatchSampler", "sampler, batch_size, drop_last=false", "Batches of another sampler's positions: DataLoader's batch_sampler.", see = "data.DataLoader"},
  {"data.DistributedSampler", "dataset, {num_replicas, rank, shuffle=true, seed=0, drop_last=false, shares=nil}", "One process's share of a dataset, which is shuffled the same on all; set_epoch(n) shuffles anew. num_replicas and rank are the process group's unless given; shares = {2, 1} gives rank 0 two of every three items.", see = "data.RandomSampler, nn.parallel.DistributedDataParallel",
    example = "s = data.DistributedSampler(data.TensorDataset(torch.arange(5)), {num_replicas=2, rank=1, shuffle=false})\nlist = {}\nfor i in s() do list[#list + 1] = i end\ntable.concat(list, \" \") --> \"2 4 1\""},
  {"data.distributed.DistributedSampler", "dataset, {num_replicas, rank, shuffle=true, seed=0, drop_last=false, shares=nil}", "Another name of data.DistributedSampler.", see = "data.DistributedSampler"},
  {"nn.parallel.DistributedDataParallel", "module, {process_group=nil, broadcast_buffers=true, bucket_cap_mb=nil, shares=nil, init_sync=true, device_ids=nil}", "A module whose gradients are the mean over all ranks: each has the whole network and other batches, and all take the same steps. Parameters and buffers become rank 0's. Gradients travel in buckets (bucket_cap_mb, 4 on the CPU) while backward goes on. Parameters that a loss does not lead to need no option; PyTorch's find_unused_parameters, gradient_as_bucket_view and static_graph are taken and change nothing. Save net.module:state_dict() on rank 0.", see = "nn.parallel.DistributedDataParallel.no_sync, nn.parallel.DistributedDataParallel.join, data.DistributedSampler, nn.SyncBatchNorm"},
  {"torch.amp.autocast", "device_type, {dtype, enabled=true}, f=nil", "Another name of torch.autocast: a stretch of code where operations choose their types.", see = "torch.autocast, torch.amp.GradScaler"},
  {"torch.amp.GradScaler", "device=nil, {init_scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=2000, enabled=true}", "Scales losses so that float16 gradients do not vanish; skips steps with inf or nan and adapts the scale.", see = "torch.autocast",
    example = "scaler = torch.amp.GradScaler(\"cpu\", {init_scale=4})\nw = torch.ones(1, {requires_grad=true})\nopt = optim.SGD({w}, {lr=0.5})\nscaler:scale((w * 2):sum()):backward()\nscaler:step(opt);\nscaler:update()\nw:detach() --> f32 [1]  0"},
  {"torch.models.resnet50", "num_classes=1000, zero_init_residual=false, groups=1, width_per_group=64, weights=nil", "The residual network of 50 layers; resnet18, resnet34, resnet101, resnet152, wide_resnet50_2 and resnext50_32x4d are its relatives. Names and shapes are torchvision's.", rule = "[N, 3, H, W] -> [N, num_classes]", see = "torch.models.vgg16, torch.models.vit_b_16",
    example = "net = torch.models.resnet18{num_classes=10}:eval()\nnet(torch.zeros(1, 3, 32, 32)).shape --> [1, 10]"},
  {"torch.models.vgg16", "num_classes=1000, dropout=0.5, weights=nil", "VGG with 16 layers; vgg11, vgg13, vgg19 and those with batch normalisation (vgg16_bn, ..) are its relatives. Names and shapes are torchvision's.", rule = "[N, 3, H, W] -> [N, num_classes]", see = "torch.models.resnet50"},
  {"torch.models.vit_b_16", "num_classes=1000, image_size=224, dropout=0.0, attention_dropout=0.0, weights=nil", "The vision transformer of base size with patches of 16; vit_b_32, vit_l_16 and vit_l_32 are its relatives. Names and shapes are torchvision's.", rule = "[N, 3, 224, 224] -> [N, num_classes]", see = "torch.models.VisionTransformer"},
  {"torch.models.VisionTransformer", "image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, dropout=0.0, attention_dropout=0.0, num_classes=1000", "A vision transformer of one's own sizes.", see = "torch.models.vit_b_16",
    example = "vit = torch.models.VisionTransformer(32, 8, 2, 4, 32, 64, {num_classes=10})\nvit(torch.zeros(1, 3, 32, 32)).shape --> [1, 10]"},
  {"torch.models.GPT", "vocab_size=50257, block_size=1024, n_layer=12, n_head=12, n_embd=768, dropout=0.0, bias=true", "A transformer that continues sequences of tokens (counted from 1): scores, loss = gpt(ids, targets); gpt:generate(ids, count, {temperature, top_k}). Names and shapes are nanoGPT's.", rule = "tokens [N, T] -> scores [N, T, vocab_size]", see = "F.scaled_dot_product_attention",
    example = "gpt = torch.models.GPT{vocab_size=11, block_size=8, n_layer=1, n_head=2, n_embd=4}\ngpt(torch.tensor{{1, 2, 3}}).shape --> [1, 3, 11]"},
}

add(require "torch.help_pages.compatibility")
add(require "torch.help_pages.pictures")
add(require "torch.help_pages.processes")
add(require "torch.help_pages.progress")
add(require "torch.help_pages.metrics")

return pages
