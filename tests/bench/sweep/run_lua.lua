-- Times cases on Tycho, a JSON line for each, as run_py.py does:  tycho run_lua.lua CASES.jsonl THREADS
local threads = tonumber(arg[2])
torch.set_num_threads(threads)
torch.set_fusion(false)  -- results that nobody reads would never be written
local clock = torch.perf_counter

local function decode(s)
  local at = 1
  local value
  local function space() at = s:find("[^ \t\r\n]", at) end
  local escapes = {n = "\n", t = "\t", r = "\r", b = "\b", f = "\f"}
  local function text()
    local close = at + 1
    while s:byte(close) ~= 34 do close = close + (s:byte(close) == 92 and 2 or 1) end
    local raw = s:sub(at + 1, close - 1)
    at = close + 1
    return (raw:gsub("\\u(%x%x%x%x)", function(h) return utf8.char(tonumber(h, 16)) end):gsub("\\(.)", function(c) return escapes[c] or c end))
  end
  function value()
    space()
    local c = s:sub(at, at)
    if c == '"' then return text() end
    if c == "{" or c == "[" then
      local out = {}
      at = at + 1
      space()
      while not s:sub(at, at):find("[%]}]") do
        if c == "{" then
          local key = text()
          space(); at = at + 1
          out[key] = value()
        else out[#out + 1] = value() end
        space()
        if s:sub(at, at) == "," then at = at + 1; space() end
      end
      at = at + 1
      return out
    end
    for word, v in pairs {["true"] = true, ["false"] = false} do
      if s:sub(at, at + #word - 1) == word then at = at + #word; return v end
    end
    if s:sub(at, at + 3) == "null" then at = at + 4; return nil end
    local word = s:match("^[%-%d%.eE+]+", at)
    at = at + #word
    return math.tointeger(word) or tonumber(word)
  end
  return value()
end

local function quote(s)
  return '"' .. s:gsub('[%c"\\\x80-\xff]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

local base = {torch = torch, nn = torch.nn, F = torch.nn.functional, optim = torch.optim, data = torch.utils.data}
function base.MANY(n, shape)
  local out = {}
  for i = 1, n do out[i] = torch.randn(shape) end
  return out
end
function base.PARAMS(n, shape)
  local out = {}
  for i = 1, n do out[i] = torch.randn(shape):requires_grad_() end
  for i = 1, n do out[i].grad = torch.randn(shape) * 0.1 end
  return out
end

local function checksum(outs)
  local sums = {}
  local function add(t)
    if t == nil then return end
    if type(t) == "table" and not torch.is_tensor(t) then
      for _, e in ipairs(t) do add(e) end
      return
    end
    if not torch.is_tensor(t) then t = torch.tensor(t == true and 1.0 or t == false and 0.0 or t + 0.0, {dtype = torch.float64}) end
    t = t:detach()
    local d = t:reshape(-1):to(torch.float64)
    local nan, inf = d:isnan():sum():item(), d:isinf():sum():item()
    if nan > 0 or inf > 0 then d = torch.where(d:isfinite(), d, torch.zeros({}, {dtype = torch.float64})) end
    local w = (torch.arange(d:numel()) % 97):to(torch.float64) * 0.01 + 0.1
    local shape = {}
    for i = 1, t:dim() do shape[i] = ("%d"):format(t:size(i)) end
    sums[#sums + 1] = ('{"shape": [%s], "dtype": "%s", "nan": %d, "inf": %d, "sum": %.17g, "abs": %.17g, "mix": %.17g}'):format(
      table.concat(shape, ", "), tostring(t.dtype), nan, inf, d:sum():item(), d:abs():sum():item(), (d * w):sum():item())
  end
  for i = 1, outs.n do add(outs[i]) end
  return "[" .. table.concat(sums, ", ") .. "]"
end

local function run(c)
  torch.manual_seed(c.seed)
  local env, order = {}, {}
  local space = setmetatable({}, {
    __index = function(_, k) local v = env[k]; if v ~= nil then return v end; v = base[k]; if v ~= nil then return v end; return _G[k] end,
    __newindex = function(_, k, v) if env[k] == nil then order[#order + 1] = k end; env[k] = v end,
  })
  assert(load(c.lua_pre, "=pre", "t", space))()
  local known, heads, values = {}, {"torch", "nn", "F", "optim", "data"}, {torch, torch.nn, torch.nn.functional, torch.optim, torch.utils.data}
  local count = #heads
  for _, k in ipairs(order) do count = count + 1; known[k] = true; heads[count] = k; values[count] = env[k] end
  local src = "local " .. table.concat(heads, ", ") .. " = ...\n"
  local fresh = {}
  for _, k in ipairs(c.assigned) do if not known[k] then fresh[#fresh + 1] = k end end
  src = src .. "return function(n)\n" .. (#fresh > 0 and "local " .. table.concat(fresh, ", ") .. "\n" or "")
  src = src .. "for _ = 1, n do " .. c.lua .. " end\nreturn function() return table.pack(" .. table.concat(c.lua_outs, ", ") .. ") end\nend"
  local f = assert(load(src, "=case"))(table.unpack(values, 1, count))
  env, values = nil, nil
  torch.manual_seed(123)
  local t = clock(); local outs = f(1); local first = clock() - t
  local sums = #c.lua_outs > 0 and checksum(outs()) or "[]"
  outs = nil
  collectgarbage()
  t = clock(); f(1); local one = clock() - t
  local k = math.max(1, 0.03 // math.max(one, 1e-7))
  k = math.floor(k)
  if k > 1 then
    t = clock(); f(k); local total = clock() - t
    if total < 0.015 or total > 0.06 then k = math.floor(math.max(1, k * 0.03 / total)) end
  end
  local best = k == 1 and one or 1e9
  for _ = 1, one < 1 and 5 or 2 do
    t = clock(); f(k); local total = clock() - t
    best = math.min(best, total / k)
  end
  return best, first, k, sums
end

for line in io.lines(arg[1]) do
  local c = decode(line)
  local ok, s, first, k, sums = pcall(run, c)
  if ok then
    print(('{"case": %s, "seconds": %.9g, "first": %.6g, "runs": %d, "checksum": %s}'):format(quote(c.case), s, first, k, sums))
  else
    print(('{"case": %s, "error": %s}'):format(quote(c.case), quote(tostring(s):sub(1, 300))))
  end
  io.stdout:flush()
  collectgarbage()
end
