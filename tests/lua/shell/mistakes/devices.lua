--@ kind: device
--@ code: DEVICE-1
--@ says: matmul: argument 1 (self) is on cuda:0, argument 2 (other) on cpu
--@ says: b was made in line 11: torch.randn(2, 2)
--@ says: a:matmul(b:to(a.device))
--@ fix: 1
--@ fix: 2
-- needs a device, which may be a simulated one
if torch.cuda.device_count() == 0 then torch.cuda.simulate(2) end
local a = torch.randn(2, 2):to("cuda:0")
local b = torch.randn(2, 2)
local c = a:matmul(b)
return c
