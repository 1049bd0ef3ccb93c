--@ kind: argument
--@ code: ARG-3
--@ says: argument "self" is missing
--@ says: would fit: x:sum()  -> []
--@ fix: 1
local x = torch.ones(2, 3)
local s = x.sum()
return s
