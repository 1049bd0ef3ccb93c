--@ kind: dtype
--@ code: DTYPE-3
--@ says: cross_entropy: targets must be class numbers (int64), got float32 [4]
--@ says: for probabilities
--@ fix: 1
local F = torch.nn.functional
local logits, y = torch.randn(4, 10), torch.tensor{1.0, 2.0, 3.0, 4.0}
return F.cross_entropy(logits, y)
