-- %record and %log: what a session says, written down as it goes.
local function session(entries, cwd)
  return check.tycho({"-i", "--clean"}, {stdin = table.concat(entries, "\n") .. "\n", cwd = cwd})
end
local directory = check.temp "record"
os.execute("mkdir -p '" .. directory .. "'")
local function read(name)
  local file <close> = assert(io.open(directory .. "/" .. name, "rb"))
  return file:read "a"
end

test("%record writes entries, what they show, errors and plots as a page", function()
  local r = session({"%record a.html", "x = torch.arange(3)", "x", 'print("<b> & ä")', 'io.write("one ", 2, "\\n")', "plot(x)", "torch.rand(3, 4, 4):show()",
    "pcall(error)", "%record", "%record off", "1 + 1"}, directory)
  check.equal(r.status, 0, r.err)
  local page = read "a.html"
  for _, part in ipairs {"<!DOCTYPE html>", "i64 [3]  0 1 2", "&lt;b&gt; &amp; ä", "one 2", "<svg", 'src="data:image/png;base64,', "the session is written to a.html"} do
    check.contains(page, part)
  end
  check.lacks(page, "1 + 1")
  check.contains(r.out, "⠤", "the plot is in the terminal as well")
end)

test("an error ends up in the record of a session that it ended", function()
  local r = session({"%record b.html", "x = torch.ones(2, 3) + torch.ones(2)"}, directory)
  check.equal(r.status, 1)
  check.contains(read "b.html", "SHAPE-2")
end)

test("a file that is there is written over only when that is asked for", function()
  local r = session({"%record a.html"}, directory)
  check.contains(r.err, "%record -f a.html")
  check.equal(session({"%record -f a.html", "12345"}, directory).status, 0)
  check.contains(read "a.html", "12345")
  check.contains(session({"%record /nowhere/at/all.html"}, directory).err, "/nowhere/at/all.html")
  check.contains(session({"%record -x"}, directory).err, "usage")
end)

test("a log and a record that run together end in any order", function()
  for _, order in ipairs {{"%log off", "%record off"}, {"%record off", "%log off"}} do
    local r = session({"%log on c.txt", "%record -f c.html", "11", order[1], "22", order[2], "'after'"}, directory)
    check.equal(r.status, 0, r.err)
    local log, page = read "c.txt", read "c.html"
    check.contains(log, "> 11\n11\n")
    check.contains(page, '<pre class="out">11</pre>')
    check.equal(log:find("[5]> 22", 1, true) ~= nil, order[1] == "%record off")
    check.equal(page:find('<pre class="out">22</pre>', 1, true) ~= nil, order[1] == "%log off")
    check.lacks(log .. page, "after")
    os.remove(directory .. "/c.txt")
  end
end)
