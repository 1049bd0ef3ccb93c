--# title   An autograd of your own, in 60 lines
--# see     backward autograd

--# say     You know all of it by now: notes, the chain rule, shares that add up. In this lesson you build
--#         it, for plain numbers, in plain Lua, and in the end a network learns with it. It begins with a
--#         note, a node: its value, the nodes it was made of, and how fast it changes with each of them.
Node = {}
Node.__index = Node
function made(value, inputs, slopes)
  return setmetatable({value = value, inputs = inputs, slopes = slopes}, Node)
end
function leaf(value) return made(value, {}, {}) end
a = leaf(2)
b = leaf(3)
--# predict #a.inputs --> 0
--# wrong   2: That is its value. What was it made of?
--# hint    A leaf was made of nothing.

--# say     A sum, with its note. If one input becomes larger by 1, so does the sum: both slopes are 1.
function add(a, b) return made(a.value + b.value, {a, b}, {1, 1}) end
c = add(a, b)
--# predict c.value --> 5
--# hint    2 + 3.

--# say     Now the product.
--# task    Write mul(a, b): the node of a * b.
--# spec    mul(a, b) return made(a.value * b.value, {a, b}, {b.value, a.value})
--# try     i in -4..4
--# try     j in 5..9
--# try     a = leaf(i)
--# try     b = leaf(j)
--# wrong   function mul(a, b) return made(a.value * b.value, {a, b}, {a.value, b.value}) end: If a becomes
--#         larger by 1, the product becomes larger by b.
--# wrong   function mul(a, b) return made(a.value * b.value, {a, b}, {1, 1}) end: These are the slopes of a sum.
--# wrong   function mul(a, b) return made(a * b, {a, b}, {b, a}) end: a and b are nodes. Their numbers are
--#         a.value and b.value.
--# hint    Like `add`. How fast does a * b change with a? With b?
--# answer
function mul(a, b) return made(a.value * b.value, {a, b}, {b.value, a.value}) end
--# why     So d is (2 + 3) * 2:
d = mul(c, a)
print(d.value)

--# say     Lua calls `__add` and `__mul` when nodes meet `+` and `*`. A plain number becomes a leaf first.
--#         With these lines, nodes are written like numbers.
function node_of(x) return type(x) == "number" and leaf(x) or x end
Node.__add = function(a, b) return add(node_of(a), node_of(b)) end
Node.__mul = function(a, b) return mul(node_of(a), node_of(b)) end
Node.__unm = function(a) return a * -1 end
Node.__sub = function(a, b) return a + node_of(b) * -1 end
--# predict ((a + 1) * b - 4).value --> 5
--# wrong   9: 4 are taken away at the end.
--# hint    (2 + 1) * 3 - 4.

--# say     Going back, no node may hand on its gradient before it has got all shares. So each node must
--#         come after all nodes that use it. The order is found from the end: visit the inputs first, then
--#         note the node itself; each node once.
--#           e = a * b;  f = e + a       from the inputs on: a, b, e, f
e = a * b
f = e + a
--# predict #f.inputs --> 2
--# hint    e and a.

