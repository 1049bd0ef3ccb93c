-- What is drawn: numbers out of tensors and tables, and the figure made of them. A figure holds
-- series {x =, y =, label =}, or bars {from =, to =, heights =}, ranges and remarks.
local torch = torch
local error = torch._raise
local data = {}

local inf = math.huge
local many = 20000  -- longer curves are drawn by the least and most of each stretch

local function finite(v) return v == v and v ~= inf and v ~= -inf end

-- A detached tensor on the CPU.
local function plain(x)
  local y = x:detach()
  if not y.device or tostring(y.device) ~= "cpu" then y = y:cpu() end
  return y
end

-- The least and the most of each stretch of a long vector, with the position of both.
local function stretches(y, n)
  return torch.no_grad(function()
    local size = (n + many // 2 - 1) // (many // 2)
    local rows = n // size
    local part = y[{{1, rows * size}}]:to("float64"):view(rows, size)
    local ok = part:isfinite()
    local low = torch.where(ok, part, torch.full({}, inf, {dtype = "float64"})):amin(2):tolist()
    local high = torch.where(ok, part, torch.full({}, -inf, {dtype = "float64"})):amax(2):tolist()
    local xs, ys = {}, {}
    for i = 1, rows do
      local x = (i - 1) * size + 1
      if low[i] <= high[i] then
        xs[#xs + 1], ys[#ys + 1] = x, low[i]
        xs[#xs + 1], ys[#ys + 1] = x + size - 1, high[i]
      else
        xs[#xs + 1], ys[#ys + 1] = x, 0 / 0
      end
    end
    for i = rows * size + 1, n do xs[#xs + 1], ys[#ys + 1] = i, y[i]:item() end
    return xs, ys
  end)
end

local function numbers_of(list, what)
  for i = 1, #list do
    local v = list[i]
    if type(v) == "boolean" then list[i] = v and 1 or 0
    elseif torch.is_tensor(v) and v:numel() == 1 then list[i] = plain(v):item()
    elseif type(v) ~= "number" then
      error(("plot: %s must be numbers; item %d is a %s"):format(what, i, type(v)), 4)
    end
    if type(list[i]) == "boolean" then list[i] = list[i] and 1 or 0 end
  end
  return list
end

local function copy(list)
  return table.move(list, 1, #list, 1, {})
end

-- Appends the curves that one argument stands for: a vector, the columns of a matrix, a list of
-- numbers, a list of curves, or curves by name.
local function add_curves(v, label, out)
  if torch.is_tensor(v) then
    if v.ndim == 2 and v.shape[2] ~= 1 then
      if v.shape[2] > 20 then
        error(("plot: a tensor of shape %s has %d columns, each a curve; at most 20 can be told apart; x:show() draws a heat map"):format(tostring(v.shape), v.shape[2]), 4, "shape")
      end
      for k = 1, v.shape[2] do out[#out + 1] = {tensor = plain(v)[{{}, k}], label = label and label .. " " .. k} end
      return
    end
    if v.ndim > 2 then
      error(("plot: wants a vector or a matrix with a curve per column, not shape %s%s"):format(tostring(v.shape),
        v.ndim == 3 and "; a picture is drawn by x:show()" or ""), 4, "shape")
    end
    out[#out + 1] = {tensor = plain(v):reshape(-1), label = label}
    return
  end
  if type(v) ~= "table" then error(("plot: wants tensors or lists of numbers, not a %s"):format(type(v)), 4) end
  local first = v[1]
  if type(first) == "table" or (torch.is_tensor(first) and first:numel() ~= 1) then
    for _, curve in ipairs(v) do add_curves(curve, label, out) end
  elseif first == nil and next(v) ~= nil then
    local names = {}
    for k in pairs(v) do names[#names + 1] = tostring(k) end
    table.sort(names)
    for _, k in ipairs(names) do add_curves(v[k], k, out) end
  else
    out[#out + 1] = {list = numbers_of(copy(v), "y"), label = label}
  end
end

local function count_text(n, what) return ("%d %s"):format(n, what) end

-- What of the values cannot be drawn, in words; nil when everything can.
local function remark(skipped)
  local parts = {}
  for _, k in ipairs {"nan", "+inf", "-inf", "not positive"} do
    if skipped[k] then parts[#parts + 1] = count_text(skipped[k], k) end
  end
  if #parts > 0 then return table.concat(parts, ", ") .. " not drawn" end
end

local function kind_of(v)
  if v ~= v then return "nan" end
  return v > 0 and "+inf" or "-inf"
end

local function all_whole(list)
  for _, v in ipairs(list) do
    if v ~= v // 1 then return false end
  end
  return true
end

-- The range, widened where it is a point; of a logarithmic axis in powers of ten.
local function widened(low, high)
  if low > high then return 0, 1 end
  if low == high then
    local by = low == 0 and 1 or math.abs(low) * 0.1
    return low - by, high + by
  end
  return low, high
end

---The figure of plot's arguments.
function data.curves(args, o)
  if args.n == 0 then error("plot: wants values, as in plot(y) or plot(x, y)", 3) end
  local curves, xs = {}, nil
  local first = 1
  if args.n > 1 then
    local list = {}
    add_curves(args[1], nil, list)
    if #list ~= 1 then error("plot: x must be one vector", 3, "shape") end
    xs = list[1].list or list[1].tensor:to("float64"):tolist()
    first = 2
  end
  for i = first, args.n do add_curves(args[i], nil, curves) end
  local wanted = o.colours or o.colors
  for key, v in pairs(wanted or {}) do
    local found = math.type(key) == "integer" and curves[key]
    for _, curve in ipairs(curves) do
      if curve.label == key then found = curve end
    end
    if not found then
      error(("plot: colours has one for %s, but there is no such curve"):format(type(key) == "string" and '"' .. key .. '"' or "number " .. tostring(key)), 3, "value")
    end
    found.colour = require("torch.plot.colours").parse("plot", v)
  end
  if wanted then require("torch.plot.colours").others(curves) end
  local figure = {series = {}, skipped = {}, points = o.points, xlog = o.xlog, ylog = o.ylog,
    whole_x = not o.xlog and (not xs or all_whole(xs))}
  local skipped = {}
  local function skip(what) skipped[what] = (skipped[what] or 0) + 1 end
  local x0, x1, y0, y1 = inf, -inf, inf, -inf
  for k, curve in ipairs(curves) do
    local n = curve.list and #curve.list or curve.tensor:numel()
    local x, y = xs, curve.list
    if xs and #xs ~= n then
      error(("plot: x has %d values and y has %d"):format(#xs, n), 3, "shape")
    end
    if not y then
      if n > many and not xs then
        local s = torch._summary(curve.tensor)
        for name, count in pairs {nan = s.nan, ["+inf"] = s.plus, ["-inf"] = s.minus} do
          if count > 0 then skipped[name] = (skipped[name] or 0) + count end
        end
        x, y = stretches(curve.tensor, n)
        curve.counted = true
      else
        y = curve.tensor:tolist()
      end
    end
    -- What cannot be drawn is a gap in the curve: a nan.
    local series = {x = {}, y = {}, label = o.labels and tostring(o.labels[k] or "") or curve.label, colour = curve.colour}
    for i = 1, #y do
      local a, b = x and x[i] or i, y[i]
      if type(b) == "boolean" then b = b and 1 or 0 end
      local good = true
      if not finite(b) then
        if not curve.counted then skip(kind_of(b)) end
        good = false
      elseif not finite(a) then
        skip(kind_of(a))
        good = false
      elseif (o.ylog and b <= 0) or (o.xlog and a <= 0) then
        skip "not positive"
        good = false
      end
      if good then
        a, b = a + 0.0, b + 0.0
        if o.xlog then a = math.log(a, 10) end
        if o.ylog then b = math.log(b, 10) end
        x0, x1, y0, y1 = math.min(x0, a), math.max(x1, a), math.min(y0, b), math.max(y1, b)
        series.x[i], series.y[i] = a, b
      else
        series.x[i], series.y[i] = 0 / 0, 0 / 0
      end
    end
    figure.series[k] = series
  end
  figure.empty = x0 > x1
  figure.x0, figure.x1 = widened(x0, x1)
  figure.y0, figure.y1 = widened(y0, y1)
  figure.title, figure.xlabel, figure.ylabel = o.title, o.xlabel, o.ylabel
  figure.remark = remark(skipped)
  return figure
end

---The figure of hist's arguments.
function data.histogram(args, o)
  local x, bins = args[1], args[2] or o.bins
  if args.n == 0 or args.n > 2 then error("hist: wants values and maybe a number of bins, as in hist(x, 20)", 3) end
  if type(x) == "table" and not torch.is_tensor(x) then x = torch.tensor(numbers_of(copy(x), "values"), {dtype = "float64"}) end
  if not torch.is_tensor(x) then error(("hist: wants a tensor or a list of numbers, not a %s"):format(type(x)), 3) end
  if bins ~= nil and (math.type(bins) ~= "integer" or bins < 1 or bins > 10000) then
    error(("hist: bins must be an integer from 1 to 10000, not %s"):format(tostring(bins)), 3, "value")
  end
  x = plain(x):reshape(-1)
  local figure = {bars = true, title = o.title, xlabel = o.xlabel, ylabel = o.ylabel or (o.log and "log10 of count" or nil)}
  local n = x:numel()
  local s = n > 0 and torch._summary(x) or {nan = 0, plus = 0, minus = 0, finite = 0}
  figure.remark = remark {nan = s.nan > 0 and s.nan or nil, ["+inf"] = s.plus > 0 and s.plus or nil, ["-inf"] = s.minus > 0 and s.minus or nil}
  if s.finite == 0 then
    figure.empty, figure.x0, figure.x1, figure.y0, figure.y1 = true, 0, 1, 0, 1
    figure.heights, figure.from, figure.to = {}, 0, 1
    return figure
  end
  local low, high = s.min, s.max
  if o.range then
    low, high = o.range[1], o.range[2]
    if type(low) ~= "number" or type(high) ~= "number" or not finite(low) or not finite(high) or low >= high then
      error("hist: range must be two numbers, the smaller one first", 3, "value")
    end
  elseif not x.dtype.is_floating_point and (bins == nil or bins == high - low + 1) and high - low < 60 then
    -- Few whole numbers: a bin around each.
    bins = math.tointeger(high - low + 1)
    low, high, figure.whole_x = low - 0.5, high + 0.5, true
  end
  low, high = widened(low, high)
  bins = bins or math.max(5, math.min(40, math.ceil(math.sqrt(s.finite))))
  local heights = torch.no_grad(function()
    -- In float64 the edges are exact to the last bin; what is not finite is outside every range.
    local y = x:to("float64")
    if s.nan + s.plus + s.minus > 0 then y = y[y:isfinite()] end
    return y:histc {bins = bins, min = low, max = high}:tolist()
  end)
  local top = 0
  for i = 1, #heights do
    if o.log then heights[i] = heights[i] > 0 and math.log(heights[i], 10) or 0 end
    top = math.max(top, heights[i])
  end
  figure.heights, figure.from, figure.to = heights, low, high
  figure.x0, figure.x1, figure.y0, figure.y1 = low, high, 0, top > 0 and top or 1
  return figure
end

return data
