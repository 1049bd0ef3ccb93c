-- All texts of the program that may be shown in Chinese, in English: what T"..." and N"..." mark in the sources, tables of
-- texts, the commands' and the topics' help, and lessons. Run as a script it lists those that have no Chinese text.
local language = require "torch.language"
local texts = {}

-- A text with words in it; the rest is the same in every language.
local function has_words(text)
  return text:gsub("`[^`]*`", ""):gsub("{%w+}", ""):gsub("%%[%-%d%.]*%a", ""):find "%l%l" ~= nil
end

-- Strings behind T and N in a source; those of columns' heads in one of the commands.
local function marked(source, add, heads)
  local tokens = {}
  for _, token in ipairs(torch._lex(source)) do
    if token.kind ~= "space" and token.kind ~= "comment" then tokens[#tokens + 1] = {kind = token.kind, text = source:sub(token.first, token.last)} end
  end
  for i, token in ipairs(tokens) do
    local value = tokens[i + 1]
    if value and value.text == "(" then value = tokens[i + 2] end
    if token.kind == "name" and (token.text == "T" or token.text == "N") and value and value.kind == "string" then
      add(load("return " .. value.text)())
    elseif token.text == "title" and value and value.text == "=" and tokens[i + 2].kind == "string" and heads and has_words(tokens[i + 2].text) then
      add(load("return " .. tokens[i + 2].text)())
    end
  end
end

local code = {example = true, kind = true, once = true}
local function table_texts(list, add)
  for key, value in next, list do
    if type(value) == "table" then
      table_texts(value, add)
    elseif type(value) == "string" and not code[key] and has_words(value) then
      add(value)
    end
  end
end

-- What `?` and the commands show, row by row.
local function help_texts(add)
  local commands = require "shell.commands"
  for _, name in ipairs(commands.names()) do
    local row = commands.find(name)
    add(row.doc)
    if row.more then add(row.more) end
  end
  for _, key in ipairs(require("shell.native").keys()) do add(key.does) end
  for _, group in ipairs(commands.groups) do add(group[1]) end
  add "more"
  for _, topic in ipairs(require("shell.help.topics").topics) do
    add(topic[2])
    if type(topic[3]) == "string" then add(topic[3]) end
  end
end

---The texts that should be there: a list, and text -> where it stands.
---@return string[] list
---@return table<string, string> places
function texts.of_program()
  assert(language.current == "en")
  local list, places, where = {}, {}, nil
  local function add(text)
    if places[text] then return end
    places[text] = where
    list[#list + 1] = text
  end
  for _, path in ipairs(torch._embedded()) do
    where = path
    if path:find "^%l+/.*%.lua$" and not path:find "^tutorials/" then marked(torch._embedded(path), add, path:find "^shell/commands/") end
  end
  where = "torch/messages.lua"
  table_texts(require "torch.messages", add)
  where = "torch/notes/texts.lua"
  table_texts(require "torch.notes.texts", add)
  where = "torch/foreign/words.lua"
  table_texts(require("torch.foreign.words").remarks, add)
  where = "help"
  help_texts(add)
  where = "titles"
  for _, chapter in ipairs(require("shell.lesson.course").inside().chapters) do
    add(chapter.title)
    for _, lesson in ipairs(chapter.lessons) do add(lesson.title) end
  end
  return list, places
end

---Texts that may be translated but need not be: the sentences of operations, functions and Lua.
---@return table<string, boolean>
function texts.further()
  local out = {}
  for _, entry in ipairs(require("shell.help.catalog").entries()) do
    out[entry.doc or ""] = true
    for _, s in ipairs(entry.record and entry.record.signatures or {}) do out[s.doc], out[s.rule] = true, true end
    if entry.row and entry.row.rule then out[entry.row.rule] = true end
  end
  return out
end

---The texts of a lesson in their order; drawings, which need no other language, as the second list.
---@param lesson table
---@return string[], string[]
function texts.of_lesson(lesson)
  local list, drawn, seen = {}, {}, {}
  local function add(text)
    if text and not seen[text] then
      seen[text] = true
      list[#list + 1] = text
    end
  end
  local function paragraphs(of)
    for _, p in ipairs(of or {}) do
      if p.verbatim then drawn[#drawn + 1] = p.text elseif has_words(p.text) then add(p.text) end
    end
  end
  for _, step in ipairs(lesson.steps) do
    paragraphs(step.say)
    local q = step.question
    if q then
      if q.kind ~= "predict" then paragraphs(q.text) end
      add(q.ask)
      for _, w in ipairs(q.wrong or {}) do add(w.remark) end
      for _, hint in ipairs(q.hints or {}) do
        if has_words(hint) then add(hint) else drawn[#drawn + 1] = hint end
      end
      paragraphs(q.why)
    end
  end
  return list, drawn
end

---The program's catalogue, and where each of its texts stands.
---@return table<string, string> pairs
---@return {path: string, line: integer, text: string}[] places
function texts.catalogue()
  local all, places = {}, {}
  for _, path in ipairs(torch._embedded()) do
    if path:find "^%l+/zh/[^/]+%.txt$" then
      local pairs_, order, lines = language.read(torch._embedded(path))
      for _, text in ipairs(order) do
        all[text] = pairs_[text]
        places[#places + 1] = {path = path, line = lines[text], text = text}
      end
    end
  end
  return all, places
end

if not ... or arg and arg[0]:find "texts%.lua$" then
  language.set "en"
  local have = texts.catalogue()
  local list, places = texts.of_program()
  for _, text in ipairs(list) do
    if not have[text] then print(("# %s\n%s\n"):format(places[text], text)) end
  end
end
return texts
