--@ kind: argument
--@ code: NAME-1
--@ fix: 1
local x = torch.ones(2, 3)
local s = "n = " .. x.numel
return s
