--@ kind: index
--@ code: INDEX-1
--@ says: index 3 is out of range for dimension 1 with size 2 (1..2, or -2..-1)
--@ fix: 1
--@ fix: 2
local x = torch.ones(2, 3)
return x[3]
