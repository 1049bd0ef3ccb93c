--@ kind: dtype
--@ code: DTYPE-0
--@ fix: 1
local x, i = torch.ones(2, 3), torch.ones(2)
return x:index_select(1, i)
