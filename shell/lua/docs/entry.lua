-- A page of the reference site for an entry of the catalog that `?` shows: its parts are the same records.
local torch = torch
local catalog = require "shell.help.catalog"
local comments = require "shell.help.comments"
local examples = require "shell.help.examples"
local html = require "shell.html"
local pages = require "shell.help.pages"
local escape, inline = html.escape, html.inline
local entry_page = {}

local function fact(out, name, value)
  if value and value ~= "" then out[#out + 1] = ("<dt>%s</dt><dd>%s</dd>"):format(name, value) end
end

local function facts(rows)
  return #rows > 0 and '<dl class="facts">' .. table.concat(rows, "\n") .. "</dl>" or nil
end

-- Code and what the prompt shows for it.
local function example_html(text)
  local lines = {}
  for _, step in ipairs(examples.parse(text)) do
    lines[#lines + 1] = '<span class="soft">&gt; </span><span class="in">' .. html.code(step.code) .. "</span>"
    if step.shown then lines[#lines + 1] = '<span class="out">' .. escape(step.shown) .. "</span>" end
  end
  return '<h2>Examples</h2>\n<pre class="example">' .. table.concat(lines, "\n") .. "</pre>"
end

-- "sort, kthvalue, %time" as links.
local function see_html(see, site)
  local links, seen = {}, {}
  for word in (see or ""):gmatch "[^,]+" do
    word = word:match "^%s*(.-)%s*$"
    local url = site.url_of(word)
    if not seen[url or word] then
      seen[url or word] = true
      links[#links + 1] = url and ('<a href="%s">%s</a>'):format(url, escape(word)) or "<code>" .. escape(word) .. "</code>"
    end
  end
  return table.concat(links, ", ")
end

-- fma(p, q, r) of the tables, which rounds once, as what it is: p * q + r.
local function plain_sums(text)
  local first, last = text:find "%f[%w_]fma%b()"
  if not first then return text end
  local parts, depth, from = {}, 0, first + 4
  for i = from, last do
    local c = text:sub(i, i)
    if c == "(" then depth = depth + 1 elseif c == ")" then depth = depth - 1 end
    if c == "," and depth == 0 or i == last then
      parts[#parts + 1] = text:sub(from, i - 1):match "^%s*(.-)%s*$"
      from = i + 1
    end
  end
  for i = 1, 2 do
    if parts[i]:find "[+]" or parts[i]:find ".%s%-" then parts[i] = "(" .. parts[i] .. ")" end
  end
  return plain_sums(("%s(%s * %s + %s)%s"):format(text:sub(1, first - 1), parts[1], parts[2], parts[3], text:sub(last + 1)))
end

-- Gradients as the table of operations has them, in the parameters' own names.
local function gradients_html(signature)
  local operands = {}
  for _, p in ipairs(signature.params) do
    if p.take == "tensor" or p.take == "tensor or number" then operands[#operands + 1] = p.name == "self" and "x" or p.name end
  end
  local out, letters = {}, {}
  for i, text in ipairs(signature.gradients) do
    local names = {a = operands[1], b = operands[2], c = operands[3], x = operands[1] or "x"}
    text = text:gsub("%s+", " "):gsub("op<\"([%w_.]+)\">", "%1"):gsub("fn::", ""):gsub("%f[%w_]row, ", ""):gsub("zero%(%)", "0")
      :gsub("%f[%w_]([abcx])%f[^%w_(]", function(letter) return names[letter] end)
    letters[i] = text
    out[#out + 1] = ("<code>d/d%s = %s</code>"):format(escape(operands[i] or "x"), escape(text))
  end
  if #out == 0 then return nil end
  local helpers = {}
  for name, value in next, signature.gradient_helpers do
    local list = {}
    for letter in ("abcd"):gmatch "." do
      if value:find("%f[%w_]" .. letter .. "%f[^%w_]") then list[#list + 1] = letter end
    end
    value = plain_sums(value:gsub("%s+", " "):gsub("L%((%d)%)", "%1"))
    if not value:find(name, 1, true) and not value:find "static_cast" then
      helpers[#helpers + 1] = ("<code>%s(%s) = %s</code>"):format(name, table.concat(list, ", "), escape(value))
    end
  end
  table.sort(helpers)
  for _, text in ipairs(helpers) do out[#out + 1] = '<span class="soft">with</span> ' .. text end
  local all = table.concat(letters, " ")
  local where = {}
  if all:find "%f[%w_]g%f[^%w_]" then where[#where + 1] = "g is the gradient of the result" end
  if all:find "%f[%w_]y%f[^%w_]" then where[#where + 1] = "y the result" end
  if all:find "%f[%w_]n%f[^%w_]" and signature.rule:find "n" then where[#where + 1] = "n the number of elements" end
  return table.concat(out, "<br>") .. (#where > 0 and ('<br><span class="soft">%s</span>'):format(table.concat(where, ", ")) or "")
end

-- The curve of an operation that takes one number to another, with its derivative; nil where there is none.
local function curve(record)
  local s = record.signatures[1]
  if not s.row or #record.signatures > 1 or s.number or s.inplace_only then return nil end
  local tensors, others = 0, 0
  for _, p in ipairs(s.params) do
    if p.take == "tensor" or p.take == "tensor or number" then tensors = tensors + 1 elseif not p.default then others = others + 1 end
  end
  if tensors ~= 1 or others > 0 then return nil end
  local place = record.places[1]
  local f = place == "Tensor" and torch._tensor_methods()[record.name] or place == "F" and torch.nn.functional[record.name] or torch[record.name]
  local ok, svg = pcall(function()
    local x = torch.linspace(-4, 4, 401):double():requires_grad_(true)
    local y = f(x)
    if y.dtype ~= torch.float64 or #y.shape ~= 1 then return nil end
    local series, labels = {}, {}
    local function add(values, label)
      local finite = values:isfinite():logical_and(values:abs():lt(12))
      if finite:sum():item() < 40 then return end
      series[#series + 1] = torch.where(finite, values, torch.full_like(values, 0 / 0))
      labels[#labels + 1] = label
    end
    add(y:detach(), record.name)
    if #s.gradients > 0 and y.requires_grad then add(torch.autograd.grad(y:sum(), {x}), "its slope") end
    if #series == 0 then return nil end
    local figure = require("torch.plot.data").curves({x:detach(), series, n = 2}, {labels = labels, xlabel = "x"})
    return require("torch.plot.svg").text(figure, {width = 560, height = 300})
  end)
  return ok and svg or nil
end

local kinds = {integer = "an integer", number = "a number", boolean = "true or false", string = "a text", integers = "integers",
  dim = "a dimension, from 1", dims = "dimensions, from 1", position = "a position, from 1", tensors = "tensors", dtype = "a dtype", device = "a device",
  generator = "a generator"}

local function parameters_html(record)
  local seen, rows = {}, {}
  for _, s in ipairs(record.signatures) do
    for _, p in ipairs(s.params) do
      if not seen[p.name] and p.name ~= "self" then
        seen[p.name] = true
        local default = p.default and p.default ~= "nil" and "<code>" .. escape(p.default) .. "</code>" or (p.optional or p.default) and "may be left out" or "needed"
        rows[#rows + 1] = ("<tr><td><code>%s</code></td><td>%s</td><td>%s</td></tr>"):format(escape(p.name), escape(kinds[p.take] or p.take), default)
      end
    end
  end
  if #rows == 0 then return nil end
  return "<h2>Arguments</h2>\n<div class=\"wide\"><table><tr><th>name</th><th>what</th><th>without it</th></tr>" .. table.concat(rows, "\n") .. "</table></div>"
end

local function takes_places(record)
  for _, s in ipairs(record.signatures) do
    if s.rule:find "position" then return true end
    for _, p in ipairs(s.params) do
      if p.take == "dim" or p.take == "dims" or p.take == "position" then return true end
    end
  end
end

-- What somebody who knows PyTorch has to know of an operation.
local function pytorch(record)
  local places = {["torch"] = "torch.", Tensor = "torch.Tensor.", F = "torch.nn.functional.", ["torch.linalg"] = "torch.linalg."}
  local names = {}
  for _, place in ipairs(record.places) do names[#names + 1] = "<code>" .. places[place] .. record.name .. "</code>" end
  local notes = {}
  if takes_places(record) then notes[#notes + 1] = "positions and dims count from 1 here" end
  local several = record.signatures[1].rule:match "%->.*%],%s"
  if several then notes[#notes + 1] = "several results are several values, no named tuple" end
  if record.signatures[1].number then notes[#notes + 1] = "gives a Lua value" end
  return table.concat(names, ", ") .. (#notes > 0 and ": " .. table.concat(notes, "; ") or "")
end

local function push(out, piece)
  if piece then out[#out + 1] = piece end
end

local function has(list, value)
  for _, v in ipairs(list) do
    if v == value then return true end
  end
end

function entry_page.op(entry, site)
  local record, out, text, see = entry.record, {}, {}, {}
  local place = has(record.places, "Tensor") and "Tensor" or record.places[1] or record.inplace[1]
  for _, s in ipairs(record.signatures) do
    push(out, '<p class="sig">' .. html.code(pages.signature(record, s, place)) .. "</p>")
    push(out, "<p>" .. inline(s.doc) .. "</p>")
    local rows = {}
    fact(rows, "shape", escape(s.rule))
    fact(rows, "gradient", gradients_html(s) or s.differentiable and "recorded, of any order" or nil)
    push(out, facts(rows))
    if s.example ~= "" and not has(text, s.example) then text[#text + 1] = s.example end
    for word in s.see:gmatch "[^,]+" do
      word = word:match "^%s*(.-)%s*$"
      if word ~= record.name and not has(see, word) then see[#see + 1] = word end
    end
  end
  local first, rows, forms, notes = record.signatures[1], {}, {}, {}
  for _, p in ipairs(record.places) do
    if p ~= place then forms[#forms + 1] = "<code>" .. escape(p == "Tensor" and "x:" .. record.name .. "(..)" or p .. "." .. record.name .. (place == "Tensor" and "(x, ..)" or "(..)")) .. "</code>" end
  end
  if #record.inplace > 0 and not first.inplace_only then forms[#forms + 1] = "<code>x:" .. record.name .. "_(..)</code> in place" end
  if record.alias_of then notes[#notes + 1] = "the same as " .. see_html(record.alias_of, site) end
  if #record.aliases > 0 then notes[#notes + 1] = "also called " .. escape(table.concat(record.aliases, ", ")) end
  if first.view then notes[#notes + 1] = "a view: it shares memory with what it is made from" end
  if first.random then notes[#notes + 1] = "random: torch.manual_seed gives the same numbers again" end
  local takes = first.params[1] and first.params[1].take
  if not first.differentiable and not first.inplace_only and takes and takes:find "tensor" then notes[#notes + 1] = "no gradient" end
  fact(rows, "also", table.concat(forms, " &nbsp; "))
  fact(rows, "notes", table.concat(notes, "; "))
  fact(rows, "PyTorch", pytorch(record))
  push(out, facts(rows))
  push(out, parameters_html(record))
  if #text > 0 then push(out, example_html(table.concat(text, "\n"))) end
  local svg = curve(record)
  if svg then push(out, "<h2>Curve</h2>\n" .. svg) end
  local links = see_html(table.concat(see, ","), site)
  if links ~= "" then push(out, "<h2>See also</h2>\n<p>" .. links .. "</p>") end
  return table.concat(out, "\n")
end

function entry_page.row(entry, site)
  local row, out, rows = entry.row, {}, {}
  local path, arguments = row[1], row[2]
  local value = pages.value_at(path)
  local plain = arguments == "" and type(value) ~= "function"
  local head = plain and path:gsub("^Tensor%.", "x.") or path:gsub("^Tensor%.", "x:") .. "(" .. arguments .. ")"
  push(out, '<p class="sig">' .. html.code(head) .. "</p>")
  push(out, "<p>" .. inline(row[3]) .. "</p>")
  fact(rows, "shape", row.rule and escape(row.rule))
  local spelled = path:gsub("^nn%.", "torch.nn."):gsub("^F%.", "torch.nn.functional."):gsub("^optim%.", "torch.optim."):gsub("^data%.transforms%.", "torchvision.transforms.v2.")
    :gsub("^data%.", "torch.utils.data."):gsub("^Tensor%.", "torch.Tensor.")
  fact(rows, "PyTorch", spelled ~= path and "<code>" .. escape(spelled) .. "</code>" or nil)
  push(out, facts(rows))
  if row.example then push(out, example_html(row.example)) end
  local links = see_html(row.see, site)
  if links ~= "" then push(out, "<h2>See also</h2>\n<p>" .. links .. "</p>") end
  return table.concat(out, "\n")
end

function entry_page.lua(entry)
  local found, out, rows = entry.found or comments.of(entry.f), {}, {}
  push(out, '<p class="sig">' .. html.code(pages.head(entry.path, found)) .. "</p>")
  if found.doc ~= "" then push(out, "<p>" .. inline(found.doc) .. "</p>") end
  for _, p in ipairs(found.params) do
    if p.doc ~= "" or p.type ~= "" then fact(rows, "<code>" .. escape(p.name) .. "</code>", (escape(p.type) .. " &nbsp;" .. inline(p.doc)):gsub("%s+$", "")) end
  end
  for _, r in ipairs(found.returns) do fact(rows, "returns", inline(r)) end
  push(out, facts(rows))
  push(out, ('<p class="soft">Written in Lua: %s, line %d; <code>??%s</code> shows it.</p>'):format(escape(found.place), found.line, escape(entry.path)))
  return table.concat(out, "\n")
end

function entry_page.space(entry, site)
  local rows = {}
  for _, each in ipairs(catalog.entries()) do
    if each.path:match "^(.*)%.[^.]*$" == entry.path or each.kind == "op" and has(each.record.places, entry.path) then
      rows[#rows + 1] = each
    end
  end
  table.sort(rows, function(a, b) return a.name < b.name end)
  return "<p>" .. inline(entry.doc) .. "</p>\n" .. site.list(rows)
end

function entry_page.topic(entry, site)
  local text = type(entry.text) == "function" and entry.text() or entry.text
  local out = {"<p>" .. inline(entry.doc) .. "</p>", "<pre>" .. html.terminal(text) .. "</pre>"}
  local links = see_html(entry.see, site)
  if links ~= "" then push(out, "<h2>See also</h2>\n<p>" .. links .. "</p>") end
  return table.concat(out, "\n")
end

function entry_page.library(entry)
  local head = entry.keyword and entry.path or (entry.arguments == "" and entry.path:find "^math%.[ph]" and entry.path or entry.path .. "(" .. entry.arguments .. ")")
  return '<p class="sig">' .. html.code(head) .. "</p>\n<p>" .. inline(entry.doc) .. ' <span class="soft">(Lua)</span></p>'
end

return entry_page
