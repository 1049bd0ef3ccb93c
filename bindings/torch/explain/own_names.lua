-- What an error advises, in the user's names: the engine knows its operands as a, x, mask or loss; here they become what
-- stands at their places in the user's line.
local torch = torch

-- Which operand these are, where the operation has no parameter of the name.
local order = {a = 1, b = 2, x = 1, y = 1, w = 1, t = 1, self = 1, input = 1, loss = 1, index = -1, mask = -1}

-- The user's text for a name of the engine's: a name, or an expression in brackets; nil when the line does not tell.
local function own(call, name)
  local node = call.node
  if not node then return nil end
  local record = torch._ops()[call.op]
  local slot
  for k, p in ipairs(record and record.signatures[1].params or {}) do
    if p.name == name then slot = tostring(k) end
  end
  local at = slot and call:node_of(node, slot)
  if slot and not at then  -- named in a table
    local last = node.args and node.args[#node.args]
    at = last and last.kind == "table" and last.named and last.named[name] or nil
  end
  if at and at.kind == "table" and at.named and at.named[name] then at = at.named[name] end  -- f(x, {name = y})
  local place = order[name]
  if not at and place then
    local o = call.operands[place < 0 and #call.operands or place] or call.operands[#call.operands]
    at = o and o.node
    if o and not at and o.label and o.label:find "^[%a_][%w_.%[%]]*$" then return o.label end
  end
  if not at and place == 1 and node.kind == "call" and node.method then at = node.called end
  return at and not call:code(at):find "\n" and call:operand_text(at) or nil
end

-- The user's text for an item of a list: in cat{a, b}, a[{i, j}], or behind each other, as einsum's.
local function own_item(call, list, item)
  local node, at = call.node, nil
  if node.kind == "index" then
    at = node.key.kind == "table" and node.key.items[item] or node.key
  else
    local record = torch._ops()[call.op]
    for k, p in ipairs(record and record.signatures[1].params or {}) do
      if p.name == list then at = call:node_of(node, k .. "." .. item) or call:node_of(node, tostring(k + item - 1)) end
    end
  end
  return at and at.kind ~= "table" and not call:code(at):find "\n" and call:operand_text(at) or nil
end

---Advice with the user's names in the place of the engine's.
---@param hint string code, perhaps with a remark after two dashes
---@param call? table
---@return string? nil where there is nothing to say to this line
return function(hint, call)
  if not call or not call.node or hint:find " in place of " then return hint end  -- the latter names what the notes have read
  local module = call.node.kind == "call" and not call.node.method and call.node.called
  if hint:find "^model:" and module then
    if module.kind == "name" and not call:part_of_torch(module.name) then
      hint = hint:gsub("^model", call:code(module), 1)
    else
      hint = hint:match "%-%- or (.*)$" or hint
    end
  end
  local list, item, done = hint:match "^([%a_][%w_]*)%[(%d+)%] = [^:]*(:.*)$"
  if list then
    local text = own_item(call, list, tonumber(item))
    return text and (text:find "^[%a_][%w_.]*$" and text .. " = " or "") .. text .. done or hint
  end
  local name, rest = hint:match "^([%a_][%w_]*) = (.*)$"
  if name and rest:find("^" .. name .. ":") then  -- b = b:to(..): an assignment where the user has a variable
    local text = own(call, name)
    if text and not text:find "^[%a_][%w_.]*$" then hint = rest end
  end
  local out, at = {}, 1
  while true do
    local first, last, word = hint:find("([%a_][%w_]*)", at)
    if not first then break end
    local before, after = hint:sub(1, first - 1), hint:sub(last + 1)
    local member = before:find "[.:\"]$" ~= nil
    local code = after:find "^:[%a_]+[%({]" or after:find "^%[" or after:find "^ = [%a_]" and before == "" or before:find "[%(,] ?$" and after:find "^[%),]"
    local text = not member and code and own(call, word)
    out[#out + 1] = hint:sub(at, first - 1)
    out[#out + 1] = text or word
    at = last + 1
  end
  out[#out + 1] = hint:sub(at)
  return table.concat(out)
end
