--@ kind: index
--@ code: INDEX-1
--@ says: count from 1
--@ fix: 1
local x = torch.ones(2, 3)
return x[0]
