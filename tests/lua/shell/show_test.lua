-- How values look: tensors in Tycho's and in PyTorch's style, tables, functions, modules and the rest.
local show = require "shell.show"

-- The text of a value in a window of 80 columns, without colours.
local function text(v, options)
  local o = {width = 80, lines = 20, colour = false}
  for k, x in pairs(options or {}) do o[k] = x end
  return show.value(v, o)
end

local function looks(v, expected, options) check.equal(text(v, options), expected) end

local function widest(s)
  local n = 0
  for line in (s .. "\n"):gmatch "(.-)\n" do n = math.max(n, utf8.len(line)) end
  return n
end

test("a number in a tensor shows its dtype and no shape", function()
  looks(torch.tensor(24.0), "f32 []  24")
  looks(torch.tensor(3), "i64 []  3")
  looks(torch.tensor(true), "bool []  true")
  looks(torch.tensor(0.6931471805), "f32 []  0.69315")
  looks(torch.tensor(0.1, {dtype = "float64"}), "f64 []  0.1")
  looks(torch.tensor(0 / 0), "f32 []  nan")
  looks(torch.tensor(-1 / 0), "f32 []  -inf")
  looks(torch.tensor(1e-30), "f32 []  1e-30")
end)

test("a short vector stands on the header's line", function()
  looks(torch.tensor {0.95, -0.7, 0.76}, "f32 [3]   0.95  -0.7  0.76")
  looks(torch.tensor {5.0, 4.0}, "f32 [2]  5 4")
  looks(torch.arange(12), "i64 [12]  0 1 2 3 4 5 6 7 8 9 10 11")
  looks(torch.tensor {true, false}, "bool [2]  # .")
  looks(torch.tensor {0 / 0, 1.5}, "f32 [2]   nan  1.5")
end)

test("what fits into the window is shown whole, its columns lined up", function()
  looks(torch.arange(20), "i64 [20]  0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")
  looks(torch.arange(45), [[
i64 [45]
  0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15  16  17  18
 19  20  21  22  23  24  25  26  27  28  29  30  31  32  33  34  35  36  37
 38  39  40  41  42  43  44]])
  local confusion = text(torch.arange(100):view(10, 10):clone())
  check.lacks(confusion, "%.%.")
  check.contains(confusion, "\n 50  51  52  53  54  55  56  57  58  59\n")
  check.lacks(text(torch.arange(60):view(20, 3):clone()), "%.%.")
  looks(torch.tensor {{{1, 2}, {3, 4}}, {{5, 600}, {7, 8}}},
    "i64 [2, 2, 2]\n[1, :, :]   1    2\n            3    4\n[2, :, :]   5  600\n            7    8")
  check.contains(text(torch.arange(63):view(21, 3):clone()), "..  ..\n")  -- a line more than there is room for
  check.lacks(text(torch.arange(63):view(21, 3):clone(), {lines = 21}), "%.%.")
  check.contains(text(torch.arange(63):view(21, 3):clone(), {lines = 21, width = 11}), "0  ..   2\n")
end)

test("a vector longer than the window shows its ends, and names what shows all of it", function()
  looks(torch.arange(1000), "i64 [1000]  0 1 2 .. 997 998 999   (%full _ for everything)")
  looks(torch.arange(1000), "i64 [1000]  0 1 2 .. 997 998 999   (%full rather_long_name for everything)", {name = "rather_long_name"})
  looks(torch.arange(1000), "i64 [1000]  0 1 2 .. 997 998 999\n  (%full _ for everything)", {width = 40})
  check.equal(tostring(torch.arange(1000)), "i64 [1000]  0 1 2 .. 997 998 999")
end)

test("a matrix has its columns lined up and one number of decimals", function()
  looks(torch.tensor {{0.34, -1.2, 0.88}, {-0.51, 0.07, 1.94}}, "f32 [2, 3]\n  0.34  -1.20  0.88\n -0.51   0.07  1.94")
  looks(torch.tensor {{1, 20}, {300, 4}}, "i64 [2, 2]\n   1  20\n 300   4")
  looks(torch.tensor {{true, false}, {false, true}}, "bool [2, 2]\n # .\n . #")
  looks(torch.tensor {{0.5, 1.0}, {2.5, 3.0}}, "f32 [2, 2]\n 0.5  1.0\n 2.5  3.0")
end)

