-- Groups a to g of the benchmark: single operations, from small to large, and chains of them. Called with what made.lua gives.
local torch = torch or require "torch"
local made = ...
local nn, optim, F = made.nn, made.optim, made.F
local data, normal, filled, integers, positions, task, low, at_end = made.data, made.normal, made.filled, made.integers, made.positions, made.task, made.low, made.at_end
local randn, zeros, ones = torch.randn, torch.zeros, torch.ones
local groups = {}

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

return groups
