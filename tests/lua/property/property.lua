-- A small library of property tests: seeded random cases, written as Lua lines while they run, and shrunk.
-- A case is a list of small whole numbers ("choices"): the first run draws them at random, every later run
-- replays them. Shrinking drops and lowers choices while the case still fails, so whatever a property draws
-- (shapes, values, steps) becomes as short and as close to zero as the fault allows.
--   property.add("a sentence", weight, function(case) ... end)     property.run(name, body, cases, seed)
--   case:int(1, 4)  case:pick(list)  case:chance(3)                draws; the first choice is the simplest
--   case:let("torch.zeros(2)")   runs a line `x1 = torch.zeros(2)`: returns the value and the name "x1"
--   case:try("x1:view(3)")       the same where an error is allowed: ok, value or error, name
--   case:expect(ok, text)  case:same(x, values, text, tol)         the checks
local property = {list = {}}
local random = math.random

local Case = {}
Case.__index = Case

-- 0 .. n - 1. A replayed choice that is too large for what is now drawn becomes the largest.
function Case:draw(n)
  local at = self.at + 1
  local choice
  if self.replay then choice = self.replay[at] or 0 else choice = random(0, n - 1) end
  if choice >= n then choice = n - 1 end
  self.at, self.made[at] = at, choice
  return choice
end

