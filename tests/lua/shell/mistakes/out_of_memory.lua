--@ kind: oom
--@ code: MEM-1
--@ says: out of memory on cpu
--@ says: wanted
--@ says: most is held by kept
--@ replace: 1 << 40 => 1 << 4
local kept = torch.ones(1000)
local x = torch.empty(1 << 40)
return x, kept
