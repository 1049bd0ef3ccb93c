-- Properties of every operation, taken from the table of operations: whatever its layout, device or form (in place
-- or not) a call gives the same; half precision is float32 rounded once; backward agrees with finite differences.
local property = ...
local flat, floating = property.flat, property.floating

-- Results that are not determined by the arguments' values.
local loose = {empty = true, empty_like = true, new_empty = true, empty_strided = true}
-- Signs and phases of these are free: the same matrix has several.
local free = {svd = true, qr = true, eigh = true, pinverse = true, lstsq = true, pinv = true, matrix_rank = true}

local fitting = {tensor = true, ["tensor or number"] = true, dim = true, number = true, boolean = true}

-- As PyTorch's: xlogy's derivative at (0, 0) is nan; cholesky_solve's reaches the triangle that is not read.
local odd = {xlogy = true, cholesky_solve = true}

-- {name=, params= the required ones, row=, differentiable=, inplace=} of what can be called with generated arguments.
local all, rows, smooth, in_place = {}, {}, {}, {}
for _, op in ipairs(torch._ops()) do
  for _, s in ipairs(op.signatures) do
    local where
    for _, place in ipairs(op.places) do
      if place == "Tensor" then where = "method" end
    end
    for _, place in ipairs(op.places) do
      if place == "torch" then where = "torch" end
    end
    local fits, params = where and not s.random and not loose[op.name] and not s.inplace_only and s.id == op.name, {}
    for k, p in ipairs(s.params) do
      if p.required or (p.name == "dim" and p.take == "dim") then
        params[#params + 1] = p
        fits = fits and fitting[p.take] and (p.required or #params == k)
      end
    end
    if fits and params[1] and params[1].name == "self" then
      local row = {name = op.name, params = params, differentiable = s.differentiable, row = s.row, where = where, number = #all + 1}
      all[#all + 1] = row
      if s.row then rows[#rows + 1] = row end
      if s.differentiable and not s.view and not free[op.name] and not odd[op.name] then smooth[#smooth + 1] = row end
      for _, place in ipairs(s.row and s.has_inplace and op.inplace or {}) do
        if place == "Tensor" then in_place[#in_place + 1] = row end
      end
    end
  end
end

local truth = {condition = true, mask = true}

-- The arguments of a call: names of tensors already made, and plain words. `shapes` may broadcast.
local function arguments(case, row, shape, dtype, kind)
  local words, tensors = {}, {}
  for k, p in ipairs(row.params) do
    if p.take:find "tensor" and not (k > 1 and p.take == "tensor or number" and case:chance(5)) then
      local own = table.move(shape, 1, #shape, 1, {})
      if k > 1 and #own > 0 and case:chance(4) then
        if case:chance(2) then table.remove(own, 1) else own[case:int(1, #own)] = 1 end
      end
      local x, name = case:tensor(own, truth[p.name] and "bool" or dtype, kind)
      words[k], tensors[k] = name, x
    elseif p.take == "dim" then
      words[k] = tostring(case:int(1, math.max(1, #shape)))
    elseif p.take == "boolean" then
      words[k] = tostring(case:chance(2))
    else
      words[k] = floating[dtype] and case:pick {"1", "0.5", "2"} or case:pick {"1", "2"}
    end
  end
  return words, tensors
end

local function call(row, words)
  if row.where == "method" then
    return ("%s:%s(%s)"):format(words[1], row.name, table.concat(words, ", ", 2))
  end
  return ("torch.%s(%s)"):format(row.name, table.concat(words, ", "))
end

-- The same call with another spelling of its tensors.
local function respelled(words, tensors, form)
  local out = table.move(words, 1, #words, 1, {})
  for k in pairs(tensors) do out[k] = form:format(words[k]) end
  return out
end

local function results(case, text)
  local ok, list = case:try("{" .. text .. "}")
  return ok, list
end

local function is_tensor(v) return type(v) == "userdata" and pcall(function() return v.ndim end) end

local function same_results(case, a, b, what, tol)
  case:expect(#a == #b, what .. ": another number of results")
  for k = 1, #a do
    if is_tensor(a[k]) then
      local x = a[k]
      local wide = property.dtype_of(x)
      case:same(x, b[k]:to(x.device), what, floating[wide] and tol or nil)
    end
  end
end

-- float32 sums taken in another order differ in the last digits; element by element nothing may.
local function slack(row, dtype)
  if row.row then return nil end
  return ({float64 = 1e-11, float32 = 1e-4, float16 = 4e-3, bfloat16 = 4e-2})[dtype]
end

property.add("every operation gives the same for every layout", 3, function(case)
  case.wide = true
  local row = case:pick(all)
  if free[row.name] then return end
  local dtype = case:chance(2) and case:pick(property.dtypes) or "float32"
  local words, tensors = arguments(case, row, case:shape(4, 4), dtype)
  local ok, a = results(case, call(row, words))
  local again, b = results(case, call(row, respelled(words, tensors, "%s:clone():contiguous()")))
  case:expect(ok == again, function() return row.name .. ": only one layout raises: " .. tostring(ok and b or a) end)
  if ok then same_results(case, a, b, row.name .. " of dense copies", slack(row, dtype)) end
end)

property.add("simulated devices give the CPU's results", 2, function(case)
  case.wide = true
  torch.cuda.simulate(2)
  local row = case:pick(all)
  local dtype = case:chance(2) and case:pick(property.dtypes) or "float32"
  local words, tensors = arguments(case, row, case:shape(3, 4), dtype)
  local ok, a = results(case, call(row, words))
  local again, b = results(case, call(row, respelled(words, tensors, '%s:to("cuda:1")')))
  case:expect(ok == again, function() return row.name .. ": only one device raises: " .. tostring(ok and b or a) end)
  if not ok then return end
  for k = 1, #b do
    if is_tensor(b[k]) then case:expect(tostring(b[k].device) == "cuda:1", row.name .. ": a result on another device") end
  end
  same_results(case, b, a, row.name .. " on cuda:1", slack(row, dtype))
end)

property.add("in place equals out of place, and what cannot be stored raises and changes nothing", 2, function(case)
  case.wide = true
  local row = case:pick(in_place)
  local dtype = case:chance(2) and case:pick(property.dtypes) or "float32"
  local words = arguments(case, row, case:shape(3, 4), dtype, "special")
  local ok, out = results(case, call(row, words))
  local x, name = case:let(words[1] .. ":clone()")
  local before = flat(x)
  local given = table.concat(words, ", ", 2)
  local done, y = case:try(("%s:%s_(%s)"):format(name, row.name, given))
  if done then
    case:expect(ok, row.name .. ": only out of place raises")
    case:expect(y.shape == out[1].shape, row.name .. "_: another shape")
    case:same(x, flat(out[1]:to(x.dtype)), row.name .. "_")
  else
    case:same(x, before, row.name .. "_ raised and changed its operand")
    if ok and out[1].shape == x.shape and tostring(out[1].dtype) == tostring(x.dtype) then
      case:fail(row.name .. "_ raised: " .. tostring(y))
    end
  end
end)

property.add("float16 and bfloat16 are float32 rounded once", 3, function(case)
  case.wide = true
  local row = case:pick(rows)
  if row.name == "nextafter" then return end  -- the neighbour is another one in each dtype
  local dtype = case:pick {"float16", "bfloat16"}
  local words, tensors = arguments(case, row, case:shape(2, 5), dtype, case:chance(3) and "special" or "real")
  for k, p in ipairs(row.params) do if truth[p.name] then tensors[k] = nil end end
  local ok, a = results(case, call(row, words))
  if not ok then return end
  local _, b = results(case, call(row, respelled(words, tensors, "%s:float()")))
  case:same(a[1], flat(b[1]:to(a[1].dtype)), row.name)
end)

-- --- derivatives ---
-- Their teeth may be smaller than what a step of the differences becomes in a chain.
local sawtooth = {fmod = true, remainder = true, frac = true}

-- An expression of one to three smooth operations over leaves, as a function of the leaves' names.
local function expression(case, shape)
  local leaves, steps = {}, {}
  local last, shown = nil, {}
  for k = 1, case:int(1, 3) do
    local row = case:pick(smooth)
    if k > 1 and sawtooth[row.name] then break end
    local words = {}
    for j, p in ipairs(row.params) do
      if truth[p.name] then
        local _, name = case:tensor(shape, "bool")
        words[j] = name
      elseif j == 1 and last then
        words[j] = last
      elseif p.take:find "tensor" then
        local own = shape
        if #shape > 0 and case:chance(4) then
          own = table.move(shape, 1, #shape, 1, {})
          own[case:int(1, #own)] = 1
        end
        local text = case:literal(own, "float64", "real")
        local _, name = case:let(text)
        leaves[#leaves + 1] = name
        words[j] = name
      else
        words[j] = case:pick {"1", "0.5", "2"}
      end
    end
    last = "t" .. k
    table.insert(shown, 1, last)
    steps[k] = ("local %s = %s"):format(last, call(row, words))
  end
  return leaves, table.concat(steps, " ") .. " return " .. table.concat(shown, ", ")
end

property.add("backward agrees with finite differences", 3, function(case)
  local shape = case:shape(2, 3)
  local leaves, body = expression(case, shape)
  if #leaves == 0 then return end
  case:note("f = function() " .. body .. " end")
  local f = assert(load(body, "=case", "t", case.env))
  local made = table.pack(pcall(f))
  if not made[1] or not floating[property.dtype_of(made[2])] then return end
  for k = 2, made.n do
    for _, v in ipairs(flat(made[k])) do if v ~= v or math.abs(v) > 1e3 then return end end
  end
  case.env.f = f
  local n = case:int(1, #leaves)
  local leaf = leaves[n]
  case:run(leaf .. ":requires_grad_()")
  local done, err = case:try("f():sum():backward()")
  if not done and err.kind == "autograd" then return end  -- nothing in it has a derivative
  case:expect(done or err == nil, function() return tostring(err) end)
  local grad = case.env[leaf].grad
  local got = grad and flat(grad) or nil
  case:run(leaf .. " = " .. leaf .. ":detach()")
  local x = case.env[leaf]
  if x:numel() == 0 then return end
  case:expect(got, "no gradient")
  case:same_shape(grad, x:size(), "the gradient")
  local cells = x:view(-1)
  local function at(k, value)
    cells[k] = value
    return f():sum():item()
  end
  for k = 1, math.min(#got, 6) do
    local here = cells[k]:item()
    local slope = {}
    for j, step in ipairs {1e-4, 5e-5} do
      local up, down, middle = at(k, here + step), at(k, here - step), at(k, here)
      slope[j] = {both = (up - down) / (2 * step), right = (up - middle) / step, left = (middle - down) / step}
    end
    cells[k] = here
    local s = slope[2].both
    -- Where the differences disagree with one another the function has a kink or a steep bend there.
    local even = math.abs(slope[1].both - s) + math.abs(slope[2].right - slope[2].left) * 0.1 <= 1e-4 * (1 + math.abs(s))
    -- In a chain a saturated step (erf(-4) is -1) hides a true infinite slope of the next one from differences.
    local hidden = made.n > 2 and not (math.abs(got[k]) < 1e4)
    if even and math.abs(s) < 1e4 and not hidden then
      case:expect(math.abs(got[k] - s) <= 2e-3 * (1 + math.abs(s)), function()
        return ("element %d of the gradient of %s is %.9g, finite differences give %.9g"):format(k, leaf, got[k], s)
      end)
    end
  end
end)

property.add("backward of every operation on any shape gives gradients of the leaves' shapes and dtypes", 2, function(case)
  local row = case:pick(all)
  local words, tensors = arguments(case, row, case:shape(4, 3), case:chance(3) and case:pick(property.floats) or "float32", "special")
  local leaves = {}
  for k = 1, #row.params do
    if tensors[k] and floating[property.dtype_of(tensors[k])] then
      case:run(("%s = %s:detach():requires_grad_()"):format(words[k], words[k]))
      leaves[#leaves + 1] = words[k]
    end
  end
  local ok, list = results(case, call(row, words))
  if not ok then return end
  for _, y in ipairs(list) do
    if is_tensor(y) and y.requires_grad then
      case.env.y = y
      local done, err = case:try("y:backward{gradient=torch.ones_like(y), retain_graph=true}")
      case:expect(done or type(err) ~= "string", function() return "a bare text: " .. tostring(err) end)
      case:expect(done or err.kind ~= "shape" and err.kind ~= "broadcast", function() return row.name .. ": " .. tostring(err) end)
    end
  end
  for _, name in ipairs(leaves) do
    local x = case.env[name]
    if x.grad then
      case:expect(x.grad.shape == x.shape and tostring(x.grad.dtype) == tostring(x.dtype), function()
        return ("%s: the gradient is %s %s"):format(row.name, tostring(x.grad.dtype), tostring(x.grad.shape))
      end)
    end
  end
end)

property.all_ops, property.free = all, free
property.arguments, property.call = arguments, call
