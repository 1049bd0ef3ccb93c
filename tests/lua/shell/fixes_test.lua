-- Whatever an error suggests must run: random calls of many operations with sizes, types and positions
-- that may not fit, written as code; where a call fails, each of err.fixes is put in its place and run.
local explain = require "torch.explain"
local count = tonumber(os.getenv "TYCHO_FIXES" or "") or 1500
local random, pick = math.random, nil
function pick(list) return list[random(#list)] end

local function sizes(least)
  local s = {}
  for d = 1, random(least or 0, 4) do s[d] = pick {1, 2, 2, 3, 4, 6} end
  return s
end
local made  -- shapes of this program: later ones are often like them
local function tensor(least)
  local s = sizes(least)
  if #made > 0 and random() < 0.6 then
    s = {table.unpack(pick(made))}
    local how = random(5)
    if how == 1 and #s > 0 then table.remove(s, random(#s)) end
    if how == 2 and #s > 1 then s[1], s[#s] = s[#s], s[1] end
    if how == 3 and #s < 4 then table.insert(s, random(#s + 1), pick {1, 2}) end
    if how == 4 and #s > 0 then s[random(#s)] = pick {1, 2, 3, 5} end
    if least and #s < least then s = {2} end
  end
  made[#made + 1] = s
  local shape = "{" .. table.concat(s, ", ") .. "}"
  local text = random() < 0.8 and ("torch.rand(%s)"):format(shape) or ("torch.randint(1, 4, %s)"):format(shape)
  if random() < 0.1 and #s >= 2 then text = text .. ":transpose(1, 2)" end
  if random() < 0.1 and text:find("rand%(") then text = text .. ":requires_grad_()" end
  return text
end
local function number() return tostring(pick {-3, -2, -1, 0, 1, 1, 2, 3, 4, 5}) end
local function list()
  local t = {}
  for k = 1, random(3) do t[k] = pick {-1, 1, 2, 3, 4, 6, 12} end
  return table.concat(t, ", ")
end

-- Forms of calls: X Y Z are tensors in variables, N a number, L a list of numbers.
local forms = {
  "X:matmul(Y)", "torch.matmul(X, Y)", "X:mm(Y)", "X:mv(Y)", "X:dot(Y)", "X:bmm(Y)", "torch.addmm(X, Y, Z)", "F.linear(X, Y)",
  "X + Y", "X - Y", "X * Y", "X / Y", "X ^ Y", "X:add(Y)", "torch.maximum(X, Y)", "torch.where(X:gt(0), X, Y)",
  "X:add_(Y)", "X:mul_(1.5)", "X:copy_(Y)", "X < Y", "X >= N", "X == Y", "X & Y",
  "X:view(L)", "X:reshape(L)", "X:expand(L)", "X:sum(N)", "X:mean(N)", "X:mean()", "X:max(N)", "X:softmax(N)", "X:cumsum(N)",
  "X:transpose(N, N)", "X:squeeze(N)", "X:unsqueeze(N)", "X:flatten(N)", "X:sum{dim=N, keepdims_=true}", "X:argmax{dimm=N}",
  "X[N]", "X[{N, N}]", "X:select(N, N)", "X:narrow(N, N, N)", "X:item()", "X:backward()",
  "torch.cat({X, Y})", "torch.cat({X, Y, Z}, N)", "torch.cat{X, Y, dim=N}", "torch.stack({X, Y})", "torch.stack({X, Y}, N)",
  "F.conv2d(X, Y)", "F.conv1d(X, Y)", "F.max_pool2d(X, 2)", "F.avg_pool2d(X, N)", "F.layer_norm(X, {L})",
  "F.cross_entropy(X, Y)", "F.mse_loss(X, Y)", "F.binary_cross_entropy(X, Y)", "F.nll_loss(X, Y)", "F.embedding(X, Y)",
  "X:masked_fill(Y, 0)", "X:index_select(N, Y)", "X:gather(N, Y)", "X:sofmax(N)", "X.sum()", "X.shpe", "X:relu():matmul(Y:relu())",
  "(X + 1):matmul(-Y)", "torch.relu(X:matmul(Y)) + X:matmul(Z)", "fc(X)", "conv(X)", "norm(X)", "F.batch_norm(X, nil, nil, nil, nil, true)",
}

-- No names that the engine has for its operands.
local variables = {X = "pixels", Y = "goal", Z = "rest"}

local function program()
  made = {}
  local lines, used = {"local F, nn = torch.nn.functional, torch.nn", "local fc, conv, norm = nn.Linear(6, 2), nn.Conv2d(2, 3, 1), nn.BatchNorm1d(2)"}, {}
  local form = pick(forms)
  local call = form:gsub("%f[%w][XYZNL]%f[%W]", function(letter)
    if letter == "N" then return number() end
    if letter == "L" then return list() end
    if not used[letter] then
      used[letter] = true
      lines[#lines + 1] = ("local %s = %s"):format(variables[letter], tensor(form:find "softmax" and 1 or nil))
    end
    return variables[letter]
  end)
  lines[#lines + 1] = "local result = " .. call
  lines[#lines + 1] = "return result"
  return table.concat(lines, "\n"), call
end

-- Names in what a report advises that the program does not have: names of the engine's that stand for the user's.
local words = {}
for w in ("and or not nil true false function end do for in torch F nn"):gmatch "%a+" do words[w] = true end
local function strangers(report, program_text)
  local found = {}
  for line in report:gmatch "[^\n]+" do
    local code = line:match "^%s*try: (.*)$" or line:match "^%s*would fit: (.*)$"
    if code and not code:find "^did you mean" and not code:find "^%l+ %l+ %l" then
      code = code:gsub("%s+%-%-.*$", ""):gsub("%s+%->.*$", ""):gsub('"[^"]*"', '""')
      for first, name, after in code:gmatch "()([%a_][%w_]*)()" do
        local named = code:find("^=[^=]", after) or code:sub(1, first - 1):find "[.:]%s*$"
        if not named and not words[name] and not program_text:find("%f[%w_]" .. name .. "%f[^%w_]") then found[#found + 1] = name .. " in " .. line end
      end
    end
  end
  return found
end

local function run(text) return pcall(assert(load(text, text .. "\n"))) end

test("what errors of random calls suggest runs when it is put in place of the call", function()
  explain.strict = true
  math.randomseed(tonumber(os.getenv "TYCHO_SEED" or "") or 11)
  torch.manual_seed(1)
  local failed, fixed, tried = 0, 0, 0
  for _ = 1, count do
    local text = program()
    local ok, err = run(text)
    if not ok then
      failed = failed + 1
      if type(err) ~= "table" then error(("no error object: %s\n%s"):format(tostring(err), text)) end
      local fine, report = pcall(explain.text, err)
      if not fine then error(("no report: %s\n%s"):format(tostring(report), text)) end
      local other = strangers(explain.report(err) .. "\n" .. report, text)
      if other[1] then error(("%s\nin\n%s"):format(other[1], text)) end
      if #err.fixes > 0 then fixed = fixed + 1 end
      for _, fix in ipairs(err.fixes) do
        tried = tried + 1
        local line = "local result = "
        local before = err.line:sub(1, err.span[1] - 1)
        if before:sub(1, #line) ~= line then error("another line: " .. err.line) end
        local first, last = text:find(err.line, 1, true)
        local changed = text:sub(1, first - 1) .. before .. fix .. err.line:sub(err.span[2] + 1) .. text:sub(last + 1)
        local fits, why = run(changed)
        -- What is wrong elsewhere on the line, or with values that shapes do not show, is another error.
        local values = not fits and type(why) == "table" and (why.kind == "index" and why.op ~= "" or why.message:find "holds probabilities")
        if not fits and not values and not (type(why) == "table" and (why.line or ""):sub(why.span and why.span[1] or 1, why.span and why.span[2] or -1) ~= fix) then
          error(("the suggestion %s does not run: %s\nin\n%s"):format(fix, tostring(why), text))
        end
      end
    end
  end
  explain.strict = nil
  check.yes(failed > count // 4)
  check.yes(fixed > failed // 3)
  if os.getenv "TYCHO_FIXES" then print(failed, fixed, tried) end
end)

test("the examples of %explain run", function()
  local messages = require "torch.messages"
  for code, entry in pairs(messages.codes) do
    check.yes(entry.rule)
    local session = {}
    for line in (entry.example or ""):gmatch("[^\n]+") do
      local f = load("return " .. line:gsub("%-%-.*$", ""), "=example", "t", setmetatable(session, {__index = _G}))
        or load(line, "=example", "t", setmetatable(session, {__index = _G}))
      if not f then
        f = load("return nil, " .. line:gsub("%-%-.*$", ""), "=example", "t", session)
      end
      check.yes(f, code .. ": " .. line)
      local ok, why = pcall(f)
      check.equal(ok or code .. ": " .. line .. ": " .. tostring(why), true)
    end
  end
end)

test("every rule's code has its texts", function()
  for _, kind in ipairs {"shape", "broadcast", "dim", "index", "dtype", "device", "argument", "value", "autograd", "linalg",
    "oom", "io", "distributed", "interrupt"} do
    local rule = require "torch.explain.rules"(kind, "", "")
    check.yes(require("torch.messages").codes[rule.code], kind)
  end
end)

test("an error that anybody has tampered with still has a text", function()
  local _, err = pcall(function() return torch.ones(2, 3) + torch.ones(4) end)
  for _, call in ipairs {"", "S", "S x y\nF\nA 1\nA 1 T\nL\nV\nV a T\nP 1 2", "A 1 T f 1 [] []", "S 99999999 @/dev/null", 7, {}} do
    rawset(err, "_call", call)
    for _, key in ipairs {"operands", "shapes", "code", "line", "span", "fixes"} do rawset(err, key, nil) end
    check.contains(tostring(err), "do not broadcast")
    check.equal(err.code, "SHAPE-2")
    local _ = err.fixes, err.operands, err.span
  end
  rawset(err, "message", nil)
  check.kind_of(tostring(err), "string")
end)

test("an error object holds text and numbers only", function()
  local x, y = torch.ones(2, 3), torch.ones(4)
  local _, err = pcall(function() return x + y end)
  local _ = err.operands, err.shapes, err.code, err.line, err.span, err.fixes
  local function walk(v)
    check.no(type(v) == "userdata" or type(v) == "function")
    if type(v) == "table" then for k, w in pairs(v) do walk(k) walk(w) end end
  end
  walk(err)
  check.equal(err.shapes, {{2, 3}, {4}})
  check.equal(err.operands[1], {name = "x", dtype = "f32", shape = {2, 3}, device = "cpu"})
  check.equal(err.line:sub(err.span[1], err.span[2]), "x + y")
  check.equal(err.nothing, nil)
end)

test("any text can be looked through for expressions", function()
  local source = require "torch.source"
  local file = assert(io.open((arg[0]:match("^(.*)/[^/]*$") or ".") .. "/check.lua"))
  local whole = file:read("a")
  file:close()
  math.randomseed(5)
  local pieces = {"(", ")", "{", "}", "[", "]", '"', "'", "\n", " end ", " function ", " do ", ":", ".", "=", "\0", "\xff", "--[[", "[["}
  for _ = 1, 300 do
    local first = random(#whole)
    local text = whole:sub(first, first + random(2000))
    for _ = 1, random(10) do
      local k = random(#text)
      text = text:sub(1, k - 1) .. pick(pieces) .. text:sub(k + random(0, 2))
    end
    for _, node in ipairs((source.parse(text))) do check.yes(node.first <= node.last and node.last <= #text) end
  end
  for _, text in ipairs {"(", "{", "x(", "function(", "a.", "-", "a^", "x[1]", "do ", "f(function() ", "a:b{", "end ", "function "} do
    source.parse(text:rep(3000))
  end
end)
