--@ kind: dtype
--@ code: DTYPE-1
--@ says: float32 and int64
--@ says: x:matmul(w:float())
--@ fix: 1
local x, w = torch.ones(2, 3), torch.ones(3, 2):long()
return x:matmul(w)
