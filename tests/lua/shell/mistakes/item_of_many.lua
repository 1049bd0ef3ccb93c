--@ kind: shape
--@ code: SHAPE-10
--@ says: [3]
--@ fix: 1
--@ fix: 2
local x = torch.ones(3)
return x:item()
