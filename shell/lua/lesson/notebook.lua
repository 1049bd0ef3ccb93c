-- `tycho learn --notebook LESSON [FILE]`: a lesson as a notebook for Jupyter: its texts and questions as
-- text, its code as cells, hints and answers folded away.
local json = require "torch.json"
local notebook = {}

local function object(list) return {pairs = list} end

-- Paragraphs of a lesson as Markdown.
local function paragraphs(list)
  local out = {}
  for i, p in ipairs(list or {}) do
    local last = list[i - 1]
    if i > 1 and not (p.verbatim and last.verbatim) then out[#out + 1] = "" end
    out[#out + 1] = p.verbatim and "    " .. p.text:gsub("^  ", "") or p.text
  end
  return table.concat(out, "\n")
end

local escapes = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;"}
local function code(text) return "<code>" .. text:gsub("[&<>]", escapes) .. "</code>" end

local function folded(title, body) return ("<details><summary>%s</summary>\n\n%s\n\n</details>"):format(title, body) end
local function lua(text) return "```lua\n" .. text .. "\n```" end

-- A question's text, its hints and its answer.
local function question_text(q)
  local out = {}
  if q.kind == "predict" then
    out[1] = ("**What will this give?** %s"):format(q.ask or "Think first, then run the next cell.") .. "\n\n" .. lua(q.expression)
  else
    out[1] = (q.kind == "task" and "**Your turn.** " or "**Try it.** ") .. paragraphs(q.text)
  end
  if q.allow and #q.allow > 0 then out[#out + 1] = "Allowed: " .. code(table.concat(q.allow, " ")) end
  for i, hint in ipairs(q.hints or {}) do out[#out + 1] = folded(#q.hints > 1 and "Hint " .. i or "Hint", hint) end
  if q.kind == "predict" then
    out[#out + 1] = folded("Answer", code(q.answer) .. (q.why and "\n\n" .. paragraphs(q.why) or ""))
  elseif q.answer then
    out[#out + 1] = folded("One answer", lua(q.answer.text) .. (q.why and "\n\n" .. paragraphs(q.why) or ""))
  end
  return table.concat(out, "\n\n")
end

-- Lines for a cell that try a task's answer on the cases that the lesson tries: the same as at the prompt.
local function trial(q, lesson, step)
  if q.kind ~= "task" or not q.spec then return nil end
  return ("-- %%learn %s %d checks your answer on many inputs"):format(lesson.name, step.number)
end

---The notebook of a lesson as JSON text.
---@param lesson table as parse.lesson gives it
---@return string
function notebook.text(lesson)
  local cells = {}
  local function add(kind, text)
    local fields = {{"cell_type", kind}, {"id", ("cell-%d"):format(#cells + 1)}, {"metadata", object {}}}
    if kind == "code" then
      fields[#fields + 1] = {"execution_count", json.null}
      fields[#fields + 1] = {"outputs", {}}
    end
    fields[#fields + 1] = {"source", text}
    cells[#cells + 1] = object(fields)
  end
  add("markdown", ("# %s\n\nRun the cells from the top; think before you run. At the prompt, `tycho learn %s` asks the same questions and checks the answers."):format(lesson.title, lesson.name))
  for _, step in ipairs(lesson.steps) do
    local words = {}
    for i, name in ipairs(step.new or {}) do words[i] = "`" .. name .. "`" end
    local said = paragraphs(step.say)
    if #words > 0 then said = said .. ("\n\nNew: %s (`?%s` tells more)"):format(table.concat(words, ", "), step.new[1]) end
    if said:find "%S" then add("markdown", said) end
    if step.code then add("code", step.code.text) end
    local q = step.question
    if q then
      add("markdown", question_text(q))
      if q.kind == "predict" then
        add("code", q.expression)
      else
        local start = q.starter and q.starter.text or ""
        add("code", (start .. "\n" .. (trial(q, lesson, step) or "")):gsub("^\n", ""):gsub("\n$", ""))
      end
    end
    if step.after then add("code", step.after.text) end
  end
  local spec = object {{"display_name", "Tycho"}, {"language", "lua"}, {"name", "tycho"}}
  local language = object {{"name", "lua"}, {"file_extension", ".lua"}, {"mimetype", "text/x-lua"}}
  return json.write(object {{"cells", cells}, {"metadata", object {{"kernelspec", spec}, {"language_info", language}}}, {"nbformat", 4}, {"nbformat_minor", 5}}) .. "\n"
end

---`tycho learn --notebook LESSON [FILE]`.
---@return integer status
function notebook.main(name, path)
  if not name or name:find "^%-" then
    io.stderr:write "tycho: learn --notebook wants the name of a lesson, and perhaps a file: tycho learn --notebook shapes shapes.ipynb\n"
    return 1
  end
  local lesson, message = require("shell.lesson.find").lesson(name)
  if not lesson then
    io.stderr:write("tycho: ", message, "\n")
    return 1
  end
  path = path or lesson.name .. ".ipynb"
  local ok, failure = pcall(torch._write_text, path, notebook.text(lesson))
  if not ok then
    io.stderr:write("tycho: ", tostring(failure), "\n")
    return 1
  end
  print(("%s: %s; tycho kernel --install lets jupyter run it"):format(path, lesson.title))
  return 0
end

return notebook
