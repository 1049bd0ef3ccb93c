--@ kind: dim
--@ code: DIM-1
--@ says: dimension 3 is out of range for a tensor with 2 dimensions (1..2, or -2..-1)
--@ fix: 1
--@ fix: 2
local x = torch.ones(2, 3)
return x:sum(3)
