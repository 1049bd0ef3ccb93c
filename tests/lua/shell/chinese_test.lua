-- The Chinese texts: none is stale, all say what the English ones say as far as a program can tell (code, placeholders,
-- numbers, answers), and what has none is named. Also Chinese on the screen: widths, breaking lines, help by Chinese words.
local columns = require "torch.columns"
local language = require "torch.language"
local spoken = language.current
language.set "en"
local find = require "shell.lesson.find"
local speak = require "shell.lesson.speak"
package.path = "tests/lua/shell/?.lua;" .. package.path
local texts = require "chinese.texts"

local function pieces(text, pattern)
  local out = {}
  for piece in text:gmatch(pattern) do out[#out + 1] = piece end
  return out
end

local function counted(text, pattern)
  local out = pieces(text, pattern)
  table.sort(out)
  return table.concat(out, " ")
end

-- What makes the Chinese text another one than the English, or nil.
local function difference(english, chinese)
  if counted(english, "`[^`]*`") ~= counted(chinese, "`[^`]*`") then return "other code" end
  local bare, other = english:gsub("`[^`]*`", ""), chinese:gsub("`[^`]*`", "")
  if table.concat(pieces(bare, "%%[%-%d%.]*[%a%%]"), " ") ~= table.concat(pieces(other, "%%[%-%d%.]*[%a%%]"), " ") then return "other placeholders or commands" end
  if counted(bare, "{%w+}") ~= counted(other, "{%w+}") then return "other names in braces" end
  local numbers = {}
  for number in other:gmatch "%d+" do numbers[number] = (numbers[number] or 0) + 1 end
  for number in bare:gmatch "%d+" do
    if (numbers[number] or 0) == 0 then return "the number " .. number .. " is missing" end
    numbers[number] = numbers[number] - 1
  end
  if not chinese:find "[\227-\233]" and english == chinese then return nil end
  if chinese:find "[%a\227-\233],%s*[\227-\233]" or chinese:find "[\228-\233][\128-\191][\128-\191],[^%d]" then return "a comma of Latin letters" end
end

local function fail_with(list) check.equal(table.concat(list, "\n"), "") end

test("every Chinese text of the program belongs to an English one, with the same code, placeholders and numbers", function()
  local _, places = texts.of_program()
  local further, bad = texts.further(), {}
  local have, at = texts.catalogue()
  for _, each in ipairs(at) do
    local wrong = not places[each.text] and not further[each.text] and "stale: no English text is so any more" or difference(each.text, have[each.text])
    if wrong then bad[#bad + 1] = ("%s:%d: %s: %s"):format(each.path, each.line, wrong, each.text:match "^[^\n]*") end
  end
  fail_with(bad)
end)

test("every Chinese text of a lesson belongs to an English one of it, with the same code and numbers", function()
  local bad = {}
  for _, lesson in ipairs(find.all()) do
    local path = language.catalogue_of(lesson.path)
    local file = torch._embedded(path)
    if file then
      local wanted = {}
      for _, list in ipairs {texts.of_lesson(lesson)} do
        for _, text in ipairs(list) do wanted[text] = true end
      end
      local chinese, order, lines = language.read(file)
      for _, text in ipairs(order) do
        local wrong = not wanted[text] and "stale: no English text is so any more" or difference(text, chinese[text])
        if wrong then bad[#bad + 1] = ("%s:%d: %s: %s"):format(path, lines[text], wrong, text) end
      end
    end
  end
  fail_with(bad)
end)

test("catalogues belong to lessons", function()
  local known = {}
  for _, lesson in ipairs(find.all()) do known[language.catalogue_of(lesson.path)] = true end
  for _, path in ipairs(torch._embedded()) do
    if path:find "^tutorials/zh/.+/" then check.yes(known[path], path) end
  end
end)

-- No failure: a lesson may be written today and be translated tomorrow.
test("what has no Chinese text is named", function()
  local list, places = texts.of_program()
  local have, lines = texts.catalogue(), {}
  for _, text in ipairs(list) do
    if not have[text] then lines[#lines + 1] = ("%s: %s"):format(places[text], (text:gsub("\n", " "):sub(1, 90))) end
  end
  for _, lesson in ipairs(find.all()) do
    local file = torch._embedded(language.catalogue_of(lesson.path))
    local chinese, missing = file and language.read(file) or {}, 0
    for _, text in ipairs((texts.of_lesson(lesson))) do
      if not chinese[text] then missing = missing + 1 end
    end
    if missing > 0 then lines[#lines + 1] = ("%s: %d texts"):format(lesson.path, missing) end
  end
  for _, line in ipairs(lines) do print("no Chinese: " .. line) end
end)

test("a lesson in Chinese has the code, the questions and the answers of the English one", function()
  local lesson = find.lesson "broadcasting"
  language.set "zh"
  local chinese = speak(lesson)
  language.set "en"
  check.equal(#chinese.steps, #lesson.steps)
  local turned = 0
  for i, step in ipairs(lesson.steps) do
    local other = chinese.steps[i]
    check.yes(rawequal(other.code, step.code) and rawequal(other.after, step.after))
    for _, key in ipairs {"kind", "expression", "answer", "spec", "tries", "allow", "forbid", "starter"} do
      check.yes(rawequal((other.question or {})[key], (step.question or {})[key]), key)
    end
    for k, w in ipairs(step.question and step.question.wrong or {}) do check.equal(other.question.wrong[k].answer, w.answer) end
    if step.say[1] and other.say[1].text ~= step.say[1].text then turned = turned + 1 end
  end
  check.equal(turned, #lesson.steps)
  check.yes(rawequal(speak(chinese), lesson))
end)

test("the environment chooses the language, and %lang another one", function()
  local function asked(env, input)
    local all = {LC_ALL = "", LC_MESSAGES = "", LANG = ""}
    for key, value in next, env do all[key] = value end
    return check.tycho({}, {stdin = input or "%lang\n", env = all}).out
  end
  check.contains(asked {LANG = "zh_CN.UTF-8"}, "中文")
  check.contains(asked {LC_ALL = "zh_TW", LANG = "de_DE.UTF-8"}, "中文")
  check.contains(asked {LANG = "C.UTF-8"}, "English")
  check.contains(asked {LC_ALL = "C.UTF-8", LANG = "zh_CN.UTF-8"}, "English")
  check.contains(asked {LANG = "zh_CN.GBK"}, "English")
  local out = asked({}, "%lang zh\n%lang\n%explain SHAPE-2\n%lang en\n%lang\n%explain SHAPE-2\n")
  check.contains(out, "中文")
  check.contains(out, "右")
  check.contains(out, "from the right")
end)

test("an error and a full-width mark are explained in Chinese, in scripts too", function()
  local path = check.temp "marks.lua"
  local file <close> = io.open(path, "w")
  file:write "x = torch.zeros（2，3）\n"
  file:flush()
  local err = check.tycho({path}, {env = {LC_ALL = "zh_CN.UTF-8"}}).err
  check.contains(err, "全角")
  check.contains(err, "torch.zeros(2,3)")
end)

test("Chinese words find pages of help", function()
  local help = require "shell.help"
  check.contains(help.page "广播", "broadcasting")
  check.contains(help.page "反向传播", "backward")
  check.contains(help.page "/卷积", "Conv")
  check.contains(help.page "天气", "no help for")
  local catalog = require "shell.help.catalog"
  for _, word in ipairs {"广播", "张量", "自动求导", "梯度", "形状", "数据类型", "反向传播", "优化器", "学习率", "数据集"} do
    for _, path in ipairs(require "shell.help.aliases_zh"(word)) do check.yes(catalog.find(path)[1], path) end
  end
end)

test("wide characters take two columns, and lines break between them but not before their marks", function()
  check.equal(columns.of "张量ab（）", 10)
  check.equal(columns.folded("形状从右边对齐，大小为1的维度会被拉伸。", 12), {"形状从右边对", "齐，大小为1", "的维度会被拉", "伸。"})
  check.equal(columns.folded("先看 `x:view(2, 3)` 的形状", 16), {"先看", "`x:view(2, 3)`", "的形状"})
  check.equal(columns.folded("plain words as ever", 11), {"plain words", "as ever"})
  for _, line in ipairs(columns.folded("（甲）“乙”：丙，丁；戊。己、庚！辛？", 6)) do
    for _, mark in ipairs {"，", "。", "；", "：", "、", "！", "？", "）", "”"} do check.no(line:sub(1, #mark) == mark, line) end
    check.yes(columns.of(line) <= 6, line)
  end
end)

language.set(spoken)
