-- Commands that look inside of values: %bits (how numbers are stored) and %layout (where tensors lie).
local columns = require "shell.columns"
local commands = require "shell.commands"

-- ---- %bits -----------------------------------------------------------------------------------

local floats = {
  {name = "f32", dtype = "float32", exponent = 8, mantissa = 23, most = 0x1.fffffep127, digits = 9},
  {name = "f16", dtype = "float16", exponent = 5, mantissa = 10, most = 65504.0, digits = 6},
  {name = "bf16", dtype = "bfloat16", exponent = 8, mantissa = 7, most = 0x1.fep127, digits = 6},
  {name = "f64", dtype = "float64", exponent = 11, mantissa = 52, most = 0x1.fffffffffffffp1023, digits = 17},
}
local integers = {
  {name = "i8", bits = 8}, {name = "i16", bits = 16}, {name = "i32", bits = 32}, {name = "i64", bits = 64},
}
local by_dtype = {}
for _, f in ipairs(floats) do by_dtype[f.dtype] = f end
for i, dtype in ipairs {"int8", "int16", "int32", "int64"} do by_dtype[dtype] = integers[i] end
by_dtype.uint8 = {name = "u8", bits = 8}
by_dtype.bool = {name = "bool", bits = 8}

local function binary(n, bits)
  local out = {}
  for i = bits - 1, 0, -1 do out[#out + 1] = tostring(n >> i & 1) end
  return table.concat(out)
end

-- The fields of a number that the format holds exactly.
local function fields(x, format)
  local all = string.unpack(">i8", string.pack(">d", x))
  local sign, exponent, mantissa = all >> 63 & 1, all >> 52 & 0x7ff, all & 0xfffffffffffff
  local bias = (1 << (format.exponent - 1)) - 1
  local lost = 52 - format.mantissa
  if exponent == 0x7ff then  -- inf and nan
    return sign, (1 << format.exponent) - 1, mantissa ~= 0 and math.max(1, mantissa >> lost) or 0
  end
  local e = exponent - 1023 + bias
  if exponent == 0 and format.exponent < 11 or x == 0 then return sign, 0, 0 end
  if format.exponent == 11 then return sign, exponent, mantissa end
  if e >= 1 then return sign, e, mantissa >> lost end
  return sign, 0, (mantissa | 1 << 52) >> (lost + 1 - e)  -- subnormal
end

-- The distance to the next number of the format, away from 0.
local function step_at(x, format)
  local _, exponent = fields(x, format)
  local bias = (1 << (format.exponent - 1)) - 1
  return 2.0 ^ (math.max(exponent, 1) - bias - format.mantissa)
end

local function percent(p)
  local a = math.abs(p)
  local text = a == 100 and "100" or a >= 0.001 and ("%.3f"):format(a) or ("%.1g"):format(a)
  return (p < 0 and "-" or "+") .. text
end

-- A number in a floating point format: its bits, its value, how far it is from what was meant.
local function float_row(value, format)
  local stored = torch.tensor({value}):to(format.dtype):double():item()
  if math.type(value) == "float" then
    stored = torch.tensor({value}, {dtype = "float64"}):to(format.dtype):double():item()
  end
  local sign, exponent, mantissa = fields(stored, format)
  local note = ""
  local wide = math.abs(stored) < math.huge and stored == stored
  if stored ~= stored or value == stored then
    note = ""
  elseif not wide then
    note = ("too large: the largest is %.6g"):format(format.most)
  elseif stored == 0 then
    note = "too small: became 0"
  else
    note = ("error %s %%"):format(percent(100 * (stored - value) / math.abs(value)))
  end
  return {
    format.name,
    ("%d %-8s %s"):format(sign, binary(exponent, format.exponent), binary(mantissa, format.mantissa)),
    stored ~= stored and "nan" or ("%." .. format.digits .. "g"):format(stored),
    note,
    wide and stored ~= 0 and ("next +%.3g"):format(step_at(stored, format)) or "",
  }
end

local function grouped(bits) return (bits:gsub("%d%d%d%d%d%d%d%d", "%0 "):gsub(" $", "")) end

local function integer_rows(value)
  local rows = {}
  for _, format in ipairs(integers) do
    local half = 1 << (format.bits - 1)
    local fits = format.bits == 64 or value >= -half and value < half
    if format.bits < 64 or value < -(1 << 31) or value >= 1 << 31 then
      rows[#rows + 1] = {format.name, fits and grouped(binary(value, format.bits)) or "does not fit", fits and tostring(value) or "", "", ""}
    end
  end
  return rows
end

local most_elements = 8

local function tensor_rows(x)
  local format = by_dtype[(tostring(x.dtype):gsub("^torch%.", ""))]
  local rows = {}
  local flat = x:detach():reshape(-1)
  for i = 1, math.min(flat:numel(), most_elements) do
    local value = flat[i]:item()
    if type(value) == "boolean" then value = value and 1 or 0 end
    local row
    if format.mantissa then
      row = float_row(value + 0.0, format)
    else
      row = {format.name, grouped(binary(value, format.bits)), tostring(value), "", ""}
    end
    table.insert(row, 1, ("[%d]"):format(i))
    rows[i] = row
  end
  return rows
end

-- Rows as lines of {label, .., bits, value, error, next}: what does not fit beside the bits goes,
-- the distance to the next number first, or stands under them.
local function say_rows(session, rows, first)
  local width, wide = columns.window(), {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do
      if #row[first + 1] <= 40 then wide[i] = math.max(wide[i] or 0, #cell) end
    end
  end
  for _, row in ipairs(rows) do
    local parts = {}
    for i, cell in ipairs(row) do
      if i <= first + 3 then parts[i] = cell .. (" "):rep((wide[i] or 0) - #cell) end
    end
    local line = table.concat(parts, "  "):gsub("%s+$", "")
    local full = line .. "  " .. row[first + 4]
    if row[first + 4] ~= "" and #full <= width then line = full end
    if #line <= width then
      session.say(line)
    else
      local head = table.concat(parts, "  ", 1, first) .. "  "
      local lines = columns.wrap(parts[first + 1], math.max(width - #head, 9))
      for i, part in ipairs(lines) do session.say((i == 1 and head or (" "):rep(#head)) .. part) end
      local rest = {}
      for i = first + 2, #row do
        if row[i] ~= "" then rest[#rest + 1] = row[i] end
      end
      session.say(columns.clip((" "):rep(#head) .. table.concat(rest, "  "), width))
    end
  end
end

local function bits(args, session)
  if args == "" then return "a number or a tensor is wanted" end
  local run = commands.compile(args, session)
  local values = table.pack(run())
  for i = 1, values.n do
    local value = values[i]
    if torch.is_tensor(value) then
      session.say(columns.describe(value))
      if value:numel() == 0 then
        session.say("  empty")
      else
        say_rows(session, tensor_rows(value), 2)
        if value:numel() > most_elements then session.say(("  .. %d more elements"):format(value:numel() - most_elements)) end
      end
    elseif type(value) == "number" then
      local rows = math.type(value) == "integer" and integer_rows(value) or {}
      for _, format in ipairs(floats) do rows[#rows + 1] = float_row(value, format) end
      say_rows(session, rows, 1)
    else
      return ("a number or a tensor is wanted, not %s"):format(value == nil and "nothing" or "a " .. type(value))
    end
  end
  if values.n == 0 then return "a number or a tensor is wanted; this gave nothing" end
end

-- ---- %layout ---------------------------------------------------------------------------------

local most_looked_at = 4096  -- elements compared between two tensors
local most_tensors = 8

-- The texts between the commas outside of all brackets.
local function split(text)
  local parts, depth, from = {}, 0, 1
  for _, token in ipairs(torch._lex(text)) do
    local t = text:sub(token.first, token.last)
    if token.kind == "op" then
      if t == "(" or t == "{" or t == "[" then depth = depth + 1 end
      if t == ")" or t == "}" or t == "]" then depth = depth - 1 end
      if t == "," and depth == 0 then
        parts[#parts + 1] = text:sub(from, token.first - 1)
        from = token.last + 1
      end
    end
  end
  parts[#parts + 1] = text:sub(from)
  for i, part in ipairs(parts) do parts[i] = part:match("^%s*(.-)%s*$") end
  return parts
end

-- Calls f(cell, index) for the first elements, in their order; cells and indices count from 1.
local function each_element(t, f)
  local rank, index, shape, stride = #t.shape, {}, t.shape, t.stride
  local cell = t.look.offset + 1
  for d = 1, rank do
    index[d] = 1
    if shape[d] == 0 then return end
  end
  for _ = 1, most_looked_at do
    if f(cell, index) then return end
    local d = rank
    while d >= 1 do
      index[d], cell = index[d] + 1, cell + stride[d]
      if index[d] <= shape[d] then break end
      cell = cell - stride[d] * shape[d]
      index[d], d = 1, d - 1
    end
    if d < 1 then return end
  end
end

local function at(name, index)
  if #index == 0 then return name end
  if #index == 1 then return ("%s[%d]"):format(name, index[1]) end
  return ("%s[{%s}]"):format(name, table.concat(index, ", "))
end

local function cell_text(value)
  if math.type(value) == "float" then return ("%.4g"):format(value) end
  if type(value) == "boolean" then return value and "#" or "." end
  return tostring(value)
end

-- The cells of a storage as | 0 | 1 | 2 |, the middle left out when they do not fit.
local function say_storage(session, n, t)
  local cells = t.look.storage_bytes // t.x:element_size()
  local head = ("store %d   %s x %d   "):format(n, t.look.dtype, cells)
  local width = columns.window()
  local room = width - #head
  if room < 24 then
    session.say(head:match("^(.-)%s*$"))
    head, room = "  ", width - 2
  end
  local flat = torch.no_grad(function() return t.x:detach():as_strided({cells}, {1}, 0) end)
  local function text(i) return cell_text(flat[i]:item()) end
  local left, right, used = {}, {}, 1
  local first, last = 1, cells
  local gap = 5  -- " .. |"
  while first <= last do
    local s = text(first)
    if used + #s + 3 > room - (first < last and gap or 0) then break end
    left[#left + 1], used, first = s, used + #s + 3, first + 1
    if first <= last and #left >= 4 and #left % 2 == 0 then
      s = text(last)
      if used + #s + 3 > room - gap then break end
      table.insert(right, 1, s)
      used, last = used + #s + 3, last - 1
    end
  end
  if first <= last then left[#left + 1] = ".." end
  table.move(right, 1, #right, #left + 1, left)
  session.say(cells == 0 and head .. "empty" or head .. "| " .. table.concat(left, " | ") .. " |")
end

local function tensor_line(t, tensors, names)
  local words = {tostring(t.x.shape)}
  words[#words + 1] = #t.stride > 0 and "steps " .. table.concat(t.stride, " ") or "one cell"
  if t.look.offset > 0 then words[#words + 1] = ("from cell %d"):format(t.look.offset + 1) end
  local of
  for _, other in ipairs(tensors) do
    if other ~= t and other.look.id == t.look.base then of = other.name end
  end
  for _, other in ipairs(tensors) do
    if other == t then break end
    if not of and other.look.id == t.look.id then of = false words[#words + 1] = "the same tensor as " .. other.name end
    if of == nil and other.look.storage == t.look.storage then of = other.name end
  end
  local stretched = false
  for d, step in ipairs(t.stride) do stretched = stretched or step == 0 and t.shape[d] > 1 end
  local whole = t.x:is_contiguous() and t.look.bytes == t.look.storage_bytes
  if of then words[#words + 1] = "view of " .. of elseif t.look.base and of == nil and not whole then words[#words + 1] = "a view" end
  if stretched then words[#words + 1] = "stretched"
  elseif t.x:is_contiguous() then
    if not of then words[#words + 1] = "contiguous" end
  elseif not of then
    words[#words + 1] = "not contiguous"
  end
  return ("%-" .. names .. "s  %s"):format(t.name, table.concat(words, "  "))
end

-- What writing one of the two does to the other.
local function relation(a, b)
  local where = {}
  each_element(a, function(cell, index) where[cell] = where[cell] or table.move(index, 1, #index, 1, {}) end)
  local best
  each_element(b, function(cell, index)
    local other = where[cell]
    if not other then return false end
    local own = table.move(index, 1, #index, 1, {})
    local different = table.concat(own, ",") ~= table.concat(other, ",")
    if not best or different then best = {cell = cell, own = own, other = other} end
    return different
  end)
  if not best then
    local all = a.x:numel() <= most_looked_at and b.x:numel() <= most_looked_at
    return all and ("%s and %s share the storage but no cell: writing one leaves the other as it is"):format(a.name, b.name)
  end
  return ("%s is cell %d, the same as %s: writing one changes the other"):format(at(b.name, best.own), best.cell, at(a.name, best.other))
end

local function itself(t)
  local where, found = {}, nil
  each_element(t, function(cell, index)
    if where[cell] then found = {cell = cell, first = where[cell], second = table.move(index, 1, #index, 1, {})} end
    where[cell] = where[cell] or table.move(index, 1, #index, 1, {})
    return found ~= nil
  end)
  if not found then return nil end
  return ("%s and %s are both cell %d: %s cannot be written in place; clone it first"):format(
    at(t.name, found.first), at(t.name, found.second), found.cell, t.name)
end

local function layout(args, session)
  if args == "" then return "one or more tensors are wanted" end
  local values = table.pack(commands.compile(args, session)())
  local texts, tensors, wide = split(args), {}, 0
  for i = 1, math.min(values.n, most_tensors) do
    local x = values[i]
    if not torch.is_tensor(x) then
      return ("%s is no tensor but %s"):format(texts[i] or "a value", x == nil and "nil" or "a " .. type(x))
    end
    local name = texts[i] and #texts[i] <= 20 and texts[i] or "#" .. i
    tensors[i] = {name = name, x = x, look = torch._inspect(x), shape = x:size(), stride = {table.unpack(x:stride())}}
    wide = math.max(wide, #name)
  end
  if #tensors == 0 then return "one or more tensors are wanted" end
  local width, stores, order = columns.window(), {}, {}
  for _, t in ipairs(tensors) do
    local key = t.look.storage
    if not stores[key] then
      order[#order + 1] = key
      stores[key] = {}
    end
    table.insert(stores[key], t)
  end
  for n, key in ipairs(order) do
    say_storage(session, n, stores[key][1])
    for _, t in ipairs(stores[key]) do session.say(columns.clip(tensor_line(t, stores[key], wide), width)) end
    local function say(text)
      if text then session.say(table.concat(columns.wrap(text, width), "\n")) end
    end
    for _, t in ipairs(stores[key]) do say(itself(t)) end
    for i = 2, #stores[key] do
      if stores[key][i].look.id ~= stores[key][1].look.id then say(relation(stores[key][1], stores[key][i])) end
    end
  end
  if #order > 1 then
    session.say(table.concat(columns.wrap(("%d storages: writing to one changes none of the others"):format(#order), width), "\n"))
  end
  if values.n > most_tensors then session.say(("and %d more"):format(values.n - most_tensors)) end
end

return {
  {
    name = "bits", usage = "%bits VALUE, ..", example = "%bits 0.1",
    doc = "How numbers, or a tensor's elements, are stored: sign, exponent, fraction, and the error of each type.",
    run = bits,
  },
  {
    name = "layout", usage = "%layout X, Y, ..", example = "%layout x, x:t()",
    doc = "Where tensors lie in memory, who shares cells with whom, and what a write would change.",
    run = layout,
  },
}
