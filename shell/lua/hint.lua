-- The argument line below an entry: a function of the text and the cursor that gives lines. It shows the
-- call that the cursor stands in, the argument being typed in <>, and the shapes of plain variables:
--   matmul(<other>)   x f32 [32, 784]   wants [.., 784, p] or [784]
local torch = torch
local live = require "shell.live"
local signatures = require "shell.signatures"
local shapes = require "shell.shapes"

local most_lines = 3

local function parameter(p)
  local name = p.gather and p.name .. ".." or p.name == "self" and "x" or p.name
  if p.default and p.default ~= "nil" and p.default ~= "" then return name .. "=" .. p.default end
  return (p.optional or p.default) and name .. "?" or name
end

-- The position of the parameter that is being typed: its index, or nil.
local function current(call, list)
  local last = call.arguments[#call.arguments]
  if call.named then
    if last.name then
      for i, p in ipairs(list) do
        if p.name == last.name then return i end
      end
      return nil
    end
    local position = call.positional or 0
    for _, a in ipairs(call.arguments) do
      if not a.name then position = position + 1 end
    end
    return list[position] and not call.positional and position or nil
  end
  local position = #call.arguments
  -- A list that gathers the remaining values takes all of them.
  for i, p in ipairs(list) do
    if (p.gather or p.name == "...") and position >= i then return i end
  end
  return list[position] and position
end

-- Shapes of the tensors that are plain variables, among the call's own tensor and its arguments.
local function operands(call, tokens)
  local texts, given, complete = {}, {}, true
  local function consider(of, name)
    local value = of and of.value
    if torch.is_tensor(value) then
      local shape = {}
      for i, n in ipairs(value.shape) do shape[i] = n end
      given[#given + 1] = shape
      if name then texts[#texts + 1] = name .. " " .. torch._brief(value) end
    elseif live.is_tensor_type(of) then
      complete = false
    end
  end
  local owner = call.callee and call.callee.owner
  if live.is_tensor_type(owner) then consider(owner, owner.name) end
  for i, a in ipairs(call.arguments) do
    if i < #call.arguments and a.last >= a.first then
      if a.first == a.last and tokens[a.first].kind == "name" then
        consider(live.type_at(tokens, a.first), tokens[a.first].text)
      elseif not a.name then
        local of, first = live.type_at(tokens, a.last)
        if first == a.first then consider(of) end
      end
    end
  end
  return texts, given, complete
end

-- Sizes that a layer's own fields give to the letters of its rule.
local function own_sizes(call)
  local value = call.callee and call.callee.value
  if not live.class_of(value) then return nil end
  return {["in"] = rawget(value, "in_features") or rawget(value, "in_channels"),
    C = rawget(value, "num_features")}
end

local function line_of(call, list, tokens)
  local mark = current(call, list)
  local parts = {}
  for i, p in ipairs(list) do parts[i] = i == mark and "<" .. parameter(p) .. ">" or parameter(p) end
  local texts, given, complete = operands(call, tokens)
  local line = call.name .. "(" .. table.concat(parts, ", ") .. ")"
  if #texts > 0 then line = line .. "   " .. table.concat(texts, "   ") end
  local own = own_sizes(call)
  local wanted
  local p = mark and list[mark]
  local tensor = not p or not p.take or p.take:find "^tensor"
  if list.rule and complete and tensor and (#given > 0 or own) then wanted = shapes.wanted(list.rule, given, own) end
  if wanted then line = line .. "   wants " .. wanted end
  return line
end

---@param text string
---@param cursor integer bytes left of the cursor
---@return string[] lines
return function(text, cursor)
  local left = text:sub(1, cursor)
  if not left:find "[%({]" or left:find "^%s*[?!]" then return {} end
  local shift = left:match "^%s*%%[%w_]+%s" or ""
  local tokens = live.read(left:sub(#shift + 1)).tokens
  local call = live.call_at(tokens)
  if not call or not call.callee then return {} end
  local lists = signatures(call)
  -- A layer's instance: what its class says of shapes.
  local class = live.class_of(call.callee.value)
  local entry = class and live.entry_of(class)
  if entry and entry.row and lists[1] then lists[1].rule = entry.row.rule end
  local lines, typed = {}, #call.arguments
  for _, list in ipairs(lists) do
    local fits = call.named or typed <= math.max(#list, 1)
    for _, p in ipairs(list) do fits = fits or p.gather or p.name == "..." end
    if fits and #lines < most_lines then lines[#lines + 1] = line_of(call, list, tokens) end
  end
  if #lines == 0 and lists[1] then lines[1] = line_of(call, lists[1], tokens) end
  return lines
end
