--@ kind: argument
--@ code: NAME-1
--@ says: torch.cat, which is a function and not a method
--@ replace: x:cat(y) => torch.cat{x, y}
local x, y = torch.ones(2, 3), torch.ones(2, 3)
return x:cat(y)
