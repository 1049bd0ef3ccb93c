--@ kind: broadcast
--@ code: SHAPE-2
--@ says: add: shapes [2, 3] and [2, 4] do not broadcast: dimension 2 is 3 against 4
--@ says: 2 3\n
--@ says: 2 4\n
--@ says: . ^
--@ replace: torch.ones(2, 4) => torch.ones(2, 3)
local a, b = torch.ones(2, 3), torch.ones(2, 4)
local c = a + b
return c
