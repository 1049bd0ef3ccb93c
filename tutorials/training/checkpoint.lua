--# title   Saving, and going on
--# see     save load
--# explains STATE-1 IO-0 STOP-0

--# say     What a network has learned is its numbers. `state_dict()` is the table of them, by name.
--# new     manual_seed nn
torch.manual_seed(0)
net = torch.nn.Linear(2, 3)
print(net:state_dict())
--# predict net:state_dict().weight.shape --> [3, 2]
--# wrong   2 3: A row for each output.
--# hint    A row for each of the 3 outputs.

--# say     `torch.save(value, path)` writes tables, tensors, numbers and texts; `torch.load(path)` reads
--#         them.
--# new     save load eq
path = os.tmpname()
torch.save({weights = net:state_dict(), epoch = 7}, path)
saved = torch.load(path)
--# predict saved.epoch --> 7
--# wrong   1: What was saved comes back as it was.
--# hint    It comes back as it was.
print(saved.weights.weight:eq(net.weight):all():item())

--# say     The layers themselves are code, and stand in your script. So one makes the network again, with
--#         other random numbers, and loads the state into it.
again = torch.nn.Linear(2, 3)
x = torch.tensor{{1.0, 2.0}}
print(net(x), again(x))
again:load_state_dict(saved.weights)
--# predict again(x):eq(net(x)):all():item() --> true
--# wrong   false: It has the same numbers now.
--# hint    The same numbers, the same answers.

--# say     The code must fit the numbers. A network of another shape?
--# predict torch.nn.Linear(3, 3):load_state_dict(saved.weights) --> error
--# wrong   3 3: The weight is [3, 2] in the file, and [3, 3] in the network.
--# hint    [3, 2] into [3, 3]?
--# why     The error names what is missing, what is too much, and which shapes differ.

--# say     Names matter, too. The layers of a Sequential have numbers for names; those of a class have their
--#         fields' names. A state of the one does not fit the other:
Named = torch.nn.class("Named")
function Named:init() self.line = torch.nn.Linear(2, 3) end
--# predict Named():load_state_dict(saved.weights) --> error
--# wrong   3 2: The file has "weight", the network "line.weight".
--# hint    In this network the weight is called "line.weight".

--# say     Copy what fits under other names.
--# task    Write renamed(state, prefix): a new table with the tensors of `state`, each under prefix, a
--#         point, and its old name: "weight" becomes "line.weight" for the prefix "line".
--# spec    renamed(state, prefix)
--#         local out = {}
--#         for name, value in pairs(state) do out[("%s.%s"):format(prefix, name)] = value end
--#         return out
--# try     k in 1..3
--# try     prefix = ({"line", "head", "a.b"})[k]
--# try     state = {weight = torch.randn(2, 2), bias = torch.randn(2)}
--# wrong   function renamed(state, prefix) local out = {} for name, value in pairs(state) do out[name .. "." ..
--#         prefix] = value end return out end: The prefix stands before the name.
--# wrong   function renamed(state, prefix) local out = {} for name, value in pairs(state) do out[prefix ..
--#         name] = value end return out end: A point stands between them.
--# hint    `for name, value in pairs(state) do .. end` goes through all.
--# hint    `out[prefix .. "." .. name] = value`.
--# answer
function renamed(state, prefix)
  local out = {}
  for name, value in pairs(state) do out[prefix .. "." .. name] = value end
  return out
end
named = Named()
named:load_state_dict(renamed(saved.weights, "line"))
print(named.line(x):eq(net(x)):all():item())

--# say     A state is no copy: its tensors are the network's own numbers. Who keeps "the best so far" in a
--#         variable, and trains on:
--# new     no_grad add_
best = net:state_dict()
before = best.bias[1]:item()
torch.no_grad(function() net.bias:add_(10) end)
--# predict best.bias[1]:item() == before --> false
--# wrong   true: `best.bias` is the bias of the network, which has changed.
--# hint    Is `best` a copy?
--# why     `torch.save` writes a copy; `clone()` makes one.

