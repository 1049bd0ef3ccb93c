-- Random misuse: calls everything reachable from `torch` with wrong numbers, kinds, shapes, types and
-- devices of arguments. A call may give a result or raise an error object; it may not crash, hang, raise a
-- bare text from the engine, or change a tensor that a failed in-place call was given.
--   tycho tests/lua/misuse.lua [COUNT [SEED]] [--count N] [--seed S] [--only NAME] [--at N] [--trace]
-- Call N of a seed is always the same one: --at N repeats it alone; --trace writes every call before it is made.
local options = {count = 20000, seed = 1}
do
  local position, i = {"count", "seed"}, 1
  while arg[i] do
    local name = arg[i]:match("^%-%-(%a+)$")
    if name == "trace" then
      options.trace = true
    elseif name and arg[i + 1] then
      options[name] = tonumber(arg[i + 1]) or arg[i + 1]
      i = i + 1
    else
      options[table.remove(position, 1)] = assert(tonumber(arg[i]), "misuse.lua: COUNT and SEED are numbers")
    end
    i = i + 1
  end
end
if not os.getenv("TYCHO_MEMORY_LIMIT_MB") then
  -- Run again with bounded memory, so that a size far too large is an error here as it is elsewhere.
  local words = {"TYCHO_MEMORY_LIMIT_MB=512", "TYCHO_SIMULATE_CUDA=3"}
  for k = -1, #arg do words[#words + 1] = "'" .. tostring(arg[k]):gsub("'", "'\\''") .. "'" end
  local _, how, code = os.execute("env " .. table.concat(words, " "))
  os.exit(how == "exit" and code or 1)
end

