--@ kind: shape
--@ code: SHAPE-6
--@ says: linear 'fc1': input has 9 features in its last dimension, the layer expects 10 (weight is 5x10 = out x in). Input shape [4, 9]
--@ replace: nn.Linear(10, 5) => nn.Linear(9, 5)
local nn = torch.nn
local Net = nn.class("Net")
function Net:init() self.fc1 = nn.Linear(10, 5) end
function Net:forward(x) return self.fc1(x) end
local net = Net()
return net(torch.ones(4, 9))
