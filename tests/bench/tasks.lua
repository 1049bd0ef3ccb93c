-- The benchmark's tasks on Tycho: one JSON line per task on standard output, keys as peers.py writes.
--   tycho tests/bench/tasks.lua [GROUP...] [--threads N] [--only PREFIX,...] [--after TASK]
--                               [--seconds S] [--list]
-- A task is a statement kept as text and run in a plain loop, so that nothing but the statement is timed;
-- `local c` drops the last result at once, so the collector's work is inside the timed region.
-- A task that cannot run prints a line with "error" and the next one goes on; `--seconds 0` runs each
-- statement once, to see whether it runs at all.
local torch = torch or require "torch"
-- A part that cannot be loaded costs only the tasks that need it.
local function part(of, name)
  local ok, value = pcall(function() return of[name] end)
  return ok and value or nil
end
local nn, optim = part(torch, "nn"), part(torch, "optim")
local F = part(nn, "functional")
local randn, zeros, ones = torch.randn, torch.zeros, torch.ones

-- ---------------------------------------------------------------- data
-- Values are made when the first statement that names them runs; `makers` maps a name to a function.
local function data(makers)
  local shared = {torch = torch, F = F}
  return setmetatable({}, {__index = function(values, name)
    local make = makers[name]
    local value = shared[name]
    if make then value = make() end
    rawset(values, name, value)
    return value
  end})
end

-- A maker of standard normal values; `d` is a dtype, "grad" makes a leaf.
local function normal(shape, d)
  return function()
    local t = randn(shape)
    if d == "grad" then return t:requires_grad_() end
    return d and t:to(d) or t
  end
end
local function filled(make, shape, grad)
  return function()
    local t = make(shape)
    return grad and t:requires_grad_() or t
  end
end
local function integers(low, high, shape) return function() return torch.randint(low, high, shape) end end
-- n positions from 1 to `count`.
local function positions(count, shape) return integers(1, count + 1, shape) end

