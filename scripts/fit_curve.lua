-- A first script: fits a curve to noisy points. Run it with: tycho scripts/fit_curve.lua
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim
local support = dofile((arg[0]:match("^(.*)/") or ".") .. "/support.lua")  -- options, progress, metrics, checkpoints

local option = support.options("fit_curve", "Fits a curve through noisy points of a sine with a small network.", {
  {"steps", "N", 2000, "steps to train", quick = 200, least = 10, free = true},
  {"points", "N", 200, "points that are measured", least = 2},
  {"noise", "X", 0.1, "how far off they are"},
  {"hidden", "N", 32, "width of the network"},
  {"lr", "X", 0.01, "learning rate"},
  {"save", "FILE", "curve.pt", "where the checkpoint goes", free = true},
})

local run = support.training(option, {"step", "train_loss"})
torch.manual_seed(option.seed)                                    -- the same points in every run
local x = torch.linspace(-3, 3, option.points):unsqueeze(2):to(option.device)              -- one number each: [points, 1]
local y = torch.sin(2 * x) + option.noise * torch.randn(option.points, 1):to(option.device) -- the curve and noise

local width = option.hidden
local net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)):to(option.device)
local opt = optim.Adam(net:parameters(), {lr = option.lr})
run:keep {net = net, opt = opt}

run:train(function()
  for _ in run:rounds(option.steps, math.max(1, option.steps // 10)) do
    for points, measured in run:batches(function() return x, y end) do
      opt:zero_grad()
      local loss = F.mse_loss(net(points), measured)              -- how far off the network is
      loss:backward()                                             -- how each weight changes that
      opt:step()                                                  -- a small step the other way
      run:add(loss:item())
    end
    support.say("step %4d  loss %.4f", run.step, run:mean())
    run:log(run:mean())
  end
end)

local fit = torch.no_grad(function() return net(x) end)
run:plot {{"mean squared error", "train_loss"}}
torch.plot(x:flatten(), y:flatten(), fit:flatten(), {labels = {"measured", "fitted"}, height = 12})
support.say("off the true curve by %.3f on average", (fit - torch.sin(2 * x)):abs():mean():item())