test("rows and columns beyond the edges are two dots", function()
  looks(torch.arange(200):view(10, 20):clone(), [[
i64 [10, 20]
   0    1    2  ..   17   18   19
  20   21   22  ..   37   38   39
  40   41   42  ..   57   58   59
  ..   ..   ..  ..   ..   ..   ..
 140  141  142  ..  157  158  159
 160  161  162  ..  177  178  179
 180  181  182  ..  197  198  199
  (%full _ for everything)]])
end)

test("more than two dimensions are labelled, and the rest is named", function()
  looks(torch.arange(8):view(2, 2, 2):clone(), "i64 [2, 2, 2]\n[1, :, :]   0  1\n            2  3\n[2, :, :]   4  5\n            6  7")
  local many = text(torch.zeros(20, 4, 4):add(torch.arange(20):view(20, 1, 1)))
  check.contains(many, "[1, :, :]   0  0  0  0")
  check.contains(many, "[2..20, :, :] same layout   (%full _ for everything)")
  check.contains(text(torch.rand(2, 3, 4, 5)), "5 more of the same layout   (%full _ for everything)")
  check.lacks(tostring(torch.rand(2, 30, 4, 5)), "%full")
end)

test("equal values are said in words from ten elements on", function()
  looks(torch.ones(3, 4) * 2, "f32 [3, 4]  all 2")
  looks(torch.zeros(10), "f32 [10]  all zero")
  looks(torch.ones(5000):bool(), "bool [5000]  all true")
  looks(torch.full({2000}, 0 / 0), "f32 [2000]  all nan")
  looks(torch.full({12}, -1 / 0), "f32 [12]  all -inf")
  looks(torch.full({40}, math.mininteger), "i64 [40]  all -9223372036854775808")
  looks(torch.ones(3) * 2, "f32 [3]  2 2 2")
end)

test("nan and infinities are counted", function()
  looks(torch.tensor {{1, 0 / 0, 1 / 0}, {0 / 0, 0.25, -3}}, "f32 [2, 3]  2 nan  1 +inf\n 1.00   nan   +inf\n  nan  0.25  -3.00")
  local x = torch.zeros(2000)
  x[5], x[6], x[7], x[8] = 0 / 0, 1 / 0, -1 / 0, 2
  check.contains(text(x), "1 nan  1 +inf  1 -inf\n  1,996 zeros\n")
end)

test("a nonzero value is never shown as 0", function()
  looks(torch.tensor {1e-20, 1.0}, "f32 [2]   1e-20  1e+00")
  for _, pair in ipairs {{1e-4, 1}, {1e-3, 1000}, {0.004, 5}, {3e-7, 2e-7}, {1e-45, 1}} do
    for word in text(torch.tensor(pair)):gsub("^.-%]", ""):gmatch "%S+" do check.yes(tonumber(word) ~= 0, word) end
  end
end)

test("values that lie close together are told apart", function()
  looks(torch.tensor {1000.25, 1000.5}, "f32 [2]   1000.25  1000.5")
  looks(torch.tensor({5, 5.0000005}, {dtype = "float64"}), "f64 [2]   5  5.0000005")
  looks(torch.tensor {12345678, 2.0}, "f32 [2]  12345678 2")
  looks(torch.tensor({99999.5}, {dtype = "float64"}), "f64 [1]   99999.5")
  check.contains(text(torch.linspace(1000, 1000.1, 2000)), "min 1000  max 1000.1 ")
end)

