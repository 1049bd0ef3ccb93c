-- The language of the program's own words: English, or simplified Chinese where LC_ALL, LC_MESSAGES or LANG ask for it or
-- `set` does. Chinese texts stand in catalogues (zh/*.txt), keyed by the English ones, which are read when the first of
-- them is wanted. What has none stays English.
local torch = torch
local language = {names = {en = "English", zh = "中文"}}

---A catalogue as a table, English -> Chinese. In the file, lines of an English text are followed by those of the Chinese
---one, each behind "= "; an empty line ends the pair, and lines that begin with "#" above a pair are remarks.
---@param text string
---@return table<string, string> pairs
---@return string[] order the English texts as they stand
---@return table<string, integer> lines of the English texts
function language.read(text)
  local out, order, lines, key, value, row, began = {}, {}, {}, {}, {}, 0, 0
  local function finish()
    local english = #value > 0 and table.concat(key, "\n")
    if english then
      out[english], lines[english] = table.concat(value, "\n"), began
      order[#order + 1] = english
    end
    key, value = {}, {}
  end
  for line in (text:gsub("\r", "") .. "\n\n"):gmatch "([^\n]*)\n" do
    row = row + 1
    if line == "" then
      finish()
    elseif line:sub(1, 1) == "=" and #key > 0 then
      value[#value + 1] = line:sub(3)
    elseif line:sub(1, 1) ~= "#" or #key > 0 then
      if #key == 0 then began = row end
      key[#key + 1] = line
    end
  end
  return out, order, lines
end

local catalogue          -- of the prompt and of errors, once it was wanted
local of_lessons = {}    -- path of a lesson -> its catalogue
local tables = {}        -- those that are turned with the language
local english = {}       -- table -> key -> its English text

local function in_chinese()
  if catalogue then return catalogue end
  catalogue = {}
  for _, path in ipairs(torch._embedded()) do
    if path:find "^%l+/zh/[^/]+%.txt$" then
      for key, value in pairs(language.read(torch._embedded(path))) do catalogue[key] = value end
    end
  end
  return catalogue
end

---A text of the program's in the language that is spoken.
---@param text string in English
---@return string
function language.text(text)
  if language.current == "en" then return text end
  return in_chinese()[text] or text
end

---A text that is looked up by `text` where it is shown: says to the test of the catalogues that there should be one.
function language.noted(text) return text end

---A remark as a sentence: with a capital, and a mark at its end.
---@param remark string in the language that is spoken
---@return string
function language.sentence(remark)
  if remark:find "[\227-\244]" then
    local ended = remark:find "[%?%.%)]$"
    for _, mark in ipairs {"。", "？", "！", "）"} do ended = ended or remark:sub(-#mark) == mark end
    return remark .. (ended and "" or "。")
  end
  return remark:sub(1, 1):upper() .. remark:sub(2) .. (remark:find "[%?%.%)]$" and "" or ".")
end

---Two texts side by side: with a blank between them, except behind a full-width mark.
function language.beside(left, right)
  local shown = left:gsub("\27%[[%d;]*m", "")
  return left .. (shown:find "[%z\1-\127]$" and " " or "") .. right
end

---The path of the catalogue of a lesson of the program's.
---@param path string "tutorials/tensors/views.lua"
---@return string
function language.catalogue_of(path) return (path:gsub("^tutorials/", "tutorials/zh/"):gsub("%.lua$", ".txt")) end

---A text of a lesson in the language that is spoken.
---@param text string in English
---@param path string of the lesson, inside the program
---@return string
function language.of_lesson(text, path)
  if language.current == "en" then return text end
  local texts = of_lessons[path]
  if not texts then
    local file = path:find "^tutorials/" and torch._embedded(language.catalogue_of(path))
    texts = file and language.read(file) or {}
    of_lessons[path] = texts
  end
  return texts[text] or text
end

local function turn(list)
  english[list] = english[list] or {}
  local own = english[list]
  for key, value in next, list do
    if type(value) == "table" then
      turn(value)
    elseif type(value) == "string" then
      own[key] = own[key] or value
      list[key] = language.text(own[key])
    end
  end
end

---Texts in a table, and in the tables inside, which are in the language that is spoken from now on.
---@generic T: table
---@param list T
---@return T
function language.of_table(list)
  tables[#tables + 1] = list
  if language.current ~= "en" then turn(list) end
  return list
end

---Which language is spoken from now on.
---@param name string "en" or "zh"
function language.set(name)
  if not language.names[name] then error(('no language "%s"; there are en and zh'):format(tostring(name)), 0) end
  if name == language.current then return end
  language.current = name
  for _, list in ipairs(tables) do turn(list) end
end

---The language that the environment asks for; that of a charset which is not UTF-8 cannot be shown.
---@return string
function language.of_environment()
  for _, variable in ipairs {"LC_ALL", "LC_MESSAGES", "LANG"} do
    local value = os.getenv(variable)
    if value and value ~= "" then
      local charset = value:lower():match "%.([%w%-]*)"
      local shown = not charset or charset:find "^utf%-?8$"
      return value:lower():find "^zh" and shown and "zh" or "en"
    end
  end
  return "en"
end

language.current = language.of_environment()
return language
