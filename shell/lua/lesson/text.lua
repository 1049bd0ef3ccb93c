-- How lessons look: text wrapped at the window, pieces of code in colour.
local colour = require "shell.colour"
local columns = require "shell.columns"
local screen = require "shell.text"
local pieces = require("torch.columns").pieces

local text = {}

local WIDEST = 96  -- longer lines are tiring to read

--- Columns for text in this window.
---@return integer
function text.width() return math.max(20, math.min(columns.window() - 1, WIDEST)) end

--- Breaks one paragraph into lines of at most `width` columns; short `code in backquotes` stays whole.
---@return string[]
function text.wrap(s, width, indent)
  local lines, line = {}, ""
  indent = indent or ""
  local units, blanks = {}, {}
  for word, blank in pieces(s) do
    local last = units[#units]
    -- A quoted piece of code with blanks inside is one unit, if it can fit on a line.
    if last and select(2, last:gsub("`", "")) % 2 == 1 and screen.width(last) + #word < width - #indent then
      units[#units] = last .. (" "):rep(blank) .. word
    else
      units[#units + 1] = word
      blanks[#units] = blank
    end
  end
  for k, word in ipairs(units) do
    if line == "" then
      line = indent .. word
    elseif screen.width(line) + blanks[k] + screen.width(word) <= width then
      line = line .. (" "):rep(blanks[k]) .. word
    else
      lines[#lines + 1] = line
      line = indent .. word
    end
  end
  if line ~= "" then lines[#lines + 1] = line end
  return lines
end

--- Paragraphs of a lesson as lines: wrapped, verbatim ones as they are, an empty line between.
---@return string[]
function text.lines(paragraphs, width)
  local lines = {}
  for i, p in ipairs(paragraphs) do
    if i > 1 and not (p.verbatim or paragraphs[i - 1].verbatim) then lines[#lines + 1] = "" end
    if p.verbatim then
      lines[#lines + 1] = p.text
    else
      for _, line in ipairs(text.wrap(p.text, width)) do lines[#lines + 1] = line end
    end
  end
  return lines
end

--- Lines of text with their `code` in colour. A piece may begin on one line and end on the next.
---@param lines string[]
---@return string
function text.paint(lines)
  local whole = table.concat(lines, "\n")
  if not colour.enabled() then return whole end
  return (whole:gsub("`([^`]+)`", function(code)
    return (code:gsub("[^\n]+", function(part) return colour(part, "label") end))
  end))
end

local STYLES = {keyword = "keyword", number = "number", string = "string", comment = "comment"}

--- Code in the colours of the prompt, every line moved to the right.
---@param code string
---@param indent string
---@return string
function text.code(code, indent)
  local parts, from = {}, 1
  for _, t in ipairs(torch._lex(code)) do
    local piece, style = code:sub(t.first, t.last), STYLES[t.kind]
    parts[#parts + 1] = code:sub(from, t.first - 1)
    parts[#parts + 1] = style and piece:gsub("[^\n]+", function(part) return colour(part, style) end) or piece
    from = t.last + 1
  end
  parts[#parts + 1] = code:sub(from)
  return indent .. (table.concat(parts):gsub("\n", "\n" .. indent))
end

return text
