-- Runs every ```lua snippet of the README, in order and in one environment, and compares what it prints
-- with its `-- prints:` comments.
local here = arg[0]:match("^(.*)/") or "."
local file = assert(io.open(here .. "/../../README.md"))
local text = file:read("a")
file:close()

local env = setmetatable({}, {__index = _G})
local _, number, at = nil, 0, 1
while true do
  local first, last, code = text:find("\n```lua\n(.-)\n```", at)
  if not first then break end
  number, at = number + 1, last
  local _, line = text:sub(1, first):gsub("\n", "")
  test(("the README's snippet %d (line %d) runs and prints what it says"):format(number, line + 1), function()
    local printed, expected = {}, {}
    env.print = function(...)
      local words = table.pack(...)
      for i = 1, words.n do words[i] = tostring(words[i]) end
      printed[#printed + 1] = table.concat(words, "\t")
    end
    for wanted in code:gmatch("%-%- prints: ([^\n]*)") do expected[#expected + 1] = wanted end
    assert(load(("\n"):rep(line + 1) .. code, "@README.md", "t", env))()
    check.equal(table.concat(printed, "\n"), table.concat(expected, "\n"))
  end)
end

test("the README has snippets", function() check.yes(number >= 4) end)
