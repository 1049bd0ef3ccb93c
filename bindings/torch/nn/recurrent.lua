-- RNN, LSTM and GRU in layers and both directions, also over packed sequences, and their cells.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F, init = nn.functional, nn.init
local layer = require "torch.nn.layer"
local define, empty = layer.define, layer.empty

local gates = {tanh = 1, relu = 1, lstm = 4, gru = 3}

-- What x adds to the gates, the bias of h with it where the step has no use for that one apart.
local function input_gates(kind, x, w_ih, b_ih, b_hh)
  if kind ~= "gru" and b_ih then b_ih = b_ih + b_hh end
  return F.linear(x, w_ih, b_ih)
end

local function uniform_all(self)
  local bound = self.hidden_size > 0 and 1 / math.sqrt(self.hidden_size) or 0
  for _, p in ipairs(self:parameters()) do init.uniform_(p, -bound, bound) end
end

-- Raises unless tensors of a state have the type of the input; autocast makes them one.
local function check_type(self, x, ...)
  local cast = torch.is_autocast_enabled(x.device.type)
  for i, t in ipairs {...} do
    if not torch.is_tensor(t) then
      error(("%s: the state %s must be a tensor, not a %s"):format(self._name, i == 1 and "h" or "c", type(t)), 3)
    end
    if t.dtype ~= x.dtype and not cast then
      error(("%s: the state %s is %s and the input %s; they need one type: %s:to(x.dtype)"):format(self._name, i == 1 and "h" or "c",
        tostring(t.dtype), tostring(x.dtype), i == 1 and "h" or "c"), 3, "dtype")
    end
  end
end
local function check_one(self, state)
  if state ~= nil and not torch.is_tensor(state) then
    error(("%s: the state is one tensor h, not a %s; {h, c} is LSTM's"):format(self._name, type(state)), 3)
  end
end

-- --- layers ---

local function weights_of(self, l, suffix)
  local k = ("_l%d%s"):format(l - 1, suffix)
  return {ih = self["weight_ih" .. k], hh = self["weight_hh" .. k], b_ih = rawget(self, "bias_ih" .. k),
    b_hh = rawget(self, "bias_hh" .. k), hr = rawget(self, "weight_hr" .. k)}
end

local function check_state(self, name, t, rows, size, device)
  local want = {self.num_layers * (self.bidirectional and 2 or 1), rows, size}
  if not torch.is_tensor(t) or t.ndim ~= 3 or t:size(1) ~= want[1] or t:size(2) ~= want[2] or t:size(3) ~= want[3] then
    error(("%s: the state %s must be [%d, %d, %d], not %s"):format(self._name, name, want[1], want[2], want[3],
      torch.is_tensor(t) and tostring(t.shape) or type(t)), 4, "shape")
  end
  if t.device ~= device then
    error(("%s: the state %s is on %s, the input on %s: %s:to(%q)"):format(self._name, name, tostring(t.device), tostring(device), name,
      tostring(device)), 4, "device")
  end
  return t
end

