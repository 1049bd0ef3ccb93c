-- Text on a terminal: how many columns it takes, cutting and padding by columns, and control
-- characters made visible.
local of_characters = require "torch.columns"
local text = {}

local columns_of = of_characters.of_character

---The columns that a line takes; colours take none, a broken byte takes one.
text.width = of_characters.of

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
