-- The reference site, page by page: a page is {path=, title=, kind=, doc=, body=, words=}; links lead from
-- one to the other by relative addresses, so that it works from a disk.
local torch = torch
local catalog = require "shell.help.catalog"
local commands = require "shell.commands"
local html = require "shell.html"
local json = require "torch.json"
local escape, inline = html.escape, html.inline
local site = {}

local kind_words = {op = "operation", row = "reference", lua = "function", space = "a part of torch", topic = "topic", library = "Lua"}

-- Paths of pages by the entry they are about; no two differ by upper and lower case alone.
local urls
local function name_entries()
  urls = {}
  local taken = {}
  for _, entry in ipairs(catalog.entries()) do
    local folder = entry.kind == "topic" and "topics" or entry.kind == "library" and "lua" or "reference"
    local name = entry.path:gsub("[^%w._-]", "_")
    local path = folder .. "/" .. name .. ".html"
    local n = 1
    while taken[path:lower()] do
      n = n + 1
      path = ("%s/%s-%d.html"):format(folder, name, n)
    end
    taken[path:lower()] = true
    urls[entry] = path
  end
end

-- From a page one folder down.
local function up(path) return "../" .. path end

---Where the word of a see-also list leads, for a page one folder down; nil where help knows nothing of it.
function site.url_of(word)
  if word:find "^%%" then return commands.find(word) and up "commands.html#" .. word:sub(2) or nil end
  local entry = catalog.see(word)
  return entry and up(urls[entry])
end

