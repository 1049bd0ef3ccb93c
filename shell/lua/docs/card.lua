-- The card: what people look up, on one sheet of A4. Its boxes are help's own topics.
local catalog = require "shell.help.catalog"
local html = require "shell.html"
local commands = require "shell.commands"
local card = {}

-- Topics in the order of the columns.
local boxes = {"cheatsheet", "indexing", "broadcasting", "calls", "operators", "dtypes", "autograd", "scopes", "modules", "training", "devices", "errors"}
local told = {"who", "mem", "time", "bench", "graph", "why", "nan", "layout", "debug", "undo", "save", "run", "explain", "learn"}

local style = [[
<style>
@page { size: A4; margin: 8mm; }
.card { columns: 34rem 2; column-gap: 5mm; }
.card section { break-inside: avoid; border-top: 1.5px solid var(--link); margin-bottom: .6rem; }
.card h2 { font-size: .95rem; margin: .1rem 0; } .card pre { font-size: .78rem; line-height: 1.3; margin: 0; padding: .1rem 0; border: 0; background: none; }
.card p { margin: 0; font-size: .85rem; line-height: 1.3; } .card dl { margin: 0; font-size: .82rem; display: grid; grid-template-columns: max-content 1fr; gap: 0 .6rem; line-height: 1.3; } .card dd { margin: 0; }
@media print { h1 { font-size: 11pt; margin: 0; } main { padding: 0; } main > p.soft { font-size: 7pt; margin: 0 0 1mm; }
  :root, :root[data-theme] { color-scheme: light; --paper: #fff; --ink: #000; --soft: #333; --link: #14569e; --box: #fff; } .card { columns: 2; }
  .card h2 { font-size: 8pt; } .card pre { font-size: 5.9pt; line-height: 1.25; overflow: visible; } .card p { font-size: 6.6pt; } .card dl { font-size: 6.4pt; line-height: 1.25; } .card code { background: none; padding: 0; } }
</style>
]]

function card.page()
  local out = {style, '<p class="soft">One sheet: print it (A4). Positions count from 1; everything else is PyTorch\'s.</p><div class="card">'}
  for _, name in ipairs(boxes) do
    local entry = catalog.find(name)[1]
    local text = type(entry.text) == "function" and entry.text() or entry.text
    text = text:gsub("\n  ", "\n"):gsub("^  ", "")
    out[#out + 1] = ("<section><h2>%s</h2><p>%s</p><pre>%s</pre></section>"):format(name, html.inline(entry.doc), html.terminal(text))
  end
  out[#out + 1] = "<section><h2>commands</h2><dl>"
  for _, name in ipairs(told) do
    local row = commands.find(name)
    out[#out + 1] = ("<dt><code>%s</code></dt><dd>%s</dd>"):format(html.escape(row.usage:match "^[^\n]*"), html.inline((row.doc:match "^[^.:;]*")))
  end
  out[#out + 1] = "</dl></section></div>"
  return {path = "card.html", title = "Tycho on one sheet", kind = "list", doc = "What people look up, on one sheet of A4.", body = table.concat(out, "\n")}
end

return card
