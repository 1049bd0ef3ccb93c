-- One case of an op: the nine checks. `case.run(c, header, tensors)` returns nil when all pass, else the name of the
-- first check that fails and what was wrong; `missing` as the name when Tycho has no such function.
local json = require "json"
local values = require "values"
local compare = require "compare"
local resolve = require "resolve"
local torch = torch
local case = {}

local unpack = table.unpack

-- Makers of argument tensors: a fresh copy each time, so that no check can disturb another.
local function maker(tensors, options)
  local made = {}
  return function(name, spec)
    local found = made[name]
    if found then return found end
    local t = tensors[name] or error("no tensor " .. name, 0)
    if options.scatter and (values.is_floating(t) or options.scatter == "all") and t:numel() > 0 then
      t = values.scattered(t)
    elseif spec.stride and not options.plain then
      t = values.strided(t, spec.stride)
    else
      t = t:clone()
    end
    if spec.rg and options.leaves then t:requires_grad_() end
    made[name] = t
    return t
  end, made
end

-- The arguments as Lua values: positional ones packed, named ones in a table or nil.
local function arguments(c, make)
  local args = {n = #c.args}
  local roles = c.roles or {}
  for i = 1, #c.args do
    local v = values.decode(c.args[i], roles[i], make)
    args[i] = v
  end
  local named
  for key, v in pairs(c.kwargs or {}) do
    named = named or {}
    local role = c.kwroles and c.kwroles[key]
    local one = values.decode(v, role, make)
    if one == nil then one = torch.none end
    named[key] = one
  end
  return args, named
end

local function call(f, args, named, from)
  from = from or 1
  if not named then
    -- A last list argument stands alone; an empty one must not be taken for named arguments.
    return table.pack(f(unpack(args, from, args.n)))
  end
  local list = {n = 0}
  for i = from, args.n do
    list.n = list.n + 1
    list[list.n] = args[i]
  end
  list.n = list.n + 1
  list[list.n] = named
  return table.pack(f(unpack(list, 1, list.n)))
end

-- What PyTorch gives as a tuple comes as several values, a list as a table; both are compared as a list.
local function results(packed, c)
  if #c.out ~= packed.n and packed.n == 1 and type(packed[1]) == "table" then
    local out = packed[1]
    out.n = #out
    return out
  end
  return packed
end

local function expected(c, tensors)
  local out = {n = #c.out}
  for i, v in ipairs(c.out) do
    local want = values.decode(v, nil, function(name) return tensors[name] end)
    local role = c.out_roles and c.out_roles[tostring(i - 1)]
    if role then want = values.shift(want) end
    out[i] = want
  end
  return out
end

-- Where values tie, another position is as good: the value found there must be the same.
local function tied(got, want, args, c)
  local x, dim = args[1], nil
  if not values.is_tensor(x) or not values.is_tensor(got) or got.shape ~= want.shape or got.dtype ~= want.dtype then return false end
  for i, name in ipairs(c.names) do
    if name == "dim" then dim = args[i] end
  end
  if c.kwargs and c.kwargs.dim and c.kwargs.dim ~= json.null then dim = values.shift(c.kwargs.dim) end
  local function at(index)
    if x.ndim == 0 then return x:expand(index.shape) end
    if not dim then return x:reshape(-1):index_select(1, index:reshape(-1)) end
    local shaped = index
    if index.ndim < x.ndim then shaped = index:unsqueeze(dim) end
    return torch.gather(x, dim, shaped)
  end
  local ok, same = pcall(function() return torch.allclose(at(got):double(), at(want):double(), {equal_nan = true}) end)
  return ok and same
end

local function check_results(got, c, header, want, args, options)
  if got.n ~= want.n then return ("%d results, expected %d"):format(got.n, want.n) end
  local identity = header.compare and compare.identities[header.compare]
  if identity and got.n > 1 then
    for i = 1, want.n do
      if not values.is_tensor(got[i]) or got[i].shape ~= want[i].shape or got[i].dtype ~= want[i].dtype then
        return ("result %d: %s"):format(i, compare.values(got[i], want[i]) or "differs")
      end
    end
    return identity(got, args[1]:detach(), want)
  end
  for i = 1, want.n do
    local role = c.out_roles and c.out_roles[tostring(i - 1)]
    local why = compare.values(got[i], want[i], options)
    if why and role and header.unstable and tied(got[i], want[i], args, c) then why = nil end
    if why and header.unstable == "order when sorted=false" then
      local sorted = compare.values(values.is_tensor(got[i]) and got[i]:sort() or got[i], want[i]:sort(), options)
      why = i == 1 and sorted or nil
    end
    if why then return want.n > 1 and ("result %d: %s"):format(i, why) or why end
  end
end

local checks = {}

local function plain_call(s, options, form)
  local make = maker(s.tensors, options)
  local args, named = arguments(s.c, make)
  local f, from = s.f, 1
  if form == "method" then
    if options.self and options.self > 1 then table.insert(args, 1, table.remove(args, options.self)) end
    f = resolve.method(s.c.fn, args[1])
    if not f then return nil, "no method " .. s.c.fn end
  end
  return results(call(f, args, named, from), s.c), args, make
end

local function compared(s, options, form)
  local got, args = plain_call(s, options, form)
  if not got then return args end
  return check_results(got, s.c, s.header, s.want, args, {atol = s.c.atol})
end

checks[1] = {"function", function(s)
  if s.c.kind == "method" then return compared(s, {}, s.c.fn ~= "__getitem__" and "method" or nil) end
  return compared(s, {})
end}

checks[2] = {"method", function(s)
  if s.c.kind == "method" or not s.header.has_method or s.c.fn:find("^nn%.functional") or s.c.fn:find("^linalg") then return end
  -- The method's self is the argument named input (torch.where has it second).
  local self = 1
  for i, name in ipairs(s.c.names) do
    if name == "input" or name == "self" then self = i end
  end
  local first = s.c.args[self]
  if type(first) ~= "table" or not first.t then return end
  return compared(s, {self = self}, "method")
end}

checks[3] = {"named", function(s)
  local c = s.c
  if c.positional or c.kind == "property" or c.fn == "__getitem__" or #c.args == 0 then return end
  local make = maker(s.tensors, {})
  local args, named = arguments(c, make)
  named = named or {}
  for i, name in ipairs(c.names) do
    if i > args.n then break end
    local v = args[i]
    if v == nil then v = torch.none end
    named[name] = v
  end
  local f = s.f
  if c.kind == "method" then
    -- The method's self stays in front.
    named[c.names[1]] = nil
    f = resolve.method(c.fn, args[1])
    local self = args[1]
    local got = results(table.pack(f(self, named)), c)
    return check_results(got, c, s.header, s.want, args, {atol = c.atol})
  end
  local got = results(table.pack(f(named)), c)
  return check_results(got, c, s.header, s.want, args, {atol = c.atol})
end}

checks[4] = {"noncontiguous", function(s) return compared(s, {scatter = "float"}, s.c.kind == "method" and s.c.fn ~= "__getitem__" and "method" or nil) end,
  skip = function(s) return s.c.fn == "view" or s.c.fn == "contiguous" end}

checks[5] = {"inplace", function(s)
  local c = s.c
  if not c.inplace then return end
  local make = maker(s.tensors, {})
  local args, named = arguments(c, make)
  args[1] = args[1]:clone()
  local f = resolve.inplace(c.fn, args[1])
  if not f then return "no in-place form" end
  local before = args[1]:clone()
  local ok, out = pcall(function() return call(f, args, named)[1] end)
  if type(c.inplace) == "table" then
    if ok then return "must fail: " .. c.inplace.error end
    if not torch.equal(torch.nan_to_num(args[1]:double()), torch.nan_to_num(before:double())) then return "failed, but changed its operand" end
    return
  end
  if not ok then return tostring(out) end
  local want = s.want[1]
  if c.inplace_dtype then want = want:to(torch[c.inplace_dtype]) end
  return compare.values(out, want, {atol = c.atol}) or compare.values(args[1], want, {atol = c.atol})
end}

checks[6] = {"alias", function(s)
  if not s.c.alias then return end
  for output, input in pairs(s.c.alias) do
    local make = maker(s.tensors, {plain = false})
    local args, named = arguments(s.c, make)
    local f = s.c.kind == "method" and s.c.fn ~= "__getitem__" and resolve.method(s.c.fn, args[1]) or s.f
    local got = results(call(f, args, named), s.c)
    local out, source = got[tonumber(output) + 1], make(input, {})
    if out:numel() > 0 then
      local before = source:clone()
      torch.no_grad(function()
        local one = out
        for _ = 1, out.ndim do one = one[1] end
        if out.dtype == torch.bool then one:logical_not_() else one:copy_(torch.isfinite(one):item() and one + 1 or one * 0) end
      end)
      if torch.equal(torch.nan_to_num(before:double()), torch.nan_to_num(source:double())) then
        local nan_before, nan_after = before:double():isnan(), source:double():isnan()
        if torch.equal(nan_before, nan_after) then return ("result %d is no view of %s"):format(tonumber(output) + 1, input) end
      end
    end
  end
end}

-- Gradients of the outputs named by `of` to the tensors named by `wrt`.
local function gradients(s, options)
  local g = s.c.grad
  local make = maker(s.tensors, options)
  local args, named = arguments(s.c, make)
  local f = s.c.kind == "method" and s.c.fn ~= "__getitem__" and resolve.method(s.c.fn, args[1]) or s.f
  local got = results(call(f, args, named), s.c)
  local outs, gouts, inputs = {}, {}, {}
  for i, k in ipairs(g.of) do outs[i] = got[k + 1] end
  for i, name in ipairs(g.gout) do
    gouts[i] = s.tensors[name]:clone()
    if options.second and values.is_floating(gouts[i]) then gouts[i]:requires_grad_() end
  end
  for i, name in ipairs(g.wrt) do inputs[i] = make(name, {rg = true}) end
  for i, out in ipairs(outs) do
    if not out.requires_grad then return nil, ("result %d does not require grad"):format(i) end
  end
  local grads = table.pack(torch.autograd.grad(outs, inputs, {grad_outputs = gouts, allow_unused = true,
    create_graph = options.second, retain_graph = options.second}))
  return grads, inputs, gouts, make
end

local function zero_or(t, like) return t or torch.zeros_like(like) end

checks[7] = {"gradient", function(s)
  local g = s.c.grad
  if not g then return end
  if g.fd == false and s.c.origin ~= "extra" then return end
  for pass = 1, 2 do
    local scatter = pass == 2 and s.c.fn ~= "view"
    if pass == 2 and not scatter then return end
    local grads, inputs = gradients(s, {leaves = true, scatter = scatter and "float" or nil})
    if not grads then return inputs end
    for i = 1, #g.wrt do
      local want = g.grad[i]
      if want == json.null then
        if grads[i] and compare.tensors(grads[i], torch.zeros_like(grads[i])) then return ("gradient of %s must be none"):format(g.wrt[i]) end
      else
        local why = compare.tensors(zero_or(grads[i], inputs[i]), s.tensors[want], {atol = g.atol})
        if why then return ("gradient of %s%s: %s"):format(g.wrt[i], scatter and " (noncontiguous)" or "", why) end
      end
    end
  end
end}

checks[8] = {"second", function(s)
  local g, h = s.c.grad, s.c.grad2
  if not h or (g.fd == false and s.c.origin ~= "extra") then return end
  local grads, inputs, gouts = gradients(s, {leaves = true, second = true})
  if not grads then return inputs end
  local outs, vs = {}, {}
  for i, k in ipairs(h.v_of) do
    local y = grads[k + 1]
    if y and y.requires_grad then
      outs[#outs + 1], vs[#vs + 1] = y, s.tensors[h.v[i]]
    end
  end
  local targets = {}
  for i, x in ipairs(inputs) do targets[i] = x end
  local wanted = {}
  for i = 1, #inputs do wanted[i] = h.grad2[i] end
  local gout_names = type(h.grad2_gout) == "table" and h.grad2_gout or {h.grad2_gout}
  local n = #targets
  for i, x in ipairs(gouts) do
    targets[n + i] = x
    wanted[n + i] = gout_names[i]
  end
  local got = {}
  if #outs > 0 then
    got = table.pack(torch.autograd.grad(outs, targets, {grad_outputs = vs, allow_unused = true}))
  end
  for i = 1, #targets do
    local want = wanted[i]
    local value = zero_or(got[i], targets[i])
    if want == nil or want == json.null or want == "zero" then
      if want ~= nil and compare.tensors(value, torch.zeros_like(value)) then return ("second gradient %d must be zero"):format(i) end
    else
      local why = compare.tensors(value, s.tensors[want], {atol = g.atol})
      if why then return ("second gradient %d: %s"):format(i, why) end
    end
  end
end}

checks[9] = {"no_grad", function(s)
  return torch.no_grad(function()
    local got, args = plain_call(s, {leaves = true}, s.c.kind == "method" and s.c.fn ~= "__getitem__" and "method" or nil)
    if not got then return args end
    for i = 1, got.n do
      local y = got[i]
      local same = false
      for k = 1, args.n do
        same = same or rawequal(args[k], y)
        -- An input handed back as it is may come as another Lua value.
        local inputs = type(args[k]) == "table" and args[k] or {args[k]}
        for _, x in ipairs(inputs) do
          same = same or values.is_tensor(x) and values.is_tensor(y) and y.is_leaf and x.requires_grad and x:data_ptr() == y:data_ptr()
        end
      end
      if values.is_tensor(y) and y.requires_grad and not same then return ("result %d requires grad"):format(i) end
    end
    return check_results(got, s.c, s.header, s.want, args, {atol = s.c.atol})
  end)
end}

case.names = {}
for i, check in ipairs(checks) do case.names[i] = check[1] end

---@return string|nil failed  the check's name, or "missing"
---@return string|nil why
function case.run(c, header, tensors)
  local f = resolve.fn(c.fn)
  if not f and c.kind ~= "method" then return "missing", c.fn end
  local s = {c = c, header = header, tensors = tensors, f = f}
  s.want = expected(c, tensors)
  for _, check in ipairs(checks) do
    if not (check.skip and check.skip(s)) then
      torch.manual_seed(0)
      local ok, why = pcall(check[2], s)
      if not ok then
        local text = tostring(why)
        -- A slice past the end may raise here.
        if c.clamps and type(why) == "table" and why.kind == "index" then return nil end
        return check[1], "raised: " .. text
      end
      if why then return check[1], why end
    end
  end
end

return case
