--@ kind: argument
--@ code: ARG-3
--@ says: x.unsqueeze is a method, and a point gives it no object
--@ says: would fit: x:unsqueeze(1)  -> [1, 2, 3]
--@ fix: 1
local x = torch.ones(2, 3)
local s = x.unsqueeze(1)
return s
