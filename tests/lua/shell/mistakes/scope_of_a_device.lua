--@ kind: argument
--@ code: NAME-1
--@ says: a device is a value; the default device inside of a function is a scope
--@ says: torch.device("cpu", function() ... end)
--@ replace: local _ <close> = torch.device("cpu") => torch.device("cpu", function() return torch.ones(1) end)
local _ <close> = torch.device("cpu")
return torch.ones(2)
