--@ kind: dtype
--@ code: DTYPE-0
--@ fix: 1
local x, m = torch.ones(2, 3), torch.ones(2, 3)
return x:masked_fill(m, 0)