test("extremes of every dtype are shown", function()
  looks(torch.tensor {math.mininteger, math.maxinteger}, "i64 [2]  -9223372036854775808 9223372036854775807")
  looks(torch.tensor({0, 255}, {dtype = "uint8"}), "u8 [2]  0 255")
  looks(torch.tensor({65504.0, -65504.0}, {dtype = "float16"}), "f16 [2]  65504 -65504")
  looks(torch.tensor({1.5, 3e38}, {dtype = "bfloat16"}), "bf16 [2]   1.5e+00  3e+38")
  looks(torch.tensor({1.7e308, 5e-324}, {dtype = "float64"}), "f64 [2]   1.7e+308  4.94e-324")
  looks(torch.tensor {1e38}, "f32 [1]   1e+38")
end)

test("tensors without elements and of eight dimensions are shown", function()
  looks(torch.zeros(0, 3), "f32 [0, 3]  empty")
  looks(torch.zeros(0), "f32 [0]  empty")
  looks(torch.ones(1, 1, 1, 1, 1, 1, 1, 2), "f32 [1, 1, 1, 1, 1, 1, 1, 2]\n[1, 1, 1, 1, 1, 1, :, :]   1  1")
end)

test("the header says what a tensor is", function()
  looks(torch.arange(6):view(2, 3):t(), "i64 [3, 2]  view  non-contiguous\n 0  3\n 1  4\n 2  5")
  looks(torch.ones(2, {requires_grad = true}), "f32 [2]  requires_grad  1 1")
  looks(torch.ones(2, {requires_grad = true}) * 3, "f32 [2]  grad_fn=mul  3 3")
  local w = torch.ones(2, {requires_grad = true})
  w:sum():backward()
  looks(w, "f32 [2]  requires_grad  has grad  1 1")
  check.contains(text(torch.rand(300, 300)), "f32 [300, 300]  360 kB\n")
  looks(torch.ones(5, 1):expand(5, 4000), "f32 [5, 4000]  view  non-contiguous  all 1")
end)

test("the summary agrees with the operations", function()
  torch.manual_seed(5)
  local tensors = {torch.randn(70, 90), torch.randn(70, 90):t(), torch.randn(5000):to "float64" * 1e100, torch.rand(3000):to "bfloat16",
    torch.rand(4000):to "float16", torch.randint(-50, 50, {60, 60}), torch.randint(0, 255, {3000}, {dtype = "uint8"}),
    torch.randn(9000)[{{1, -1, 3}}], torch.randn(2000, 1):expand(2000, 3), torch.randn(3000, 7)[{{}, {2, 4}}],
    1000 + torch.rand(5000) * 0.01, torch.rand(5000) * 1e-42, torch.randn(300000)}
  for k, x in ipairs(tensors) do
    local s, y = torch._summary(x), x:to "float64"
    check.equal(s.min, y:min():item(), k)
    check.equal(s.max, y:max():item(), k)
    check.close(s.mean, y:mean():item(), 1e-4, k)
    check.close(s.std / y:std():item(), 1, 1e-3, k)
    check.equal(s.zero, y:eq(0):sum():item(), k)
    check.equal(s.finite, y:numel(), k)
    local total = 0
    for _, n in ipairs(s.bins) do total = total + n end
    check.equal(total, s.finite, k)
  end
end)

test("the bins of the summary are those of a histogram", function()
  torch.manual_seed(6)
  local x = torch.rand(8000)
  local bins, exact = torch._summary(x).bins, x:histc(10):tolist()
  for i = 1, 10 do check.close(bins[i], exact[i], 0.02) end
  local far = torch.rand(200000)
  far[77] = 1e6
  bins = torch._summary(far).bins
  check.close(bins[1], 199999, 1e-6)
  check.close(bins[10], 1, 1e-6)
end)

test("a window of 40 columns is kept to", function()
  torch.manual_seed(1)
  for _, x in ipairs {torch.randn(4, 6), torch.randn(50, 50), torch.randn(3, 40, 40) * 1e-5, torch.randint(0, 10 ^ 12 // 1 | 0, {30, 30}),
    torch.randn(2000), torch.arange(30) * 100000, torch.randn(3, {requires_grad = true}):mul(2):view(3, 1), torch.rand(2, 2, 2, 2, 9)} do
    local s = text(x, {width = 40})
    check.yes(widest(s) <= 40, s)
  end
  local net = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.BatchNorm1d(128), torch.nn.Linear(128, 10))
  check.yes(widest(text(net, {width = 40})) <= 40, text(net, {width = 40}))
end)

