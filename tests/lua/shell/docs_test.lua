-- The reference site: every link leads somewhere, every page is found, examples show what the program shows.
local json = require "torch.json"
local examples = require "shell.help.examples"
local html = require "shell.html"

local directory = check.temp "docs"
local made = check.tycho {"--docs", directory}

-- All files of the site: path -> text.
local function files()
  local list <close> = assert(io.popen("cd '" .. directory .. "' && find . -type f")) --[[@as file*]]
  local out = {}
  for line in list:lines() do
    local path = line:gsub("^%./", "")
    local file <close> = assert(io.open(directory .. "/" .. path, "rb"))
    out[path] = file:read "a"
  end
  return out
end
local all = made.status == 0 and files() or {}

-- "../reference/x.html" from "topics/y.html" is "reference/x.html".
local function joined(from, to)
  local parts = {}
  for part in ((from:match "^(.*/)" or "") .. to):gmatch "[^/]+" do
    if part == ".." then table.remove(parts) else parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

local unescapes = {["&amp;"] = "&", ["&lt;"] = "<", ["&gt;"] = ">", ["&quot;"] = '"'}
local function plain(text) return (text:gsub("<[^>]*>", ""):gsub("&%w+;", unescapes)) end

test("tycho --docs writes a site, and says where", function()
  check.equal(made.status, 0, made.err)
  check.contains(made.out, "index.html")
  local first = all["index.html"]
  check.contains(first, "viewport")
  check.contains(all["style.css"], "prefers-color-scheme")
end)

test("every link of every page leads to a page, and to a place on it", function()
  local wrong, links = {}, 0
  for path, text in next, all do
    if path:find "%.html$" then
      for kind, address in text:gmatch '%s(%l+)="([^"]*)"' do
        if (kind == "href" or kind == "src") and not address:find "^data:" then
          links = links + 1
          local to, place = address:match "^([^#]*)#?(.*)$"
          local target = to == "" and path or joined(path, to)
          if address:find "^%a+:" then wrong[#wrong + 1] = path .. " leaves the site: " .. address end
          if not all[target] then
            wrong[#wrong + 1] = path .. " -> " .. address
          elseif place ~= "" and not all[target]:find(' id="' .. place .. '"', 1, true) then
            wrong[#wrong + 1] = path .. " -> " .. address .. " (no such place)"
          end
        end
      end
    end
  end
  table.sort(wrong)
  check.equal(table.concat(wrong, "\n", 1, math.min(#wrong, 20)), "")
  check.yes(links > 5000, links)
end)

test("the search knows every page, by its name, its words and what other libraries call it", function()
  local rows = json.read(all["pages.js"]:match "^window%.TYCHO_PAGES = (.*);\n$", "pages.js")
  local known = {}
  for _, row in ipairs(rows) do
    check.equal(#row, 5)
    known[row[2]] = row
    check.yes(all[row[2]], row[2])
  end
  for path in next, all do
    if path:find "%.html$" then check.yes(known[path], path .. " cannot be found") end
  end
  local function finds(word, path)
    local row = assert(known[path], path)
    check.yes((row[1] .. " " .. row[4] .. " " .. row[5]):lower():find(word, 1, true), word .. " finds " .. path)
  end
  finds("largest", "reference/Tensor.topk.html")
  finds("momentum", "reference/optim.SGD.html")
  finds("expand_dims", "reference/Tensor.unsqueeze.html")
  finds("stretch", "topics/broadcasting.html")
  finds("shape-2", "errors.html")
end)

test("names that differ by upper and lower case alone have files of their own", function()
  local seen = {}
  for path in next, all do
    check.no(seen[path:lower()], path)
    seen[path:lower()] = true
  end
end)

test("the examples on the pages show what the program shows", function()
  local paths, wrong = {}, {}
  for path, text in next, all do
    if text:find('<pre class="example">', 1, true) then paths[#paths + 1] = path end
  end
  table.sort(paths)
  check.yes(#paths > 500, #paths)
  for i = 1, #paths, 9 do  -- help_test runs them all, from the records
    local environment, expected = examples.environment(), nil
    local block = all[paths[i]]:match '<pre class="example">(.-)</pre>'
    local code
    local function finish()
      if code then
        local ok, shown = pcall(examples.run, code, environment)
        if not ok or shown ~= expected then wrong[#wrong + 1] = ("%s: %s shows %s"):format(paths[i], code, tostring(shown)) end
      end
      code, expected = nil, nil
    end
    for line in (block .. "\n"):gmatch "(.-)\n" do
      local entered = line:match '^<span class="soft">&gt; </span>(.*)$'
      if entered then
        finish()
        code = plain(entered)
      else
        expected = (expected and expected .. "\n" or "") .. plain(line)
      end
    end
    finish()
  end
  check.equal(table.concat(wrong, "\n"), "")
end)

test("every operation has a page with its shape, and one with a row its gradient", function()
  local text = all["reference/Tensor.mul.html"]
  check.contains(text, "<dt>shape</dt>")
  check.contains(plain(text), "d/dx = g * other")
  check.contains(plain(all["reference/Tensor.tanh.html"]), "tanh_grad(a, b) = a * (-b * b + 1)")
  check.contains(all["reference/Tensor.exp.html"], "<svg")
  for _, record in ipairs(torch._ops()) do
    if not record.name:find "^_" and #record.places > 0 then
      local place = record.places[1] == "torch" and (record.places[2] == "Tensor") and "Tensor" or record.places[1]
      check.yes(all[("reference/%s.%s.html"):format(place, record.name)], record.name)
    end
  end
end)

test("Markdown and terminals' colours become HTML that says the same", function()
  local out = html.markdown "# A *b*\n\nuse `a|b<c` and **x**\n\n| h | `p|q` |\n|---|---|\n| 1 | [t](u.md#v) |\n\n- one\n  more\n- two\n\n```lua\nx = 1 -- say\n```"
  for _, part in ipairs {'<h1 id="a-b">A <em>b</em></h1>', "<code>a|b&lt;c</code>", "<strong>x</strong>", "<th><code>p|q</code></th>", '<a href="u.md#v">t</a>',
    "<li>one more</li>", '<span class="n">1</span>', '<span class="c">-- say</span>'} do
    check.contains(out, part)
  end
  check.equal(html.terminal "\27[1;31merror\27[0m <b>\r", '<span class="b red">error</span> &lt;b&gt;')
  check.equal(html.terminal "\r 1 %\27[K\r 2 %\27[K\nend", " 2 %\nend")
end)

test("a directory that cannot be written is named", function()
  local r = check.tycho {"--docs", "/dev/null/site"}
  check.equal(r.status, 1)
  check.contains(r.err, "/dev/null/site")
  check.equal(check.tycho({"--docs"}).status, 1)
end)
