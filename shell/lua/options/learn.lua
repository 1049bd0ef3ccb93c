-- `tycho learn [NAME]`: the prompt opens with the list of lessons, or in one.
return function(...)
  if ... then
    local lesson, message = require("shell.lesson.find").lesson((...))
    if not lesson then
      io.stderr:write("tycho: ", message, "\n")
      return 1
    end
  end
  require("shell.session").first = table.concat({"%learn", ...}, " ")
  return true
end
