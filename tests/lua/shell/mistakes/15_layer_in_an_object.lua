-- A layer inside an object of another class is not found by parameters(): the optimiser does not get it.
local nn, optim = torch.nn, torch.optim
local Head = {}
Head.__index = Head
local Net = nn.class("Net")
function Net:init()
  self.body = nn.Linear(4, 8)
  self.head = setmetatable({layers = {nn.Linear(8, 2)}}, Head)
end
function Net:forward(x) return self.head.layers[1](self.body(x)) end

local net = Net()
local opt = optim.SGD(net:parameters(), {lr = 0.1})
opt:zero_grad()
