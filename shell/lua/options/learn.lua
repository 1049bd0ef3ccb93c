-- `tycho learn [NAME]`: the prompt opens with the list of chapters, of one chapter's lessons, or in a lesson.
-- `tycho learn --notebook LESSON [FILE]` writes one for Jupyter.
return function(...)
  if ... == "--notebook" then return require("shell.lesson.notebook").main(select(2, ...)) end
  local words = table.concat({...}, " ")
  local name = words:match "%S+"
  if name then
    local find = require "shell.lesson.find"
    local lesson, message = find.lesson(name)
    if not lesson and name ~= "all" and not find.chapter(name) then
      io.stderr:write("tycho: ", message, "\n")
      return 1
    end
  end
  require("shell.session").first = "%learn " .. words
  return true
end
