-- Random numbers: PyTorch's CPU streams for the same seed, generators, states, dropout's masks.
local F = torch.nn.functional

local function seeded(seed, f, ...)
  torch.manual_seed(seed)
  return f(...)
end
local function filled(n, value)
  local list = {}
  for i = 1, n do list[i] = value + 0.0 end
  return torch.tensor(list)
end

test("rand and randn give PyTorch's numbers for a seed", function()
  check.close(seeded(0, torch.rand, 3), {0.49625658988952637, 0.7682217955589294, 0.08847743272781372}, 0)
  check.close(seeded(0, torch.rand, {2, 2}):tolist()[2], {0.08847743272781372, 0.13203048706054688}, 0)
  check.close(seeded(0, torch.randn, 3), {1.5409960746765137, -0.293428897857666, -2.1787893772125244}, 2e-6)
  check.close(seeded(42, torch.randn, {3, dtype = "float32"}), {0.33669036626815796, 0.12880940735340118, 0.23446236550807953}, 2e-6)
  torch.manual_seed(7)
  check.close(torch.randn(3), {-0.1467950940132141, 0.7861412763595581, 0.9468216300010681}, 2e-6)
  check.close(torch.randn(3):tolist()[1], -1.1143440008163452, 2e-6)
end)

test("randint takes low, high and a size; values are never shifted", function()
  check.equal(seeded(7, torch.randint, 0, 10, {3}), torch.tensor{5, 2, 1})
  check.equal(seeded(7, torch.randint, 10, {3}), torch.tensor{5, 2, 1})
  check.equal(torch.randint{0, 10, {2, 3}, dtype = "float32"}:size(), {2, 3})
  check.dtype(torch.randint(5, {2}), "int64")
  check.raises("value", "from < to", torch.randint, 5, 5, {2})
end)

test("randperm gives positions, from 1", function()
  check.equal(seeded(0, torch.randperm, 4), torch.tensor{1, 2, 4, 3})
  check.equal(seeded(7, torch.randperm, 4), torch.tensor{4, 3, 1, 2})
  check.equal(torch.randperm(0):numel(), 0)
  check.raises("value", "0 or more", torch.randperm, -1)
end)

test("multinomial of rows is that of one row after the other", function()
  for _, dtype in ipairs {torch.float32, torch.float64, torch.bfloat16} do
    for _, rows in ipairs {1, 3, 4, 9} do
      local weights = torch.rand(rows, 37):to(dtype)
      for _, way in ipairs {{5, true}, {3, false}, {1, false}} do
        local all = seeded(3, torch.multinomial, weights, way[1], way[2])
        torch.manual_seed(3)
        for r = 1, rows do check.equal(all[r]:tolist(), torch.multinomial(weights[r], way[1], way[2]):tolist()) end
      end
    end
  end
  for _, wrong in ipairs {-1, math.huge, 0 / 0} do
    local weights = torch.ones(6, 37)
    weights[6][37] = wrong
    check.raises("value", "row 6 has", torch.multinomial, weights, 2, true)
  end
  local none = torch.ones(6, 37)
  none[5]:zero_()
  check.raises("value", "row 5 has none", torch.multinomial, none, 2, true)
end)

test("multinomial draws positions, from 1", function()
  local weights = torch.tensor{.1, .2, .7, .4}
  check.equal(seeded(0, torch.multinomial, weights, 6, true), torch.tensor{4, 3, 3, 4, 3, 4})
  check.equal(seeded(42, torch.multinomial, weights, 2), torch.tensor{4, 3})
  check.raises("shape", "cannot draw 5 of 4", torch.multinomial, weights, 5)
end)

