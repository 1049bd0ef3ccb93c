-- The notes and the messages of autograd: each script in mistakes/ makes a beginner's mistake; what
-- is said about it must name it, and the fix that is said, put into the script, must end it.
local here = arg[0]:match("^(.*)/") or "."

local function read(name)
  local file = assert(io.open(here .. "/shell/mistakes/" .. name .. ".lua"))
  local text = file:read("a")
  file:close()
  return text
end

-- Runs a script's text under its own name; notes and errors are in `err`.
local function run(text, options)
  local path = check.temp("script.lua")
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return check.tycho({path}, options)
end

-- Puts the fix in place of a part of the script that stands there once.
local function replaced(text, old, new)
  local first, last = text:find(old, 1, true)
  assert(first and not text:find(old, last + 1, true), "the script does not hold once: " .. old)
  return text:sub(1, first - 1) .. new .. text:sub(last + 1)
end

-- A mistake: the script, what must be said of it (in this order), and the fix: what stands in the
-- script, what takes its place, and the part of the message that says so.
local function mistake(name, says, old, new, advice)
  test("the mistake " .. name:gsub("_", " ") .. " is named, and the fix works", function()
    local text = read(name)
    local before = run(text)
    local from = 1
    for _, part in ipairs(says) do
      local _, last = before.err:find(part, from, true)
      if not last then check.contains(before.err, part) end
    end
    check.contains(before.err, advice)
    local after = run(replaced(text, old, new))
    check.equal(after.err, "")
    check.equal(after.status, 0)
  end)
end

mistake("03_zero_grad", {"note ACC", "sum of 2 backward passes", "script.lua:10"},
  "  loss:backward()", "  opt:zero_grad()\n  loss:backward()", "call opt:zero_grad() before backward")
mistake("07_saved_tensor_changed", {"exp", "script.lua:3", "its own result", "add_", "script.lua:4"},
  "y:add_(1)", "y = y + 1", "y = y + 1")
mistake("07_saved_tensor_changed", {"changed it in place"},
  "y:add_(1)", "y = y:clone()\ny:add_(1)", "y = y:clone()")
mistake("08_leaf_changed", {"script.lua:5", "sub_", "leaf"},
  "w:sub_(lr * w.grad)", "torch.no_grad(function() w:sub_(lr * w.grad) end)",
  "torch.no_grad(function() w:sub_(lr * w.grad) end)")
mistake("09_backward_twice", {"already used at", "script.lua:6", "exp", "script.lua:3"},
  "  loss:backward()", "  loss = w:exp():sum()\n  loss:backward()", "put the forward pass inside the loop")
mistake("09_backward_twice", {"already used"},
  "loss:backward()", "loss:backward{retain_graph=true}", "loss:backward{retain_graph=true} only if")
mistake("11_grad_of_a_result", {"note GRAD", "x.grad is nil", "computed (by to at", "script.lua:2"},
  'torch.ones(3, {requires_grad = true}):to("float64")', 'torch.tensor({1, 1, 1}, {dtype="float64", requires_grad=true})',
  'torch.tensor(v, {dtype="float64", requires_grad=true})')
mistake("11_grad_of_a_result", {"note GRAD"},
  "x:pow(2)", "x:retain_grad()\nx:pow(2)", "x:retain_grad() before backward")
mistake("12_no_graph_no_grad", {"no graph", "mul", "script.lua:3", "inside no_grad"},
  "torch.no_grad(function() return w * 2 end)", "w * 2", "move that line out of no_grad")
mistake("12_no_graph_detach", {"no graph", "detach", "script.lua:3"},
  "(w * 2):detach()", "w * 2", "leave out :detach() there")
mistake("12_no_graph_item", {"no graph", "item()", "script.lua:3", "plain number"},
  ":item()\nlocal loss = torch.tensor(total)", "\nlocal loss = total", "leave out :item() there")
mistake("12_no_graph_integers", {"no graph", "argmax", "script.lua:3", "has no gradient"},
  "class:float()", "(w * 2)", "compute the loss from what comes before it")
mistake("12_no_graph_no_leaf", {"no graph", "none of its inputs requires grad"},
  "torch.ones(3)", "torch.ones(3):requires_grad_()", "the leaves need requires_grad_()")
