-- Runs a script as several ranks of one job, for the tests of this folder: each a process of its own, which meet by a
-- file. `run(n, code, more)` gives each rank's {status, out, err} and fails the test where one ends badly or takes more
-- than a minute; `more.free` leaves the statuses to the test. The scripts find R (the rank), W (the world), dist, nn, F,
-- optim, DDP, `same(t)` (t has equal bits on all ranks) and `near(a, b, tolerance)`.
local ranks = {}

local preamble = [[
local nn, F, optim, dist = torch.nn, torch.nn.functional, torch.optim, torch.distributed
torch.set_num_threads(1)
if os.getenv "WORLD_SIZE" then dist.init_process_group {init_method = "file://" .. os.getenv "TYCHO_TEST_MEETING"} end
local R, W = dist.get_rank(), dist.get_world_size()
local DDP = nn.parallel.DistributedDataParallel
local function near(a, b, tolerance)
  if torch.is_tensor(b) then a, b = (a - b):abs():max():item(), 0 end
  if not (math.abs(a - b) <= (tolerance or 1e-5)) then error(("rank %d: apart by %g"):format(R, math.abs(a - b)), 2) end
end
local function same(t)
  local most, least = t:detach():clone(), -t:detach()
  dist.all_reduce(most, {op = dist.ReduceOp.MAX})
  dist.all_reduce(least, {op = dist.ReduceOp.MAX})
  if not torch.equal(most, -least) then error("ranks differ", 2) end
end
]]

local function read(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text
end

---@param n integer
---@param code string
---@param more? {free: boolean, seconds: integer}
function ranks.run(n, code, more)
  more = more or {}
  local base = check.temp(("ranks%d"):format(math.random(1 << 40)))
  local script = base .. ".lua"
  local file = assert(io.open(script, "w"))
  file:write((preamble:gsub("\n", " ")), code)  -- one line, so that lines of messages are those of the test's code plus 0
  file:close()
  local words = {"pids=;"}
  for r = 0, n - 1 do
    words[#words + 1] = ("env RANK=%d WORLD_SIZE=%d LOCAL_RANK=%d LOCAL_WORLD_SIZE=%d TYCHO_TEST_MEETING=%s timeout -k 2 %d %s %s >%s.out%d 2>%s.err%d </dev/null & pids=\"$pids $!\";")
      :format(r, n, r, n, check.quote(base .. ".meet"), more.seconds or (os.getenv "TYCHO_SANITIZED" and 300 or 60), check.quote(check.program), check.quote(script), base, r, base, r)
  end
  words[#words + 1] = "for p in $pids; do wait $p; echo $?; done"
  local pipe = assert(io.popen(table.concat(words, " ")))
  local out = {}
  for r = 0, n - 1 do
    out[r] = {status = tonumber(pipe:read "l"), out = read(("%s.out%d"):format(base, r)), err = read(("%s.err%d"):format(base, r))}
  end
  pipe:close()
  for r = 0, n - 1 do
    if out[r].status == 124 or out[r].status == 137 then check.equal(out[r].status, 0, ("rank %d hangs: %s"):format(r, out[r].err)) end
    if not more.free then check.equal(out[r].status, 0, ("rank %d: %s"):format(r, out[r].err)) end
  end
  return out
end

return ranks
