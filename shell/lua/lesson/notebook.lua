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

-- The answer as a cell that acts where the names that it makes are not there: what follows goes on without it.
local function stand_in(answer)
  local entry = require "shell.entry"
  local names, tests = entry.assigned(entry.tokens(answer)), {}
  for i, name in ipairs(names) do tests[i] = ('rawget(_G, "%s") == nil'):format(name) end
  if #tests == 0 or ("\n" .. answer):find "\nlocal%f[%s]" then return nil end
  local text = ("if %s then  -- an answer, for who goes on without one\n%s\nend"):format(table.concat(tests, " or "), answer)
  return load(text) and text or nil
end

---Checks the function that stands in a task's name as the lesson does; for notebooks: `%solved LESSON ENTRY`.
---@param lesson table
---@param number integer of the entry
---@return boolean right
---@return string[] lines
function notebook.check(lesson, number)
  local step = lesson.steps[number]
  local q = step and step.question
  if not (q and q.kind == "task" and q.spec.parameters) then error(("entry %d of %s is no task for a function"):format(number, lesson.name), 0) end
  local f = rawget(_G, q.spec.name)
  if type(f) ~= "function" then return false, {("not yet: there is no function %s"):format(q.spec.name)} end
  return require("shell.lesson.task").check_function(q, lesson.path, _G, f)
end

---The notebook of a lesson as JSON text.
---@param lesson table as parse.lesson gives it
---@return string
function notebook.text(lesson)
  local cells = {}
  local function add(kind, text, hidden)
    local looks = object(hidden and {{"jupyter", object {{"source_hidden", true}}}} or {})
    local fields = {{"cell_type", kind}, {"id", ("cell-%d"):format(#cells + 1)}, {"metadata", looks}}
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
        add("code", q.starter and q.starter.text or "")
        if q.kind == "task" and q.spec.parameters then add("code", ("%%solved %s %d"):format(lesson.name, step.number)) end
        local answer = q.answer and stand_in(q.answer.text)
        if answer then add("code", answer, true) end
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
  lesson = require "shell.lesson.speak"(lesson)
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
