--@ kind: shape
--@ code: SHAPE-5
--@ says: tensor 2 has shape [2, 4], which does not join to [2, 3]
--@ says: dim 2 is 4
--@ fix: 1
local a, b = torch.ones(2, 3), torch.ones(2, 4)
return torch.cat({a, b})
