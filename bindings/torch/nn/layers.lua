-- Layers of torch.nn. Each is a row: its arguments with defaults, how it is made and what it computes.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F = nn.functional
local init, Parameter = nn.init, nn.Parameter

-- Arguments of a constructor by position and by name: args("Linear", {"in_features", ...}, {bias = true}, ...)
local function args(name, names, defaults, ...)
  local given, out = table.pack(...), {}
  local last = given[given.n]
  local named
  if type(last) == "table" and getmetatable(last) == nil then
    for k in pairs(last) do
      if type(k) == "string" then named = last end
    end
  end
  local positional = {}
  for i = 1, given.n - (named and 1 or 0) do positional[i] = given[i] end
  local count = given.n - (named and 1 or 0)
  if named then
    for _, v in ipairs(named) do
      count = count + 1
      positional[count] = v
    end
  end
  if count > #names then
    error(("%s: takes at most %d arguments (%s), not %d"):format(name, #names, table.concat(names, ", "), count), 3)
  end
  for i, n in ipairs(names) do out[n] = positional[i] end
  if named then
    for k, v in pairs(named) do
      if type(k) == "string" then
        local known = false
        for _, n in ipairs(names) do known = known or n == k end
        if not known then
          error(('%s: no argument "%s" (it has: %s)'):format(name, k, table.concat(names, ", ")), 3)
        end
        if out[k] ~= nil then error(('%s: argument "%s" is given twice'):format(name, k), 3) end
        out[k] = v
      end
    end
  end
  for _, n in ipairs(names) do
    if out[n] == nil then
      if defaults[n] == nil then error(('%s: argument "%s" is missing'):format(name, n), 3) end
      out[n] = defaults[n]
    end
  end
  return out
end
nn._args = args

local function pair(v, n)
  if type(v) == "table" then return v end
  local list = {}
  for i = 1, n do list[i] = v end
  return list
end
local function shown(v)
  if type(v) ~= "table" then return tostring(v) end
  local parts = {}
  for i, x in ipairs(v) do parts[i] = tostring(x) end
  return "{" .. table.concat(parts, ", ") .. "}"
end
local function none_to_nil(v) if v == torch.none then return nil end return v end

-- The default of Linear and Conv: uniform in 1/sqrt(fan_in), as PyTorch's reset_parameters.
local function reset(self)
  init.kaiming_uniform_(self.weight, {a = math.sqrt(5)})
  if self.bias then
    local fan_in = init._calculate_fan_in_and_fan_out(self.weight)
    local bound = fan_in > 0 and 1 / math.sqrt(fan_in) or 0
    init.uniform_(self.bias, -bound, bound)
  end
end

-- nn.Linear(in_features, out_features, {bias=true}): x W^T + b over the last dimension.
local Linear = nn.class("Linear")
nn.Linear = Linear
function Linear:init(...)
  local a = args("Linear", {"in_features", "out_features", "bias", "device", "dtype"},
    {bias = true, device = "cpu", dtype = torch.get_default_dtype()}, ...)
  local make = {dtype = a.dtype, device = a.device}
  rawset(self, "in_features", a.in_features)
  rawset(self, "out_features", a.out_features)
  self.weight = Parameter(torch.empty({a.out_features, a.in_features}, make))
  if a.bias then self.bias = Parameter(torch.empty({a.out_features}, make)) end
  reset(self)
end
function Linear:forward(x) return F.linear(x, self.weight, self.bias) end
function Linear:extra_repr()
  return ("in_features=%d, out_features=%d, bias=%s"):format(self.in_features, self.out_features, self.bias ~= nil)
end

-- Convolutions: one row per name.
for _, row in ipairs {
  {"Conv1d", 1, F.conv1d}, {"Conv2d", 2, F.conv2d}, {"Conv3d", 3, F.conv3d},
} do
  local name, dims, f = row[1], row[2], row[3]
  local Conv = nn.class(name)
  nn[name] = Conv
  function Conv:init(...)
    local a = args(name, {"in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"},
      {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true}, ...)
    if a.in_channels % a.groups ~= 0 or a.out_channels % a.groups ~= 0 then
      error(("%s: %d input and %d output channels do not divide into %d groups"):format(name, a.in_channels, a.out_channels, a.groups), 3, "shape")
    end
    local kernel = pair(a.kernel_size, dims)
    for k, v in pairs(a) do rawset(self, k ~= "bias" and k or "_", v) end
    rawset(self, "kernel_size", kernel)
    rawset(self, "stride", pair(a.stride, dims))
    rawset(self, "padding", type(a.padding) == "string" and a.padding or pair(a.padding, dims))
    rawset(self, "dilation", pair(a.dilation, dims))
    local shape = {a.out_channels, a.in_channels // a.groups}
    for _, k in ipairs(kernel) do shape[#shape + 1] = k end
    self.weight = Parameter(torch.empty(shape))
    if a.bias then self.bias = Parameter(torch.empty({a.out_channels})) end
    reset(self)
  end
  function Conv:forward(x)
    return f(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
  end
  function Conv:extra_repr()
    return ("%d, %d, kernel_size=%s, stride=%s, padding=%s%s"):format(self.in_channels, self.out_channels,
      shown(self.kernel_size), shown(self.stride), shown(self.padding), self.bias and "" or ", bias=false")
  end
end

-- Batch normalisation (Ioffe and Szegedy 2015).
for _, name in ipairs {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"} do
  local BatchNorm = nn.class(name)
  nn[name] = BatchNorm
  function BatchNorm:init(...)
    local a = args(name, {"num_features", "eps", "momentum", "affine", "track_running_stats"},
      {eps = 1e-5, momentum = 0.1, affine = true, track_running_stats = true}, ...)
    for k, v in pairs(a) do rawset(self, k, v) end
    if a.affine then
      self.weight = Parameter(torch.ones(a.num_features))
      self.bias = Parameter(torch.zeros(a.num_features))
    end
    if a.track_running_stats then
      self:register_buffer("running_mean", torch.zeros(a.num_features))
      self:register_buffer("running_var", torch.ones(a.num_features))
      self:register_buffer("num_batches_tracked", torch.tensor(0))
    end
  end
  function BatchNorm:forward(x)
    local want = name == "BatchNorm1d" and {2, 3} or name == "BatchNorm2d" and {4, 4} or {5, 5}
    if x.ndim < want[1] or x.ndim > want[2] then
      error(("%s: wants %s dimensions, not shape %s"):format(name,
        want[1] == want[2] and want[1] or "2 or 3", tostring(x.shape)), 2, "shape")
    end
    local training = self.training or not self.track_running_stats
    local momentum = none_to_nil(self.momentum)
    if self.training then torch._training(name) end
    if self.training and self.track_running_stats then
      self.num_batches_tracked:add_(1)
      momentum = momentum or 1 / self.num_batches_tracked:item()
    end
    return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training, momentum or 0, self.eps)
  end
  function BatchNorm:extra_repr()
    return ("%d, eps=%g, momentum=%s, affine=%s"):format(self.num_features, self.eps, tostring(self.momentum), tostring(self.affine))
  end
end

-- Layers without parameters: name, argument names, defaults, forward.
local plain = {
  {"Identity", {}, {}, function(_, x) return x end},
  {"ReLU", {"inplace"}, {inplace = false}, function(_, x) return F.relu(x) end},
  {"Sigmoid", {}, {}, function(_, x) return torch.sigmoid(x) end},
  {"Tanh", {}, {}, function(_, x) return torch.tanh(x) end},
  {"GELU", {"approximate"}, {approximate = "none"}, function(m, x) return F.gelu(x, {approximate = m.approximate}) end},
  {"SiLU", {"inplace"}, {inplace = false}, function(_, x) return F.silu(x) end},
  {"LeakyReLU", {"negative_slope", "inplace"}, {negative_slope = 0.01, inplace = false},
    function(m, x) return F.leaky_relu(x, m.negative_slope) end},
  {"ELU", {"alpha", "inplace"}, {alpha = 1.0, inplace = false}, function(m, x) return F.elu(x, m.alpha) end},
  {"Softplus", {"beta", "threshold"}, {beta = 1, threshold = 20}, function(m, x) return F.softplus(x, m.beta, m.threshold) end},
  {"Softmax", {"dim"}, {dim = -1}, function(m, x) return F.softmax(x, m.dim) end},
  {"LogSoftmax", {"dim"}, {dim = -1}, function(m, x) return F.log_softmax(x, m.dim) end},
  {"Dropout", {"p", "inplace"}, {p = 0.5, inplace = false}, function(m, x)
    if m.training then torch._training("Dropout") end
    return F.dropout(x, m.p, m.training)
  end},
  {"Flatten", {"start_dim", "end_dim"}, {start_dim = 2, end_dim = -1}, function(m, x) return x:flatten(m.start_dim, m.end_dim) end},
  {"MaxPool1d", {"kernel_size", "stride", "padding", "dilation", "ceil_mode"},
    {stride = torch.none, padding = 0, dilation = 1, ceil_mode = false},
    function(m, x) return F.max_pool1d(x, m.kernel_size, none_to_nil(m.stride), m.padding, m.dilation, m.ceil_mode) end},
  {"MaxPool2d", {"kernel_size", "stride", "padding", "dilation", "ceil_mode"},
    {stride = torch.none, padding = 0, dilation = 1, ceil_mode = false},
    function(m, x) return F.max_pool2d(x, m.kernel_size, none_to_nil(m.stride), m.padding, m.dilation, m.ceil_mode) end},
  {"AvgPool2d", {"kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"},
    {stride = torch.none, padding = 0, ceil_mode = false, count_include_pad = true},
    function(m, x) return F.avg_pool2d(x, m.kernel_size, none_to_nil(m.stride), m.padding, m.ceil_mode, m.count_include_pad) end},
  {"AdaptiveAvgPool2d", {"output_size"}, {}, function(m, x) return F.adaptive_avg_pool2d(x, m.output_size) end},
  {"AdaptiveMaxPool2d", {"output_size"}, {}, function(m, x) return F.adaptive_max_pool2d(x, m.output_size) end},
}
for _, row in ipairs(plain) do
  local name, names, defaults, forward = table.unpack(row)
  local Layer = nn.class(name)
  nn[name] = Layer
  function Layer:init(...)
    for k, v in pairs(args(name, names, defaults, ...)) do rawset(self, k, v) end
  end
  Layer.forward = forward
  function Layer:extra_repr()
    local parts = {}
    for _, n in ipairs(names) do
      if self[n] ~= nil and n ~= "inplace" and self[n] ~= torch.none then parts[#parts + 1] = n .. "=" .. shown(self[n]) end
    end
    return table.concat(parts, ", ")
  end
end

-- nn.Dropout refuses a probability that is none when it is made, not in the first step.
local dropout_init = nn.Dropout.init
function nn.Dropout:init(...)
  dropout_init(self, ...)
  if type(self.p) ~= "number" or self.p < 0 or self.p > 1 then
    error(("Dropout: the probability must be between 0 and 1, not %s"):format(tostring(self.p)), 3, "value")
  end
end

-- Layer normalisation (Ba et al. 2016) over the last dimensions.
local LayerNorm = nn.class("LayerNorm")
nn.LayerNorm = LayerNorm
function LayerNorm:init(...)
  local a = args("LayerNorm", {"normalized_shape", "eps", "elementwise_affine", "bias"},
    {eps = 1e-5, elementwise_affine = true, bias = true}, ...)
  for k, v in pairs(a) do if k ~= "bias" then rawset(self, k, v) end end
  rawset(self, "normalized_shape", pair(a.normalized_shape, 1))
  if a.elementwise_affine then
    self.weight = Parameter(torch.ones(self.normalized_shape))
    if a.bias then self.bias = Parameter(torch.zeros(self.normalized_shape)) end
  end
end
function LayerNorm:forward(x) return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps) end
function LayerNorm:extra_repr() return ("%s, eps=%g"):format(shown(self.normalized_shape), self.eps) end

-- Embedding: rows of a table by id (ids from 1).
local Embedding = nn.class("Embedding")
nn.Embedding = Embedding
function Embedding:init(...)
  local a = args("Embedding", {"num_embeddings", "embedding_dim", "padding_idx"}, {padding_idx = torch.none}, ...)
  for k, v in pairs(a) do rawset(self, k, v) end
  self.weight = Parameter(torch.empty(a.num_embeddings, a.embedding_dim))
  init.normal_(self.weight)
  if a.padding_idx ~= torch.none then torch.no_grad(function() self.weight[a.padding_idx]:zero_() end) end
end
function Embedding:forward(ids) return F.embedding(ids, self.weight, none_to_nil(self.padding_idx)) end
function Embedding:extra_repr() return ("%d, %d"):format(self.num_embeddings, self.embedding_dim) end

-- nn.Sequential(a, b, ...): one after the other. seq[2], #seq; negative positions from the end.
local Sequential = nn.class("Sequential")
nn.Sequential = Sequential
function Sequential:init(...)
  local layers = {...}
  if #layers == 1 and getmetatable(layers[1]) == nil and type(layers[1]) == "table" then layers = layers[1] end
  for i, layer in ipairs(layers) do
    if type(layer) ~= "table" and type(layer) ~= "function" then
      error(("Sequential: layer %d is a %s, not a module"):format(i, type(layer)), 3)
    end
    self[i] = layer
  end
end
function Sequential:forward(x)
  for i = 1, #self do x = self[i](x) end
  return x
end
function Sequential:append(layer)
  self[#self + 1] = layer
  return self
end

-- nn.ModuleList{a, b}: a list whose modules are registered.
local ModuleList = nn.class("ModuleList")
nn.ModuleList = ModuleList
function ModuleList:init(list)
  for i, m in ipairs(list or {}) do self[i] = m end
end
function ModuleList:append(m)
  self[#self + 1] = m
  return self
end
