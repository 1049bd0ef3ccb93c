-- The mistakes that beginners make most, one script each in tests/lua/shell/mistakes: each must raise the error
-- that its first lines (`--@ key: value`) describe, and what the error suggests is put into the script,
-- which then must run.
--   kind, code: of the error     says: a part of its text     line, span: the user's line, what is underlined
--   fix: number of a suggestion that must be there (all that are there are tried)
--   replace: OLD => NEW, where the advice is no change of the failing call itself
local folder = (arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/[^/]*$") or "."
local explain = require "torch.explain"

local function list()
  local pipe = io.popen("ls " .. check.quote(folder .. "/shell/mistakes"))
  local names = {}
  for name in pipe:lines() do  -- numbered ones are about notes
    if not name:find("^%d") then names[#names + 1] = name:match("^(.*)%.lua$") end
  end
  pipe:close()
  return names
end

local function read(name)
  local path = ("%s/shell/mistakes/%s.lua"):format(folder, name)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  local wants = {}
  for key, value in text:gmatch("%-%-@ (%w+): ([^\n]*)") do wants[#wants + 1] = {key, (value:gsub("\\n", "\n"))} end
  return path, text, wants
end

local function run(path, text)
  return pcall(assert(load(text, "@" .. path)))
end

-- The text with the underlined part of the failing line replaced.
local function apply(text, err, code)
  local number = tonumber(err.where:match(":(%d+)$"))
  local at, n = 1, 1
  while n < number do
    at = text:find("\n", at, true) + 1
    n = n + 1
  end
  check.equal(text:sub(at, at + #err.line - 1), err.line)
  return text:sub(1, at + err.span[1] - 2) .. code .. text:sub(at + err.span[2])
end

for _, name in ipairs(list()) do
  test("the mistake is explained, and what is suggested runs: " .. name:gsub("_", " "), function()
    local path, text, wants = read(name)
    local ok, raised = run(path, text)
    check.no(ok)
    local err = explain.object(raised)
    check.yes(err)
    local said = tostring(err) .. "\n" .. explain.report(err)
    local advised = false
    for _, want in ipairs(wants) do
      local key, value = want[1], want[2]
      if key == "kind" or key == "code" then
        check.equal(err[key], value)
      elseif key == "line" then
        check.equal(err.line, value)
      elseif key == "span" then
        check.equal(err.line:sub(err.span[1], err.span[2]), value)
      elseif key == "says" then
        check.contains(said, value)
      elseif key == "fix" then
        check.yes(err.fixes[tonumber(value)])
        advised = true
      elseif key == "replace" then
        local old, new = value:match("^(.-) => (.*)$")
        local first, last = text:find(old, select(2, text:find("^[%-@ ].-\n[^%-]")) or 1, true)
        check.yes(first)
        local fine, why = run(path, text:sub(1, first - 1) .. new .. text:sub(last + 1))
        check.equal(fine or tostring(why), true)
        advised = true
      else
        error("unknown key " .. key)
      end
    end
    check.yes(advised)
    check.no(said:find("[C]", 1, true))
    for _, fix in ipairs(err.fixes) do
      local changed = apply(text, err, fix)
      local fine, why = run(path, changed)
      if not fine then error(("the suggestion %s does not run: %s"):format(fix, tostring(why))) end
    end
  end)
end
