--@ kind: argument
--@ code: ARG-3
--@ says: x.sum is a method, and a point gives it no object
--@ says: would fit: x:sum()  -> []
--@ fix: 1
local x = torch.ones(2, 3)
local s = x.sum()
return s
