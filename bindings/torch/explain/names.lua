-- Wrong names: the nearest right ones for misspelt methods, fields and functions, and what Lua's own
-- errors (a nil called, a function indexed) mean when a tensor or a part of torch is behind them.
local torch = torch
local source = require "torch.source"
local words = require("torch.messages").words
local places = require "torch.explain.places"
local names = {}

local keywords = {["repeat"] = true, ["end"] = true, ["not"] = true, ["and"] = true, ["or"] = true, ["in"] = true}

---The nearest names to a wrong one, best first; none when nothing is near.
---@param name string
---@param known table its keys are the names
---@return string[]
function names.nearest(name, known)
  if #name < 3 then return {} end
  local found, first = {}, name:sub(1, 1):lower()
  for key, d in next, torch._near(name, known, #name < 4 and 1 or #name < 8 and 2 or 3) do
    if key:sub(1, 1) ~= "_" and (key:sub(-1) ~= "_" or name:sub(-1) == "_") and not keywords[key] then
      found[#found + 1] = {key, (d == 0 and 0.1 or d) + (key:sub(1, 1):lower() == first and 0 or 0.5)}
    end
  end
  table.sort(found, function(x, y) return x[2] < y[2] or x[2] == y[2] and x[1] < y[1] end)
  local out = {}
  for k = 1, math.min(#found, 3) do
    if found[k][2] <= found[1][2] + 1 then out[k] = found[k][1] end
  end
  return out
end

---The methods and functions of tensors by name.
function names.tensor_names()
  local index = debug.getmetatable(torch.empty(0)).__index
  local _, methods = debug.getupvalue(index, 1)
  return type(methods) == "table" and methods or {}
end

-- What other libraries call these.
local elsewhere = {len = "numel", length = "numel", transpose_ = "transpose", astype = "to", copy = "clone", append = "cat", type = "to",
  repeat_ = "tile", numpy = "tolist", nelement = "numel"}

-- The name that was looked for in a tensor, and near ones.
local function missing(call)
  local wrong = call.slots["2"] and call.slots["2"].value
  if type(wrong) ~= "string" or not wrong:find("^[%a_][%w_]*$") then return nil, {} end
  if elsewhere[wrong] then return wrong, {elsewhere[wrong]} end
  return wrong, names.nearest(wrong, names.tensor_names())
end

local function renamed(call, from, to)
  local node = call.node
  local code, after = call:code(node), nil
  local named = node.kind == "call" and node.called or node
  if node.kind == "call" and node.method then
    local at = node.called.last - node.first + 1
    local head, tail = code:sub(1, at), code:sub(at + 1)
    after = head .. tail:gsub("^(%s*:%s*)" .. from, "%1" .. to, 1)
  elseif named.kind == "field" then
    local at = named.last - node.first + 1
    after = code:sub(1, at - #from) .. to .. code:sub(at + 1)
  elseif named.kind == "name" then
    after = to .. code:sub(#from + 1)
  end
  return after ~= code and after or nil
end

---Changes for a misspelt method or field of a tensor.
function names.candidates(call)
  local wrong, near = missing(call)
  local out = {}
  for _, name in ipairs(wrong and near or {}) do
    local code = call.node and renamed(call, wrong, name)
    local receiver = code and code:match("^(.*):tolist%(%)$")  -- gives values, which are not computed to try it
    if code then out[#out + 1] = {code = code, test = receiver} end
  end
  return out
end

---What to say when no change could be tried.
function names.hint(call)
  local wrong, near = missing(call)
  local f = call.node and call.node.kind == "call" and not call.node.method and call.node.called
  if wrong and f and f.kind == "field" and f.name ~= wrong then  -- net.forward(x): the tensor stands where net should
    return call:code(f.object) .. ":" .. f.name .. call:code(call.node):sub(f.last - call.node.first + 2)
  end
  if wrong and near[1] then return words.mean_name:format(near[1]) end
  if wrong and type(rawget(torch, wrong)) == "function" then return words.no_method:format(wrong) end
end

local fields = {shape = true, dtype = true, device = true, ndim = true, T = true, mT = true, grad = true,
  requires_grad = true, is_leaf = true, grad_fn = true, data = true, is_cuda = true, H = true, mH = true, nbytes = true,
  itemsize = true, layout = true, retains_grad = true}

-- The table that a path of names leads to, only through tables and parts of torch.
local function follow(call, node)
  if node.kind == "name" then return call:part_of_torch(node.name) or rawget(_G, node.name) end
  if node.kind ~= "field" then return nil end
  local outer = follow(call, node.object)
  if type(outer) ~= "table" then return nil end
  return rawget(outer, node.name) or (outer == torch or outer == rawget(torch, "nn")) and outer[node.name] or nil
end

-- Where else a name is: {"torch.nn.functional.relu6"}.
local function other_places(name)
  local out = {}
  for k, part in ipairs(places.of(name)) do out[k] = part .. "." .. name end
  if #out == 0 and torch._ops()[name] then out[1] = "x:" .. name end
  return out
end

-- Each: a pattern of Lua's message, and what it means: near names, changed code, or a sentence.
local function nil_called(call, kind, name)
  local node = call.node
  if fields[name] and kind == "field" and node and node.called.kind == "field" then return words.is_field:format(name), {{code = call:code(node.called)}} end
  local known, lead
  if kind == "field" and node and node.called.kind == "field" then
    known, lead = follow(call, node.called.object), call:code(node.called.object) .. "."
    if torch.is_tensor(known) then return nil end
  elseif kind == "method" and node then
    known, lead = follow(call, node.called), call:code(node.called) .. ":"
    local meta = type(known) == "table" and debug.getmetatable(known)
    local all = {}
    for _ = 1, 8 do  -- the classes behind an object
      for k in pairs(type(known) == "table" and known or {}) do all[k] = true end
      local index = meta and rawget(meta, "__index")
      known = type(index) == "table" and index or nil
      meta = known and debug.getmetatable(known)
    end
    known = all
  elseif kind == "global" then
    known, lead = _G, ""
  end
  local fixes, near = {}, {}
  if type(known) == "table" and lead then
    if lead == "" or places.is_part(known) then near = other_places(name) end
    for _, n in ipairs(#near == 0 and names.nearest(name, known) or {}) do
      if type(known[n]) == "function" or type(known[n]) == "table" or known[n] == true then
        near[#near + 1] = lead .. n
        local code = node and renamed(call, name, n)
        if code and call:try_code(code) then fixes[#fixes + 1] = {code = code, shape = select(2, call:try_code(code))} end
      end
    end
  end
  local text = words.is_nil:format(lead or "", name)
  if #near > 0 then return text .. "; " .. words.mean_name:format(table.concat(near, ", ")), fixes end
  return nil
end

-- Methods of a tensor that give a number; `size()` gives a list, `size(1)` a number.
local numbers = {numel = true, dim = true, nelement = true, ndimension = true, storage_offset = true, element_size = true}

-- x.name used where x:name() was meant: `wants` says what is made of it there.
local function function_used(call, kind, name, wants)
  local node = call.node
  if kind ~= "field" or not node or node.kind ~= "field" then return nil end
  local lead, fixes = call:code(node.object) .. ":" .. name, {}
  local record, alone = torch._ops()[name], false
  for _, signature in ipairs(record and record.signatures or {}) do  -- needs nothing but the tensor
    local needed = 0
    for _, p in ipairs(signature.params) do needed = needed + (p.required and 1 or 0) end
    alone = alone or needed == 1
  end
  if name == "size" or name == "stride" then
    fixes[1] = {code = wants == "number" and lead .. "(1)" or wants == "list" and lead .. "()" or nil}
  elseif numbers[name] and wants ~= "list" or alone and wants ~= "text" then
    fixes[1] = {code = lead .. "()"}
  end
  return words.is_method:format(call:code(node)), fixes[1] and fixes[1].code and fixes or {}
end

local function value_called(call, kind, name)
  local node = call.node
  if not node or node.kind ~= "call" then return nil end
  local of = node.method and node.called or node.called.object
  if fields[name] and of then
    return words.is_field:format(name), {{code = call:code(of) .. "." .. name}}
  end
end

local function tensor_called(call, kind, name)
  local node = call.node
  if kind ~= "global" and fields[name] then return value_called(call, kind, name) end
  if not node or node.kind ~= "call" or node.method or #node.args == 0 then return nil end
  local args = {}
  for k, e in ipairs(node.args) do args[k] = call:code(e) end
  local index = #args == 1 and args[1] or "{" .. table.concat(args, ", ") .. "}"
  return words.no_function, {{code = call:code(node.called) .. "[" .. index .. "]"}}
end

local function joined(call)
  local node = call.node
  if not node then return nil end
  return words.joined, {{code = ("tostring(%s)"):format(call:code(node))}}
end

local function number_wanted(call, place, name)
  local node = call.node
  local arg = node and node.kind == "call" and node.args[tonumber(place) - (node.method and 1 or 0)]
  if not arg then return nil end
  call.node = arg
  return words.number_wanted:format(name),
    {}, ("%s:item()"):format(call:operand_text(arg))
end

local meanings = {
  {"^bad argument #(%d+) to '([%w_]+)' %(number expected, got Tensor%)", "call", number_wanted},
  {"^attempt to call a nil value %((%w+) '([^']*)'%)", "call", nil_called},
  {"^attempt to call a Tensor value %((%w+) '([^']*)'%)", "call", tensor_called},
  {"^attempt to call an? [%w%. ]+ value %((%w+) '([^']*)'%)", "call", value_called},
  {"^attempt to index a function value %((%w+) '([^']*)'%)", "field", function_used, "list"},
  {"^attempt to perform arithmetic on a function value %((%w+) '([^']*)'%)", "field", function_used, "number"},
  {"^attempt to get length of a function value %((%w+) '([^']*)'%)", "field", function_used, "list"},
  {"^attempt to concatenate a function value %((%w+) '([^']*)'%)", "field", function_used, "text"},
  {"^attempt to concatenate a Tensor value %((%w+) '([^']*)'%)", "name", joined},
}

---An error object for the text of an error of Lua's own, when more can be said about it.
---@param text string
---@param sure? boolean the name is known to be wrong
---@return table?
function names.from_text(text, sure)
  local chunk, line, message = text:match("^(.-):(%d+): ([abmv][tado][tdr][^\n]*)")  -- attempt to, bad argument, module, variable
  if not chunk then return nil end
  local Call = require "torch.explain.call"
  local continued = not sure and require "torch.explain.continued"(chunk, tonumber(line), message)
  if continued then return continued end
  local foreign = not sure and require("torch.explain.foreign").error(chunk, tonumber(line), message)
  if foreign then return foreign end
  for _, row in ipairs(meanings) do
    local kind, name = message:match(row[1])
    if kind then
      local full = torch._chunks[chunk] and "=" .. chunk or "@" .. chunk
      local err = setmetatable({kind = "argument", op = "", hint = "", where = chunk .. ":" .. line,
        _call = ("S %s %s\nF %s %s\n"):format(line, full, name or "?", kind)}, debug.getregistry()["tycho.error"])
      local call = Call.read(err)
      if not call.text then return nil end
      call.node = nil
      for _, node in ipairs(call.nodes) do
        if node.kind == row[2] and node.name == name and node.line == tonumber(line) then
          call.node = node
          break
        end
      end
      if row[3] == joined then  -- the operand of an operator that has this name
        call.node = nil
        for _, node in ipairs(call.nodes) do
          local sides = node.kind == "binary" and node.op == ".." and node.line == tonumber(line) and node.args or {}
          for _, side in ipairs(sides) do
            if side.name == name and (side.kind == "name" or side.kind == "field") then call.node = call.node or side end
          end
        end
      end
      local said, fixes, hint = row[3](call, kind, name, row[4])
      if not said then return nil end
      local code = call.node and call:code(call.node)
      err.message = said
      err._call = err._call .. (call.node and ("P %d %d\n"):format(call.node.first, call.node.last) or "")
      err._code = "NAME-1"
      err._fixes = code and fixes or {}
      err.hint = hint or ""
      return err
    end
  end
end

return names