--# say     Make copies, so that what happens afterwards does not matter to them.
--# new     clone detach tensor tolist zero_
--# task    Write taken(state): a new table with a copy of each tensor of `state`, under its name. Then, as
--#         proof that they are copies, fill all tensors of `state` with 0: `value:zero_()` inside
--#         `torch.no_grad(function() .. end)`. Return the copies.
--# spec    taken(state)
--#         local out = {}
--#         for name, value in pairs(state) do out[name] = torch.tensor(value:tolist()) end
--#         return out
--# try     n in 2..4
--# try     state = {weight = torch.randn(n, 2), bias = torch.randn(n)}
--# wrong   function taken(state) torch.no_grad(function() for _, value in pairs(state) do value:zero_() end
--#         end) return state end: That is the same table, with zeros.
--# wrong   function taken(state) local out = {} for name, value in pairs(state) do out[name] = value end
--#         torch.no_grad(function() for _, value in pairs(state) do value:zero_() end end) return out end: A
--#         new table, but the same tensors in it: zeros, too.
--# hint    `out[name] = value:detach():clone()`, for all of them.
--# hint    Then `for _, value in pairs(state) do value:zero_() end` in no_grad.
--# answer
function taken(state)
  local out = {}
  for name, value in pairs(state) do out[name] = value:detach():clone() end
  torch.no_grad(function()
    for _, value in pairs(state) do value:zero_() end
  end)
  return out
end
best = taken(net:state_dict())
print(best.bias, net.bias)

--# say     To go on with a training, the network's numbers are not enough. An optimiser with momentum
--#         remembers its last step, Adam the size of slopes: `opt:state_dict()` holds that. And the number
--#         of the epoch, and the random numbers, `torch.get_rng_state()`, where data is mixed. A training that
--#         goes down p * p from 4:
--# new     optim copy_
function begin()
  local p = torch.tensor(4.0, {requires_grad = true})
  return {p = p, opt = torch.optim.SGD({p}, {lr = 0.1, momentum = 0.9})}
end
function run(t, steps)
  for i = 1, steps do
    t.opt:zero_grad()
    local loss = t.p * t.p
    loss:backward()
    t.opt:step()
  end
  return t.p:item()
end
--# predict run(begin(), 1) --> 3.2
--# wrong   -4: The rate is 0.1: a tenth of the slope, 8.
--# wrong   3.6: The slope of p * p at 4 is 8.
--# hint    4 - 0.1 * 8.

--# say     20 steps in one go; or 10, then p alone into a new training, and 10 more.
whole = run(begin(), 20)
first = begin()
run(first, 10)
second = begin()
torch.no_grad(function() second.p:copy_(first.p) end)
--# predict run(second, 10) == whole --> false
--# ask     Is it the same? (true or false)
--# wrong   true: p has come over, but the ball begins to roll from rest: its momentum is lost.
--# hint    Is p all that the first run knew after 10 steps?
--# why     A training that is continued so makes a dent in its curve, each time.

