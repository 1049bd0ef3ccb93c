--@ code: SHAPE-5
--@ says: [2]
--@ says: [3]
--@ fix: 1
local a, b = torch.ones(2), torch.ones(3)
return torch.stack({a, b})
