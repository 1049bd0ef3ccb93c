-- MultiheadAttention (Vaswani et al. 2017).
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F, init = nn.functional, nn.init
local layer = require "torch.nn.layer"
local define, empty = layer.define, layer.empty

-- A mask as numbers to add: -infinity where a boolean mask says "not to be seen".
local function additive(mask, dtype, name)
  if mask == nil then return nil end
  if not torch.is_tensor(mask) or (mask.dtype ~= torch.bool and not mask.dtype.is_floating_point) then
    error(("MultiheadAttention: %s is bool (true: not to be seen) or floating point (added), not %s; %s:bool()"):format(name,
      torch.is_tensor(mask) and tostring(mask.dtype) or type(mask), name), 3, torch.is_tensor(mask) and "dtype" or "argument")
  end
  if mask.dtype ~= torch.bool then return mask:to(dtype) end
  return torch.zeros(mask.shape, {dtype = dtype, device = mask.device}):masked_fill(mask, -math.huge)
end

local function check_mask(name, mask, ...)
  if mask == nil then return end
  local fits = {}
  for i, want in ipairs {...} do
    if mask.shape == want then return end
    fits[i] = "[" .. table.concat(want, ", ") .. "]"
  end
  error(("MultiheadAttention: %s must be %s, not %s"):format(name, table.concat(fits, " or "), tostring(mask.shape)), 3, "shape")
end

