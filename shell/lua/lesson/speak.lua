-- A lesson in the language that is spoken: its texts are those of its catalogue, its code and its answers as they stand.
local language = require "torch.language"

---@param lesson table of `find`, or what this gave of one
---@return table lesson with the same fields
return function(lesson)
  lesson = lesson.english or lesson
  if language.current == "en" then return lesson end
  local function say(text) return text and language.of_lesson(text, lesson.path) end
  local function copy(of, changes) return setmetatable(changes, {__index = of}) end
  local function each(list, change)
    local out = list and {}
    for i, item in ipairs(list or {}) do out[i] = change(item) end
    return out
  end
  local function paragraph(p) return {text = say(p.text), verbatim = p.verbatim} end
  local steps = each(lesson.steps, function(step)
    local q = step.question
    return copy(step, {say = each(step.say, paragraph), question = q and copy(q, {
      text = each(q.text, paragraph), why = each(q.why, paragraph), hints = each(q.hints, say), ask = say(q.ask),
      wrong = each(q.wrong, function(w) return {answer = w.answer, remark = say(w.remark), line = w.line} end),
    })})
  end)
  return copy(lesson, {english = lesson, title = language.text(lesson.title), steps = steps})
end
