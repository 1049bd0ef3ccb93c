-- torch.plot, torch.hist and x:show(): exact texts, files, what cannot be drawn, and bad arguments.
local plot = require "torch.plot"
local heat = require "torch.plot.heat"

local function lines_of(s)
  local list = {}
  for line in (s .. "\n"):gmatch "(.-)\n" do list[#list + 1] = line end
  return list
end

test("a straight line goes from corner to corner", function()
  check.equal(plot.text({1, 2, 3}, {width = 24, height = 4, colour = false}), [[
3 ┤                ⣀⠤⠔⠒⠉
2 ┤          ⣀⡠⠤⠒⠊⠉
  │     ⣀⠤⠔⠒⠉
1 ┤⣀⠤⠒⠊⠉
  └┬─────────┬─────────┬
   1         2         3]])
end)

test("x, title and labels have their places", function()
  local s = lines_of(plot.text(torch.tensor {0.0, 10.0}, torch.tensor {5.0, 5.0}, {width = 30, height = 3, colour = false,
    title = "T", xlabel = "time", ylabel = "loss"}))
  check.equal(s[1], (" "):rep(14) .. "T")
  check.equal(s[2], "loss")
  check.contains(s[#s], "time")
  check.contains(s[#s - 1], "10")
end)

test("every line keeps to the width", function()
  torch.manual_seed(2)
  for _, width in ipairs {20, 40, 80, 133} do
    for _, y in ipairs {torch.randn(500), torch.randn(300) * 1e-30, torch.arange(7) * 10 ^ 9, torch.randn(50, 3)} do
      for _, line in ipairs(lines_of(plot.text(y, {width = width, colour = false, title = ("long "):rep(50)}))) do
        check.yes(utf8.len(line) <= width, line)
      end
    end
    for _, line in ipairs(lines_of(plot.hist_text(torch.randn(500), {width = width, colour = false}))) do
      check.yes(utf8.len(line) <= width, line)
    end
  end
end)

test("several curves differ by letter without colours, and by colour with them", function()
  local plain = plot.text({a = {1, 2}, b = {2, 1}}, {colour = false, width = 40, height = 5})
  check.contains(plain, "*")
  check.contains(plain, "o")
  check.contains(plain, "* a   o b")
  local coloured = plot.text({1, 2, 3}, {3, 2, 1}, {1, 1, 1}, {colour = true, width = 40, height = 5, labels = {"up", "level"}})
  check.contains(coloured, "\27[34m")
  check.contains(coloured, "up")
end)

test("what is not finite is skipped and said", function()
  check.contains(plot.text({1, 0 / 0, 3, 1 / 0, -1 / 0}, {colour = false}), "1 nan, 1 +inf, 1 -inf not drawn")
  check.contains(plot.text({1, 0, 100}, {ylog = true}), "1 not positive not drawn")
  check.equal(plot.text {0 / 0}, "nothing to draw: 1 nan not drawn")
  check.equal(plot.text {}, "nothing to draw")
  check.contains(plot.hist_text(torch.tensor {1, 2, 0 / 0}), "1 nan not drawn")
  check.equal(plot.hist_text(torch.zeros(0)), "nothing to draw")
end)

test("a long curve keeps its peaks", function()
  local y = torch.zeros(1000000)
  y[777777], y[5] = 9, 0 / 0
  local s = plot.text(y, {colour = false, width = 60, height = 6})
  check.contains(s, "1 nan not drawn")
  check.contains(s, "5 ┤")
  check.contains(s, " 1000000\n")
  check.no(lines_of(s)[1]:find "^ *│ *$")
end)

test("a histogram counts, and whole numbers get a bin each", function()
  check.equal(plot.hist_text({1, 2, 2, 3}, 3, {width = 24, height = 4, colour = false}), [[
2 ┤       ⣿⣿⣿⣿⣿⣿⡇
1 ┤⣀⣀⣀⣀⣀⣀⡀⣿⣿⣿⣿⣿⣿⡇⣀⣀⣀⣀⣀⣀⡀
  │⣿⣿⣿⣿⣿⣿⡇⣿⣿⣿⣿⣿⣿⡇⣿⣿⣿⣿⣿⣿⡇
0 ┤⣿⣿⣿⣿⣿⣿⡇⣿⣿⣿⣿⣿⣿⡇⣿⣿⣿⣿⣿⣿⡇
  └┬─────────┬─────────┬
   1         2         3]])
  local dice = plot.hist_text(torch.randint(1, 7, {600}), {width = 60, colour = false})
  for k = 1, 6 do check.contains(lines_of(dice)[#lines_of(dice)], tostring(k)) end
end)

test("gradients, modes, devices and random numbers are left alone", function()
  local w = torch.ones(5, {requires_grad = true})
  torch.manual_seed(4)
  local expected = torch.rand(2)
  torch.manual_seed(4)
  plot.text(w * 2, {colour = false})
  plot.hist_text(w * 2)
  heat.text((w * 2):view(1, 5))
  check.equal(torch.rand(2), expected)
  check.equal(w.grad, nil)
  local out = check.tycho({"-e", "torch.plot(torch.ones(3):cuda(1)) torch.hist(torch.ones(3):cuda(1)) torch.ones(3, 3):cuda(1):show()"},
    {env = {TYCHO_SIMULATE_CUDA = "2"}})
  check.equal(out.status, 0)
  check.lacks(out.out, "\27")
end)

local function content(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read "a"
  f:close()
  return s
end

test("the name's ending chooses SVG or PNG, which replace files whole", function()
  local svg, png = check.temp "p.svg", check.temp "p.png"
  torch.plot({1, 2, 0 / 0, 4}, {3, 1, 4, 1}, {file = svg, title = 'a < b & "c"', labels = {"one"}})
  local s = content(svg)
  check.contains(s, "<svg xmlns=")
  check.contains(s, "a &lt; b &amp; &quot;c&quot;")
  check.contains(s, "</svg>\n")
  check.contains(s, "<polyline")
  check.lacks(s, "nan,")
  torch.hist(torch.randn(1000), {file = png, xlabel = "x"})
  check.equal(content(png):sub(1, 8), "\137PNG\r\n\26\n")
  check.contains(content(png), "IEND")
  check.raises("argument", "must end in .svg or .png", torch.plot, {1, 2}, {file = check.temp "p.gif"})
  check.raises("io", nil, torch.plot, {1, 2}, {file = "/nowhere/at/all.svg"})
  torch.plot({1, 2}, {file = png, width = 30, height = 20})
  torch.plot({}, {file = png})
end)

test("wrong arguments are named", function()
  check.raises("argument", "wants values", torch.plot)
  check.raises("argument", 'no option "titel"', torch.plot, {1, 2}, {titel = "x"})
  check.raises("argument", "title must be a string", torch.plot, {1, 2}, {title = 3})
  check.raises("shape", "x has 2 values and y has 3", torch.plot, {1, 2}, {1, 2, 3})
  check.raises("argument", "not a string", torch.plot, "x")
  check.raises("argument", "item 2 is a string", torch.plot, {1, "x"})
  check.raises("shape", "not shape [2, 3, 4]", torch.plot, torch.ones(2, 3, 4))
  check.raises("shape", "at most 20", torch.plot, torch.ones(2, 30))
  check.raises("value", "bins must be", torch.hist, torch.ones(3), 0)
  check.raises("value", "range", torch.hist, torch.ones(3), {range = {2, 1}})
  check.raises("argument", "hist: wants a tensor", torch.hist, "x")
end)

-- --- x:show() ---

test("a matrix is drawn in shades where there are no colours", function()
  check.equal(heat.text(torch.arange(4):view(2, 2):clone(), {colour = false}), "i64 [2, 2]  0 .. 3\n  ░░\n▓▓██")
  check.equal(heat.text(torch.tensor {0.0, 0 / 0, 1.0}, {colour = false}), "f32 [3]  0 .. 1  1 nan\n  ??██")
end)

test("colours are half blocks, two rows to a line", function()
  local s = heat.text(torch.rand(3, 80, 80), {colour = true, width = 40})
  local lines = lines_of(s)
  check.equal(lines[1], "f32 [3, 80, 80]  0 .. 1")
  check.equal(lines[2], "  shown as 40 x 40")
  check.equal(#lines, 22)
  check.contains(lines[3], "▀")
  check.equal(lines[3]:sub(-4), "\27[0m")
end)

test("images are recognised by their channels", function()
  for _, shape in ipairs {{1, 6, 5}, {3, 6, 5}, {4, 6, 5}, {6, 5, 1}, {6, 5, 3}, {6, 5, 4}} do
    local s = heat.text(torch.rand(shape), {colour = true})
    check.contains(s, "0 .. 1")
  end
  check.contains(heat.text(torch.randint(0, 200, {3, 4, 4}, {dtype = "uint8"}), {colour = false}), "0 .. 255")
  check.raises("shape", "take a part", heat.text, torch.rand(5, 6, 7))
end)

local function size_of(png)
  local s = content(png)
  local width, height = string.unpack(">I4I4", s, 17)
  return {width, height}
end

test("a batch of pictures is drawn as one sheet", function()
  local path = check.temp "batch.png"
  torch.rand(10, 3, 40, 40):show {file = path}
  check.equal(size_of(path), {338, 86})
  check.contains(heat.text(torch.rand(4, 1, 8, 8), {style = "shades", width = 84}), "f32 [4, 1, 8, 8]")
end)

test("few rows of a long matrix stay apart", function()
  local x = torch.stack {torch.zeros(400), torch.ones(400)}
  check.contains(heat.text(x, {style = "shades", width = 20}), "shown as 2 x 10\n%s*\n██████████")
  check.contains(heat.text(x.T, {style = "shades", width = 20}), "  ██\n  ██")
end)

test("Kitty gets pixels in base64, in pieces", function()
  local s = heat.text(torch.rand(3, 40, 50), {style = "kitty"})
  check.contains(s, "\27_Gf=24,s=100,v=80,a=T,q=2,m=1;")
  check.equal(s:sub(-2), "\27\\")
  for piece in s:gmatch "\27_G[^;]*;([^\27]*)\27\\" do check.yes(#piece <= 4096 and not piece:find "[^%w+/=]") end
end)

test("pictures and heat maps are written at every size, as PNG and as SVG", function()
  local png, svg = check.temp "map.png", check.temp "map.svg"
  torch.rand(3, 8, 4):show {file = png}
  check.equal(size_of(png), {128, 256})  -- small pictures are enlarged,
  torch.rand(3, 300, 500):show {file = png}
  check.equal(size_of(png), {500, 300})  -- others keep their size
  torch.rand(3, 300, 500):show {file = png, width = 100}
  check.equal(size_of(png), {100, 60})
  for _, shape in ipairs {{1, 1}, {1, 50}, {50, 1}, {2000, 3}, {3, 2000}, {100, 100}} do
    local x = torch.randn(table.unpack(shape))
    for _, o in ipairs {{}, {values = true, title = "t"}, {width = 20, height = 3}} do
      for _, file in ipairs {png, svg} do
        o.file = file
        x:show(o)
      end
      check.contains(content(svg), "</svg>\n")
    end
  end
  torch.tensor {{1, 2}, {3, 4}}:show {file = svg, rows = {"a", "b"}, columns = {"c", "d & e"}, values = true, xlabel = "x", ylabel = "y"}
  for _, part in ipairs {">a</text>", "d &amp; e", ">3</text>", ">x</text>"} do check.contains(content(svg), part) end
  torch.rand(100, 100):show {file = svg}
  check.contains(content(svg), "data:image/png;base64,iVBOR")
  check.raises("value", "rows has 1 names for 2 rows", function() torch.rand(2, 2):show {file = svg, rows = {"a"}} end)
  check.raises("argument", "values is for a file", function() torch.rand(2, 2):show {values = true} end)
  check.raises("shape", "nothing to draw", function() torch.rand(0, 2):show {file = svg} end)
end)

test("curves have the colours that are asked for, and the others none of them", function()
  local path = check.temp "colours.svg"
  torch.plot({train = {1, 2}, test = {2, 1}, third = {3, 1}, file = path, colours = {train = "orange", test = "#123456"}})
  local s = content(path)
  for _, part in ipairs {"#d9822b", "#123456", ">train<", ">test<", "#1f5fa8"} do check.contains(s, part) end
  check.contains(plot.text({1, 2}, {2, 1}, {1, 1}, {colour = true, colours = {"red"}}), "\27[38;")
  check.raises("value", "not nocolour", torch.plot, {1, 2}, {colours = {"nocolour"}})
  check.raises("value", 'one for "b", but there is no such curve', torch.plot, {a = {1, 2}}, {colours = {b = "red"}})
end)

test("an SVG has the font, its size and the lines' width that are asked for", function()
  local path = check.temp "paper.svg"
  torch.plot({1, 2}, {file = path, font = 'Times "New" Roman', fontsize = 16, linewidth = 1.5, width = 300})
  for _, part in ipairs {'font-family="Times &quot;New&quot; Roman"', 'font-size="16"', 'stroke-width="1.5"', 'width="300" height="187"'} do
    check.contains(content(path), part)
  end
  torch.plot({1, 2}, {file = check.temp "large.png", fontsize = 30})
  check.raises("argument", "font is for a file", torch.plot, {1, 2}, {font = "Times"})
  check.raises("argument", "fontsize must be a number above 0", torch.plot, {1, 2}, {file = path, fontsize = -1})
end)

test("a figure holds several plots, heat maps and pictures, and its terminal text is theirs", function()
  local path = check.temp "figure.svg"
  torch.figure {{train = {1, 2}, test = {2, 1}, title = "loss"}, {{1, 2, 3}, title = "accuracy", ylog = true}, torch.rand(4, 5), {torch.rand(3, 8, 8), title = "image"},
    file = path, title = "run"}
  for _, part in ipairs {">loss<", ">accuracy<", ">train<", ">image<", ">run<"} do check.contains(content(path), part) end
  torch.figure {{{1, 2}}, {{2, 1}}, file = check.temp "figure.png", width = 300, height = 200}
  check.equal(size_of(check.temp "figure.png"), {300, 200})
  check.contains(check.tycho({"-e", "torch.figure{{{1, 2}, title = 'one'}, torch.eye(2), title = 'both'}"}).out, "both\n.*one\n.*f32 %[2, 2%]")
  torch.figure {{{1, 2}, {5, 9}, title = "alone"}, file = path, xlabel = nil}
  check.contains(content(path), ">alone<")
  check.contains(content(path), ">8<")
  torch.figure {torch.ones(3), torch.zeros(3), file = path}
  check.raises("argument", "wants plots", torch.figure)
  check.raises("argument", "the file is the whole figure's", torch.figure, {{{1, 2}, file = path}})
end)

test("a logarithmic axis has powers of ten as its marks", function()
  local s = plot.text({1, 10, 100, 1000, 10000}, {ylog = true, width = 40, height = 12, colour = false})
  for _, mark in ipairs {"1e4 ┤", "100 ┤", "  1 ┤"} do check.contains(s, mark) end
  check.contains(plot.text({1, 6}, {ylog = true, width = 40, height = 12, colour = false}), "5 ┤")
  check.lacks(plot.text({0.03, 2}, {ylog = true, width = 40, height = 12, colour = false}), "316")
end)

test("a picture goes to a PNG, and other endings are refused", function()
  local path = check.temp "x.png"
  torch.rand(10, 12):show {file = path}
  check.equal(content(path):sub(1, 4), "\137PNG")
  check.raises("argument", "must end in .svg or .png", heat.text, torch.rand(2, 2), {file = "x.jpg"})
  check.raises("argument", 'no option "styl"', heat.text, torch.rand(2, 2), {styl = 1})
  check.raises("argument", "style must be", heat.text, torch.rand(2, 2), {style = "ascii"})
end)

test("any tensor can be drawn or is refused with a sentence", function()
  torch.manual_seed(8)
  local random = math.random
  for _ = 1, 150 do
    local shape = {}
    for i = 1, random(0, 4) do shape[i] = random(0, 9) end
    local x = torch.randn(shape) * 10.0 ^ random(-45, 38)
    if random() < 0.3 then x = x:to(({"int64", "uint8", "bool", "float16", "float64"})[random(5)]) end
    for _, f in ipairs {plot.text, plot.hist_text, heat.text} do
      local ok, s = pcall(f, x, {width = random(20, 100)})
      if ok then check.yes(utf8.len(s)) else check.yes(s.kind == "shape" or s.kind == "value", tostring(s)) end
    end
  end
end)

test("both ends of an axis are marked, beside the round numbers", function()
  local axes = require "torch.plot.axes"
  local function texts(low, high, near, whole)
    local list = {}
    for i, m in ipairs(axes.with_ends(axes.labelled(low, high, 5), low, high, function() return near end, false, whole)) do list[i] = m.text end
    return table.concat(list, " ")
  end
  check.equal(texts(3.2, 10.7, 0.05), "3.2 4 6 8 10 10.7")
  check.equal(texts(3.2, 10.7, 0.2), "3.2 6 8 10.7")
  check.equal(texts(-999.87, 998, 0.05), "-1000 -500 0 500 998")
  check.equal(texts(0, 10, 0.05), "0 2 4 6 8 10")
  check.equal(texts(0.5, 10.5, 0.05, true), "2 4 6 8 10")
  check.equal(texts(1000, 1000.1, 0.05):match "^%S+", "1000.00")
end)
