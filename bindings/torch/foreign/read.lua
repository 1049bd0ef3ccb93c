-- Python read as tokens, by logical lines: what stands in brackets or behind a backslash belongs to the line before.
-- Lines that are half Lua already are read too, since that is how people type who change from one to the other, and
-- punctuation of East Asian keyboards is read as what it stands for.
local read = {}

local full_width = {["，"] = ",", ["（"] = "(", ["）"] = ")", ["：" ] = ":", ["；"] = ";", ["“"] = '"', ["”"] = '"', ["‘"] = "'", ["’"] = "'",
  ["　"] = " ", ["。"] = ".", ["、"] = ",", ["【"] = "[", ["】"] = "]", ["「"] = '"', ["」"] = '"', ["…"] = "...", ["×"] = "*", ["÷"] = "/",
  ["≠"] = "~=", ["≤"] = "<=", ["≥"] = ">=", ["－"] = "-", ["—"] = "-", ["–"] = "-", ["−"] = "-", ["\u{00A0}"] = " "}

-- One character of a full-width form, as a keyboard of Latin letters has it.
local function narrow(character)
  if full_width[character] then return full_width[character] end
  local ok, code = pcall(utf8.codepoint, character)
  if ok and code >= 0xFF01 and code <= 0xFF5E then return string.char(code - 0xFEE0) end
end

---A text with the punctuation of East Asian keyboards as Latin punctuation; texts in quotes keep theirs.
---@param text string
---@return string text, boolean changed
function read.narrow(text)
  if not text:find "[\xC2-\xEF]" then return text, false end
  local out, quote, changed, skip = {}, nil, false, false
  for c in text:gmatch "[%z\1-\x7F\xC2-\xF4][\x80-\xBF]*" do
    local latin = narrow(c) or c
    if skip then
      skip, latin = false, c
    elseif quote then
      if c == "\\" then skip = true end
      -- A full-width quote ends only what one began.
      if latin == quote.mark and (c == latin) == quote.plain or c == "\n" then quote = nil
      else latin = c end
    elseif latin == '"' or latin == "'" then
      quote = {mark = latin, plain = c == latin}
    end
    changed = changed or latin ~= c
    out[#out + 1] = latin
  end
  return table.concat(out), changed
end

local operators = {"**=", "//=", ">>=", "<<=", "...", "->", ":=", "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "~=", "+=", "-=", "*=", "/=",
  "%=", "&=", "|=", "^=", "@=", "..", "&&", "||", "++", "--", "::"}
local closes = {[")"] = true, ["]"] = true, ["}"] = true}
local opens = {["("] = true, ["["] = true, ["{"] = true}
-- What only Lua has: a line with one of these counts from 1 already.
local of_lua = {["local"] = true, ["then"] = true, ["do"] = true, ["end"] = true, ["nil"] = true, ["function"] = true, ["~="] = true, [".."] = true}
-- Words behind which a value begins.
local leads = {}
for word in ("return and or not in is if elif while else lambda assert del yield print then do local"):gmatch "%a+" do leads[word] = true end

-- The end of a text in quotes that begins at `at` (of the first quote): its content, and the byte after it.
local function quoted(text, at)
  local mark = text:sub(at, at + 2)
  local long = mark == '"""' or mark == "'''"
  if not long then mark = text:sub(at, at) end
  local i = at + #mark
  while i <= #text do
    local c = text:sub(i, i)
    if c == "\\" then
      i = i + 2
    elseif text:sub(i, i + #mark - 1) == mark then
      return text:sub(at + #mark, i - 1), i + #mark, mark
    elseif c == "\n" and not long then
      return nil
    else
      i = i + 1
    end
  end
end

---The logical lines of a text: {indent=, first=, last= (lines of the text), comment=, lua=, [1..] = tokens}; nil where
---something is neither Python nor Lua. A token: {kind=, text=, at=, space= (before it)}, a string has content, mark, prefix.
---@param text string
---@param slashes? boolean `//` begins a comment
---@return table[]?
function read.lines(text, slashes)
  local lines, line, at, row, depth = {}, {first = 1}, 1, 1, 0
  line.indent = #text:match "^[ \t]*"
  local function finish(after)
    line.last = row
    lines[#lines + 1] = line
    line = {first = row + 1, indent = #text:match("^[ \t]*", after)}
  end
  local function add(kind, upto, more)
    local token = more or {}
    token.kind, token.text, token.at = kind, text:sub(at, upto), at
    token.space = at == 1 or text:find("^[%s]", at - 1) ~= nil
    line[#line + 1] = token
    if of_lua[token.text] then line.lua = true end
    at = upto + 1
  end
  while at <= #text do
    local c, before = text:sub(at, at), line[#line]
    local operand = before and (before.kind == "name" and not leads[before.text] or before.kind == "number" or before.kind == "string" or closes[before.text])
    if c == "\n" then
      at = at + 1
      if depth == 0 then finish(at) end
      row = row + 1
      if depth == 0 then line.first = row end
    elseif c:find "%s" then
      at = at + 1
    elseif c == "\\" and text:find("^\\[ \t]*\r?\n", at) then
      at, row = text:find("\n", at, true) + 1, row + 1
    elseif (c == "#" and (operand or not before or not text:find("^#[%a_(]", at) or text:find("^#[%a]+ [%a]", at)))
      or text:find("^%-%-", at) and not text:find("^%-%-%w", at) or text:find("^//", at) and (slashes or not before) or text:find("^/%*", at) then
      local stop = (text:find("\n", at, true) or #text + 1) - 1
      line.comment = (text:sub(at, stop):gsub("^[#/%*%-]+%s*", ""):gsub("%s*%*/%s*$", ""))
      line.mark = text:sub(at, at)
      line.lua = line.lua or line.mark == "-"
      at = stop + 1
    elseif text:find("^[%a_]", at) or c:byte() >= 0x80 then
      local prefix = text:match("^[rRbBuUfF][rRbBfF]?()[\"']", at)
      if prefix then
        local content, after, mark = quoted(text, prefix)
        if not content then return nil end
        for _ in content:gmatch "\n" do row = row + 1 end
        add("string", after - 1, {content = content, mark = mark, prefix = text:sub(at, prefix - 1):lower()})
      else
        add("name", select(2, text:find("^[%w_\x80-\xff]+", at)))
      end
    elseif text:find("^%.?%d", at) then
      local stop = select(2, text:find("^0[xXbBoO][%x_]+", at)) or select(2, text:find("^%d*[%d_]*%.?[%d_]*[eE][+-]?%d+", at))
        or select(2, text:find("^[%d_]*%.?[%d_]*", at))
      if text:sub(stop, stop) == "." and text:find("^%.", stop + 1) then stop = stop - 1 end  -- 1..n
      if text:find("^[jJ]%f[^%w_]", stop + 1) then stop = stop + 1 end
      add("number", stop)
    elseif c == '"' or c == "'" then
      local content, after, mark = quoted(text, at)
      if not content then return nil end
      for _ in content:gmatch "\n" do row = row + 1 end
      add("string", after - 1, {content = content, mark = mark, prefix = ""})
    else
      local op = c
      for _, each in ipairs(operators) do
        if text:sub(at, at + #each - 1) == each then
          op = each
          break
        end
      end
      if not op:find "^[%p]+$" then return nil end
      if opens[op] then depth = depth + 1 end
      if closes[op] then depth = math.max(depth - 1, 0) end
      add("op", at + #op - 1)
    end
  end
  finish(at)
  local out = {}
  for _, each in ipairs(lines) do
    if #each > 0 or each.comment then out[#out + 1] = each end
  end
  return out
end

return read
