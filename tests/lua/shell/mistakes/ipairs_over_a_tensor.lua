--@ kind: index
--@ code: INDEX-1
--@ says: index 3 is out of range for dimension 1 with size 2
--@ span: ipairs(x)
--@ fix: 1
local x = torch.ones(2, 3)
for i, row in ipairs(x) do local _ = i, row end
