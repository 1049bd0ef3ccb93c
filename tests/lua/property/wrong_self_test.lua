-- Methods of every class with a wrong `self` (a point for a colon, another object, a number): what fails is an error with
-- a kind that names the method, what self was and the form with a colon, never a text from inside.
local nn, optim, data = torch.nn, torch.optim, torch.utils.data
local D, T, mp = torch.distributions, torch.utils.data.transforms, torch.multiprocessing

local function objects()
  local net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
  local sgd = optim.SGD(net:parameters(), {lr = 0.1})
  local set = data.TensorDataset(torch.ones(4, 2), torch.ones(4))
  local list = {
    set = set, loader = data.DataLoader(set, {batch_size = 2}), scaler = torch.amp.GradScaler(),
    generator = torch.Generator(), store = torch.distributed.HashStore(), store_under = torch.distributed.PrefixStore("a", torch.distributed.HashStore()),
    stream = torch.cuda.Stream and select(2, pcall(torch.cuda.Stream)), event = torch.cuda.Event and select(2, pcall(torch.cuda.Event)),
    subset = data.Subset(set, {1, 2}), joined = data.ConcatDataset {set, set}, sampler = data.RandomSampler(set), batches = data.BatchSampler(data.SequentialSampler(set), 2, false),
    compose = T.Compose {T.ToTensor()}, tokens = data.text.CharTokenizer and data.text.CharTokenizer("abc"), sgd = sgd, net = net,
    pairs_of_bytes = data.text.BPETokenizer.train(("abc ab "):rep(20), {vocab_size = 260}), queue = mp.Queue(), lock = mp.Lock(), event_of_processes = mp.Event(),
    average = optim.swa_utils.AveragedModel(net), layer = nn.Linear(2, 2), norm = nn.BatchNorm1d(2), lstm = nn.LSTM(2, 2), gru_cell = nn.GRUCell(2, 2),
    attention = nn.MultiheadAttention(4, 2), embedding = nn.Embedding(3, 2), list = nn.ModuleList {nn.ReLU()}, dict = nn.ModuleDict {a = nn.ReLU()},
    parameters = nn.ParameterList {torch.ones(2)}, lazy = nn.LazyLinear(3), transformer = nn.TransformerEncoderLayer(4, 2, 8), conv = nn.Conv2d(1, 2, 3),
    loss = nn.CrossEntropyLoss(), gpt = torch.models.GPT and torch.models.GPT {vocab_size = 8, block_size = 4, n_layer = 1, n_head = 1, n_embd = 4},
  }
  for name, make in pairs(optim) do
    if type(name) == "string" and name:find "^%u" and name ~= "Optimizer" then
      local ok, made = pcall(make, {torch.ones(2, 2, {requires_grad = true})}, {lr = 0.1})
      list["optim." .. name] = ok and made or nil
    end
  end
  for name, arguments in pairs {StepLR = {2}, ExponentialLR = {0.9}, CosineAnnealingLR = {5}, LambdaLR = {function() return 1 end}, ReduceLROnPlateau = {}, OneCycleLR = {0.1, 10}, CyclicLR = {0.1, 0.2}} do
    local ok, made = pcall(optim.lr_scheduler[name], sgd, table.unpack(arguments))
    list["lr_scheduler." .. name] = ok and made or nil
  end
  for name, arguments in pairs {Normal = {0, 1}, Categorical = {torch.ones(3) / 3}, Bernoulli = {0.5}, Uniform = {0, 1}, Laplace = {0, 1}, Exponential = {1}} do
    local ok, made = pcall(function() return D[name](table.unpack(arguments)) end)
    list["distributions." .. name] = ok and made or nil
  end
  for name, make in pairs(T) do
    if type(name) == "string" and name:find "^%u" and type(make) == "table" then
      for _, argument in ipairs {2, 0.5, {2, 2}} do
        local ok, made = pcall(make, argument)
        if ok and type(made) == "table" then list["transforms." .. name] = made end
      end
    end
  end
  return list
end

-- All functions that a value answers to by name.
local function methods_of(v)
  local found = {}
  local meta = debug.getmetatable(v)
  for _ = 1, 12 do
    if type(meta) ~= "table" then break end
    local index = rawget(meta, "__index")
    for _, t in ipairs {meta, type(index) == "table" and index or {}} do
      for name, f in next, t do
        if type(name) == "string" and type(f) == "function" and name:sub(1, 1) ~= "_" then found[name] = found[name] or f end
      end
    end
    meta = rawget(meta, "_base") or type(index) == "table" and index ~= meta and debug.getmetatable(index) or nil
  end
  return found
end

