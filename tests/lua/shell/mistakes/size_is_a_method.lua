--@ kind: argument
--@ code: NAME-1
--@ says: x.size is a method, so it must be called
--@ fix: 1
local x = torch.ones(2, 3)
local n = x.size[1]
return n
