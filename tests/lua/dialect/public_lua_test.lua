-- With TYCHO_PUBLIC_LUA=1 nothing is read of Lua beyond its public header: lines in messages, the
-- memory of tensors and the globals of functions that cross to workers come out the same.
local function both(code)
  local out = {}
  for i, env in ipairs {{}, {TYCHO_PUBLIC_LUA = "1"}} do
    local file = check.temp("script.lua")
    local f = assert(io.open(file, "w"))
    f:write(code)
    f:close()
    local r = check.tycho({file}, {env = env})
    check.equal(r.status, 0, r.err)
    out[i] = r.out
  end
  check.equal(out[2], out[1])
  return out[2]
end

test("the lines of operations are found", function()
  local out = both [[
    local function change(x)
      local y = x:exp()
      y:add_(1)
      return y
    end
    for i = 1, 3 do
      local x = torch.ones(2):requires_grad_()
      local _, e = pcall(function() change(x):sum():backward() end)
      print((tostring(e):match("[^\n]*")))
    end
    local x = torch.ones(2):requires_grad_() local a = x:exp() a:add_(1)
    local _, e = pcall(function() a:sum():backward() end)
    print((tostring(e):match("[^\n]*")))]]
  check.contains(out, "exp at")
  check.contains(out, "script.lua:2")
  check.contains(out, "script.lua:3 changed it in place")
  check.contains(out, "script.lua:11 changed it in place")
end)

test("tensors are freed with their values, in cycles and coroutines, too", function()
  check.equal(both [[
    local before = torch.memory_allocated()
    for i = 1, 50 do
      local x = torch.ones(100000)
      local t = {x}
      t.t = t
      coroutine.wrap(function() local y = torch.ones(1000) coroutine.yield(y) end)()
    end
    collectgarbage() collectgarbage()
    print(torch.memory_allocated() - before)]], "0\n")
end)

test("a worker finds the globals that a function uses, and none that hold what cannot cross", function()
  check.equal(both [[
    factor, offset, open_file = 10, {by = 5}, io.tmpfile()
    function scaled(i) return i * factor + offset.by end
    local Set = torch.utils.data.class("Set")
    function Set:__len() return 3 end
    function Set:get(i) return scaled(i) end
    for x in torch.utils.data.DataLoader(Set(), {num_workers = 1, batch_size = torch.none})() do print(x) end]],
    "15\n25\n35\n")
end)