test("%full shows every value", function()
  local s = text(torch.arange(2000), {full = true})
  for _, n in ipairs {0, 999, 1000, 1999} do check.contains(s, " " .. n) end
  check.yes(widest(s) <= 80)
  local n = 0
  for _ in text(torch.rand(3, 20, 30), {full = true}):gsub("^.-\n.-\n", ""):gmatch "%d%.%d+" do n = n + 1 end
  check.equal(n, 1800)
end)

test("showing changes nothing", function()
  torch.manual_seed(3)
  local expected = torch.rand(3)
  torch.manual_seed(3)
  local x = torch.randn(0, {requires_grad = true})
  local y = torch.ones(2000, {requires_grad = true})
  for _, v in ipairs {x, y, {y}, torch.nn.ReLU()} do text(v) tostring(v) end
  check.equal(torch.rand(3), expected)
  check.yes(torch.is_grad_enabled())
  check.equal(y._version and y:_version() or 0, 0)
  check.equal(y.grad, nil)
end)

test("simulated devices are named, and their values shown", function()
  local out = check.tycho({"-e", "print(torch.ones(2, 2):cuda(1) + torch.eye(2):cuda(1))"}, {env = {TYCHO_SIMULATE_CUDA = "2"}})
  check.equal(out.out, "f32 [2, 2]  cuda:1\n 2  1\n 1  2\n")
end)

test("set_printoptions chooses digits, edges and exponents, and refuses what it does not know", function()
  torch.set_printoptions {precision = 5, edgeitems = 1}
  looks(torch.tensor {1 / 3}, "f32 [1]   0.33333")
  looks(torch.arange(1000), "i64 [1000]  0 .. 999   (%full _ for everything)")
  torch.set_printoptions {profile = "default", sci_mode = true}
  looks(torch.tensor {1.5, 20.0}, "f32 [2]   1.5e+00  2e+01")
  torch.set_printoptions {sci_mode = "auto"}
  check.raises("argument", 'no argument "digits"', torch.set_printoptions, {digits = 3})
  check.raises("value", "precision", torch.set_printoptions, {precision = -2})
  check.raises("value", "profile", torch.set_printoptions, {profile = "long"})
  check.equal(torch.get_printoptions().precision, 3)
  torch.set_printoptions {profile = "full"}
  check.contains(tostring(torch.arange(1500)), "1499")
  torch.set_printoptions {profile = "default"}
end)