mistake("14_pairs_in_a_loss", {"note B2", "mse_loss", "prediction [4, 1]", "target [4]", "16 terms"},
  "(pred, target)", "(pred, target:unsqueeze(2))", "target:unsqueeze(2)")
mistake("14_pairs_in_a_loss", {"note B2"}, "(pred, target)", "(pred:squeeze(2), target)", "pred:squeeze(2)")
mistake("14_pairs_by_hand", {"note B2", "pred [4, 1] - y [4] became [4, 4]", "both sides were stretched"},
  "pred - y", "pred:squeeze(2) - y", "pred:squeeze(2) - y")
mistake("15_layer_in_a_local", {"note REG", "head (Linear) works in Net", "18 numbers", "SGD", "script.lua:16"},
  "self.body = nn.Linear(4, 8)", "self.body = nn.Linear(4, 8) self.head = head", "self.head = head")
mistake("15_layer_in_an_object", {"note REG", "self.head.layers[1] (Linear)", "18 numbers", "SGD", "script.lua:13"},
  "  self.head =", "  self.layer = nn.Linear(8, 2)\n  self.head = {} --", "self.layer = self.head.layers[1]")
mistake("17_graph_in_a_total", {"note SUM", "graph depth grew", "'total'", "script.lua:10"},
  "total + loss", "total + loss:item()", "use loss:item()")
mistake("18_training_mode", {"note MODE", "Dropout", "training mode under no_grad", "script.lua:5"},
  "torch.no_grad(", "net:eval()\ntorch.no_grad(", "net:eval()")
mistake("20_softmax_before_cross_entropy", {"note SOFT", "already applies log_softmax", "script.lua:5"},
  "F.softmax(w * 2, 2)", "w * 2", "pass the raw scores")
mistake("21_loader_workers", {"script.lua:11", "DataLoader: dataset.file is an open file, which cannot go to a worker"},
  "  self.file = io.open(arg[0])\nend\nfunction Lines:get(i)\n", "end\nfunction Lines:get(i)\n  self.file = self.file or io.open(arg[0])\n",
  "open it in worker_init_fn, or in get(i) when it is first needed")
mistake("21_stuck_worker", {"script.lua:9", "worker 2 has produced nothing for 2 s (timeout)", "script.lua:6"},
  "while i == 2 do end", "if i == 2 then i = 1 end", "it is in get(2)")
mistake("25_nan_from_sqrt", {"note NAN", "the loss is nan", "sqrt", "script.lua:3"},
  "x:sqrt()", "x:clamp{min=1e-12}:sqrt()", "clamp{min=1e-12}")

test("an assignment to elements of a leaf names no_grad as the fix", function()
  local w = torch.ones(2, {requires_grad = true})
  local err = check.raises("autograd", "leaf", function() w[1] = 5 end)
  check.contains(tostring(err), "torch.no_grad(function() w[1] = 0 end)")
  torch.no_grad(function() w[1] = 0 end)
  check.equal(w, {0, 1})
end)

test("note B2 takes the operands as they stand in the line, whatever they are, and each fix works", function()
  local head = [[
    local nn, F = torch.nn, torch.nn.functional
    local net, x, y = nn.Linear(3, 1), torch.ones(4, 3), torch.ones(4)
    local mse, data = nn.MSELoss(), {pred = net(x), y = y}
  ]]
  for line, fixed in pairs {
    ["local l = ((net(x) - y) ^ 2):mean()"] = {"net(x) - y", "net(x):squeeze(2) - y"},
    ["local l = mse(net(x), y)"] = {"(net(x), y)", "(net(x), y:unsqueeze(2))"},
    ["local l = F.l1_loss(net(x) * 2 - 1, y)"] = {"net(x) * 2 - 1", "(net(x) * 2 - 1):squeeze(2)"},
    ["local l = net(x):gt(0):eq(y:gt(0)):float():mean()"] = {"net(x):gt(0):eq(y:gt(0))", "net(x):gt(0):squeeze(2):eq(y:gt(0))"},
    ["local l = (data.y - data.pred):abs():mean()"] = {"data.y - data.pred", "data.y - data.pred:squeeze(2)"},
    ["local l = (data.y - (data.pred - 1)):abs():mean()"] = {"data.y - (data.pred - 1)", "data.y - (data.pred - 1):squeeze(2)"},
  } do
    local before = run(head .. line)
    check.contains(before.err, "note B2")
    check.contains(before.err, (fixed[2]:gsub("^%(net%(x%), (.*)%)$", "%1")))
    local after = run(head .. replaced(line, fixed[1], fixed[2]))
    check.equal(after.err, "", line)
    check.equal(after.status, 0)
  end
end)

