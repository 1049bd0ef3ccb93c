-- Completion, argument hints and colours while typing, as functions of the text.
local complete, hint = require "shell.complete", require "shell.hint"
local highlight = require "shell.highlight"
local globals = load "return _G"()

local function texts(left)
  local first, list = complete(left, #left)
  local out = {}
  for i, c in ipairs(list) do out[i] = c.text end
  return out, first, list
end
local function has(list, text)
  for _, each in ipairs(list) do
    if each == text then return true end
  end
  return false
end
local function offers(left, ...)
  local list = texts(left)
  for _, text in ipairs {...} do check.yes(has(list, text), left .. " offers " .. text) end
end
local function never(left, ...)
  local list = texts(left)
  for _, text in ipairs {...} do check.no(has(list, text), left .. " does not offer " .. text) end
end

globals.cx = torch.zeros(32, 784)
globals.cnet = torch.nn.Linear(784, 10)
globals.cfg = {lr = 0.1, data = {x = torch.zeros(2)}, run = function(a, b) return a, b end}
function globals.cscale(k) return k end

test("methods of tensors come from the table of methods", function()
  offers("cx:ma", "matmul", "max", "masked_fill", "masked_select", "maximum")
  offers("cx[1]:su", "sum")
  offers("cx[{1, {}}]:su", "sum")
  offers("cfg.data.x:me", "mean", "median")
  offers("(cx + 1):me", "mean")
  offers("torch.zeros(3):cu", "cumsum", "cuda")
  offers("cx:matmul(w):t():arg", "argmax")
  offers("cx.sh", "shape")
  local list = texts "cx:ma"
  check.equal(list[#list]:sub(-1), "_", "in-place forms come last")
end)

test("fields, modules, classes and parts of torch are completed", function()
  offers("torch.zer", "zeros", "zeros_like")
  offers("torch.nn.Lin", "Linear")
  offers("torch.optim.", "SGD", "Adam")
  offers("torch.utils.data.Data", "DataLoader")
  offers("cnet:par", "parameters")
  offers("cnet.w", "weight")
  offers("cfg.", "lr", "data", "run")
  offers("torch.nn.Linear(2, 3):par", "parameters")
  offers('("a"):re', "rep")
end)

test("variables, kept locals, names of the entry itself and keywords are completed", function()
  offers("csc", "cscale")
  offers("local abcd = 1; abc", "abcd")
  offers("for index = 1, 3 do ind", "index")
  offers("function f(alpha, beta) return alp", "alpha")
  offers("whi", "while")
end)

test("names of arguments are completed inside a table of them", function()
  offers("cx:sum{", "dim=", "keepdim=", "dtype=")
  never("cx:sum{dim=1, ", "dim=")
  offers("torch.zeros({2}, {", "dtype=", "device=", "requires_grad=")
  offers("torch.optim.SGD(cnet:parameters(), {", "lr=", "momentum=")
  offers('torch.zeros({2}, {dtype="', "float32", "bfloat16")
end)

test("files, commands and topics of help are completed", function()
  local path = check.temp "complete_me.lua"
  local file = assert(io.open(path, "w"))
  file:close()
  offers('dofile("' .. path:sub(1, -5), path)
  offers("%ru", "%run")
  offers("?top", "topk")
  offers("?nn.Lin", "nn.Linear")
  offers("%time cx:ma", "matmul")
  check.equal(select(2, texts "   cx:ma"), 7)
end)

test("private names come only to those who type the underscore", function()
  globals.ctable = {_secret = 1, open = 2}
  check.equal(table.concat(texts "ctable.", " "), "open")
  check.equal(table.concat(texts "ctable._", " "), "_secret")
  check.equal(table.concat(texts "cnet._buf", " "), "_buffers")
  never("cnet.", "_buffers")
  globals.ctable = nil
end)

test("methods are known of every value whose type is known", function()
  globals.cseq = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ModuleList {torch.nn.ReLU()})
  globals.cgen, globals.cfile = torch.Generator(), io.stdout
  globals.cnormal = torch.distributions.Normal(0, 1)
  offers("cseq:", "append", "parameters", "forward")
  offers("cseq:to('cpu'):", "append")
  offers("cseq:parameters()[1]:num", "numel")
  offers("cseq[2]:", "append", "state_dict")
  offers("cseq(cx):su", "sum")
  offers("torch.nn.Linear(2, 3)(cx):su", "sum")
  offers("cgen:", "manual_seed", "get_state")
  offers("torch.Generator():", "seed")
  offers("cfile:", "read", "close")
  offers("io.open('f'):", "lines")
  offers("cnormal:", "log_prob")
  offers("cnormal.", "loc")
  offers("tostring(cx):", "rep")
  offers("cx.dtype.", "is_floating_point")
  offers("cx.device.", "type")
  offers("?top", "topk")
  globals.cseq, globals.cgen, globals.cfile, globals.cnormal = nil, nil, nil, nil
end)

test("completion runs no code of the user's", function()
  local ran = false
  local trap = setmetatable({}, {
    __index = function() ran = true end, __tostring = function() ran = true return "" end,
    __call = function() ran = true end, __len = function() ran = true return 0 end,
    __pairs = function() ran = true return next, {} end, __name = "trap",
  })
  globals.ctrap = trap
  for _, left in ipairs {"ctrap.", "ctrap:", "ctrap.a.b.", "ctrap().", "ctrap[1].", "ctr", "ctrap(", "ctrap{", "?ctrap."} do
    texts(left)
    hint(left, #left)
    highlight(left, #left)
  end
  check.no(ran)
  globals.ctrap = nil
end)

test("no text makes completion, hints or colours fail", function()
  local pieces = {"cx", ":", ".", "(", ")", "{", "}", "[", "]", "=", ",", '"', "'", "--", "[[", "local ", "function ", "end ", "1", " ", "\n", "é", "\255", "%", "?", "~="}
  math.randomseed(7)
  for _ = 1, 3000 do
    local parts = {}
    for i = 1, math.random(1, 14) do parts[i] = pieces[math.random(#pieces)] end
    local text = table.concat(parts)
    local cursor = math.random(0, #text)
    local first, list = complete(text, cursor)
    check.yes(first >= 1 and first <= cursor + 1, text)
    check.equal(type(list), "table", text)
    check.equal(type(hint(text, cursor)), "table", text)
    for i, v in ipairs(highlight(text, cursor)) do
      if i % 3 == 0 then check.equal(type(v), "string") else check.yes(v >= 1 and v <= #text, text) end
    end
  end
end)

test("ten thousand variables give a bounded list", function()
  for i = 1, 10000 do globals["cvar" .. i] = i end
  local list = texts "cvar"
  check.yes(#list <= 120)
  check.equal(list[1], "cvar1")
  for i = 1, 10000 do globals["cvar" .. i] = nil end
end)

test("the argument line shows the call, the argument and live shapes", function()
  local function line(left) return table.concat(hint(left, #left), "\n") end
  check.contains(line "cx:matmul(", "matmul(<other>)   cx f32 [32, 784]   wants [.., 784, p] or [784]")
  check.contains(line "cx:topk(3, ", "topk(k, <dim=-1>")
  check.contains(line "torch.nn.Linear(784, ", "<out_features>")
  check.contains(line "cnet(", "wants [.., 784]")
  check.contains(line "cscale(", "cscale(<k>)")
  check.contains(line "cx:sum{dim=", "<dim?>")
  check.contains(line "torch.optim.SGD(cnet:parameters(), {lr=", "<lr=0.001>")
  check.equal(line "cx:sum(1)", "")
  check.equal(line "function f(", "")
  check.equal(line "x = 1", "")
end)

test("colours: keywords, unknown variables, brackets", function()
  local function styles(text, cursor)
    local flat, out = highlight(text, cursor or -1), {}
    for i = 1, #flat, 3 do out[#out + 1] = text:sub(flat[i], flat[i + 1]) .. ":" .. flat[i + 2] end
    return " " .. table.concat(out, " ") .. " "
  end
  check.contains(styles "local y = cx + zork", " local:keyword ")
  check.contains(styles "local y = cx + zork", " zork:unknown ")
  check.lacks(styles "local y = cx + y", "unknown")
  check.lacks(styles "a, b = 1, 2; print(a + b)", "unknown")
  check.lacks(styles "function f(p) return p end", "unknown")
  check.lacks(styles "cx:sum{dim=1}", "unknown")
  check.lacks(styles "cx.zork = 1", "zork:unknown")
  check.contains(styles("f(cx[1])", 8), "(:bracket ):bracket")
  check.contains(styles "cx)", "):error")
  check.contains(styles "'abc' .. 12 -- note", "'abc':string 12:number -- note:comment")
  check.contains(styles "%who", "%who:command")
  check.contains(styles "?topk", "?topk:command")
end)

globals.cx, globals.cnet, globals.cfg, globals.cscale = nil, nil, nil, nil
