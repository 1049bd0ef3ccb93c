--@ kind: index
--@ code: INDEX-2
--@ says: target[1] = 0 but the logits have 3 classes (valid 1..3; labels start at 1)
--@ fix: 1
local F = torch.nn.functional
local logits, y = torch.randn(3, 3), torch.tensor{0, 1, 2}
return F.cross_entropy(logits, y)
