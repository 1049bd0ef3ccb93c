--@ kind: shape
--@ code: SHAPE-7
--@ says: [5, 28, 28, 3]
--@ fix: 1
local conv = torch.nn.Conv2d(3, 8, 3)
local x = torch.ones(5, 28, 28, 3)
local y = conv(x)
return y
