-- Text on a terminal: how many columns it takes, cutting and padding by columns, and control
-- characters made visible.
local text = {}

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

local function columns_of(c)
  if c < 0x300 then return 1 end
  if within(none, c) then return 0 end
  return within(wide, c) and 2 or 1
end

---The columns that a line takes; colours take none, a broken byte takes one.
---@param s string
---@return integer
function text.width(s)
  if s:find("\27", 1, true) then s = s:gsub("\27%[[%d;]*m", "") end
  if not s:find("[\128-\255]") then return #s end
  local n, at = 0, 1
  while at <= #s do
    local ok, c = pcall(utf8.codepoint, s, at)
    if ok then
      n, at = n + columns_of(c), at + #utf8.char(c)
    else
      n, at = n + 1, at + 1
    end
  end
  return n
end

---The text with spaces behind it up to this many columns.
function text.pad(s, columns)
  return s .. (" "):rep(columns - text.width(s))
end

---The longest beginning of an uncoloured text that takes at most this many columns.
function text.cut(s, columns)
  if text.width(s) <= columns then return s end
  local n, at = 0, 1
  while at <= #s do
    local ok, c = pcall(utf8.codepoint, s, at)
    local w, bytes = 1, 1
    if ok then w, bytes = columns_of(c), #utf8.char(c) end
    if n + w > columns then break end
    n, at = n + w, at + bytes
  end
  return s:sub(1, at - 1)
end

local names = {["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r"}
local function escape(c) return names[c] or ("\\%03d"):format(c:byte()) end

---Control characters and broken UTF-8 as Lua would write them; other text as it is.
---@param s string
function text.visible(s)
  s = s:gsub("%c", escape)
  if not s:find("[\128-\255]") then return s end
  local out, at = {}, 1
  while at <= #s do
    local good, bad = utf8.len(s, at)
    if good then
      out[#out + 1] = s:sub(at)
      break
    end
    if bad > at then out[#out + 1] = s:sub(at, bad - 1) end
    out[#out + 1] = escape(s:sub(bad, bad))
    at = bad + 1
  end
  -- C1 controls are two bytes in UTF-8.
  return (table.concat(out):gsub("\xC2[\x80-\x9F]", function(c) return "\\u{" .. ("%x"):format(utf8.codepoint(c)) .. "}" end))
end

---A string as Lua source on one line: "a\nb".
---@param s string
function text.quoted(s)
  return '"' .. text.visible((s:gsub('[\\"]', "\\%0"))) .. '"'
end

---1234567 as "1,234,567".
function text.thousands(n)
  local s = tostring(n)
  local sign, digits = s:match "^(%-?)(%d+)$"
  if not digits then return s end
  return sign .. digits:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
end

---The lines of a text.
function text.lines(s)
  local list = {}
  for line in (s .. "\n"):gmatch "(.-)\n" do list[#list + 1] = line end
  return list
end

return text
