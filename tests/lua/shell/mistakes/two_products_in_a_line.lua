--@ kind: shape
--@ code: SHAPE-1
--@ span: c:matmul(d)
--@ says: c:matmul(d:t())
--@ fix: 1
local a, b = torch.ones(2, 3), torch.ones(3, 4)
local c, d = torch.ones(2, 5), torch.ones(4, 5)
local y = a:matmul(b) + c:matmul(d)
return y