---- Switches ---------------------------------------------------------------------------------------

local pairs_twice = [[
local pred, y = torch.ones(3, 1), torch.ones(3)
for _ = 1, 3 do local a = ((pred - y) ^ 2):mean() end
for _ = 1, 3 do local a = ((pred - y) ^ 2):mean() end
]]
local function count(text, part) return select(2, text:gsub(part, part)) end

test("a note is said once for each line of the code", function()
  check.equal(count(run(pairs_twice).err, "note B2"), 2)
end)

test("torch.notes switches one code or all, and TYCHO_NOTES=off silences a script", function()
  check.equal(run('torch.notes("B2", "off")\n' .. pairs_twice).err, "")
  check.equal(run('torch.notes("all", "off")\n' .. pairs_twice).err, "")
  check.equal(run(pairs_twice, {env = {TYCHO_NOTES = "off"}}).err, "")
  check.equal(count(run('torch.notes("b2", "on")\n' .. pairs_twice, {env = {TYCHO_NOTES = "off"}}).err, "note B2"), 2)
end)

test('the switch "error" raises, each time, with a kind', function()
  torch.notes("B2", "error")
  local ok, problem = pcall(function()
    for _ = 1, 2 do
      local err = check.raises("broadcast", "prediction [3, 1], target [3]", function()
        return torch.nn.functional.mse_loss(torch.ones(3, 1), torch.ones(3))
      end)
      check.contains(tostring(err), "B2")
    end
  end)
  torch.notes("B2", "on")
  if not ok then error(problem, 0) end
end)

test("torch.notes lists the codes, and refuses unknown ones and switches", function()
  check.equal(torch.notes().B2, "on")
  check.contains(tostring(torch.notes()), "SYNC")
  check.raises("argument", "there is no note", torch.notes, "XYZ")
  check.raises("argument", '"on", "off" or "error"', torch.notes, "B2", "maybe")
  check.equal(torch.notes("B2", "off"), "on")
  check.equal(torch.notes("B2", "on"), "off")
end)

