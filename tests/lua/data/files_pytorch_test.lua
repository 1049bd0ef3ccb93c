-- What PyTorch's programs keep beside plain tensors, as its pickles write it: counters, parameters with attributes,
-- NumPy's values; and what both optimisers and schedules must find in a checkpoint of the other.
local here = (arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/") or "."
local made = dofile(here .. "/data/made_files.lua")

local function load_pickle(pickle, storages, options)
  return torch.load(made.write(check.temp "made.pt", made.pt("\x80\x02" .. pickle, storages)), options)
end
local function text(s) return "X" .. ("<I4"):pack(#s) .. s end
local function storage(key, kind, count) return "(" .. text "storage" .. "ctorch\n" .. kind .. "Storage\n" .. text(key) .. text "cpu" .. "K" .. string.char(count) .. "tQ" end
-- A vector of n elements; what else the function takes stands in `more`.
local function vector(key, kind, n, more)
  return "(" .. storage(key, kind, n) .. "K\0K" .. string.char(n) .. "\x85K\1\x85\x89ccollections\nOrderedDict\n)R" .. (more or "") .. "t"
end
local three = ("<fff"):pack(1, 2, 3)
local make = "ctorch._utils\n_rebuild_tensor_v2\n"

test("Python's counters and dicts with a default come back as tables", function()
  check.equal(load_pickle "ccollections\nCounter\n}(K\3K\1K\5K\2u\x85R.", {[3] = 1, [5] = 2})
  check.equal(load_pickle("ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R" .. text "a" .. "]K\1as."), {a = {1}})
  check.equal(load_pickle("ctorch.torch_version\nTorchVersion\n" .. text "2.15.0" .. "\x85\x81."), "2.15.0")
end)

test("tensors and parameters with attributes of their own come back without them", function()
  local attributes = "}" .. text "foo" .. "K\5s"
  local x = load_pickle("ctorch._tensor\n_rebuild_from_type_v2\n(" .. make .. "ctorch\nTensor\n" .. vector("0", "Float", 3) .. attributes .. "tR.", {["0"] = three})
  check.equal(x, {1, 2, 3})
  local p = load_pickle("ctorch._utils\n_rebuild_parameter_with_state\n(" .. make .. vector("0", "Float", 3) .. "R\x88ccollections\nOrderedDict\n)R" .. attributes .. "tR.",
    {["0"] = three})
  check.equal(torch.nn._is_parameter(p), true)
  check.equal(p:detach(), {1, 2, 3})
end)

test("NumPy's numbers are numbers, and its arrays tensors", function()
  local function dtype(name, order) return "cnumpy\ndtype\n" .. text(name) .. "\x89\x88\x87R(K\3" .. text(order) .. "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb" end
  -- Bytes, as protocol 2 writes them: the text of their code points.
  local function bytes(s)
    local wide = {}
    for k = 1, #s do wide[k] = utf8.char(s:byte(k)) end
    return "c_codecs\nencode\n" .. text(table.concat(wide)) .. text "latin1" .. "\x86R"
  end
  local function scalar(name, order, s) return load_pickle("cnumpy._core.multiarray\nscalar\n" .. dtype(name, order) .. bytes(s) .. "\x86R.") end
  check.equal(scalar("f8", "<", ("<d"):pack(2.5)), 2.5)
  check.equal(scalar("f4", ">", (">f"):pack(1.5)), 1.5)
  check.equal(scalar("i8", "<", ("<i8"):pack(-7)), -7)
  check.equal(scalar("b1", "|", "\1"), true)
  check.equal(scalar("u2", "<", "\xff\xff"), 65535)
  check.equal(scalar("u4", ">", "\xff\xff\xff\xfe"), 4294967294)
  check.equal(scalar("u8", "<", ("<i8"):pack(12)), 12)
  check.raises("io", "too large for int64", scalar, "u8", "<", ("\xff"):rep(8))
  check.raises("io", "wrong size", scalar, "f8", "<", "abc")
  check.raises("io", "complex128", scalar, "c16", "<", ("x"):rep(16))
  local function array(shape, name, order, fortran, s)
    return load_pickle("cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" .. bytes "b" .. "\x87R(K\1" .. shape .. dtype(name, order) ..
      (fortran and "\x88" or "\x89") .. bytes(s) .. "tb.")
  end
  local six = "K\2K\3\x86"
  check.equal(array(six, "i4", "<", false, ("<i4i4i4i4i4i4"):pack(0, 1, 2, 3, 4, 5)), torch.arange(6):int():view(2, 3))
  check.equal(array(six, "i4", "<", true, ("<i4i4i4i4i4i4"):pack(0, 3, 1, 4, 2, 5)), torch.arange(6):int():view(2, 3))
  check.equal(array(six, "i2", ">", false, (">i2i2i2i2i2i2"):pack(0, 1, 2, 3, 4, 500)), torch.tensor({{0, 1, 2}, {3, 4, 500}}, {dtype = "int16"}))
  check.equal(array("K\2\x85", "u4", "<", false, ("<I4I4"):pack(1, 0xffffffff)), torch.tensor{1, 0xffffffff})
  check.equal(array("K\0\x85", "f4", "<", false, ""), torch.zeros(0))
  check.raises("io", "wrong size", array, six, "i4", "<", false, "1234")
  -- One text of 1 MB as the elements of 10,000 arrays.
  local many = "](" .. dtype("i1", "|") .. "q\1" .. bytes(("x"):rep(1 << 20)) .. "q\0" ..
    ("cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85N\x87R(K\1J\0\0\16\0\x85h\1\x89h\0tb"):rep(10000) .. "e."
  check.raises("io", "copies more", load_pickle, many)
  check.raises("io", "shape [-1]", array, "J\xff\xff\xff\xff\x85", "i4", "<", false, "")
end)

test("tensors that are not here are named, with what to do in PyTorch", function()
  local function refuses(pickle, words, hint)
    local err = check.raises("io", words, load_pickle, pickle, {["0"] = three})
    check.contains(err.hint, hint)
  end
  refuses("ctorch._utils\n_rebuild_sparse_tensor\n.", "a sparse tensor", "to_dense()")
  refuses("ctorch._utils\n_rebuild_qtensor\n.", "a quantised tensor", "dequantize()")
  refuses("ctorch._utils\n_rebuild_meta_tensor_no_storage\n.", "without values", "empty_like")
  refuses(make .. vector("0", "Float", 3, "}" .. text "neg" .. "\x88s") .. "R.", "negated", "resolve_neg()")
  local jit = made.zip {{"a/data.pkl", "\x80\x02K\1."}, {"a/constants.pkl", "\x80\x02).\n"}}
  local err = check.raises("io", "TorchScript", torch.load, made.write(check.temp "jit.pt", jit))
  check.contains(err.hint, "state_dict()")
end)

test("a dict of numbers from 1 stays a dict when it is saved again", function()
  local counts = load_pickle "}(K\1K\7K\2K\x08u."
  check.equal(counts, {7, 8})
  local path = check.temp "again.pt"
  torch.save({counts = counts, list = {7, 8}}, path)
  local bytes = made.read(path)
  local pickle = bytes:sub(bytes:find("\x80\x02", 1, true), bytes:find("PK\3\4", 10, true) - 1)
  check.equal(select(2, pickle:gsub("}", "")), 2)  -- the outer one and the counts
  check.equal(select(2, pickle:gsub("%]", "")), 1)
  counts[5] = 1
  torch.save(counts, path)
  check.equal(torch.load(path), {7, 8, [5] = 1})
end)

test("map_location as a function sees the elements and where they were", function()
  local seen = {}
  local x = load_pickle(make .. vector("0", "Float", 3) .. "R.", {["0"] = three}, {map_location = function(bytes, saved_on)
    seen = {bytes.dtype, bytes:numel(), saved_on}
    return bytes
  end})
  check.equal(x, {1, 2, 3})
  check.equal(seen, {torch.uint8, 12, "cpu"})
  check.equal(load_pickle(make .. vector("0", "Float", 3) .. "R.", {["0"] = three}, function() end), {1, 2, 3})
  check.raises("argument", "is no device", load_pickle, make .. vector("0", "Float", 3) .. "R.", {["0"] = three}, function() return true end)
  check.raises(nil, "my own error", load_pickle, make .. vector("0", "Float", 3) .. "R.", {["0"] = three}, function() error "my own error" end)
end)

test("schedules keep their state as PyTorch does, and take over its own", function()
  local schedules = torch.optim.lr_scheduler
  local function optimizer() return torch.optim.SGD({torch.nn.Parameter(torch.ones(2))}, {lr = 0.1}) end
  local path = check.temp "schedule.pt"
  local s = schedules.MultiStepLR(optimizer(), {1, 2, 2, 6})
  torch.save(s:state_dict(), path)
  local saved = torch.load(path)
  check.equal(saved.milestones, {[1] = 1, [2] = 2, [6] = 1})
  local other = schedules.MultiStepLR(optimizer(), {9})
  other:load_state_dict(saved)
  check.equal(other.milestones, {1, 2, 2, 6})
  other:load_state_dict {milestones = {3, 5}, last_epoch = 2}  -- of an older Tycho
  check.equal(other.milestones, {3, 5})
  check.equal(schedules.LambdaLR(optimizer(), function() return 1 end):state_dict().lr_lambdas, {torch.none})
  check.equal(schedules.CyclicLR(optimizer(), 0.01, 0.1, {cycle_momentum = false}):state_dict()._scale_fn_custom, torch.none)
end)

test("an optimiser's state is a dict by number even where the first parameter has none", function()
  local a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
  local opt = torch.optim.Adam({a, b})
  b:sum():backward()
  opt:step()
  local path = check.temp "adam.pt"
  torch.save(opt:state_dict(), path)
  check.equal(made.read(path):find(text "state" .. "}", 1, true) ~= nil, true)
  local again = torch.optim.Adam({a, b})
  again:load_state_dict(torch.load(path))
  check.equal(again.state[b].step, 1)
  check.equal(torch.optim.LBFGS({a}):state_dict().param_groups[1].line_search_fn, torch.none)
end)
