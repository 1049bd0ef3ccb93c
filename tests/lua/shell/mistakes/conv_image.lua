--@ kind: shape
--@ code: SHAPE-7
--@ says: [28, 28]
--@ says: 4 dimensions
--@ fix: 1
local conv = torch.nn.Conv2d(1, 8, 3)
local x = torch.ones(28, 28)
local y = conv(x)
return y
