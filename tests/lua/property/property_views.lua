-- Properties of views: chains of view operations, and writes through them, against a model in plain tables:
-- a view is a shape and a flat list of the cells (positions in the first tensor) that it shows.
local property = ...
local count, flat, model = property.count, property.flat, property.model

local remap, seen, all_different = model.remap, model.seen, model.all_different

local function copy(t) return table.move(t, 1, #t, 1, {}) end
local function inserted(t, at, v)
  local out = copy(t)
  table.insert(out, at, v)
  return out
end
local function removed(t, at)
  local out = copy(t)
  table.remove(out, at)
  return out
end
local function replaced(t, at, v)
  local out = copy(t)
  out[at] = v
  return out
end

-- A shape with as many elements: the factors dealt out again.
local function other_shape(case, n)
  if n == 0 then return case:chance(2) and {0} or {2, 0, 3} end
  local shape = {}
  while n > 1 and #shape < 4 and case:chance(2) do
    local divisors = {}
    for f = 1, n do if n % f == 0 then divisors[#divisors + 1] = f end end
    local f = case:pick(divisors)
    shape[#shape + 1] = f
    n = n // f
  end
  shape[#shape + 1] = n
  return shape
end

-- A dimension as text, from the front or from the back.
local function said(case, d, rank) return case:chance(3) and d - rank - 1 or d end

-- The steps: each gets (case, model) and returns the call's text and the model's result; nil when it does not fit.
local steps = {}
local function step(needs, f) steps[#steps + 1] = {needs = needs, f = f} end

step(0, function(case, m)
  local d = case:int(1, #m.shape + 1)
  local shape = inserted(m.shape, d, 1)
  return (":unsqueeze(%d)"):format(said(case, d, #shape)), remap(m, shape, function(i) return removed(i, d) end)
end)
step(1, function(case, m)
  local d = case:int(1, #m.shape)
  if m.shape[d] == 0 then return nil end
  local i = case:int(1, m.shape[d])
  return (":select(%d, %d)"):format(said(case, d, #m.shape), case:chance(3) and i - m.shape[d] - 1 or i),
    remap(m, removed(m.shape, d), function(at) return inserted(at, d, i) end)
end)
step(1, function(case, m)
  local d, e = case:int(1, #m.shape), case:int(1, #m.shape)
  local shape = replaced(replaced(m.shape, d, m.shape[e]), e, m.shape[d])
  return (":%s(%d, %d)"):format(case:pick {"transpose", "swapaxes"}, said(case, d, #shape), said(case, e, #shape)),
    remap(m, shape, function(i) return replaced(replaced(i, d, i[e]), e, i[d]) end)
end)
step(1, function(case, m)
  local order, left, shape = {}, {}, {}
  for d = 1, #m.shape do left[d] = d end
  for d = 1, #m.shape do
    order[d] = table.remove(left, case:int(1, #left))
    shape[d] = m.shape[order[d]]
  end
  return (":permute(%s)"):format(table.concat(order, ", ")), remap(m, shape, function(i)
    local out = {}
    for d = 1, #order do out[order[d]] = i[d] end
    return out
  end)
end)
step(1, function(case, m)
  local from, to, order = case:int(1, #m.shape), case:int(1, #m.shape), {}
  for d = 1, #m.shape do if d ~= from then order[#order + 1] = d end end
  table.insert(order, to, from)
  local shape = {}
  for d = 1, #order do shape[d] = m.shape[order[d]] end
  return (":movedim(%d, %d)"):format(from, to), remap(m, shape, function(i)
    local out = {}
    for d = 1, #order do out[order[d]] = i[d] end
    return out
  end)
end)
step(1, function(case, m)
  local d = case:int(1, #m.shape)
  local length = case:int(0, m.shape[d])
  local start = case:int(1, math.max(1, m.shape[d] - length + 1))
  return (":narrow(%d, %d, %d)"):format(said(case, d, #m.shape), start, length),
    remap(m, replaced(m.shape, d, length), function(i) return replaced(i, d, i[d] + start - 1) end)
end)
step(0, function(_, m)
  local kept = {}
  for d = 1, #m.shape do if m.shape[d] ~= 1 then kept[#kept + 1] = d end end
  local shape = {}
  for k, d in ipairs(kept) do shape[k] = m.shape[d] end
  return ":squeeze()", {shape = shape, cells = m.cells}
end)
step(1, function(case, m)
  local d = case:int(1, #m.shape)
  return (":squeeze(%d)"):format(said(case, d, #m.shape)), {shape = m.shape[d] == 1 and removed(m.shape, d) or m.shape, cells = m.cells}
end)
step(0, function(case, m)
  local extra, shape, words = case:int(0, 1), {}, {}
  if #m.shape + extra == 0 then extra = 1 end
  for k = 1, extra do shape[k] = case:int(1, 3) end
  for k = 1, #m.shape do shape[extra + k] = m.shape[k] == 1 and case:int(1, 3) or m.shape[k] end
  for k = 1, #shape do words[k] = k > extra and case:chance(4) and -1 or shape[k] end
  for k = 1, #shape do if words[k] == -1 then shape[k] = m.shape[k - extra] end end
  return (":expand(%s)"):format(table.concat(words, ", ")), remap(m, shape, function(i)
    local out = {}
    for k = 1, #m.shape do out[k] = m.shape[k] == 1 and 1 or i[extra + k] end
    return out
  end)
end)
step(1, function(case, m)
  local d = case:int(1, #m.shape)
  if m.shape[d] == 0 then return nil end
  local size, stride = case:int(1, m.shape[d]), case:int(1, 3)
  local shape = replaced(m.shape, d, (m.shape[d] - size) // stride + 1)
  shape[#shape + 1] = size
  return (":unfold(%d, %d, %d)"):format(said(case, d, #m.shape), size, stride), remap(m, shape, function(i)
    local out = copy(i)
    local inner = table.remove(out)
    out[d] = (i[d] - 1) * stride + inner
    return out
  end)
end)
step(2, function(case, m)
  local d, e = case:int(1, #m.shape), case:int(1, #m.shape)
  if d == e then return nil end
  local shift = case:int(0, 2) - (case:chance(2) and 1 or 0)
  local n = shift >= 0 and math.min(m.shape[d], m.shape[e] - shift) or math.min(m.shape[d] + shift, m.shape[e])
  local shape = removed(removed(m.shape, math.max(d, e)), math.min(d, e))
  shape[#shape + 1] = math.max(n, 0)
  return (":diagonal(%d, %d, %d)"):format(shift, d, e), remap(m, shape, function(i)
    local out = copy(i)
    local k = table.remove(out)
    local first, second = k + math.max(-shift, 0), k + math.max(shift, 0)
    if d < e then
      return inserted(inserted(out, d, first), e, second)
    end
    return inserted(inserted(out, e, second), d, first)
  end)
end)
step(1, function(case, m)
  local d = case:int(1, #m.shape)
  local pieces = case:int(1, 3)
  local size = math.max(1, (m.shape[d] + pieces - 1) // pieces)
  local made = math.max(1, (m.shape[d] + size - 1) // size)
  if m.shape[d] == 0 then return nil end
  local k = case:int(1, made)
  local n = math.min(size, m.shape[d] - (k - 1) * size)
  local call = case:chance(2) and ("split(%d, %d)"):format(size, d) or ("chunk(%d, %d)"):format(pieces, d)
  return (":%s"):format(call), remap(m, replaced(m.shape, d, n), function(i) return replaced(i, d, i[d] + (k - 1) * size) end), k
end)
step(0, function(case, m)
  local shape = other_shape(case, #m.cells)
  return "reshape", {shape = shape, cells = m.cells}
end)
step(1, function(case, m)
  local d = case:int(1, #m.shape)
  return (":flip(%d)"):format(said(case, d, #m.shape)),
    remap(m, m.shape, function(i) return replaced(i, d, m.shape[d] + 1 - i[d]) end), nil, true
end)

-- A copy: the model's cells are new ones that hold the old values.
local function detached(model, values)
  local fresh, cells = {}, {}
  for k, cell in ipairs(model.cells) do
    fresh[k], cells[k] = values[cell], k
  end
  return {shape = model.shape, cells = cells}, fresh
end

property.add("view chains show what a plain model shows, and writes go through them", 4, function(case)
  local shape, dtype = case:shape(4, 4), case:pick(property.dtypes)
  local base, name = case:let(case:literal(shape, dtype))
  local values, cells = flat(base), {}
  for k = 1, #values do cells[k] = k end
  local m = {shape = shape, cells = cells}
  local x, windows = base, false
  for _ = 1, case:int(1, 5) do
    local how = case:pick(steps)
    if #m.shape >= how.needs and #m.shape < 6 then
      local text, after, piece, copies = how.f(case, m)
      if after and #after.cells <= 400 then
        local made
        if text == "reshape" then
          local sizes = table.concat(after.shape, ", ")
          local ok, viewed, view_name = case:try(("%s:view(%s)"):format(name, sizes))
          if ok then
            -- Only a fresh tensor that lies channels last, as a convolution's result, may be laid out anew.
            copies = #m.cells > 0 and viewed:data_ptr() ~= x:data_ptr()
            case:expect(not copies or (#m.shape > 2 and x:stride(2) == 1), "view copied")
            x, made = viewed, view_name
          else
            case:expect(not x:is_contiguous(), "view refuses a contiguous tensor")
            x, made = case:let(("%s:reshape(%s)"):format(name, sizes))
            copies = true
          end
        elseif piece then
          x, made = case:let(("({%s%s})[%d]"):format(name, text, piece))
        else
          x, made = case:let(name .. text)
        end
        m, name = after, made
        windows = not copies and (windows or text:find("unfold", 1, true) ~= nil)
        if copies then
          base = x
          m, values = detached(m, values)
        end
        case:same_shape(x, m.shape, "after " .. text)
        case:same(x, seen(m, values), "after " .. text)
      end
    end
  end
  case:expect(x:is_contiguous() == (x:contiguous():data_ptr() == x:data_ptr()) or #m.cells == 0, "is_contiguous and contiguous() disagree")
  -- A view whose windows cross is refused even where its elements happen to lie apart.
  if all_different(m.cells) and not windows then
    local v = case:value(dtype)
    if case:chance(2) then
      case:run(("%s:fill_(%s)"):format(name, property.spell(v)))
      for _, c in ipairs(m.cells) do values[c] = v end
    else
      local source, source_name = case:tensor(m.shape, dtype)
      case:run(("%s:copy_(%s)"):format(name, source_name))
      local written = flat(source)
      for k, c in ipairs(m.cells) do values[c] = written[k] end
    end
    case:same(x, seen(m, values), "the view after the write")
    case:same(base, values, "the first tensor after the write")
  end
end)
