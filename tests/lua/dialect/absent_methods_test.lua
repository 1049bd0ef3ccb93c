-- A method that an object has not: scripts are told the class, what was meant, or what there is.
local nn, optim, data = torch.nn, torch.optim, torch.utils.data

local function run(code)
  local path = check.temp "absent.lua"
  local file = assert(io.open(path, "w"))
  file:write(code)
  file:close()
  return check.tycho({path}).err
end

test("objects of torch's classes name the method that was meant, in a call and at a script's end", function()
  local model = nn.Linear(2, 2)
  local opt = optim.SGD(model:parameters(), {lr = 0.1})
  local loader = data.DataLoader(data.TensorDataset(torch.ones(4, 2)), {batch_size = 2})
  local sched, matrix, bar = optim.lr_scheduler.StepLR(opt, 2), torch.metrics.ConfusionMatrix(), torch.progress {total = 3}
  for _, row in ipairs {
    {function() model:evaluate() end, "the Linear model has no method evaluate", "net:eval()"},
    {function() opt:zerograd() end, "the SGD opt has no method zerograd", "opt:zero_grad()"},
    {function() loader:next() end, "the DataLoader loader has no method next", "loader()()"},
    {function() sched:stpe() end, "the StepLR sched has no method stpe", "sched:step"},
    {function() loader.dataset:getitem(1) end, "the TensorDataset loader.dataset has no method getitem", "get"},
    {function() matrix:updat(1) end, "the ConfusionMatrix matrix has no method updat", "matrix:update"},
    {function() bar:set_postfx(1) end, "the progress bar has no method set_postfx", "bar:set_postfix"},
  } do
    local err = check.raises("argument", row[2], row[1])
    check.contains(tostring(err), row[3])
  end
  check.contains(run "local opt = torch.optim.Adam({torch.ones(1, {requires_grad = true})})\nopt:stpe()", "the Adam opt has no method stpe\n.*opt:stpe%(%)\n.*did you mean opt:step%?")
end)

test("a class of one's own is told by its name, and what is no object keeps Lua's words", function()
  local Net = nn.class "Net"
  function Net:init() self.fc = nn.Linear(1, 1) end
  function Net:forward(x) return self.fc(x) end
  local net = Net()
  check.raises("argument", "the Net net has no method predict", function() net:predict(1) end)
  check.raises("argument", "the Net net has no method forwrd", function() net:forwrd(1) end)
  local plain = {}
  local _, err = pcall(function() plain:anything() end)
  check.contains(err, "attempt to call a nil value %(method 'anything'%)")
end)

test("modules of Python and files that are not there are answered", function()
  check.contains(run "local np = require 'numpy'", "numpy is a module of Python, which is not here\n.*try: require \"torch\"")
  check.contains(run "local tqdm = require 'tqdm'", "tqdm is a module of Python.*torch.progress")
  check.contains(run "local plt = require('matplotlib.pyplot')", "matplotlib.pyplot is a module of Python")
  check.contains(run "require 'mine.own'", "module 'mine.own' not found")
  check.contains(run "local f = io.open('/nowhere/a.txt')\nlocal text = f:read('a')", "f is nil: io.open could not open the file.*assert%(io.open%('/nowhere/a.txt'%)%)")
end)

test("several names for the sizes of a tensor get a note with the line that is meant", function()
  local err = run "local x = torch.zeros(2, 3)\nlocal B, T = x.shape\nprint(B, T)\nlocal a, b = x:size()\nlocal c, d = x.shape, 3\nlocal e, f = table.unpack(x.shape)"
  check.contains(err, "note SIZES: B, T = x.shape gives one value, so T is nil %(.*absent.lua:2%)\n   the sizes one by one: local B, T = table.unpack%(x.shape%)")
  check.contains(err, "absent.lua:4")
  check.equal(select(2, err:gsub("note SIZES", "")), 2)
end)

test("a range past the end says how to stop there, and ids that no + 1 repairs are not promised one", function()
  local n, idx = 32, torch.ones(1, 1)
  local err = check.raises("index", "out of range", function() return idx[{{}, {-n, -1}}] end)
  check.contains(tostring(err), "idx[{{}, {math.max(-n, -idx:size(2)), -1}}]")
  err = check.raises("index", "out of range", function() return idx[{1, {1, n}}] end)
  check.contains(tostring(err), "idx[{1, {1, math.min(n, idx:size(2))}}]")
  check.equal(idx[{{}, {math.max(-n, -idx:size(2)), -1}}].shape, {1, 1})
  local say = "local embedding, ids = torch.nn.Embedding(32, 4), torch.arange(%d)\nlocal rows = embedding(ids)"
  check.contains(run(say:format(32)), "would fit: embedding%(ids %+ 1%)")
  local err = run(say:format(33))
  check.contains(err, "the largest is 32, and there are 32")
  check.lacks(err, "would fit")
end)

test("a tensor that is to grow as a list is told how", function()
  local err = run "local ids = torch.tensor{1, 2}\nids[#ids + 1] = 3"
  check.contains(err, "torch.cat%({ids, torch.tensor{value}}%)")
  check.lacks(err, "would fit")
end)
