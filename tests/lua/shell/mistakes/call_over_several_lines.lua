--@ kind: shape
--@ code: SHAPE-1
--@ says: would fit: x:matmul(w:t())  -> [2, 4]
--@ fix: 1
local x, w = torch.ones(2, 3), torch.ones(4, 3)
local y = x
  :matmul(
    w)
return y
