-- HTML of what the prompt has as text: code in colours, what terminals show in colours, and the Markdown
-- that tutorials are written in.
local html = {}

local escapes = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}

---@param text string
---@return string
function html.escape(text) return (text:gsub('[&<>"]', escapes)) end
local escape = html.escape

local classes = {keyword = "k", string = "s", number = "n", comment = "c"}

---Lua code as spans of the classes k, s, n and c.
---@param code string
---@return string
function html.code(code)
  local ok, tokens = pcall(require("torch.syntax").tokens, code)
  if not ok then return escape(code) end
  local out, at = {}, 1
  for _, token in ipairs(tokens) do
    local class = classes[token.kind]
    if class and token.first >= at then
      -- Comments stand between the tokens of some readers: what is skipped stays plain.
      out[#out + 1] = escape(code:sub(at, token.first - 1))
      out[#out + 1] = ('<span class="%s">%s</span>'):format(class, escape(code:sub(token.first, token.last)))
      at = token.last + 1
    end
  end
  out[#out + 1] = escape(code:sub(at))
  return (table.concat(out):gsub("(%-%-[^\n<]*)", '<span class="c">%1</span>'))
end

local styles = {["1"] = "b", ["2"] = "f", ["7"] = "i"}
for i, name in ipairs {"red", "green", "yellow", "blue", "magenta", "cyan"} do styles[tostring(30 + i)] = name end

---Text with a terminal's colours as spans of the classes b, f, i and those of the six colours; what moves
---the cursor is left out, but for lines that are written again.
---@param text string
---@return string
function html.terminal(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    line = line:gsub("\r$", "")
    local last = line:match "\r([^\r]*)$"  -- a progress bar: what it was at the end
    lines[#lines + 1] = last or line
  end
  text = table.concat(lines, "\n")
  local out, open, at = {}, false, 1
  while true do
    local first, last, codes, command = text:find("\27%[([%d;?]*)(%a)", at)
    out[#out + 1] = escape((text:sub(at, first and first - 1):gsub("[\0-\8\11-\31]", "")))
    if not first then break end
    if command == "m" then
      if open then out[#out + 1] = "</span>" end
      open = false
      local names = {}
      for code in codes:gmatch "%d+" do names[#names + 1] = styles[code] end
      if #names > 0 then
        out[#out + 1] = ('<span class="%s">'):format(table.concat(names, " "))
        open = true
      end
    end
    at = last + 1
  end
  if open then out[#out + 1] = "</span>" end
  return table.concat(out)
end

-- `code`, **strong**, [text](address) in a line of text.
---@param text string
---@param link? fun(address: string): string|nil
function html.inline(text, link)
  local kept = {}
  local function keep(piece)
    kept[#kept + 1] = piece
    return ("\1%d\2"):format(#kept)
  end
  text = text:gsub("``(.-)``", function(code) return keep("<code>" .. escape(code) .. "</code>") end)
  text = text:gsub("`([^`]+)`", function(code) return keep("<code>" .. escape(code) .. "</code>") end)
  text = text:gsub("%[([^%]]+)%]%(([^)%s]+)%)", function(words, address)
    local to = link and link(address) or address
    return keep(('<a href="%s">%s</a>'):format(escape(to), escape(words)))
  end)
  text = escape(text):gsub("%*%*(.-)%*%*", "<strong>%1</strong>"):gsub("%f[%w*]%*([^*]+)%*", "<em>%1</em>")
  repeat
    local n
    text, n = text:gsub("\1(%d+)\2", function(i) return kept[tonumber(i)] end)
  until n == 0
  return text
end

-- The cells of a line of a table; a bar inside of `code` belongs to it.
local function cells_of(line)
  local cells, cell, code = {}, "", false
  for c in line:match "^%s*|(.*)|%s*$":gmatch "." do
    if c == "`" then code = not code end
    if c == "|" and not code then
      cells[#cells + 1] = cell
      cell = ""
    else
      cell = cell .. c
    end
  end
  cells[#cells + 1] = cell
  for i, text in ipairs(cells) do cells[i] = text:match "^%s*(.-)%s*$" end
  return cells
end

---A heading as the name of its place: "Positions count from 1" is positions-count-from-1.
function html.slug(text) return (text:lower():gsub("[^%w]+", "-"):gsub("^%-", ""):gsub("%-$", "")) end

---@param text string
---@param link? fun(address: string): string|nil where an address leads on the site
---@return string
function html.markdown(text, link)
  local out, lines, i = {}, {}, 1
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do lines[#lines + 1] = line end
  local function add(...) out[#out + 1] = (...):format(select(2, ...)) end
  while i <= #lines do
    local line = lines[i]
    local marks, heading = line:match "^(#+)%s+(.*)$"
    local language = line:match "^```(%w*)"
    if heading then
      out[#out + 1] = ('<h%d id="%s">%s</h%d>'):format(#marks, html.slug(heading), html.inline(heading, link), #marks)
      i = i + 1
    elseif language then
      local code = {}
      i = i + 1
      while lines[i] and not lines[i]:find "^```" do
        code[#code + 1] = lines[i]
        i = i + 1
      end
      i = i + 1
      code = table.concat(code, "\n")
      out[#out + 1] = "<pre>" .. (language == "lua" and html.code(code) or escape(code)) .. "</pre>"
    elseif line:find "^%s*|.*|%s*$" then
      out[#out + 1] = '<div class="wide"><table>'
      local head = lines[i + 1] and lines[i + 1]:find "^%s*|[%s|:-]+|%s*$"
      for row = 0, #lines do
        local each = lines[i]
        if not (each and each:find "^%s*|.*|%s*$") then break end
        if not (row == 1 and head) then
          local tag = row == 0 and head and "th" or "td"
          local cells = cells_of(each)
          for k, cell in ipairs(cells) do cells[k] = ("<%s>%s</%s>"):format(tag, html.inline(cell, link), tag) end
          if not (tag == "th" and not each:find "[%w%p]" ) then out[#out + 1] = "<tr>" .. table.concat(cells) .. "</tr>" end
        end
        i = i + 1
      end
      out[#out + 1] = "</table></div>"
    elseif line:find "^%s*[-*] " or line:find "^%s*%d+%. " then
      local ordered = line:find "^%s*%d" ~= nil
      out[#out + 1] = ordered and "<ol>" or "<ul>"
      while lines[i] and lines[i]:find "%S" do
        local item = lines[i]:gsub("^%s*[-*] ", ""):gsub("^%s*%d+%. ", "")
        i = i + 1
        while lines[i] and lines[i]:find "%S" and not lines[i]:find "^%s*[-*] " and not lines[i]:find "^%s*%d+%. " do
          item = item .. " " .. lines[i]:match "^%s*(.-)%s*$"
          i = i + 1
        end
        out[#out + 1] = "<li>" .. html.inline(item, link) .. "</li>"
      end
      out[#out + 1] = ordered and "</ol>" or "</ul>"
    elseif line:find "%S" then
      local paragraph = {}
      while lines[i] and lines[i]:find "%S" and not lines[i]:find "^```" and not lines[i]:find "^#" and not lines[i]:find "^%s*|.*|%s*$" do
        paragraph[#paragraph + 1] = lines[i]
        i = i + 1
      end
      add("<p>%s</p>", (html.inline(table.concat(paragraph, " "), link):gsub("%%", "%%")))
    else
      i = i + 1
    end
  end
  return table.concat(out, "\n")
end

return html
