--@ kind: argument
--@ code: NAME-1
--@ says: sofmax
--@ says: x:softmax(1)
--@ fix: 1
local x = torch.ones(2, 3)
return x:sofmax(1)
