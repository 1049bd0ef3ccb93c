-- `tycho learn --sheet LESSON [FILE.html]`: a lesson on paper, once with room for answers and once with them.
local find = require "shell.lesson.find"
local html = require "shell.html"
local page = require "shell.docs.lesson"
local language = require "torch.language"
local T = language.text

local sheet = {}

local STYLE = [[
@page { size: A4; margin: 18mm 16mm; }
body { font: 11pt/1.4 Georgia, serif; color: #000; background: #fff; max-width: 44em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 17pt; margin: 0 0 .3em; }
header p { display: flex; gap: 2em; margin: 0 0 1.5em; }
header span { flex: 1; border-bottom: 1px solid #777; }
section { break-inside: avoid; margin: 0 0 1.1em; padding-left: 2.2em; position: relative; }
section > b.n { position: absolute; left: 0; }
p { margin: .3em 0; }
pre, code { font: 9.5pt/1.35 "DejaVu Sans Mono", monospace; }
pre { background: #f3f3f3; padding: .4em .7em; margin: .4em 0; white-space: pre-wrap; }
.q { font-weight: bold; }
.line { border-bottom: 1px solid #999; height: 1.9em; }
.answer { border-left: 3px solid #555; padding-left: .8em; }
.k { font-weight: bold; } .c { color: #555; }
@media print { body { margin: 0; padding: 0; max-width: none; } pre { border: 1px solid #ccc; background: none; } }
]]

local function room(lines)
  return ('<div class="line"></div>'):rep(lines)
end

local function question(q, with_answers, out)
  if q.kind == "predict" then
    local asked = q.ask or require("shell.lesson.grade").question(q.expression)
    out[#out + 1] = '<p class="q">' .. html.inline((asked:gsub("^%l", string.upper))) .. "</p>"
  elseif q.kind == "task" then
    out[#out + 1] = '<div class="q">' .. page.paragraphs(q.text) .. "</div>"
    if q.starter then out[#out + 1] = page.code(q.starter.text) end
  else
    return  -- an invitation to play needs the program
  end
  if with_answers then
    local answer = q.kind == "predict" and page.code(q.answer) or page.code(q.answer.text)
    out[#out + 1] = '<div class="answer">' .. answer .. page.paragraphs(q.why) .. "</div>"
  else
    local lines = q.kind == "predict" and 1 or select(2, q.answer.text:gsub("\n", "\n")) + 2
    out[#out + 1] = room(lines)
  end
end

--- One page of HTML.
---@param lesson table
---@param with_answers boolean
---@return string
function sheet.html(lesson, with_answers)
  local title = html.escape(lesson.title)
  local out = {
    '<!DOCTYPE html>\n<html lang="' .. language.current .. '"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    "<title>" .. title .. (with_answers and T": answers" or "") .. "</title><style>" .. STYLE .. "</style></head><body>",
    "<header><h1>" .. title .. (with_answers and T" <small>(answers)</small>" or "") .. "</h1>",
    (with_answers and "" or T"<p>Name: <span></span> Date: <span></span></p>") .. "</header>",
  }
  for _, step in ipairs(lesson.steps) do
    out[#out + 1] = ('<section><b class="n">%d</b>'):format(step.number)
    out[#out + 1] = page.paragraphs(step.say)
    if step.code then out[#out + 1] = page.code(step.code.text) end
    if step.question then question(step.question, with_answers, out) end
    -- What is run after the answer would give it away.
    if step.after and with_answers then out[#out + 1] = page.code(step.after.text) end
    out[#out + 1] = "</section>"
  end
  out[#out + 1] = "</body></html>\n"
  return table.concat(out, "\n")
end

--- Writes both; the exit status.
---@param name string
---@param path? string
---@return integer
function sheet.main(name, path)
  local function fail(text)
    io.stderr:write("tycho: ", text, "\n")
    return 1
  end
  if not name then return fail "--sheet wants the name of a lesson; `tycho learn all` lists them" end
  local lesson, message = find.lesson(name)
  if not lesson then return fail(message) end
  lesson = require "shell.lesson.speak"(lesson)
  path = path or lesson.name .. ".html"
  local base = path:match "^(.*)%.html?$"
  if not base then return fail(path .. ": the file's name must end in .html") end
  for _, each in ipairs {{path, false}, {base .. "-answers.html", true}} do
    local file, why = io.open(each[1], "wb")
    if not file then return fail(why) end
    local ok, failed = file:write(sheet.html(lesson, each[2]))
    if ok then ok, failed = file:close() end
    if not ok then return fail(each[1] .. ": " .. failed) end
    print(each[1])
  end
  return 0
end

return sheet
