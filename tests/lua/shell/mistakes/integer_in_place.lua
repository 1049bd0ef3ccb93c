--@ kind: dtype
--@ code: DTYPE-4
--@ says: add_: the result is float32 and cannot be stored in a tensor of int64
--@ fix: 1
local x = torch.tensor{1, 2}
x:add_(1.5)
return x
