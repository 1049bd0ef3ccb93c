-- Properties of numbers: broadcasting, promotion, reductions, order, matmul, in-place forms, half precision.
local property = ...
local count, flat, spell, each, offset = property.count, property.flat, property.spell, property.model.each, property.model.offset
local dtypes, floating, dtype_of = property.dtypes, property.floating, property.dtype_of

-- Two shapes that broadcast, and the shape they give.
local function broadcast_pair(case, max_rank)
  local whole, pair = case:shape(max_rank or 4, 4), {}
  for k = 1, 2 do
    local skip, shape = case:int(0, #whole), {}
    if k == 2 and case:chance(2) then skip = 0 end
    for d = skip + 1, #whole do shape[#shape + 1] = case:chance(3) and 1 or whole[d] end
    pair[k] = shape
  end
  local out = {}
  for d = 1, math.max(#pair[1], #pair[2]) do
    local a, b = pair[1][#pair[1] - d + 1] or 1, pair[2][#pair[2] - d + 1] or 1
    table.insert(out, 1, a == 1 and b or a)
  end
  return pair[1], pair[2], out
end

local function spread(values, shape, out)
  local list, n, skip = {}, 0, #out - #shape
  each(out, function(i)
    local part = {}
    for d = 1, #shape do part[d] = shape[d] == 1 and 1 or i[skip + d] end
    n = n + 1
    list[n] = values[offset(shape, part)]
  end)
  return list
end

property.add("a + b commutes, and broadcasting is expanding", 3, function(case)
  case.wide = true
  local sa, sb, out = broadcast_pair(case)
  local dtype = case:pick(dtypes)
  local a, na = case:tensor(sa, dtype)
  local b, nb = case:tensor(sb, dtype)
  local op = case:pick {"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and"}
  local y = case:let(("%s:%s(%s)"):format(na, op, nb))
  case:same_shape(y, out, op)
  case:same(case:let(("%s:%s(%s)"):format(nb, op, na)), y, op .. " the other way round")
  local sizes = "{" .. table.concat(out, ", ") .. "}"
  case:same(case:let(("%s:expand(%s):%s(%s:expand(%s):clone())"):format(na, sizes, op, nb, sizes)), y, op .. " of expanded tensors")
  local va, vb = spread(flat(a), sa, out), spread(flat(b), sb, out)
  if op == "add" and dtype ~= "bool" and dtype ~= "uint8" then
    for k = 1, #va do va[k] = va[k] + vb[k] end
    case:same(y, va, "add")
  elseif op == "eq" then
    for k = 1, #va do va[k] = va[k] == vb[k] and 1 or 0 end
    case:same(y, va, "eq")
  end
end)

property.add("shapes that do not broadcast raise, those that do associate", 1, function(case)
  local shapes, names = {}, {}
  for k = 1, 3 do
    shapes[k] = case:shape(3, 3)
    local _, name = case:let(("torch.zeros({%s})"):format(table.concat(shapes[k], ", ")))
    names[k] = name
  end
  local function fits(a, b)
    local out = {}
    for d = 1, math.max(#a, #b) do
      local p, q = a[#a - d + 1] or 1, b[#b - d + 1] or 1
      if p ~= q and p ~= 1 and q ~= 1 then return nil end
      table.insert(out, 1, p == 1 and q or p)
    end
    return out
  end
  local ab, bc = fits(shapes[1], shapes[2]), fits(shapes[2], shapes[3])
  local ok, y, name = case:try(("%s + %s"):format(names[1], names[2]))
  case:expect(ok == (ab ~= nil), function() return ok and "an error was due" or "raised: " .. tostring(y) end)
  if not ok then case:expect(y.kind == "broadcast", function() return "kind " .. tostring(y.kind) end) end
  if ok then case:same_shape(y, ab, "the sum") end
  if ab and bc then
    local left, z = case:try(("%s + %s"):format(name, names[3]))
    local right, w = case:try(("%s + (%s + %s)"):format(names[1], names[2], names[3]))
    case:expect(left == right, "(a + b) + c and a + (b + c) do not agree about raising")
    if left then case:same(z, w, "(a + b) + c") end
  end
end)

property.add("the gradient of a broadcast operand is the sum over what was stretched", 2, function(case)
  local sa, sb, out = broadcast_pair(case, 3)
  local dtype = case:pick {"float64", "float32"}
  local a, na = case:tensor(sa, dtype)
  local b, nb = case:tensor(sb, dtype)
  case:run(("%s = %s:detach():requires_grad_()"):format(na, na))
  local op = case:pick {"add", "mul", "sub"}
  local y, ny = case:let(("%s:%s(%s)"):format(na, op, nb))
  local g, ng = case:tensor(out, dtype)
  case:run(("%s:backward(%s)"):format(ny, ng))
  local vg, vb = flat(g), spread(flat(b), sb, out)
  local sums, skip, n = {}, #out - #sa, 0
  for k = 1, count(sa) do sums[k] = 0 end
  each(out, function(i)
    local part = {}
    for d = 1, #sa do part[d] = sa[d] == 1 and 1 or i[skip + d] end
    n = n + 1
    local at = offset(sa, part)
    sums[at] = sums[at] + (op == "mul" and vg[n] * vb[n] or vg[n])
  end)
  local grad = case:let(na .. ".grad")
  case:same_shape(grad, sa, "the gradient")
  case:same(grad, sums, "the gradient", 1e-5)
end)

-- --- promotion ---
local rank_of = {bool = 0, uint8 = 1, int8 = 1, int16 = 2, int32 = 3, int64 = 4, float16 = 5, bfloat16 = 5, float32 = 6, float64 = 7}
local function join(a, b)
  if a == b then return a end
  local ra, rb = rank_of[a], rank_of[b]
  if ra == rb then return ra == 1 and "int16" or "float32" end
  return ra > rb and a or b
end
local function category(d) return d == "bool" and 0 or floating[d] and 2 or 1 end

property.add("promotion: joins of dtypes; tensors with dimensions over 0-d tensors over numbers", 2, function(case)
  local a, b = case:pick(dtypes), case:pick(dtypes)
  local ra, rb = case:int(0, 2), case:int(0, 2)
  local ones = {"", "1", "1, 1"}
  local _, x = case:let(("torch.ones({%s}, {dtype=%q})"):format(ones[ra + 1], a))
  local due, other
  if case:chance(3) then
    local number = case:pick {"1", "1.5", "true"}
    if number == "true" then return end
    other = number
    local kind = number == "1" and 1 or 2
    due = category(a) >= kind and a or kind == 1 and "int64" or "float32"
  else
    local _, y = case:let(("torch.ones({%s}, {dtype=%q})"):format(ones[rb + 1], b))
    other = y
    if (ra == 0) == (rb == 0) then
      due = join(a, b)
    else
      local strong, weak = ra > 0 and a or b, ra > 0 and b or a
      due = category(strong) >= category(weak) and strong or weak
    end
  end
  local op = case:pick {"add", "mul", "maximum"}
  if op == "maximum" and other:sub(1, 1) ~= "x" then op = "add" end
  local y = case:let(("%s:%s(%s)"):format(x, op, other))
  case:expect(dtype_of(y) == due, function() return ("%s, expected %s"):format(dtype_of(y), due) end)
  if other:sub(1, 1) == "x" then
    local z = case:let(("%s:%s(%s)"):format(other, op, x))
    case:expect(dtype_of(z) == due, function() return ("the other way round %s, expected %s"):format(dtype_of(z), due) end)
  end
  if ra >= rb and op ~= "maximum" then
    local ok, err = case:try(("%s:%s_(%s)"):format(x, op, other))
    local may = category(due) <= category(a)
    case:expect(ok == may, function() return ("in place: %s"):format(ok and "an error was due" or tostring(err)) end)
    if ok then case:expect(dtype_of(err) == a, "an in-place operation changed the dtype") end
  end
end)

-- --- reductions ---
local function pairwise(list, first, last)
  if last - first < 8 then
    local sum = 0.0
    for k = first, last do sum = sum + list[k] end
    return sum
  end
  local middle = (first + last) // 2
  return pairwise(list, first, middle) + pairwise(list, middle + 1, last)
end

local tolerance = {float64 = 1e-12, float32 = 1e-5, float16 = 2e-3, bfloat16 = 1.6e-2}
local reductions = {
  sum = function(v) return pairwise(v, 1, #v), "number" end,
  mean = function(v) return #v == 0 and 0 / 0 or pairwise(v, 1, #v) / #v, "float" end,
  prod = function(v)
    local p = 1
    for k = 1, #v do p = p * v[k] end
    return p, "number"
  end,
  amax = function(v) return math.max(table.unpack(v)), "some" end,
  amin = function(v) return math.min(table.unpack(v)), "some" end,
  any = function(v)
    for k = 1, #v do if v[k] ~= 0 then return 1 end end
    return 0
  end,
  all = function(v)
    for k = 1, #v do if v[k] == 0 then return 0 end end
    return 1
  end,
  count_nonzero = function(v)
    local n = 0
    for k = 1, #v do if v[k] ~= 0 then n = n + 1 end end
    return n
  end,
  var = function(v)
    if #v < 2 then return 0 / 0, "float" end
    local mean, squares = pairwise(v, 1, #v) / #v, {}
    for k = 1, #v do squares[k] = (v[k] - mean) ^ 2 end
    return pairwise(squares, 1, #v) / (#v - 1), "float"
  end,
  logsumexp = function(v)
    if #v == 0 then return -math.huge, "float" end
    local most, e = math.max(table.unpack(v)), {}
    for k = 1, #v do e[k] = math.exp(v[k] - most) end
    return most + math.log(pairwise(e, 1, #v)), "float"
  end,
}
local kinds = {sum = "number", mean = "float", prod = "number", amax = "some", amin = "some", var = "float", logsumexp = "float"}
local reduction_names = {"sum", "mean", "prod", "amax", "amin", "any", "all", "count_nonzero", "var", "logsumexp"}

property.add("reductions are the float64 pairwise ones within their tolerance", 4, function(case)
  case.wide = true
  local name = case:pick(reduction_names)
  local kind = kinds[name]
  local dtype = case:pick(kind == "float" and property.floats or dtypes)
  local shape = case:shape(4, case:chance(8) and 7 or 4)
  local x, nx = case:tensor(shape, dtype, name ~= "prod" and case:chance(2) and "real" or nil)
  local dims, over, keep = {}, {}, case:chance(2)
  if #shape > 0 and case:chance(2) or name == "logsumexp" then
    if #shape == 0 then return end
    local d = case:int(1, #shape)
    dims[1], over[d] = d, true
    local e = case:int(1, #shape)
    if e ~= d and name ~= "prod" and case:chance(2) then dims[2], over[e] = e, true end
  else
    for d = 1, #shape do over[d] = true end
    keep = false
  end
  local out, kept = {}, {}
  for d = 1, #shape do
    if not over[d] then kept[#kept + 1] = d end
    if not over[d] then out[#out + 1] = shape[d] elseif keep then out[#out + 1] = 1 end
  end
  local small = {}
  for k, d in ipairs(kept) do small[k] = shape[d] end
  local groups, values, n = {}, flat(x), 0
  for k = 1, count(small) do groups[k] = {} end
  if count(shape) == 0 and kind == "some" then return end
  each(shape, function(i)
    local part = {}
    for k, d in ipairs(kept) do part[k] = i[d] end
    n = n + 1
    local g = groups[offset(small, part)]
    g[#g + 1] = values[n]
  end)
  local text = #dims == 0 and "" or #dims == 1 and tostring(dims[1]) or ("{%d, %d}"):format(dims[1], dims[2])
  if keep then text = ("{dim=%s, keepdim=true}"):format(text) end
  if keep and name == "count_nonzero" then return end
  local y = case:let(("%s:%s(%s)"):format(nx, name, text))
  case:same_shape(y, out, name)
  local due = {}
  local scale = 0
  for k = 1, #values do scale = math.max(scale, math.abs(values[k])) end
  for k, g in ipairs(groups) do due[k] = reductions[name](g) end
  local exactly = not floating[dtype] or kind == "some" or not kind
  local tol = not exactly and tolerance[dtype] * (1 + scale * (name == "prod" and 1 or 4)) or nil
  if name == "prod" and floating[dtype] then  -- where it overflows, the order of the factors decides
    local most = dtype == "float16" and 60000 or 3e38
    for k = 1, #due do if not (math.abs(due[k]) < most) then return end end
  end
  if name == "var" and tol then tol = tol * (1 + scale) end
  case:same(y, due, name, tol)
  local type_due = kind == "number" and not floating[dtype] and "int64" or not kind and (name == "count_nonzero" and "int64" or "bool") or dtype
  if (name == "any" or name == "all") and dtype == "uint8" then type_due = "uint8" end
  case:expect(dtype_of(y) == type_due, function() return ("%s, expected %s"):format(dtype_of(y), type_due) end)
end)

-- --- order ---
property.add("sort, argsort, topk and searchsorted obey the laws of order", 2, function(case)
  case.wide = true
  local dtype = case:pick(dtypes)
  local shape = case:shape(3, 6)
  if #shape == 0 then shape = {case:int(1, 6)} end
  local d, down = case:int(1, #shape), case:chance(2)
  local x, nx = case:tensor(shape, dtype, floating[dtype] and case:chance(4) and "special" or nil)
  case:run(("v, i = %s:sort{dim=%d, descending=%s, stable=true}"):format(nx, d, tostring(down)))
  local v, i = case.env.v, case.env.i
  case:same(case:let(("%s:gather(%d, i)"):format(nx, d)), v, "what the positions pick")
  case:same(case:let(("%s:argsort{dim=%d, descending=%s, stable=true}"):format(nx, d, tostring(down))), i, "argsort")
  local vt, it = flat(v:movedim(d, -1)), flat(i:movedim(d, -1))
  local n = shape[d]
  for k = 1, #vt do
    if (k - 1) % n > 0 then
      local a, b = vt[k - 1], vt[k]
      if down then a, b = b, a end
      local fine = b ~= b or a <= b  -- nan is the largest
      case:expect(fine, "not in order")
      if vt[k - 1] == vt[k] then case:expect(it[k - 1] < it[k], "equal elements changed places") end
    end
  end
  if n > 0 and dtype ~= "bool" then
    local k = case:int(1, n)
    case:run(("w, j = %s:topk{k=%d, dim=%d, largest=%s}"):format(nx, k, d, tostring(down)))
    case:same(case.env.w, v:narrow(d, 1, k), "topk")
    case:same(case:let(("%s:gather(%d, j)"):format(nx, d)), case.env.w, "what topk's positions pick")
  end
  local plain = true
  for _, e in ipairs(vt) do plain = plain and e == e end
  if #shape == 1 and dtype ~= "bool" and not down and plain then
    local right = case:chance(2)
    local key = case:value(dtype)
    local at = case:let(("torch.searchsorted(v, torch.tensor({%s}, {dtype=%q}), {right=%s})"):format(spell(key), dtype, tostring(right)))
    local due = 1
    for p = 1, #vt do if vt[p] < key or (right and vt[p] == key) then due = p + 1 end end
    case:same(at, {due}, "searchsorted")
  end
end)

property.add("unique gives each value once, and its inverse and counts rebuild the tensor", 1, function(case)
  case.wide = true
  local dtype = case:pick(dtypes)
  local x, nx = case:tensor(case:shape(3, 5), dtype)
  case:run(("u, inverse, counts = torch.unique(%s, {return_inverse=true, return_counts=true})"):format(nx))
  local u, counts, had = flat(case.env.u), flat(case.env.counts), {}
  for _, v in ipairs(flat(x)) do had[v] = (had[v] or 0) + 1 end
  for k = 1, #u do
    case:expect(k == 1 or u[k - 1] < u[k], "unique is not sorted")
    case:expect(counts[k] == had[u[k]], "a wrong count")
    had[u[k]] = nil
  end
  case:expect(next(had) == nil, "a value is missing")
  if x:numel() > 0 then case:same(case:let("u[inverse]"), x, "u[inverse]") end
end)

property.add("matmul is the triple loop, batched and broadcast", 2, function(case)
  local dtype = case:pick {"float32", "float64", "int64", "float16", "bfloat16", "int32"}
  local n, k, m = case:int(1, 5), case:chance(10) and 0 or case:int(1, 5), case:int(1, 5)
  local ba, bb, batch = broadcast_pair(case, 2)
  local va, vb = case:chance(4), case:chance(4)  -- a vector on that side
  local sa = va and {k} or table.move({n, k}, 1, 2, #ba + 1, ba)
  local sb = vb and {k} or table.move({k, m}, 1, 2, #bb + 1, bb)
  if va then batch = vb and {} or table.move(sb, 1, #sb - 2, 1, {}) elseif vb then batch = table.move(sa, 1, #sa - 2, 1, {}) end
  local a, na = case:tensor(sa, dtype)
  local b, nb = case:tensor(sb, dtype)
  local y = case:let(("%s:matmul(%s)"):format(na, nb))
  local fa, fb = flat(a), flat(b)
  local rows, cols = va and 1 or n, vb and 1 or m
  local out, full = table.move(batch, 1, #batch, 1, {}), {}
  if not va then out[#out + 1] = n end
  if not vb then out[#out + 1] = m end
  local function start(shape, plain, index)
    if plain then return 0 end
    local lead, part = {}, {}
    for d = 1, #shape - 2 do
      lead[d] = shape[d]
      part[d] = shape[d] == 1 and 1 or index[#batch - (#shape - 2) + d]
    end
    return (offset(lead, part) - 1) * shape[#shape - 1] * shape[#shape]
  end
  each(batch, function(index)
    local pa, pb = start(sa, va, index), start(sb, vb, index)
    for r = 0, rows - 1 do
      for c = 0, cols - 1 do
        local sum = 0
        for t = 0, k - 1 do sum = sum + fa[pa + r * k + t + 1] * fb[pb + t * cols + c + 1] end
        full[#full + 1] = sum
      end
    end
  end)
  case:same_shape(y, out, "matmul")
  case:same(y, full, "matmul", floating[dtype] and tolerance[dtype] * 10 or nil)
end)
