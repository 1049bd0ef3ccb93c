-- Random calls of attention, pooling, norms, recurrent layers, sorts and what else walks along a dimension.
-- Part of guarded.lua.
local guarded = ...
local check = guarded.check
local F, nn = torch.nn.functional, torch.nn

local floats = {"float32", "float32", "bfloat16", "float16", "float64"}

local function list_text(list) return "{" .. table.concat(list, ",") .. "}" end

guarded.add("random attention and its gradients agree with float64", 5, function(draw)
  local dtype = draw:pick(floats)
  local batch, heads, l, s, e, v = draw:int(1, 3), draw:int(1, 3), draw:size(150), draw:size(150), draw:size(80), draw:size(80)
  local mask = draw:pick {"none", "none", "causal", "bool", "number"}
  return ("%s q {%d,%d,%d,%d} k {%d,%d} mask %s"):format(dtype, batch, heads, l, e, s, v, mask), function()
    local inputs = {draw:values({batch, heads, l, e}, dtype), draw:values({batch, heads, s, e}, dtype), draw:values({batch, heads, s, v}, dtype)}
    if mask == "bool" then
      inputs[4] = torch.rand({l, s}):gt(0.3)
      inputs[4]["..., 1"] = true  -- a row without a key has no value
    elseif mask == "number" then
      inputs[4] = draw:values({l, s}, dtype)
    end
    guarded.compare(draw, function(q, k, x, m) return F.scaled_dot_product_attention(q, k, x, {attn_mask = m, is_causal = mask == "causal"}) end,
      inputs, dtype, mask ~= "number", 1)
  end
end)