function Case:int(low, high) return low + self:draw(high - low + 1) end
function Case:pick(list) return list[1 + self:draw(#list)] end
-- True in one case of n; false is simpler.
function Case:chance(n) return self:draw(n) == n - 1 end

function Case:note(line) self.lines[#self.lines + 1] = line end

local function run_line(case, text)
  local chunk = assert(load(text, "=case", "t", case.env))
  return pcall(chunk)
end

-- Runs one statement.
function Case:run(text)
  self:note(text)
  local ok, err = run_line(self, text)
  if not ok then self:fail("raised: " .. tostring(err)) end
end

function Case:try(code)
  self.names = self.names + 1
  local name = "x" .. self.names
  local text = name .. " = " .. code
  local ok, err = run_line(self, text)
  if ok then self:note(text) else self.names = self.names - 1 end
  return ok, ok and self.env[name] or err, name
end

function Case:let(code)
  local ok, value, name = self:try(code)
  if not ok then
    self:note(name .. " = " .. code)
    self:fail("raised: " .. tostring(value))
  end
  return value, name
end

local Failure = {}
function Case.fail(_, text) error(setmetatable({text = text}, Failure), 0) end
function Case:expect(ok, text) if not ok then self:fail(type(text) == "function" and text() or text) end end

-- --- values ---
property.dtypes = {"float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "float16", "bfloat16"}
property.floats = {"float32", "float64", "float16", "bfloat16"}
local floating = {float16 = true, bfloat16 = true, float32 = true, float64 = true}
property.floating = floating
local exact = {0, 1, 2, 3, -1, -2, -3, 0.5, -0.5, 1.5, 4, -4, 2.25, -0.75}
local whole = {0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4}
local special = {0, 1, 0 / 0, math.huge, -math.huge, -0.0, -1, 1e-20, -1e20}

local function spell(v)
  if v ~= v then return "0/0" end
  if v == math.huge then return "math.huge" end
  if v == -math.huge then return "-math.huge" end
  if math.type(v) == "float" and v == math.floor(v) and math.abs(v) < 1e6 then
    return 1 / v == -math.huge and "-0.0" or ("%d"):format(v)
  end
  return math.type(v) == "integer" and tostring(v) or ("%.17g"):format(v)
end
property.spell = spell

-- One number that a dtype holds exactly; kinds: nil (small and exact), "real" (any), "special" (with nan and inf).
function Case:value(dtype, kind)
  if dtype == "bool" or dtype == "uint8" then return self:draw(dtype == "bool" and 2 or 8) end
  if not floating[dtype] then return self:pick(whole) end
  if kind == "real" then
    local c = self:draw(8192)
    return c < 4 and c or (c - 4096) / 1024
  end
  if kind == "special" and self:chance(2) then return self:pick(special) end
  return self:pick(exact)
end

local function count(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end
property.count = count

-- Sizes in order of simplicity; zero sizes are rare, as they hide everything else.
function Case:shape(max_rank, max_size, no_zero)
  local shape = {}
  for d = 1, self:int(0, max_rank or 4) do
    shape[d] = not no_zero and self:chance(24) and 0 or self:int(1, max_size or 4)
    -- Long rows reach what lanes and threads do; only where the property says `case.wide = true`.
    if self.wide and self:chance(10) then shape[d] = self:int(5, 100) end
    if count(shape) > 3000 then shape[d] = 1 end
  end
  return shape
end

function property.list_text(t) return "{" .. table.concat(t, ", ") .. "}" end
local list_text = property.list_text

-- The text of a contiguous tensor.
function Case:literal(shape, dtype, kind)
  local n, options = count(shape), dtype == "float32" and "" or (', {dtype="%s"}'):format(dtype)
  if n == 0 then return ("torch.zeros(%s%s)"):format(list_text(shape), options) end
  if n > 100 then  -- a formula instead of choices
    local text = ("torch.arange(%d):mul(%d):remainder(%d)"):format(n, self:int(1, 12), self:int(2, 13))
    if dtype ~= "bool" and dtype ~= "uint8" then text = text .. (":sub(%d)"):format(self:int(0, 6)) end
    return ("%s%s:to(%q):reshape(%s)"):format(text, kind == "real" and ":div(7)" or "", dtype, table.concat(shape, ", "))
  end
  local parts = {}
  for i = 1, n do parts[i] = spell(self:value(dtype, kind)) end
  if options == "" then options = ', {dtype="float32"}' end
  if #shape == 0 then return ("torch.tensor(%s%s)"):format(parts[1], options) end
  local text = ("torch.tensor({%s}%s)"):format(table.concat(parts, ", "), options)
  if #shape > 1 then text = ("%s:reshape(%s)"):format(text, table.concat(shape, ", ")) end
  return text
end

local function with(shape, d, size)
  local copy = table.move(shape, 1, #shape, 1, {})
  copy[d] = size
  return copy
end

-- The text of a tensor of that shape in some layout: dense, transposed, stepped, narrowed, selected, expanded.
function Case:tensor_text(shape, dtype, kind)
  local how = self:draw(6)
  local rank = #shape
  if how == 0 or rank == 0 then return self:literal(shape, dtype, kind) end
  local d = self:int(1, rank)
  local n = shape[d]
  if how == 1 then
    local e = self:int(1, rank)
    return self:literal(with(with(shape, d, shape[e]), e, n), dtype, kind) .. (":transpose(%d, %d)"):format(d, e)
  elseif how == 2 and n > 0 then
    local items = {}
    for i = 1, d - 1 do items[i] = "{}" end
    items[d] = "{2, -1, 2}"
    return self:literal(with(shape, d, 2 * n + 1), dtype, kind) .. ("[{%s}]"):format(table.concat(items, ", "))
  elseif how == 3 then
    return self:literal(with(shape, d, n + 1), dtype, kind) .. (":narrow(%d, %d, %d)"):format(d, n == 0 and 1 or 2, n)
  elseif how == 4 then
    local longer = table.move(shape, 1, rank, 1, {})
    table.insert(longer, d, 2)
    return self:literal(longer, dtype, kind) .. (":select(%d, 2)"):format(d)
  elseif how == 5 and n > 0 then
    return self:literal(with(shape, d, 1), dtype, kind) .. (":expand(%s)"):format(table.concat(shape, ", "))
  end
  return self:literal(shape, dtype, kind)
end

function Case:tensor(shape, dtype, kind) return self:let(self:tensor_text(shape, dtype, kind)) end

-- --- reading tensors ---
-- The elements in order as a flat list of numbers (false is 0, true is 1).
local function flat(x)
  local out, n = {}, 0
  local function walk(v)
    if type(v) == "table" then
      for i = 1, #v do walk(v[i]) end
    else
      n = n + 1
      if v == true then v = 1 elseif v == false then v = 0 end
      out[n] = v
    end
  end
  walk(x:tolist())
  return out
end
property.flat = flat

function property.dtype_of(x) return (tostring(x.dtype):gsub("^torch%.", "")) end

local function agree(a, b, tol)
  if a == b or (a ~= a and b ~= b) then return true end
  return tol ~= nil and math.abs(a - b) <= tol + tol * math.abs(b)
end

local function brief(list)
  local parts = {}
  for i = 1, math.min(#list, 24) do parts[i] = spell(list[i]) end
  return "{" .. table.concat(parts, ", ") .. (#list > 24 and ", ..." or "") .. "}"
end

-- x (a tensor, or a flat list) holds these values; expected is a flat list or a tensor of the same shape and dtype.
function Case:same(x, expected, what, tol)
  if type(expected) == "userdata" then
    self:expect(x.shape == expected.shape, function()
      return ("%s: shape %s, expected %s"):format(what, tostring(x.shape), tostring(expected.shape))
    end)
    self:expect(tostring(x.dtype) == tostring(expected.dtype), function()
      return ("%s: %s, expected %s"):format(what, tostring(x.dtype), tostring(expected.dtype))
    end)
    expected = flat(expected)
  end
  local got = type(x) == "userdata" and flat(x) or x
  if #got ~= #expected then self:fail(("%s: %d elements, expected %d"):format(what, #got, #expected)) end
  for i = 1, #got do
    if not agree(got[i], expected[i], tol) then
      self:fail(("%s: got %s, expected %s"):format(what, brief(got), brief(expected)))
    end
  end
end

function Case:same_shape(x, shape, what)
  self:expect(x.shape == shape, function()
    return ("%s: shape %s, expected %s"):format(what, tostring(x.shape), list_text(shape))
  end)
end

-- --- running and shrinking ---
-- Runs one case: nil when it holds, else the failure; either way the case, whose `made` replays it.
local function attempt(body, replay)
  local env = setmetatable({}, {__index = _G})
  local case = setmetatable({replay = replay, at = 0, made = {}, lines = {}, names = 0, env = env}, Case)
  local ok, err = pcall(body, case)
  if ok then return nil, case end
  local raised = getmetatable(err) ~= Failure
  return {text = raised and "the property raised: " .. tostring(err) or err.text, raised = raised}, case
end

local function simpler(a, b)
  if #a ~= #b then return #a < #b end
  for i = 1, #a do
    if a[i] ~= b[i] then return a[i] < b[i] end
  end
  return false
end

local function without(list, first, n)
  local out = table.move(list, 1, first - 1, 1, {})
  return table.move(list, first + n, #list, first, out)
end

-- The simplest case that still fails in the same way (a wrong result stays a wrong result).
local function shrink(body, failure, case, budget)
  local best, best_failure = case, failure
  local function better(choices)
    if budget <= 0 then return false end
    budget = budget - 1
    local found, tried = attempt(body, choices)
    if not found or found.raised ~= failure.raised or not simpler(tried.made, best.made) then return false end
    best, best_failure = tried, found
    return true
  end
  local again = true
  while again and budget > 0 do
    again = false
    for _, n in ipairs {16, 8, 4, 2, 1} do
      local i = #best.made - n + 1
      while i >= 1 do
        if better(without(best.made, i, n)) then again = true else i = i - 1 end
        i = math.min(i, #best.made - n + 1)
      end
    end
    local i = 1
    while i <= #best.made do
      local value = best.made[i]
      local low = 0
      -- The smallest value that still fails, by halving; then one choice fewer behind a lowered one (a length).
      while low < value do
        local try = with(best.made, i, low)
        if better(try) then
          again = true
          break
        end
        for j = i + 1, math.min(#best.made, i + 24) do
          if better(without(try, j, 1)) then
            again = true
            break
          end
        end
        if i > #best.made or best.made[i] <= low then break end
        low = math.max(low + 1, (low + value) // 2)
      end
      i = i + 1
    end
  end
  return best_failure, best
end

-- Runs cases of one property; nil, or the report of the smallest failing case.
function property.run(name, body, cases, seed, first)
  for number = first or 1, (first or 1) + cases - 1 do
    math.randomseed(seed, number)
    local failure, case = attempt(body)
    if failure then
      failure, case = shrink(body, failure, case, 4000)
      local lines = table.concat(case.lines, "\n")
      return ("case %d of seed %d:\n%s\n-- %s"):format(number, seed, lines, failure.text), case, number
    end
    if number % 256 == 0 then collectgarbage("step") end
  end
end

function property.add(name, weight, body) property.list[#property.list + 1] = {name = name, weight = weight, body = body} end

return property
