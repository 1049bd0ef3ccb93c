-- %graph, %check and %nan: graphs as trees, gradients against differences, where a nan began.

local home = check.temp("home")
os.execute("mkdir -p " .. check.quote(home))
local function session(entries)
  return check.tycho({"-i"}, {stdin = table.concat(entries, "\n") .. "\n", env = {HOME = home, XDG_STATE_HOME = home, TERM = "dumb"}})
end

local tanh = {
  "x, w, b = torch.tensor(2.0, {requires_grad=true}), torch.tensor(0.5, {requires_grad=true}), torch.tensor(-1.0, {requires_grad=true})",
  "y = (w * x + b):tanh()",
}
local function after(first, ...)
  local list = table.move(first, 1, #first, 1, {})
  for _, entry in ipairs {...} do list[#list + 1] = entry end
  return list
end

test("%graph draws the tree with the user's names, values and entries", function()
  check.equal(session(after(tanh, "%graph y")).out, [[
y 0           tanh   [2]
└ + 0
  ├ * 1
  │ ├ w 0.5   leaf [1]
  │ └ x 2     leaf [1]
  └ b -1      leaf [1]
]])
end)

test("%graph y grad shows the gradients, also after backward has freed the graph", function()
  for _, entries in ipairs {after(tanh, "%graph y grad"), after(tanh, "y:backward()", "%graph y grad", "print(w.grad:item(), x.grad:item())")} do
    local out = session(entries).out
    check.contains(out, "y 0 | 1 ")
    check.contains(out, "w 0.5 | 2 ")
    check.contains(out, "x 2 | 0.5 ")
    check.contains(out, "b -1 | 1 ")
  end
end)

test("%graph changes no gradient", function()
  local out = session(after(tanh, "%graph y grad", "w.grad == nil", "y:backward()", "%graph y grad", "w.grad:item()")).out
  check.contains(out, "true\n")
  check.contains(out, "2.0")
end)

test("%graph of networks shows shapes and norms, of deep graphs a part", function()
  local out = session({
    "net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())", "loss = net(torch.ones(4, 3)):mean()", "%graph loss",
    "x = torch.ones(2, {requires_grad=true}); z = x", "for i = 1, 5000 do z = z * 1.001 end", "%graph z", "%graph z grad",
  }).out
  check.contains(out, "net.0.weight [2, 3] norm ")
  check.contains(out, "linear [4, 2] norm")
  check.contains(out, ".. and 49%d%d more operations")
end)

test("%graph y svg writes a drawing", function()
  local path = check.temp("graph.svg")
  check.contains(session(after(tanh, "%graph y svg " .. path)).out, "wrote 3 operations")
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  check.contains(text, "^<svg xmlns=")
  check.contains(text, ">y = tanh<")
  check.contains(text, ">w<")
  check.contains(text, "</svg>\n$")
  local _, boxes = text:gsub("rx=", "")
  check.equal(boxes, 6)
end)

test("%graph of what has no graph says why", function()
  check.contains(session({"a = torch.ones(2, {requires_grad=true})", "%graph a"}).err, "this is a leaf")
  check.contains(session({"%graph torch.ones(2)"}).err, "nothing it comes from requires grad")
  check.contains(session({"%graph 3"}).err, "a tensor is wanted")
end)

test("%check agrees with right gradients, of modules too", function()
  local out = session({
    "X = torch.randn(4, 3)", "%check function(x) return (x * x):sum() end, {X}", "%check torch.sin, X",
    "net = nn.Linear(3, 2)", "%check net, {X}",
  }).out
  local _, agreed = out:gsub("gradients agree: 12 elements", "")
  check.equal(agreed, 3)
  check.contains(out, "X[{")
end)

test("%check finds a wrong gradient and names the worst element", function()
  local r = session({"x = torch.tensor{1.0, 2.0, 30.0}", "%check function(v) return v:detach() * v end, {x}"})
  check.equal(r.status, 1)
  check.contains(r.out, "gradients are WRONG: 3 elements")
  check.contains(r.out, "x%[%d%] worst: gradient")
end)

test("%nan finds the operation, its line and its inputs, forward", function()
  local out = session({"a = torch.tensor({1.0, 0.0, 4.0}, {requires_grad=true})", "loss = (a:log() * 2):sum()", "%nan loss", "%nan (a:log() * 2):sum()"}).out
  check.contains(out, "log made the first: 1 inf of 3 values\n   [2]  loss = (a:log() * 2):sum()\n   a  f32 [3]  0 .. 4, 1 zero")
  check.contains(out, "   [4]  (a:log() * 2):sum()\n   input 1  f32 [3]")
end)

test("%nan finds what goes wrong only backward", function()
  local out = session({"a = torch.tensor({1.0, 0.0}, {requires_grad=true})", "loss = a:sqrt():sum()", "%nan loss"}).out
  check.contains(out, "backward of sqrt made the first: the gradient of its input a has 1 inf of 2 values")
end)

test("%nan names a leaf that is bad itself, and says when all is well", function()
  local out = session({
    "a = torch.tensor({1.0, 0/0}, {requires_grad=true})", "loss = a:sum()", "%nan loss",
    "c = torch.ones(2, {requires_grad=true})", "good = (c * 2):sum()", "%nan good", "%nan torch.ones(2)",
  }).out
  check.contains(out, "a itself holds 1 nan of 2 values")
  check.contains(out, "no nan and no inf in 2 operations, forward or backward")
  check.contains(out, "no nan and no inf\n")
end)

test("%nan of a graph that backward has freed asks for the code", function()
  local out = session({
    "x, w = torch.tensor{1.0, 0.0}, torch.ones(2, {requires_grad=true})", "loss = (w * x):log():sum()", "loss:backward()", "%nan loss",
    "%nan (w * x):log():sum()",
  }).out
  check.contains(out, "give the code instead of the variable")
  check.contains(out, "log made the first: 1 inf of 2 values")
end)

test("a look at an unfolded graph is what was computed", function()
  local x, w = torch.randn(5, 3), torch.randn(4, 3, {requires_grad = true})
  local h = torch.nn.functional.linear(x, w):relu()
  local loss = (torch.cat({h, h * 2}, 1) / 7):mean()
  local u = torch._unfold(loss, {values = true, gradients = true})
  check.yes(u.complete and u.has_grads)
  check.equal(#u.nodes, 6)
  check.close(u.nodes[1].values[1], torch.nn.functional.linear(x, w):detach())
  loss:backward()
  check.close(u.leaves[1].grads[1], w.grad)
  check.equal(torch._unfold(x, {}), nil)
end)

test("%backstep walks from the result back, with what each operation hands on", function()
  check.equal(session(after(tanh, "%backstep y")).out, [[
y = 0, seed 1
1/3 y = tanh  [2]  value 0  gradient 1
    1 x 1 = 1 -> add
2/3 add  [2]  value 0  gradient 1
    1 x 1 = 1 -> mul
    1 x 1 = 1 -> b.grad
3/3 mul  [2]  value 1  gradient 1
    2 x 1 = 2 -> w.grad
    0.5 x 1 = 0.5 -> x.grad
b.grad = 1
w.grad = 2
x.grad = 0.5
]])
  local out = session(after(tanh, "z = y * y", "%backstep z")).out
  check.contains(out, "a part of 0 -> y")  -- two of mul's inputs are one tensor
  check.contains(session{"%backstep 3"}.err, "a tensor is wanted, not a number")
  check.contains(session{"W = torch.ones({2, 2}, {requires_grad=true})", "l = (W * W):sum()", "%backstep l"}.out, "norm 4 [2, 2]")
end)

test("%sweep plots code over values of a variable, tells the slope, and leaves all as it was", function()
  local out = session{"k = 3", "%sweep k ^ 2 - 4 * k, k, -1, 6", "k", "%sweep k * 2, k, {1, 2, 5}", "_"}.out
  check.contains(out, "now k = 3: -3, slope 2; least -3.999 at 1.975")
  check.contains(out, "\n3\n")
  check.contains(out, "now k = 3: 6, slope 2; least 2 at 1")
  check.contains(out, "f64 [3]  2 4 10")
  out = session{"W = torch.tensor({{1.0, 2.0}}, {requires_grad=true})", "loss = (W * W):sum()", "%sweep loss, W[{1, 2}], -1, 1, 5", "W", "loss:backward()", "W.grad"}.out
  check.contains(out, "now W[{1, 2}] = 2: 5, slope 4; least 1 at 0")
  check.contains(out, " 1  2\n")
  check.contains(out, " 2  4\n")
  out = session{"net = nn.Linear(1, 1) net.weight.data:fill_(2) net.bias.data:zero_()", "x = torch.ones(1, 1)", "%sweep (net(x) - net.bias):sum(), net.weight[{1, 1}], 0, 4, 3", "net.weight"}.out
  check.contains(out, "= 2: 2, slope 1")
  check.contains(out, "\n 2")
  for _, entry in ipairs {"%sweep", "%sweep k", "%sweep k, 3, 1, 2", "%sweep k, k, 1, 2, 1"} do check.contains(session{"k = 1", entry}.err, "usage", entry) end
  local r = session{"k = 1", "%sweep error('no'), k, 1, 2"}
  check.contains(r.err, "no")
end)

test("%why tells why a gradient is nil, from what the graphs and the session know", function()
  local function why(...)
    local r = session{...}
    return ((r.out .. r.err):gsub("\n +", " "))  -- lines are folded at the window
  end
  local x = "x = torch.zeros(3, {requires_grad=true})"
  check.contains(why(x, "%why x.grad"), "no variable leads to it through a graph")
  check.contains(why(x, "y = (x * 2):sum()", "%why x.grad"), "y leads to x y:backward() fills it")
  check.contains(why(x, "h = x:exp()", "%why h.grad"), "h was computed (by exp at [2]): only leaves")
  check.contains(why(x, "y = x:exp():sum() y:backward() x.grad = nil", "%why x.grad"), "it was dropped since")
  check.contains(why(x, "y = x:exp():sum() y:backward()", "%why x.grad"), "x.grad is there: f32 [3], 1 .. 1")
  check.contains(why(x, "d = x:detach()", "%why d.grad"), "detach at [2]")
  check.contains(why(x, "d = torch.no_grad(function() return x * 2 end)", "%why d.grad"), "no_grad")
  check.contains(why("c = torch.ones(2)", "%why c.grad"), "c does not require grad, made in [1]: c = torch.ones(2)")
  check.contains(why("c = torch.ones(2)", "%why c.grad == nil"), "c does not require grad")
  check.contains(why("i = torch.arange(3)", "%why i.grad"), "only floating point")
  check.contains(why("k = 3", "%why k.grad"), "k is no tensor, but 3")
end)

test("%why tells where a nan began, why a tensor lies where it does, and where time goes", function()
  local function why(...)
    local r = session{...}
    return ((r.out .. r.err):gsub("\n +", " "))  -- lines are folded at the window
  end
  local x = "x = torch.zeros(3, {requires_grad=true})"
  check.contains(why(x, "l = (x - 1):sqrt():sum()", "%why l is nan"), "sqrt made the first: 3 nan of 3 values")
  check.contains(why(x, "l = (x - 1):sqrt():sum()", "%why l"), "sqrt made the first")
  check.contains(why("%why 0/0"), "is nan, a Lua number")
  check.contains(why(x, "%why x.device"), "made in [1]: x = torch.zeros(3, {requires_grad=true}); tensors are made on the cpu unless")
  check.contains(why(x, "h = x + 1", "%why h:device()"), "add at [2] computed it there, where its operands lie: x")
  check.contains(why("c = torch.ones(2)", "%why for i = 1, 300 do c:sum():item() end is slow"), "item() in a loop waits")
  check.contains(why("c = torch.ones(2, {dtype='float64'})", "d = c + c", "%why d is slow"), "c is f64")
  check.contains(why("n = nil", "%why n"), "n is nil: [1] set it so")
  check.contains(why("t = {loss = 1}", "%why t.los"), "there is loss")
  check.contains(why("%why"), "usage")
end)
