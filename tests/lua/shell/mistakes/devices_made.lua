--@ kind: device
--@ code: DEVICE-1
--@ says: add: argument 1 (self) is on cuda:0, argument 2 (other) on cuda:1
--@ says: y was made in line 14: torch.ones(2):to("cuda:1")
--@ fix: 1
--@ fix: 2
-- Two of one line, and a parameter and another function's variable of the same names: only what holds there is named.
if torch.cuda.device_count() == 0 then torch.cuda.simulate(2) end
local function other()
  local x = torch.randn(2)
  return x
end
other()
local x, y = torch.ones(2):to("cuda:0"), torch.ones(2):to("cuda:1")
local function sum(x)
  return x + y
end
return sum(x)
