--@ kind: shape
--@ code: SHAPE-4
--@ says: [3, 2]
--@ says: strides [1, 3]
--@ fix: 1
--@ fix: 2
local x = torch.ones(2, 3):t()
local y = x:view(6)
return y
