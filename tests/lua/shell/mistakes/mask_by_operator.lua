--@ kind: argument
--@ code: ARG-2
--@ says: would fit: x:le(2)  -> [2, 3]
--@ fix: 1
local x = torch.ones(2, 3)
local m = x <= 2
return m
