--@ kind: dim
--@ code: DIM-1
--@ says: dimensions count from 1
--@ fix: 1
local x = torch.ones(2, 3)
return x:sum(0)