guarded.add("random pooling and its gradients agree with float64", 6, function(draw)
  local dims, dtype = draw:pick {1, 2, 2, 3}, draw:pick(floats)
  local kind = draw:pick {"max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "lp_pool"}
  local shape, kernel, stride, padding, dilation = {draw:int(1, 3), draw:size(40)}, {}, {}, {}, {}
  for d = 1, dims do
    kernel[d], stride[d] = draw:int(1, 4), draw:int(1, 3)
    padding[d], dilation[d] = draw:int(0, kernel[d] // 2), kind == "max_pool" and draw:int(1, 2) or 1
    shape[d + 2] = (kernel[d] - 1) * dilation[d] + draw:size(dims == 1 and 400 or dims == 2 and 40 or 12)
  end
  local ceil = draw:chance(3)
  return ("%s%dd %s %s kernel %s stride %s padding %s dilation %s%s"):format(kind, dims, dtype, list_text(shape), list_text(kernel),
    list_text(stride), list_text(padding), list_text(dilation), ceil and " ceil" or ""), function()
    local name = kind .. dims .. "d"
    guarded.compare(draw, function(x)
      if kind == "max_pool" then return (F[name](x, kernel, {stride = stride, padding = padding, dilation = dilation, ceil_mode = ceil})) end
      if kind == "avg_pool" then return F[name](x, kernel, {stride = stride, padding = padding, ceil_mode = ceil}) end
      if kind == "lp_pool" then return F[name](x:abs() + 0.1, 2, kernel, {stride = stride, ceil_mode = ceil}) end
      return (F[name](x, kernel))
    end, {draw:values(shape, dtype)}, dtype, true, 1)
  end
end)

guarded.add("random norms and their gradients agree with float64", 6, function(draw)
  local dtype, kind = draw:pick(floats), draw:pick {"layer", "rms", "group", "batch", "batch", "instance", "local_response"}
  local groups = draw:int(1, 5)
  local channels = groups * draw:size(40)
  local shape = {draw:int(2, 5), channels}
  for d = 1, kind == "layer" and draw:int(0, 2) or draw:int(1, 2) do shape[d + 2] = draw:size(40) + 1 end
  if #shape == 2 then shape[2] = shape[2] + 1 end
  local affine = draw:chance(2)
  return ("%s_norm %s %s groups %d%s"):format(kind, dtype, list_text(shape), groups, affine and " affine" or ""), function()
    local last = {shape[#shape]}
    local size = (kind == "layer" or kind == "rms") and last or {channels}
    local inputs = {draw:values(shape, dtype) * 2}
    if affine and kind ~= "local_response" then inputs[2] = draw:values(size, dtype) end
    if affine and kind ~= "local_response" and kind ~= "rms" then inputs[3] = draw:values(size, dtype) end
    guarded.compare(draw, function(x, w, b)
      if kind == "layer" then return F.layer_norm(x, last, w, b, 0.1) end
      if kind == "rms" then return F.rms_norm(x, last, w, 0.1) end
      if kind == "group" then return F.group_norm(x, groups, w, b, 0.1) end
      if kind == "local_response" then return F.local_response_norm(x, 3) end
      if kind == "instance" then return F.instance_norm(x, {weight = w, bias = b, eps = 0.1}) end
      return F.batch_norm(x, nil, nil, {weight = w, bias = b, training = true, eps = 0.1})
    end, inputs, dtype, true, 3)
  end
end)

guarded.add("random recurrent layers and their gradients agree with float64", 4, function(draw)
  local dtype, kind = draw:pick {"float32", "float32", "float64", "bfloat16"}, draw:pick {"RNN", "LSTM", "GRU"}
  local length, batch, input, hidden = draw:size(20), draw:size(20), draw:size(70), draw:size(70)
  local named = {num_layers = draw:int(1, 2), bidirectional = draw:chance(3), batch_first = draw:chance(2), bias = not draw:chance(3), dtype = dtype}
  return ("%s %s length %d batch %d input %d hidden %d layers %d%s"):format(kind, dtype, length, batch, input, hidden,
    named.num_layers, named.bidirectional and " both ways" or ""), function()
    local layer = nn[kind](input, hidden, named)
    named.dtype = "float64"
    local exact = nn[kind](input, hidden, named)
    exact:load_state_dict(layer:state_dict())
    guarded.compare(draw, function(x) return (x.dtype == torch.float64 and exact or layer)(x) end,
      {draw:values(named.batch_first and {batch, length, input} or {length, batch, input}, dtype)}, dtype, dtype ~= "bfloat16", 1)
    if dtype ~= "float32" then return end
    local x = draw:values(named.batch_first and {batch, length, input} or {length, batch, input}, dtype)
    layer(x):square():sum():backward()
    exact(x:double()):square():sum():backward()
    for i, p in ipairs(layer:parameters()) do
      guarded.close(("gradient of parameter %d"):format(i), p.grad, exact:parameters()[i].grad, dtype, math.sqrt(length * batch))
    end
  end
end)

-- Functions of one tensor along a dimension (nil: of the whole), that may be any type's.
local along = {
  sum = {true}, mean = {true}, amax = {true}, amin = {true}, cumsum = {true}, softmax = {true}, log_softmax = {true},
  logsumexp = {true}, var = {true}, std = {true}, norm = {true}, prod = {}, cumprod = {}, cummax = {}, logcumsumexp = {true},
  argmax = {}, argmin = {}, median = {}, flip = {true}, diff = {true}, all = {}, count_nonzero = {},
}
local along_names = {}
for name in pairs(along) do along_names[#along_names + 1] = name end
table.sort(along_names)

local function any_shape(draw)
  local shape, left = {}, 30000
  for d = 1, draw:int(1, 4) do
    shape[d] = draw:size(math.min(left, 300))
    left = left // shape[d]
  end
  return shape
end

guarded.add("random folds and scans along a dimension agree with float64", 8, function(draw)
  local shape, dtype, name = any_shape(draw), draw:pick(floats), draw:pick(along_names)
  local dim = draw:int(1, #shape)
  -- The deviation of a few numbers that are nearly the same divides rounding by nearly nothing.
  if (name == "var" or name == "std") and shape[dim] < 9 then shape[dim] = 9 end
  return ("%s of %s %s along %d"):format(name, dtype, list_text(shape), dim), function()
    local x = draw:values(shape, dtype)
    if name:find("prod") then x = x * 0.1 + 1 end
    if name == "diff" and shape[dim] < 2 then return end
    guarded.compare(draw, function(t)
      if name == "norm" then return t:norm(2, dim) end
      return (torch[name](t, dim))
    end, {x}, dtype, along[name][1], math.sqrt(shape[dim]))
  end
end)

guarded.add("random sorts, choices and searches agree with Lua's", 6, function(draw)
  local shape, dtype = any_shape(draw), draw:pick {"float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8", "int8", "int16"}
  local dim, kind, descending = draw:int(1, #shape), draw:pick {"sort", "topk", "kthvalue", "unique", "argsort", "searchsorted", "msort"}, draw:chance(2)
  local k = draw:int(1, shape[dim])
  return ("%s of %s %s along %d, k %d%s"):format(kind, dtype, list_text(shape), dim, k, descending and " descending" or ""), function()
    local x = draw:layout(draw:values(shape, dtype))
    local exact = x:to(dtype:find("int") and "int64" or "float64"):movedim(dim, -1):contiguous()
    local lines, n = exact:reshape({-1, shape[dim]}), shape[dim]
    if kind == "unique" then
      local have, seen, want = torch.unique(x):tolist(), {}, {}
      for _, v in ipairs(exact:reshape(-1):tolist()) do if not seen[v] then seen[v], want[#want + 1] = true, v end end
      table.sort(want)
      return check.equal(have, want)
    end
    local values, positions
    if kind == "sort" then values, positions = torch.sort(x, dim, {descending = descending, stable = true})
    elseif kind == "msort" then values, positions = torch.sort(x, dim)
    elseif kind == "argsort" then positions = torch.argsort(x, dim, {descending = descending})
    elseif kind == "topk" then values, positions = torch.topk(x, k, dim, {largest = descending})
    elseif kind == "kthvalue" then values, positions = torch.kthvalue(x, k, dim)
    else  -- the sorted line finds each of its elements
      local sorted = torch.sort(x, dim):movedim(dim, -1):contiguous()
      local at = torch.searchsorted(sorted, exact:to(dtype))
      return check.yes(sorted:gather(-1, at):equal(exact:to(dtype)), "searchsorted")
    end
    if kind == "kthvalue" then values, positions = values:unsqueeze(dim), positions:unsqueeze(dim) end
    local places = positions:movedim(dim, -1):contiguous()
    local found = exact:gather(-1, places)
    if values then check.yes(values:movedim(dim, -1):to(exact.dtype):equal(found), "positions are those of the values") end
    found = found:reshape({lines.shape[1], -1})
    local down = (kind == "sort" or kind == "argsort" or kind == "topk") and descending
    for row = 1, math.min(3, lines.shape[1]) do
      local want = lines[row]:tolist()
      table.sort(want, down and function(a, b) return a > b end or nil)
      local from = kind == "kthvalue" and k or 1
      check.equal(found[row]:tolist(), table.move(want, from, kind == "kthvalue" and k or found.shape[2], 1, {}))
    end
    check.yes(places:min():item() >= 1 and places:max():item() <= n)
  end
end)

guarded.add("random gathers, scatters and copies agree with float64", 5, function(draw)
  local dtype = draw:pick {"float32", "bfloat16", "float16", "float64", "int64", "int32"}
  local kind = draw:pick {"gather", "scatter_add", "index_add", "index_select", "embedding", "take", "cat", "pad", "interpolate", "unfold", "where", "roll", "tril"}
  local shape = any_shape(draw)
  local dim = draw:int(1, #shape)
  local whole = dtype:find("int") ~= nil
  if kind == "interpolate" or kind == "unfold" then
    shape = {draw:int(1, 3), draw:size(20), draw:size(30) + 2, draw:size(30) + 2}
    if whole then dtype, whole = "float32", false end
  end
  return ("%s of %s %s along %d"):format(kind, dtype, list_text(shape), dim), function()
    local x, count = draw:values(shape, dtype), draw:size(60)
    local index_shape = {table.unpack(shape)}
    index_shape[dim] = count
    local index = torch.randint(1, shape[dim] + 1, (kind == "gather" or kind == "scatter_add") and index_shape or {count})
    local other = draw:values((kind == "scatter_add" or kind == "index_add" or kind == "cat") and index_shape or shape, dtype)
    local grow, shift = draw:int(5, 50), draw:int(-5, 5)
    guarded.compare(draw, function(a, b)
      if kind == "gather" then return torch.gather(a, dim, index) end
      if kind == "scatter_add" then return torch.scatter_add(a, dim, index, b) end
      if kind == "index_add" then return torch.index_add(a, dim, index, b) end
      if kind == "index_select" then return torch.index_select(a, dim, index) end
      if kind == "embedding" then return F.embedding(index:clamp(1, a.shape[1]), a:reshape({a.shape[1], -1})) end
      if kind == "take" then return torch.take(a, index) end
      if kind == "cat" then return torch.cat({a, b}, dim) end
      if kind == "pad" then return F.pad(a, {1, 2}) end
      if kind == "interpolate" then return F.interpolate(a, {size = {grow, grow // 2}, mode = grow % 2 == 0 and "bilinear" or "nearest"}) end
      if kind == "unfold" then return F.unfold(a, 2, {padding = 1, stride = 2}) end
      if kind == "where" then return torch.where(b:gt(0), a, b) end
      if kind == "roll" then return torch.roll(a, shift, dim) end
      return a.ndim >= 2 and torch.tril(a, shift) or a:clone()
    end, {x, kind ~= "pad" and kind ~= "unfold" and other or nil}, dtype,
      not whole and (kind == "cat" or kind == "pad" or kind == "unfold" or kind == "where"), 8)
  end
end)
