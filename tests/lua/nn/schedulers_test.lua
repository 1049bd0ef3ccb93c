-- Schedules and averages of weights beyond what the vectors cover.
local optim, nn = torch.optim, torch.nn
local lr = optim.lr_scheduler

local function adam(rate) return optim.Adam({torch.zeros(1, {requires_grad = true})}, {lr = rate or 0.1}) end
local function sgd(rate) return optim.SGD({torch.zeros(1, {requires_grad = true})}, {lr = rate or 0.1, momentum = 0.9}) end

-- The rates before each of n steps.
local function rates(opt, scheduler, n)
  local out = {}
  for i = 1, n do
    out[i] = opt.param_groups[1].lr
    opt:step()
    scheduler:step()
  end
  return out
end

test("arguments may be positions or names", function()
  local a, b = sgd(), sgd()
  check.equal(rates(a, lr.StepLR(a, 2, 0.5), 4), rates(b, lr.StepLR(b, {step_size = 2, gamma = 0.5}), 4))
  check.close(a.param_groups[1].lr, 0.025)
end)

test("a schedule's rates, groups and epochs can be asked for", function()
  local opt = optim.SGD({{params = {torch.zeros(1, {requires_grad = true})}}, {params = {torch.zeros(1, {requires_grad = true})}, lr = 1.0}}, {lr = 0.5})
  local s = lr.ExponentialLR(opt, 0.5)
  check.equal(s:get_last_lr(), {0.5, 1.0})
  opt:step()
  s:step()
  check.equal(s:get_last_lr(), {0.25, 0.5})
  check.equal(s.last_epoch, 1)
  check.equal(s.base_lrs, {0.5, 1.0})
  check.equal(opt.param_groups[2].initial_lr, 1.0)
end)

test("LambdaLR takes a function for each group", function()
  local opt = optim.SGD({{params = {torch.zeros(1, {requires_grad = true})}}, {params = {torch.zeros(1, {requires_grad = true})}}}, {lr = 1.0})
  local s = lr.LambdaLR(opt, {lr_lambda = {function(e) return 0.5 ^ e end, function() return 1 end}})
  opt:step()
  s:step()
  check.equal(s:get_last_lr(), {0.5, 1.0})
  check.equal(s:state_dict().lr_lambda, nil)
end)

test("OneCycleLR cycles Adam's first beta", function()
  local opt = adam()
  local s = lr.OneCycleLR(opt, {max_lr = 1.0, total_steps = 10})
  check.close(opt.param_groups[1].betas[1], 0.95)
  for _ = 1, 3 do
    opt:step()
    s:step()
  end
  check.yes(opt.param_groups[1].betas[1] < 0.95)
  check.equal(opt.param_groups[1].betas[2], 0.999)
  for _ = 1, 6 do
    opt:step()
    s:step()
  end
  check.close(opt.param_groups[1].lr, 1.0 / 25 / 1e4)
  opt:step()
  s:step()
  check.raises("value", "step 11 of a schedule of 10 steps", s.step, s)
end)

test("a step to an epoch uses the formula", function()
  local opt = sgd()
  local s = lr.CosineAnnealingLR(opt, {T_max = 10})
  opt:step()
  s:step(5)
  check.close(opt.param_groups[1].lr, 0.05)
  local w = lr.CosineAnnealingWarmRestarts(sgd(), {T_0 = 4})
  w.optimizer:step()
  w:step(2.0)
  check.close(w:get_last_lr()[1], 0.05)
  w:step(5.0)
  check.close(w:get_last_lr()[1], 0.1 * (1 + math.cos(math.pi / 4)) / 2)
end)

test("ReduceLROnPlateau watches a tensor or a number, up or down, and its state goes on", function()
  local opt = sgd()
  local s = lr.ReduceLROnPlateau(opt, "max", {patience = 1, factor = 0.5})
  s:step(torch.tensor(0.9))
  s:step(0.8)
  local other = lr.ReduceLROnPlateau(opt, {mode = "max", patience = 1, factor = 0.5})
  other:load_state_dict(s:state_dict())
  other:step(0.8)
  check.close(opt.param_groups[1].lr, 0.05)
  check.raises("argument", "wants the number it watches", s.step, s)
end)