local function forward(self, x, state)
  local rnn = nn.utils.rnn
  local packed = rnn.is_packed(x) and x
  local sizes, data = packed and packed.batch_sizes, packed and packed.data
  if not packed then layer.tensor(self._name, "the input", x) end
  local alone = not packed and x.ndim == 2
  if not packed and x.ndim ~= 2 and x.ndim ~= 3 then
    error(("%s: wants 2 or 3 dimensions, not shape %s"):format(self._name, tostring(x.shape)), 2, "shape")
  end
  local features = packed and data or x
  if features:size(-1) ~= self.input_size then
    error(("%s: the last size of the input must be input_size=%d, not %d (shape %s)"):format(self._name, self.input_size, features:size(-1), tostring(features.shape)), 2, "shape")
  end
  local lstm = self.mode == "lstm"
  local h0, c0 = state, nil
  if lstm and state then
    if type(state) ~= "table" or torch.is_tensor(state) then
      error("LSTM: the state is a table {h, c}: lstm(x, {h, c})", 2)
    end
    h0, c0 = state[1], state[2]
  elseif not lstm then
    check_one(self, state)
  end
  check_type(self, features, h0, c0)
  if packed then
    x = data
  elseif alone then
    x = x:unsqueeze(self.batch_first and 1 or 2)
    if h0 then h0, c0 = h0:unsqueeze(2), c0 and c0:unsqueeze(2) end
  end
  if not packed and self.batch_first then x = x:transpose(1, 2) end
  local rows = packed and sizes[1]:item() or x:size(2)
  local out_size = self.proj_size and self.proj_size > 0 and self.proj_size or self.hidden_size
  local directions = self.bidirectional and 2 or 1
  local count = self.num_layers * directions
  local function zeros(size) return torch.zeros({count, rows, size}, {dtype = x.dtype, device = x.device}) end
  h0 = h0 and check_state(self, "h", h0, rows, out_size, x.device) or zeros(out_size)
  if lstm then c0 = c0 and check_state(self, "c", c0, rows, self.hidden_size, x.device) or zeros(self.hidden_size) end
  if packed and packed.sorted_indices then
    h0, c0 = h0:index_select(2, packed.sorted_indices), c0 and c0:index_select(2, packed.sorted_indices)
  end
  local lengths = sizes and sizes:tolist() or nil
  local last_h, last_c = {}, {}
  if not packed and x:size(1) == 0 then
    error(("%s: wants at least one time step, not shape %s"):format(self._name, tostring(x.shape)), 2, "shape")
  end
  for l = 1, self.num_layers do
    local sides = {}
    for d = 1, directions do
      local w = weights_of(self, l, d == 2 and "_reverse" or "")
      local gx = input_gates(self.mode, x, w.ih, w.b_ih, w.b_hh)
      local k = (l - 1) * directions + d
      local y, h, c = torch._recurrence(gx:flatten(1, -2), h0[k], c0 and c0[k], w.hh, self.mode == "gru" and w.b_hh or nil,
        w.hr, self.mode, lengths, d == 2)
      sides[d] = lengths and y or y:view({gx:size(1), rows, out_size})
      last_h[k], last_c[k] = h, c
    end
    x = directions == 2 and torch.cat(sides, -1) or sides[1]
    if self.dropout > 0 and self.training and l < self.num_layers then
      torch._training(self._name)
      x = F.dropout(x, self.dropout, true)
    end
  end
  local h, c = torch.stack(last_h, 1), lstm and torch.stack(last_c, 1) or nil
  if packed then
    if packed.unsorted_indices then
      h, c = h:index_select(2, packed.unsorted_indices), c and c:index_select(2, packed.unsorted_indices)
    end
    x = rnn.packed(x, sizes, packed.sorted_indices, packed.unsorted_indices)
  else
    if self.batch_first then x = x:transpose(1, 2) end
    if alone then
      x = x:squeeze(self.batch_first and 1 or 2)
      h, c = h:squeeze(2), c and c:squeeze(2)
    end
  end
  if lstm then return x, {h, c} end
  return x, h
end

local function layers_init(self, a)
  if self.mode == nil then rawset(self, "mode", a.nonlinearity) end
  local count = gates[self.mode] or error(('RNN: nonlinearity must be "tanh" or "relu", not %q'):format(tostring(a.nonlinearity)), 3, "value")
  if type(a.dropout) ~= "number" or a.dropout < 0 or a.dropout > 1 then
    error(("%s: dropout must be a probability between 0 and 1, not %s"):format(self._name, tostring(a.dropout)), 3, "value")
  end
  local proj = a.proj_size or 0
  if proj >= a.hidden_size and proj > 0 then error(("%s: proj_size must be smaller than hidden_size"):format(self._name), 3, "value") end
  local out_size = proj > 0 and proj or a.hidden_size
  for l = 1, a.num_layers do
    for d = 1, a.bidirectional and 2 or 1 do
      local k = ("_l%d%s"):format(l - 1, d == 2 and "_reverse" or "")
      local in_size = l == 1 and a.input_size or out_size * (a.bidirectional and 2 or 1)
      self["weight_ih" .. k] = empty({count * a.hidden_size, in_size}, a)
      self["weight_hh" .. k] = empty({count * a.hidden_size, out_size}, a)
      if a.bias then
        self["bias_ih" .. k] = empty({count * a.hidden_size}, a)
        self["bias_hh" .. k] = empty({count * a.hidden_size}, a)
      end
      if proj > 0 then self["weight_hr" .. k] = empty({proj, a.hidden_size}, a) end
    end
  end
  self:reset_parameters()
end