-- [L, N, E] -> [N, heads, L, E / heads]
local function heads_of(x, n)
  return x:reshape({x:size(1), x:size(2), n, x:size(3) // n}):permute(2, 3, 1, 4)
end

local function project(self, query, key, value)
  local bias = self.in_proj_bias
  if rawget(self, "in_proj_weight") == nil then
    local bq, bk, bv
    if bias then bq, bk, bv = bias:chunk(3, 1) end
    return F.linear(query, self.q_proj_weight, bq), F.linear(key, self.k_proj_weight, bk), F.linear(value, self.v_proj_weight, bv)
  end
  if rawequal(query, key) and rawequal(key, value) then return F.linear(query, self.in_proj_weight, bias):chunk(3, -1) end
  local wq, wk, wv = self.in_proj_weight:chunk(3, 1)
  local bq, bk, bv
  if bias then bq, bk, bv = bias:chunk(3, 1) end
  return F.linear(query, wq, bq), F.linear(key, wk, bk), F.linear(value, wv, bv)
end

local spec = {"query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal"}
-- Positional arguments, the named ones in a last table.
local function forward_args(names, who, ...)
  local given, out = table.pack(...), {}
  local last = given[given.n]
  local named = type(last) == "table" and getmetatable(last) == nil and last
  for i = 1, given.n - (named and 1 or 0) do out[names[i] or i] = given[i] end
  for k, v in pairs(named or {}) do
    local known = false
    for _, n in ipairs(names) do known = known or n == k end
    if not known then error(('%s: no argument "%s" (it has: %s)'):format(who, tostring(k), table.concat(names, ", ")), 3) end
    if v ~= torch.none then out[k] = v end
  end
  for i, n in ipairs(names) do
    if out[n] == torch.none then out[n] = nil end
    if i <= 1 and out[n] == nil then error(('%s: argument "%s" is missing'):format(who, n), 3) end
  end
  return out
end
nn._forward_args = forward_args

local function forward(self, ...)
  local a = forward_args(spec, "MultiheadAttention", ...)
  local query, key, value = a.query, a.key, a.value
  if not (torch.is_tensor(query) and torch.is_tensor(key) and torch.is_tensor(value)) then
    error("MultiheadAttention: wants query, key and value, three tensors", 2)
  end
  local alone = query.ndim == 2
  if query.ndim ~= 2 and query.ndim ~= 3 then
    error("MultiheadAttention: the query wants 2 or 3 dimensions, not shape " .. tostring(query.shape), 2, "shape")
  end
  local same_kv, same_qk = rawequal(key, value), rawequal(query, key)
  local function arrange(x)
    if alone then return x:unsqueeze(2) end
    return self.batch_first and x:transpose(1, 2) or x
  end
  query = arrange(query)
  key = same_qk and query or arrange(key)
  value = same_kv and key or arrange(value)
  local L, N, S, n = query:size(1), query:size(2), key:size(1), self.num_heads
  local padding = additive(a.key_padding_mask, query.dtype, "key_padding_mask")
  local mask = additive(a.attn_mask, query.dtype, "attn_mask")
  if alone then check_mask("key_padding_mask", padding, {S}) else check_mask("key_padding_mask", padding, {N, S}) end
  check_mask("attn_mask", mask, {L, S}, {N * n, L, S})
  if alone and padding then padding = padding:unsqueeze(1) end
  if a.is_causal and mask == nil and (padding or rawget(self, "bias_k") or self.add_zero_attn) then
    mask = additive(torch.ones({L, S}, {dtype = torch.bool, device = query.device}):triu(1), query.dtype)
  end
  if query:size(3) ~= self.embed_dim then
    error(("MultiheadAttention: the last size of the query must be embed_dim=%d, not %d"):format(self.embed_dim, query:size(3)), 2, "shape")
  end
  local q, k, v = project(self, query, key, value)
  local extra = 0
  if rawget(self, "bias_k") then
    k, v = torch.cat({k, self.bias_k:expand(1, N, -1)}, 1), torch.cat({v, self.bias_v:expand(1, N, -1)}, 1)
    extra = 1
  end
  if self.add_zero_attn then
    local zero = torch.zeros({1, N, k:size(3)}, {dtype = k.dtype, device = k.device})
    k, v = torch.cat({k, zero}, 1), torch.cat({v, zero}, 1)
    extra = extra + 1
  end
  if extra > 0 then
    padding = padding and F.pad(padding, {0, extra})
    mask = mask and F.pad(mask, {0, extra})
  end
  S = k:size(1)
  q, k, v = heads_of(q, n), heads_of(k, n), heads_of(v, n)
  local causal = a.is_causal and mask == nil and padding == nil
  if mask then
    mask = mask.ndim == 3 and mask:reshape({N, n, L, S}) or mask:reshape({1, 1, L, S})
  end
  if padding then
    local p = padding:reshape({N, 1, 1, S})
    mask = mask and mask + p or p
  end
  local p = self.training and self.dropout or 0.0
  if p > 0 then torch._training "MultiheadAttention" end
  local y, weights
  if a.need_weights == false then
    if mask then mask = mask:expand(N, n, L, S) end
    y = F.scaled_dot_product_attention(q, k, v, mask, p, causal or false)
  else
    local scores = (q * (1 / math.sqrt(self.head_dim))):matmul(k:transpose(-2, -1))
    if mask then scores = scores + mask end
    if causal then scores = scores:masked_fill(torch.ones({L, S}, {dtype = torch.bool, device = q.device}):triu(1), -math.huge) end
    weights = F.softmax(scores, -1)
    if p > 0 then weights = F.dropout(weights, p, true) end
    y = weights:matmul(v)
    if a.average_attn_weights ~= false then weights = weights:mean(2) end
  end
  y = self.out_proj(y:permute(3, 1, 2, 4):reshape({L, N, self.embed_dim}))
  if alone then return y:squeeze(2), weights and weights:squeeze(1) end
  return self.batch_first and y:transpose(1, 2) or y, weights
end

define("MultiheadAttention", "embed_dim, num_heads, dropout=0.0, bias=true, add_bias_kv=false, add_zero_attn=false, kdim=nil, vdim=nil, batch_first=false, device=nil, dtype=nil",
  "Attention in several heads: `y, weights = mha(query, key, value, {attn_mask=mask})`; in masks true means not to be seen.", {
  rule = "[L, N, E], [S, N, E], [S, N, E] -> [L, N, E], weights [N, L, S]", see = "F.scaled_dot_product_attention, nn.TransformerEncoderLayer",
  example = "x = torch.ones(5, 2, 4)\ny, w = nn.MultiheadAttention(4, 2)(x, x, x)\ny.shape --> [5, 2, 4]\nw.shape --> [2, 5, 5]",
  init = function(self, a)
    local e = a.embed_dim
    if a.num_heads <= 0 or e % a.num_heads ~= 0 then
      error(("MultiheadAttention: embed_dim %d does not divide into %d heads"):format(e, a.num_heads), 3, "value")
    end
    rawset(self, "kdim", a.kdim or e)
    rawset(self, "vdim", a.vdim or e)
    rawset(self, "head_dim", e // a.num_heads)
    local one = self.kdim == e and self.vdim == e
    if one then
      self.in_proj_weight = empty({3 * e, e}, a)
    else
      self.q_proj_weight = empty({e, e}, a)
      self.k_proj_weight = empty({e, self.kdim}, a)
      self.v_proj_weight = empty({e, self.vdim}, a)
    end
    if a.bias then self.in_proj_bias = empty({3 * e}, a) end
    self.out_proj = nn.Linear {e, e, bias = a.bias, device = a.device, dtype = a.dtype}
    rawset(self.out_proj, "_python_name", "NonDynamicallyQuantizableLinear")
    if a.add_bias_kv then
      self.bias_k = empty({1, 1, e}, a)
      self.bias_v = empty({1, 1, e}, a)
    end
    for _, name in ipairs(one and {"in_proj_weight"} or {"q_proj_weight", "k_proj_weight", "v_proj_weight"}) do
      init.xavier_uniform_(self[name])
    end
    if a.bias then
      init.zeros_(self.in_proj_bias)
      init.zeros_(self.out_proj.bias)
    end
    if a.add_bias_kv then
      init.xavier_normal_(self.bias_k)
      init.xavier_normal_(self.bias_v)
    end
  end,
  forward = forward,
})
