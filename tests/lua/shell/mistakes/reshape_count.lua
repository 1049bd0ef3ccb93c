--@ kind: shape
--@ code: SHAPE-3
--@ says: reshape: [4, 2] has 8 elements, [2, 3] has 6
--@ says: x:reshape(3, 2)
--@ fix: 1
--@ fix: 2
local x = torch.ones(2, 3)
return x:reshape(4, 2)
