-- The conformance reader finds planted faults: with each mutant switched on, its run must fail.
local root = arg[0]:match "^(.*)/tests/lua/" or "."
local run = root .. "/tests/conformance/run.lua"
local folder = check.temp "vectors"
assert(os.execute(("mkdir -p '%s' && tar xf '%s/tests/conformance/vectors.tar.xz' -C '%s'"):format(folder, root, folder)))
local vectors
do
  local pipe = assert(io.popen(("find '%s' -name manifest.json"):format(folder)))
  vectors = pipe:read "l":match "^(.*)/manifest%.json$"
  pipe:close()
end

package.path = root .. "/tests/conformance/?.lua;" .. package.path
local mutants = require "mutants"

test("there are at least thirty planted faults", function() check.yes(#mutants.rows >= 30) end)

for _, row in ipairs(mutants.rows) do
  test("a planted fault is reported: " .. row[1], function()
    local r = check.tycho {run, vectors, "--only", row[2], "--jobs", "1", "--mutant", row[1]}
    check.equal(r.status, 1, r.out:sub(-300) .. r.err:sub(-300))
    check.yes(r.out:match "\n%d+ passed, [1-9]%d* failed, %d+ skipped\n$" ~= nil, r.out:sub(-200))
  end)
end

test("without a fault the same runs pass", function()
  local only, seen = {}, {}
  for _, row in ipairs(mutants.rows) do
    if not seen[row[2]] then only[#only + 1], seen[row[2]] = row[2], true end
  end
  local r = check.tycho {run, vectors, "--only", table.concat(only, ","), "--jobs", "1"}
  check.equal(r.status, 0, r.out:sub(-1500) .. r.err:sub(-300))
end)

test("options, missing files and damaged vectors are answered", function()
  check.contains(check.tycho({run, "--help"}).out, "--list-missing")
  check.equal(check.tycho({run, "--only", "nothing"}).status, 2)
  check.contains(check.tycho({run, "/nowhere"}).err, "there is no /nowhere")
  local path = check.temp "damaged.tar.xz"
  local f = assert(io.open(path, "wb"))
  f:write "not an archive"
  f:close()
  check.contains(check.tycho({run, path}).err, "cannot unpack")
end)