test("the style of PyTorch is its text to the letter", function()
  torch.set_printoptions {style = "pytorch"}
  local cases = {
    {torch.tensor(1.0), "tensor(1.)"},
    {torch.zeros(0, 3), "tensor([], size=(0, 3))"},
    {torch.zeros(0, {dtype = "int64"}), "tensor([], dtype=torch.int64)"},
    {torch.tensor {1, 2, 3}, "tensor([1, 2, 3])"},
    {torch.tensor {true, false}, "tensor([ True, False])"},
    {torch.tensor {1.5, 2.25}, "tensor([1.5000, 2.2500])"},
    {torch.tensor {1e5, 1.0}, "tensor([1.0000e+05, 1.0000e+00])"},
    {torch.tensor {0 / 0, 1.0}, "tensor([nan, 1.])"},
    {torch.tensor {{1, -2}, {3.5, 4}}, "tensor([[ 1.0000, -2.0000],\n        [ 3.5000,  4.0000]])"},
    {torch.tensor({1.0, 2.0}, {dtype = "float64", requires_grad = true}), "tensor([1., 2.], dtype=torch.float64, requires_grad=True)"},
    {torch.ones(2, {requires_grad = true}):sum(), "tensor(2., grad_fn=<SumBackward0>)"},
    {torch.arange(12):to "float32":view(2, 2, 3), "tensor([[[ 0.,  1.,  2.],\n         [ 3.,  4.,  5.]],\n\n        [[ 6.,  7.,  8.],\n         [ 9., 10., 11.]]])"},
    {torch.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"},
  }
  for _, c in ipairs(cases) do check.equal(tostring(c[1]), c[2]) end
  torch.set_printoptions {style = "tycho"}
  check.equal(tostring(torch.tensor(1.0)), "f32 []  1")
end)

-- --- other values ---

test("numbers, strings and nil look as Lua writes them", function()
  looks(42, "42")
  looks(0.5, "0.5")
  looks(nil, "nil")
  looks(true, "true")
  looks("hi", '"hi"')
  looks("a\27[31m\n\0\255", '"a\\027[31m\\n\\000\\255"')
  looks("十六", '"十六"')
  check.contains(text(("x"):rep(100000)), ".. 100,000 bytes in all")
end)

test("tables are nested, sorted and bounded", function()
  looks({}, "{}")
  looks({1, 2, x = {3}, ["end"] = 1, a = true}, '{1, 2, a = true, ["end"] = 1, x = {3}}')
  looks({torch.tensor {1, 2}, w = torch.rand(30, 30)}, "{i64 [2]  1 2, w = f32 [30, 30]}")
  local cyclic = {}
  cyclic.me = cyclic
  looks(cyclic, "{me = <the table around it>}")
  local long = {}
  for i = 1, 5000 do long[i] = i end
  check.contains(text(long), ".. 4,976 more, to [5000]")
  local deep = {}
  local at = deep
  for _ = 1, 100000 do
    at.x = {}
    at = at.x
  end
  looks(deep, "{x = {x = {x = {x = {x = {..}  1 item}}}}}")
  local wide = {}
  for i = 1, 500 do
    wide[i] = {}
    for j = 1, 500 do wide[i][j] = {j} end
  end
  check.yes(select(2, text(wide):gsub("\n", "")) < 50)
end)

test("a table's own text is used, and its errors are said", function()
  looks(setmetatable({}, {__tostring = function() return "a point\27[2J" end}), "a point\\027[2J")
  looks(setmetatable({}, {__tostring = function() error("oh", 0) end}), "<error in __tostring: oh>")
  looks(setmetatable({a = 1}, {__index = error, __len = error, __pairs = error, __name = "Thing"}), "Thing {a = 1}")
end)

test("functions and coroutines say where they are from", function()
  local f = load("return function(x, y, ...) end", "=[3]")()
  looks(f, "function(x, y, ...)  from [3]")
  looks(string.rep, "function string.rep  built in")
  looks(torch.add, "function torch.add  built in")
  check.contains(text(function(a) return a end), "function(a)  ")
  check.contains(text(function() end), "show_test.lua:")
  check.contains(text(coroutine.create(function() end)), "coroutine (suspended)")
  looks(io.stdout, "file (open)")
end)

test("modules are a tree with shapes and counts; what is shared counts once", function()
  local nn = torch.nn
  looks(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), [[
Sequential
├ [1]  Linear  weight [128, 784]  bias [128]  100,480
├ [2]  ReLU
└ [3]  Linear  weight [10, 128]  bias [10]  1,290
101,770 parameters, f32, 407 kB]])
  local layer = nn.Linear(3, 3)
  looks(nn.Sequential(layer, layer), [[
Sequential
├ [1]  Linear  weight [3, 3]  bias [3]  12
└ [2]  Linear (shared with [1])
12 parameters, f32, 48 B]])
  local alike = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)):eval()
  looks(alike, "Sequential\n└ [1-3]  3 x Linear  weight [2, 2]  bias [2]  18\n18 parameters, f32, 72 B, eval mode")
  local Net = nn.class "Net"
  function Net:extra_repr() error("oh") end
  looks(Net(), "Net  0 parameters")
  looks(Net, "class Net")
  Net().itself = Net()
end)

