-- What somebody types who knows Python: hundreds of lines are answered with a line of Lua that compiles, at the prompt's
-- entry reader and in files, and none leaves a person in a continuation prompt.
local foreign = require "torch.foreign"
local syntax = require "torch.syntax"
local entry = require "shell.entry"
local folder = debug.getinfo(1, "S").source:match "^@(.*)/"

-- {line, its Lua}: a line of Python, and below it, indented, what is to be said.
local lines = {}
for text in io.lines(folder .. "/python/lines.txt") do
  if text:find "^    " then
    lines[#lines][2] = text:sub(5)
  elseif text ~= "" and not text:find "^##" and not text:find "^# Lines that people" then
    lines[#lines + 1] = {text}
  end
end

local function is_lua(text) return load(text) ~= nil or load("return " .. text) ~= nil end

-- Parts of a block compile where their block is.
local function compiles(code)
  return is_lua(code) or code:find "^else" and load("if true then " .. code .. "\nend") ~= nil or code == "goto continue" and load "while true do goto continue ::continue:: end" ~= nil
    or code == "break" and load "while true do break end" ~= nil
end

test("three hundred lines of Python are written in Lua, which compiles", function()
  check.yes(#lines >= 300, #lines)
  for _, case in ipairs(lines) do
    local code = foreign.rewrite(case[1], {global = true})
    check.equal(code, case[2], case[1])
    check.yes(compiles(case[2]), case[1])
  end
end)

test("at the prompt each line that is no Lua is answered at once, with the line of Lua", function()
  local wrong_ones = 0
  for _, case in ipairs(lines) do
    local code, wrong = entry.read(case[1])
    if not code then
      wrong_ones = wrong_ones + 1
      check.equal(wrong.kind, "wrong", case[1])
      syntax.hint(case[1], wrong, {global = true, whole = true})
      check.equal(wrong.code, case[2], case[1])
      check.contains(wrong.hint or "", case[2]:match "^[^\n]*", case[1])
    end
  end
  check.yes(wrong_ones > 280, wrong_ones)
end)

test("in a file each line that is no Lua is answered with the line of Lua", function()
  for _, case in ipairs(lines) do
    local text = "local first = 1\n" .. case[1] .. "\nlocal last = 2\n"
    local ok, message = load(text, "@file.lua")
    if not ok and not is_lua(case[1]) then
      local failure = syntax.failure(text, message)
      check.yes(failure.code ~= nil, case[1] .. ": " .. message)
      check.yes(compiles(failure.code), case[1])
    end
  end
end)

test("pieces of programs, of one line or many, are answered at the prompt and in files", function()
  local text, count = "", 0
  for _, name in ipairs {"pieces", "blocks", "loops"} do
    for line in io.lines(("%s/python/%s.txt"):format(folder, name), "L") do text = text .. (line:find "^# %u%l+ that people" and "" or line) end
  end
  for python, lua in text:gmatch "(.-)\n==>\n(.-)\n%-%-%-\n" do
    count = count + 1
    local code = foreign.rewrite(python, {global = true})
    check.equal(code, lua, python)
    check.yes(compiles(lua), python)
    local read, wrong = entry.read(python)
    if not read then
      check.equal(wrong.kind, "wrong", python)
      syntax.hint(python, wrong, {global = true, whole = true})
      check.equal(wrong.code, lua, python)
    end
    local text = "local first = 1\n" .. python .. "\nlocal last = 2\n"
    local ok, message = load(text, "@file.lua")
    if not ok and not python:find "^%%" then check.yes(syntax.failure(text, message).code ~= nil, python) end
  end
  check.yes(count >= 240, count)
end)

test("complex numbers are answered by what to do without them, in a line and in a call", function()
  for _, line in ipairs {"z = 3 + 4j", "y += 2.5J * x", "z = complex(1, 2)"} do
    local code, remarks = foreign.rewrite(line)
    check.equal(code, nil, line)
    check.contains(remarks[1], "no complex numbers", line)
  end
  check.equal(foreign.rewrite "y = 4 if c else 0", "y = c and 4 or 0")
  check.raises("argument", "no complex numbers", function() return torch.view_as_complex(torch.ones(2)) end)
end)

test("what is written in Lua does what Python does", function()
  for _, case in ipairs {
    {"text = 'hello'\nchars = sorted(list(set(text)))", "table.concat(chars)", "ehlo"},
    {"text = 'abca'\nstoi = {ch: i + 1 for i, ch in enumerate(['a', 'b', 'c'])}\nencode = lambda s: [stoi[c] for c in s]\ny = encode(text)", "#y", 4},
    {"a = None\nx = None if a is None else a + 1", "x == nil", true},
    {"a = 2\nx = None if a is None else a + 1", "x", 3},
    {"x = torch.tensor([1.0, -1.0])\ny = 1 if (x > 2).any() else 2", "y", 2},
    {"x = torch.tensor([1.0, -1.0])\ny = 0\nif torch.isnan(x).any() or not (x > -2).all(): y = 1", "y", 0},
    {"out = []\nfor i, (a, b) in enumerate(zip([1, 2], [3, 4])):\n    out.append(i * a * b)", "out[1] .. ',' .. out[2]", "3,16", lists = true},
    {"sizes = [4, 8, 2]\nxs = [a * b for a, b in zip(sizes[:-1], sizes[1:])]", "xs[1] .. ',' .. xs[2] .. ',' .. #xs", "32,16,2"},
    {"xs = [1, 2, 3, 4]\nfirst, *rest = xs\n*init, last = xs", "first .. #rest .. #init .. last", "1334"},
    {"xs = [5, 6]\ny = 0\nif (n := len(xs)) > 1: y = n", "y", 2},
    {"xs = [3, 1, 2]\nys = sorted(xs, key=lambda v: -v)\nzs = sorted(xs, reverse=True)", "ys[1] .. zs[1] .. xs[1]", "333"},
    {"s = '{:.0f}% of {}'.format(50.4, 'all')", "s", "50% of all"},
    {"s = '{a} {b:.2f} {c:.1%}'.format(a=1, b=2, c=0.5)", "s", "1 2.00 50.0%"},
    {"s = f'{0.1234:.1%} {7:03d} {3.14159:8.3f}|'", "s", "12.3% 007    3.142|"},
    {"n = 0\nfor i in range(10):\n    if i % 2 == 0:\n        continue\n    n += i", "n", 25},
    {"w = torch.ones(2, requires_grad=True)\n@torch.no_grad()\ndef f(x):\n    return x * 2\ny = f(w)", "y.requires_grad", false},
    {"@dataclass\nclass Config:\n    lr: float = 0.5\n    sizes = [1, 2]", "Config.lr + #Config.sizes", 2.5},
    {"xs = [1, 2, 3]\nxs.remove(2)\nxs += [7, 8]\nxs.reverse()\ni = xs.index(3)", "table.concat(xs, ' ') .. i", "8 7 3 13"},
    {"d = {}\nd.setdefault('a', []).append(1)\nd.setdefault('a', []).append(2)\nd['b'] = 3\nd.pop('b')", "#d.a .. tostring(d.b)", "2nil"},
    {"def f(*args):\n    return len(args)\nxs = [1, 2]\nn = f(*xs, 3)", "n", 3},
    {"s = 'a.b.c'.replace('.', '-')", "s", "a-b-c"},
    {"x, (y, z) = 1, (2, 3)", "x + y + z", 6},
    {"s = ''\nfor x in [1, 2]:\n    if x > 2: break\nelse:\n    s = 'none'", "s", "none"},
    {"n = 0\nfor i in range(5):\n    for j in range(3):\n        if i * j == 4:\n            break\n    else:\n        continue\n    n = 10 * i\n    break", "n", 20},
    {"rows = [[1, 2], [3, 4], [5, 6]]\na, b = zip(*rows)\nc = [p + q + r for p, q, r in zip(*rows)]", "a[3] .. b[1] .. c[1] .. c[2]", "52912"},
    {"rows = [(1, 2), (3, 4)]\nrows, b = zip(*rows)", "rows[2] .. b[2]", "34"},
    {"d = {'a': 2}\ns = ''\nfor k in d:\n    s += k + str(d[k])", "s", "a2"},
    {"d = [((1, 2), 5)]\nn = 0\nfor (i, j), v in d:\n    n = i + j + v", "n", 8},
    {"xs = [4, 1, 3]\nbest = min(range(len(xs)), key=lambda i: xs[i])", "best", 2},
    {"seen = set()\nn = 0\nfor x in [1, 1, 2]:\n    if x not in seen:\n        seen.add(x)\n        n += 1", "n", 2},
    {"m = [[i * j for j in range(3)] for i in range(3)]", "m[3][3] .. m[1][3] .. m[2][2]", "401"},
    {"losses = [1, 2, 3]\ns = sum(losses[-2:]) + sum(losses[-9:]) + sum(losses[:-1])\nn = losses[-1] + len(losses[1:])", "s + n", 19},
    {"line = '3,4'\na, b = map(float, line.split(','))", "a + b", 7.0},
    {"a = {'k': 1}\nb = {'k': 2}\nc = {**a, **b}\nd = {'k': 3, **a}\ne = {**a, 'k': 4}", "c.k .. d.k .. e.k", "214"},
    {"d = {'b': 1, 'a': 2}\ns = ''\nfor k, v in sorted(d.items()): s += k + str(v)", "s", "a2b1"},
    {"x = torch.tensor([1.0, 2.5])\nok = bool((x > 2).all())\nn = int(x.sum())\nm = float(x.mean())", "tostring(ok) .. n .. m", "false31.75"},
    {"k = type(3) == int and type('a') == str and type(2.5) != int", "k", true},
    {"odd = [i for i in range(5) if i % 2]\nempty = []\ny = 0\nif not len(empty): y = 1", "odd[1] .. odd[2] .. #odd .. y", "1321"},
    {"a, b = ' 1,2 '.strip().split(',')", "a .. '|' .. b", "1|2"},
    {"results = [{'acc': 1}, {'acc': 3}]\nbest = max(results, key=lambda r: r['acc'])", "best.acc", 3},
    {"a = [1, 2]\nb = [3]\nxs = [*a, *b, 9]\nd = {**{'x': 1, 'y': 2}, 'y': 5}", "table.concat(xs) .. d.x .. d.y", "123915"},
    {"s = 'abc'\nt = s[::-1]\nu = s[0] + s[-1]", "t .. u", "cbaac"},
    {"d = defaultdict(list)\nd['a'].append(4)\nn = defaultdict(int)\nn['b'] += 2\nc = Counter(['u', 'u'])", "d.a[1] .. n.b .. c.u", "422"},
    {"keys = ['a', 'b']\nvalues = [1, 2]\nd = dict(zip(keys, values))\nks = sorted(d.keys())", "d.a .. d.b .. ks[2]", "12b"},
    {"e = 'CUDA out of memory'\ny = 1 if 'out of memory' in str(e) else 2", "y", 1},
    {"xs = list(map(lambda v: v * 2, [1, 2]))\nys = list(filter(lambda v: v > 1, [1, 2]))\nzs = list(zip(xs, ys))", "xs[2] + ys[1] + #zs", 8},
    {"class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layers = nn.ModuleList()\n        for i in range(2):\n            self.layers.append(nn.Linear(2, 2))\n    def forward(self, x):\n        for layer in self.layers:\n            x = layer(x)\n        return x\nnet = Net()\nn = len(list(net.parameters()))", "n", 4},
    {"parser = argparse.ArgumentParser()\nparser.add_argument('--batch-size', type=int, default=32)\nparser.add_argument('--cuda', action='store_true')\nargs = parser.parse_args()", "tostring(args.batch_size) .. tostring(args.cuda)", "32false"},
  } do
    local code = foreign.rewrite(case[1], {global = true})
    check.yes(code ~= nil, case[1])
    local env = setmetatable({nn = torch.nn, F = torch.nn.functional}, {__index = _G})
    local f = assert(load(code, "=piece", "t", env), code)
    local ok, err = pcall(f)
    check.yes(ok, case[1] .. "\n" .. code .. "\n" .. tostring(err))
    check.equal(assert(load("return " .. case[2], "=value", "t", env))(), case[3], code)
  end
end)

local function script(text)
  local path = check.temp "program.lua"
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return check.tycho {path}, path
end

test("a syntax error of a file shows file, line, source, caret and Lua", function()
  local r, path = script "local x = 1\nif x != 2:\n  print(x)\n"
  check.equal(r.status, 1)
  check.equal(r.err, ("tycho: %s:2: error: unexpected '!': 'then' expected\n   if x != 2:\n        ^\n   in Lua: if x ~= 2 then\n             print(x)\n           end\n"):format(path)
    .. "   -- not equal is ~=\n   -- blocks end with the word end\n")
  check.contains(script("local y = 1\nlocal x = [1, 2]\n").err, "   local x = [1, 2]\n             ^\n   in Lua: local x = {1, 2}\n")
  check.contains(check.tycho({"-e", "x += 1"}).err, "(command line):1: error: unexpected '+'\n   x += 1\n     ^\n   in Lua: x = x + 1\n")
  check.contains(check.tycho({"-"}, {stdin = "x = 1\nx **= 2\n"}).err, "stdin:2: error: ")
  check.contains(script("for i = 1, 3 do\n  print(i)\n").err, "the text ends too early: 'end' expected (to close 'for' at line 1)")
end)

test("a module that does not compile is shown where it is wrong", function()
  local path = check.temp "wrongmodule.lua"
  local file = assert(io.open(path, "w"))
  file:write "local m = {}\ndef f(x): return x\n"
  file:close()
  local r = script(("package.path = %q\nlocal m = require 'wrongmodule'\n"):format(path:match "^(.*)/" .. "/?.lua"))
  check.contains(r.err, "wrongmodule.lua:2: error: ")
  check.contains(r.err, "in Lua: local function f(x) return x end")
end)

test("a whole function that is pasted is written in Lua, with its block", function()
  local code = foreign.rewrite([[
def train(model, loader, epochs=2):
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if total < 1:
            break
        else:
            print(f"{epoch}: {total:.3f}")
    return total]], {global = true})
  check.equal(code, [[
function train(model, loader, epochs) epochs = epochs or 2;
    for epoch = 1, epochs do
        total = 0.0
        for x, y in loader() do
            optimizer:zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss:backward()
            optimizer:step()
            total = total + loss:item()
        end
        if total < 1 then
            break
        else
            print(("%s: %.3f"):format(epoch, total))
        end
    end
    return total
end]])
end)

test("a class that is pasted becomes a class of nn.class with its methods", function()
  local code = foreign.rewrite([[
class Net(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.fc1 = nn.Linear(784, hidden)
        self.fc2 = nn.Linear(hidden, 10)

    def forward(self, x):
        # flat
        x = x.view(-1, 784)
        return self.fc2(F.relu(self.fc1(x)))]], {global = true})
  check.yes(code ~= nil)
  local env = setmetatable({nn = torch.nn, F = torch.nn.functional}, {__index = _G})
  assert(load(code, "=net", "t", env))()
  check.shape(env.Net(8)(torch.ones(3, 28, 28)), {3, 10})
end)

test("random lines never break the reader", function()
  local pieces = {"x", "[", "]", "(", ")", "{", "}", ":", ",", "=", "==", "1", "0", "'a'", "f'{x}'", " ", "for ", " in ", "if ", " else ", "def ", "class ",
    "lambda ", "not ", ".", "**", "@", "-", "import ", "from ", "#", "\n", "    ", "end", "then ", "\"", "\\", "，", "“", "\xff", "$"}
  math.randomseed(7)
  for _ = 1, 4000 do
    local parts = {}
    for k = 1, math.random(12) do parts[k] = pieces[math.random(#pieces)] end
    local text = table.concat(parts)
    local code = foreign.rewrite(text)
    if code then check.yes(#code >= 0, text) end
    foreign.line(text, 1)
    foreign.waits(text)
    entry.read(text)
  end
end)

-- Code after -e that fails while it runs: its report holds each text.
local function says(code, ...)
  local r = check.tycho {"-e", code}
  check.equal(r.status, 1, code)
  for _, part in ipairs {...} do check.contains(r.err, part, code) end
end

test("errors while a script runs that come from Python's habits say what to write", function()
  says("for i, v in enumerate({1}) do print(i, v) end", "Python's enumerate is no function here", "try: for i, v in ipairs({1}) do print(i, v) end")
  says("print(len({1}))", "try: print(#({1}))")
  says("for i in range(3) do print(i) end", "try: for i = 1, 3 do print(i) end")
  says("plt.plot({1, 2})", "there is no plt here", "try: torch.plot({1, 2})")
  says("x = np.zeros(3)", "try: x = torch.zeros(3)")
  says("x = 3; print(f'{x} apples')", "made by format", "try: x = 3; print(('%s apples'):format(x))")
  says("local m = torch.nn.Linear(1, 2) for p in m:parameters() do print(p) end", "a list is no iterator", "try: for _, p in ipairs(m:parameters()) do")
  says("local m = torch.nn.Linear(1, 2) print(next(m:parameters()).device)", "try: m:parameters()[1]")
  says("for row in torch.ones(2) do end", "a tensor is no iterator", "try: for i = 1, #torch.ones(2) do local row = torch.ones(2)[i]")
  says("for i in 3 do end", "try: for i = 1, 3 do")
  says("print('on ' .. torch.device('cpu'))", "a device is not joined", "would fit: tostring(torch.device('cpu'))")
  says("local x = torch.ones(2) print('loss ' .. x:sum())", "a Tensor is not joined", "would fit: tostring(x:sum())")
  says("print('%d' % 3)", "put into a text by format", "try: print(('%d'):format(3))")
  says("print('%.2f' % torch.ones(1))", "try: print(('%.2f'):format(torch.ones(1)))")
  says("torch.tensor([[1, 2], [3, 4]])", "try: torch.tensor{{1, 2}, {3, 4}}")
  says("x = torch.ones(2, {requires_grad = True})", "Lua writes True small: true")
  says("local N = {}\nfunction N.f(x) return self.y end\nN.f(3)", "self is nil: N.f is written with a point", "try: function N:f(x)")
end)

test("names of the prompt in a file: the error says the line to add, which works", function()
  for _, code in ipairs {"x = nn.Linear(2, 3)", "x = F.relu(torch.ones(2))", "x = optim.SGD({torch.ones(1, {requires_grad = true})}, {lr = 1})", "x = data.TensorDataset(torch.ones(2, 2))"} do
    local r = check.tycho {"-e", code}
    local line = r.err:match "try: (local %w+ = torch[%w_.]+)"
    check.yes(line ~= nil, r.err)
    check.equal(check.tycho({"-e", line .. "\n" .. code}).status, 0, code)
  end
end)

test("string.format takes a tensor of one element for its number", function()
  check.equal(string.format("%.3f %d %5.1f|%s", torch.tensor(0.5), torch.tensor(7), torch.ones(1, 1), torch.tensor(2)), "0.500 7   1.0|" .. tostring(torch.tensor(2)))
  check.equal(("%d%% of %s"):format(torch.tensor(true), "x"), "1% of x")
  check.equal(("%-8.2f|"):format(torch.ones(1, {requires_grad = true}) * 2), "2.00    |")
  local x = torch.ones(2, 3)
  local err = check.raises("argument", 'format: "%.2f" wants one number, and argument 2 is a tensor of shape [2, 3]', function() return ("%.2f"):format(x) end)
  check.contains(tostring(err), "try: x:mean():item()")
  check.raises(nil, "number expected", function() return ("%d"):format({}) end)
end)

test("a list of lists in double brackets is a text: a note says so", function()
  local r, path = script "local x = [[1, 2], [3, 4]]\nlocal y = [[a text]]\nlocal z = [[1]]\n"
  check.equal(r.status, 0)
  check.equal(r.err, ("note LIST: [[1, 2], [3, 4]] is a text in Lua, not a list (%s:1)\n   a list: {{1, 2}, {3, 4}}\n"):format(path))
  check.contains(check.tycho({"-i", "--clean"}, {stdin = "x = [[1, 2], [3, 4]]\n"}).err, "a list: {{1, 2}, {3, 4}}")
end)

test("at the prompt a name that only Python has is answered with the entry in Lua", function()
  local function prompt(text) return check.tycho({"-i", "--clean"}, {stdin = text .. "\n"}).err end
  check.contains(prompt "x = {1}\nlen(x) + 1", "in Lua: #x + 1")
  check.contains(prompt "np.zeros(3)", "in Lua: torch.zeros(3)")
  check.contains(prompt "for i, v in enumerate({1}) do print(v) end", "in Lua: for i, v in ipairs({1}) do print(v) end")
  check.contains(prompt "x = True", "in Lua: x = true")
end)

test("a pair of positions that is meant as a range, an arange that is one short, ids from 0: the change that fits", function()
  says("local p = torch.arange(6) print(p[{1, 5}])", "would fit: p[{{1, 5}}]  -> [5]")
  says("local p = torch.ones(6, 3) print(p[{1, 5}])", "would fit: p[{{1, 5}}]  -> [5, 3]")
  says("local n = 5; local y = torch.ones(n) local x = torch.arange(1, n) print(x + y)", "try: torch.arange(1, n + 1)  -- arange(1, n) ends before n")
  says("local e = torch.nn.Embedding(5, 2) print(e(torch.arange(3)))", "would fit: e(torch.arange(3) + 1)  -> [3, 2]")
end)

test("a first line that goes on below it in Python is answered before the rest is typed", function()
  local function prompt(text) return check.tycho({"-i", "--clean"}, {stdin = text .. "\n"}).err end
  check.contains(prompt "x = [", "in Lua: x = {")
  check.contains(prompt "tf = transforms.Compose([", "in Lua: tf = transforms.Compose{")
  check.contains(prompt '    "lr": [1, 2],', "in Lua: lr = {1, 2},")
  check.contains(prompt 'd = {\n    "lr": 3,\n}', "in Lua: lr = 3,")
  check.contains(prompt "x = a + \\", "a line goes on below it without a mark")
end)

test("methods that Python's lists and texts have are written as Lua's functions", function()
  says("local xs = {}; xs.append(3)", "no method append as in Python", "try: local xs = {}; table.insert(xs, 3)")
  says("for k, v in d.items() do print(k) end", "attempt to index a nil value (global 'd')")
  says("d = {a = 1}; for k, v in d.items() do print(k) end", "for k, v in pairs(d) do print(k) end")
  says("s = 'a b'; print(s:split())", "no method split as in Python")
end)

test("a tensor that holds one whole number is a bound of a range and a position", function()
  local x, i = torch.arange(6), torch.tensor(2)
  check.equal(x[{{i, i + 2}}]:tolist(), {1, 2, 3})
  check.equal(x[i]:item(), 1)
  check.raises("index", "a range's bound must be an integer", function() return x[{{torch.tensor(1.5), 3}}] end)
end)

test("a table of numbers gives one column by its name, and prints fractions short", function()
  local path = check.temp "t.csv"
  local file = assert(io.open(path, "w"))
  file:write "area,price\n52.8,100\n140.8,297.9\n"
  file:close()
  local t = torch.utils.data.read_csv(path)
  check.equal(t:tensor("price").shape, {2, 1})
  check.contains(tostring(t), "area  float32  52.8 140.8")
end)

test("a method that was written with a point and a 0 counts its dimensions from 0; what other prompts answer to is named", function()
  local x = torch.randn(3, 4)
  for _, case in ipairs {{function() return x.mean(0) end, "x:mean(1)"}, {function() return x.transpose(0, 1) end, "x:transpose(1, 2)"}, {function() return x.select(0, 1) end, "x:select(1, 2)"},
    {function() return x.sum(1) end, "x:sum(1)"}} do
    local _, err = pcall(case[1])
    check.equal(err.fixes[1], case[2])
  end
  for line, answer in pairs {clear = "Ctrl-L clears the screen", ls = "!ls asks the system", ["dir()"] = "%who lists the variables"} do
    check.contains(check.tycho({"-i", "--clean"}, {stdin = line .. "\n"}).err, answer)
  end
end)

test("every method of a tensor that is called with a point says so, whatever its arguments were taken for", function()
  local lines, silent = {}, {}
  for name, f in next, require("torch.explain.names").tensor_names() do
    if type(f) == "function" and name:find "^%l" and load("local x return x." .. name) then
      lines[#lines + 1] = ("function() local y = x.%s() end,"):format(name)
      lines[#lines + 1] = ("function() local y = x.%s(0) end,"):format(name)
    end
  end
  check.equal(#lines > 900, true)
  for from = 1, #lines, 40 do  -- each report reads its file
    local path = check.temp(("points%d.lua"):format(from))
    local file = assert(io.open(path, "w"))
    file:write("local x = torch.ones(4, 4) return {\n", table.concat(lines, "\n", from, math.min(from + 39, #lines)), "}")
    file:close()
    for i, call in ipairs(dofile(path)) do
      local ok, err = pcall(call)
      if ok or not tostring(err):find(": a colon hands it x", 1, true) then silent[#silent + 1] = lines[from + i - 1] end
    end
  end
  check.equal(table.concat(silent, "\n"), "")
end)

test("Lua's own errors about sums and products of texts, and a value that stands alone in a file, say what to write", function()
  for code, answer in pairs {
    ['print("a" + "b")'] = '"a" .. "b"', ['print("-" * 20)'] = '("-"):rep(20)', ['print("loss " + torch.ones(1) + "!")'] = '"loss " .. tostring(torch.ones(1)) .. "!"',
    ["x = {1}\nprint(x + {2})"] = "torch.tensor(x)", ["x = torch.ones(2)\nx"] = "in Lua: print(x)", ["x = torch.ones(2)\nx.T\ny = 3"] = "in Lua: print(x.T)", ["quit"] = "os.exit()",
    ["print(max(0, 3))"] = "math.max(0, 3)", ["losses = {}\nlosses = losses + [1]"] = "table.insert(losses, 1)", ['p = os.path.join("a", "b")'] = 'p = "a" .. "/" .. "b"',
    ["x = torch.ones(2)\nprint(x.shape[0])"] = "x.shape[1]", ["x = torch.ones(2)\nprint(x.ndim())"] = "would fit: x.ndim",
    ["m = torch.nn.Linear(2, 1)\nfor n, p in m:named_parameters() do print(n) end"] = "do local n, p = each[1], each[2]",
  } do
    local path = check.temp "alone.lua"
    local file = assert(io.open(path, "w"))
    file:write(code, "\n")
    file:close()
    check.contains(check.tycho({path}).err, answer)
  end
end)
