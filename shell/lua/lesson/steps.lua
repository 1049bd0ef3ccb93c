-- First steps and silent slips of a task about a variable: whether an entry made a value that the answer goes
-- through too, and whether it worked on a copy where the variable itself was meant.
local card = require "shell.lesson.card"
local entry_of = require "shell.entry"
local values = require "shell.lesson.values"
local T = require("torch.language").text

local steps = {}

local is_tensor = values.is_tensor
local most = 100000  -- elements of a tensor that is copied to see whether an entry changes it

local function storage_of(t) return torch._inspect(t).storage end

-- --- what the answer goes through ---

-- An environment in which code of the lesson runs without touching anything: tensors are copied when they are read.
-- What it assigns is handed to `see`.
local function sandbox(see)
  local own = {}
  return setmetatable({}, {
    __index = function(_, name)
      if own[name] == nil then
        local value = rawget(_G, name)
        own[name] = is_tensor(value) and value:detach():clone() or value
      end
      return own[name]
    end,
    __newindex = function(_, name, value)
      own[name] = value
      see(value)
    end,
  })
end

-- The pieces of an expression that have values of their own: both sides of its operator, and the beginnings of a
-- chain of methods.
local function pieces(expression, list)
  if #list > 40 then return list end
  local left, right = card.split(expression)
  for _, side in ipairs {left, right} do
    list[#list + 1] = side
    pieces(side, list)
  end
  if left then return list end
  local depth = 0
  for _, t in ipairs(torch._lex(expression)) do
    local s = expression:sub(t.first, t.last)
    if s == "(" or s == "[" or s == "{" then depth = depth + 1 end
    if s == ")" or s == "]" or s == "}" then depth = depth - 1 end
    if s == ":" and depth == 0 and t.first > 1 then list[#list + 1] = expression:sub(1, t.first - 1) end
  end
  return list
end

---The values between the beginning and the end of a task's answer, as far as they can be known: tensors that no
---variable holds yet.
---@param question table
---@param wanted any what the variable should become
---@return table
function steps.between(question, wanted)
  local list = {}
  local function see(value)
    if not is_tensor(value) or values.same(value, wanted) or value:numel() < 2 and value.ndim == 0 then return end
    for _, other in next, _G do
      if is_tensor(other) and values.same(value, other) then return end
    end
    list[#list + 1] = value:detach():clone()
  end
  local code = question.answer.text
  pcall(load(code, "=answer", "t", sandbox(see)) or error)
  for line in (code .. "\n"):gmatch "(.-)\n" do
    local expression = line:match "^%s*[%a_][%w_]*%s*=%s*(.+)$" or line
    for _, piece in ipairs(pieces(expression, {})) do
      local f = load("return " .. piece, "=answer", "t", sandbox(function() end))
      local ok, value = pcall(f or error)
      if ok then see(value) end
    end
  end
  return list
end

---Did the entry come to one of these values, as its result or in a variable?
---@return boolean
function steps.reached(between, text, results)
  local made = {results and results.n > 0 and results[1] or nil}
  local tokens = entry_of.tokens(text)
  for _, name in ipairs(tokens and entry_of.assigned(tokens) or {}) do made[#made + 1] = rawget(_G, name) end
  for _, value in ipairs(made) do
    for _, one in ipairs(between) do
      if is_tensor(value) and values.same(value, one) then return true end
    end
  end
  return false
end

-- --- work on a copy ---

---What there is before an entry: the variables that look at the cells of the task's one, and those made from it that
---have cells of their own.
---@param name string the task's variable
---@param derived table<string, boolean> variables that were made from it
---@return table|nil
function steps.look(name, derived)
  local target = rawget(_G, name)
  if not is_tensor(target) then return nil end
  local seen = {target = target, storage = storage_of(target), views = {}, copies = {}}
  for other, value in next, _G do
    if other ~= name and type(other) == "string" and is_tensor(value) then
      if storage_of(value) == seen.storage then
        seen.views[other] = value
      elseif derived[other] and value:numel() <= most then
        seen.copies[other] = {value = value, was = value:detach():clone()}
      end
    end
  end
  return seen
end

---The names that an entry gives to what it makes of the task's variable, its views and their copies.
function steps.derive(seen, name, text, derived)
  if not seen then return end
  local tokens = entry_of.tokens(text)
  if not tokens then return end
  local uses = false
  for _, t in ipairs(tokens) do
    uses = uses or t.kind == "name" and (t.text == name or seen.views[t.text] ~= nil or derived[t.text] == true)
  end
  if not uses then return end
  for _, made in ipairs(entry_of.assigned(tokens)) do
    if made ~= name then derived[made] = true end
  end
end

---A remark on an entry that ran and left the task's variable as it was though it worked on it; nil for others.
---@param seen table|nil what `look` gave before
---@return string|nil
function steps.slip(seen, name)
  if not seen then return nil end
  for other, before in next, seen.views do
    local now = rawget(_G, other)
    if is_tensor(now) and not rawequal(now, before) and storage_of(now) ~= seen.storage then
      return T("`%s` is the name of a new tensor now; the cells of `%s` are as they were."):format(other, name)
    end
  end
  for other, before in next, seen.copies do
    local now = rawget(_G, other)
    if rawequal(now, before.value) and not values.same(now, before.was) then
      return T("`%s` has changed, but it has cells of its own; those of `%s` are as they were."):format(other, name)
    end
  end
end

return steps
