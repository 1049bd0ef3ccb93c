-- %solved: the check of a lesson's task, without the lesson: what notebooks ask.
return {
  {
    name = "solved", usage = "%solved LESSON ENTRY", example = "%solved broadcasting 7",
    doc = "Checks your function against the task of a lesson's entry, as the lesson does; lessons as notebooks use it.",
    run = function(args, session)
      local name, number = args:match "^(%S+)%s+(%d+)%s*$"
      if not name then return "wants the name of a lesson and the number of an entry" end
      local lesson, message = require("shell.lesson.find").lesson(name)
      if not lesson then error(message, 0) end
      local _, lines = require("shell.lesson.notebook").check(lesson, math.tointeger(tonumber(number)))
      session.say(table.concat(lines, "\n"))
    end,
  },
}
