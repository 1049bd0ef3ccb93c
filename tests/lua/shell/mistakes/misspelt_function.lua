--@ kind: argument
--@ code: NAME-1
--@ says: torch.relu
--@ replace: torch.reul => torch.relu
local x = torch.ones(2, 3)
local y = torch.reul(x)
return y
