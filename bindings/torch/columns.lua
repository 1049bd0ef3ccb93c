-- Text by the columns that it takes in a terminal, and where its lines may break.
local columns = {}

-- First and last code points that take two columns, and those that take none.
local wide = {
  {0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0x33ff}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xa000, 0xa4cf},
  {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1faff},
  {0x20000, 0x3fffd},
}
local none = {{0x300, 0x36f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}}

local function within(ranges, c)
  for i = 1, #ranges do
    local r = ranges[i]
    if c < r[1] then return false end
    if c <= r[2] then return true end
  end
  return false
end

---How many columns a character takes.
---@param c integer its code point
---@return integer
function columns.of_character(c)
  if c < 0x300 then return 1 end
  if within(none, c) then return 0 end
  return within(wide, c) and 2 or 1
end

---How many columns a text takes; colours take none, a broken byte takes one.
---@param s string
---@return integer
function columns.of(s)
  if s:find("\27", 1, true) then s = s:gsub("\27%[[%d;]*m", "") end
  if not s:find("[\128-\255]") then return #s end
  local n, at = 0, 1
  while at <= #s do
    local ok, c = pcall(utf8.codepoint, s, at)
    n, at = n + (ok and columns.of_character(c) or 1), at + (ok and #utf8.char(c) or 1)
  end
  return n
end

---A text in at most so many columns; where something is left out it ends with "…".
---@param s string
---@param most integer
---@return string
function columns.clipped(s, most)
  s = s:gsub("%c", " ")
  if columns.of(s) <= most then return s end
  if not utf8.len(s) then return s:sub(1, most) end
  local out, n = {}, 0
  for _, c in utf8.codes(s) do
    local one = utf8.char(c)
    n = n + columns.of_character(c)
    if n > most - 1 then break end
    out[#out + 1] = one
  end
  return table.concat(out) .. "…"
end

local function set(characters)
  local out = {}
  for _, c in utf8.codes(characters) do out[utf8.char(c)] = true end
  return out
end
local closing = set "，。、；：？！）】》”’」』％…·,.;:?!)]}%"  -- never begins a line
local opening = set "（【《“‘「『([{"                            -- never ends one

-- A word as pieces: East Asian characters one by one with the marks that belong to them, all else in runs; `code` stays.
local function split(word, out)
  local piece, last = "", nil
  local at = 1
  while at <= #word do
    local one = word:match("^`[^`]*`", at) or word:match("^[%z\1-\127\194-\244][\128-\191]*", at) or word:sub(at, at)
    local ok, c = pcall(utf8.codepoint, one)
    local kind = closing[one] and "close" or opening[one] and "open" or ok and columns.of_character(c) == 2 and "wide" or "narrow"
    local is_wide = kind == "wide" or #one > 1 and kind ~= "narrow"
    if last and kind ~= "close" and last.kind ~= "open" and (is_wide or last.wide) then
      out[#out + 1] = piece
      piece = ""
    end
    piece, last, at = piece .. one, {kind = kind, wide = is_wide}, at + #one
  end
  if piece ~= "" then out[#out + 1] = piece end
end

---The pieces of a text between which its lines may break, words above all, and how many blanks stand before each.
---@param text string
---@return fun(): string?, integer? piece, blanks (0 or 1)
function columns.pieces(text)
  if not text:find "[\227-\244]" then
    local next_word = text:gmatch "%S+"
    return function() return next_word(), 1 end
  end
  local list, blanks = {}, {}
  for word in text:gmatch "%S+" do
    local first = #list + 1
    -- A piece of code with blanks inside is one word.
    if #list > 0 and select(2, list[#list]:gsub("`", "")) % 2 == 1 then
      word = table.remove(list) .. " " .. word
      first = #list + 1
      word = {word = word, blank = blanks[first]}
    else
      word = {word = word, blank = 1}
    end
    if select(2, word.word:gsub("`", "")) % 2 == 1 then list[first] = word.word else split(word.word, list) end
    for k = first, #list do blanks[k] = k == first and word.blank or 0 end
  end
  local k = 0
  return function()
    k = k + 1
    return list[k], blanks[k]
  end
end

---A text as lines of at most so many columns.
---@param text string
---@param most integer
---@return string[]
function columns.folded(text, most)
  local lines, line = {}, ""
  for piece, blanks in columns.pieces(text) do
    if line ~= "" and columns.of(line) + blanks + columns.of(piece) > most then lines[#lines + 1], line = line, "" end
    line = line == "" and piece or line .. (" "):rep(blanks) .. piece
  end
  lines[#lines + 1] = line
  return lines
end

return columns
