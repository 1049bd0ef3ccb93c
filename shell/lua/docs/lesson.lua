-- A lesson as a page of the reference site: hints and answers are folded away.
local html = require "shell.html"
local escape, inline = html.escape, html.inline
local page = {}

local function paragraphs(list)
  local out, verbatim = {}, {}
  local function flush()
    if #verbatim > 0 then out[#out + 1] = "<pre>" .. escape(table.concat(verbatim, "\n")) .. "</pre>" end
    verbatim = {}
  end
  for _, p in ipairs(list or {}) do
    if p.verbatim then
      verbatim[#verbatim + 1] = p.text
    else
      flush()
      out[#out + 1] = "<p>" .. inline(p.text) .. "</p>"
    end
  end
  flush()
  return table.concat(out, "\n")
end

local function folded(title, body) return ("<details><summary>%s</summary>%s</details>"):format(title, body) end
local function code(text) return "<pre>" .. html.code(text) .. "</pre>" end

local function question(q, out)
  if q.kind == "predict" then
    out[#out + 1] = "<p><strong>" .. inline(q.ask or "What will this give?") .. "</strong></p>" .. code(q.expression)
  else
    out[#out + 1] = ("<p><strong>%s</strong></p>"):format(q.kind == "task" and "Your turn" or "Try it") .. paragraphs(q.text)
  end
  if q.starter then out[#out + 1] = code(q.starter.text) end
  for i, hint in ipairs(q.hints or {}) do out[#out + 1] = folded(#q.hints > 1 and "Hint " .. i or "Hint", "<p>" .. inline(hint) .. "</p>") end
  local answer = q.kind == "predict" and "<pre>" .. escape(q.answer) .. "</pre>" or q.answer and code(q.answer.text)
  if answer then out[#out + 1] = folded("Answer", answer .. paragraphs(q.why)) end
end

page.paragraphs, page.code = paragraphs, code

---@param lesson table as parse.lesson gives it
---@return string
function page.html(lesson)
  local out = {('<p class="soft">At the prompt, <code>tycho learn %s</code> asks these questions and checks the answers.</p>'):format(escape(lesson.name))}
  for _, step in ipairs(lesson.steps) do
    out[#out + 1] = ('<h2 id="entry-%d" class="soft">%d</h2>'):format(step.number, step.number)
    out[#out + 1] = paragraphs(step.say)
    if step.code then out[#out + 1] = code(step.code.text) end
    if step.question then question(step.question, out) end
    if step.after then out[#out + 1] = code(step.after.text) end
  end
  return table.concat(out, "\n")
end

return page
