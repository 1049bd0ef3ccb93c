-- %explain: the rule behind an error, on the sizes of the last one, and the lesson that teaches it.
local T = require("torch.language").text
local function say_lesson(code, session)
  local lesson = require("shell.lesson.find").explaining(code)
  if lesson then session.say(T("%%learn %s teaches it"):format(lesson.name)) end
end

local function explain(args, session)
  local module = require "torch.explain"
  local words = require("torch.messages").words
  local window = torch._terminal()
  local looks = {colour = require "shell.colour", width = window.terminal and window.columns >= 20 and window.columns or nil}
  local code = args:upper():match("^%s*(.-)%s*$")
  local last = session.last_error and session.last_error.error
  local object = last and module.object(last)
  if code == "" or (object and object.code == code) then
    if not object then
      if last then return session.say(module.report(last, looks)) end
      return session.say(words.no_error .. "\n  " .. table.concat(module.codes(), "  "))
    end
    session.say(module.long(object, looks))
    return say_lesson(object.code, session)
  end
  local text = module.rule(code, looks)
  if not text then return words.no_code:format(code, table.concat(module.codes(), "  ")) end
  session.say(text)
  say_lesson(code, session)
end

return {
  {
    name = "explain",
    usage = "%explain [CODE]",
    doc = "The rule behind the last error, or behind a code such as SHAPE-1, with an example.",
    example = "%explain SHAPE-2",
    run = explain,
  },
}
