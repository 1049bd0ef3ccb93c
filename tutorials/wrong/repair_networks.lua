--# title   What is wrong here? Networks

--# say     A network works, and only half of it is trained: one layer is in a variable of the program instead of
--#         the network. A Linear has two parameters, weight and bias. How many does this network know?
--# new     nn optim
nn, optim = torch.nn, torch.optim
head = nn.Linear(8, 2)
Net = nn.class("Net")
function Net:init() self.body = nn.Linear(4, 8) end
function Net:forward(x) return head(self.body(x)) end
--# predict #Net():parameters() --> 2
--# wrong   4: It uses both layers, but it knows only what is kept in self.
--# wrong   1: A Linear has a weight and a bias.
--# hint    What is kept in self?
--# why     The optimiser is given these two, and head stays what it was. Note REG says so in training.

--# say     Repair it: what is kept in self, or in a list in self, is known. The function counts the numbers that
--#         training will change.
--# new     numel
--# task    Repair trained(sizes): it makes a chain of Linear layers, sizes[1] -> sizes[2] -> .., as a network, and
--#         gives how many numbers its parameters have in all (`#sizes - 1` layers).
--# spec    trained(sizes)
--#         local n = 0
--#         for i = 1, #sizes - 1 do n = n + (sizes[i] + 1) * sizes[i + 1] end
--#         return n
--# try     a in 1..5
--# try     b in 2..6
--# try     sizes = a > 2 and {a, b, 3, a + b} or {b, a, 4}
--# starter
--#         function trained(sizes)
--#           local layers = {}
--#           local Chain = nn.class("Chain")
--#           function Chain:init()
--#             for i = 1, #sizes - 1 do layers[i] = nn.Linear(sizes[i], sizes[i + 1]) end
--#           end
--#           local n = 0
--#           for _, p in ipairs(Chain():parameters()) do n = n + p:numel() end
--#           return n
--#         end
--# wrong   function trained(sizes) local Chain = nn.class("Chain") function Chain:init() self.layer =
--#         nn.Linear(sizes[1], sizes[2]) end local n = 0 for _, p in ipairs(Chain():parameters()) do n = n + p:numel()
--#         end return n end: That is the first layer alone.
--# hint    Put the list into self: `self.layers = {}`.
--# hint    `self.layers[i] = nn.Linear(sizes[i], sizes[i + 1])`, in the loop.
--# answer
function trained(sizes)
  local Chain = nn.class("Chain")
  function Chain:init()
    self.layers = {}
    for i = 1, #sizes - 1 do self.layers[i] = nn.Linear(sizes[i], sizes[i + 1]) end
  end
  local n = 0
  for _, p in ipairs(Chain():parameters()) do n = n + p:numel() end
  return n
end

--# say     And a network with nothing in it, for an optimiser?
--# predict optim.SGD(nn.Sequential():parameters(), {lr = 0.1}) --> error
--# wrong   0: It would train nothing, which nobody wants: it says so.
--# hint    What would it train?
--# why     MODULE-1: the list of parameters is empty, and where layers were seen that no network knows.

--# say     Dropout sets numbers to 0 at random while training, and lets all pass when the network is used. Which it is,
--#         `net:train()` and `net:eval()` say; a new network trains. Before a test somebody wrote only no_grad.
--# new     ones no_grad eq sum item
drop = nn.Dropout(0.5)
function zeros_in(x) return drop(x):eq(0):sum():item() end
--# predict torch.no_grad(function() return zeros_in(torch.ones(1000)) > 300 end) --> true
--# wrong   false: no_grad says that no graph is wanted. It does not say that this is a test.
--# hint    Has anybody told the layer that training is over?
--# why     About 500 of 1000 are 0, and the test is as bad as the network never will be. Note MODE.

--# say     After `drop:eval()`?
drop:eval()
--# predict zeros_in(torch.ones(1000)) --> 0
--# wrong   500: In a test all pass.
--# hint    In a test all pass.

