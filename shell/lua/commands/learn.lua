-- %learn and what belongs to it. %hint, %skip, %play, %back and %reset are heard by the lesson itself; the rows
-- here answer when no lesson is running.
local text = require "shell.text"
local T = require("torch.language").text

local function title(of) return T(of.title) end
local function only_in_lessons(name, doc)
  return {
    name = name, usage = "%" .. name, doc = doc,
    run = function() error(T("%%%s belongs to a lesson; %%learn lists them"):format(name), 0) end,
  }
end

-- One line: number, name, title, and how far it was followed.
local function lesson_line(session, lesson, p, names, current)
  local colour, columns = require "shell.colour", require "shell.columns"
  local state = p and p.done and T"done" or p and ("%d/%d"):format(p.entry, p.of) or ""
  local head = ("%4d  %s  "):format(lesson.place, lesson.name .. (" "):rep(names - #lesson.name))
  local room = columns.window() - 1 - #head - 6
  local title = columns.clip(title(lesson), room)
  local mark = lesson.key == current and "note" or p and p.done and "good" or "label"
  session.say(state == "" and head .. title or head .. text.pad(title, math.min(room, 60)) .. " " .. colour(state, mark))
end

local function followed(chapter, kept)
  local done, begun = 0, false
  for _, lesson in ipairs(chapter.lessons) do
    local p = kept[lesson.key]
    if p and p.done then done = done + 1 end
    begun = begun or p ~= nil
  end
  return done, begun
end

-- The chapters with how far each was followed; the lessons of the one that comes next, of the one that is asked for,
-- or of all.
local function list(session, wanted)
  local find, progress = require "shell.lesson.find", require "shell.lesson.progress"
  local colour = require "shell.colour"
  local kept, running = progress.read(), require("shell.lesson.run")
  local current = running.current()
  local course = find.course()
  local following = find.unfinished(kept, running.finished)
  for _, lesson in ipairs(course.lessons) do
    if lesson.key == current then following = lesson end
  end
  local open = wanted or following and following.chapter or course.chapters[1]
  local names, titles = 0, 0
  for _, chapter in ipairs(course.chapters) do
    titles = math.max(titles, text.width(title(chapter)))
    if wanted == "all" or chapter == open then
      for _, lesson in ipairs(chapter.lessons) do names = math.max(names, #lesson.name) end
    end
  end
  for _, chapter in ipairs(course.chapters) do
    if type(wanted) ~= "table" or chapter == wanted then
      local done, begun = followed(chapter, kept)
      local all = done == #chapter.lessons
      local state = all and T"done" or T("%d of %d done"):format(done, #chapter.lessons)
      session.say(colour(title(chapter), "heading") .. (" "):rep(titles - text.width(title(chapter)) + 3) ..
        colour(state, all and "good" or begun and "label" or "faint") ..
        colour(wanted == "all" and "" or chapter ~= open and T("   %%learn %s"):format(chapter.name) or "", "faint"))
      if wanted == "all" or chapter == open then
        for _, lesson in ipairs(chapter.lessons) do lesson_line(session, lesson, kept[lesson.key], names, current) end
      end
    end
  end
  if following and not current then
    session.say(T("%%learn %s %s"):format(following.name, kept[following.key] and T"goes on" or T"comes next"))
  elseif not following then
    session.say(T"all lessons are done")
  end
end

return {
  {
    name = "learn",
    usage = "%learn [NAME]",
    doc = "Lessons at the prompt: without a name the chapters, else begin a lesson or go on with it.",
    more = "NAME is a lesson's name, its number, or the path of a file; that of a chapter lists its lessons,\n" ..
      "`%learn all` lists all. `%learn NAME 1` begins again\n" ..
      "at entry 1. In a lesson everything works as always, among variables of its own; %hint %skip %play\n" ..
      "%back %reset %next %quit are its own, with or without the %. Its entries stay out of the history\n" ..
      "unless `%learn history on` was said before.",
    example = "%learn shapes",
    run = function(args, session)
      local kept = args:match("^history%s+(%a+)$")
      if kept == "on" or kept == "off" then
        require("shell.lesson.run").keep_history = kept == "on"
        return session.say(kept == "on" and T"entries of lessons go into the history" or T"entries of lessons stay out of the history")
      end
      local name, from = args:match("^(%S+)%s*(%d*)%s*$")
      if args == "" then return list(session) end
      if not name then return T"wants the name of a lesson, and perhaps an entry's number" end
      local find = require "shell.lesson.find"
      if name == "all" then return list(session, "all") end
      local lesson, message = find.lesson(name)
      local chapter = not (lesson and lesson.name == name) and find.chapter(name)
      if chapter then return list(session, chapter) end
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
      local find, run = require "shell.lesson.find", require "shell.lesson.run"
      local lesson = find.unfinished(require("shell.lesson.progress").read(), run.finished)
      if not lesson then return session.say(T"all lessons are done; %learn lists them") end
      run.start(lesson, session)
    end,
  },
}
