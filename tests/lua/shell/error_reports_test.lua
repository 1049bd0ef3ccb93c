-- How errors look at the prompt and at the end of a script.
local function session(lines) return check.tycho({"--clean"}, {stdin = table.concat(lines, "\n") .. "\n"}) end
local function script(text)
  local path = check.temp("script.lua")
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return check.tycho {path}
end

test("an error at the prompt names operands, sizes, the place and what would fit", function()
  local r = session {"x = torch.ones(32, 784)", "W1, b1 = torch.ones(256, 784), torch.ones(256)", "h = x:matmul(W1) + b1"}
  check.equal(r.err, [[
error SHAPE-1: matmul needs equal inner sizes
   x    f32 [32, 784]      dim 2 is 784
   W1   f32 [256, 784]     dim 1 is 256
   [3] h = x:matmul(W1) + b1
           ^^^^^^^^^^^^
   would fit: x:matmul(W1:t())  -> [32, 256]
   %explain SHAPE-1 shows the rule on your sizes
   in the entry at line 3 of the input
]])
end)

test("shapes that do not broadcast stand under each other", function()
  local r = session {"a, bb = torch.ones(8, 1, 6), torch.ones(7, 5)", "a + bb"}
  check.contains(r.err, [[
   a    f32 [8, 1, 6]     8 1 6
   bb   f32 [7, 5]          7 5
                          . . ^
]])
end)

test("the line of an entry of several lines is told", function()
  local r = session {"for i = 1, 2 do\n  y = torch.ones(2, 3):view(i, 5)\nend"}
  check.contains(r.err, "[1] line 2 y = torch.ones(2, 3):view(i, 5)")
  check.contains(r.err, "^^^^^^^^^^^^^^^^^^^^^^^^^^^")
end)

test("%explain tells the rule of the last error, and of any code", function()
  local r = session {"pcall(error, 1)", "%explain SHAPE-2", "%explain"}
  check.contains(r.out, "laid under each other from the right")
  check.contains(r.out, "%explain CODE")
  check.contains(session {"%explain nothing"}.err, "SHAPE-1")
end)

test("a script ends with the report, its place first, and the user's functions", function()
  local r = script [[
local function inner(a, b)
  local c = a:matmul(b)
  return c
end
local function outer() local y = inner(torch.ones(2, 3), torch.ones(2, 3)) return y end
outer()
]]
  check.equal(r.status, 1)
  check.contains(r.err, "script.lua:2: error SHAPE-1: matmul needs equal inner sizes\n   a   f32 [2, 3]     dim 2 is 3\n")
  check.contains(r.err, "script.lua:2 local c = a:matmul(b)\n" .. (" "):rep(26) .. "^^^^^^^^^^^\n")
  check.contains(r.err, "would fit: a:matmul(b:t())  -> [2, 2]")
  check.contains(r.err, "script.lua:5 in outer")
  check.no(r.err:find("[C]", 1, true))
  check.lacks(r.err, "torch/")
end)

test("the layer that fails is named from the outermost module", function()
  local r = script [[
local nn = torch.nn
local Block = nn.class("Block")
function Block:init() self.layers = {nn.ReLU(), nn.Linear(10, 5)} end
function Block:forward(x)
  for _, layer in ipairs(self.layers) do x = layer(x) end
  return x
end
local net = nn.Sequential(nn.Linear(4, 9), Block())
print(select(2, pcall(net, torch.ones(2, 4))).message)
print(select(2, pcall(net[2], torch.ones(2, 4))).message)
]]
  check.contains(r.out, "linear '1.layers.1': input has 9 features")
  check.contains(r.out, "linear 'layers.1': input has 4 features")
end)

test("a table that a user raises is shown as a table, a text as it is", function()
  check.contains(session {"error{code = 3}"}.err, "{code = 3}")
  check.contains(session {"error('mine', 0)"}.err, "mine")
  check.contains(script("error('no luck')").err, "script.lua:1: no luck")
end)

test("an error from a loop that catches keeps no tensor", function()
  local r = script [[
collectgarbage() collectgarbage()
local before = torch.memory_allocated and torch.memory_allocated() or 0
local errors = {}
for i = 1, 50 do
  local big = torch.ones(1000, i)
  local _, e = pcall(function() return big:matmul(big) end)
  local _ = tostring(e), e.fixes
  errors[i] = e
end
collectgarbage() collectgarbage()
print((torch.memory_allocated and torch.memory_allocated() or 0) - before <= 0, #errors)
]]
  check.equal(r.out, "true\t50\n", r.err)
end)

test("what fails stands over its marks, behind tabs, Chinese text and in long lines", function()
  local explain = require "torch.explain"
  local function marks(line, options)
    torch._chunks["(marks)"] = line
    local _, err = pcall(load(line, "=(marks)"))
    local lines = {}
    for each in explain.report(err, options):gmatch("[^\n]+") do lines[#lines + 1] = each end
    for k = #lines, 1, -1 do
      if lines[k]:find("^ +%^+$") then return lines[k - 1], lines[k], err end
    end
  end
  local source, under = marks("local name\t= '\u{5F20}\u{91CF}' return torch.ones(2) + torch.ones(3)")
  check.contains(source, "\u{5F20}")
  check.equal(under, (" "):rep(3 + #"local name = 'zhli' return ") .. ("^"):rep(29))
  local long = "local a, b = torch.ones(2), torch.ones(3) " .. ("local c = 1 "):rep(30) .. "return a + b " .. ("--"):rep(40)
  source, under = marks(long, {width = 42})
  check.yes(#source <= 42)
  check.equal(source:sub(under:find("%^+")), "a + b")
end)

test("what a whole network of torch's layers takes is tried at the prompt", function()
  local r = session {"net = nn.Sequential(nn.Linear(784, 10), nn.ReLU(), nn.Dropout(0.5), nn.Linear(10, 2))",
    "x = torch.ones(32, 28, 28)", "y = net(x)"}
  check.contains(r.err, "linear '0': input has 28 features")
  check.contains(r.err, "would fit: net(x:flatten(2))  -> [32, 2]")
  r = session {"net = nn.Sequential(nn.Linear(784, 10), nn.Linear(11, 2))", "x = torch.ones(32, 784)", "y = net(x)"}
  check.contains(r.err, "linear '1': input has 10 features")
  check.lacks(r.err, "would fit")
end)

test("a failed assignment names its value", function()
  local r = session {"x = torch.ones(3)", "x[1] = torch.ones(5)"}
  check.contains(r.err, "the value   f32 [5]")
end)
