--@ kind: dtype
--@ code: DTYPE-2
--@ says: int64
--@ says: x:float():mean()
--@ fix: 1
local x = torch.tensor{1, 2}
return x:mean()
