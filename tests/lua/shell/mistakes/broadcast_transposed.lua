--@ kind: broadcast
--@ code: SHAPE-2
--@ says: [2, 3]
--@ says: [3, 2]
--@ fix: 1
--@ fix: 2
local a, b = torch.ones(2, 3), torch.ones(3, 2)
return a * b