test("optimisers, datasets, loaders, errors and shapes are summed up", function()
  local net = torch.nn.Linear(3, 2)
  looks(torch.optim.SGD(net:parameters(), {lr = 0.1}),
    "SGD  2 tensors, 8 values\n  lr=0.1 dampening=0 maximize=false momentum=0 nesterov=false weight_decay=0")
  local set = torch.utils.data.TensorDataset(torch.rand(100, 28, 28), torch.arange(100))
  looks(set, "TensorDataset  100 items of f32 [28, 28], i64 []")
  looks(torch.utils.data.DataLoader(set, {batch_size = 64, shuffle = true}),
    "DataLoader  2 batches of 64 items, shuffled\n  from TensorDataset  100 items of f32 [28, 28], i64 []")
  local _, err = pcall(torch.add, torch.ones(3), torch.ones(4))
  check.contains(text(err), "error object, kind broadcast\n")
  looks(torch.ones(2, 3).shape, "[2, 3]")
  looks(torch.float32, "torch.float32")
  looks(torch.device "cpu", "device cpu")
end)

test("a data set of the user's own is not asked anything", function()
  local Set = torch.utils.data.class "Mine"
  Set.__len = function() error("costly") end
  function Set:get() error("costly") end
  local set = Set()
  set.path = "x"
  looks(set, 'Mine {path = "x"}')
end)

test("several results stand side by side when they fit", function()
  local function beside(...) return show.values(table.pack(...), {width = 80, colour = false}) end
  check.equal(beside(3, 4), "3  4")
  check.equal(beside(1, nil), "1  nil")
  check.equal(beside(), "")
  check.equal(beside(torch.tensor {5.0, 4.0}, torch.tensor {5, 3}), "f32 [2]  5 4      i64 [2]  5 3")
  check.equal(beside(torch.tensor {{1}, {2}}, torch.tensor {{3}, {4}}), "i64 [2, 1]      i64 [2, 1]\n 1               3\n 2               4")
  check.equal(beside(("x"):rep(60), ("y"):rep(60)), ('"%s"\n"%s"'):format(("x"):rep(60), ("y"):rep(60)))
end)

test("any mixture of values can be shown", function()
  torch.manual_seed(9)
  local random = math.random
  local dtypes = {"float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "int8", "int16"}
  local function tensor()
    local shape = {}
    for i = 1, random(0, 5) do shape[i] = random(0, 7) end
    local x = (torch.randn(shape) * 10.0 ^ random(-40, 30)):to(dtypes[random(#dtypes)])
    if x.ndim >= 2 and random() < 0.5 then x = x:transpose(1, 2) end
    return x
  end
  local function value(depth)
    local kind = random(8)
    if kind <= 3 then return tensor() end
    if kind == 4 then return random() end
    if kind == 5 then
      local s = {}
      for i = 1, random(0, 20) do s[i] = string.char(random(0, 255)) end
      return table.concat(s)
    end
    if depth > 4 then return print end
    local t = {}
    for _ = 1, random(0, 6) do t[random(2) == 1 and #t + 1 or value(9)] = value(depth + 1) end
    return t
  end
  for i = 1, 400 do
    local v = value(1)
    for _, width in ipairs {20, 40, 80, 200} do
      local s = text(v, {width = width})
      check.yes(utf8.len(s), "broken UTF-8")
      check.no(s:find "[\0-\9\11-\31]")
    end
    if i % 10 == 0 then text(v, {full = true}) end
  end
end)

test("the libraries of tensors are named, not spelled out", function()
  looks(torch, "library torch  ?torch lists what is in it")
  looks(torch.zeros({}).shape, "[]")
  looks(torch.nn, "library torch.nn  ?torch.nn lists what is in it")
  looks({torch.nn.functional}, "{library torch.nn.functional  ?torch.nn.functional lists what is in it}")
  check.contains(text(torch, {full = true}), "is_tensor")
  looks({nn = 1}, "{nn = 1}")
end)

test("nan is nan, whatever its sign", function()
  looks(0 / 0, "nan")
  looks({-(0 / 0), 1 / 0}, "{nan, inf}")
end)