local rows
local function task(name, statement, env, options)
  rows[#rows + 1] = {name = name, statement = statement, env = env or data {}, options = options or {}}
end

-- ---------------------------------------------------------------- groups a to g
local groups = {}
local at_end = {}  -- functions that remove files

function groups.a()
  local e = data {
    a = normal {4}, b = normal {4}, z = filled(zeros, {4}), r = normal({4}, "grad"), s = normal {},
    m8 = normal {8, 8}, m64 = normal {64, 64},
  }
  for _, row in ipairs {
    {"empty_loop", ""},
    {"add4", "local c = a + b"},
    {"adds4", "local c = a + 1.0"},
    {"muladd4", "local c = a * b + a"},
    {"add4_grad", "local c = r + b"},
    {"muladd4_grad", "local c = r * b + r"},
    {"add4_", "a:add_(z)"},
    {"view", "local v = a:view(2, 2)"},
    {"index", "local v = a[1]"},
    {"slice", "local v = a[{{2, 3}}]"},
    {"sum4", "local c = a:sum()"},
    {"item", "local x = s:item()"},
    {"zeros4", "local c = torch.zeros(4)"},
    {"from_list4", "local c = torch.tensor{1.0, 2.0, 3.0, 4.0}"},
    {"mm8", "local c = m8:matmul(m8)"},
    {"mm64", "local c = m64:matmul(m64)"},
    {"fwdbwd4", "((r * b) + r):sum():backward()"},
  } do task("a." .. row[1], row[2], e) end
  task("a.add4_nograd", "local c = r + b", e, {no_grad = true})
end

local function mlp(sizes, activation, optimiser, loss, target)
  return function()
    local net = nn.Sequential(nn.Linear(sizes[1], sizes[2]), activation(), nn.Linear(sizes[2], sizes[3]))
    local opt = optimiser(net:parameters())
    local x, y = randn(sizes.batch, sizes[1]), target()
    return function()
      opt:zero_grad()
      loss(net(x), y):backward()
      opt:step()
    end
  end
end

function groups.b()
  task("b.mlp_2_16_1", "step()", data {step = function()
    return mlp({2, 16, 1, batch = 8}, nn.Tanh, function(p) return optim.SGD(p, {lr = 0.1}) end,
               F.mse_loss, normal {8, 1})()
  end}, {inner = 1000})
  task("b.mlp_784_128_10", "step()", data {step = function()
    return mlp({784, 128, 10, batch = 64}, nn.ReLU, function(p) return optim.Adam(p, {lr = 1e-3}) end,
               F.cross_entropy, positions(10, {64}))()
  end}, {inner = 1000})
end

function groups.c()
  -- Large rows are held back, and what nobody has any more is never written: a result whose values are not
  -- asked for would cost nothing.
  local plain = task
  local function task(name, statement, env)
    local result = statement:match "^local (c) = [^;]*$" or statement:match "; local (y) = [^;]*$"
    plain(name, result and ("%s; %s:data_ptr()"):format(statement, result) or statement, env)
  end
  local chain = "local h = a*a*a*0.044715 + a; local y = (torch.tanh(h*0.7978845608) + 1)*a"
  for _, size in ipairs {{"1e4", 10000}, {"1e5", 100000}, {"1e6", 1000000}, {"1e7", 10000000}} do
    local z, n = size[1], size[2]
    local e = data {
      a = normal {n}, b = normal {n}, zero = filled(zeros, {n}), out = filled(zeros, {n}),
      p = function() return torch.rand(n) + 0.1 end,
    }
    if z ~= "1e5" then
      for _, row in ipairs {
        {"add", "local c = a + b"},
        {"mul", "local c = a * b"},
        {"exp", "local c = torch.exp(a)"},
        {"tanh", "local c = torch.tanh(a)"},
        {"sigmoid", "local c = torch.sigmoid(a)"},
        {"gelu", "local c = F.gelu(a)"},
        {"pow", "local c = p ^ 2.5"},
        {"add_out", "torch.add(a, b, {out = out})"},
        {"exp_out", "torch.exp(a, {out = out})"},
        {"add_", "a:add_(zero)"},
      } do task(("c.%s.%s"):format(row[1], z), row[2], e) end
    end
    task("c.chain8." .. z, chain, e)
    if z == "1e4" or z == "1e6" then
      task("c.chain8_bwd." .. z, "a.grad = nil; " .. chain .. "; y:backward(g)",
           data {a = normal({n}, "grad"), g = filled(ones, {n})})
    end
  end
  local n = 1000000
  local e = data {a = normal {n}, b = normal {n}, column = normal {1000, 1}, row = normal {1000}}
  task("c.bcast.1e6", "local c = column + row", e)
  task("c.gt.1e6", "local c = a:gt(b)", e)
  task("c.where.1e6", "local c = torch.where(a:gt(b), a, b)", e)
  for _, kind in ipairs {{"f64", "float64"}, {"bf16", "bfloat16"}} do
    local short, dtype = kind[1], kind[2]
    local d = data {a = normal({n}, dtype), b = normal({n}, dtype)}
    task(("c.add_%s.1e6"):format(short), "local c = a + b", d)
    task(("c.exp_%s.1e6"):format(short), "local c = torch.exp(a)", d)
  end
  task("c.add_i64.1e6", "local c = a + b", data {a = integers(0, 1000, {n}), b = integers(0, 1000, {n})})
  -- An optimiser's step over 100 parameters with their gradients.
  for _, row in ipairs {
    {"adamw", function(p) return optim.AdamW(p, {lr = 1e-3}) end},
    {"sgd", function(p) return optim.SGD(p, {lr = 0.1, momentum = 0.9}) end},
  } do
    task(("c.%s.25e6"):format(row[1]), "opt:step()", data {opt = function()
      local parameters = {}
      for i = 1, 100 do
        parameters[i] = nn.Parameter(randn(250000))
        parameters[i].grad = randn(250000)
      end
      return row[2](parameters)
    end})
  end
end

function groups.d()
  local e = data {
    s = normal {1024, 1000}, l = normal {1024, 1024}, w = filled(ones, {1024}), b = filled(zeros, {1024}),
  }
  task("d.softmax", "local y = F.softmax(s, -1)", e)
  task("d.log_softmax", "local y = F.log_softmax(s, -1)", e)
  task("d.layer_norm", "local y = F.layer_norm(l, {1024}, w, b, 1e-5)", e)
  e = data {
    s = normal({1024, 1000}, "grad"), l = normal({1024, 1024}, "grad"), w = filled(ones, {1024}, true),
    b = filled(zeros, {1024}, true), gs = normal {1024, 1000}, gl = normal {1024, 1024},
    labels = positions(1000, {1024}),
  }
  task("d.softmax_bwd", "s.grad = nil; F.softmax(s, -1):backward(gs)", e)
  task("d.layer_norm_bwd",
       "l.grad = nil; w.grad = nil; b.grad = nil; F.layer_norm(l, {1024}, w, b, 1e-5):backward(gl)", e)
  task("d.cross_entropy_bwd", "s.grad = nil; F.cross_entropy(s, labels):backward()", e)
  e = data {x = normal {10000000}, x4 = normal {10000}, x6 = normal {1000000}, q = normal {4096, 4096}}
  for _, row in ipairs {
    {"sum.1e4", "local y = x4:sum()"},
    {"sum.1e7", "local y = x:sum()"},
    {"mean.1e7", "local y = x:mean()"},
    {"std.1e7", "local y = x:std()"},
    {"argmax.1e7", "local y = x:argmax()"},
    {"cumsum.1e7", "local y = x:cumsum(1)"},
    {"sum0.4096", "local y = q:sum(1)"},
    {"sum1.4096", "local y = q:sum(2)"},
    {"mean1.4096", "local y = q:mean(2)"},
    {"max0.4096", "local v, i = q:max(1)"},
    {"max1.4096", "local v, i = q:max(2)"},
    {"argmax1.4096", "local i = q:argmax(2)"},
    {"var1.4096", "local y = q:var(2)"},
    {"sort.1e6", "local v, i = x6:sort()"},
    {"topk10.1e6", "local v, i = x6:topk(10)"},
  } do task("d." .. row[1], row[2], e) end
end

function groups.e()
  local e = data {
    x = normal {10000000}, y = filled(zeros, {10000000}), q = normal {4096, 4096},
    ten = function()
      local list = {}
      for i = 1, 10 do list[i] = randn(1000000) end
      return list
    end,
    T = normal {100000, 128}, idx = positions(100000, {50000}), G = normal {4096, 1024},
    I = positions(1024, {4096, 1024}), o = filled(zeros, {100000}), i6 = positions(100000, {1000000}),
    x6 = normal {1000000}, o2 = filled(zeros, {100000, 128}), src = normal {50000, 128},
    m = function() return torch.rand(1000000):lt(0.5) end,
    im = normal {32, 64, 56, 56}, W = normal({50000, 128}, "grad"), ids = positions(50000, {64, 128}),
    g = normal {64, 128, 128}, x5 = normal {100000}, l5 = function() return randn(100000):tolist() end,
  }
  for _, row in ipairs {
    {"clone.1e7", "local c = x:clone()"},
    {"copy_.1e7", "y:copy_(x)"},
    {"to_bf16.1e7", "local c = x:to(torch.bfloat16)"},
    {"transpose.4096", "local c = q:t():contiguous()"},
    {"cat10.1e6", "local c = torch.cat(ten)"},
    {"index_select", "local c = T[idx]"},
    {"gather", "local c = G:gather(2, I)"},
    {"scatter_add", "o:scatter_add_(1, i6, x6)"},
    {"index_add", "o2:index_add_(1, idx, src)"},
    {"masked_select", "local c = x6[m]"},
    {"nhwc", "local c = im:permute(1, 3, 4, 2):contiguous()"},
    {"embedding_bwd", "W.grad = nil; F.embedding(ids, W):backward(g)"},
    {"randn.1e6", "local c = torch.randn(1000000)"},
    {"rand.1e6", "local c = torch.rand(1000000)"},
    {"randperm.6e4", "local c = torch.randperm(60000)"},
    {"tolist.1e5", "local c = x5:tolist()"},
    {"from_list.1e5", "local c = torch.tensor(l5)"},
  } do task("e." .. row[1], row[2], e) end
  task("e.embedding", "local c = F.embedding(ids, W)", e, {no_grad = true})
  -- An epoch of a shuffled loader: 60,000 samples in batches of 64.
  task("e.loader", "for _ in loader() do end", data {loader = function()
    local set = torch.utils.data.TensorDataset(randn(60000, 784), positions(10, {60000})())
    return torch.utils.data.DataLoader(set, {batch_size = 64, shuffle = true})
  end})
  -- Ten tensors of 10^7 floats to a file and back.
  local path
  local function state()
    local t = {}
    for i = 1, 10 do t["w" .. i] = randn(10000000) end
    return t
  end
  local function file()
    if path then return path end
    path = os.tmpname()
    torch.save(state(), path)
    at_end[#at_end + 1] = function() os.remove(path) end
    return path
  end
  task("e.save_400MB", "torch.save(t, f)", data {t = state, f = file})
  task("e.load_400MB", "local c = torch.load(f)", data {f = file})
  task("e.load_mmap_sum_400MB", "for _, v in pairs(torch.load(f, {mmap = true})) do v:sum() end", data {f = file})
end

function groups.f()
  local product = "local c = a:matmul(b)"
  local function pair(left, right, dtype) return data {a = normal(left, dtype), b = normal(right, dtype)} end
  for _, n in ipairs {16, 32, 128, 256, 512, 1024, 2048} do
    task("f.mm_f32." .. n, product, pair({n, n}, {n, n}))
  end
  task("f.mm_f64.512", product, pair({512, 512}, {512, 512}, "float64"))
  task("f.mm_bf16.1024", product, pair({1024, 1024}, {1024, 1024}, "bfloat16"))
  task("f.bmm", product, pair({64, 128, 128}, {64, 128, 128}))
  task("f.linear", "local c = F.linear(x, w, b)",
       data {x = normal {64, 784}, w = normal {512, 784}, b = normal {512}})
  task("f.mv.4096", product, pair({4096, 4096}, {4096}))
  task("f.mm_skinny", product, pair({8192, 64}, {64, 64}))
  task("f.mm_i64.256", product, data {a = integers(-9, 9, {256, 256}), b = integers(-9, 9, {256, 256})})
  local heads = {4, 8, 512, 64}
  task("f.sdpa", "local c = F.scaled_dot_product_attention(q, k, v, {is_causal = true})",
       data {q = normal(heads), k = normal(heads), v = normal(heads)})
  task("f.mm_bwd.512", "a.grad = nil; b.grad = nil; a:matmul(b):backward(g)",
       data {a = normal({512, 512}, "grad"), b = normal({512, 512}, "grad"), g = normal {512, 512}})
end

local function low(f, ...)
  local arguments = table.pack(...)
  return torch.autocast("cpu", {dtype = "bfloat16"},
                        function() return f(table.unpack(arguments, 1, arguments.n)) end)
end

function groups.g()
  local shapes = {  -- name, N, C, height = width, channels out, kernel, stride, padding, groups
    {"conv7x7", 8, 3, 224, 64, 7, 2, 3, 1},
    {"conv3x3", 32, 64, 56, 64, 3, 1, 1, 1},
    {"conv1x1", 32, 256, 28, 64, 1, 1, 0, 1},
    {"convdw3x3", 32, 128, 28, 128, 3, 1, 1, 128},
    {"conv3x3s", 8, 256, 14, 256, 3, 1, 1, 1},
  }
  for _, kind in ipairs {"f32", "bf16"} do
    local bf16 = kind == "bf16"
    for _, row in ipairs(shapes) do
      local name, N, C, H, O, k, stride, pad, n = table.unpack(row)
      local h = (H + 2 * pad - k) // stride + 1
      local call = ("conv2d(x, w, nil, %d, %d, 1, %d)"):format(stride, pad, n)
      local function env(grad, dtype)
        return data {
          x = normal({N, C, H, H}, grad), w = normal({O, C // n, k, k}, grad),
          g = normal({N, O, h, h}, dtype),
          conv2d = function() return bf16 and function(...) return low(F.conv2d, ...) end or F.conv2d end,
        }
      end
      task(("g.%s.%s"):format(name, kind), "local y = " .. call, env())
      task(("g.%s_bwd.%s"):format(name, kind), "x.grad = nil; w.grad = nil; " .. call .. ":backward(g)",
           env("grad", bf16 and "bfloat16" or nil))
    end
    local function leaf(shape)
      return function() return randn(shape):to(bf16 and "bfloat16" or "float32"):requires_grad_() end
    end
    local dtype = bf16 and "bfloat16" or nil
    local before, after = {32, 64, 112, 112}, {32, 64, 56, 56}
    task("g.maxpool." .. kind, "local y = F.max_pool2d(x, 3, 2, 1)", data {x = normal(before, dtype)})
    task("g.maxpool_bwd." .. kind, "x.grad = nil; F.max_pool2d(x, 3, 2, 1):backward(g)",
         data {x = leaf(before), g = normal(after, dtype)})
    task("g.batchnorm_bwd." .. kind,
         "x.grad = nil; w.grad = nil; b.grad = nil; F.batch_norm(x, m, v, w, b, true):backward(g)",
         data {x = leaf(after), g = normal(after, dtype), w = filled(ones, {64}, true),
               b = filled(zeros, {64}, true), m = filled(zeros, {64}), v = filled(ones, {64})})
  end
end

-- ---------------------------------------------------------------- group h: training steps
local models = {}

function models.lenet()
  local Net = nn.class("LeNet")
  function Net:init()
    self.c1, self.c2 = nn.Conv2d {1, 6, 5, padding = 2}, nn.Conv2d(6, 16, 5)
    self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
  end
  function Net:forward(x)
    x = F.max_pool2d(F.relu(self.c1(x)), 2)
    x = F.max_pool2d(F.relu(self.c2(x)), 2)
    return self.f3(F.relu(self.f2(F.relu(self.f1(x:flatten(2))))))
  end
  return Net()
end

-- Convolution without bias, then batch norm.
local function conv_bn(from, to, kernel, stride, padding)
  return nn.Sequential(nn.Conv2d {from, to, kernel, stride = stride, padding = padding, bias = false},
                       nn.BatchNorm2d(to))
end

-- kind: "basic" (two 3x3) or "bottleneck" (1x1, 3x3, 1x1 to 4 times the width).
local function resnet(kind, depths, stem, classes)
  local Block, Net = nn.class("Block"), nn.class("ResNet")
  local wide = kind == "basic" and 1 or 4
  function Block:init(from, width, stride)
    if kind == "basic" then
      self.u1, self.u2 = conv_bn(from, width, 3, stride, 1), conv_bn(width, width, 3, 1, 1)
    else
      self.u1, self.u2 = conv_bn(from, width, 1, 1, 0), conv_bn(width, width, 3, stride, 1)
      self.u3 = conv_bn(width, 4 * width, 1, 1, 0)
    end
    if stride ~= 1 or from ~= wide * width then self.down = conv_bn(from, wide * width, 1, stride, 0) end
  end
  function Block:forward(x)
    local y = self.u2(F.relu(self.u1(x)))
    if wide == 4 then y = self.u3(F.relu(y)) end
    return F.relu(y + (wide == 4 and self.down and self.down(x) or self.down and self.down(x) or x))
  end
  function Net:init()
    self.stem = conv_bn(3, 64, table.unpack(stem))
    local from, blocks = 64, {}
    for stage, depth in ipairs(depths) do
      local width = 32 << stage
      for k = 1, depth do
        blocks[#blocks + 1] = Block(from, width, k == 1 and stage > 1 and 2 or 1)
        from = wide * width
      end
    end
    self.blocks, self.fc = nn.Sequential(table.unpack(blocks)), nn.Linear(from, classes)
  end
  function Net:forward(x)
    x = F.relu(self.stem(x))
    if stem.pool then x = F.max_pool2d(x, 3, 2, 1) end
    return self.fc(self.blocks(x):mean {dim = {3, 4}})
  end
  return Net()
end
function models.resnet18() return resnet("basic", {2, 2, 2, 2}, {3, 1, 1}, 10) end
function models.resnet50() return resnet("bottleneck", {3, 4, 6, 3}, {7, 2, 3, pool = true}, 1000) end

function models.gpt()
  local vocabulary, length, width, heads, layers = 65, 128, 128, 4, 4
  local Block, Net = nn.class("Block"), nn.class("GPT")
  function Block:init()
    self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
    self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
  end
  function Block:forward(x)
    local batch, time = x:size(1), x:size(2)
    local function split_heads(t) return t:view(batch, time, heads, width // heads):transpose(2, 3) end
    local q, k, v = self.qkv(self.n1(x)):split(width, 3)
    local mixed = F.scaled_dot_product_attention(split_heads(q), split_heads(k), split_heads(v),
                                                 {is_causal = true})
    x = x + self.proj(mixed:transpose(2, 3):reshape(batch, time, width))
    return x + self.down(F.gelu(self.up(self.n2(x)), {approximate = "tanh"}))
  end
  function Net:init()
    self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
    local blocks = {}
    for i = 1, layers do blocks[i] = Block() end
    self.blocks = nn.Sequential(table.unpack(blocks))
    self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
  end
  function Net:forward(ids)
    local x = self.token(ids) + self.position(torch.arange(1, ids:size(2) + 1))
    return self.head(self.norm(self.blocks(x)))
  end
  return Net()
end

function models.lstm()
  local Net = nn.class("Lstm")
  function Net:init()
    self.token, self.rnn = nn.Embedding(65, 64), nn.LSTM {64, 128, batch_first = true}
    self.head = nn.Linear(128, 65)
  end
  function Net:forward(ids)
    return self.head((self.rnn(self.token(ids))))
  end
  return Net()
end

local inputs = {lenet = {64, 1, 28, 28}, resnet18 = {32, 3, 32, 32}, resnet50 = {4, 3, 224, 224}}

-- A function that does one training step of `model` on a fixed batch; kind is "f32" or "bf16".
local function trainer(model, kind)
  local net, x, y = models[model](), nil, nil
  local gpt = model == "gpt"
  local words = gpt or model == "lstm"
  if words then
    local length = gpt and 128 or 64
    x, y = positions(65, {16, length})(), positions(65, {16 * length})()
  else
    x, y = randn(inputs[model]), positions(model == "resnet50" and 1000 or 10, {inputs[model][1]})()
  end
  local opt = optim.AdamW(net:parameters(), {lr = gpt and 3e-4 or 1e-3})
  local function loss()
    local out = net(x)
    return F.cross_entropy(words and out:flatten(1, 2) or out, y)
  end
  return function()
    opt:zero_grad()
    local l
    if kind == "bf16" then l = low(loss) else l = loss() end
    l:backward()
    opt:step()
  end
end

function groups.h()
  for _, kind in ipairs {"f32", "bf16"} do
    for _, model in ipairs {"lenet", "resnet18", "resnet50", "gpt"} do
      task(("h.%s.%s"):format(model, kind), "step()",
           data {step = function() return trainer(model, kind) end})
    end
  end
  task("h.lstm.f32", "step()", data {step = function() return trainer("lstm", "f32") end})
end

-- ---------------------------------------------------------------- timing
local now = torch.perf_counter

-- The statement as a function of the number of runs; only the names it uses are made and bound.
local function timer(statement, env)
  local names, values, seen = {}, {}, {}
  for before, name in (" " .. statement):gmatch("([^%w_])([%a_][%w_]*)") do
    if before ~= "." and before ~= ":" and not seen[name] then
      seen[name] = true
      local value = env[name]
      if value ~= nil then names[#names + 1], values[#values + 1] = name, value end
    end
  end
  local bind = #names > 0 and "local " .. table.concat(names, ", ") .. " = ...; " or ""
  local loop = assert(load(bind .. "return function(n) for _ = 1, n do " .. statement .. " end end"))
  loop = loop(table.unpack(values))
  return function(n)
    local start = now()
    loop(n)
    return now() - start
  end
end

-- Microseconds per run of each sample, runs per sample, seconds of the first run, processor / wall time.
-- A sample is a loop of at least 5 ms; samples until `seconds` or 30 of them, at least 3.
local function measure(statement, env, inner, seconds)
  local run = timer(statement, env)
  local first = run(1)
  if seconds == 0 then return {first * 1e6}, 1, first, 1.0 end
  local one = first
  if first < 2 then
    for _ = 1, 3 do one = math.min(one, run(1)) end
    local start = now()
    while one < 0.05 and now() - start < 0.1 do
      local k = one > 1e-4 and 1 or 100
      one = math.min(one, run(k) / k)
    end
  end
  local k = inner or math.max(1, math.ceil(5e-3 / math.max(one, 1e-9)))
  local samples, total, cpu = {}, 0.0, os.clock()
  while #samples < 3 or (total < seconds and #samples < 30) do
    local t = run(k)
    total = total + t
    samples[#samples + 1] = t / k * 1e6
    if total > 8 and #samples >= 2 then break end
  end
  return samples, k, first, (os.clock() - cpu) / total
end

-- ---------------------------------------------------------------- lines
local escapes = {['"'] = '\\"', ["\\"] = "\\\\"}
local function json(value)
  if math.type(value) == "integer" then return tostring(value) end
  if type(value) == "number" then return ("%.5g"):format(value) end
  if type(value) == "string" then
    return '"' .. value:gsub('[%c"\\]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
  end
  local parts = {}
  for _, pair in ipairs(value) do parts[#parts + 1] = json(pair[1]) .. ": " .. json(pair[2]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function read_costs()
  local costs, folder = {}, arg[0]:match("^(.*)/") or "."
  for line in io.lines(folder .. "/costs.tsv") do
    local name, flops, bytes = line:match("^([^#\t][^\t]*)\t([^\t]*)\t([^\t]*)$")
    if name then costs[name] = {flops = tonumber(flops), bytes = tonumber(bytes)} end
  end
  return costs
end

local function run_task(row, threads, seconds, cost)
  local head = {{"task", row.name}, {"peer", "tycho"}, {"threads", threads}}
  local samples, k, first, cpu
  local function go() samples, k, first, cpu = measure(row.statement, row.env, row.options.inner, seconds) end
  local ok, err = pcall(function()
    if row.options.no_grad then torch.no_grad(go) else go() end
  end)
  if not ok then
    head[#head + 1] = {"error", (tostring(err):match("[^\n]*"))}
    return print(json(head))
  end
  table.sort(samples)
  local n = #samples
  local extra = {{"first_us", math.floor(first * 1e6)}, {"cpu", cpu}}
  local kind = row.name:sub(1, 1)
  if cost and cost.flops > 0 and ("fgh"):find(kind, 1, true) then
    extra[#extra + 1] = {"gf_s", cost.flops / samples[1] * 1e-3}
  end
  if cost and cost.bytes > 0 and ("cde"):find(kind, 1, true) then
    extra[#extra + 1] = {"gb_s", cost.bytes / samples[1] * 1e-3}
  end
  for _, pair in ipairs {
    {"min_us", samples[1]}, {"median_us", (samples[(n + 1) // 2] + samples[n // 2 + 1]) / 2}, {"n", n},
    {"inner", k}, {"extra", extra},
  } do head[#head + 1] = pair end
  print(json(head))
end

-- ---------------------------------------------------------------- command line
local function usage(text)
  io.stderr:write("tasks.lua: ", text, "\n")
  os.exit(2)
end

local wanted, options = {}, {threads = "1", seconds = "0.5"}
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match("^%-%-(%l+)$")
    if name == "list" then
      options.list = true
    elseif name then
      if not ({threads = 1, only = 1, after = 1, seconds = 1})[name] then usage("no option " .. arg[i]) end
      options[name] = arg[i + 1] or usage(arg[i] .. " needs a value")
      i = i + 1
    elseif groups[arg[i]] then
      wanted[#wanted + 1] = arg[i]
    else
      usage(("no group %q; groups are a to h"):format(arg[i]))
    end
    i = i + 1
  end
end
local prefixes = {}
for prefix in (options.only or ""):gmatch("[^,]+") do prefixes[#prefixes + 1] = prefix end
if #wanted == 0 then
  local seen = {}
  for _, prefix in ipairs(prefixes) do
    local group = prefix:sub(1, 1)
    if groups[group] and not seen[group] then
      seen[group], wanted[#wanted + 1] = true, group
    end
  end
  if #prefixes == 0 then wanted = {"a", "b", "c", "d", "e", "f", "g", "h"} end
end
local threads = math.tointeger(tonumber(options.threads)) or usage("--threads needs a whole number")
local seconds = tonumber(options.seconds) or usage("--seconds needs a number")

local function chosen(name)
  if #prefixes == 0 then return true end
  for _, prefix in ipairs(prefixes) do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

if not options.list then torch.set_num_threads(threads) end
io.stdout:setvbuf("line")
local costs = read_costs()
local waiting = options.after
for _, group in ipairs(wanted) do
  rows = {}
  if not options.list and torch.manual_seed then torch.manual_seed(0) end
  groups[group]()
  for _, row in ipairs(rows) do
    if waiting then
      if row.name == waiting then waiting = nil end
    elseif chosen(row.name) then
      if options.list then print(row.name) else run_task(row, threads, seconds, costs[row.name]) end
      collectgarbage()
    end
  end
end
for _, f in ipairs(at_end) do f() end