test("wrong arguments are errors that name what is right", function()
  check.raises("argument", "the first argument is the optimiser", lr.StepLR, {}, 1)
  check.raises("argument", 'wants the argument "step_size"', lr.StepLR, sgd())
  check.raises("argument", 'no argument "step"', lr.StepLR, sgd(), {step = 1})
  check.raises("value", "step_size must be an integer from 1", lr.StepLR, sgd(), 0)
  check.raises("value", "must be a function", lr.LambdaLR, sgd(), {lr_lambda = 0.5})
  check.raises("value", "no momentum to cycle", lr.CyclicLR, optim.Adagrad({torch.zeros(1, {requires_grad = true})}), {base_lr = 0.1, max_lr = 1})
  check.raises("argument", "wants total_steps", lr.OneCycleLR, sgd(), {max_lr = 1.0})
  check.raises("value", "2 schedules want 1 milestones", function()
    local opt = sgd()
    lr.SequentialLR(opt, {schedulers = {lr.ConstantLR(opt), lr.ConstantLR(opt)}, milestones = {}})
  end)
  check.raises("value", "belongs to another optimiser", lr.SequentialLR, sgd(), {lr.ConstantLR(sgd())}, {})
end)

test("a schedule that steps before the optimiser is remarked on", function()
  local r = check.tycho({"-e", [[
    local w = torch.zeros(1, {requires_grad = true})
    local opt = torch.optim.SGD({w}, {lr = 0.1})
    local s = torch.optim.lr_scheduler.StepLR(opt, 1)
    s:step()
    opt:step()
  ]]})
  check.contains(r.err, "note LRS")
  check.contains(r.err, "call opt:step() first")
  r = check.tycho({"-e", [[
    local w = torch.zeros(1, {requires_grad = true})
    local opt = torch.optim.SGD({w}, {lr = 0.1})
    local s = torch.optim.lr_scheduler.StepLR(opt, 1)
    opt:step()
    s:step()
  ]]})
  check.equal(r.err, "")
end)

test("SWA averages weights equally, EMA lets the past fade", function()
  local net = nn.Linear(1, 1, {bias = false})
  local swa = optim.swa_utils.AveragedModel(net)
  local ema = optim.swa_utils.AveragedModel(net, {multi_avg_fn = optim.swa_utils.get_ema_multi_avg_fn(0.5)})
  local own = optim.swa_utils.AveragedModel(net, {avg_fn = optim.swa_utils.get_ema_avg_fn(0.5)})
  for _, v in ipairs{1.0, 2.0, 6.0} do
    torch.no_grad(function() net.weight:fill_(v) end)
    swa:update_parameters(net)
    ema:update_parameters(net)
    own:update_parameters(net)
  end
  check.close(swa.module.weight:item(), 3)
  check.close(ema.module.weight:item(), 3.75)
  check.close(own.module.weight:item(), 3.75)
  check.close(swa(torch.ones(1, 1)):item(), 3)
  check.equal(swa.n_averaged:item(), 3)
  check.yes(swa:state_dict()["module.weight"])
  check.yes(swa:state_dict().n_averaged)
end)

test("update_bn gives batch norm the statistics of all batches", function()
  torch.manual_seed(0)
  local net = nn.Sequential(nn.BatchNorm1d(3))
  local x = torch.randn(12, 3) * 2 + 1
  local loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), {batch_size = 12})
  net:eval()
  optim.swa_utils.update_bn(loader, net)
  check.close(net[1].running_mean, x:mean(1), 1e-5)
  check.close(net[1].running_var, x:var(1), 1e-5)
  check.equal(net[1].momentum, 0.1)
  check.no(net.training)
end)

test("SWALR goes to its rate and stays", function()
  local opt = sgd(1.0)
  local s = optim.swa_utils.SWALR(opt, {swa_lr = 0.1, anneal_epochs = 2, anneal_strategy = "linear"})
  check.close(rates(opt, s, 4), {1.0, 0.55, 0.1, 0.1})
end)
