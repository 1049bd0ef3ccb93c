--@ kind: index
--@ code: INDEX-2
--@ says: cross_entropy: target[3] = 11 but the logits have 10 classes (valid 1..10
--@ replace: 11 => 10
local F = torch.nn.functional
local logits, y = torch.randn(4, 10), torch.tensor{1, 2, 11, 3}
return F.cross_entropy(logits, y)