test("methods of every class with a wrong self raise errors with a kind, which name the method and self", function()
  local kinds = {}
  for k in ("shape broadcast dim index dtype device argument value autograd linalg oom io distributed"):gmatch "%a+" do kinds[k] = true end
  local layer, plain = nn.Linear(1, 1), setmetatable({}, {__index = {x = 1}})
  local wrong = {
    {}, {layer}, {plain}, {optim.SGD}, {3}, {"text"}, {true}, {{}}, {{1, 2}}, {torch.ones(2)}, {torch.ones(2), 1}, {print}, {false, 1, 2}, {nn.Linear},
    {nil, torch.ones(2)}, {torch.Generator()}, {"a", "b"}, {io.stdout},
  }
  local calls, errors, bad = 0, 0, {}
  for label, object in pairs(objects()) do
    for name, f in pairs(methods_of(object)) do
      if not (name == "init" or name:find "^save" or name:find "^load") then
        for k = 1, #wrong do
          local a = wrong[k]
          if debug.getmetatable(a[1]) ~= debug.getmetatable(object) then
            calls = calls + 1
            local ok, err = pcall(f, table.unpack(a, 1, 3))
            if not ok then
              errors = errors + 1
              if type(err) ~= "table" or not kinds[err.kind] then
                bad[#bad + 1] = ("%s:%s(%s): %s"):format(label, name, tostring(a[1]), type(err) == "table" and tostring(err.kind) or tostring(err))
              elseif err.message:find "self must be" then
                check.contains(err.hint, "obj:")
              end
            end
          end
        end
      end
    end
  end
  if os.getenv "TYCHO_WRONG_SELF" then print(calls, errors, #bad) for _, b in ipairs(bad) do print(b) end end
  check.equal(table.concat(bad, "\n", 1, math.min(#bad, 20)), "")
  check.yes(errors > 3000, errors)
end)

local net = nn.Linear(2, 2)
local Mine = nn.class("Mine")
function Mine:init() self.fc = nn.Linear(2, 2) end
function Mine:forward(x) return self.fc(x) end

test("where the line tells the object, the line with a colon is the fix; in coroutines and in the user's own classes, too", function()
  local mine, holder = Mine(), {net = net}
  for _, case in ipairs {
    {function() net.train(true) end, "net:train(true)"},
    {function() holder.net.to("cpu") end, 'holder.net:to("cpu")'},
    {function() net.forward(torch.ones(2)) end, "net:forward(torch.ones(2))"},
    {function() mine.forward(torch.ones(2)) end, "mine:forward(torch.ones(2))"},
  } do
    local _, err = pcall(case[1])
    check.equal(err.fixes, {case[2]})
    check.contains(err.message, "a colon hands it")
    _, err = coroutine.resume(coroutine.create(case[1]))
    check.equal(err.fixes, {case[2]})
  end
  local _, err = pcall(function() nn.Linear.train(3) end)
  check.equal(err.message, "Linear:train: self must be a Linear, and is the number 3")
end)

test("a handler of xpcall gets the same error objects, and sees the stack of what failed", function()
  local mine = Mine()
  local ok, fixes = xpcall(function() mine.train() end, function(err) return err.fixes end)
  check.equal({ok, fixes}, {false, {"mine:train()"}})
  check.equal({xpcall(function() nn.Linear.to(3) end, function(err) return err.kind end)}, {false, "argument"})
  check.equal({xpcall(function(a, b) return a + b, b end, print, 1, 2)}, {true, 3, 2})
  check.equal({xpcall(function() error("mine", 0) end, function(err) return err .. debug.getinfo(2, "n").name end)}, {false, "mineerror"})
  check.raises(nil, "bad argument #2 to 'xpcall'", xpcall, print, 3)
  local co = coroutine.wrap(function() return xpcall(function() coroutine.yield(1) error("late", 0) end, function(err) return err .. "r" end) end)
  check.equal(co(), 1)
  check.equal({co()}, {false, "later"})
  check.equal({xpcall(function() local function f() return 1 + f() end return f() end, function() return "deep" end)}, {false, "deep"})
end)

test("a class is no object: what asks it for its parts says that an object is to be made", function()
  for _, name in ipairs {"parameters", "named_parameters", "named_buffers", "state_dict", "modules", "children", "train", "eval", "zero_grad", "double", "apply"} do
    check.raises("argument", "Mine is the class; make an object of it first: net = Mine(..)", Mine[name], Mine)
  end
  check.equal(#Mine():parameters(), 2)
end)

test("errors that are somebody's own stay what they are", function()
  local function text(f)
    local ok, err = pcall(f)
    return ok, err
  end
  check.equal({text(function() error("attempt to win", 0) end)}, {false, "attempt to win"})
  check.contains(select(2, text(function() return nil + 1 end)), "attempt to perform arithmetic on a nil value")
  check.contains(select(2, text(function() return ("x"):rep({}) end)), "bad argument #1 to 'rep'")
  local own = {}
  check.yes(select(2, text(function() error(own) end)) == own)
  check.equal({pcall(coroutine.wrap(function() return pcall(coroutine.yield, 1) end))}, {true, 1})
  check.contains(select(2, text(pcall)), "bad argument #1 to 'pcall'")
  local called = Mine()
  function Mine:forward() error("the user's own", 0) end
  check.equal({text(function() called.forward(3) end)}, {false, "the user's own"})
end)