---Entries with their sentences, for a page `depth` folders down.
function site.list(entries, top)
  local rows = {}
  for _, entry in ipairs(entries) do
    local name = entry.kind == "library" and entry.path or entry.path:gsub("^Tensor%.", "x:")
    rows[#rows + 1] = ('<dt><a href="%s">%s</a></dt><dd>%s</dd>'):format(top and urls[entry] or up(urls[entry]), escape(name), inline((entry.doc:match "^[^\n]*")))
  end
  return '<dl class="list">' .. table.concat(rows, "\n") .. "</dl>"
end

-- The words of a page's text, each once, for the search.
local function words_of(text)
  local seen, out = {}, {}
  for word in text:gsub("<style.->.-</style>", ""):gsub("<svg.->.-</svg>", ""):gsub("<[^>]*>", " "):gsub("&%w+;", " "):lower():gmatch "[%w_\128-\255][%w_%-\128-\255]*" do
    if #word > 2 and not seen[word] then
      seen[word] = true
      out[#out + 1] = word
    end
  end
  return table.concat(out, " ")
end

local navigation = {{"operations.html", "Operations"}, {"modules.html", "Modules"}, {"lessons.html", "Lessons"}, {"topics.html", "Topics"}, {"commands.html", "Commands"},
  {"keys.html", "Keys"}, {"errors.html", "Errors"}, {"porting.html", "Porting"}, {"card.html", "Card"}}

---The whole file of a page.
function site.file(page)
  local base = page.path:find "/" and "../" or ""
  local nav = {}
  for i, each in ipairs(navigation) do nav[i] = ('<a href="%s%s">%s</a>'):format(base, each[1], each[2]) end
  return table.concat({"<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">', '<meta name="viewport" content="width=device-width, initial-scale=1">',
    ("<title>%s - Tycho</title>"):format(escape(page.title)), ('<link rel="stylesheet" href="%sstyle.css">'):format(base), "</head>",
    ('<body data-root="%s"><header><a class="home" href="%sindex.html">Tycho</a><nav>%s</nav>'):format(base, base, table.concat(nav)),
    '<input id="search" type="search" placeholder="Search ( / )" aria-label="Search"><button id="theme" aria-label="light or dark">&#9680;</button></header>',
    ("<main><h1>%s</h1>"):format(escape(page.title)), page.body, "</main>", ('<script src="%ssite.js"></script></body></html>'):format(base)}, "\n") .. "\n"
end

-- --- pages that are no entry's ---

local function sorted(kind_of)
  local rows = {}
  for _, entry in ipairs(catalog.entries()) do
    if kind_of(entry) then rows[#rows + 1] = entry end
  end
  table.sort(rows, function(a, b) return a.path:gsub("^Tensor%.", ""):gsub("^torch%.", ""):lower() < b.path:gsub("^Tensor%.", ""):gsub("^torch%.", ""):lower() end)
  return rows
end

-- Operations by the room of the engine that they are in.
local function operations()
  local rooms, order = {}, {}
  local titles = {elementwise = "Element by element", shape = "Shapes and views", index = "Parts, positions, order", reduce = "Reductions and scans",
    linear = "Products and linear algebra", nn = "For networks", random = "Random numbers"}
  for _, entry in ipairs(sorted(function(e) return e.kind == "op" end)) do
    local room = entry.record.signatures[1].file:match "engine/ops/([%w_]+)/" or "others"
    if not rooms[room] then
      rooms[room] = {}
      order[#order + 1] = room
    end
    table.insert(rooms[room], entry)
  end
  table.sort(order)
  local out = {"<p>All operations of tensors. Most are functions and methods: <code>torch.exp(x)</code>, <code>x:exp()</code>; many have a form that works in place: <code>x:exp_()</code>.</p>"}
  for _, room in ipairs(order) do
    out[#out + 1] = ('<h2 id="%s">%s</h2>'):format(room, escape(titles[room] or room)) .. site.list(rooms[room], true)
  end
  return {path = "operations.html", title = "Operations", kind = "list", doc = "All operations of tensors, by what they are about.", body = table.concat(out, "\n")}
end

local function modules()
  local out = {"<p>What is no operation of the table: layers, optimisers, data, devices, processes. By part of <code>torch</code>:</p>"}
  for _, entry in ipairs(sorted(function(e) return e.kind == "space" end)) do
    local members = sorted(function(e) return e.kind ~= "op" and e.kind ~= "space" and e.path:match "^(.*)%.[^.]*$" == entry.path end)
    if #members > 0 then
      out[#out + 1] = ('<h2 id="%s"><a href="%s">%s</a></h2><p>%s</p>'):format(entry.path, urls[entry], escape(entry.path), inline(entry.doc)) .. site.list(members, true)
    end
  end
  return {path = "modules.html", title = "Modules, optimisers, data and the rest", kind = "list", doc = "Everything in torch that is no operation.", body = table.concat(out, "\n")}
end

local function topics()
  local mine = sorted(function(e) return e.kind == "topic" end)
  local lua = sorted(function(e) return e.kind == "library" end)
  return {path = "topics.html", title = "Topics, and Lua", kind = "list", doc = "The language of tensors by topic, and Lua's words and functions.",
    body = site.list(mine, true) .. '<h2 id="lua">Lua</h2>' .. site.list(lua, true)}
end

local function command_list()
  local out = {"<p>At the prompt a line that begins with <code>%</code> is a command.</p>"}
  for _, name in ipairs(commands.names "%") do
    local row = commands.find(name)
    out[#out + 1] = ('<h2 id="%s">%s</h2><p class="sig">%s</p><p>%s</p>'):format(name:sub(2), escape(name), escape(row.usage):gsub("\n", "<br>"), inline(row.doc))
    if row.more then out[#out + 1] = "<p>" .. inline((row.more:gsub("\n", " "))) .. "</p>" end
    if row.example then out[#out + 1] = "<pre>" .. escape(row.example) .. "</pre>" end
  end
  return {path = "commands.html", title = "Commands of the prompt", kind = "list", doc = "All commands: what they do, with examples.", body = table.concat(out, "\n")}
end

local function keys()
  local out = {'<div class="wide"><table><tr><th>keys</th><th>what they do</th></tr>'}
  for _, row in ipairs(require("shell.native").keys()) do out[#out + 1] = ("<tr><td><code>%s</code></td><td>%s</td></tr>"):format(escape(row.keys), inline(row.does)) end
  out[#out + 1] = "</table></div>"
  return {path = "keys.html", title = "Keys", kind = "list", doc = "What the keys of the line editor do.", body = table.concat(out, "\n")}
end

-- What %explain says of a code: sentences, then an example to run.
local function rule_html(code)
  local text = html.terminal(require("torch.explain").rule(code)):gsub("<[^>]*>", "")
  local out, example, prose = {}, {}, {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    if line:find "^   " then
      example[#example + 1] = line:sub(4)
    elseif line ~= code and not (line:find ":$" and #prose > 0 and line:find "example") then
      prose[#prose + 1] = line
    end
  end
  out[1] = "<p>" .. table.concat(prose, " ") .. "</p>"
  if #example > 0 then
    local plain = table.concat(example, "\n"):gsub("&(%a+);", {amp = "&", lt = "<", gt = ">", quot = '"'})
    out[2] = "<pre>" .. html.code(plain) .. "</pre>"
  end
  return table.concat(out, "\n")
end

local function errors()
  local explain, find = require "torch.explain", require "shell.lesson.find"
  local out = {"<p>Errors that have a code. <code>%explain CODE</code> shows the rule on the sizes of your last error.</p>"}
  for _, code in ipairs(explain.codes()) do
    local lesson = find.explaining and find.explaining(code)
    out[#out + 1] = ('<h2 id="%s">%s</h2>%s'):format(code, code, rule_html(code))
    if lesson then out[#out + 1] = ('<p>The lesson <a href="lessons/%s.html">%s</a> teaches it.</p>'):format(lesson.name, escape(lesson.title)) end
  end
  return {path = "errors.html", title = "Error codes", kind = "list", doc = "The rule behind every error that has a code.", body = table.concat(out, "\n")}
end

-- Texts that travel inside the program.
local documents = {["coming_from_pytorch.md"] = "porting.html", ["several_processes.md"] = "several_processes.html"}
local function document(name, doc)
  local text = torch._embedded("tutorials/" .. name)
  local title = text:match "^#%s*([^\n]*)"
  local function link(address)
    local file, place = address:match "^([^#]*)(.*)$"
    file = file:match "[^/]*$"
    if documents[file] then return documents[file] .. place end
    return address:find "^https?://" and address or address:find "^#" and address or "index.html"
  end
  return {path = documents[name], title = title, kind = "text", doc = doc, body = html.markdown(text:gsub("^#[^\n]*\n", ""), link)}
end

local function lessons(add)
  local find = require "shell.lesson.find"
  local course, out, chapter = find.course(), {"<p>Lessons for the prompt, also to read: <code>%learn</code> lists them there, and <code>tycho learn NAME</code> begins one.</p>"}, nil
  local of = {}
  for _, each in ipairs(course.chapters or {}) do
    for _, lesson in ipairs(each.lessons or {}) do of[lesson.name or lesson] = each end
  end
  for _, head in ipairs(find.all()) do
    local lesson = assert(find.lesson(head.name))
    if of[head.name] ~= chapter then
      chapter = of[head.name]
      out[#out + 1] = ('<h2 id="%s">%s</h2>'):format(chapter.name, escape(chapter.title or chapter.name))
    end
    out[#out + 1] = ('<p><a href="lessons/%s.html">%s</a></p>'):format(lesson.name, escape(lesson.title))
    add {path = "lessons/" .. lesson.name .. ".html", title = lesson.title, kind = "lesson", doc = lesson.title, body = require("shell.docs.lesson").html(lesson)}
  end
  add {path = "lessons.html", title = "Lessons", kind = "list", doc = "The course: lessons from shapes on.", body = table.concat(out, "\n")}
end

local function front(count)
  local lines = {
    {"operations.html", "Operations", "what tensors can do, by what it is about"}, {"modules.html", "Modules, optimisers, data", "layers, losses, schedules, datasets, devices, processes"},
    {"lessons.html", "Lessons", "one idea per entry, with questions"}, {"topics.html", "Topics, and Lua", "indexing, broadcasting, calls, dtypes, gradients"},
    {"porting.html", "Coming from PyTorch", "what differs, on one page"}, {"several_processes.html", "Several processes", "from two terminals to two machines"},
    {"commands.html", "Commands", "of the prompt"}, {"keys.html", "Keys", "of the line editor"}, {"errors.html", "Error codes", "the rule behind each"},
    {"card.html", "The card", "what people look up, on one sheet of A4"},
  }
  local rows = {}
  for i, row in ipairs(lines) do rows[i] = ('<dt><a href="%s">%s</a></dt><dd>%s</dd>'):format(row[1], row[2], row[3]) end
  return {path = "index.html", title = "Tycho, the reference", kind = "list", doc = "Where everything is.", body = ([[
<p>A prompt and a scripting language for tensors: PyTorch's operations, names and meanings, in Lua. <strong>Names and meanings are
PyTorch's; positions count from 1.</strong> These %d pages say what <code>?name</code> says at the prompt. Type in the box above, or press <code>/</code>, to
search; NumPy's and Torch7's names are found as well.</p>
<dl class="list">%s</dl>
<h2>A first session</h2>
<pre>%s</pre>]]):format(count, table.concat(rows, "\n"), html.code [[
x = torch.tensor{{1, 2, 3}, {4, 5, 6.5}}
x:sum(2)                       -- along dimension 2
w = torch.ones(3, {requires_grad = true})
(x:matmul(w)):sum():backward()
w.grad
?matmul                        -- this site, at the prompt]])}
end

---All pages of the site.
---@return table[] pages
function site.pages()
  name_entries()
  local entry_page = require "shell.docs.entry"
  local list = {}
  local function add(page) list[#list + 1] = page end
  local foreign = {}  -- what other libraries call it
  for _, row in ipairs(require "shell.help.aliases") do
    local entry = catalog.find(row[4])[1]
    if entry then foreign[entry] = (foreign[entry] or "") .. " " .. row[1] end
  end
  for _, entry in ipairs(catalog.entries()) do
    local title = entry.path:gsub("^Tensor%.", "x:")
    if entry.kind == "row" and type(require("shell.help.pages").value_at(entry.path)) ~= "function" and entry.row[2] == "" then title = entry.path:gsub("^Tensor%.", "x.") end
    add {path = urls[entry], title = title, kind = kind_words[entry.kind], doc = entry.doc:match "^[^\n]*", body = entry_page[entry.kind](entry, site),
      extra = (foreign[entry] or "") .. " " .. entry.name .. (entry.record and " " .. table.concat(entry.record.aliases, " ") or "")}
  end
  add(operations())
  add(modules())
  add(topics())
  add(command_list())
  add(keys())
  add(errors())
  add(document("coming_from_pytorch.md", "What differs from PyTorch, with code that runs."))
  add(document("several_processes.md", "Ranks, collectives, training on several processes and machines."))
  lessons(add)
  add(require("shell.docs.card").page())
  add(front(#list + 1))
  return list
end

---The file that the search reads: title, address, kind, sentence and words of every page.
function site.index(list)
  local rows = {}
  for i, page in ipairs(list) do
    local words = words_of(page.body) .. " " .. (page.extra or ""):lower()
    rows[i] = json.write {page.title, page.path, page.kind, page.doc, words}
  end
  return "window.TYCHO_PAGES = [\n" .. table.concat(rows, ",\n") .. "\n];\n"
end

return site
