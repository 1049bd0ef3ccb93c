-- Values as bytes for another machine: what comes back is the same, what cannot go is named with its
-- path, and no bytes whatever make anything but data.
local function through(v) return torch._decode(torch._encode(v, "all_gather_object")) end

test("data and tensors come back as they were", function()
  local x = torch.arange(12):view(3, 4)
  local out = through {
    1, 2.5, "text", true, nested = {x = x}, none = torch.none, dtype = torch.float16, device = torch.device("cpu"),
    shape = x.shape, [false] = "no", empty = torch.zeros(0, 3), number = torch.tensor(3.5),
  }
  check.equal({out[1], out[2], out[3], out[4]}, {1, 2.5, "text", true})
  check.equal(out.nested.x, x)
  check.yes(out.none == torch.none and out.dtype == torch.float16 and out.device == torch.device("cpu"))
  check.equal(out.shape, x.shape)
  check.equal(out[false], "no")
  check.shape(out.empty, {0, 3})
  check.equal(out.number:item(), 3.5)
  check.equal(through(nil), nil)
  check.equal(through("x"), "x")
end)

test("every dtype crosses, and so does requires_grad", function()
  for _, name in ipairs {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"} do
    local x = torch.tensor({0, 1, 1}):to(torch[name])
    check.equal(through(x), x)
  end
  check.yes(through(torch.ones(2, {requires_grad = true})).requires_grad)
end)

test("views of one storage share it again, and only what they cover goes", function()
  local big = torch.zeros(100000)
  check.yes(#torch._encode(big[{{11, 12}}], "f") < 1000)
  local x = torch.arange(100000):view(1000, 100)
  local rows = {x[{501}], x[{{501, 502}}].T}
  local bytes = torch._encode(rows, "f")
  check.yes(#bytes < 3000)
  local out = torch._decode(bytes)
  check.equal(out[1], rows[1])
  check.equal(out[2], rows[2])
  out[1][{7}] = -1
  check.equal(out[2][{7, 1}]:item(), -1)
  check.equal(x[{501, 7}]:item(), 50006)
end)

test("tables keep their cycles and what they share", function()
  local t = {name = "t"}
  t.me, t.list = t, {t, t}
  local out = through(t)
  check.yes(out.me == out and out.list[1] == out and out.list[2] == out)
end)

test("a state_dict and a module of torch's own classes cross", function()
  local net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
  local state = through(net:state_dict())
  check.equal(state["0.weight"] or state["1.weight"], net[1].weight:detach())
  local x = torch.randn(4, 3)
  check.equal(through(net)(x), net(x))
end)

test("what cannot go is named with its path", function()
  local function fails(text, v) return check.raises("argument", text, through, v) end
  fails("all_gather_object: log is an open file", {log = io.stdout})
  fails("all_gather_object: a.b[2] is a function, and only data and tensors cross to other ranks", {a = {b = {1, print}}})
  fails("all_gather_object: a.f is a function", {a = {f = function() end}})
  fails("the object is a function", function() end)
  fails("the object[1] is a coroutine", {coroutine.create(print)})
  local err = fails("loss is part of a graph", {loss = torch.ones(2, {requires_grad = true}) * 2})
  check.equal(err.hint, "loss = loss:detach()")
  local Mine = torch.nn.class("Mine")
  function Mine:forward(x) return x end
  fails("is a function", Mine())
end)

test("bytes that hold code are refused", function()
  -- A function as the codec of this process's own workers writes it, put where data was.
  local bytes = torch._encode({"PLACE"}, "f")
  local code = string.dump(function() os.exit(3) end)
  local body = ("\9" .. ("<s8"):pack(code))
  local at = bytes:find("\5" .. ("<s8"):pack("PLACE"), 1, true)
  check.yes(at)
  local evil = bytes:sub(1, at - 1) .. body .. bytes:sub(at + 14)
  evil = evil:sub(1, 16) .. ("<i8"):pack(("<i8"):unpack(evil, 17) + #body - 14) .. evil:sub(25)
  check.raises("value", "code", torch._decode, evil)
end)

test("names of other modules are not looked up", function()
  local bytes = torch._encode(setmetatable({}, getmetatable(torch.nn.ReLU())), "f")
  check.yes(pcall(torch._decode, bytes))
  check.contains(bytes, "torch")
  local other = bytes:gsub("torch", "evil_")
  check.raises("argument", nil, torch._decode, other)
end)

test("damaged bytes raise, whatever they are", function()
  local x = torch.arange(12):view(3, 4)
  local bytes = torch._encode({a = 1, b = {x, x.T, x[{2}]}, s = "hi", shape = x.shape, 2.5, true}, "f")
  math.randomseed(7)
  local raised = 0
  for _ = 1, 5000 do
    local c = {bytes:byte(1, -1)}
    for _ = 1, math.random(3) do c[math.random(#c)] = math.random(0, 255) end
    local s = string.char(table.unpack(c))
    if math.random(4) == 1 then s = s:sub(1, math.random(#s)) end
    local ok, err = pcall(torch._decode, s)
    if not ok then
      raised = raised + 1
      check.yes(type(err) == "table" and err.kind, tostring(err))
    end
  end
  check.yes(raised > 1000)
  for n = 0, #bytes - 1, 7 do check.raises("value", "damaged", torch._decode, bytes:sub(1, n)) end
end)
