-- Python's classes and functions written in Lua: what class and def begin.
local Parser = require "torch.foreign.parse"
local Writer = require "torch.foreign.write"
local definitions = {}

local bases = {Module = 'nn.class("%s")', Dataset = 'data.class("%s")', Sampler = 'data.class("%s", data.Sampler)', Optimizer = 'optim.class("%s")', Function = 'torch.autograd.Function("%s")'}
function definitions.class(s)
  local p = s.p
  local name, base = p:name(), nil
  if p:accept "(" then
    local items = p:items(")", Parser.argument)
    base = items[1] and s.w:path(items[1])
  end
  s:head_ends()
  s.w.said "class"
  if base and (base:find "Exception$" or base:find "Error$" or base == "ABC" or base:find "Enum$") then base = "object" end
  local form = bases[base and base:match "[%w_]+$" or ""] or base and base ~= "object" and 'nn.class("%s", ' .. base .. ")" or "{}"
  if base and base:find "^torch%." then form = form:gsub("^nn%.", "torch.nn."):gsub("^data%.", "torch.utils.data.") end
  if base == "Dataset" then form = "torch.utils.data" .. form:sub(5) end
  return ("%s%s = %s"):format(s.global and "" or "local ", name, form:format(name)), "", nil, {class = name}
end

local methods = {__init__ = "init", __len__ = "__len", __getitem__ = "get", __call__ = "__call", __str__ = "__tostring", __repr__ = "__tostring", __iter__ = "iter", __add__ = "__add", __eq__ = "__eq"}
function definitions.def(s)
  local p = s.p
  local name, names, defaults = p:name(), {}, {}
  p:expect "("
  while p:text() ~= ")" do
    if p:accept "**" then
      names[#names + 1] = p:name()
    elseif p:accept "*" then
      if p:token() and p:token().kind == "name" then
        defaults[#defaults + 1] = ("local %s = {...};"):format(p:name())
        names[#names + 1] = "..."
      end
    elseif p:accept "/" then
      names[#names] = names[#names]
    else
      local each = p:name()
      if each == "end" then each = "stop" end
      names[#names + 1] = each
      p.slicing = true
      if p:accept ":" then p:expression() end
      p.slicing = false
      if p:accept "=" then
        local value = s:expression()
        if value ~= "nil" then
          defaults[#defaults + 1] = value == "true" and ("if %s == nil then %s = true end;"):format(each, each) or ("%s = %s or %s;"):format(each, each, value)
        end
      end
    end
    if not p:accept "," and p:text() ~= ")" then Parser.fail() end
  end
  p:expect ")"
  if p:accept "->" then
    p.slicing = true
    p:expression()
    p.slicing = false
  end
  s:head_ends()
  s.w.said "def"
  for k, each in ipairs(names) do
    if each == "..." and k < #names then
      table.remove(names)
      break
    end
  end
  local owner = s.class
  if names[1] == "self" then
    table.remove(names, 1)
    owner = (owner or "Net") .. ":"
    name = methods[name] or name
  elseif owner then
    owner = owner .. "."
  end
  if Writer.keywords[name] then name = name .. "_" end
  local lead = not owner and not s.global and "local function " or "function "
  return ("%s%s%s(%s)%s"):format(lead, owner or "", name, table.concat(names, ", "), #defaults > 0 and " " .. table.concat(defaults, " ") or ""), "end"
end

return definitions
