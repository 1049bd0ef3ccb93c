--@ kind: broadcast
--@ code: SHAPE-2
--@ says: [2, 3]
--@ says: dimension 2 is 3 against 2
--@ says: would fit: a - b:unsqueeze(2)  -> [2, 3]
--@ fix: 1
local a, b = torch.ones(2, 3), torch.ones(2)
local c = a - b
return c
