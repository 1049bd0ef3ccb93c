-- `tycho learn [NAME]`: the prompt opens with the list of chapters, of one chapter's lessons, or in a lesson.
-- `--notebook LESSON [FILE]` writes one for Jupyter, `--sheet LESSON [FILE.html]` one for paper, `--report FILE.csv|json`
-- what was solved; behind `--class DIR` all of this is about the lessons of that folder.
local writes = {["--notebook"] = "notebook", ["--sheet"] = "sheet", ["--report"] = "report"}

local function fail(message)
  io.stderr:write("tycho: ", message, "\n")
  return 1
end

return function(...)
  local words = {...}
  local find = require "shell.lesson.find"
  if words[1] == "--class" then
    if not words[2] then return fail "--class wants the folder of a class's lessons" end
    local ok, message = find.open_class(words[2])
    if not ok then return fail(message) end
    table.remove(words, 1)
    table.remove(words, 1)
  end
  if writes[words[1]] then return require("shell.lesson." .. writes[words[1]]).main(table.unpack(words, 2)) end
  local name = words[1]
  if name and name:find "^%-" then
    return fail(("learn: no option %q; there are --class DIR, --report FILE.csv|json, --sheet LESSON, --notebook LESSON"):format(name))
  end
  if name then
    local lesson, message = find.lesson(name)
    if not lesson and name ~= "all" and not find.chapter(name) then return fail(message) end
  end
  require("shell.session").first = "%learn " .. table.concat(words, " ")
  return true
end
