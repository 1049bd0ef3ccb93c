-- `tycho learn [NAME]`: the prompt opens with the list of lessons, or in one.
return function(...)
  local words = table.concat({...}, " ")
  local name = words:match "%S+"
  if name then
    local lesson, message = require("shell.lesson.find").lesson(name)
    if not lesson then
      io.stderr:write("tycho: ", message, "\n")
      return 1
    end
  end
  require("shell.session").first = "%learn " .. words
  return true
end
