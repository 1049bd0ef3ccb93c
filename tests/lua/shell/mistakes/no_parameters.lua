--@ kind: argument
--@ code: MODULE-1
--@ says: SGD: the list of parameters is empty
--@ says: self.layer
--@ replace: function Net:init() end => function Net:init() self.hids = hids end
local nn, optim = torch.nn, torch.optim
local hids = {nn.Linear(2, 3), nn.Linear(3, 1)}
local Net = nn.class("Net")
function Net:init() end
function Net:forward(x) return hids[2](hids[1](x)) end
local net = Net()
local opt = optim.SGD(net:parameters(), {lr = 0.1})
return opt
