-- A first script: fits a curve to noisy points. Run it with: tycho scripts/fit_curve.lua [STEPS] [--device cuda]
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim

if arg[1] == "--help" then
  print("tycho scripts/fit_curve.lua [STEPS] [--device NAME]    fits a sine with noise in STEPS steps (2000)")
  os.exit(0, true)
end
local device = "cpu"
for i = #arg, 1, -1 do
  if arg[i] == "--device" then device = table.remove(arg, i + 1) or "cpu" table.remove(arg, i) end
end
if device == "auto" then device = torch.cuda.is_available() and "cuda" or "cpu" end
local steps = arg[1] == "--quick" and 200 or math.max(10, tonumber(arg[1] or 2000) or 2000)

torch.manual_seed(1)                                              -- the same random numbers in every run
local x = torch.linspace(-3, 3, 200):unsqueeze(2):to(device)      -- 200 points, one number each: [200, 1]
local y = torch.sin(2 * x) + 0.1 * torch.randn(200, 1):to(device) -- what is measured: the curve and noise

local net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)):to(device)
local opt = optim.Adam(net:parameters(), {lr = 0.01})

for step = 1, steps do
  opt:zero_grad()
  local loss = F.mse_loss(net(x), y)                              -- how far off the network is
  loss:backward()                                                 -- how each weight changes that
  opt:step()                                                      -- a small step the other way
  if step % (steps // 10) == 0 then print(("step %4d  loss %.4f"):format(step, loss:item())) end
end

local fit = torch.no_grad(function() return net(x) end)
print(("off the true curve by %.3f on average"):format((fit - torch.sin(2 * x)):abs():mean():item()))
torch.plot(x:flatten(), y:flatten(), fit:flatten(), {labels = {"measured", "fitted"}, height = 12})
