-- Loaders with workers: what crosses to them and back, order, random numbers, errors, and how they end.
local data = torch.utils.data

local function new_set(n, get)
  local Set = data.class("Set")
  Set.__len = function() return n end
  Set.get = get or function(_, i) return i end
  return Set()
end
-- The thread sanitizer holds signals back from a loop in Lua alone, so there it is one of operations.
local spin = os.getenv("TYCHO_TSAN") and "torch.ones(1):add(1)" or ""
local function spin_while(condition)
  local f = load(("local i = ... while %s do %s end"):format(condition, spin))
  return function(_, i)
    f(i)
    return i
  end
end
local function lists(loader)
  local out = {}
  for x in loader() do out[#out + 1] = torch.is_tensor(x) and x:tolist() or x end
  return out
end
local function threads()
  for line in io.lines("/proc/self/status") do
    local n = line:match("^Threads:%s*(%d+)")
    if n then return tonumber(n) end
  end
end
-- What one worker makes of a value: f(value) in get.
local function through(value, f)
  local Set = data.class("Set")
  Set.__len = function() return 1 end
  function Set:get() return {f(self.value)} end
  local set = Set()
  set.value = value
  for x in data.DataLoader(set, {num_workers = 1, batch_size = torch.none})() do return {x} end
end

test("batches come in the same order with any number of workers", function()
  local set = new_set(23, function(_, i) return {torch.tensor{i, 2 * i}, i} end)
  local function all(options)
    local out = {}
    for x, y in data.DataLoader(set, options)() do out[#out + 1] = {x:tolist(), y:tolist()} end
    return out
  end
  for _, drop in ipairs{false, true} do
    local expected = all{batch_size = 4, drop_last = drop}
    check.equal(#expected, drop and 5 or 6)
    for n = 1, 3 do check.equal(all{batch_size = 4, drop_last = drop, num_workers = n, prefetch_factor = n}, expected) end
  end
  local rows = data.TensorDataset(torch.arange(10), torch.arange(10) * 2)
  local got = {}
  for x, y in data.DataLoader(data.Subset(rows, {2, 4, 6}), {batch_size = 2, num_workers = 2})() do got[#got + 1] = {x:tolist(), y:tolist()} end
  check.equal(got, {{{1, 3}, {2, 6}}, {{5}, {10}}})
  check.equal(lists(data.DataLoader(set, {batch_size = 4, num_workers = 2, collate_fn = function(s) return #s end})), {4, 4, 4, 4, 4, 3})
end)

test("shuffles are the same with workers as without", function()
  local set = new_set(50)
  local function two(n)
    torch.manual_seed(5)
    local loader = data.DataLoader(set, {batch_size = 8, shuffle = true, num_workers = n})
    return {lists(loader), lists(loader), torch.rand(1):item()}
  end
  check.equal(two(2), two(0))
end)

test("each worker's random numbers are PyTorch's", function()
  local set = new_set(4, function()
    local info = data.get_worker_info()
    return torch.tensor{info.id, torch.initial_seed(), info.seed, torch.randint(0, 1000, {1}):item()}
  end)
  torch.manual_seed(7)
  check.equal(lists(data.DataLoader(set, {num_workers = 2})), {
    {{1, 1407639518939636932, 1407639518939636932, 293}}, {{2, 1407639518939636933, 1407639518939636933, 610}},
    {{1, 1407639518939636932, 1407639518939636932, 235}}, {{2, 1407639518939636933, 1407639518939636933, 403}}})
  check.equal(lists(data.DataLoader(set, {num_workers = 2}))[1], {{1, 5163590386780219894, 5163590386780219894, 663}})
  local kept = data.DataLoader(set, {num_workers = 2, persistent_workers = true})
  check.equal(lists(kept)[4], {{2, 8087222774582268116, 8087222774582268116, 38}})
  check.equal(lists(kept)[4], {{2, 8087222774582268116, 8087222774582268116, 123}})
  check.close(torch.rand(1):item(), 0.2071, 1e-3)
end)

test("math.random differs between workers and repeats with the seed", function()
  local set = new_set(4, function() return math.random(1 << 40) end)
  local function draw()
    torch.manual_seed(3)
    return lists(data.DataLoader(set, {num_workers = 2}))
  end
  local a = draw()
  check.equal(draw(), a)
  check.yes(a[1][1] ~= a[2][1])
end)

test("tables cross with their cycles, shared parts and classes", function()
  local Animal = data.class("Animal", {})
  function Animal:name() return "a " .. self.kind end
  local shared = {7}
  local value = setmetatable({kind = "cat", a = shared, b = shared, [1] = 1.5, [2] = true, [shared] = "key"}, Animal)
  value.self = value
  local deep = {}
  for _ = 1, 30000 do deep = {deep} end
  value.deep = deep
  local got = through(value, function(v)
    local n, d = 0, v.deep
    while d[1] do n, d = n + 1, d[1] end
    return {v:name(), v.a == v.b, v.self == v, v[1], v[2], v[v.a], #v, n}
  end)
  check.equal(got[1], {"a cat", true, true, 1.5, true, "key", 2, 30000})
end)

own_globals_factor = 4  -- of this file's own _ENV

test("a function's own table of globals crosses as far as it is used", function()
  own_globals_file = io.stdin
  local got = through(3, function(v) return {v * own_globals_factor, type(math.floor), own_globals_nothing} end)
  check.equal(got[1], {12, "function"})
end)

test("functions cross with their variables, which stay shared, and with globals by name", function()
  local n, limit = 0, {most = 3}
  local function count() n = n + 1 return n end
  local function fact(k) return k <= 1 and 1 or k * fact(k - 1) end
  local use = load([[
    workers_test_scale, workers_test_left_out = 10, io.stdout
    function workers_test_global(x) return x * workers_test_scale end
    return function(x) return workers_test_global(x), workers_test_left_out == io.stdout end]])()
  local got = through({count = count, read = function() return n end, fact = fact, format = string.format, use = use, out = io.stdout}, function(v)
    v.count()
    v.count()
    local scaled, same = v.use(limit.most)
    return {v.read(), v.fact(5), scaled, v.format("%02d", 7), same, v.out == io.stdout}
  end)
  load("workers_test_scale, workers_test_global, workers_test_left_out = nil, nil, nil")()
  check.equal(got[1], {2, 120, 30, "07", true, true})
  check.equal(n, 0, "what changes in a worker stays there")
end)

test("what torch has under a name is the worker's own", function()
  local F = torch.nn.functional
  local net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
  local Net = torch.nn.class("Net")
  function Net:init() self.fc = torch.nn.Linear(2, 2) end
  function Net:forward(x) return F.relu(self.fc(x)) end
  local own = Net()
  local x = torch.ones(1, 3)
  local got = through({net = net, own = own, relu = F.relu, dtype = torch.float64, class = data.TensorDataset, device = x.device, shape = x.shape, none = torch.none},
    function(v)
      local y = torch.no_grad(function() return v.net(x) end)
      local ok = getmetatable(v.net) == torch.nn.Sequential and v.class == data.TensorDataset and v.relu == F.relu
        and v.dtype == torch.float64 and tostring(v.device) == "cpu" and v.shape == x.shape and v.none == torch.none
      local z = torch.no_grad(function() return v.own(y) end)
      return {ok, y, z, #v.own:parameters(), tostring(v.own) == tostring(own)}
    end)
  check.yes(got[1][1])
  check.equal(got[1][2], net(x):detach())
  check.equal(got[1][3], own(net(x)):detach())
  check.equal(got[1][4], 2)
  check.yes(got[1][5])
end)

test("tensors share their memory both ways, with views, dtypes and generators", function()
  local x = torch.arange(12):view(3, 4)
  local g = torch.Generator():manual_seed(5)
  local expected = torch.rand(2, {generator = torch.Generator():manual_seed(5)})
  local got = through({x = x, view = x.T[{{2, 3}}], again = x, half = torch.ones(2):half(), g = g, w = torch.ones(1, {requires_grad = true}), empty = torch.zeros(0, 3)},
    function(v) return {v.x, v.view, v.again == v.x, v.half, torch.rand(2, {generator = v.g}), v.w.requires_grad, v.empty} end)[1]
  check.equal(got[1]:data_ptr(), x:data_ptr())
  check.equal(got[2], x.T[{{2, 3}}])
  check.equal(got[2]:is_contiguous(), false)
  check.yes(got[3])
  check.dtype(got[4], "float16")
  check.equal(got[5], expected)
  check.yes(got[6])
  check.shape(got[7], {0, 3})
end)

test("what cannot cross is an error that names the way to it", function()
  local function refused(text, set, options)
    options = options or {num_workers = 1}
    check.raises("argument", text, function() data.DataLoader(set, options)() end)
  end
  local file <close> = assert(io.open("/dev/null"))
  local set = new_set(3)
  set.reader = {file = file}
  refused("dataset.reader.file is an open file", set)
  set.reader = {1, {co = coroutine.create(print)}}
  refused("dataset.reader[2].co is a coroutine", set)
  set.reader = torch.ones(2, {requires_grad = true}) * 2
  refused("dataset.reader is part of a graph", set)
  refused("file (a variable of dataset.get) is an open file", new_set(3, function() return file:read(1) end))
  local get, collate = load([[return function() return workers_test_file:read(1) end, function(s) return function() return workers_test_file end end]])()
  load("workers_test_file = ...")(file)
  local ok, err = pcall(function()
    refused("workers_test_file (a global that dataset.get uses) is an open file", new_set(3, get))
    refused("(a global that collate_fn uses)", new_set(3), {num_workers = 1, collate_fn = collate})
  end)
  load("workers_test_file = nil")()
  if not ok then error(err, 0) end
  refused("gmatch", new_set(3), {num_workers = 1, worker_init_fn = (function() local gmatch = ("a"):gmatch("a") return function() gmatch() end end)()})
end)

test("what a script added to torch does not cross, and the error says so", function()
  local out = check.tycho({"-e", [[
    torch.added_by_a_script = {1}
    local Set = torch.utils.data.class("Set")
    function Set:__len() return 1 end
    function Set:get() return self.part[1] end
    local set = Set()
    set.part = torch.added_by_a_script
    for x in torch.utils.data.DataLoader(set, {num_workers = 1})() do print(x:item()) end]]})
  check.equal(out.status, 1)
  check.contains(out.err, "has no torch.added_by_a_script, which a script added")
end)

test("worker_init_fn and get_worker_info say which worker it is", function()
  check.equal(data.get_worker_info(), nil)
  local set = new_set(4, function(self, i)
    local info = data.get_worker_info()
    return {i, info.id, info.num_workers, self.opened, info.dataset == self}
  end)
  local loader = data.DataLoader(set, {num_workers = 2, batch_size = torch.none,
    worker_init_fn = function(id) data.get_worker_info().dataset.opened = id * 10 end})
  local got = {}
  for i, id, n, opened, same in loader() do got[#got + 1] = {i, id, n, opened, same} end
  check.equal(got, {{1, 1, 2, 10, true}, {2, 2, 2, 20, true}, {3, 1, 2, 10, true}, {4, 2, 2, 20, true}})
  check.equal(set.opened, nil)
end)

local Count = data.class("Count", data.IterableDataset)
function Count:init(n, shared) self.n, self.shared = n, shared end
function Count:iter()
  local info = data.get_worker_info()
  local i, step = 1, 1
  if self.shared and info then i, step = info.id, info.num_workers end
  return function()
    local item = i
    i = i + step
    if item <= self.n then return item end
  end
end

test("a dataset that is read in order is read whole by each worker, unless it shares the work", function()
  check.equal(lists(data.DataLoader(Count(5), {batch_size = 2, num_workers = 2, drop_last = true})), {{1, 2}, {1, 2}, {3, 4}, {3, 4}})
  check.equal(lists(data.DataLoader(Count(11, true), {batch_size = 2, num_workers = 2})), {{1, 3}, {2, 4}, {5, 7}, {6, 8}, {9, 11}, {10}})
  check.equal(lists(data.DataLoader(Count(11, true), {batch_size = 2, num_workers = 3})), {{1, 4}, {2, 5}, {3, 6}, {7, 10}, {8, 11}, {9}})
  check.equal(lists(data.DataLoader(Count(3, true), {batch_size = torch.none, num_workers = 2})), {1, 2, 3})
  local kept = data.DataLoader(Count(5, true), {batch_size = 2, num_workers = 2, persistent_workers = true})
  for _ = 1, 3 do check.equal(lists(kept), {{1, 3}, {2, 4}, {5}}) end
end)

test("workers share the pieces of a CSV file, and read folders of pictures as the calling thread does", function()
  local path = check.temp("rows.csv")
  local file <close> = assert(io.open(path, "w"))
  file:write("a,b\n")
  for i = 1, 23 do file:write(i, ",", i * 2, "\n") end
  file:flush()
  local seen = {}
  for x in data.DataLoader(data.CsvDataset(path, {chunk = 4}), {batch_size = 3, num_workers = 2})() do
    for i = 1, #x do seen[#seen + 1] = math.tointeger(x[{i, 1}]:item()) end
  end
  table.sort(seen)
  check.equal(#seen, 23)
  for i, v in ipairs(seen) do check.equal(v, i) end
  local folder = check.temp("pictures")
  os.execute(("mkdir -p '%s/a' '%s/b'"):format(folder, folder))
  for i = 1, 5 do
    data.write_image(torch.full({3, 6, 6}, i * 20, {dtype = torch.uint8}), ("%s/%s/%d.png"):format(folder, i % 2 == 0 and "a" or "b", i))
  end
  local pictures = data.ImageFolder(folder, {transform = function(x) return x:float() / 255 end})
  check.equal(lists(data.DataLoader(pictures, {batch_size = 2, num_workers = 2})), lists(data.DataLoader(pictures, {batch_size = 2})))
end)

test("workers that persist keep their state, and a loop that is left leaves nothing behind", function()
  local calls = 0
  local loader = data.DataLoader(new_set(6, function(_, i) calls = calls + 1 return {i, calls} end),
    {num_workers = 1, batch_size = torch.none, persistent_workers = true})
  local last
  for _, n in loader() do last = n end
  check.equal(last, 6)
  for i in loader() do
    if i == 2 then break end
  end
  local seen = {}
  for i, n in loader() do seen[#seen + 1], last = i, n end
  check.equal(seen, {1, 2, 3, 4, 5, 6})
  check.yes(last >= 14)
  local old = loader()
  check.equal(old(), 1)
  for _ in loader() do end
  check.raises("value", "another loop over this loader has begun", old)
end)

test("an error in a worker arrives with its kind, its item and its own traceback", function()
  local function fails(kind, text, get, options)
    options = options or {}
    options.num_workers = 2
    local err = check.raises(kind, text, function() lists(data.DataLoader(new_set(9, get), options)) end)
    check.yes(err.worker == 1 or err.worker == 2)
    check.contains(err.traceback, "stack traceback")
    return err
  end
  local err = fails("shape", "cannot be multiplied", function(_, i) return i == 5 and torch.ones(2, 3):matmul(torch.ones(2)) or i end)
  check.equal({err.worker, err.index, err.op}, {1, 5, "matmul"})
  check.contains(tostring(err), "(worker 1 of the loader, item 5: ")
  check.contains(err.where, "workers_test.lua:")
  check.contains(tostring(err), "in get")
  err = fails("value", "no such picture", function(_, i) error(i == 4 and "another" or "no such picture") end, {batch_size = 4})
  check.equal(err.index, 1)
  err = fails("value", "", function() error({code = 5}) end)
  check.equal(err.cause, {code = 5})
  fails("value", "get(3) of the dataset returned nil", function(_, i) if i ~= 3 then return i end end)
  fails("shape", "item 2 (dataset index 2) has shape [2], item 1 (dataset index 1) has [1]", function(_, i) return torch.ones(i) end, {batch_size = 3})
  fails("value", "init 1", nil, {worker_init_fn = function(id) error("init " .. id) end})
  fails("argument", "the batch[1] is a coroutine", function() return {coroutine.create(print)} end, {batch_size = torch.none})
  fails("argument", "the batch is part of a graph", function() return torch.ones(1, {requires_grad = true}) * 2 end, {batch_size = torch.none})
  fails("value", "this is a worker of a loader already", function(self) return data.DataLoader(self, {num_workers = 1}) end)
  fails("value", "computes alone", function() torch.set_num_threads(2) end)
  fails("value", "cannot end the program", function() os.exit(3) end)
  fails("argument", "no argument", function() return torch.ones(2):sum{keep = true} end)
end)

test("a wait that takes too long names the worker, the item and the line", function()
  local set = new_set(5, spin_while("i == 2"))
  local got
  local err = check.raises("value", "worker 2 has produced nothing for 2 s", function()
    for x in data.DataLoader(set, {num_workers = 2, timeout = 2})() do got = x:item() end
  end)
  check.equal(got, 1)
  check.contains(tostring(err), "it is in get(2)")
  check.equal(lists(data.DataLoader(new_set(3), {num_workers = 2, timeout = 60})), {{1}, {2}, {3}})
end)

test("without a limit a note says which worker is waited for", function()
  local out = check.tycho({"-e", [[
    local data = torch.utils.data
    require "torch.utils.workers"
    data._patience = 0.1
    local Set = data.class("Set")
    Set.__len = function() return 2 end
    function Set:get(i)
      local until_then = os.clock() + (i == 2 and 1 or 0)
      while os.clock() < until_then do end
      return i
    end
    for x in data.DataLoader(Set(), {num_workers = 2})() do print(x:item()) end]]})
  check.equal(out.out, "1\n2\n")
  check.contains(out.err, "note: DataLoader: worker 2 has produced nothing for 0.1 s; it is in get(2)")
end)

test("workers compute on one thread each and have a default dtype of their own", function()
  torch.set_default_dtype(torch.float64)
  local ok, got = pcall(through, {}, function()
    local before = torch.get_default_dtype() == torch.float64
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    return {torch.get_num_threads(), before, torch.ones(300, 300):matmul(torch.ones(300, 300)):sum():item()}
  end)
  local after = torch.get_default_dtype()
  torch.set_default_dtype(torch.float32)
  check.yes(ok, got)
  check.equal(got[1], {1, true, 300.0 ^ 3})
  check.equal(tostring(after), "torch.float64")
end)

test("break, an error and the collector end the workers", function()
  local before = threads()
  local endless = new_set(100, spin_while("i > 3"))
  for x in data.DataLoader(endless, {num_workers = 2})() do
    if x:item() == 2 then break end
  end
  check.equal(threads(), before)
  pcall(function()
    for _ in data.DataLoader(endless, {num_workers = 2})() do error("left") end
  end)
  check.equal(threads(), before)
  do
    local next_batch = data.DataLoader(endless, {num_workers = 2})()
    check.equal(next_batch():item(), 1)
    check.equal(threads(), before + 2)
    next_batch = nil
  end
  collectgarbage()
  collectgarbage()
  check.equal(threads(), before)
  local kept = data.DataLoader(new_set(3), {num_workers = 2, persistent_workers = true})
  for _ in kept() do end
  check.equal(threads(), before + 2)
  kept = nil
  collectgarbage()
  collectgarbage()
  check.equal(threads(), before)
end)

test("two hundred loaders that are left leave no thread and no memory", function()
  local set = new_set(1000, function(_, i) return torch.ones(1000) * i end)
  local function some(n)
    for k = 1, n do
      for x in data.DataLoader(set, {batch_size = 16, num_workers = 1 + k % 2, prefetch_factor = 1})() do
        if k % 3 > 0 or x[1][1]:item() > 40 then break end
      end
    end
    collectgarbage()
    collectgarbage()
    return torch.memory_allocated()
  end
  local before, used = threads(), some(5)
  check.yes(some(200) <= used + 100000)
  check.equal(threads(), before)
end)

test("the memory of batches is used again", function()
  local set = new_set(600, function(_, i) return torch.full({1 << 16}, i) end)
  local most = 0
  for x in data.DataLoader(set, {batch_size = 8, num_workers = 2})() do
    check.equal(x[{8, 1}]:item() - x[{1, 1}]:item(), 7)
    most = math.max(most, torch.memory_allocated())
  end
  check.yes(most < 150e6, most)  -- all batches together: 315 MB
end)

test("with in_order=false every batch comes once, in any order", function()
  local got = lists(data.DataLoader(new_set(20), {num_workers = 3, in_order = false}))
  table.sort(got, function(a, b) return a[1] < b[1] end)
  check.equal(#got, 20)
  for i, x in ipairs(got) do check.equal(x, {i}) end
end)

test("wrong options are refused", function()
  local function refused(text, options)
    check.raises("value", text, data.DataLoader, new_set(3), options)
  end
  refused("num_workers must be", {num_workers = -1})
  refused("num_workers must be", {num_workers = 1.5})
  refused("timeout must be", {num_workers = 1, timeout = -1})
  refused("timeout is for workers", {timeout = 3})
  refused("prefetch_factor is for workers", {prefetch_factor = 2})
  refused("prefetch_factor must be a positive integer", {num_workers = 1, prefetch_factor = 0})
  refused("persistent_workers is for workers", {persistent_workers = true})
  refused("worker_init_fn must be a function", {num_workers = 1, worker_init_fn = 3})
  refused("multiprocessing_context must be", {num_workers = 1, multiprocessing_context = 3})
  refused("in_order must be true or false", {in_order = 1})
  check.equal(lists(data.DataLoader(new_set(2), {num_workers = 1, multiprocessing_context = "fork", pin_memory = true, pin_memory_device = ""})), {{1}, {2}})
end)

local program = [[
local data = torch.utils.data
local Set = data.class("Set")
Set.__len = function() return 100 end
function Set:get(i) while i > 4 do SPIN end return i end
local loader = data.DataLoader(Set(), {num_workers = 2, persistent_workers = true})
]]
program = program:gsub("SPIN", spin)

test("a process ends at once while workers run", function()
  for _, ending in ipairs{"held = loader() print(held():item())", "for x in loader() do print(x:item()) os.exit(0) end",
    "for x in loader() do print(x:item()) os.exit(0, true) end"} do
    local out = check.tycho({"-e", program .. ending})
    check.equal({out.status, out.out, out.err}, {0, "1\n", ""})
  end
  local out = check.tycho({"-e", program .. "for x in loader() do error('stop here') end"})
  check.equal(out.status, 1)
  check.contains(out.err, "stop here")
end)

test("what workers print stays in whole lines", function()
  local out = check.tycho({"-e", [[
    local data = torch.utils.data
    local Set = data.class("Set")
    Set.__len = function() return 400 end
    function Set:get(i) print("item", i, ("x"):rep(50)) return i end
    for x in data.DataLoader(Set(), {num_workers = 3, batch_size = 20})() do end
    print("end")]]})
  local n = 0
  for line in out.out:gmatch("[^\n]+") do
    n = n + 1
    check.yes(line == "end" or line:match("^item\t%d+\tx+$"), line)
  end
  check.equal(n, 401)
end)

test("a Ctrl-C that the script catches leaves the workers ended and the script going on", function()
  local out = check.tycho({"-e", [[
    local data = torch.utils.data
    local Set = data.class("Set")
    Set.__len = function() return 100 end
    function Set:get(i) if i == 3 then io.popen("kill -INT " .. self.pid):close() while true do ]] .. spin .. [[ end end return i end
    local set = Set()
    local function threads()
      for line in io.lines("/proc/self/status") do
        local n = line:match("^Threads:%s*(%d+)")
        if n then return math.tointeger(n) end
      end
    end
    for _ in data.DataLoader(data.TensorDataset(torch.ones(1)), {num_workers = 1})() do end
    local before = threads()
    for line in io.lines("/proc/self/stat") do set.pid = line:match("^%d+") end
    print((torch.until_interrupt(function() for x in data.DataLoader(set, {num_workers = 2})() do end end)))
    print(threads() - before)]]})
  check.equal(out.status, 0)
  check.equal(out.out, "false\n0\n")
end)
