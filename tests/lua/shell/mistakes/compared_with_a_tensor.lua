--@ kind: argument
--@ code: ARG-2
--@ says: torch.equal(x, y)
--@ fix: 1
--@ fix: 2
local x, y = torch.ones(2, 3), torch.zeros(2, 3)
local same = x == y
return same
