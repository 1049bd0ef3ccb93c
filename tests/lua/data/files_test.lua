-- torch.save and torch.load: PyTorch's .pt files both ways, .npz, older checkpoints, and what
-- hostile files do. What PyTorch's own values become stands in files_pytorch_test.lua, damaged files in
-- files_fuzz_test.lua, mapped ones in files_mapped_test.lua.
local nn = torch.nn

local here = (arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/") or "."
local made = dofile(here .. "/data/made_files.lua")
local read, write, zip, pt = made.read, made.write, made.zip, made.pt

local function load_bytes(bytes) return torch.load(write(check.temp "made.pt", bytes)) end

test("tables, numbers, strings and tensors come back from a .pt file as they were", function()
  local path = check.temp "mixed.pt"
  local state = {
    epoch = 3, lr = 0.5, name = "grüße", bytes = "\xff\0a", big = 1 << 40, least = math.mininteger, inf = 1 / 0,
    list = {1, 2.5, "x", true, {false}}, [-3] = "three", empty = {}, dtype = torch.bfloat16, device = torch.device "cpu",
    fc = {weight = torch.randn(3, 4)}, none = torch.zeros(0, 3), number = torch.tensor(2.5),
  }
  torch.save(state, path)
  local back = torch.load(path)
  check.equal(back, state)
  check.kind_of(back.lr, "float")
  check.kind_of(back.epoch, "integer")
  for _, value in ipairs {42, "text", true, 1.5, torch.arange(3)} do
    torch.save(value, path)
    check.equal(torch.load(path), value)
  end
  torch.save(nil, path)
  check.equal(torch.load(path), torch.none)
end)

test("every dtype keeps its values in .pt", function()
  local path = check.temp "dtypes.pt"
  local all = {}
  for _, dtype in ipairs {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"} do
    all[dtype] = torch.arange(6):to(dtype):view(2, 3)
  end
  torch.save(all, path)
  check.equal(torch.load(path), all)
end)

test("views share their storage after loading, with their strides and offsets", function()
  local path = check.temp "views.pt"
  local base = torch.arange(12):float():view(3, 4)
  torch.save({base = base, t = base.T, row = base[2], wide = base[{{}, 1}]:unsqueeze(2):expand(3, 5), same = base}, path)
  local back = torch.load(path)
  check.equal(rawequal(back.base, back.same), true)
  check.equal({table.unpack(back.t:stride())}, {1, 4})
  check.equal(back.row:storage_offset(), 4)
  check.equal({table.unpack(back.wide:stride())}, {4, 0})
  back.base:fill_(7)
  check.equal(back.row, {7, 7, 7, 7})
  check.equal(back.t, torch.full({4, 3}, 7.0))
  check.equal(back.wide, torch.full({3, 5}, 7.0))
  -- Twice the storage would show in the file's size.
  check.yes(#read(path) < 2500)
end)

test("gradients' flags and parameters are kept", function()
  local path = check.temp "grad.pt"
  torch.save({w = torch.ones(2, {requires_grad = true}), p = nn.Parameter(torch.ones(2)), f = nn.Parameter(torch.ones(2), false),
    plain = torch.ones(2), computed = torch.ones(2, {requires_grad = true}) * 2}, path)
  local back = torch.load(path)
  check.equal({back.w.requires_grad, back.p.requires_grad, back.f.requires_grad, back.plain.requires_grad}, {true, true, false, false})
  check.equal({nn._is_parameter(back.w), nn._is_parameter(back.p), nn._is_parameter(back.f)}, {false, true, true})
  check.equal({back.computed.requires_grad, back.computed.is_leaf}, {true, true})
end)

test("one table in two places is one table after loading, and None is torch.none in a list", function()
  local path = check.temp "shared.pt"
  local one = {1, 2}
  torch.save({a = one, b = one, list = {1, torch.none, 3}, gone = torch.none}, path)
  local back = torch.load(path)
  check.equal(rawequal(back.a, back.b), true)
  check.equal(back.list[2], torch.none)
  check.equal(#back.list, 3)
  check.equal(back.gone, nil)
end)

test("map_location says where tensors go", function()
  local path = check.temp "devices.pt"
  local r = check.tycho({"-e", ([[
    local path = %q
    local base = torch.arange(4, {device = "cuda:1"})
    torch.save({x = base, y = base[{{2, 3}}], z = torch.ones(2)}, path)
    local function where(...) local t = torch.load(path, ...) return tostring(t.x.device) .. " " .. tostring(t.z.device) end
    print(where()) print(where{map_location = "cpu"}) print(where "cuda:0") print(where{map_location = {["cuda:1"] = "cuda:0"}})
    local t = torch.load(path)
    t.x:fill_(5) print(t.y:sum():item())
    print(pcall(torch.load, path, {map_location = "moon"}))
  ]]):format(path)}, {env = {TYCHO_SIMULATE_CUDA = "2"}})
  check.contains(r.out, "cuda:1 cpu\ncpu cpu\ncuda:0 cuda:0\ncuda:0 cpu\n10\nfalse")
  r = check.tycho({"-e", ("print(pcall(torch.load, %q))"):format(path)}, {env = {TYCHO_SIMULATE_CUDA = "1"}})
  check.contains(r.out, "cuda:1, which is not here; say where they go")
  check.equal(torch.load(path, "cpu").x, {0, 1, 2, 3})
end)

test("npz files keep named arrays, and number a list as NumPy does", function()
  local path = check.temp "arrays.npz"
  local a, b = torch.randn(2, 3), torch.arange(4)
  torch.save({a = a, b = b.T}, path)
  check.equal(torch.load(path), {a = a, b = b})
  torch.save({a, b}, path)
  check.equal(torch.load(path), {arr_0 = a, arr_1 = b})
  torch.save(a, path)
  check.equal(torch.load(path), {arr_0 = a})
  check.raises("argument", "table of named tensors", torch.save, {a = 1}, path)
  check.raises("io", "NumPy has no such type", torch.save, {a = a:bfloat16()}, path)
  check.equal(torch.load(path), {arr_0 = a})
end)

test("a file without a known ending is read by its content", function()
  local path = check.temp "whatever.bin"
  torch.save({x = 1}, path)
  check.equal(torch.load(path), {x = 1})
  local npy = check.temp "x.npy"
  torch.save(torch.arange(3), npy)
  check.equal(torch.load(write(path, read(npy))), {0, 1, 2})
end)

test("IDX arrays load by their content, and what is no known format is told with the endings that there are", function()
  check.equal(load_bytes("\0\0\8\2" .. (">I4I4"):pack(2, 2) .. "\1\2\3\4"), torch.tensor({{1, 2}, {3, 4}}, {dtype = torch.uint8}))
  check.raises("io", "is no file of PyTorch (nor .safetensors, .npy or .npz)", load_bytes, "neither")
  check.raises("io", "is empty", load_bytes, "")
end)

test("a checkpoint of the format before is still read", function()
  local text = "{S1:a{I1;I5;I2;D0.5;}S1:bTS1:tX0;}"
  local hex = text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  local header = ([[{"__metadata__":{"tycho.checkpoint":"%s"},"0":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}]]):format(hex)
  header = header .. (" "):rep(-#header % 8)
  local path = write(check.temp "old.pt", ("<I8"):pack(#header) .. header .. ("<ff"):pack(1.5, 2))
  check.equal(torch.load(path), {a = {5, 0.5}, b = true, t = torch.tensor {1.5, 2}})
end)

test("what is no data cannot be saved, and says so", function()
  local path = check.temp "never.pt"
  check.raises("argument", "a function cannot be saved", torch.save, {a = print}, path)
  check.raises("argument", "key of a table", torch.save, {[print] = 1}, path)
  local own = {}
  own.own = {own}
  check.raises("argument", "hold themselves", torch.save, own, path)
  local err = check.raises("argument", "module", torch.save, {net = nn.Linear(2, 2)}, path)
  check.contains(err.hint, "state_dict")
  check.equal(io.open(path), nil)
end)

test("classes and functions in a pickle are named and never called", function()
  local err = check.raises("io", "posix.system", load_bytes, pt "\x80\x02cposix\nsystem\nX\4\0\0\0true\x85R.")
  check.contains(err.message, "made.pt")
  check.contains(err.hint, "state_dict")
  check.raises("io", "__main__.Net", load_bytes, pt "\x80\x02c__main__\nNet\n)\x81}b.")
  check.raises("io", "builtins.eval", load_bytes, pt "\x80\x04X\8\0\0\0builtinsX\4\0\0\0eval\x93.")
  check.raises("io", "ComplexFloatStorage", load_bytes, pt "\x80\x02ctorch\nComplexFloatStorage\n.")
  check.raises("io", "opcode 0x69", load_bytes, pt "\x80\x02(ios\nsystem\n.")
end)

test("pickles that do not fit together are io errors", function()
  for _, case in ipairs {
    {"ends too early", "\x80\x02]"}, {"ends too early", "\x80\x02X\255\255\255\255abc."}, {"not there", "\x80\x02a."},
    {"never kept", "\x80\x02h\7."}, {"a mark", "\x80\x02u."}, {"another kind", "\x80\x02]}K\1a."}, {"no value", "\x80\x02}(K\1u."},
    {"key that no table", "\x80\x02}NK\1s."}, {"hold themselves", "\x80\x02]q\0h\0a."}, {"more than one", "\x80\x02K\1K\2."},
    {"deeper than", "\x80\x02" .. ("]"):rep(5000) .. ("a"):rep(4999) .. "."}, {"version", "\x80\x09N."}, {"no function", "\x80\x02K\1)R."},
    {"class collections.OrderedDict itself", "\x80\x02ccollections\nOrderedDict\n."}, {"cannot be read", "\x80\x02I12x\n."},
  } do check.raises("io", case[1], load_bytes, pt(case[2])) end
  -- A tree whose branches share everything: small here as there.
  local bomb = "\x80\x02]q\0" .. ("0(h\0h\0h\0h\0lq\0"):rep(100) .. "."
  check.yes(type(load_bytes(pt(bomb))) == "table")
end)

test("pickles that copy one value many times do not fill the memory", function()
  local list = "](" .. ("K\1"):rep(1000) .. "e"
  local sets = "\x80\x02cbuiltins\nset\nq\0" .. list .. "\x85q\1" .. ("00h\0h\1R"):rep(10)
  check.raises("io", "copies more", load_bytes, pt("\x80\x02K\1K\1" .. sets:sub(3) .. "."))
  check.raises("io", "impossible number", load_bytes, pt "\x80\x02K\1r\255\255\255\127.")
  -- A text of 1 MB in 100,000 places; as copies they would be 100 GB.
  local text = ("x"):rep(1 << 20)
  local back = load_bytes(pt("\x80\x02](X" .. ("<I4"):pack(#text) .. text .. "q\0" .. ("h\0"):rep(100000) .. "e."))
  check.equal(#back, 100001)
  check.equal(back[100001], text)
end)

test("tensors must lie within storages that are there", function()
  local function tensor(offset, size, stride, numel)
    return ("\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0%sX\3\0\0\0cpuJ%stQJ%s(J%st(J%st\x89)tR."):format(
      "0", ("<i4"):pack(numel or 4), ("<i4"):pack(offset), ("<i4"):pack(size), ("<i4"):pack(stride))
  end
  local four = ("<ffff"):pack(1, 2, 3, 4)
  check.equal(load_bytes(pt(tensor(1, 3, 1), {["0"] = four})), {2, 3, 4})
  check.equal(load_bytes(pt(tensor(2, 2, 0), {["0"] = four})), {3, 3})
  check.raises("io", "over the end", load_bytes, pt(tensor(2, 3, 1), {["0"] = four}))
  check.raises("io", "over the end", load_bytes, pt(tensor(-1, 3, 1), {["0"] = four}))
  check.raises("io", "over the end", load_bytes, pt(tensor(3, 2, -1), {["0"] = four}))
  check.raises("io", "over the end", load_bytes, pt(tensor(0, 2147483647, 2147483647), {["0"] = four}))
  check.raises("io", "shape [-3]", load_bytes, pt(tensor(0, -3, 1), {["0"] = four}))
  check.raises("io", "missing", load_bytes, pt(tensor(0, 4, 1), {}))
  check.raises("io", "fewer than", load_bytes, pt(tensor(0, 4, 1, 2147483647), {["0"] = four}))
end)

test("archives that do not fit together are io errors", function()
  local two = {{"a/data.pkl", "\x80\x02K\1."}, {"a/x", ("y"):rep(100)}}
  check.equal(load_bytes(zip(two)), 1)
  local function with(change) return zip(two, function(r, i) if i == 2 then change(r) end end) end
  check.raises("io", "overlap", load_bytes, with(function(r) r.at = 0 end))
  check.raises("io", "overlap", load_bytes, zip(two, function(r, i) if i == 1 then r.packed, r.size = 60, 60 end end))
  check.raises("io", "outside the file", load_bytes, with(function(r) r.packed, r.size = 1 << 30, 1 << 30 end))
  check.raises("io", "outside the file", load_bytes, with(function(r) r.at = 1 << 30 end))
  check.raises("io", "two sizes", load_bytes, with(function(r) r.size = 1 end))
  check.raises("io", "method 12", load_bytes, with(function(r) r.method = 12 end))
  check.raises("io", "two entries", load_bytes, with(function(r) r.name = "a/data.pkl" end))
  check.raises("io", "gives a wrong size", load_bytes, with(function(r) r.method, r.size = 8, 1 << 31 end))
  check.raises("io", "no data.pkl", load_bytes, zip {{"b", ""}})
  check.raises("io", "cannot be unpacked", load_bytes, zip {{"a/data.pkl", "\x80\x02K\1.", method = 8, size = 10}})
  -- Entries that say they unpack to 100 GiB all together.
  local bombs = {}
  for i = 1, 100 do bombs[i] = {"b" .. i, ("z"):rep(1 << 20), method = 8, size = 1 << 30} end
  check.raises("io", "zip bomb", load_bytes, zip(bombs))
end)

-- A tycho that saves or loads over and over until it is interrupted; gives what it prints.
local function interrupted(path, body)
  return check.tycho({"-e", ([[
    local path = %q
    local stat <close> = io.open "/proc/self/stat"
    local pid = stat:read "n"
    local function files()  -- without a pipe of its own
      os.execute("ls /proc/" .. pid .. "/fd > " .. path .. ".list")
      local list <close> = io.open(path .. ".list")
      os.remove(path .. ".list")
      return select(2, list:read "a":gsub("\n", ""))
    end
    local x = torch.arange(3000000)
    torch.save(x, path)
    local function once() %s end
    local before = files()
    os.execute("(sleep 0.1; kill -INT " .. pid .. ") &")
    print(torch.until_interrupt(function() while true do once() end end))
    print("files", files() - before)
    collectgarbage() collectgarbage()
    print("kept", torch.equal(torch.load(path), x))
  ]]):format(path, body)})
end

test("Ctrl-C while a file is saved leaves the old one or the new one, and nothing beside it", function()
  local path = check.temp "stopped.pt"
  local r = interrupted(path, "torch.save(x, path)")
  check.contains(r.out, "false")
  check.contains(r.out, "files\t0\nkept\ttrue")
  local pipe = io.popen("ls " .. path .. "*")
  local left = pipe:read "a"
  pipe:close()
  check.equal(left, path .. "\n")
end)

test("Ctrl-C while a file is loaded leaves nothing open", function()
  local path = check.temp "stopped.pt"
  local r = interrupted(path, "torch.load(path)")
  check.contains(r.out, "false")
  check.contains(r.out, "files\t0\nkept\ttrue")
end)

test("tables from files, and states, give their names in the file's order, also when they are saved again", function()
  local function names(t)
    local out = {}
    for k in pairs(t) do out[#out + 1] = k end
    return table.concat(out, " ")
  end
  local net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
  local right = "0.weight 0.bias 1.weight 1.bias 1.running_mean 1.running_var 1.num_batches_tracked"
  check.equal(names(net:state_dict()), right)
  for _, ending in ipairs {".pt", ".safetensors"} do
    local path = check.temp("ordered" .. ending)
    torch.save(net:state_dict(), path)
    local state = torch.load(path)
    check.equal(names(state), right)
    check.equal(getmetatable(state), nil)
    torch.save(state, path)
    check.equal(names(torch.load(path)), right)
    state["0.bias"], state.more = nil, torch.ones(1)
    check.equal(names(state), right:gsub(" 0.bias", "") .. " more")
    local seen = {}
    for k in pairs(state) do state[k], seen[#seen + 1] = nil, k end
    check.equal({#seen, next(state)}, {7})
  end
end)
