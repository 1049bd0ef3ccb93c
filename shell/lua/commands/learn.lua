-- %learn and what belongs to it. %hint, %skip, %play, %back and %reset are heard by the lesson itself; the rows
-- here answer when no lesson is running.
local function only_in_lessons(name, doc)
  return {
    name = name, usage = "%" .. name, doc = doc,
    run = function() error(("%%%s belongs to a lesson; %%learn lists them"):format(name), 0) end,
  }
end

-- All lessons, one line each, with how far they were followed.
local function list(session)
  local find, progress = require "shell.lesson.find", require "shell.lesson.progress"
  local colour, columns, text = require "shell.colour", require "shell.columns", require "shell.text"
  local kept, current = progress.read(), require("shell.lesson.run").current()
  local width, names, following = columns.window() - 1, 0, nil
  for _, lesson in ipairs(find.all()) do names = math.max(names, #lesson.name) end
  for _, lesson in ipairs(find.all()) do
    local p = kept[lesson.name]
    local state = p and p.done and "done" or p and ("%d/%d"):format(p.entry, #lesson.steps) or ""
    if not (p and p.done) then following = following or lesson end
    local head = ("%2d  %s  "):format(lesson.number, lesson.name .. (" "):rep(names - #lesson.name))
    local room = width - #head - 6
    local title = columns.clip(lesson.title, room)
    local mark = lesson.name == current and "note" or p and p.done and "good" or "label"
    session.say(state == "" and head .. title or head .. text.pad(title, math.min(room, 60)) .. " " .. colour(state, mark))
  end
  if following and not current then session.say("%learn " .. following.name .. " begins") end
end

-- The lesson behind the one that was finished last, or the first that is not done.
local function following()
  local find, run = require "shell.lesson.find", require "shell.lesson.run"
  local done = run.finished and find.next(run.finished)
  if done then return done end
  local kept = require("shell.lesson.progress").read()
  for _, lesson in ipairs(find.all()) do
    if not (kept[lesson.name] and kept[lesson.name].done) then return lesson end
  end
end

return {
  {
    name = "learn",
    usage = "%learn [NAME]",
    doc = "Lessons at the prompt: without a name their list, else begin one or go on with it.",
    more = "NAME is a lesson's name, its number, or the path of a file. `%learn NAME 1` begins again\n" ..
      "at entry 1. In a lesson everything works as always, among variables of its own; %hint %skip %play\n" ..
      "%back %reset %next %quit are its own, with or without the %. Its entries stay out of the history\n" ..
      "unless `%learn history on` was said before.",
    example = "%learn shapes",
    run = function(args, session)
      local kept = args:match("^history%s+(%a+)$")
      if kept == "on" or kept == "off" then
        require("shell.lesson.run").keep_history = kept == "on"
        return session.say(kept == "on" and "entries of lessons go into the history" or "entries of lessons stay out of the history")
      end
      local name, from = args:match("^(%S+)%s*(%d*)%s*$")
      if args == "" then return list(session) end
      if not name then return "wants the name of a lesson, and perhaps an entry's number" end
      local lesson, message = require("shell.lesson.find").lesson(name)
      if not lesson then error(message, 0) end
      require("shell.lesson.run").start(lesson, session, math.tointeger(tonumber(from)))
    end,
  },
  only_in_lessons("hint", "In a lesson: the next hint."),
  only_in_lessons("skip", "In a lesson: the answer, and on to the next entry."),
  only_in_lessons("play", "In a lesson: let it wait while you try things; again, or Enter, to go on."),
  only_in_lessons("back", "In a lesson: the entry before."),
  only_in_lessons("reset", "In a lesson: begin it again, with its variables as they were."),
  {
    name = "next", usage = "%next", doc = "The next lesson.",
    run = function(_, session)
      local lesson = following()
      if not lesson then return session.say("all lessons are done; %learn lists them") end
      require("shell.lesson.run").start(lesson, session)
    end,
  },
}