--# say     Repair the next: the answer for one picture depends on the others in the batch. BatchNorm takes mean and
--#         spread of the batch while training, and what it has learned in a test. It must be put back to training
--#         afterwards.
--# new     randn
--# task    Repair answer(net, x): the network's output for x in a test, without a graph; and as a second result
--#         net.training, which is afterwards what it was before. (It is tried with two layers, one that trains and one
--#         that does not.)
--# spec    answer(net, x)
--#         local was = net.training
--#         net:eval()
--#         local out = torch.no_grad(function() return net(x) end)
--#         net:train(was)
--#         return out, was
--# starter function answer(net, x) return torch.no_grad(function() return net(x) end), net.training end
--# try     n in 2..4
--# try     k in 0..1
--# try     net = k == 0 and nn.Dropout(0.5) or nn.Dropout(0.9):eval()
--# try     x = torch.randn(n, 3)
--# wrong   function answer(net, x) net:eval() return torch.no_grad(function() return net(x) end), net.training end: It
--#         does not train any more afterwards, if it did before.
--# wrong   function answer(net, x) net:eval() local out = torch.no_grad(function() return net(x) end) net:train() return
--#         out, net.training end: Now it trains, even if it did not before.
--# hint    `local was = net.training`, then net:eval().
--# hint    `net:train(was)` puts it back. Return the output and `net.training`.
--# answer
function answer(net, x)
  local was = net.training
  net:eval()
  local out = torch.no_grad(function() return net(x) end)
  net:train(was)
  return out, net.training
end

--# say     33 rows in batches of 8, through a BatchNorm that trains. How many rows has the last batch?
--# predict 33 % 8 --> 1
--# wrong   8: 4 times 8 is 32.
--# hint    33 = 4 * 8 + ?

--# say     So what does the BatchNorm say to it?
norm = nn.BatchNorm1d(3)
--# predict norm(torch.ones(1, 3)).shape --> error
--# wrong   1 3: One value has no spread: every channel would be 0 / 0.
--# hint    What is the spread of one value?
--# why     After hours of training, in the last batch of the first epoch. `DataLoader{drop_last = true}` leaves it out.

--# say     Write the number of rows that each epoch really uses then.
--# task    Write used(n, batch): how many of n rows are seen with drop_last.
--# spec    used(n, batch)
--#         local seen = 0
--#         while seen + batch <= n do seen = seen + batch end
--#         return seen
--# try     n in 8..40
--# try     batch in 2..7
--# wrong   function used(n, batch) return n // batch end: That is the number of batches.
--# wrong   function used(n, batch) return n - 1 end: All of the last batch is left out, unless it is full.
--# hint    Full batches only.
--# hint    `n // batch` of them.
--# answer
function used(n, batch) return n // batch * batch end

--# say     Saved weights are loaded into a network. They come from a program that had it wrapped in DataParallel: every
--#         name begins with "module.".
--# new     zeros
fresh = nn.Linear(2, 1)
saved = {["module.weight"] = torch.ones(1, 2), ["module.bias"] = torch.zeros(1)}
--# predict fresh:load_state_dict(saved) --> error
--# wrong   true: weight is missing, and module.weight is not known.
--# hint    Does the network know a module.weight?
--# why     `strict = false` would make the message go away, and load nothing at all.

--# say     Something real: the cure by hand.
--# task    Repair stripped(state): a table with the same tensors, whose names have lost a "module." at their beginning, if
--#         they have one. It is given as a list of names and a list of numbers: stripped(names, values) gives a table.
--# spec    stripped(names, values)
--#         local out = {}
--#         for i, name in ipairs(names) do
--#           if name:sub(1, 7) == "module." then name = name:sub(8) end
--#           out[name] = values[i]
--#         end
--#         return out
--# try     k in 1..4
--# try     names = {"module.fc.weight", "bias", "module.module." .. k, "my_module.w"}
--# try     values = {k, k + 1, k + 2, k + 3}
--# starter function stripped(names, values) local out = {} for i, name in ipairs(names) do out[name] = values[i] end return
--#         out end
--# wrong   function stripped(names, values) local out = {} for i, name in ipairs(names) do out[(name:gsub("module%.", ""))] =
--#         values[i] end return out end: Only at the beginning, and once: `my_module.w` is a name of its own.
--# wrong   function stripped(names, values) local out = {} for i, name in ipairs(names) do out[name:sub(8)] = values[i] end
--#         return out end: Only where it is there.
--# hint    `name:sub(1, 7) == "module."` tells.
--# hint    In a pattern `^` is the beginning: `(name:gsub("^module%.", ""))`.
--# answer
function stripped(names, values)
  local out = {}
  for i, name in ipairs(names) do out[(name:gsub("^module%.", ""))] = values[i] end
  return out
end

--# say     Here `net:load_state_dict(saved, {strip = "module."})` does it.
--# new     equal
fresh:load_state_dict(saved, {strip = "module."})
--# predict fresh(torch.ones(1, 2)):item() --> 2
--# wrong   1: Two weights of 1, and a bias of 0.
--# hint    1 * 1 + 1 * 1 + 0.
print(fresh.weight)
