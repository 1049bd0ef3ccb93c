-- How lessons look: text wrapped at the window, code in colour, columns.
local text = {}

--- Columns of the window; 80 where there is none to ask.
---@return integer
function text.width()
  local ok, native = pcall(require, "shell.native")
  local size = ok and type(native) == "table" and (native.terminal_size or native.size or native.columns)
  local columns
  if size then
    local a, b = size()
    columns = type(a) == "table" and (a.columns or a.width) or (b and math.max(a, 0) and b) or a
  end
  columns = math.tointeger(columns) or math.tointeger(tonumber(os.getenv("COLUMNS"))) or 80
  return math.max(20, math.min(columns, 100))
end

--- Width of a text on the screen: one column per character, none per escape sequence.
function text.columns(s)
  s = s:gsub("\27%[[%d;]*m", "")
  return utf8.len(s) or #s
end

--- Breaks one paragraph into lines of at most `width` columns. `code in backquotes` stays whole.
---@return string[]
function text.wrap(s, width, indent)
  local lines, line = {}, ""
  indent = indent or ""
  local units = {}
  for word in s:gmatch("%S+") do
    local last = units[#units]
    -- A quoted piece of code with blanks inside is one unit, if it can fit on a line.
    if last and select(2, last:gsub("`", "")) % 2 == 1 and text.columns(last) + #word < width - #indent then
      units[#units] = last .. " " .. word
    else
      units[#units + 1] = word
    end
  end
  for _, word in ipairs(units) do
    if line == "" then
      line = indent .. word
    elseif text.columns(line) + 1 + text.columns(word) <= width then
      line = line .. " " .. word
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
    if i > 1 and not (p.verbatim and paragraphs[i - 1].verbatim) then lines[#lines + 1] = "" end
    if p.verbatim then
      lines[#lines + 1] = p.text
    else
      for _, line in ipairs(text.wrap(p.text, width)) do lines[#lines + 1] = line end
    end
  end
  return lines
end

return text
