-- Runs tests written against check.lua: tycho tests/lua/run.lua [--only TEXT] [--cases N] [--seed N] [FILE...]
-- --cases and --seed are for property tests, which find them in check.options.
-- Without files it runs every *_test.lua below its folder. Ends with `N passed, N failed`; status 1 if any failed.
local here = arg[0]:match("^(.*)/") or "."
local check = dofile(here .. "/check.lua")

local files, only, i = {}, nil, 1
while arg[i] do
  if arg[i] == "--only" then
    only, i = arg[i + 1], i + 1
  elseif arg[i] == "--cases" or arg[i] == "--seed" then
    check.options[arg[i]:sub(3)], i = assert(math.tointeger(arg[i + 1]), arg[i] .. " takes a whole number"), i + 1
  elseif arg[i]:sub(1, 1) == "-" then
    io.stderr:write(("run.lua: unknown option %s; there are --only TEXT, --cases N and --seed N\n"):format(arg[i]))
    os.exit(1)
  else
    files[#files + 1] = arg[i]
  end
  i = i + 1
end
if #files == 0 then
  local pipe = assert(io.popen("find " .. check.quote(here) .. " -name '*_test.lua' | LC_ALL=C sort"))
  for file in pipe:lines() do files[#files + 1] = file end
  pipe:close()
end
for _, file in ipairs(files) do check.run_file(file, only) end
os.exit(check.finish(), true)
