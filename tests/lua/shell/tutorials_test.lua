-- Every tutorial runs as a script, without asking anything.
local pipe = assert(io.popen("ls tutorials/*/*.lua"))
local files = {}
for file in pipe:lines() do files[#files + 1] = file end
pipe:close()

for _, file in ipairs(files) do
  test(file .. " runs", function()
    local r = check.tycho {file}
    check.equal(r.status, 0, r.err)
    check.equal(r.err, "")
    check.yes(#r.out > 0)
  end)
end
