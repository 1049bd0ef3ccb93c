-- What belongs to each kind of failure: its code, what to say beside the operands, and the changes that
-- may repair it. Changes are candidates only: each is tried with stand-ins before anybody sees it.
--   {[operand or slot] = template}   % is the operand's own text, %1 and %2 the operands'
--   {whole = template, test = template}   for the call itself: %0, %L and %R (sides of an operator)
--   {code = text, test = text}            new code for the call, tried as it stands
--   {rename = {"keydim", "keepdim"}}      an argument's name
local F = string.format
local words = require("torch.messages").words
local repairs = require "torch.explain.repairs"
local product, copy, list, to, rank_of, factors, turned, slots_with, dims_note, broadcast_fixes,
reshape_fixes, join_fixes, joined_notes, conv_fixes, compare_fixes, type_fixes, argument_hint =
  repairs.product, repairs.copy, repairs.list, repairs.to, repairs.rank_of, repairs.factors, repairs.turned,
  repairs.slots_with, repairs.dims_note, repairs.broadcast_fixes, repairs.reshape_fixes, repairs.join_fixes,
  repairs.joined_notes, repairs.conv_fixes, repairs.compare_fixes, repairs.type_fixes, repairs.argument_hint

-- Operations whose integers are all dimensions.
local all_dims = {}
for op in ("transpose permute swapaxes swapdims movedim moveaxis flip"):gmatch "%a+" do all_dims[op] = true end

