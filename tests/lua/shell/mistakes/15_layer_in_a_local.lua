-- A layer in a local variable works in forward, but the network does not know it: it is never trained.
local nn, optim = torch.nn, torch.optim
torch.manual_seed(1)
local head = nn.Linear(8, 2)
local Net = nn.class("Net")
function Net:init() self.body = nn.Linear(4, 8) end
function Net:forward(x) return head(self.body(x)) end

local x, y = torch.randn(5, 4), torch.randint(1, 2, {5})
local net = Net()
local opt = optim.SGD(net:parameters(), {lr = 0.1})
for _ = 1, 2 do
  opt:zero_grad()
  local loss = nn.functional.cross_entropy(net(x), y)
  loss:backward()
  opt:step()
end
