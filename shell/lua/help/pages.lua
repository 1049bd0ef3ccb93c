-- Pages of help as text: one function per kind of catalog entry.
local T = require("torch.language").text
local torch = torch
local catalog = require "shell.help.catalog"
local comments = require "shell.help.comments"
local examples = require "shell.help.examples"
local measure = require "torch.columns"
local folded, pieces, width_of = measure.folded, measure.pieces, measure.of
local pages = {}

local has_colour, colour = pcall(require, "shell.colour")
if not has_colour then colour = function(text) return text end end
pages.colour = colour

---@return integer columns of the window
function pages.width()
  local ok, columns = pcall(require, "shell.columns")
  return ok and math.max(columns.window(), 30) or 80
end

---Words as lines of at most `width`, each after the first behind `indent`.
function pages.wrap(text, indent, width)
  return indent .. table.concat(folded(text, (width or pages.width()) - #indent), "\n" .. indent)
end

local label_width = 10
local function labelled(label, text)
  local indent = (" "):rep(2 + label_width)
  local body = pages.wrap(text, indent):sub(#indent + 1)
  return "  " .. colour(label, "label") .. (" "):rep(label_width - width_of(label)) .. body
end

-- --- signatures ---

local function parameter_text(p)
  local name = p.gather and p.name .. ".." or p.name
  if p.default and p.default ~= "nil" then return name .. "=" .. p.default end
  return (p.optional or p.default) and name .. "?" or name
end

---How an operation is called: "x:topk(k, dim=-1)" or "torch.cat(tensors.., dim=1)".
function pages.signature(record, signature, place)
  local name = record.name
  local params, first = signature.params, 1
  local head
  if place == "Tensor" and params[1] then
    -- x:method: the tensor is the first parameter, wherever it stands among the others.
    for i, p in ipairs(params) do
      if p.name == "self" then first = i end
    end
    head = "x:" .. name .. (signature.inplace_only and "_" or "")
  else
    first = 0
    head = (place or "torch") .. "." .. name
  end
  local parts = {}
  for i, p in ipairs(params) do
    if i ~= first then parts[#parts + 1] = p.name == "self" and "x" or parameter_text(p) end
  end
  return head .. "(" .. table.concat(parts, ", ") .. ")"
end

local function has(list, value)
  for _, v in ipairs(list) do
    if v == value then return true end
  end
  return false
end

-- The place whose form a page shows: the asked one, else the method.
local function place_of(record, asked)
  local prefix = asked and catalog.normal(asked):match "^(.*)%.[^.]*$"
  if prefix and (has(record.places, prefix) or has(record.inplace, prefix)) then return prefix end
  if has(record.places, "Tensor") then return "Tensor" end
  return record.places[1] or record.inplace[1]
end

-- --- parts of a page ---

local function example_lines(text)
  local lines = {}
  for _, step in ipairs(examples.parse(text)) do
    lines[#lines + 1] = "  " .. colour("> ", "prompt") .. step.code
    if step.shown then lines[#lines + 1] = "  " .. step.shown:gsub("\n", "\n  ") end
  end
  return lines
end

local function see_line(see, name, demo)
  local words = {}
  for word in (see or ""):gmatch "[^,]+" do
    word = word:match "^%s*(.-)%s*$"
    local short = word:match "^[^.]*"
    if word:find "^%a[%w_]*%.[%l_]+$" and not catalog.find(word)[1] and catalog.find(short)[1] then word = short end
    words[#words + 1] = word
  end
  local text = table.concat(words, ", ")
  local lines = {}
  if text ~= "" then lines[1] = labelled(T"see also", text) end
  if demo then lines[#lines + 1] = "  " .. colour(T("%%demo %s runs the examples"):format(name), "faint") end
  return lines
end

local function push(lines, more)
  for _, line in ipairs(more) do lines[#lines + 1] = line end
end

-- --- kinds ---

local function counts_positions(signature)
  if signature.rule:find "position" then return true end
  for _, p in ipairs(signature.params) do
    if p.take == "dim" or p.take == "dims" or p.take == "position" then return true end
  end
  return false
end

---@param entry table of kind "op"
---@param asked? string how it was asked for
function pages.op(entry, asked)
  local record = entry.record
  local place = place_of(record, asked)
  local lines, example, see, positions = {}, {}, {}, false
  for _, s in ipairs(record.signatures) do
    positions = positions or counts_positions(s)
    push(lines, {colour(pages.wrap(pages.signature(record, s, place), "", pages.width() - 5):gsub("\n", "\n     "), "heading")})
    lines[#lines + 1] = pages.wrap(T(s.doc), "  ")
    if s.rule ~= "" then lines[#lines + 1] = labelled(T"shape", T(s.rule)) end
    if s.example ~= "" and not has(example, s.example) then example[#example + 1] = s.example end
    for word in s.see:gmatch "[^,]+" do
      word = word:match "^%s*(.-)%s*$"
      if not has(see, word) and word ~= record.name then see[#see + 1] = word end
    end
  end
  local forms = {}
  local first = record.signatures[1]
  local inside = place == "Tensor" and "x, .." or nil
  for _, p in ipairs(record.places) do
    if p ~= place then
      forms[#forms + 1] = p == "Tensor" and "x:" .. record.name .. "(..)" or p .. "." .. record.name .. "(" .. (inside or "..") .. ")"
    end
  end
  if #record.inplace > 0 and not first.inplace_only then
    forms[#forms + 1] = (has(record.inplace, "Tensor") and "x:" or record.inplace[1] .. ".") .. record.name .. T"_(..) in place"
  end
  if #forms > 0 then lines[#lines + 1] = labelled(T"also", table.concat(forms, "   ")) end
  local notes = {}
  if record.alias_of then notes[#notes + 1] = T("the same as %s"):format(record.alias_of) end
  if #record.aliases > 0 then notes[#notes + 1] = T("also called %s"):format(table.concat(record.aliases, ", ")) end
  if positions then notes[#notes + 1] = T"positions and dims count from 1" end
  if first.view then notes[#notes + 1] = T"a view: it shares memory" end
  if first.number then notes[#notes + 1] = T"gives a Lua value, not a tensor" end
  local takes = first.params[1] and first.params[1].take
  if not first.differentiable and not first.inplace_only and takes and takes:find "tensor" then notes[#notes + 1] = T"no gradient" end
  if #notes > 0 then lines[#lines + 1] = labelled(T"note", table.concat(notes, "; ")) end
  push(lines, example_lines(table.concat(example, "\n")))
  push(lines, see_line(table.concat(see, ","), record.name, #example > 0))
  return table.concat(lines, "\n")
end

local function call_form(path, arguments)
  if arguments == "" and path:find "^Tensor%." then return "x." .. path:match "[^.]*$" end
  return (path:gsub("^Tensor%.", "x:")) .. "(" .. arguments .. ")"
end

function pages.row(entry)
  local path, arguments, doc = entry.row[1], entry.row[2], entry.row[3]
  -- Rows without arguments are values unless they are functions.
  local value = pages.value_at(path)
  local head = arguments == "" and type(value) ~= "function" and (path:gsub("^Tensor%.", "x.")) or call_form(path, arguments)
  if path:find "^Tensor%." and type(value) == "function" then head = "x:" .. path:match "[^.]*$" .. "(" .. arguments .. ")" end
  local lines = {colour(pages.wrap(head, "", pages.width() - 5):gsub("\n", "\n     "), "heading"), pages.wrap(T(doc), "  ")}
  if entry.row.rule then lines[#lines + 1] = labelled(T"shape", entry.row.rule) end
  if entry.row.example then push(lines, example_lines(entry.row.example)) end
  push(lines, see_line(entry.row.see, path, entry.row.example ~= nil))
  return table.concat(lines, "\n")
end

-- A function's head from its comments: "nn.class(name, base?)".
function pages.head(path, found)
  local optional, names = {}, {}
  for _, p in ipairs(found.params) do optional[p.name] = p.optional end
  for i, name in ipairs(found.names) do
    if not (i == 1 and name == "self") then names[#names + 1] = optional[name] and name .. "?" or name end
  end
  local method = found.names[1] == "self"
  local prefix, name = path:match "^(.*)%.([^.]*)$"
  if not prefix then return path .. "(" .. table.concat(names, ", ") .. ")" end
  if prefix == "Tensor" then prefix = "x" elseif prefix == "nn.Module" then prefix = "net"
  elseif method and prefix:find "^optim" then prefix = "opt" end
  return prefix .. (method and ":" or ".") .. name .. "(" .. table.concat(names, ", ") .. ")"
end

function pages.lua(entry)
  local found = entry.found or comments.of(entry.f)
  local lines = {colour(pages.head(entry.path, found), "heading")}
  if found.doc ~= "" then lines[#lines + 1] = pages.wrap(T(found.doc), "  ") end
  for _, p in ipairs(found.params) do
    if p.doc ~= "" or p.type ~= "" then
      lines[#lines + 1] = labelled(p.name:sub(1, label_width - 1), (p.type .. "  " .. p.doc):gsub("%s+$", ""))
    end
  end
  for _, r in ipairs(found.returns) do lines[#lines + 1] = labelled(T"returns", r) end
  lines[#lines + 1] = "  " .. colour(T("%s:%d   ??%s shows its source"):format(found.place, found.line, entry.path), "faint")
  return table.concat(lines, "\n")
end

-- The names of a table of the public ones, in columns.
function pages.space(entry)
  local names = {}
  for name, value in next, entry.space do
    if type(name) == "string" and not name:find "^_" and (type(value) ~= "table" or name:find "^%u") then
      local plain = name:match "^(.-)_$"
      if not plain or rawget(entry.space, plain) == nil then names[#names + 1] = name end
    end
  end
  table.sort(names)
  local wide, width = 0, pages.width()
  for _, name in ipairs(names) do wide = math.max(wide, #name) end
  local columns = math.max(1, (width - 2) // (wide + 2))
  local rows = (#names + columns - 1) // columns
  local lines = {colour(entry.path, "heading"), pages.wrap(T(entry.doc), "  ")}
  for r = 1, rows do
    local cells = {}
    for c = 0, columns - 1 do
      local name = names[c * rows + r]
      if name then cells[#cells + 1] = name .. (" "):rep(wide - #name) end
    end
    lines[#lines + 1] = ("  " .. table.concat(cells, "  ")):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

function pages.topic(entry)
  local text = entry.text
  local lines = {colour(entry.path, "heading"), pages.wrap(T(entry.doc), "  "), type(text) == "function" and text() or T(text)}
  push(lines, see_line(entry.see))
  return table.concat(lines, "\n")
end

function pages.library(entry)
  if entry.keyword then return colour(entry.path, "heading") .. "\n" .. pages.wrap(T(entry.doc), "  ") end
  local head = entry.arguments == "" and entry.path:find "^math%.[ph]" and entry.path or entry.path .. "(" .. entry.arguments .. ")"
  return colour(head, "heading") .. "\n" .. pages.wrap(T(entry.doc) .. " (Lua)", "  ")
end

---Lines wider than the window, broken at spaces; what follows stands further in.
---@param text string
function pages.fit(text)
  local width, out = pages.width(), {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    local indent = line:match "^%s*" .. "    "
    if width_of(line) > width and #indent < width - 10 then
      local current, used = "", 0
      for space, words in line:gmatch "(%s*)(%S+)" do
        for word, blanks in pieces(words) do
          local gap, wide = blanks == 1 and space or "", width_of(word)
          if used > #indent and used + #gap + wide > width then
            out[#out + 1] = current
            current, used = indent .. word, #indent + wide
          else
            current, used = current .. gap .. word, used + #gap + wide
          end
        end
      end
      line = current
    end
    out[#out + 1] = line
  end
  return table.concat(out, "\n")
end

---@param entry table of the catalog
---@param asked? string
---@return string
function pages.page(entry, asked) return pages[entry.kind](entry, asked) end

---The value at a public path, by raw access: "nn.Linear", "torch.cuda.seed", "Tensor.item".
function pages.value_at(path)
  local prefix, name = path:match "^(.*)%.([^.]*)$"
  for _, space in ipairs(catalog.spaces()) do
    if space[1] == prefix then return rawget(space[2], name) end
  end
  return nil
end

return pages
