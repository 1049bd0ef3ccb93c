-- Random entries: real ones, mutated, and plain noise. Whatever comes, the session says something and
-- goes on. ENTRIES sets how many (2000 unless given), SEED where they begin.
local session = require "shell.session"
local real = getmetatable(_G).__index
local count = tonumber(os.getenv("ENTRIES")) or (os.getenv("TYCHO_SANITIZED") and 20000) or 2000
local seed = tonumber(os.getenv("SEED")) or 1

local seeds = {
  "x = torch.randn(4, 3); x", "local w = torch.ones{3, 4}", "w:size()", "function scale(k) return w * k end", "scale(2)", ":sum()",
  "for i = 1, 3 do x = x + i end", "x:sum(1)", "x + torch.ones(4, 1)", "t = {1, 2, {a = 'b'}, [3.5] = print}", "t", "#t", "_", "__", "_3",
  "x[{1, {2, 3}}]", "x[{{}, 2}] = 7", "torch.arange(10):view(2, 5):t()", "local c <const> = 5", "c = 6", "if x then y = 1 else y = 2 end",
  "net = nn.Linear(3, 2); net", "net(x):sum():backward()", "net.weight.grad", "error('no')", "error({code = 7})", "pcall(error, x)",
  "coroutine.wrap(function() coroutine.yield(x) end)()", "setmetatable({}, {__index = function(_, k) return k end}).abc",
  "setmetatable({}, {__tostring = function() error('x') end})", "string.rep('ab', 10)", "('x'):rep(3):upper()", "goto done do end ::done::",
  "do local a <close> = nil end", "local a, b = 1", "x, y = 1, 2", "return 1, 2, nil", "-- a comment", "--[[ long\n]] 5", "[[long\nstring]]",
  "0x1p4", "1e400", "-1 // 0.0", "x:max(2)", "x.grad", "x.shape[1]", "torch.cat({x, x}, 2)", "x:matmul(x)", "torch.no_grad(function() return x * 2 end)",
  "?matmul", "x?", "??scale", "%who", "%mem", "%time 1 + 1", "%bits 0.1", "%layout x", "%locals off", "%locals on", "%free", "%graph x",
  "[3]> 1 + 1", "> x", "...> y", "= 5", "data.DataLoader", "F.relu(x)", "x == 1", "x < 1", "select('#', x, nil)", "table.unpack({1, 2, 3})",
  "(function(...) return ... end)(1, 2)", "function t.f(self) return self end", "t:f()", "while false do end", "repeat local q = 1 until q", "y = nil; y",
}
local noise = {"(", ")", "{", "}", "[", "]", "end", "do", "then", "function", "local", "=", "==", ",", ";", ".", "..", ":", "::", "<", ">", "'", '"', "[[",
  "--", "--[[", "\n", " ", "\\", "nil", "x", "w", "_", "1", "1e", "0x", "?", "%", "\0", "\27[31m", "\255", "中", "return", "<const>", "<close>", "goto a", "#", "~"}

-- What would end this process, wait for somebody, or change files.
local harmful = {"os%s*%.", "io%s*%.", "!", "%%%s*[elrscdqp]", "%%%s*learn", "%%%s*hist", "debug", "dofile", "require", "load", "collect", "exit", "read", "save"}

math.randomseed(seed)
local function pick(list) return list[math.random(#list)] end
local function mutate(text)
  for _ = 1, math.random(4) do
    local at, kind = math.random(0, #text), math.random(6)
    local to = math.min(#text, at + math.random(0, 6))
    if kind == 1 then
      text = text:sub(1, at) .. pick(noise) .. text:sub(at + 1)
    elseif kind == 2 then
      text = text:sub(1, at) .. text:sub(to + 1)
    elseif kind == 3 then
      text = text:sub(1, to) .. text:sub(at + 1)
    elseif kind == 4 then
      text = text .. pick {"\n", "; ", " ", ""} .. pick(seeds)
    elseif kind == 5 then
      text = text:sub(1, at) .. string.char(math.random(0, 255)) .. text:sub(at + 2)
    else
      text = text:sub(1, at)
    end
  end
  return text
end

local function random_entry()
  if math.random(10) == 1 then
    local parts = {}
    for i = 1, math.random(12) do parts[i] = pick(noise) end
    return table.concat(parts, pick {"", " "})
  end
  local text = pick(seeds)
  return math.random(3) == 1 and text or mutate(text)
end

local function is_harmful(text)
  for _, pattern in ipairs(harmful) do
    if text:find(pattern) then return true end
  end
  return false
end

test(("%d random entries from seed %d neither stop the session nor stay in it"):format(count, seed), function()
  local said = 0
  session.say = function(text) said = said + #text end
  session.complain = function(text)
    said = said + #text
    check.lacks(text, "shell/session.lua")
    check.lacks(text, "shell/entry.lua")
  end
  local write = real.io.write
  local print_before = real.print
  real.io.write, real.print = function() return io.stdout end, function() end
  local indent, last = require "shell.indent", nil
  -- What an entry like `string.rep = 13` breaks is broken for the prompt too; the next entry starts whole.
  local libraries = {}
  for _, library in ipairs {real.string, real.table, real.math, real.utf8, real.coroutine} do
    local whole = {}
    for name, value in pairs(library) do whole[name] = value end
    libraries[library] = whole
  end
  local function restore()
    for library, whole in next, libraries do
      for name, value in next, whole do rawset(library, name, value) end
    end
  end
  local function too_long() error("too long", 0) end
  local ok, why = pcall(function()
    for i = 1, count do
      local text = random_entry()
      if not is_harmful(text) then
        last = text
        indent(text, math.random(0, #text))
        session.is_done(text)
        local number = session.number
        debug.sethook(too_long, "", 3000000)
        session.run(text)
        debug.sethook()
        restore()
        check.yes(session.number >= number and session.number <= number + 20)
        session.mode = nil
        if i % 50 == 0 then
          check.yes(session.run("1 + 1"))
          for name in pairs(real) do  -- variables are not what is tested
            if #name == 1 and name ~= "_" then real[name] = nil end
          end
          real.x = torch.randn(4, 3)
        end
      end
    end
  end)
  debug.sethook()
  real.io.write, real.print = write, print_before
  if not ok then error(("%s\n  after the entry %q"):format(tostring(why), last), 0) end
  check.yes(said > 0)
end)
