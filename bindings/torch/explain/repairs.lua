-- Candidate changes for failing calls, by kind of failure, and the notes beside their operands: what the
-- rows of explain/rules.lua are made of.
local F = string.format
local torch = torch
local words = require("torch.messages").words

local function product(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end
local function copy(t) return table.move(t, 1, #t, 1, {}) end
local function list(t) return table.concat(t, ", ") end
local converters = {float32 = "float", float64 = "double", float16 = "half", bfloat16 = "bfloat16", int64 = "long",
  int32 = "int", int16 = "short", bool = "bool"}
local function to(dtype) return converters[dtype] and F("%%:%s()", converters[dtype]) or F('%%:to("%s")', dtype) end
local rank_of = {bool = 0, uint8 = 1, int8 = 1, int16 = 2, int32 = 3, int64 = 4, float16 = 5, bfloat16 = 6, float32 = 7, float64 = 8}

-- The two matrices of a product: the last two operands (addmm has one in front).
local function factors(call)
  local n = #call.operands
  if call.op == "linear" or n < 2 then return call.operands[1], call.operands[2] end
  if call.op == "addmm" or call.op == "addmv" or call.op == "baddbmm" or call.op == "addbmm" then return call.operands[2], call.operands[3] end
  return call.operands[1], call.operands[2]
end

local function turned(o)
  if #o.shape == 2 then return "%:t()" end
  return #o.shape > 2 and "%:transpose(-2, -1)" or "%"
end

-- A slot of the call that holds this number.
local function slots_with(call, wanted)
  local found = {}
  for _, s in ipairs(call.order) do
    if s.kind == "N" and wanted(s.value) then found[#found + 1] = s end
  end
  return found
end

local function dims_note(call, limit)
  local notes = {}
  for k, o in ipairs(call.operands) do notes[k] = F(#o.shape == 1 and words.one_dimension or words.dimensions, #o.shape) end
  return limit and {notes[1]} or notes
end

local function broadcast_fixes(call)
  local a, b = call.operands[1], call.operands[2]
  if not b then return {} end
  local out = {}
  local function add(edit) out[#out + 1] = edit end
  if #a.shape ~= #b.shape then
    local small, large = a, b
    if #a.shape > #b.shape then small, large = b, a end
    if #small.shape == 1 then
      for d = #large.shape - 1, 1, -1 do
        if large.shape[d] == small.shape[1] then
          add {[small] = #large.shape - d == 1 and "%:unsqueeze(2)" or "%:view(-1" .. (", 1"):rep(#large.shape - d) .. ")"}
        end
      end
    else
      for d = 1, #small.shape + 1 do add {[small] = F("%%:unsqueeze(%d)", d)} end
    end
  elseif #a.shape >= 2 then
    add {[b] = turned(b)}
    add {[a] = turned(a)}
  end
  if product(a.shape) == product(b.shape) and #a.shape > 0 and #b.shape > 0 then
    add {[b] = F("%%:reshape(%s)", list(a.shape))}
  end
  return out
end

local function reshape_fixes(call)
  local x, wanted = call.operands[1], {}
  if not x then return {} end
  for _, s in ipairs(call.order) do
    if s.slot ~= x.slot.slot then
      if s.kind == "N" then wanted[#wanted + 1] = s.value end
      if s.kind == "I" then wanted = copy(s.value) end
    end
  end
  local n, out = product(x.shape), {}
  local function add(sizes) out[#out + 1] = {whole = F("%%1:%s(%s)", call.op, list(sizes))} end
  for i, size in ipairs(wanted) do
    local others, open = 1, nil
    for j, s in ipairs(wanted) do
      if s == -1 and j ~= i then open = j elseif j ~= i then others = others * s end
    end
    if others > 0 and n % others == 0 and size ~= -1 then
      local rest, sizes = n // others, copy(wanted)
      if not open then
        sizes[i] = rest
        add(sizes)
      else
        for step = 1, size do  -- the nearest size that divides
          local less, more = size - step, size + step
          local near = more <= rest and rest % more == 0 and more or less > 0 and rest % less == 0 and less
          if near then
            sizes[i] = near
            add(sizes)
            break
          end
        end
      end
    end
  end
  add {-1}
  return out
end

local function join_fixes(call)
  local out, names = {}, {}
  local a, b = call.operands[1], call.operands[2]
  if not b then return out end
  for k = 1, #call.operands do names[k] = "%" .. k end
  if #call.operands < 10 then
    for d = 1, #a.shape do out[#out + 1] = {whole = F("torch.cat({%s}, %d)", list(names), d)} end
  end
  if #a.shape == #b.shape + 1 then out[#out + 1] = {[b] = "%:unsqueeze(1)"} end
  if #b.shape == #a.shape + 1 then out[#out + 1] = {[a] = "%:unsqueeze(1)"} end
  if #a.shape == 2 and #b.shape == 2 then out[#out + 1] = {[b] = "%:t()"} end
  return out
end

local function joined_notes(call)
  local a, notes = call.operands[1], {}
  if not a then return notes end
  for k = 2, #call.operands do
    local o = call.operands[k]
    for d = 1, math.max(#a.shape, #o.shape) do
      if a.shape[d] ~= o.shape[d] then
        notes[1] = notes[1] or a.shape[d] and F(words.dim_is, d, a.shape[d])
        notes[k] = o.shape[d] and F(words.dim_is, d, o.shape[d]) or F(words.dimensions, #o.shape)
        break
      end
    end
  end
  return notes
end

local function conv_fixes(call)
  local x = call.operands[1]
  if not x then return {} end
  local spatial = tonumber(call.op:match("(%d)d$")) or 2
  if #x.shape == spatial then return {{[x] = "%:unsqueeze(1)"}} end
  if #x.shape == spatial + 1 then
    return {{[x] = "%:unsqueeze(2)"}, spatial == 2 and {[x] = "%:permute(3, 1, 2)"} or nil}
  end
  local want = call.operands[2] and call.operands[2].shape[2]
  return {
    spatial == 2 and {[x] = "%:permute(1, 4, 2, 3)"} or {[x] = "%:transpose(2, -1)"},
    want and x.shape[2] == 1 and {[x] = F("%%:expand(-1, %d%s)", want, (", -1"):rep(spatial))} or nil,
  }
end

local compare = {["<"] = "lt", [">"] = "gt", ["<="] = "le", [">="] = "ge", ["=="] = "eq", ["~="] = "ne"}
local mirrored = {lt = "gt", gt = "lt", le = "ge", ge = "le", eq = "eq", ne = "ne"}
local function compare_fixes(call)
  local node = call.node
  local name = node and compare[node.op]
  if not name then return {} end
  local left = call.operands[1] and call.operands[1].node == node.args[1]
  local base = left and F("%%L:%s(%%R)", name) or F("%%R:%s(%%L)", mirrored[name])
  local before = call.text:sub(1, node.first - 1):match("(%a+)[%s%(]*$")
  local condition = before == "if" or before == "while" or before == "elseif" or before == "and" or before == "or"
    or before == "not" or before == "until"
  local out = {}
  if #call.operands == 2 and (name == "eq" or name == "ne") then
    out[1] = {whole = (name == "ne" and "not " or "") .. "torch.equal(%L, %R)", test = "%L:eq(%L)"}
  end
  if condition then
    out[#out + 1] = {whole = base .. ":all():item()", test = base .. ":all()"}
    out[#out + 1] = {whole = base .. ":any():item()", test = base .. ":any()"}
  else
    table.insert(out, 1, {whole = base})
  end
  return out
end

local function type_fixes(call)
  local a, b = factors(call)
  if not (a and b) then return {} end
  local x, y = a.slot, b.slot
  if not b.node or (rank_of[x.dtype] or 0) < (rank_of[y.dtype] or 0) then return {{[a] = to(y.dtype)}} end
  return {{[b] = to(x.dtype)}}
end

-- An operand that was made by arange(1, n) is one short of n.
local function arange_hint(call)
  local a, b = call.operands[1], call.operands[2]
  if not (a and b) then return nil end
  local function short(x, y) return #x.shape > 0 and #y.shape > 0 and x.shape[#x.shape] + 1 == y.shape[#y.shape] end
  local one = short(a, b) and a or short(b, a) and b
  local last = one and one.node and call:code(one.node)
  local set = one and call:made(one.name)
  if set then last = call:code(set.value) end
  local stop = last and last:match "arange%(%s*1%s*,%s*([%w_.#]+)%s*[,)]"
  return stop and F(words.arange_ends, tonumber(stop) and tostring(tonumber(stop) + 1) or stop .. " + 1", stop, stop)
end

-- The key of x[{i, j}], one element of a matrix, which is often meant as a range of rows: what is to be written for that.
local function range_of(call, node)
  local key = node and node.kind == "index" and node.key
  if not key or key.kind ~= "table" or #key.items ~= 2 or next(key.named) ~= nil then return nil end
  local i, j = key.items[1], key.items[2]
  if i.kind == "table" or j.kind == "table" then return nil end
  local a, b = tonumber(call:code(i)), tonumber(call:code(j))
  if a and b and b > 0 and a >= b then return nil end
  return F("%s[{{%s, %s}}]", call:code(node.object), call:code(i), call:code(j))
end

-- An operand that is one element by such a key: what to try, and why.
local function picked(call)
  local node = call.node
  if node and node.kind == "index" and call.message:find("into shape []", 1, true) then
    local range = range_of(call, node)
    return range and F(words.range_meant, range, call:code(node))
  end
  local replaced, first = {}, nil
  for _, o in ipairs(node and call.operands or {}) do
    local at = #o.shape == 0 and o.node
    if at and at.kind == "name" then
      local set = call:made(o.name)
      at = set and set.value or at
    end
    local range = at and range_of(call, at)
    if range and at ~= o.node then return F(words.range_meant, o.name .. " = " .. range, call:code(at)) end
    if range then
      replaced[at] = range .. (node.name == "ipairs" and ":rows()" or "")
      first = first or call:code(at)
    end
  end
  return first and F(words.range_meant, call:compose(replaced), first)
end

-- x[#x + 1] = v: lists grow so, tensors do not.
local function grows(call)
  local node = call.node
  local x = node and node.kind == "index" and node.key and call:code(node.object)
  return x and call:code(node.key):gsub("%s", "") == "#" .. x:gsub("%s", "") .. "+1" and x or nil
end

-- x[{{}, {-5, -1}}] where there are fewer than 5: Python's ranges stop at the ends.
local function range_hint(call)
  local key = call.node and call.node.kind == "index" and call.node.key
  local k, d, n = call.message:match "index (%-?%d+) is out of range for dimension (%d+) with size (%d+)"
  if grows(call) then return F(words.no_growth, grows(call)) end
  if not key or not k or key.kind ~= "table" or next(key.named) or tonumber(n) == 0 then return nil end
  k, d = tonumber(k), tonumber(d)
  local range = key.items[d]
  for i = 1, d do  -- an ellipsis or a new axis before it counts otherwise
    if not key.items[i] or call:code(key.items[i]):find "ellipsis" or call:code(key.items[i]):find "newaxis" then return nil end
  end
  if range.kind ~= "table" or #range.items < 2 or next(range.named) then return nil end
  local x, at = call:code(call.node.object), k < 0 and 1 or 2
  if not x:find "^[%a_][%w_.]*$" or k > 0 and call:code(range.items[1]) == tostring(k) then return nil end
  local edge = k < 0 and F("math.max(%s, -%s:size(%d))", call:code(range.items[1]), x, d) or F("math.min(%s, %s:size(%d))", call:code(range.items[2]), x, d)
  local text = call:code(call.node)
  local first, last = range.items[at].first - call.node.first, range.items[at].last - call.node.first
  return F(words.range_inside, text:sub(1, first) .. edge .. text:sub(last + 2))
end

-- The right name among those that a message lists: "(it has: a, b)".
local called_here = {learning_rate = "lr", ["in"] = "in_features", axis = "dim"}
local function argument_hint(call)
  local wrong, listed = call.message:match('no %w+ "([%a_][%w_]*)".*%(it has: ([^)]*)%)')
  if not wrong or call.message:find("did you mean", 1, true) then return nil end
  local known, best = {}, nil
  for name in listed:gmatch("[%w_]+") do
    known[name] = true
    if #wrong > 1 and (name:sub(1, #wrong) == wrong or wrong:sub(1, #name) == name) then best = best or name end
  end
  if known[called_here[wrong]] then best = called_here[wrong] end
  best = best or require("torch.explain.names").nearest(wrong, known)[1]
  return best and words.mean_name:format(best)
end
-- x.sum() was written for x:sum(), but torch.sum() and F.relu() for nothing else.
local function with_colon(call)
  local node = call.node
  local f = node and node.called
  if not f or f.kind ~= "field" or node.method then return {} end
  local owner = call:code(f.object)
  if owner == "F" or owner:find "^torch%f[%W]" then return {} end
  local args = call:code(node):sub(f.last - node.first + 2)
  for _, arg in ipairs(node.args) do
    if call:code(arg) == "0" then  -- whoever writes a point counts dimensions from 0 where one is 0
      local code = require("torch.foreign").rewrite(call:code(node))
      if code then return {{code = code}} end
    end
  end
  return {{code = call:operand_text(f.object) .. ":" .. f.name .. args}}
end

-- A method of a tensor that was called with a point, whatever its first argument was then taken for: the call with a
-- colon, and what to say.
local function point(call)
  local node = call.node
  local f = node and node.kind == "call" and not node.method and node.called
  if not f or f.kind ~= "field" then return nil end
  local methods = require("torch.explain.names").tensor_names()
  if methods[f.name] == nil then return nil end
  local root = f.object
  while root.kind == "field" do root = root.object end
  if root.kind == "name" then
    if call:part_of_torch(root.name) then return nil end
    local known = call.variables[root.name] or torch.is_tensor(rawget(_G, root.name)) or call.message:find("local 'self'", 1, true)
    if not known then return nil end
  elseif root.kind ~= "call" and root.kind ~= "index" and root.kind ~= "group" then
    return nil
  end
  local fix, remark = with_colon(call)[1], nil
  if not fix then return nil end
  for _, arg in ipairs(require("torch.foreign.words").dims[f.name] and node.args or {}) do  -- Python's 1 is the second
    if call:code(arg):find "^[1-9]$" and fix.code:find(call:code(arg), #call:code(f), true) then remark = words.from_one end
  end
  return {code = fix.code, said = words.colon:format(call:code(f), call:code(f.object)), remark = remark}
end

return {product = product, copy = copy, list = list, to = to, rank_of = rank_of, factors = factors, turned = turned, slots_with = slots_with, dims_note = dims_note, broadcast_fixes = broadcast_fixes, reshape_fixes = reshape_fixes, join_fixes = join_fixes, joined_notes = joined_notes, conv_fixes = conv_fixes, compare_fixes = compare_fixes, type_fixes = type_fixes, argument_hint = argument_hint, arange_hint = arange_hint, range_hint = range_hint, grows = grows, range_of = range_of, picked = picked, with_colon = with_colon, point = point}
