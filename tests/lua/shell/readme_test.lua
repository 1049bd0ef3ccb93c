-- Runs every ```lua snippet of the pages, in order and in one environment per page, and compares what it
-- prints with its `-- prints:` comments; ```console snippets are typed at the prompt, and all must look so.
local here = (arg[0]:match("^(.*)/") or ".") .. "/../../"

-- The snippets of a kind: calls f(number, line, code).
local function snippets(page, kind, f)
  local file = assert(io.open(here .. page))
  local text = file:read("a")
  file:close()
  local number, at = 0, 1
  while true do
    local first, last, code = text:find("\n```" .. kind .. "\n(.-)\n```", at)
    if not first then return number end
    number, at = number + 1, last
    local _, line = text:sub(1, first):gsub("\n", "")
    f(number, line + 1, code)
  end
end

local function check_page(page)
  local env = setmetatable({}, {__index = _G})
  local count = snippets(page, "lua", function(number, line, code)
    test(("%s: snippet %d (line %d) runs and prints what it says"):format(page, number, line), function()
      local printed, expected = {}, {}
      env.print = function(...)
        local words = table.pack(...)
        for i = 1, words.n do words[i] = tostring(words[i]) end
        printed[#printed + 1] = table.concat(words, "\t")
      end
      for wanted in code:gmatch("%-%- prints: ([^\n]*)") do expected[#expected + 1] = wanted end
      assert(load(("\n"):rep(line) .. code, "@" .. page, "t", env))()
      check.equal(table.concat(printed, "\n"), table.concat(expected, "\n"))
    end)
  end)
  test(page .. " has snippets", function() check.yes(count >= 4) end)
  snippets(page, "console", function(number, line, code)
    test(("%s: the session %d (line %d) looks as it says"):format(page, number, line), function()
      local entries, expected = {}, {}
      for each in (code .. "\n"):gmatch("(.-)\n") do
        local entry = each:match("^%[%d+%]> (.*)$")
        local list = entry and entries or expected
        list[#list + 1] = entry or each
      end
      local r = check.tycho({"--clean", "-i"}, {stdin = table.concat(entries, "\n") .. "\n"})
      local said = r.err:gsub("   in the entry at line %d+ of the input\n", "")  -- not said at a terminal
      check.equal(r.out .. said, table.concat(expected, "\n") .. "\n")
    end)
  end)
end

check_page("README.md")
check_page("tutorials/coming_from_pytorch.md")