-- Rows are looked through in order: kind, op (words) and find (a part of the message) must all fit.
-- picture: the operands' lines say what the title leaves out, or are a picture; quiet: no such lines.
local rules = {
  {code = "DEVICE-1", kind = "device", find = "device on this machine", quiet = true},
  {code = "DEVICE-1", kind = "device", find = "is no device", quiet = true},
  {code = "DEVICE-1", kind = "device", devices = true, fixes = function(call)
    local out = {}
    for k = 2, #call.operands do
      local o = call.operands[k]
      local a = call.operands[1]
      if o.device ~= a.device then
        local function place(of, n) return of.node and of.node.kind == "name" and F("%%:to(%%%d.device)", n) or F('%%:to("%s")', of.device) end
        out[#out + 1] = {[o] = place(a, 1)}
        out[#out + 1] = {[a] = place(o, k)}
      end
    end
    return out
  end},
  {code = "SHAPE-6", kind = "shape", op = "linear", find = "features in its last dimension",
    notes = function(call)
      local x, w = call.operands[1], call.operands[2]
      return {x and F(words.dim_is, #x.shape, x.shape[#x.shape]), w and F(words.in_features, w.shape[#w.shape])}
    end,
    hint = function(call)
      local x, w = call.operands[1], call.operands[2]
      if x and w and #w.shape == 2 and #x.shape > 0 then return F(words.another_linear, x.shape[#x.shape], w.shape[1]) end
    end,
    fixes = function(call)
      local x = call.operands[1]
      if not x then return {} end
      local w = call.operands[2]
      return {#x.shape > 2 and {[x] = "%:flatten(2)"} or {[x] = "%:flatten()"}, {[x] = turned(x)}, w and w.node and {[w] = turned(w)}}
    end},
  {code = "SHAPE-1", kind = "shape", find = "cannot be multiplied", picture = true,
    notes = function(call)
      local a, b = factors(call)
      local notes = {}
      for k, o in ipairs(call.operands) do
        if o == a then notes[k] = F(words.dim_is, #o.shape, o.shape[#o.shape]) end
        if o == b then
          local d = math.max(#o.shape - 1, 1)
          notes[k] = F(words.dim_is, d, o.shape[d])
        end
      end
      if a == b and b then notes[1] = F(words.dims_are, #a.shape, a.shape[#a.shape], math.max(#a.shape - 1, 1), a.shape[math.max(#a.shape - 1, 1)]) end
      return notes
    end,
    fixes = function(call)
      local a, b = factors(call)
      if not (a and b) then return {} end
      return {{[b] = turned(b)}, {[a] = turned(a)}, {[a] = "%:flatten(2)"},
        #call.operands == 2 and {whole = F("%%2:%s(%%1)", call.op)} or nil}
    end},
  {code = "SHAPE-1", kind = "shape", op = "matmul mm bmm mv dot addmm inner", notes = dims_note, fixes = function(call)
    local a, b = factors(call)
    if not (a and b) then return {} end
    return {{whole = "%1:matmul(%2)"}, {[a] = "%:flatten()", [b] = "%:flatten()"}, {[b] = "%:unsqueeze(2)"}, {whole = "%1 * %2"}}
  end},
  {code = "SHAPE-2", kind = "broadcast", picture = "broadcast", fixes = broadcast_fixes, hint = repairs.arange_hint},
  {code = "SHAPE-4", kind = "shape", op = "view", find = "without a copy", fixes = function(call)
    local sizes = {}
    if not call.node or not call.node.method then return {} end
    for k, e in ipairs(call.node.args) do sizes[k] = call:code(e) end
    return {{whole = F("%%1:reshape(%s)", list(sizes):gsub("%%", "%%%%"))}, {whole = F("%%1:contiguous():view(%s)", list(sizes):gsub("%%", "%%%%"))}}
  end},
  {code = "SHAPE-3", kind = "shape", op = "view reshape", notes = function(call)
    return call.operands[1] and {F(words.elements, product(call.operands[1].shape))} or {}
  end, fixes = reshape_fixes},
  {code = "SHAPE-5", op = "cat stack concat concatenate hstack vstack dstack", notes = joined_notes, fixes = join_fixes},
  {code = "SHAPE-8", kind = "shape", op = "batch_norm", find = "at least 2 values", hint = function()
    local data = package.loaded["torch.utils.data"]
    local short = data and data._short_batch
    return short and short[1] == 1 and F(words.short_batch, short[1], short[2]) or nil
  end},
  {code = "SHAPE-7", kind = "shape", op = "conv1d conv2d conv3d max_pool1d max_pool2d avg_pool2d avg_pool1d adaptive_avg_pool2d",
    notes = function(call)
      local notes, spatial = dims_note(call, true), tonumber(call.op:match("(%d)d$"))
      local x, w = call.operands[1], call.operands[2]
      if x and w and spatial and #x.shape > spatial and #w.shape == spatial + 2 then
        local d = #x.shape - spatial
        notes = {F(x.shape[d] == 1 and words.one_channel or words.channels, x.shape[d], d), F(words.channels_expected, w.shape[2])}
      end
      return notes
    end, fixes = conv_fixes},
  {code = "SHAPE-9", kind = "shape", op = "cross_entropy nll_loss", fixes = function(call)
    local y = call.operands[2]
    if not y then return {} end
    local x, d = call.operands[1], #y.shape
    if d > 1 and y.shape[d] == 1 then return {{[y] = F("%%:squeeze(%d)", d)}} end
    if d == 2 and y.shape[2] == x.shape[2] then return {{[y] = "%:argmax(2)"}, {[y] = "%:float()"}} end
    if d == 0 then return {{[y] = "%:unsqueeze(1)"}} end
    return {#x.shape == 2 and product(y.shape) == x.shape[1] and {[y] = "%:flatten()"} or nil}
  end},
  {code = "SHAPE-9", kind = "shape", op = "binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss",
    fixes = broadcast_fixes},
  {code = "SHAPE-10", kind = "shape", op = "item", fixes = function()
    return {{whole = "%1:sum():item()", test = "%1:sum()"}, {whole = "%1:mean():item()", test = "%1:mean()"}}
  end},
  {code = "DIM-1", kind = "dim", notes = function(call) return dims_note(call, true) end, fixes = function(call)
    local x, out = call.operands[1], {}
    local rank = x and #x.shape or 0
    local node = call.node
    if call.op == "shape" and node and node.kind == "index" then  -- x.shape[0]
      for _, key in ipairs {"1", "-1"} do out[#out + 1] = {code = call:code(node.object) .. "[" .. key .. "]", test = node.object.object and call:code(node.object.object)} end
      return out
    end
    if all_dims[call.op] and #slots_with(call, function(v) return v == 0 end) > 0 then  -- counted from 0
      local shifted = {}
      for _, s in ipairs(slots_with(call, function(v) return v >= 0 end)) do shifted[s] = tostring(s.value + 1) end
      out[1] = shifted
    end
    for _, s in ipairs(slots_with(call, function(v) return v == 0 or v > rank or v < -rank end)) do
      out[#out + 1] = {[s] = s.value == 0 and "1" or tostring(rank)}
      out[#out + 1] = {[s] = "-1"}
    end
    return out
  end},
  {code = "INDEX-2", kind = "index", op = "cross_entropy nll_loss", find = "target[", fixes = function(call)
    local y = call.operands[2]
    return y and call.hint == "y = y + 1" and {{[y] = "% + 1"}} or {}
  end},
  {code = "INDEX-1", quiet = true, kind = "index", find = "tells it only now"},  -- of a call before this one
  {code = "INDEX-1", kind = "index", hint = repairs.range_hint, fixes = function(call)
    local x, out = call.operands[1], {}
    if not x or repairs.grows(call) then return out end
    if call.node and call.node.kind == "call" and call.node.name == "ipairs" then
      local over = call.node.args[1]
      return {{code = call:operand_text(over) .. ":rows()", test = call:operand_text(over) .. "[1]"}}
    end
    -- x[{1, 5}] is one element; a range has brackets of its own.
    local range = repairs.range_of(call, call.node)
    if range then out[1] = {whole = "%1" .. range:sub(#call:code(call.node.object) + 1):gsub("%%", "%%%%")} end
    if call.op == "embedding" and call.message:find "index 0" then return call.message:find "the largest is" and {} or {{[x] = "% + 1"}} end
    for _, s in ipairs(slots_with(call, function(v) return v == 0 end)) do out[#out + 1] = {[s] = "1"} end
    local k, n = call.message:match("index (%-?%d+) .-with size (%d+)")
    if k then
      for _, s in ipairs(slots_with(call, function(v) return v == tonumber(k) end)) do
        if tonumber(n) > 0 then
          out[#out + 1] = {[s] = tonumber(k) > 0 and n or "1"}
          out[#out + 1] = {[s] = tonumber(k) > 0 and "-1" or nil}
        end
      end
    end
    return out
  end},
  {code = "DTYPE-3", kind = "dtype", op = "cross_entropy nll_loss", find = "class numbers", fixes = function(call)
    return call.operands[2] and {{[call.operands[2]] = "%:long()"}} or {}
  end},
  {code = "DTYPE-3", kind = "dtype", op = "binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss huber_loss",
    fixes = function(call)
      local x, y = call.operands[1], call.operands[2]
      if not (x and y) then return {} end
      local fx, fy = (rank_of[x.slot.dtype] or 9) < 5 and "%:float()", (rank_of[y.slot.dtype] or 9) < 5 and "%:float()"
      return {{[x] = fx or nil, [y] = fy or nil}}
    end},
  {code = "DTYPE-4", kind = "dtype", find = "cannot be stored in", fixes = function(call)
    local node = call.node
    if not (node and node.method) then return {} end
    local args = {}
    for k, e in ipairs(node.args) do args[k] = call:code(e) end
    return {{whole = F("%%1:%s(%s)", node.method:gsub("_$", ""), list(args):gsub("%%", "%%%%"))}}
  end},
  {code = "DTYPE-2", kind = "dtype", find = "floating point", fixes = function(call)
    local out = {}
    for _, o in ipairs(call.operands) do
      if rank_of[o.slot.dtype] and rank_of[o.slot.dtype] < 5 then out[#out + 1] = {[o] = "%:float()"} end
    end
    return out
  end},
  {code = "DTYPE-0", kind = "dtype", find = "mask must be", fixes = function(call)
    local out = {}
    for _, o in ipairs(call.operands) do
      if o.slot.dtype ~= "bool" then out[#out + 1] = {[o] = "%:bool()"} end
    end
    return out
  end},
  {code = "DTYPE-0", kind = "dtype", find = "positions are", fixes = function(call)
    local out = {}
    for k = #call.operands, 1, -1 do
      local o = call.operands[k]
      if o.node and (rank_of[o.slot.dtype] or 0) >= 5 then out[#out + 1] = {[o] = "%:long()"} end
    end
    return out
  end},
  {code = "DTYPE-1", kind = "dtype", find = "one type", fixes = type_fixes},
  {code = "DTYPE-0", kind = "dtype", fixes = function(call)
    local x = call.operands[1]
    return x and {{[x] = "%:float()"}, {[x] = "%:long()"}, {[x] = "%:bool()"}} or {}
  end},
  {code = "GRAD-1", kind = "autograd", op = "backward", find = "one number", fixes = function(call)
    local y = call.operands[1]
    if not (y and y.slot.grad and call.node and call.node.method) then return {} end
    local shape = #y.shape > 0 and list(y.shape) or "1"
    return {{whole = "%1:sum():backward()", test = "%1:sum()"}, {whole = "%1:mean():backward()", test = "%1:mean()"},
      {whole = F("%%1:backward(torch.ones(%s))", shape), test = F("torch.ones(%s) * %%1", shape)}}
  end},
  {code = "GRAD-2", kind = "autograd", find = "would change", fixes = function(call)
    return call.node and call.node.kind == "call" and {{whole = "torch.no_grad(function() %0 end)", test = "%0"}} or {}
  end},
  {code = "GRAD-3", kind = "autograd", find = "already used"},
  {code = "GRAD-4", kind = "autograd", find = "changed it in place"},
  {code = "GRAD-5", kind = "autograd", find = "has no graph"},
  {code = "GRAD-0", kind = "autograd"},
  {code = "ARG-2", kind = "argument", find = "one boolean of", fixes = compare_fixes},
  {code = "ARG-1", kind = "argument", find = 'no argument "', fixes = function(call)
    local from, near = call.message:match('no argument "([%a_][%w_]*)"; did you mean "([%a_][%w_]*)"')
    return from and {{rename = {from, near}}} or {}
  end, hint = argument_hint},
  {code = "ARG-1", kind = "argument", find = 'no option "', hint = argument_hint},
  {code = "ARG-0", op = "format", find = "wants one number", hint = function(call)
    local o = call.operands[1]
    return o and o.node and call:operand_text(o.node) .. ":mean():item()"
  end},
  {code = "ARG-0", kind = "argument", op = "add", find = "a number, not the string", hint = function(call)
    return call.node and call.node.kind == "binary" and require "torch.explain.foreign".with_dots(call.text, call.node.line)
  end},
  {code = "ARG-1", kind = "argument", op = "tensor remainder", find = 'not the string "', hint = function(call)
    return (require("torch.foreign").line(call.text, call.line))
  end},
  {code = "ARG-3", kind = "argument", find = '"self" is missing', fixes = repairs.with_colon},
  {code = "ARG-3", kind = "argument", find = 'argument "self" must be a tensor', fixes = repairs.with_colon, hint = function(call)
    local fix = repairs.with_colon(call)[1]
    return fix and fix.code
  end},
  {code = "ARG-3", kind = "argument", find = ": a tensor is wanted, not nil", hint = function(call)
    local fix = repairs.with_colon(call)[1]
    return fix and fix.code
  end},
  {code = "NAME-1", kind = "argument", find = "no method or field", near = true},
  {code = "NAME-1", quiet = true, kind = "argument", find = ' has no "'},
  {code = "MODULE-1", quiet = true, kind = "argument", find = "list of parameters is empty"},
  {code = "STATE-1", quiet = true, op = "load_state_dict"},
  {code = "DATA-1", quiet = true, kind = "shape", op = "collate"},
  {code = "MEM-1", quiet = true, kind = "oom"},
  {code = "SHAPE-0", kind = "shape"},
  {code = "DIM-1", kind = "dim"},
  {code = "ARG-0", kind = "argument"},
  {code = "VALUE-0", kind = "value"},
  {code = "IO-0", kind = "io"},
  {code = "LINALG-0", kind = "linalg"},
  {code = "COLL-1", kind = "distributed", find = "ranks disagree"},
  {code = "DIST-0", kind = "distributed"},
  {code = "STOP-0", kind = "interrupt"},
}

---The rule that fits an error.
return function(kind, op, message)
  for _, rule in ipairs(rules) do
    if (not rule.kind or rule.kind == kind) and (not rule.op or (" " .. rule.op .. " "):find(" " .. op .. " ", 1, true))
      and (not rule.find or message:find(rule.find, 1, true)) then
      return rule
    end
  end
  return {code = "VALUE-0"}
end
