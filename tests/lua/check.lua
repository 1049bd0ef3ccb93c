-- A small test library: `test("a sentence", function() ... end)` and the checks below, both globals in
-- every *_test.lua below tests/lua. Run with `tycho tests/lua/run.lua [FILE...]`, which prints ok or
-- FAIL file:line for each test and ends with `N passed, N failed`.
--   check.equal(actual, expected)        deep: numbers, strings, tables, tensors (dtype, shape, values);
--                                        a tensor against a table or number compares its values; nan is nan
--   check.close(actual, expected, tol)   the same with |a - e| <= tol + tol * |e|; tol is 1e-5 unless given
--   check.raises(kind, text, f, ...)     f must raise an error of that kind whose text holds `text` (plain, or
--                                        a Lua pattern); either may be nil; returns the error object
--   check.shape(x, {2, 3})  check.dtype(x, "float32")  check.kind_of(1.5, "float")
--   check.yes(v)  check.no(v)  check.contains(text, part)  check.lacks(text, part)
--   check.skip("why")                    leaves the test; it is not counted
--   check.temp("name.npy")               a path in a directory that is removed at the end
--   check.tycho({args}, {stdin=, env={K=V}, limit_kb=, cwd=, before="ulimit -f 9"})
--                                        runs another tycho: {status=, out=, err=}
local check = {options = {}}  -- what run.lua was told: cases, seed
local passed, failed, skipped = 0, 0, 0
local Failure = {__tostring = function(f) return f.text end}
local current_file, only, temp_dir

local function is_tensor(x)
  if type(x) ~= "userdata" then return false end
  local ok, rank = pcall(function() return x.ndim end)
  return ok and math.type(rank) == "integer"
end