local random, pick = math.random, nil
function pick(list) return list[random(#list)] end
local failures, results, errors = 0, 0, 0

-- --- values, each with the text that shows it ---
local dtypes = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
local numbers = {
  0, 1, 2, 3, 4, 5, 7, 100, -1, -2, -3, -100, 0.5, 1.5, -0.5, 2.0, 3.0, 1e-30, 1e30, 1e308, -1e308, 0 / 0, math.huge, -math.huge,
  2 ^ 53, 2 ^ 31, 1 << 31, 1 << 32, 1 << 40, (1 << 31) - 1, -(1 << 31), math.maxinteger, math.mininteger, math.maxinteger - 1, 65536, 0x7ff,
}
local small = {0, 1, 1, 1, 2, 2, 2, 3, 3, -1, -2, 4, 5}
local strings = {
  "", "x", "float32", "int64", "cpu", "cuda", "cuda:0", "cuda:9", "cuda:-1", "sum", "mean", "none", "same", "valid", "ij", "xy", "reflect", "constant",
  "bilinear", "nearest", "tanh", "linear", "add", "multiply", "prod", "amax", "floor", "trunc", "1:2, :", "...", ":", "0", "\0", "a\0b", "ij,jk->ik",
  "i,i", "ii->i", "...i,...j->...ij", "->", ",,", "%s%s%n", ("long "):rep(50), "fro", "nuc", "new", "dim", "_", "1", "-1",
}
local pool = {}  -- shapes of this call, so that several arguments often fit together
local leaves = {}  -- a gradient with a graph of its own holds its leaf, which holds it: cleared after each call
local function shape()
  if #pool > 0 and random() < 0.6 then return pick(pool) end
  local n, s = pick {0, 1, 1, 2, 2, 2, 3, 3, 4, 5}, {}
  if random() < 0.02 then n = 8 end
  for d = 1, n do s[d] = n == 8 and pick {1, 2} or pick {1, 2, 2, 3, 3, 4, 5} end
  if n > 0 and random() < 0.07 then s[random(n)] = 0 end
  pool[#pool + 1] = s
  return s
end

local function tensor()
  local s = shape()
  local dtype = random() < 0.55 and "float32" or pick(dtypes)
  local floating = dtype:find("float") ~= nil
  local device = random() < 0.08 and pick {"cuda:0", "cuda:1"} or "cpu"
  local x, text
  if floating then
    x = torch.rand(s, {dtype = "float32"}):mul(4):sub(random() < 0.5 and 2 or 0)
    if random() < 0.03 and x:numel() > 0 then x:view(-1)[1] = pick {0 / 0, math.huge, -math.huge} end
  else
    x = torch.randint(random() < 0.5 and 1 or -3, 5, s)
  end
  x = x:to(dtype)
  if device ~= "cpu" then x = x:to(device) end
  text = ("%s{%s}"):format(dtype, table.concat(s, ","))
  if device ~= "cpu" then text = text .. "@" .. device end
  local how = random(12)
  if how == 1 and x:dim() >= 2 then
    x, text = x:transpose(1, -1), text .. ":transpose(1,-1)"
  elseif how == 2 and x:dim() >= 1 and x:size(1) > 0 then
    x, text = x["1:1"]:expand(pick {1, 2, 3}, table.unpack(x:size(), 2)), text .. ":expanded"
  elseif how == 3 and x:dim() >= 1 and x:size(-1) > 1 then
    x, text = x["..., ::2"], text .. "['..., ::2']"
  end
  if floating and random() < 0.25 then
    x, text = x:detach():requires_grad_(), text .. ":grad"
    leaves[#leaves + 1] = x
    if random() < 0.4 then x, text = x * 1, text .. "*1" end
  elseif random() < 0.02 then
    x, text = torch.inference_mode(function() return x + 0 end), text .. ":inference"
  end
  return x, text
end

local called_back = false  -- an error from one of these is not the engine's
local functions = {
  function() called_back = true end,
  function(...) called_back = true return ... end,
  function() called_back = true error("called back") end,
  function() called_back = true error({}) end,
  function(x) called_back = true return x * 2 end,
}
local wicked = {
  function() return setmetatable({}, {__len = function() called_back = true return 1 << 40 end}), "{} with #=2^40" end,
  function() return setmetatable({}, {__index = function(_, k) called_back = true return k end, __len = function() called_back = true return 3 end}), "{} with __index" end,
  function() return setmetatable({1, 2}, {__index = function() called_back = true error("index") end}), "{1,2} with raising __index" end,
  function() local t = {1} t[1] = t return t, "cycle" end,
  function() local t = {1, 2} t[2] = {t} return t, "{1,{cycle}}" end,
  function() return {1, nil, 3}, "{1,nil,3}" end,
  function() local t = {} for i = 1, 1000 do t[i] = i end return t, "{1..1000}" end,
  function() local t = 1 for _ = 1, 300 do t = {t} end return t, "300 levels" end,
  function() return {[0] = 1, [-1] = 2, [2 ^ 53] = 3}, "{[0],[-1],[2^53]}" end,
}
local others = {
  function() return coroutine.create(function() end), "coroutine" end,
  function() return io.stdout, "io.stdout" end,
  function() return torch.none, "torch.none" end,
  function() return torch.ellipsis, "torch.ellipsis" end,
  function() return torch.newaxis, "torch.newaxis" end,
  function() return pick {torch.float32, torch.int64, torch.bool, torch.bfloat16}, "dtype" end,
  function() return torch.device(pick {"cpu", "cuda:0"}), "device" end,
  function() return torch.zeros(2, 3).shape, "shape [2,3]" end,
  function() return {}, "{}" end,
}

local value
local function list(depth)
  local t, text, n = {}, {}, random(0, 4)
  local kind = random(4)
  for i = 1, n do
    if kind == 1 then
      t[i], text[i] = tensor()
    elseif kind == 2 then
      t[i] = pick(small)
      text[i] = tostring(t[i])
    elseif kind == 3 and depth < 3 then
      t[i], text[i] = list(depth + 1)
    else
      t[i], text[i] = value(depth + 1)
    end
    if t[i] == nil then t[i], text[i] = 1, "1" end
  end
  return t, "{" .. table.concat(text, ", ") .. "}"
end

local common_names = {"dim", "keepdim", "dtype", "device", "out", "self", "size", "requires_grad", "alpha", "generator", "nope"}
local function named(names)
  local t, text = {}, {}
  for _ = 1, random(3) do
    local name = pick(random() < 0.8 and names or common_names)
    local v, shown = value(1)
    if v ~= nil then
      t[name] = v
      text[#text + 1] = name .. "=" .. shown
    end
  end
  return t, "{" .. table.concat(text, ", ") .. "}"
end

function value(depth)
  local p = random()
  if p < 0.42 then return tensor() end
  local v
  if p < 0.62 then
    v = pick(small)
  elseif p < 0.71 then
    v = pick(numbers)
  elseif p < 0.77 then
    v = random() < 0.5
  elseif p < 0.81 then
    v = pick(strings)
    return v, ("%q"):format(v)
  elseif p < 0.92 then
    if depth < 3 then return list(depth) end
    return {1, 2}, "{1, 2}"
  elseif p < 0.95 then
    return nil, "nil"
  elseif p < 0.965 then
    return pick(functions), "function"
  elseif p < 0.98 then
    return pick(wicked)()
  else
    return pick(others)()
  end
  return v, math.type(v) == "float" and ("%.17g"):format(v) or tostring(v)
end

-- A value that a parameter of that name may well take: most calls should get past the first check.
local function positions()
  local s = shape()
  local x = torch.randint(random() < 0.9 and 1 or -1, random() < 0.8 and 3 or 6, s)
  return x, ("positions{%s}"):format(table.concat(s, ","))
end
local function number_list()
  local t = {}
  for i = 1, random(1, 4) do t[i] = pick(small) end
  return t, "{" .. table.concat(t, ",") .. "}"
end
local function likely(name)
  if random() < 0.1 then return value(0) end
  local v
  if name:find("dim") and name ~= "keepdim" then
    if random() < 0.15 then return number_list() end
    v = pick {1, 1, 2, 2, 3, -1, -2}
  elseif name:find("ind[ei]") or name == "target" and random() < 0.6 or name == "ids" or name == "repeats" then
    return positions()
  elseif name == "dtype" then
    return torch[pick(dtypes)], "dtype"
  elseif name == "device" then
    return pick {"cpu", "cpu", "cuda:0"}, "device"
  elseif name:find("size") or name:find("stride") or name:find("padding") or name:find("dilation") or name:find("shifts") or name == "pad" then
    if random() < 0.6 then return number_list() end
    v = pick(small)
  elseif name == "mode" or name == "reduction" or name == "reduce" or name == "indexing" or name == "rounding_mode" or name == "equation" or name == "approximate" or name == "ord" then
    v = pick(strings)
    return v, ("%q"):format(v)
  elseif name == "tensors" then
    local t, text = {}, {}
    for i = 1, random(3) do t[i], text[i] = tensor() end
    return t, "{" .. table.concat(text, ", ") .. "}"
  elseif name:find("^keep") or name:find("^is_") or name:find("^return") or name == "training" or name == "largest" or name == "sorted" or name == "descending"
    or name == "stable" or name == "unbiased" or name == "accumulate" or name == "ceil_mode" or name == "align_corners" then
    v = random() < 0.5
  elseif name == "k" or name == "n" or name == "groups" or name == "chunks" or name == "sections" or name == "length" or name == "start" or name == "stop" or name == "end"
    or name == "step" or name == "steps" or name == "diagonal" or name == "offset" or name == "num_samples" or name == "num_classes" or name == "correction" then
    v = pick(small)
  elseif name == "self" or name == "input" or name == "other" or name:find("weight") or name:find("mat") or name:find("vec") or name == "src" or name == "source" or name == "bias"
    or name == "target" or name == "mask" or name:find("tensor") or name == "query" or name == "key" then
    if name == "mask" then
      local x, text = tensor()
      return x:gt(0), text .. ":gt(0)"
    end
    return tensor()
  else
    v = pick {0.5, 1, 2, 0.1, 1e-5, 0, -1, true, 3}
  end
  return v, tostring(v)
end

-- --- what is called ---
-- What ends the program, touches files, changes it for all later calls, or only stands for another table.
local left_out = {
  save = true, load = true, simulate = true, set_num_threads = true, set_default_dtype = true, set_printoptions = true, set_device = true,
  _record = true, _saved = true, _raise = true, _strict = true, data_ptr = true,
}
local targets = {}
local function add(prefix, t, method)
  for name, f in pairs(t) do
    if type(name) == "string" and type(f) == "function" and not left_out[name] and not name:find("^save") and not name:find("^load") then
      targets[#targets + 1] = {name = prefix .. name, call = f, method = method, inplace = name:sub(-1) == "_"}
    end
  end
end
add("torch.", torch)
add("F.", torch.nn.functional)
add("linalg.", torch.linalg)
add("cuda.", torch.cuda)
add("autograd.", torch.autograd)
add("autograd.functional.", torch.autograd.functional)
add("func.", torch.func)
add("autograd.graph.", torch.autograd.graph)
add("checkpoint.", torch.utils.checkpoint)
add("func.", torch.func)
add("autograd.graph.", torch.autograd.graph)
add("checkpoint.", torch.utils.checkpoint)
local meta = debug.getmetatable(torch.zeros(1))
for i = 1, 4 do
  local name, methods = debug.getupvalue(meta.__index, i)
  if name and type(methods) == "table" then add("x:", methods, true) end
end
local function operator(name, f) targets[#targets + 1] = {name = name, call = f, method = true, operator = true} end
for _, op in ipairs {"+", "-", "*", "/", "//", "%", "^", "&", "|", "~", "<<", ">>", "<", "<=", ">", ">=", "=="} do
  operator("a" .. op .. "b", load("local a, b = ... return a " .. op .. " b"))
  operator("b" .. op .. "a", load("local b, a = ... return a " .. op .. " b"))
end
operator("-a", function(a) return -a end)
operator("~a", function(a) return ~a end)
operator("#a", function(a) return #a end)
operator("tostring(a)", function(a) return tostring(a) end)
for _ = 1, 25 do  -- the forms of one function that stand for many
  operator("a[b]", function(a, b) return a[b] end)
  targets[#targets + 1] = {name = "a[b]=c", call = function(a, b, c) a[b] = c end, method = true, inplace = true, operator = true}
end
for _, field in ipairs {"grad", "requires_grad", "data", "shape", "dtype", "T", "mT", "is_leaf", "grad_fn", "device"} do
  targets[#targets + 1] = {name = "a." .. field .. "=b", call = function(a, b) a[field] = b end, method = true, operator = true}
  operator("a." .. field, function(a) return a[field] end)
end
table.sort(targets, function(a, b) return a.name < b.name end)
if options.only then
  local kept = {}
  for _, t in ipairs(targets) do
    if t.name == options.only or t.name:match("[%w_]+$") == options.only then kept[#kept + 1] = t end
  end
  targets = kept
  assert(#targets > 0, "misuse.lua: nothing is called " .. options.only)
end

-- The names of its parameters stand in the error that a wrong name gives.
for _, t in ipairs(targets) do
  t.names = common_names
  if not t.operator then
    local co = coroutine.create(t.call)  -- its own, as below
    local ok, err = coroutine.resume(co, torch.zeros(1), {zzzzzzzz = 1})
    coroutine.close(co)
    local names = not ok and tostring(err):match("%(it has: ([^)]*)%)")
    if names then
      t.names = {}
      for name in names:gmatch("[%w_]+") do t.names[#t.names + 1] = name end
      t.known = #t.names > 0
      if not t.known then t.names = common_names end
    end
  end
end

local kinds = {}
for k in ("shape broadcast dim index dtype device argument value autograd linalg oom io distributed interrupt"):gmatch("%a+") do kinds[k] = true end

local function is_tensor(x) return type(x) == "userdata" and torch.is_tensor(x) end

-- A tensor's contents as one string.
local function contents(x)
  local out = {}
  local function walk(v)
    if type(v) == "table" then
      for _, e in ipairs(v) do walk(e) end
    else
      out[#out + 1] = tostring(v)
    end
  end
  walk(x:tolist())
  return tostring(x:size()) .. tostring(x.dtype) .. table.concat(out, " ")
end

local function report(number, text, what)
  failures = failures + 1
  if failures <= 50 then
    print(("FAIL call %d of seed %d: %s\n  %s\n  again: tycho tests/lua/misuse.lua --seed %d --at %d%s"):format(number, options.seed, text,
      what, options.seed, number, options.only and " --only " .. options.only or ""))
  end
end

local function one(number)
  math.randomseed(options.seed, number)
  torch.manual_seed(options.seed * 1000003 + number)
  pool = {}
  local t = pick(targets)
  local args, texts = {n = 0}, {}
  local function give(v, text)
    args.n = args.n + 1
    args[args.n] = v
    texts[args.n] = text
  end
  if t.method or random() < 0.7 then give(tensor()) end
  if t.known and random() < 0.6 then
    for i = 2, random(2, #t.names + 1) do
      if not t.names[i] then break end
      give(likely(t.names[i]))
    end
  else
    local n = t.operator and (t.inplace and 2 or 1) or pick {0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4, 5}
    for _ = 1, n do give(value(0)) end
  end
  if t.method and random() < 0.01 then args[1], texts[1] = value(1) end
  if t.operator and not is_tensor(args[1]) then args[1], texts[1] = tensor() end
  if not t.operator and random() < 0.25 then give(named(t.names)) end
  local text = t.name .. "(" .. table.concat(texts, ", ") .. ")"
  if options.trace or options.at then
    io.stderr:write(number, ": ", text, "\n")
    io.stderr:flush()
  end
  local before
  if t.inplace and is_tensor(args[1]) and args[1]:numel() <= 1000 then before = contents(args[1]) end
  called_back = false
  local out = table.pack(pcall(t.call, table.unpack(args, 1, args.n)))
  if out[1] then
    results = results + 1
    for i = 2, math.min(out.n, 4) do
      local y = out[i]
      if is_tensor(y) then
        if random() < 0.2 then tostring(y) end
        if y.requires_grad and random() < 0.5 then
          local ok, err = pcall(function() y:sum():backward {create_graph = random() < 0.3} end)
          if not ok and not called_back and (type(err) == "string" or not kinds[err.kind]) then
            report(number, text .. " then backward", "raised " .. tostring(err))
          end
        end
      end
    end
    return
  end
  errors = errors + 1
  local err = out[2]
  if called_back then return end
  if type(err) == "string" then
    report(number, text, "raised the text: " .. err)
  elseif type(err) ~= "table" or not kinds[err.kind] then
    report(number, text, "raised " .. tostring(err) .. " of kind " .. tostring(type(err) == "table" and err.kind))
  elseif tostring(err) == "" then
    report(number, text, "raised an error without a text")
  end
  if before and contents(args[1]) ~= before then report(number, text, "failed and changed its tensor: " .. tostring(err)) end
end

-- Each call has a coroutine of its own, so that a mode it turns on ends with it.
local function guarded(number)
  local co = coroutine.create(one)
  local ok, err = coroutine.resume(co, number)
  if not ok then report(number, "the test itself", debug.traceback(co, tostring(err))) end
  coroutine.close(co)
  for i = #leaves, 1, -1 do
    leaves[i].grad = nil
    leaves[i] = nil
  end
end

if options.at then
  guarded(options.at)
else
  for number = 1, options.count do guarded(number) end
end
print(("%d calls of %d functions with seed %d: %d results, %d errors"):format(results + errors, #targets, options.seed, results, errors))
print(("%d passed, %d failed"):format(failures == 0 and 1 or 0, failures))
os.exit(failures == 0 and 0 or 1)
