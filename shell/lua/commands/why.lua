-- %why: why a value is nil, not a number, slow, or on a device, from what the engine and the session know.
local columns = require "shell.columns"
local commands = require "shell.commands"
local names = require "shell.graph_names"

local function say(session, text, indent)
  session.say((indent or "") .. table.concat(columns.wrap(text, columns.window() - #(indent or "")), "\n" .. (indent or "") .. "  "))
end

local function place(source, line)
  local where = names.without_line(names.place(source, line))
  return where ~= "" and " at " .. where or ""
end

-- The value of an expression; raises as the entry itself would, false for a variable that is not there.
local function value_of(code, session)
  if code:find "^[%a_][%w_]*$" then
    local value = rawget(_G, code)
    if value == nil and not session.names.constants[code] then
      local is_result, result = session.results.read(code)
      return is_result and result or nil
    end
  end
  local ok, packed = session.eval("return " .. code)
  if not ok then
    error(packed, 0)
  end
  return packed[1]
end

-- The entry that last set the variable an expression begins with: " [3]: x = torch.ones(2)"
local function origin(code, session)
  local name = code:match "^%s*([%a_][%w_]*)"
  local number = name and session.origin(name)
  local record = number and session.entries[number]
  if not record then return nil end
  return ("[%d]: %s"):format(number, columns.plain(record.text:match "^%s*([^\n]*)")), record, number
end

-- ---- gradients ----

-- Variables whose graphs lead to a leaf: {name=, freed=, unfolded=}.
local function leading_to(leaf)
  local id, found = torch._inspect(leaf).id, {}
  for name, value in next, _G do
    if type(name) == "string" and torch.is_tensor(value) and torch._inspect(value).node then
      local unfolded = torch._unfold(value, {})
      for _, each in ipairs(unfolded and unfolded.leaves or {}) do
        if each.id == id then
          found[#found + 1] = {name = name, freed = unfolded.freed_at, numel = value:numel(), count = #unfolded.nodes}
          break
        end
      end
    end
  end
  table.sort(found, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.name < b.name
  end)
  return found
end

-- Variables that were computed without a graph, with the reason, where the entry that made them names the leaf.
local function cut_from(code, session)
  local out = {}
  for name, value in next, _G do
    if type(name) == "string" and torch.is_tensor(value) and not value.requires_grad and session.origin(name) then
      local why = torch._cut(value)
      if why and why ~= "" then out[#out + 1] = ("%s has no graph: %s"):format(name, why) end
    end
  end
  table.sort(out)
  return out
end

local function no_gradient(x, code, session)
  local look = torch._inspect(x)
  if look.node then
    say(session, ("%s.grad is nil because %s was computed (by %s%s): only leaves keep their gradient"):format(
      code, code, look.node.name, place(look.node.source, look.node.line)))
    return session.say(("  %s:retain_grad() before backward keeps it"):format(code))
  end
  if not x.requires_grad then
    local why = torch._cut(x)
    local from = origin(code, session)
    if why and why ~= "" then
      say(session, ("%s.grad is nil because %s is in no graph: %s"):format(code, code, why))
    else
      say(session, ("%s.grad is nil because %s does not require grad%s"):format(code, code, from and ", made in " .. from or ""))
      if x:is_floating_point() then session.say(("  %s:requires_grad_() before it is used, or {requires_grad = true} where it is made"):format(code))
      else session.say(("  its type is %s, and only floating point numbers have gradients"):format(torch._inspect(x).dtype)) end
    end
    return
  end
  local leading = leading_to(x)
  for _, y in ipairs(leading) do
    if y.freed then
      say(session, ("%s.grad is nil, though backward ran from %s at %s: it was dropped since (zero_grad, or %s.grad = nil)"):format(
        code, y.name, names.without_line(y.freed), code))
      return
    end
  end
  if leading[1] then
    local y = leading[1]
    say(session, ("%s.grad is nil because no backward has run since it was made or dropped: %s leads to %s"):format(code, y.name, code))
    return session.say(("  %s:backward() fills it"):format(y.numel == 1 and y.name or y.name .. ":sum()"))
  end
  say(session, ("%s.grad is nil because no backward has reached %s: no variable leads to it through a graph"):format(code, code))
  for i, line in ipairs(cut_from(code, session)) do
    if i > 3 then break end
    say(session, line, "  ")
  end
end

local function some_gradient(g, code, session)
  if not g:is_floating_point() or g:numel() == 0 then return session.say(("%s is %s"):format(code, columns.describe(g))) end
  local s = torch._summary(g)
  local bad = s.nan + s.plus + s.minus
  if bad > 0 then
    say(session, ("%s holds %d nan and %d inf of %d"):format(code, s.nan, s.plus + s.minus, g:numel()))
    for _, y in ipairs(leading_to(value_of(code:match "^(.*)%.grad$", session))) do
      if not y.freed then return commands.find("nan").run(y.name, session) end
    end
    return session.say("  %nan LOSS finds the operation, given the code that computes the loss")
  end
  local text = s.zero == g:numel() and "all zero: nothing that it leads to depends on it here"
    or ("%s .. %s"):format(names.number(s.min), names.number(s.max))
  return say(session, ("%s is there: %s, %s"):format(code, columns.describe(g), text))
end

-- ---- nan ----

local function not_a_number(value, code, session)
  if type(value) == "number" then
    say(session, ("%s is %s, a Lua number, which does not know where it is from%s"):format(code, value ~= value and "nan" or tostring(value),
      origin(code, session) and "; " .. origin(code, session) or ""))
    return session.say "  %nan finds it in the tensors it was made of, as in  %nan F.mse_loss(net(x), y)"
  end
  return commands.find("nan").run(code, session)
end

-- ---- devices ----

local function device(x, code, session)
  local where, look = tostring(x.device), torch._inspect(x)
  if look.node then
    local unfolded, from, seen = torch._unfold(x, {}), {}, {}
    local leaves, nodes = names.tensors()
    local root = unfolded and unfolded.nodes[unfolded.root]
    for _, input in ipairs(root and root.inputs or {}) do
      local name = input.leaf and leaves[unfolded.leaves[input.leaf].id] or input.node and nodes[unfolded.nodes[input.node].id]
      if name and not seen[name] then
        seen[name] = true
        from[#from + 1] = name
      end
    end
    say(session, ("%s is on %s because %s%s computed it there, where its operands lie%s"):format(code, where, look.node.name,
      place(look.node.source, look.node.line), #from > 0 and ": " .. table.concat(from, ", ") or ""))
  else
    local from = origin(code, session)
    local told = from and (from:find "cuda" or from:find "device" or from:find ":cpu%(")
    say(session, ("%s is on %s%s%s"):format(code, where, from and ", made in " .. from or "",
      not told and where == "cpu" and "; tensors are made on the cpu unless {device = ..} says otherwise" or ""))
  end
  local other = where == "cpu" and "cuda" or "cpu"
  if other == "cpu" or torch.cuda.device_count() > 0 then
    session.say(('  %s = %s:to("%s") moves it'):format(code, code, other))
  end
end

-- ---- time ----

-- What the tensors that a code names have to do with its speed.
local function slow_operands(code, session)
  local told = {}
  for _, t in ipairs(torch._lex(code)) do
    local name = code:sub(t.first, t.last)
    local x = t.kind == "name" and rawget(_G, name)
    if torch.is_tensor(x) and not told[name] then
      told[name] = true
      local dtype = torch._inspect(x).dtype
      if dtype == "f64" then say(session, ("%s is f64: f32 is half the bytes and twice the numbers at a time"):format(name), "  ") end
      if x:dim() > 1 and not x:is_contiguous() and x:numel() > 100000 then
        say(session, ("%s is not contiguous: %s:contiguous() once, where it is read often"):format(name, name), "  ")
      end
      if tostring(x.device) == "cpu" and torch.cuda.device_count() > 0 and x:numel() > 1000000 then
        say(session, ("%s is on the cpu, and there is a device: %s:to(\"cuda\")"):format(name, name), "  ")
      end
    end
  end
end

local function slow(code, session)
  local record = code:find "^[%a_][%w_]*$" and select(2, origin(code, session))
  if record and rawget(_G, code) ~= nil and type(rawget(_G, code)) ~= "function" then
    say(session, ("%s comes from %s, which took %s"):format(code, origin(code, session), columns.seconds(record.seconds)))
    slow_operands(record.text, session)
    return session.say("  %why CODE is slow, or %prof CODE, runs a code and tells where its time goes")
  end
  local run = commands.compile(code, session)
  local seen = torch._observe(run, true)
  seen.results = nil
  if not seen.ok and not seen.stopped then error(seen.error or "the code failed", 0) end
  local all, calls = math.max(seen.seconds, 1e-9), 0
  for _, op in ipairs(seen.ops) do calls = calls + op.calls end
  table.sort(seen.ops, function(a, b) return a.seconds > b.seconds end)
  local function percent(s) return ("%.0f %%"):format(100 * s / all) end
  say(session, ("%s: %s in %d operations, the rest is Lua"):format(columns.seconds(all), percent(seen.in_ops), calls))
  local first = seen.ops[1]
  if first then
    local rate = first.flops > 0 and ", " .. columns.amount(first.flops / first.seconds) .. "FLOP/s"
      or first.bytes > 0 and ", " .. columns.amount(first.bytes / first.seconds) .. "B/s" or ""
    say(session, ("%s takes %s, in %d call%s of %s%s"):format(first.name, percent(first.seconds), first.calls, first.calls == 1 and "" or "s",
      columns.seconds(first.seconds / first.calls), rate), "  ")
  end
  table.sort(seen.lines, function(a, b) return a.seconds + a.lua > b.seconds + b.lua end)
  local line = seen.lines[1]
  if line and #seen.lines > 1 and line.source ~= "" then
    say(session, ("the line that takes most is %s:%d, %s"):format(line.source, line.line, percent(line.seconds + line.lua)), "  ")
  end
  if calls > 200 and seen.in_ops / calls < 5e-6 then
    say(session, ("the operations are small, %s each: one on a larger tensor costs what one of these does"):format(
      columns.seconds(seen.in_ops / calls)), "  ")
  elseif seen.in_ops < 0.3 * all and all > 0.01 then
    session.say("  most of the time is Lua's own: whole tensors in place of loops over elements")
  end
  if calls > 100 and code:find ":item%(" then
    session.say "  item() in a loop waits for each value: add up tensors (detached), and ask once at the end"
  end
  slow_operands(code, session)
end

-- ---- the command ----

local function nothing(code, session)
  local owner, field = code:match "^(.-)[.:]([%a_][%w_]*)%(?%)?$"
  if not owner then
    if session.names.known[code] and session.names.origins[code] then
      return say(session, ("%s is nil: [%d] set it so"):format(code, session.names.origins[code]))
    end
    return say(session, session.names.unknown(code))
  end
  local of = value_of(owner, session)
  if of == nil then return say(session, ("%s is nil, so it has no %s"):format(owner, field)) end
  if type(of) ~= "table" then return say(session, ("%s is nil: %s, %s, has no such field"):format(code, owner, columns.describe(of))) end
  local near = session.names.nearest(field, of)
  say(session, ("%s is nil: %s has no field %s%s"):format(code, owner, field, near and (("; there is %s"):format(near)) or ""))
end

local function why(args, session)
  local text = args:gsub("[%s?]+$", "")
  if text == "" then return "what is not as it should be? A gradient, a value, a device, or code that is slow" end
  local code, what = text:match "^(.-)%s+is%s+(.+)$"
  if not code then
    code, what = text:match "^(.-)%s*==%s*(nil)$"
  end
  code, what = code or text, what and what:lower() or ""
  what = what:gsub("^so ", ""):gsub("^on .*$", "device")
  if what == "slow" then return slow(code, session) end
  local owner = code:match "^(.*)[.:]device%(?%)?$"
  if owner then code, what = owner, "device" end
  local of = code:match "^(.*)%.grad$"
  if of then
    local x = value_of(of, session)
    if not torch.is_tensor(x) then return ("%s is no tensor, but %s"):format(of, columns.describe(x)) end
    local g = torch._inspect(x).grad and x.grad or nil
    if g then return some_gradient(g, code, session) end
    return no_gradient(x, of, session)
  end
  local value = value_of(code, session)
  if value == nil then return nothing(code, session) end
  if what == "nil" then return session.say(("%s is not nil, but %s"):format(code, columns.describe(value))) end
  if torch.is_tensor(value) and what == "device" then return device(value, code, session) end
  if type(value) == "number" and (value ~= value or what == "nan" or what == "inf") then return not_a_number(value, code, session) end
  if not torch.is_tensor(value) then
    local from = origin(code, session)
    return session.say(("%s is %s%s"):format(code, columns.describe(value), from and ", from " .. from or ""))
  end
  if what == "nan" or what == "inf" or what == "not finite" then return not_a_number(value, code, session) end
  local summary = value:is_floating_point() and value:numel() > 0 and torch._summary(value)
  if summary and summary.nan + summary.plus + summary.minus > 0 then return not_a_number(value, code, session) end
  -- Nothing is wrong with it: what it is made of.
  local look, from = torch._inspect(value), origin(code, session)
  say(session, ("%s is %s%s%s"):format(code, columns.describe(value),
    look.node and (", computed by %s%s"):format(look.node.name, place(look.node.source, look.node.line)) or "", from and ", set in " .. from or ""))
  local cut = not value.requires_grad and torch._cut(value)
  if cut and cut ~= "" then say(session, "it has no graph: " .. cut, "  ") end
end

return {
  {
    name = "why", usage = "%why VALUE [is nil|nan|slow|on DEVICE]", example = "%why x.grad",
    doc = "Why a gradient or value is nil or nan, why a tensor lies on its device, where the time of a code goes.",
    more = "%why x.grad   %why loss is nan   %why x.device   %why train(1) is slow (runs it)",
    run = why,
  },
}
