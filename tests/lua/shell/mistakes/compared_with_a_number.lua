--@ kind: argument
--@ code: ARG-2
--@ says: x:gt(3):all():item()
--@ fix: 1
--@ fix: 2
local x = torch.ones(2, 3)
if x > 3 then print("all") end
