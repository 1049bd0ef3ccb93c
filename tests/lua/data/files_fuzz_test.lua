-- Damaged files of every format give values or errors that name the file, never more. 4,000 files; more by
--   tycho tests/lua/run.lua tests/lua/data/files_fuzz_test.lua --cases 100000 --seed 7
-- A failure leaves the file under the name that it prints.
local here = (arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/") or "."
local made = dofile(here .. "/data/made_files.lua")
local read, write = made.read, made.write
local options = check.options or {}
local cases, random = options.cases or 4000, (options.seed or 1) * 12345

local function below(n)
  random = random * 6364136223846793005 + 1442695040888963407
  return (random >> 33) % n
end

local function text(s) return "X" .. ("<I4"):pack(#s) .. s end

-- Numbers that break arithmetic, in place of four or eight bytes.
local sharp = {0, 1, 255, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, -1, math.mininteger, 1 << 32, 1 << 60}

-- Words of texts (headers of safetensors and .npy) that make others of them.
local words = {"-1", "99999999999999999999", "9223372036854775807", "[]", "{}", "null", "1e9", "'", '"', "\\u0000", "F64", ">f8", "True", "(", ","}

local function mutate(s)
  for _ = 0, below(3) do
    local at, kind = below(#s) + 1, below(9)
    if kind == 0 then
      s = s:sub(1, at - 1) .. string.char(below(256)) .. s:sub(at + 1)
    elseif kind == 1 then
      s = s:sub(1, at - 1) .. string.char(s:byte(at) ~ (1 << below(8))) .. s:sub(at + 1)
    elseif kind == 2 then
      s = s:sub(1, at)
    elseif kind == 3 then
      s = s:sub(1, at - 1) .. s:sub(at + below(8))
    elseif kind == 4 then
      local from = below(#s) + 1
      s = s:sub(1, at - 1) .. s:sub(from, from + below(16)) .. s:sub(at)
    elseif kind == 5 then
      s = s:sub(1, at - 1) .. ("<i8"):pack(sharp[below(#sharp) + 1]):sub(1, below(2) == 0 and 4 or 8) .. s:sub(at + (below(2) == 0 and 4 or 8))
    elseif kind == 6 then
      s = s:sub(1, at - 1) .. words[below(#words) + 1] .. s:sub(at + below(4))
    elseif kind == 7 then
      local from, n = below(#s) + 1, below(40)
      s = s:sub(1, at - 1) .. s:sub(from, from + n) .. s:sub(at + n + 1)
    else
      s = s:sub(1, at - 1) .. s:sub(at, at + below(8)):rep(below(30)) .. s:sub(at)
    end
    if #s == 0 then return "\0" end
  end
  return s
end

local function saved(value, name)
  local path = check.temp("seed." .. name)
  torch.save(value, path)
  return read(path)
end

-- Seeds: the ending, the bytes, and whether they are a pickle that goes into a .pt file (so that no checksum stands
-- before it).
local seeds = {}
do
  local nn, base = torch.nn, torch.randn(3, 4)
  local net = {net = nn.Linear(4, 3):state_dict(), view = base.T, base = base, epoch = 3, list = {1, 2.5, {"x"}}, p = nn.Parameter(base)}
  local mixed = {1, {a = {b = torch.arange(5)}}, "text", torch.none, flags = base:gt(0), half = base:half(), dtype = torch.int8, device = torch.device "cpu"}
  seeds[1], seeds[2] = {"pt", saved(net, "pt")}, {"pt", saved(mixed, "pt")}
  for i = 1, 2 do
    local bytes = seeds[i][2]
    local at = bytes:find("\x80\x02", 1, true)
    seeds[i + 2] = {"pt", bytes:sub(at, bytes:find("PK\3\4", at, true) - 1), pickle = true}
  end
  local types = "cnumpy\ndtype\n" .. text "f8" .. "\x89\x88\x87R(K\3" .. text "<" .. "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tbq\1"
  local function bytes(s) return "c_codecs\nencode\n" .. text(s) .. text "latin1" .. "\x86R" end
  seeds[5] = {"pt", "\x80\x02](" .. types .. "0cnumpy._core.multiarray\nscalar\nh\1" .. bytes(("\0"):rep(8)) .. "\x86R" ..
    "cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" .. bytes "b" .. "\x87R(K\1K\2K\1\x86h\1\x88" .. bytes(("\0"):rep(16)) .. "tb" ..
    "ccollections\nCounter\n}(K\3K\1K\5K\2u\x85Rccollections\ndefaultdict\nc__builtin__\nlist\n\x85R" .. text "a" .. "]K\1ase.", pickle = true}
  seeds[6] = {"pt", made.legacy("\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" .. text "storage" .. "ctorch\nFloatStorage\n" .. text "0" .. text "cpu" ..
    "K\6NtQK\0K\2K\3\x86K\3K\1\x86\x89ccollections\nOrderedDict\n)RtR.", {["0"] = ("<ffffff"):pack(0, 1, 2, 3, 4, 5)}, 4)}
  seeds[7] = {"npz", saved({a = base, b = torch.arange(4), c = base:gt(0)}, "npz")}
  seeds[8] = {"npz", made.zip({{"x.npy", made.deflated, method = 8, size = made.deflated_size}})}
  seeds[9] = {"npy", saved(base, "npy")}
  seeds[10] = {"npy", "\x93NUMPY\2\0" .. ("<I4s2"):pack(66, ""):sub(1, 4) .. "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3), }        \n" .. ("\0"):rep(24)}
  seeds[11] = {"safetensors", saved({["fc.weight"] = base, flags = base:gt(0), n = torch.arange(3), h = base:bfloat16()}, "safetensors")}
  local hex = ("{S1:a{I1;I5;I2;D0.5;}S1:bTS1:tX0;}"):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  local header = ([[{"__metadata__":{"tycho.checkpoint":"%s"},"0":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}]]):format(hex)
  seeds[12] = {"pt", ("<I8"):pack(#header) .. header .. ("<ff"):pack(1.5, 2)}
  -- Files that are large enough to be mapped; only their first and last parts are changed.
  local large = torch.zeros(300000)
  seeds[13] = {"safetensors", saved({large = large, small = base}, "safetensors"), large = true}
  seeds[14] = {"pt", saved({large = large, small = base}, "pt"), large = true}
end

test("what the damaged files are made from can be read", function()
  for _, seed in ipairs(seeds) do
    torch.load(write(check.temp("whole." .. seed[1]), seed.pickle and made.pt(seed[2], {["0"] = ("\0"):rep(64), ["1"] = ("\0"):rep(64), ["2"] = ("\0"):rep(64)}) or seed[2]))
  end
end)

test("damaged files of every format give values or io errors, never more", function()
  local storages = {["0"] = ("\0"):rep(64), ["1"] = ("\0"):rep(64), ["2"] = ("\0"):rep(64)}
  local raised = 0
  torch.reset_peak_memory_stats()
  for i = 1, cases do
    local seed = seeds[i % 100 == 0 and 13 + below(2) or below(12) + 1]
    local bytes = seed[2]
    if seed.large then
      bytes = below(2) == 0 and mutate(bytes:sub(1, 400)) .. bytes:sub(401) or bytes:sub(1, -1001) .. mutate(bytes:sub(-1000))
    else
      bytes = mutate(bytes)
    end
    if seed.pickle then bytes = made.pt(bytes, storages) end
    local name = "fuzzed." .. seed[1]
    local ok, err = pcall(torch.load, write(check.temp(name), bytes), {mmap = below(2) == 0})
    if not ok then
      raised = raised + 1
      if type(err) ~= "table" or (err.kind ~= "io" and err.kind ~= "device") then
        error(("case %d: %s\n%s"):format(i, tostring(err), os.rename(check.temp(name), "/tmp/" .. name) and "/tmp/" .. name or ""), 0)
      end
      check.contains(err.message, name)
    elseif type(err) == "table" then
      for _, v in pairs(err) do
        if torch.is_tensor(v) and v:numel() > 0 and v:numel() < 1000000 then v:float():sum() end  -- every element is there
      end
    elseif torch.is_tensor(err) and err:numel() < 1000000 then
      err:float():sum()
    end
  end
  check.yes(raised > cases // 3, raised)
  -- No claim of a file of a few kB takes much memory before it is found out.
  check.yes(torch.max_memory_allocated() < 100e6, torch.max_memory_allocated())
end)