test("fills in place", function()
  check.close(seeded(42, function() return filled(4, 0):uniform_(-1, 1) end):tolist()[1], 2 * 0.8822692632675171 - 1, 1e-6)
  check.close(seeded(42, function() return filled(3, 0):normal_{mean = 1, std = 2} end):numel(), 3)
  torch.manual_seed(42)
  local x = torch.rand({4, generator = torch.Generator()})
  check.close(x:exponential_(2.5), {0.023965606465935707, 0.025990450754761696, 0.05276671051979065, 0.021605180576443672}, 1e-6)
  check.equal(x:bernoulli_(0), torch.tensor{0., 0., 0., 0.})
  check.equal(x:bernoulli_(1), torch.tensor{1., 1., 1., 1.})
  for _, v in ipairs(x:random_(3, 5):tolist()) do check.yes(v == 3 or v == 4) end
  for _, v in ipairs(x:random_(2):tolist()) do check.yes(v == 0 or v == 1) end
  check.raises("value", "rate above 0", x.exponential_, x, -1)
  check.raises("value", "probability", x.geometric_, x, 2)
  check.raises(nil, "uniform", function() return x.uniform end)
end)

test("a view is filled in the order of memory", function()
  torch.manual_seed(0)
  local x = torch.tensor{{0., 0.}, {0., 0.}, {0., 0.}}
  x:transpose(1, 2):uniform_()
  check.close(x, seeded(0, torch.rand, 3, 2), 0)
end)

test("normal takes tensors of means and deviations, or a size", function()
  torch.manual_seed(3)
  local z = torch.randn(3)
  check.close(seeded(3, torch.normal, torch.tensor{0., 1., 2.}, 1.0), z + torch.tensor{0., 1., 2.}, 1e-6)
  check.close(seeded(3, torch.normal, 2.0, torch.tensor{1., 2., 3.}), z * torch.tensor{1., 2., 3.} + 2, 1e-6)
  check.close(seeded(3, torch.normal, 1, 2, {3}), z * 2 + 1, 1e-6)
  check.raises("value", "deviation", torch.normal, torch.tensor{0.}, -1)
  check.raises(nil, nil, torch.normal, 0, 1)
end)

test("bernoulli reads probabilities from the tensor", function()
  check.equal(torch.bernoulli(torch.tensor{0., 1., 1.}), torch.tensor{0., 1., 1.})
  check.raises("value", "element 2 is 1.5", torch.bernoulli, torch.tensor{.5, 1.5})
  check.raises("dtype", "floating point", torch.bernoulli, torch.tensor{1, 0})
end)

test("dropout draws PyTorch's mask and scales what it keeps", function()
  check.equal(seeded(0, F.dropout, filled(8, 1), 0.5), torch.tensor{0., 0., 2., 0., 0., 0., 2., 2.})
  local x = filled(4, 1)
  check.equal(F.dropout(x, {p = 0.5, training = false}), x)
  check.equal(F.dropout(x, 1), torch.tensor{0., 0., 0., 0.})
  check.raises("value", "probability", F.dropout, x, 1.5)
  local y = F.dropout(x, {p = 0.5, inplace = true})
  check.equal(y, x)
  local whole = F.dropout2d(torch.rand(2, 3, 4, 4) + 1, 0.5):sum({3, 4})
  for _, row in ipairs(whole:tolist()) do for _, v in ipairs(row) do check.yes(v == 0 or v > 32) end end
end)

test("dropout's gradient goes where the numbers went", function()
  local x = torch.tensor({1., 2., 3., 4.}, {requires_grad = true})
  local y = F.dropout(x, 0.5)
  y:sum():backward()
  check.equal(x.grad * torch.tensor{1., 2., 3., 4.}, torch.tensor(y:tolist()))
end)

test("the state of a stream can be kept and put back", function()
  local state = torch.get_rng_state()
  check.equal(state:numel(), 5056)
  check.dtype(state, "uint8")
  local a = torch.randn(5)
  torch.set_rng_state(state)
  check.equal(torch.randn(5), a)
  check.raises("dtype", "uint8", torch.set_rng_state, torch.rand(3))
  check.equal(torch.manual_seed(-1).device.type, "cpu")
end)

