--@ kind: argument
--@ code: NAME-1
--@ says: a scope begins where its function is called
--@ says: local _ <close> = torch.no_grad()
--@ replace: = torch.no_grad => = torch.no_grad()
local _ <close> = torch.no_grad
return torch.ones(2)
