-- Axes of a figure: round numbers to mark, and how they are written.
local axes = {}

---Round marks within a range, about `want` of them: 1, 2 or 5 times a power of ten apart, and at
---least `least`.
---@return number[] marks, number step
function axes.marks(low, high, want, least)
  local raw = math.max((high - low) / math.max(want, 1), least or 0)
  if not (raw > 0) or raw == math.huge then return {low, high}, high - low end
  local power = 10.0 ^ math.floor(math.log(raw, 10))
  local step = power
  for _, m in ipairs {1, 2, 5, 10} do
    step = m * power
    if step >= raw * 0.999 then break end
  end
  if step == 0 then return {low, high}, high - low end
  local marks = {}
  local first = math.ceil(low / step - 1e-9)
  for i = 0, 100 do
    local v = (first + i) * step
    if v > high + step * 1e-9 then break end
    marks[#marks + 1] = v == 0 and 0.0 or v
  end
  if #marks < 2 and want < 16 and (least or 0) < raw then return axes.marks(low, high, want * 2, least) end
  return marks, step
end

---A mark as text, with as many decimals as tell neighbours apart; `size` is the largest mark's.
function axes.text(v, step, size)
  if v == 0 then return "0" end
  if size >= 1e7 or size < 1e-4 then
    local digits = math.max(0, math.floor(math.log(math.abs(v), 10)) - math.floor(math.log(step, 10) + 1e-9))
    local s = ("%." .. math.min(digits, 6) .. "e"):format(v)
    s = s:gsub("%.(%d-)0+e", function(d) return (d == "" and "" or "." .. d) .. "e" end)
    return (s:gsub("e([+-])0*(%d)", function(sign, d) return "e" .. (sign == "-" and "-" or "") .. d end))
  end
  local decimals = math.max(0, -math.floor(math.log(step, 10) + 1e-9))
  return ("%." .. math.min(decimals, 9) .. "f"):format(v)
end

local function short(v)
  return (("%.3g"):format(v):gsub("e([+-])0*(%d)", function(sign, d) return "e" .. (sign == "-" and "-" or "") .. d end))
end

-- Marks of a logarithmic axis, whose range holds exponents: whole powers of ten, with 2 and 5 times them where those are
-- few; nil where the range is too small for them.
local function powers(low, high, want)
  local first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
  local step, out = math.max(1, math.ceil((last - first + 1) / math.max(2, want))), {}
  for _, parts in ipairs {{1}, {1, 2, 5}} do
    out = {}
    for k = math.floor(low), last, step do
      for _, m in ipairs(parts) do
        local v = k + math.log(m, 10)
        if v >= low - 1e-9 and v <= high + 1e-9 then out[#out + 1] = {value = v, text = short(m * 10.0 ^ k)} end
      end
    end
    if #out >= 3 then return out end
  end
  return #out >= 2 and out or nil
end

---Marks of an axis with their texts; of a logarithmic one (the range holds exponents) powers of ten.
---@return {value: number, text: string}[]
function axes.labelled(low, high, want, logarithmic, least)
  local out = logarithmic and powers(low, high, want)
  if out then return out end
  out = {}
  local marks, step = axes.marks(low, high, want, least)
  local size = math.max(math.abs(low), math.abs(high))
  for _, v in ipairs(marks) do
    out[#out + 1] = {value = v, text = logarithmic and short(10.0 ^ v) or axes.text(v, step, size)}
  end
  return out
end

-- An end of an axis in three digits or four, as far as they differ from the marks beside it.
local function end_text(v, low, high)
  local size = math.max(math.abs(low), math.abs(high))
  if v == 0 or math.abs(v) < size * 1e-6 then return "0" end
  if math.type(v) == "integer" or v == math.floor(v) and size < 1e7 then return ("%d"):format(math.floor(v)) end
  local digits = math.max(3, math.ceil(math.log(size / math.max(high - low, size * 1e-12), 10)) + 2)
  if size >= 100 and size < 1e7 and high - low >= 10 then return ("%.0f"):format(v) end
  return (("%." .. math.min(digits, 9) .. "g"):format(v):gsub("e([+-])0*(%d)", function(sign, d) return "e" .. (sign == "-" and "-" or "") .. d end))
end

---The marks of an axis with its two ends among them; marks nearer to an end than `near` go.
---@param marks {value: number, text: string}[]
---@param near fun(text: string): number how far apart marks beside a text stand, as a share of the axis
---@return {value: number, text: string}[]
function axes.with_ends(marks, low, high, near, logarithmic, whole)
  local ends = {}
  for i, v in ipairs {low, high} do
    if not (whole and v ~= math.floor(v)) and high > low then
      ends[#ends + 1] = {value = v, text = logarithmic and short(10.0 ^ v) or end_text(v, low, high), first = i == 1}
    end
  end
  local out = {}
  for _, m in ipairs(marks) do
    local free = true
    for _, e in ipairs(ends) do
      local gap = math.abs(m.value - e.value) / (high - low)
      if gap < 1e-9 then e.text = m.text end
      free = free and gap >= math.max(near(m.text), near(e.text))
    end
    if free then out[#out + 1] = m end
  end
  for _, e in ipairs(ends) do table.insert(out, e.first and 1 or #out + 1, e) end
  return out
end

return axes