--# say     So everything goes into the file.
--# task    Write interrupted(a, b): a training from begin(); a steps of it; its p and its optimiser's state
--#         saved to `path` and loaded; a new training from begin() that takes over both; b more steps of
--#         that. Return p, the number that the last `run` gives.
--# spec    interrupted(a, b) return run(begin(), a + b)
--# try     a in 2..6
--# try     b in 7..9
--# wrong   function interrupted(a, b) local t = begin() run(t, a) torch.save({p = t.p:detach()}, path) local
--#         s, u = torch.load(path), begin() torch.no_grad(function() u.p:copy_(s.p) end) return run(u, b)
--#         end: The momentum is lost: save `t.opt:state_dict()`, too.
--# wrong   function interrupted(a, b) local t = begin() run(t, a) torch.save({p = t.p:detach(), opt =
--#         t.opt:state_dict()}, path) local s, u = torch.load(path), begin()
--#         u.opt:load_state_dict(s.opt) return run(u, b) end: The optimiser goes on, but from the old p: copy
--#         s.p into u.p.
--# hint    `torch.save({p = t.p:detach(), opt = t.opt:state_dict()}, path)`, then `local s =
--#         torch.load(path)`.
--# hint    `local u = begin()`, `torch.no_grad(function() u.p:copy_(s.p) end)`,
--#         `u.opt:load_state_dict(s.opt)`, `return run(u, b)`.
--# answer
function interrupted(a, b)
  local t = begin()
  run(t, a)
  torch.save({p = t.p:detach(), opt = t.opt:state_dict()}, path)
  local s, u = torch.load(path), begin()
  torch.no_grad(function() u.p:copy_(s.p) end)
  u.opt:load_state_dict(s.opt)
  return run(u, b)
end
--# predict interrupted(10, 10) == whole --> true
--# wrong   false: Bit for bit: all that the training knew was in the file.
--# hint    All that it knew was in the file.

--# say     What a file is worth shows when it is damaged. Cut one in half:
file = io.open(path, "rb")
bytes = file:read("a")
file:close()
file = io.open(path, "wb")
file:write(string.sub(bytes, 1, #bytes // 2))
file:close()
--# predict torch.load(path) --> error
--# wrong   10: Half a file is no file.
--# hint    Can half of it be trusted?
--# why     A sentence, and no half-loaded network. torch.save writes a new file and renames it when it is
--#         whole, so that a crash in the middle leaves the old one.

--# say     Something real: a network that reads digits, trained, saved, and used by "another program" that
--#         knows only the layers and the file.
--# new     utils flatten argmax float
local set = torch.utils.data.digits()
rows, labels = set.tensors[1]:flatten(2), set.tensors[2]
F = torch.nn.functional
function layers()
  return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
end
--# predict layers()(rows["1:5"]).shape --> [5, 10]
--# wrong   5 32: That is in the middle.
--# hint    Five pictures, ten scores each.

--# say     The one program trains it, and saves its state.
trained = layers()
opt = torch.optim.Adam(trained:parameters(), {lr = 0.01})
for i = 1, 60 do
  opt:zero_grad()
  local loss = F.cross_entropy(trained(rows["1:1000"]), labels["1:1000"])
  loss:backward()
  opt:step()
end
torch.save(trained:state_dict(), path)
--# task    Write read(x): the digits 0 .. 9, an int64 tensor [n], of pictures x [n, 64], by new
--#         `layers()` with the numbers in the file at `path`. (Class 1 is the digit 0.)
--# spec    read(x)
--#         local s = torch.load(path)
--#         local h = (x:matmul(s["0.weight"]:t()) + s["0.bias"]):relu()
--#         return (h:matmul(s["2.weight"]:t()) + s["2.bias"]):argmax(2) - 1
--# try     n in 5..40
--# try     x = rows[torch.randint(1001, 1798, {n})]
--# wrong   function read(x) local net = layers() net:load_state_dict(torch.load(path)) return
--#         net(x):argmax(2) end: These are the classes, 1 to 10. The digit is one less.
--# wrong   function read(x) local net = layers() return net(x):argmax(2) - 1 end: This network has
--#         random numbers: load_state_dict.
--# hint    `local net = layers()`, `net:load_state_dict(torch.load(path))`.
--# hint    `net(x):argmax(2) - 1`.
--# answer
function read(x)
  local net = layers()
  net:load_state_dict(torch.load(path))
  return net(x):argmax(2) - 1
end
--# why     Read from the file, a few digits and the truth, and the share of right ones:
read_now, truth = read(rows["1001:"]), labels["1001:"] - 1
print(read_now["1:12"])
print(truth["1:12"])
print(read_now:eq(truth):float():mean())
os.remove(path)
