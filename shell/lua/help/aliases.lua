-- Names of PyTorch, NumPy, Torch7 and Python that are not Tycho's, with what to write here. Only help
-- knows them. {name, of, what to write here, page where that text does not name it}
local rows = {
  -- Torch7
  {"cmul", "Torch7", "a * b", "mul"}, {"cdiv", "Torch7", "a / b", "div"}, {"cadd", "Torch7", "a + b", "add"},
  {"csub", "Torch7", "a - b", "sub"}, {"cpow", "Torch7", "a ^ b", "pow"}, {"cmin", "Torch7", "torch.minimum(a, b)"},
  {"cmax", "Torch7", "torch.maximum(a, b)"}, {"cinv", "Torch7", "1 / x", "reciprocal"}, {"cfmod", "Torch7", "a:fmod(b)"},
  {"cremainder", "Torch7", "a % b", "remainder"}, {"nElement", "Torch7", "x:numel()"}, {"nDimension", "Torch7", "x:dim()"},
  {"isSize", "Torch7", "x.shape == y.shape", "Tensor.shape"}, {"sameSize", "Torch7", "x.shape == y.shape", "Tensor.shape"}, {"isSameSizeAs", "Torch7", "x.shape == y.shape", "Tensor.shape"},
  {"resize", "Torch7", "x:reshape(sizes), or torch.zeros(sizes)"}, {"resizeAs", "Torch7", "x:reshape_as(y)"},
  {"repeatTensor", "Torch7", "x:tile(2, 3)"}, {"indexSelect", "Torch7", "x:index_select(dim, ids)"}, {"index", "Torch7", "x[ids], x:index_select(dim, ids)"},
  {"maskedSelect", "Torch7", "x[mask]", "masked_select"}, {"maskedFill", "Torch7", "x:masked_fill(mask, value)"}, {"maskedCopy", "Torch7", "x:masked_scatter(mask, source)"},
  {"indexCopy", "Torch7", "x:index_copy_(dim, ids, source)"}, {"indexAdd", "Torch7", "x:index_add_(dim, ids, source)"}, {"indexFill", "Torch7", "x:index_fill_(dim, ids, value)"},
  {"isContiguous", "Torch7", "x:is_contiguous()"}, {"typeAs", "Torch7", "x:to(y.dtype)"}, {"storageOffset", "Torch7", "x:storage_offset()"},
  {"elementSize", "Torch7", "x:element_size()"}, {"manualSeed", "Torch7", "torch.manual_seed(1)"}, {"setdefaulttensortype", "Torch7", "torch.set_default_dtype(\"float64\")"},
  {"ger", "Torch7", "torch.outer(a, b)"}, {"mse", "Torch7", "F.mse_loss(y, target)"}, {"range", "Torch7", "torch.arange(from, to + 1)"},
  {"Tensor", "Torch7", "torch.tensor{1, 2}, torch.zeros(2, 3)"}, {"FloatTensor", "Torch7", "torch.tensor{1.0, 2.0}, x:float()"}, {"DoubleTensor", "Torch7", "torch.tensor({1, 2}, {dtype=\"float64\"})"},
  {"LongTensor", "Torch7", "torch.tensor{1, 2}"}, {"ByteTensor", "Torch7", "torch.tensor({1, 2}, {dtype=\"uint8\"})"}, {"CudaTensor", "Torch7", "x:cuda()", "devices"},
  {"SpatialConvolution", "Torch7", "nn.Conv2d(in, out, kernel)", "nn.Conv2d"}, {"SpatialMaxPooling", "Torch7", "nn.MaxPool2d(kernel)", "nn.MaxPool2d"}, {"SpatialBatchNormalization", "Torch7", "nn.BatchNorm2d(channels)", "nn.BatchNorm2d"},
  {"ClassNLLCriterion", "Torch7", "nn.NLLLoss()"}, {"CrossEntropyCriterion", "Torch7", "nn.CrossEntropyLoss()"}, {"MSECriterion", "Torch7", "nn.MSELoss()"},
  {"BCECriterion", "Torch7", "nn.BCELoss()"}, {"LookupTable", "Torch7", "nn.Embedding(n, size)"}, {"updateOutput", "Torch7", "net(x), function Net:forward(x)", "nn.class"},
  {"updateGradInput", "Torch7", "loss:backward()", "autograd"}, {"accGradParameters", "Torch7", "loss:backward()", "autograd"}, {"zeroGradParameters", "Torch7", "opt:zero_grad()", "training"},
  {"updateParameters", "Torch7", "opt:step()", "training"}, {"getParameters", "Torch7", "net:parameters()"}, {"Parallel", "Torch7", "a class of your own with two branches", "nn.class"},
  {"LogSoftMax", "Torch7", "nn.LogSoftmax(dim)"}, {"SoftMax", "Torch7", "nn.Softmax(dim)"}, {"View", "Torch7", "nn.Flatten(), x:view(sizes)"},
  {"Reshape", "Torch7", "nn.Flatten(), x:reshape(sizes)"}, {"training", "Torch7", "net:train()", "training"}, {"evaluate", "Torch7", "net:eval()"},
  -- NumPy
  {"concatenate", "NumPy", "torch.cat({a, b}, dim)"}, {"expand_dims", "NumPy", "x:unsqueeze(dim)"}, {"newaxis", "NumPy", "x[{{}, torch.newaxis}]"},
  {"ndarray", "NumPy", "torch.tensor{..}"}, {"array", "NumPy", "torch.tensor{..}"}, {"asarray", "NumPy", "torch.tensor{..}"},
  {"astype", "NumPy", "x:to(\"float32\")"}, {"size", "NumPy", "x:numel()"}, {"axis", "NumPy", "dim (axis is accepted too)", "calls"},
  {"keepdims", "NumPy", "keepdim=true", "calls"}, {"power", "NumPy", "a ^ b", "pow"}, {"mod", "NumPy", "a % b", "remainder"},
  {"invert", "NumPy", "~x", "bitwise_not"}, {"arccos", "NumPy", "x:acos()"}, {"inverse", "NumPy", "torch.linalg.inv(x)", "linalg"},
  {"amax", "NumPy", "x:amax(dim)"}, {"ptp", "NumPy", "x:amax() - x:amin()", "aminmax"}, {"average", "NumPy", "x:mean(dim)"},
  {"product", "NumPy", "x:prod()"}, {"cumproduct", "NumPy", "x:cumprod(dim)"}, {"argpartition", "NumPy", "x:topk(k)"},
  {"partition", "NumPy", "x:topk(k)"}, {"lexsort", "NumPy", "x:argsort{stable=true}, last key first", "argsort"}, {"flatnonzero", "NumPy", "x:ravel():nonzero():squeeze(2)", "nonzero"},
  {"extract", "NumPy", "x[mask]", "masked_select"}, {"putmask", "NumPy", "x[mask] = value", "masked_fill"}, {"choose", "NumPy", "torch.where(mask, a, b)"},
  {"select_axis", "NumPy", "x:select(dim, i)"}, {"rollaxis", "NumPy", "x:movedim(from, to)"}, {"append", "NumPy", "torch.cat{a, b}"},
  {"copyto", "NumPy", "x:copy_(y)"}, {"zeros_like", "NumPy", "torch.zeros_like(x)"}, {"identity", "NumPy", "torch.eye(n)"},
  {"mgrid", "NumPy", "torch.meshgrid(a, b)"}, {"digitize", "NumPy", "torch.bucketize(x, boundaries)"}, {"histogram", "NumPy", "x:histc(bins, low, high)"},
  {"nan_to_num", "NumPy", "x:nan_to_num()"}, {"in1d", "NumPy", "torch.isin(a, b)"}, {"interp", "NumPy", "torch.lerp(a, b, weight)"},
  {"random.seed", "NumPy", "torch.manual_seed(1)"}, {"choice", "NumPy", "torch.multinomial(weights, n), x[torch.randperm(#x)[{{1, n}}]]"}, {"shuffle", "NumPy", "x[torch.randperm(#x)]"},
  {"permutation", "NumPy", "torch.randperm(n)"}, {"reshape", "NumPy", "x:reshape(sizes)"}, {"transpose", "NumPy", "x:permute(dims), x:t()"},
  -- PyTorch and Python
  {"len", "Python", "#x", "operators"}, {"None", "Python", "nil, or torch.none where None must be said"}, {"True", "Python", "true", "true"},
  {"False", "Python", "false", "false"}, {"def", "Python", "function f(x) ... end", "function"}, {"import", "Python", "local m = require \"m\"", "require"},
  {"lambda", "Python", "function(x) return x end", "function"}, {"elif", "Python", "elseif", "elseif"}, {"enumerate", "Python", "for i, v in ipairs(list) do", "ipairs"},
  {"isinstance", "Python", "type(v), torch.is_tensor(v)", "type"}, {"str", "Python", "tostring(v)", "tostring"}, {"dict", "Python", "{name=value}", "pairs"},
  {"list", "Python", "{1, 2, 3}", "ipairs"}, {"try", "Python", "local ok, err = pcall(f)", "pcall"}, {"except", "Python", "local ok, err = pcall(f)", "pcall"},
  {"raise", "Python", "error(value)", "error"}, {"with", "Python", "torch.no_grad(function() ... end), do local _ <close> = ... end", "scopes"}, {"self", "Python", "function Net:forward(x) gives self", "nn.class"},
  {"class", "Python", "local Net = nn.class(\"Net\")"}, {"from_numpy", "PyTorch", "torch.load(\"file.npy\")"}, {"numpy", "PyTorch", "x:tolist(), torch.save(x, \"file.npy\")", "torch.save"},
  {"as_tensor", "PyTorch", "torch.tensor{..}"}, {"from_dlpack", "PyTorch", "torch.load(\"file.npy\")"}, {"type", "PyTorch", "x:to(dtype), x.dtype"},
  {"type_as", "PyTorch", "x:to(y.dtype)"}, {"nelement", "PyTorch", "x:numel()"}, {"detach_", "PyTorch", "x = x:detach()"},
  {"view_copy", "PyTorch", "x:view(sizes):clone()"}, {"repeat", "PyTorch", "x:tile(2, 3) (repeat is a word of Lua)"}, {"end", "PyTorch", "stop=, or [\"end\"]= (end is a word of Lua)", "arange"},
  {"__matmul__", "PyTorch", "a:matmul(b) (Lua has no @)"}, {"item", "PyTorch", "x:item()"}, {"requires_grad_", "PyTorch", "x:requires_grad_()"},
  {"zero_grad", "PyTorch", "opt:zero_grad()", "training"}, {"save_for_backward", "PyTorch", "ctx:save_for_backward(x)", "torch.autograd.Function"},
  {"functional", "PyTorch", "F at the prompt, torch.nn.functional in scripts"}, {"compile", "PyTorch", "nothing: call the function as it is", "modules"},
}

-- The page is that of the first function, method or class in the text.
local function page_of(text)
  local method, at = text:match ":([%a_]+)%(", text:find ":[%a_]+%("
  for _, space in ipairs {"torch", "nn", "F", "optim", "data"} do
    local from, _, path = text:find("%f[%w]" .. space .. "%.([%a_.]+)")
    if from and (not at or from < at) then return space .. "." .. path end
  end
  return method
end
for _, row in ipairs(rows) do row[4] = row[4] or page_of(row[3]) end

return rows
