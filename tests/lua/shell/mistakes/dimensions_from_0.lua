--@ kind: dim
--@ code: DIM-1
--@ says: would fit: x:transpose(1, 2)  -> [3, 2]
--@ fix: 1
local x = torch.ones(2, 3)
local s = x:transpose(0, 1)
return s