--# say     Write it: a function that calls itself.
--# task    Write order(y): the list of all nodes that y was made of, and y last. A node's inputs come
--#         first, in their order, then the node; each node stands there once.
--# spec    order(y)
--#         local list, seen = {}, {}
--#         local function visit(node)
--#           if seen[node] then return end
--#           seen[node] = true
--#           for _, input in ipairs(node.inputs) do visit(input) end
--#           list[#list + 1] = node
--#         end
--#         visit(y)
--#         return list
--# try     i in 2..5
--# try     x = leaf(i)
--# try     z = leaf(-i)
--# try     y = (x * z + x) * (x + z) - x * x
--# wrong   function order(y) local list = {} local function visit(n) for _, i in ipairs(n.inputs) do
--#         visit(i) end list[#list + 1] = n end visit(y) return list end: x is used several times, and
--#         stands there several times. Remember what was seen.
--# wrong   function order(y) local list, seen = {}, {} local function visit(n) if seen[n] then return end
--#         seen[n] = true list[#list + 1] = n for _, i in ipairs(n.inputs) do visit(i) end end visit(y)
--#         return list end: Here the node comes before its inputs.
--# hint    A table `list` for the nodes, a table `seen` for those that were visited, and a local function
--#         visit(node).
--# hint    visit: if seen, return; note it as seen; visit the inputs; append the node.
--# answer
function order(y)
  local list, seen = {}, {}
  local function visit(node)
    if seen[node] then return end
    seen[node] = true
    for _, input in ipairs(node.inputs) do visit(input) end
    list[#list + 1] = node
  end
  visit(y)
  return list
end
--# why     Four nodes made f:
print(#order(f))

--# say     The heart. Begin with gradient 1 for y; go through the order from its end; each node hands to
--#         each input its own gradient times the slope; what arrives is added up.
--# task    Write gradients(y): a table whose keys are the nodes, and the values their gradients:
--#         `gradients(y)[a]` is how fast y changes with a.
--# spec    gradients(y)
--#         local g = {[y] = 1}
--#         local list = order(y)
--#         for i = #list, 1, -1 do
--#           local node = list[i]
--#           for k, input in ipairs(node.inputs) do g[input] = (g[input] or 0) + g[node] * node.slopes[k] end
--#         end
--#         return g
--# try     i in 2..5
--# try     x = leaf(i)
--# try     z = leaf(i - 7)
--# try     y = (x * z + x) * (x + z) - x * x
--# wrong   function gradients(y) local g, list = {[y] = 1}, order(y) for i = #list, 1, -1 do local n =
--#         list[i] for k, input in ipairs(n.inputs) do g[input] = g[n] * n.slopes[k] end end return g end:
--#         A node that is used twice gets two shares. Add them up.
--# wrong   function gradients(y) local g, list = {[y] = 1}, order(y) for i = #list, 1, -1 do local n =
--#         list[i] for k, input in ipairs(n.inputs) do g[input] = (g[input] or 0) + n.slopes[k] end end
--#         return g end: What comes from above is missing: g[node].
--# wrong   function gradients(y) local g, list = {[y] = 1}, order(y) for i = 1, #list do local n = list[i]
--#         for k, input in ipairs(n.inputs) do g[input] = (g[input] or 0) + (g[n] or 0) * n.slopes[k] end
--#         end return g end: From the end: y is last in the list.
--# hint    `local g = {[y] = 1}`, `local list = order(y)`, and a loop from #list down to 1.
--# hint    For input k of a node: `g[input] = (g[input] or 0) + g[node] * node.slopes[k]`.
--# why     These few lines are `backward`. Ours handles tensors, is written in C++, and does just the same.
--# answer
function gradients(y)
  local g = {[y] = 1}
  local list = order(y)
  for i = #list, 1, -1 do
    local node = list[i]
    for k, input in ipairs(node.inputs) do
      g[input] = (g[input] or 0) + g[node] * node.slopes[k]
    end
  end
  return g
end

--# say     Does it work? f was a * b + a, with a = 2 and b = 3.
--# predict gradients(f)[a] --> 4
--# wrong   3: a is used twice: there is a second way, with 1.
--# hint    3 through the product, 1 straight.

--# say     Against ours: one function, given nodes first, then tensors.
function formula(x, z) return (x * z + x) * (x + z) - x * x * 3 end
x, z = leaf(1.5), leaf(-0.5)
mine = gradients(formula(x, z))
s, t = torch.tensor(1.5, {requires_grad = true}), torch.tensor(-0.5, {requires_grad = true})
theirs = formula(s, t)
theirs:backward()
print(mine[x], s.grad:item())
--# predict mine[z] == t.grad:item() --> true
--# wrong   false: Compare `mine[z]` and `t.grad:item()` yourself.
--# hint    The same rule, the same numbers.
print(mine[z], t.grad:item())

--# say     Networks need a bend: `tanh` goes from -1 to 1, and its slope is 1 - y * y, with y its own value.
--# task    Write bend(a): the node of tanh(a). In Lua: `local e = math.exp(2 * a.value)`, `local y = (e -
--#         1) / (e + 1)`.
--# spec    bend(a)
--#         local y = torch.tanh(torch.tensor(a.value + 0.0, {dtype = "float64"})):item()
--#         return made(y, {a}, {1 - y * y})
--# try     i in -4..4
--# try     a = leaf(i / 2)
--# wrong   function bend(a) local e = math.exp(2 * a.value) local y = (e - 1) / (e + 1) return made(y, {a},
--#         {1 - a.value * a.value}) end: y is the result, not the input.
--# wrong   function bend(a) local e = math.exp(2 * a.value) return (e - 1) / (e + 1) end: That is the
--#         number. A node is wanted, with its input and its slope.
--# hint    One input, one slope: `made(y, {a}, {..})`.
--# answer
function bend(a)
  local e = math.exp(2 * a.value)
  local y = (e - 1) / (e + 1)
  return made(y, {a}, {1 - y * y})
end

--# say     A network of your own: 2 inputs, 4 neurons that bend, 1 output. Weights are leaves.
function network(seed)
  math.randomseed(seed)
  local w = {}
  for i = 1, 17 do w[i] = leaf(math.random() * 2 - 1) end
  return w
end
function answer(w, p, q)
  local out = w[17]
  for k = 1, 4 do out = out + w[12 + k] * bend(w[3 * k - 2] * p + w[3 * k - 1] * q + w[3 * k]) end
  return out
end
w = network(3)
--# predict #w --> 17
--# wrong   13: 4 neurons with 2 weights and a bias are 12; the output has 4 weights and a bias.
--# hint    4 times (2 + 1), and 4 + 1.
print(answer(w, 1, 0).value)

--# say     It shall learn "one or the other, not both": the answer for (0, 1) and (1, 0) is 1, for (0, 0)
--#         and (1, 1) it is 0. No straight line separates these.
--# task    Write learn(seed, steps, lr): a `network(seed)`, then so many steps. In each, the loss is the
--#         sum over the four cases of (answer - truth) squared; then every w[i].value becomes smaller by lr
--#         times its gradient. Return the loss, a number, of the last step, from before its change.
--# spec    learn(seed, steps, lr)
--#         local w, v, last = network(seed), {}, nil
--#         for i = 1, 17 do v[i] = torch.tensor(w[i].value, {dtype = "float64"}) end
--#         for n = 1, steps do
--#           local loss = 0
--#           for i = 1, 17 do v[i] = v[i]:detach():requires_grad_() end
--#           for _, c in ipairs{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}} do
--#             local out = v[17]
--#             for k = 1, 4 do out = out + v[12 + k] * torch.tanh(v[3 * k - 2] * c[1] + v[3 * k - 1] * c[2] + v[3 * k]) end
--#             loss = loss + (out - c[3]) ^ 2
--#           end
--#           loss:backward()
--#           for i = 1, 17 do v[i] = v[i]:detach() - lr * v[i].grad end
--#           last = loss:item()
--#         end
--#         return last
--# try     seed in 1..5
--# try     steps in 1..4
--# try     lr = 0.1
--# wrong   function learn(seed, steps, lr) local w, last = network(seed) for n = 1, steps do local loss =
--#         leaf(0) for _, c in ipairs{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}} do local e = answer(w,
--#         c[1], c[2]) - c[3] loss = loss + e * e end local g = gradients(loss) for i = 1, 17 do w[i].value
--#         = w[i].value + lr * g[w[i]] end last = loss.value end return last end: Against the slope: minus.
--# wrong   function learn(seed, steps, lr) local w, last = network(seed) for n = 1, steps do local loss =
--#         leaf(0) for _, c in ipairs{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}} do local e = answer(w,
--#         c[1], c[2]) - c[3] loss = loss + e end local g = gradients(loss) for i = 1, 17 do w[i].value =
--#         w[i].value - lr * g[w[i]] end last = loss.value end return last end: The differences must be
--#         squared: e * e.
--# hint    `local loss = leaf(0)`; for each case `local e = answer(w, c[1], c[2]) - c[3]`, and `loss = loss
--#         + e * e`.
--# hint    `local g = gradients(loss)`, then `w[i].value = w[i].value - lr * g[w[i]]` for i from 1 to 17.
--# hint    The cases: `for _, c in ipairs{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}} do`.
--# answer
function learn(seed, steps, lr)
  local w, last = network(seed), nil
  for n = 1, steps do
    local loss = leaf(0)
    for _, c in ipairs{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}} do
      local e = answer(w, c[1], c[2]) - c[3]
      loss = loss + e * e
    end
    local g = gradients(loss)
    for i = 1, 17 do w[i].value = w[i].value - lr * g[w[i]] end
    last = loss.value
  end
  trained = w
  return last
end
--# why     200 steps, with nothing but your own lines:
print(learn(3, 200, 0.1))

--# say     Does it know the rule now?
--# predict math.floor(learn(3, 200, 0.1) * 100) --> 0
--# ask     The loss after 200 steps, in whole hundredths?
--# wrong   1: It learned better than that.
--# hint    It learned it.
--# why     A network that learned, without any library. Everything else, tensors, C++, GPUs, is only speed:
--#         ours does the same some thousand times faster.
