-- The page about several processes: its scripts run as it says, and show what it shows.
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local page = here .. "/../../../tutorials/several_processes.md"

local text
do
  local file <close> = assert(io.open(page))
  text = file:read "a"
end

local folder = check.temp "page"
os.execute("mkdir -p " .. check.quote(folder))
local scripts = 0
for code in text:gmatch "\n```lua\n(.-\n)```" do
  local file <close> = assert(io.open(folder .. "/" .. assert(code:match "^%-%- (%S+)"), "w"))
  file:write(code)
  scripts = scripts + 1
end

-- Ranks write when they like: each rank's own lines are in order.
local function by_rank(lines)
  local out = {}
  for line in lines:gmatch "[^\n]+" do
    local rank = line:match "^%[r%d+%]" or ""
    out[rank] = (out[rank] or "") .. line:gsub("%s+$", "") .. "\n"
  end
  return out
end

test("the page has scripts and shows what they print", function() check.equal(scripts, 5) end)

for command, shown in text:gmatch "\n```console\n%$ tycho ([^\n]+)\n(.-)```" do
  test("several_processes.md: tycho " .. command, function()
    local words = {}
    for word in command:gmatch "%S+" do words[#words + 1] = word end
    local r = check.tycho(words, {cwd = folder, before = "ulimit -t 60", env = {TYCHO = check.program}})
    check.equal(by_rank(r.out), by_rank(shown))
  end)
end

test("several_processes.md: two terminals", function()
  local shown = text:match "\n```terminals\n(.-)```"
  local program = check.quote(check.program)
  local out, err, other = check.temp "first.out", check.temp "first.err", check.temp "other.out"
  -- The second terminal runs what the first one shows.
  os.execute(([[cd %s; env WORLD_SIZE=2 timeout 60 %s meet.lua >%s 2>%s & first=$!
    for i in $(seq 600); do line=$(grep -o 'RANK=1 [A-Z_]*=2 [A-Z_]*=[0-9.]* [A-Z_]*=[0-9]*' %s) && break; sleep 0.05; done
    env $line timeout 60 %s meet.lua >%s; wait $first]]):format(check.quote(folder), program, out, err, err, program, other))
  local function read(path)
    local file <close> = assert(io.open(path))
    return file:read "a"
  end
  check.contains(shown, read(err):match "^[^\n]*")
  check.contains(read(err), "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=")
  check.contains(shown, read(out))
  check.equal(read(other), "rank 1 of 2: the sum is 3\n")
  check.contains(text, "`rank 1 of 2: the sum is 3`")
end)