local shared = "num_layers=1, %sbias=true, batch_first=false, dropout=0.0, bidirectional=false, %sdevice=nil, dtype=nil"
for _, row in ipairs {
  {"RNN", nil, shared:format('nonlinearity="tanh", ', ""), "A recurrent network: h = tanh(W x + U h + b) over time; `y, h = rnn(x, h)`."},
  {"LSTM", "lstm", shared:format("", "proj_size=0, "), "Long short-term memory; `y, state = lstm(x, state)` with state = {h, c}."},
  {"GRU", "gru", shared:format("", ""), "Gated recurrent units; `y, h = gru(x, h)`."},
} do
  local name, mode, rest, doc = table.unpack(row)
  define(name, "input_size, hidden_size, " .. rest, doc, {
    repr = "input_size!, hidden_size!, " .. (name == "LSTM" and "proj_size?, " or "") .. "num_layers?, bias?, batch_first?, dropout?, bidirectional?",
    rule = "[T, N, input_size] -> [T, N, hidden_size], state [layers, N, hidden_size]", see = "nn." .. name .. "Cell, nn.utils.rnn.pack_padded_sequence",
    example = ("y = nn.%s(4, 8)(torch.ones(5, 2, 4))\ny.shape --> [5, 2, 8]"):format(name),
    init = layers_init, forward = forward,
  })
  nn[name].mode = mode
  nn[name].reset_parameters = uniform_all
  ---Does nothing: weights need no flattening here.
  nn[name].flatten_parameters = function() end
end

-- --- cells ---

local function cell_forward(self, x, state)
  local lstm = self.kind == "lstm"
  local h, c = state, nil
  if lstm and type(state) == "table" then h, c = state[1], state[2] end
  local alone = layer.tensor(self._name, "the input", x).ndim == 1
  if lstm and state ~= nil and (type(state) ~= "table" or not h or not c) then
    error("LSTMCell: the state is a table {h, c}: cell(x, {h, c})", 2)
  end
  if not lstm then check_one(self, state) end
  check_type(self, x, h, c)
  if x.ndim ~= 1 and x.ndim ~= 2 then error(("%s: wants 1 or 2 dimensions, not shape %s"):format(self._name, tostring(x.shape)), 2, "shape") end
  if alone then x, h, c = x:unsqueeze(1), h and h:unsqueeze(1), c and c:unsqueeze(1) end
  local function zeros() return torch.zeros({x:size(1), self.hidden_size}, {dtype = x.dtype, device = x.device}) end
  h = h or zeros()
  if lstm then c = c or zeros() end
  for i, t in ipairs {h, c} do
    if t.ndim ~= 2 or t:size(1) ~= x:size(1) or t:size(2) ~= self.hidden_size then
      error(("%s: the state %s must be [%d, %d], not %s"):format(self._name, i == 1 and "h" or "c", x:size(1), self.hidden_size,
        tostring(t.shape)), 2, "shape")
    end
  end
  local kind = self.kind or self.nonlinearity
  local gx = input_gates(kind, x, self.weight_ih, self.bias_ih, self.bias_hh)
  h, c = select(2, torch._recurrence(gx, h, c, self.weight_hh, kind == "gru" and self.bias_hh or nil, nil, kind))
  if alone then h, c = h:squeeze(1), c and c:squeeze(1) end
  if lstm then return h, c end
  return h
end

for _, row in ipairs {
  {"RNNCell", nil, 'bias=true, nonlinearity="tanh", device=nil, dtype=nil', "One step of an RNN: `h = cell(x, h)`."},
  {"LSTMCell", "lstm", "bias=true, device=nil, dtype=nil", "One step of an LSTM: `h, c = cell(x, {h, c})`."},
  {"GRUCell", "gru", "bias=true, device=nil, dtype=nil", "One step of a GRU: `h = cell(x, h)`."},
} do
  local name, kind, rest, doc = table.unpack(row)
  define(name, "input_size, hidden_size, " .. rest, doc, {
    repr = "input_size!, hidden_size!, bias?" .. (kind and "" or ", nonlinearity?$"), rule = "[N, input_size] -> [N, hidden_size]", see = "nn." .. name:sub(1, -5),
    example = ("h = nn.%s(4, 8)(torch.ones(2, 4))\nh.shape --> [2, 8]"):format(name),
    init = function(self, a)
      local count = gates[kind or a.nonlinearity] or error(('RNNCell: nonlinearity must be "tanh" or "relu", not %q'):format(tostring(a.nonlinearity)), 3, "value")
      self.weight_ih = empty({count * a.hidden_size, a.input_size}, a)
      self.weight_hh = empty({count * a.hidden_size, a.hidden_size}, a)
      if a.bias then
        self.bias_ih = empty({count * a.hidden_size}, a)
        self.bias_hh = empty({count * a.hidden_size}, a)
      end
      uniform_all(self)
    end,
    forward = cell_forward,
  })
  nn[name].kind = kind
end