test("every text of the catalogue can be filled, and every code has a kind and a sentence", function()
  local notes = require "torch.notes"
  local any = setmetatable({}, {__index = function(_, key) return "<" .. key .. ">" end})
  for code, entry in pairs(notes.catalogue) do
    check.yes(entry.kind and entry.doc and (entry.once == "line" or entry.once == "run" or entry.once == "op"), code)
    for form in pairs(entry.texts) do
      local lines = notes.text(code, form, any)
      check.equal(#lines, #entry.texts[form])
    end
  end
end)

test("opt:step takes {accumulated = n}, and names what it does not take", function()
  local w = torch.ones(2, {requires_grad = true})
  local opt = torch.optim.SGD({w}, {lr = 0.1})
  w:sum():backward()
  w:sum():backward()
  opt:step{accumulated = 2}
  check.close(w, {0.8, 0.8}, 1e-6, "two passes of gradient 1")
  check.raises("argument", "closure, accumulated", opt.step, opt, {accumulate = 2})
  check.raises("argument", "an integer from 1", opt.step, opt, {accumulated = 0})
end)

---- Correct programs stay silent ----------------------------------------------------------------------

local function silent(sentence, text)
  test("no note about " .. sentence, function()
    local result = run("local nn, F, optim = torch.nn, torch.nn.functional, torch.optim\ntorch.manual_seed(1)\n" .. text)
    check.equal(result.err, "")
    check.equal(result.status, 0)
  end)
end

silent("outer products, tables of sums and pairwise distances", [[
  local n = 6
  local row, column = torch.arange(n) + 1.0, (torch.arange(n) + 1.0):view(n, 1)
  local w = (column * row):requires_grad_()
  print((column * row).shape, (column + row).shape)
  local weights = (column * row) / row:sum()
  print((column / row).shape, (row:view(1, n) - column):abs():mean():item())   -- [1, n] with [n, 1] is meant
  local other = torch.arange(6) * 0.5
  local distance = (column - other):abs()
  print((torch.ones(n, n) + distance):mean():item())
  print((row:unsqueeze(2) - row):abs():mean():item())                           -- all pairs of one tensor
  local k = torch.exp(-(column * row))
  print(k:mean():item(), weights:softmax(2):sum():item())
]])
silent("losses over all pairs that say so, and distances in several dimensions", [[
  local net = nn.Linear(3, 1)
  local opt = optim.SGD(net:parameters(), {lr = 0.1})
  for _ = 1, 3 do
    local pos, neg = net(torch.randn(6, 3)):squeeze(2), net(torch.randn(6, 3)):squeeze(2)
    local loss = (neg - pos:unsqueeze(2) + 1):clamp{min = 0}:mean()
    opt:zero_grad()
    loss:backward()
    opt:step()
  end
  local x, y = torch.randn(6, 2), torch.randn(6, 2)
  local d = (x:unsqueeze(2) - y:unsqueeze(1)):pow(2):sum(3)
  print(d:mean():item(), (x:unsqueeze(1) - x:unsqueeze(2)):abs():mean():item())
  local labels = torch.randint(1, 3, {6})
  local same = labels:view(6, 1):eq(labels:view(1, 6)):float()
  print(same:mean():item(), labels:view(6, 1):eq(labels):float():sum():item())
]])
silent("attention, masks, positions and residuals", [[
  local n, d = 6, 6
  local q, k, v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
  local position = torch.arange(n):float():view(n, 1)
  local rate = torch.exp(torch.arange(0, d, 2):float() * -0.3)
  local table_ = torch.cat({(position * rate):sin(), (position * rate):cos()}, 2)
  local relative = (position - torch.arange(n):float()):abs()
  local bias = torch.zeros(n, 1):requires_grad_()
  local x = torch.randn(2, n, d) + table_
  local scores = q(x):matmul(k(x):transpose(-1, -2)) / d ^ 0.5 - relative * 0.1 + bias
  scores = scores:masked_fill(torch.ones(n, n):tril():eq(0), -math.huge)
  local out = x + scores:softmax(-1):matmul(v(x))
  out = F.layer_norm(out, {d})
  local loss = F.cross_entropy(out:view(-1, d), torch.randint(1, d + 1, {2 * n}))
  loss:backward()
]])
silent("a variational loss, a policy gradient and a gradient penalty", [[
  local net = nn.Linear(4, 8)
  local opt = optim.Adam(net:parameters())
  for _ = 1, 3 do
    local x = torch.randn(5, 4)
    local mean, log_var = net(x):chunk(2, 2)
    local z = mean + torch.randn(5, 4) * torch.exp(log_var * 0.5)
    local kl = -0.5 * (log_var - mean:pow(2) - log_var:exp() + 1):sum()
    local loss = F.mse_loss(z, x, {reduction = "sum"}) + kl
    opt:zero_grad()
    loss:backward()
    opt:step()
    local log_p = F.log_softmax(net(x), 2)
    local action = torch.multinomial(log_p:detach():exp(), 1)
    local reward = torch.randn(5)
    local baseline = reward:mean()
    opt:zero_grad();
    (-(log_p:gather(2, action):squeeze(2) * (reward - baseline)):mean()):backward()
    opt:step()
    local input = torch.randn(5, 4):requires_grad_()
    local g = torch.autograd.grad(net(input):sum(), {input}, {create_graph = true})
    opt:zero_grad()
    local penalty = (g:norm{dim = 2} - 1):pow(2):mean()
    penalty:backward()
    opt:step()
    print(input.grad == nil, penalty:item())
  end
]])
silent("columns and rows that meet whole matrices", [[
  local x = torch.randn(5, 5, {requires_grad = true})
  local y = (x - x:mean(2, true)) / x:std(2, true, {keepdim = true})
  y:pow(2):mean():backward()
  local b = torch.randn(5, {requires_grad = true});
  (x.data - b):pow(2):mean():backward()
]])
silent("momentum by hand in the gradients themselves, and clipping", [[
  local w = torch.ones(3, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.1})
  for _ = 1, 5 do
    if w.grad then w.grad:mul_(0.9) end
    w:pow(2):sum():backward()
    opt:step()
  end
  for _ = 1, 5 do
    opt:zero_grad()
    w:pow(2):sum():backward()
    w.grad:mul_(0.5)
    opt:step()
  end
]])
test("a forgotten zero_grad is noted also where gradients are clipped", function()
  check.contains(run([[
    local w = torch.ones(3, {requires_grad = true})
    local opt = torch.optim.SGD({w}, {lr = 0.1})
    for _ = 1, 3 do
      w:pow(2):sum():backward()
      w.grad:mul_(0.5)
      opt:step()
    end
  ]]).err, "note ACC")
end)
silent("gradient accumulation, with and without saying so", [[
  local net = nn.Linear(3, 1)
  local opt = optim.Adam(net:parameters())
  for _ = 1, 10 do
    opt:zero_grad()
    for _ = 1, 4 do (net(torch.randn(2, 3)):pow(2):mean() / 4):backward() end
    opt:step()
  end
  opt:zero_grad()
  for _ = 1, 10 do
    for _ = 1, 2 do net(torch.randn(2, 3)):pow(2):mean():backward() end
    opt:step{accumulated = 2}
    opt:zero_grad{set_to_none = false}
  end
  for _ = 1, 5 do
    net(torch.randn(2, 3)):pow(2):mean():backward()
    opt:step()
    for _, p in ipairs(net:parameters()) do p.grad:zero_() end
  end
]])
silent("two optimisers, as in adversarial training", [[
  local G = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
  local D = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 1))
  local optG, optD = optim.Adam(G:parameters()), optim.Adam(D:parameters())
  local bce = F.binary_cross_entropy_with_logits
  for _ = 1, 40 do
    local real = torch.randn(16, 2)
    local fake = torch.no_grad(function() return G(torch.randn(16, 2)) end)
    optD:zero_grad()
    local real_loss = bce(D(real), torch.ones(16, 1))
    real_loss:backward()
    local fake_loss = bce(D(fake), torch.zeros(16, 1))
    fake_loss:backward()
    optD:step()
    optG:zero_grad()
    local loss = bce(D(G(torch.randn(16, 2))), torch.ones(16, 1))
    loss:backward()
    optG:step()
    local shown = real_loss:item() + fake_loss:item() + loss:item()
  end
]])
silent("a recurrent state that is detached, and losses summed over time", [[
  local cell, out = nn.Linear(6, 4), nn.Linear(4, 1)
  local parameters = cell:parameters()
  for _, p in ipairs(out:parameters()) do parameters[#parameters + 1] = p end
  local opt = optim.SGD(parameters, {lr = 0.01})
  local h, shown = torch.zeros(3, 4), 0
  for _ = 1, 70 do
    h = h:detach()
    local loss = 0
    for _ = 1, 60 do
      h = torch.tanh(cell(torch.cat({torch.randn(3, 2), h}, 2)))
      loss = loss + out(h):pow(2):mean()
    end
    opt:zero_grad()
    loss:backward()
    opt:step()
    shown = shown + loss:item()
  end
]])
silent("training and evaluation with dropout, batch norm and a running loss", [[
  local net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
  local opt = optim.SGD(net:parameters(), {lr = 0.05, momentum = 0.9})
  local x, y = torch.randn(30, 4), torch.randint(1, 4, {30})
  for _ = 1, 40 do
    net:train()
    local total = 0
    for first = 1, 30, 10 do
      local loss = F.cross_entropy(net(x[{{first, first + 9}}]), y[{{first, first + 9}}])
      opt:zero_grad()
      loss:backward()
      opt:step()
      total = total + loss:item()
    end
    net:eval()
    local right = torch.no_grad(function() return net(x):argmax(2):eq(y):float():mean():item() end)
    local table_of = torch.no_grad(function() return F.softmax(net(x), 2):tolist() end)
  end
]])
silent("item() once a step, gradients of leaves before any backward, float64 throughout", [[
  local w = torch.ones(3, {requires_grad = true, dtype = "float64"})
  print(w.grad, w.data.grad)
  local k, total = torch.ones(3, {dtype = "float64"}), 0
  for _ = 1, 1500 do total = total + (w * k):sum():item() end
  local x = torch.ones(3, {requires_grad = true});
  (x * 2.0 + torch.tensor(1.5, {dtype = "float64"})):sum():backward()
  print(((x * 2) - torch.ones(3, {dtype = "float64"})):abs():max():item())
  local losses = torch.zeros(5)
  for i = 1, 5 do print(losses[i]:item()) end
]])
test("a model left in training mode is noted at the end of a script that reads no number", function()
  local err = run([[
    local net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    local run = coroutine.wrap(function() return torch.no_grad(function() return net(torch.ones(3, 2)) end) end)
    run()
  ]]).err
  check.contains(err, "note MODE: BatchNorm1d ran in training mode")
end)
test("gradients on a device, and item() there in a loop, are noted", function()
  local err = run([[
    torch.cuda.simulate(1)
    local x = torch.ones(3, {requires_grad = true}):to("cuda")
    x:sum():backward()
    print(x.grad)
    local s = 0
    for _ = 1, 1100 do s = s + x:sum():item() end
  ]]).err
  check.contains(err, 'torch.tensor(v, {device="cuda:0", requires_grad=true})')
  check.contains(err, "note SYNC: item() has run 1001 times")
  check.contains(err, "script.lua:6")
end)
test("elements picked one by one are noted once, on the line of the loop", function()
  local err = run([[
    local x, s = torch.ones(5000), 0
    for i = 1, 5000 do s = s + x[i]:item() end
  ]]).err
  check.equal(select(2, err:gsub("note SYNC", "")), 1)
  check.contains(err, "x:tolist()")
end)
test("a float64 constant in a float32 computation is noted with what converts it", function()
  local err = run([[
    local w, k = torch.ones(3, {requires_grad = true}), torch.ones(3, {dtype = "float64"})
    local loss = ((w * 2) * k):sum()
    loss:backward()
  ]]).err
  check.contains(err, "note F64: mul: float64 k [3]")
  check.contains(err, "k:float()")
end)
test("totals in fields are noted by their names, whichever comes first", function()
  local err = run([[
    local w, state = torch.ones(3, {requires_grad = true}), {total = 0}
    for _ = 1, 100 do
      local loss = (w * 2):exp():mean()
      state.total = state.total + loss / 3
      loss:backward()
    end
  ]]).err
  check.contains(err, "'state.total'")
  check.contains(err, "loss:item()")
end)

silent("distillation: probabilities as targets, log_softmax with nll_loss", [[
  local x = torch.randn(4, 3, {requires_grad = true})
  F.cross_entropy(x, F.softmax(torch.randn(4, 3), 2)):backward()
  F.nll_loss(F.log_softmax(x * 2, 2), torch.tensor{1, 2, 3, 1}):backward()
  F.kl_div(F.log_softmax(x, 2), F.softmax(torch.randn(4, 3), 2), {reduction = "batchmean"}):backward()
]])
silent("masks of minus infinity, and a loss that is finite", [[
  local scores = torch.randn(3, 3, {requires_grad = true})
  local mask = torch.ones(3, 3):tril():eq(0)
  local p = scores:masked_fill(mask, -math.huge):softmax(2)
  p:pow(2):sum():backward()
]])
silent("weights changed under no_grad, averages of weights, frozen layers", [[
  local w = torch.ones(3, {requires_grad = true})
  local mean = w:detach():clone()
  for _ = 1, 5 do
    w:pow(2):sum():backward()
    torch.no_grad(function()
      w:sub_(0.1 * w.grad)
      w.grad = nil
      mean:mul_(0.9):add_(w * 0.1)
    end)
  end
  local frozen = nn.Linear(3, 3):requires_grad_(false)
  local head = nn.Linear(3, 1)
  local opt = optim.SGD(head:parameters(), {lr = 0.1})
  for _ = 1, 5 do
    opt:zero_grad()
    head(frozen(torch.ones(2, 3))):sum():backward()
    opt:step()
  end
]])

test("a note about an operation is said once for it, wherever it stands, and ?cuda lists what it is about", function()
  local r = check.tycho({"-e", [[
    local notes = require "torch.notes"
    for i = 1, 2 do
      for _, op in ipairs {"inv", "svd"} do notes.from_engine("DEV", "op", {op = op, device = "cuda:0", at = ""}, "a.lua", i) end
    end
    torch.notes("DEV", "error")
    print(pcall(notes.from_engine, "DEV", "op", {op = "inv", device = "cuda:0", at = ""}, "a.lua", 3))]]})
  check.equal(select(2, r.err:gsub("note DEV", "")), 2)
  check.contains(r.err, "note DEV: inv has no kernel on cuda:0: it runs on the CPU, on copies of its arguments (a.lua:1)\n   the result is right")
  check.contains(r.out, "false\t")
  local page = check.tycho({"-i", "--clean"}, {stdin = "?cuda\n"}).out
  check.contains(page, "tycho doctor")
  check.yes(page:find("on copies, and note DEV says so once", 1, true) or page:find("Every operation runs there", 1, true)
    or page:find("was built without cuda", 1, true))
end)

test("one element of a matrix beside what has the shape of a range of its rows is noticed once, and named in errors", function()
  local made = "local p, q = torch.randn(20, 6), torch.zeros(5, 6)\n"
  local function says(code) return check.tycho({"-e", made .. code}).err end
  check.equal(says "for i = 1, 2 do local _ = p[{1, 5}] - q end\nlocal _ = p[{2, 6}] * q",
    "note RANGE: p[{1, 5}] is one element of [20, 6], and meets [5, 6], the shape of rows 1 to 5 ((command line):2)\n   a range of rows: p[{{1, 5}}]\n")
  check.contains(says "local r = p[{2, 6}]\nlocal l = torch.nn.functional.mse_loss(r, q)", "note RANGE: [{2, 6}] is one element")
  for _, fine in ipairs {"q - p[{5, 1}]", "q - p[{1, 4}]", "q - p[3][5]:clone()", "q - p:mean()", "p[{{1, 5}}] - q", "q[1] - p[{1, 5}]", "torch.randn(5, 5) - p[{1, 5}]"} do
    check.equal(says("local _ = " .. fine), "", fine)
  end
end)

test("an error about one element that was meant as a range offers the range", function()
  local p, q = torch.randn(20, 6), torch.zeros(5, 6)
  local function report(f) return require("torch.explain").report(select(2, pcall(f))) end
  check.contains(report(function() return p[{1, 5}]:sum(2) end), "try: p[{{1, 5}}]:sum(2)  -- a range of rows; p[{1, 5}] is one element")
  check.contains(report(function() return torch.cat({p[{1, 5}], p[{2, 6}]}) end), "try: torch.cat({p[{{1, 5}}], p[{{2, 6}}]})")
  check.contains(report(function() p[{1, 5}] = torch.zeros(5, 6) end), "try: p[{{1, 5}}]  -- a range")
  check.contains(report(function() for _ in ipairs(p[{1, 5}]) do end end), "try: ipairs(p[{{1, 5}}]:rows())")
  check.contains(report(function() local x = p[{1, 5}] return x:matmul(q) end), "try: x = p[{{1, 5}}]")
  local range = "%-%- a range of rows"
  check.yes(not report(function() return p[{5, 1}]:sum(2) end):find(range))
end)

test("a mask as a condition of a script is noticed where the line tells that it is one", function()
  local path = check.temp "conditions.lua"
  local function says(code)
    local f <close> = io.open(path, "w")
    f:write("local x = torch.zeros(2)\nlocal box = {any = function() return false end}\n" .. code .. "\n")
    f:close()
    return check.tycho({path}).err
  end
  check.equal(says "if x:gt(0):any() then x = 1 end", "note IF: x:gt(0):any() is a tensor, and a tensor is always true in Lua (" .. path .. ":3)\n   its elements decide with: x:gt(0):any():item()\n")
  check.contains(says "while not torch.isnan(x):all() do break end", "torch.isnan(x):all():item()")
  for _, fine in ipairs {"if x:gt(0):any():item() then x = 1 end", "if box:any() then x = 1 end", "-- if x:gt(0):any() then", "local y = x:gt(0):any()"} do check.equal(says(fine), "", fine) end
end)