-- A value as short text: strings quoted, tables and small tensors spelled out.
local function show(x, depth)
  depth = depth or 0
  if type(x) == "string" then return ("%q"):format(x) end
  if is_tensor(x) then
    if x:numel() > 64 then return ("tensor %s %s"):format(tostring(x.dtype), show(x:size())) end
    return ("tensor %s %s %s"):format(tostring(x.dtype), show(x:size()), show(x:tolist()))
  end
  if type(x) ~= "table" then return tostring(x) end
  if depth > 8 then return "{...}" end
  local parts, n = {}, #x
  for i = 1, math.min(n, 24) do parts[i] = show(x[i], depth + 1) end
  if n > 24 then parts[#parts + 1] = ("... %d more"):format(n - 24) end
  local keys = {}
  for k in next, x do
    if not (math.type(k) == "integer" and k >= 1 and k <= n) then keys[#keys + 1] = tostring(k) .. "=" .. show(x[k], depth + 1) end
  end
  table.sort(keys)
  table.move(keys, 1, #keys, #parts + 1, parts)
  return "{" .. table.concat(parts, ", ") .. "}"
end
check.show = show

-- Raises a failed check; the place is the nearest line of the test file on the stack.
local function failure(text, note)
  if note then text = text .. " (" .. tostring(note) .. ")" end
  error(setmetatable({text = text}, Failure), 0)
end

local function place()
  for level = 2, 60 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.short_src == current_file or info.source == "@" .. current_file then
      return current_file .. ":" .. info.currentline
    end
  end
  return current_file
end

local function numbers_agree(a, e, tol)
  if a == e or (a ~= a and e ~= e) then return true end
  return tol ~= nil and math.abs(a - e) <= tol + tol * math.abs(e)
end

-- nil when equal, else where and how the two differ.
local function difference(a, e, tol, at)
  if type(a) == "number" and type(e) == "number" then
    if numbers_agree(a, e, tol) then return nil end
    local gap = tol and (" (apart by %g, tolerance %g)"):format(math.abs(a - e), tol) or ""
    return ("%sgot %s, expected %s%s"):format(at, tostring(a), tostring(e), gap)
  end
  if is_tensor(a) then
    if is_tensor(e) then
      if tostring(a.dtype) ~= tostring(e.dtype) then
        return ("%sgot dtype %s, expected %s"):format(at, tostring(a.dtype), tostring(e.dtype))
      end
      local gap = difference(a:size(), e:size(), nil, "shape ")
      if gap then return at .. gap end
      return difference(a:tolist(), e:tolist(), tol, at)
    end
    if type(e) == "table" or a:dim() == 0 then return difference(a:tolist(), e, tol, at) end
  end
  if type(a) == "table" and type(e) == "table" then
    if #a ~= #e then return ("%sgot %d items %s, expected %d %s"):format(at, #a, show(a), #e, show(e)) end
    for k, v in next, e do
      local gap = difference(a[k], v, tol, ("%s[%s] "):format(at:sub(1, -2), tostring(k)))
      if gap then return gap end
    end
    for k in next, a do
      if e[k] == nil then return ("%sgot an extra key %s"):format(at, show(k)) end
    end
    return nil
  end
  -- rawequal first: == between unlike userdata may raise.
  if rawequal(a, e) then return nil end
  if type(a) == type(e) then
    local ok, same = pcall(function() return a == e end)
    if ok and same then return nil end
  end
  return ("%sgot %s, expected %s"):format(at, show(a), show(e))
end

function check.equal(actual, expected, note)
  local gap = difference(actual, expected, nil, "")
  if gap then failure(gap, note) end
end

function check.close(actual, expected, tol, note)
  local gap = difference(actual, expected, tol or 1e-5, "")
  if gap then failure(gap, note) end
end

local function holds(text, part)
  if text:find(part, 1, true) then return true end
  local ok, at = pcall(string.find, text, part)
  return ok and at ~= nil
end

function check.raises(kind, part, f, ...)
  local result = table.pack(pcall(f, ...))
  if result[1] then failure(("nothing was raised, expected %s error %s"):format(kind or "an", show(part))) end
  local err = result[2]
  local text = tostring(err)
  if getmetatable(err) == Failure then error(err, 0) end
  if kind then
    if type(err) == "string" then failure(("expected an error object of kind %q, got the text %s"):format(kind, show(err))) end
    if err.kind ~= kind then failure(("expected kind %q, got %s: %s"):format(kind, show(err.kind), text)) end
  end
  if part and not holds(text, part) then failure(("the error does not hold %s: %s"):format(show(part), text)) end
  return err
end

function check.shape(x, shape, note)
  local gap = difference(x:size(), shape, nil, "shape ")
  if gap then failure(gap, note) end
end

function check.dtype(x, dtype, note)
  local short = function(d) return (tostring(d):gsub("^torch%.", "")) end
  if short(x.dtype) ~= short(dtype) then failure(("got dtype %s, expected %s"):format(short(x.dtype), short(dtype)), note) end
end

function check.kind_of(x, wanted, note)
  local kind = is_tensor(x) and "tensor" or math.type(x) or type(x)
  if kind ~= wanted then failure(("got %s %s, expected %s"):format(kind, show(x), wanted), note) end
end

function check.yes(v, note) if not v then failure("got " .. show(v) .. ", expected true", note) end end
function check.no(v, note) if v then failure("got " .. show(v) .. ", expected false", note) end end

function check.contains(text, part, note)
  if not holds(tostring(text), part) then failure(("%s does not hold %s"):format(show(tostring(text)), show(part)), note) end
end
function check.lacks(text, part, note)
  if holds(tostring(text), part) then failure(("%s holds %s"):format(show(tostring(text)), show(part)), note) end
end

function check.skip(why) error(setmetatable({text = why, skip = true}, Failure), 0) end

local function quote(s) return "'" .. tostring(s):gsub("'", "'\\''") .. "'" end
check.quote = quote

function check.temp(name)
  if not temp_dir then
    local pipe = assert(io.popen("mktemp -d"))
    temp_dir = pipe:read("l")
    pipe:close()
  end
  return temp_dir .. "/" .. name
end

local function read_all(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

-- The program under test: $TYCHO, or the one that runs this file.
check.program = os.getenv("TYCHO") or (arg and arg[-1]) or "build/tycho"

function check.tycho(args, options)
  options = options or {}
  local words = {}
  if options.cwd then words[#words + 1] = "cd " .. quote(options.cwd) .. " &&" end
  if options.limit_kb and os.getenv("TYCHO_SANITIZED") then check.skip("sanitizers need the whole address space") end
  if options.limit_kb then words[#words + 1] = "ulimit -v " .. options.limit_kb .. " &&" end
  if options.before then words[#words + 1] = options.before .. " &&" end
  if options.env then
    words[#words + 1] = "env"
    for k, v in pairs(options.env) do words[#words + 1] = quote(k .. "=" .. v) end
  end
  words[#words + 1] = quote(check.program)
  for _, a in ipairs(args) do words[#words + 1] = quote(a) end
  local out, err, input = check.temp("stdout"), check.temp("stderr"), "/dev/null"
  if options.stdin then
    input = check.temp("stdin")
    local file = assert(io.open(input, "wb"))
    file:write(options.stdin)
    file:close()
  end
  local command = ("( %s ) >%s 2>%s <%s"):format(table.concat(words, " "), quote(out), quote(err), quote(input))
  local _, how, code = os.execute(command)
  return {status = how == "signal" and 128 + code or code, out = read_all(out), err = read_all(err)}
end

-- Each test draws the same numbers at every run, whichever others run: a failure comes again. Other numbers
-- come with --seed.
local function seed_by(sentence)
  local seed = check.options.seed or 0
  for i = 1, #sentence do seed = (seed * 31 + sentence:byte(i)) & 0x7fffffff end
  torch.manual_seed(seed)
  math.randomseed(seed)
end

function check.test(sentence, body)
  if only and not holds(sentence, only) then return end
  seed_by(sentence)
  local where
  local ok, err = xpcall(body, function(err)
    where = place()
    if getmetatable(err) == Failure then return err end
    -- Keep the traceback: an error that no check expected is best found by its path.
    local text = tostring(err)
    return setmetatable({text = debug.traceback(text, 2)}, Failure)
  end)
  if ok then
    passed = passed + 1
    print("ok " .. sentence)
  elseif err.skip then
    skipped = skipped + 1
    print("skip " .. sentence .. ": " .. err.text)
  else
    failed = failed + 1
    print(("FAIL %s %s\n  %s"):format(where, sentence, (err.text:gsub("\n", "\n  "))))
  end
  io.stdout:flush()
end

-- Runs one test file in its own global environment; what happens outside a test counts as a failure.
function check.run_file(path, pattern)
  current_file, only = path, pattern
  local env = setmetatable({test = check.test, check = check}, {__index = _G})
  env._G = env
  local chunk, err = loadfile(path, "t", env)
  local ok = chunk ~= nil
  if chunk then ok, err = xpcall(chunk, function(e) return debug.traceback(tostring(e), 2) end) end
  if not ok then
    failed = failed + 1
    print(("FAIL %s stopped outside a test\n  %s"):format(path, (tostring(err):gsub("\n", "\n  "))))
  end
end

-- Removes what the tests left, prints the last line and returns the exit status.
function check.finish()
  if temp_dir then os.execute("rm -rf " .. quote(temp_dir)) end
  if skipped > 0 then print(("%d skipped"):format(skipped)) end
  print(("%d passed, %d failed"):format(passed, failed))
  return failed == 0 and 0 or 1
end

return check
