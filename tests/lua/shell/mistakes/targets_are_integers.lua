--@ kind: dtype
--@ code: DTYPE-3
--@ says: must be floating point
--@ says: int64
--@ fix: 1
local F = torch.nn.functional
local p, y = torch.sigmoid(torch.randn(3)), torch.tensor{1, 0, 1}
return F.binary_cross_entropy(p, y)