test("a generator has a stream of its own", function()
  local g = torch.Generator():manual_seed(0)
  torch.manual_seed(5)
  local a = torch.rand(3)
  torch.manual_seed(5)
  check.close(torch.rand({3, generator = g}), {0.49625658988952637, 0.7682217955589294, 0.08847743272781372}, 0)
  check.equal(torch.rand(3), a)
  check.equal(g:initial_seed(), 0)
  local copy = g:clone_state()
  check.equal(torch.randn(3, {generator = g}), torch.randn(3, {generator = copy}))
  check.raises("argument", "torch.Generator", torch.rand, 3, {generator = 5})
  check.raises("argument", "integer", torch.manual_seed, "zero")
end)

test("random_ and randint draw PyTorch's integers around 2^31, 2^32 and 2^63", function()
  local most, least = math.maxinteger, math.mininteger
  for _, case in ipairs {
    {0, 2147483647, {1631897122, 1626975787, 1524890972, 1728789912}},
    {0, 2147483648, {976413892, 1369975286, 2053951699, 1956722279}},
    {-2147483648, 2147483648, {-1171069756, -777508362, 2053951699, -190761369}},
    {0, 4294967295, {1304155507, 424733712, 1789421335, 769014271}},
    {0, 4294967296, {976413892, 1369975286, 4201435347, 1956722279}},
    {0, 4294967297, {648672277, 2315216862, 2318482064, 3144430289}},
    {0, 1099511627776, {752595690692, 108744157686, 291964244179, 650496783975}},
    {-4611686018427387904, 4611686018427387904, {-3204046499487750972, 551904368352831990, 3475536756154880211, -489481035468163481}},
    {0, most, {1407639518939636932, 5163590386780219895, 8087222774582268115, 4122204982959224424}},
    {least, most, {-7815732517915138876, 5163590386780219894, -1136149262272507693, 4122204982959224423}},
    {least, 0, {-7815732517915138876, -4059781650074555914, -1136149262272507693, -5101167053895551385}},
  } do
    local from, to, want = table.unpack(case)
    check.equal(seeded(7, function() return torch.empty(4, {dtype = "int64"}):random_(from, to) end), want)
    check.equal(seeded(7, torch.randint, from, to, {4}), want)
    if from == 0 then check.equal(seeded(7, function() return torch.empty(4, {dtype = "int64"}):random_(to) end), want) end
  end
  check.equal(seeded(7, function() return torch.empty(4):random_(0, 2 ^ 32) end), {3273893632.0, 4201318912.0, 906200256.0, 2846197248.0})
  check.equal(seeded(7, function() return torch.empty(4, {dtype = "float64"}):random_(0, 2 ^ 32) end), {976413892.0, 1369975286.0, 4201435347.0, 1956722279.0})
  -- Where the stream stands afterwards.
  check.close(seeded(7, function() torch.empty(4, {dtype = "int64"}):random_(0, 4294967296) return torch.rand(1, {dtype = "float64"}):item() end), 0.922529, 1e-6)
end)

test("a matrix that lies column by column is drawn into in PyTorch's order: of memory, or of rows where the result is new", function()
  local y = (torch.arange(6) / 6):float():view(3, 2):t()
  for i, case in ipairs {  -- a sum by place, which tells orders apart
    {function() return torch.randn_like(y) end, 15.1292},
    {function() return F.dropout(y, 0.4) end, 8.6111},
    {function() return y:clone():exponential_(2) end, 7.3111},
    {function() return y:clone():random_(0, 77) end, 700},
    {function() return torch.bernoulli(y) end, 5},
    {function() return torch.poisson(y * 8) end, 51},
    {function() return F.rrelu(-y, 0.1, 0.3, true) end, -1.9737},
    {function() return torch.normal(y, 2.0) end, 37.5649},
    {function() return torch.normal(2.0, y) end, 48.1860},
    {function() return F.gumbel_softmax(y) end, 6.9112},
    {function() return torch.multinomial(y + 0.1, 2) - 1 end, 15},  -- positions from 0, as there
  } do
    local x = seeded(9, case[1]):double():flatten()
    check.close((x * torch.arange(1, x:numel() + 1)):sum():item(), case[2], 1e-4, i)
  end
end)
