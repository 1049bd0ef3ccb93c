-- Texts of help that belong to no function: topics of the language of tensors, and Lua in one line each.
local topics = {}

-- {name, one sentence, text or a function that gives it, see, other names}
topics.topics = {
  {"indexing", "Parts of tensors: positions count from 1, ranges include both ends.", [[
  x[1]  x[-1]  x[{1, 2}]          an element or row, from 1; -1 is the last
  x[{1, {}}]  x[{{}, 2}]          {} is everything along a dimension
  x[{{1, 2}, {1, 2}}]             an inner table is a range, both ends included
  x[{{2}}]  x[{{1, -1, 2}}]       from 2 to the end; every second one
  x[{torch.ellipsis, 1}]          all dimensions left out
  x[{{}, torch.newaxis}]          a new dimension of size 1
  x["1:2, :"]  x["..., 1"]        the same as text, also with steps: "1:-1:2"
  x[mask]  x[ids]  x[{ids, {}}]   bool or integer tensors: copies, not views
  x[{{1, 2}}] = 7                 every form can be assigned
A position that does not exist raises; 0 is none.]], "narrow, select, index_select, gather, where"},
  {"broadcasting", "Shapes are lined up from the right; sizes of 1 stretch, nothing else does.", [[
  [4, 3] and [3]        -> [4, 3]      the row is used for every row
  [4, 1] and [3]        -> [4, 3]      both stretch: a table of all pairs
  [4, 3] and [4]        error: 3 against 4; x + y:view(4, 1) if rows were meant
Look at x.shape, and add dimensions of size 1 with view, unsqueeze or
torch.newaxis.]], "expand, unsqueeze, broadcast_tensors"},
  {"dtypes", "Element types: bool, uint8, int8 .. int64, float16, bfloat16, float32, float64.", [[
  torch.tensor{1, 2}         int64: Lua integers
  torch.tensor{1, 2.0}       float32
  torch.zeros(2)             float32, the default (torch.set_default_dtype)
  x:to("float64")  x:float()  x:long()  x:bool()     other types
  2^2 and 4/2 are floats in Lua; 7 // 2 is an integer
Mixed types: floats win over integers over bool; among equals the wider;
tensors win over 0-d tensors, and those over plain numbers of their kind.
Shown short: f32, bf16, i64.]], "to, torch.tensor, torch.set_default_dtype"},
  {"random", "Random numbers are PyTorch's own for the same seed, on the CPU.", [[
  torch.manual_seed(1)            the same numbers again
  torch.rand(2, 3)  torch.randn(2, 3)  torch.randint(1, 7, {10})
  torch.randperm(5)               the positions 1 to 5 in random order
  x:uniform_(-1, 1)  x:normal_()  x:bernoulli_(0.3)      fill in place
  g = torch.Generator(); torch.rand({2}, {generator=g})  a stream of its own]], "torch.manual_seed, rand, randn, randint, torch.Generator"},
  {"autograd", "Gradients: operations on tensors that require grad are recorded, backward runs the record.", [[
  w = torch.tensor({2.0}, {requires_grad=true})   a leaf
  loss = (w * 3 - 1):pow(2):sum()                 recorded
  loss:backward()                                 adds to w.grad
  w.grad                                          the slope of loss in w
  w.grad = nil, opt:zero_grad()                   they add up until dropped
  torch.no_grad(function() ... end)               not recorded
  x:detach()                                      leaves the record
  torch.autograd.grad(loss, {w})                  without touching .grad]], "Tensor.backward, torch.no_grad, torch.autograd.grad, detach, scopes"},
  {"devices", "cpu, and cuda:0, cuda:1, ..: a tensor lies on one device, and devices do not mix.", [[
  x:to("cuda:0")  x:cuda()  x:cpu()  net:to("cuda")    copies between devices
  torch.zeros(3, {device="cuda"})                      made there
  torch.set_default_device("cuda")                     from now on without saying so
  torch.cuda.is_available()  torch.cuda.device_count()
  torch.cuda.synchronize()                             before reading a clock
  x:to("cpu", {non_blocking=true})                     values come later: wait
  nn.DataParallel(net)                                 a batch over all devices
  scripts/model_parallel.lua                           a network over two
TYCHO_SIMULATE_CUDA=4, or torch.cuda.simulate(4) before first use, gives
devices with the same rules on the CPU; TYCHO_SIMULATE_MEMORY=512M is what
each of them holds.]],
    "to, torch.cuda.is_available, torch.cuda.simulate, torch.cuda.Stream, torch.cuda.mem_get_info, nn.DataParallel"},
  {"cuda", "NVIDIA's GPUs: what a machine needs, and which operations run on the CPU.", function()
    local names, why = require("torch").cuda._ops_on_cpu()
    local text = {[[
  tycho doctor      in a terminal: driver, libraries, what to install
  TYCHO_CUDA_HOME   a folder where libraries are: a toolkit, or a Python
                    environment (nvidia/*/lib) with NVIDIA's packages
  ?devices          tensors on devices; simulated ones for every machine]]}
    if not names then return text[1] .. "\n" .. why end
    text[2] = #names > 0 and "No kernel there: they run on the CPU, on copies, and note DEV says so once."
      or "Every operation runs there."
    local line = " "
    for _, name in ipairs(names) do
      if #line + #name > 77 then
        text[#text + 1] = line
        line = " "
      end
      line = line .. " " .. name
    end
    if #names > 0 then text[#text + 1] = line end
    return table.concat(text, "\n")
  end, "devices, torch.cuda.is_available, notes", "gpu gpus nvidia"},
  {"errors", "Errors are objects that say what, why and how to mend it.", [[
  local ok, err = pcall(f)
  err.kind     shape broadcast dim index dtype device argument value autograd
               linalg oom io distributed interrupt
  err.op       the operation         err.hint     what to write instead
  tostring(err)                      the whole text
At the prompt: ?err tells more of the last one, %debug shows its frames,
%explain CODE the rule behind it.]], "pcall, %debug, %explain"},
  {"notes", "Remarks on code that runs but is likely not meant; said once for a line, on stderr.", [[
  B2    [n, 1] met [n], every pair, and the result became one number; losses too
  EQ    x == 5 is always false: x:eq(5)            IF    a tensor as a condition is always true
  ACC   .grad sums several passes: zero_grad forgotten; opt:step{accumulated=2} says that two are meant
  SUM   total = total + loss keeps every graph     SOFT  softmax before cross_entropy
  MODE  dropout or batch norm in training mode under no_grad
  NAN   where the first nan came from              GRAD  why x.grad is nil
  F64   a float64 constant in a float32 computation
  LRS   a schedule's step before the optimiser's first
  SYNC  item() in a long loop                      LIST  a list in double brackets is a text to Lua
  SIZES B, T = x.shape is one value                WHITE a picture of numbers far above 1
  SCOPE torch.no_grad() alone on a line ends there FIELD a new field named nearly as a parameter
  DEV   an operation runs on the CPU: its device has no kernel for it
  %ok B2   accepts the line        %ok B2 all   switches the code off        %ok   lists them
  torch.notes("B2", "off")         also "on" and "error", which raises; torch.notes("all", "off")
TYCHO_NOTES=off silences a script.]], "torch.notes, %ok, errors"},
  {"scopes", "Modes for a stretch of code: as a function, or until the end of a block.", [[
  torch.no_grad(function() ... end)               returns what it returns
  do local _ <close> = torch.no_grad() ... end    ends on error and break too
Also enable_grad, set_grad_enabled(on, f), inference_mode,
autocast("cpu", {dtype="bfloat16"}, f), and scope, which frees the tensors made
inside.]], "torch.no_grad, torch.autocast, torch.inference_mode, torch.scope"},
  {"calls", "Arguments by position and by name, functions and methods.", [[
  torch.add(a, b)  a:add(b)  a:add_(b)       function, method, in place
  x:sum{dim=1, keepdim=true}                 named arguments in a last table
  torch.zeros{2, 3, dtype="int64"}           one table may hold both kinds
  torch.zeros(2, 3) = torch.zeros{2, 3}      a list needs no table
  local v, i = x:max(2)                      several results are several values]], "indexing, nil"},
  {"operators", "+ - * / // % ^ element by element; a:matmul(b) for the matrix product.", [[
  + - * / ^ and unary -      with broadcasting; // and % round down
  & | ~ << >>                on bool and integers
  a:matmul(b)                Lua has no @
  a:lt(b) a:le(b) a:gt(b) a:ge(b) a:eq(b) a:ne(b)
                             masks: Lua makes one boolean of < and ==
  torch.equal(a, b)          one boolean
  #x                         the first size]], "matmul, eq, lt, torch.equal, broadcasting"},
  {"modules", "Networks: layers of nn, or classes of one's own.", [[
  net = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
  local Net = nn.class("Net")
  function Net:init(n) self.fc = nn.Linear(784, n) end
  function Net:forward(x) return F.relu(self.fc(x)) end
  net = Net(64)  y = net(x)  net:parameters()
  net:to("cuda")  net:train()  net:eval()
  torch.save(net:state_dict(), "net.pt")
  net:load_state_dict(torch.load("net.pt"))]], "nn.class, nn.Linear, nn.Sequential, nn.Module.parameters"},
  {"training", "The loop: zero the gradients, compute the loss, backward, step.", [[
  opt = optim.SGD(net:parameters(), {lr=0.01, momentum=0.9})
  for epoch = 1, 3 do
    for x, y in loader() do
      opt:zero_grad()
      local loss = F.cross_entropy(net(x), y)      -- labels from 1
      loss:backward()
      opt:step()
    end
  end]], "optim.SGD, optim.Adam, F.cross_entropy, data.DataLoader, autograd"},
  {"tutorial", "Where to begin: lessons at the prompt, pages to read, scripts to run and copy.", [[
  %learn                          the course, and how far you are
  %learn shapes                   a lesson; %quit leaves it
  tutorials/coming_from_pytorch.md    what differs from PyTorch, on one page
  tutorials/several_processes.md      from two terminals to two machines
  scripts/fit_curve.lua           a first script; train_digits.lua a whole one
  ?cheatsheet                     what is used most, on one screen]], "lesson, cheatsheet, training", "tutorials start begin"},
  {"lesson", "Lessons at the prompt: short texts, questions that are graded, tasks that are checked.", [[
  %learn                 the chapters, how far you are, and what comes next
  %learn tensors         the lessons of a chapter; %learn all: of all
  %learn shapes          begins one, or goes on where you left; also %learn 1
  %learn shapes 1        from its beginning
  In a lesson:  Enter goes on, answers are graded, all else runs as always
  %hint  %skip  %play  %back  %next  %reset  %quit
A lesson has variables of its own: yours stay as they are.
For teachers: tycho learn --class DIR (lessons of your own), --report FILE.csv,
--sheet LESSON (on paper).]], "tutorial, %learn, %predict", "lessons learn"},
  {"cheatsheet", "What is used most, on one screen; names are PyTorch's, positions count from 1.", [[
  x = torch.tensor{{1, 2}, {3, 4.5}}    torch.zeros(2, 3)    torch.randn(4)
  x.shape  x.dtype  #x  x:numel()       x:item()  x:tolist()
  x[1]  x[{1, 2}]  x[{{}, 2}]  x["1:2, :"]  x[x:gt(2)]     parts
  a + b  a * b  a:matmul(b)  a ^ 2      element by element; matrix product
  x:sum(1)  x:mean()  x:max(2)  x:argmax(2)                along a dimension
  x:view(4)  x:reshape(-1)  x:t()  x:unsqueeze(1)  torch.cat({a, b}, 1)
  x:eq(y)  x:lt(3)                      masks: == and < give one boolean
  w = torch.zeros(3, {requires_grad=true});  loss:backward();  w.grad
  net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
  opt = optim.Adam(net:parameters(), {lr=0.001})
  opt:zero_grad(); F.cross_entropy(net(x), labels):backward(); opt:step()
  x:to("cuda")  torch.save(x, "x.pt")  torch.load("x.pt")  plot(y)  %who]],
    "indexing, operators, autograd, modules, training", "cheat reference"},
  {"gradient", "How gradients are made, read, dropped and looked at.", [[
  w = torch.tensor({2.0}, {requires_grad=true})   ask for one
  loss:backward()  w.grad                         make it, read it
  opt:zero_grad()  w.grad = nil                   drop it: passes add up
  nn.utils.clip_grad_norm_(net:parameters(), 1)   keep it in bounds
  %why w.grad       why it is nil, or not a number
  %graph loss grad  the tree of operations with the gradients on it
  %backstep loss    one operation at a time, entry by entry
  %sweep loss, w[1], -1, 1    the loss against one weight, and its slope
  %check f, {w}     gradients against differences]], "autograd, Tensor.backward, torch.autograd.grad", "gradients"},
  {"accuracy", "How many answers are right: the largest output against the label.", [[
  right = net(x):argmax(2):eq(y)       one boolean for each row
  right:float():mean():item()          the share of them, between 0 and 1
  acc = torch.metrics.Accuracy()       over many batches:
  acc:update(net(x), y); acc:compute()
  acc = torch.metrics.Accuracy()       acc:update(net(x), y); acc:compute()
  torch.metrics.ConfusionMatrix()      what is taken for what, as a table
Labels count from 1, as argmax does. Look at a network without dropout and
without a graph:  net:eval(); torch.no_grad(function() ... end)]], "torch.metrics, argmax, eq, mean, training", "accuracies"},
  {"progress", "How far something is: at the prompt by itself, in scripts by a line.", [[
  A long entry shows its time and operation by itself; Ctrl-C stops it.
  %time CODE   %bench CODE   %prof CODE           how long, how fast, where
  for x, y in torch.progress(loader) do .. end    a bar; in a log a line
  bar = torch.progress(loader)                    bar:set_postfix{loss = loss}
How far the lessons are: %learn.]], "torch.progress, %time, %prof, %learn, training", "bar tqdm"},
  {"fusion", "Chains of elementwise operations on large tensors run together, a piece at a time.", [[
  y = (torch.tanh(x * 0.8) + 1) * x     four operations, one pass over memory
They wait until something needs the values: a sum, a product, printing,
item(), a file, a change of what they read, the end of an entry. Shapes and
types are checked at once, numbers are the same bit for bit, temporaries take
no memory. Measure with torch.perf_counter(), which waits for them (os.clock
does not); %prof runs operations one by one.
  torch.set_fusion(false)               off; TYCHO_FUSE=0: for a whole run]], "torch.set_fusion, %time, %bench, operators", "fuse lazy deferral compile"},
  {"quit", "How to leave.", [[
  Ctrl-D on an empty line, or %quit           the session
  os.exit()                                   the same from code
  Ctrl-C                                      stops what runs; clears the line
  %quit, or Ctrl-C on an empty line           a lesson, or another inner prompt]], "%quit, os.exit", "exit bye leave q"},
}

-- {name, arguments (nil for keywords), one sentence}
topics.lua = {
  {"and", nil, "a and b: a when it is false or nil, else b."},
  {"or", nil, "a or b: a unless it is false or nil, else b."},
  {"not", nil, "not a: true when a is false or nil. A tensor is always true: use m:any():item()."},
  {"break", nil, "Leaves the innermost loop."},
  {"do", nil, "do ... end: a block; its locals end with it."},
  {"else", nil, "if a then ... else ... end"},
  {"elseif", nil, "if a then ... elseif b then ... end"},
  {"end", nil, "Closes do, function, if, for and while."},
  {"false", nil, "One of the two values that count as not true; the other is nil."},
  {"true", nil, "The boolean that is true."},
  {"for", nil, "for i = 1, 10, step do ... end, both ends included; for k, v in pairs(t) do ... end; for i, row in x:rows() do ... end"},
  {"function", nil, "function f(a, b) return a + b end; function Net:forward(x) ... end has self; function(x) ... end is a value."},
  {"goto", nil, "goto name jumps to ::name:: in the same function."},
  {"if", nil, "if a then ... elseif b then ... else ... end; only false and nil are not true, 0 is."},
  {"in", nil, "for k, v in pairs(t) do ... end"},
  {"local", nil, "local x = 1: a variable of this block. At the prompt it is kept for the session."},
  {"nil", nil, "No value: what unset variables and fields hold. torch.none says None where a value must be said."},
  {"repeat", nil, "repeat ... until a: runs the body, then asks. The method of tensors is x:tile(2, 3)."},
  {"return", nil, "return a, b: ends the function with values; last in its block."},
  {"then", nil, "if a then ... end"},
  {"until", nil, "repeat ... until a"},
  {"while", nil, "while a do ... end"},
  {"print", "...", "Writes values with tabs between and a new line."},
  {"type", "v", "\"nil\", \"number\", \"string\", \"boolean\", \"table\", \"function\", \"thread\" or \"userdata\" (a tensor is userdata: torch.is_tensor)."},
  {"pairs", "t", "All keys and values of a table, in no order: for k, v in pairs(t) do ... end"},
  {"ipairs", "t", "The values 1, 2, ... of a list: for i, v in ipairs(t) do ... end. Rows of a tensor: x:rows()."},
  {"tostring", "v", "A value as text."},
  {"tonumber", "v, base=10", "The number that a text holds, or nil."},
  {"error", "value, level=1", "Raises an error."},
  {"pcall", "f, ...", "Calls f: true and its results, or false and the error."},
  {"assert", "v, message=nil", "v when it is true, else an error."},
  {"require", "name", "Loads a module once."},
  {"dofile", "path", "Runs a Lua file."},
  {"load", "text", "A function from Lua text."},
  {"select", "n, ...", "The values from the n-th on; select(\"#\", ...) counts them. The operation is x:select(dim, index)."},
  {"next", "t, key=nil", "The key and value after one; next(t) == nil says that a table is empty."},
  {"rawget", "t, key", "A field without metamethods."},
  {"setmetatable", "t, meta", "Gives a table behaviour: __index, __call, __len, __tostring, .."},
  {"getmetatable", "v", "The metatable of a value."},
  {"table.insert", "t, position=nil, value", "Puts a value at the end of a list, or at a position."},
  {"table.remove", "t, position=nil", "Takes the last value of a list, or the one at a position, and returns it."},
  {"table.concat", "t, between=\"\"", "The strings and numbers of a list as one text."},
  {"table.unpack", "t", "The values of a list as several values."},
  {"table.pack", "...", "Several values as a list, with their number in n."},
  {"table.sort", "t, less=nil", "Puts a list in order, in place."},
  {"string.format", "pattern, ...", "Text from a pattern: (\"%d of %s, %.3f\"):format(1, \"two\", 3.0)."},
  {"string.rep", "s, n", "A text n times."},
  {"string.find", "s, pattern, from=1", "Where a pattern first matches: first and last position."},
  {"string.match", "s, pattern", "What a pattern, or its captures, match."},
  {"string.gmatch", "s, pattern", "All matches: for word in s:gmatch(\"%a+\") do ... end"},
  {"string.gsub", "s, pattern, by", "The text with matches replaced, and their number."},
  {"string.sub", "s, first, last=-1", "A part of a text; positions count from 1, -1 is the last."},
  {"string.upper", "s", "The text in capitals."},
  {"string.lower", "s", "The text in small letters."},
  {"math.floor", "x", "The largest integer not above x."},
  {"math.ceil", "x", "The smallest integer not below x."},
  {"math.max", "x, ...", "The largest of several numbers; of a tensor x:max()."},
  {"math.min", "x, ...", "The smallest of several numbers; of a tensor x:min()."},
  {"math.abs", "x", "The number without its sign; of a tensor x:abs()."},
  {"math.sqrt", "x", "Square root of a number; of a tensor x:sqrt()."},
  {"math.random", "m=nil, n=nil", "A random number of Lua; torch.manual_seed does not reach it. Of tensors: torch.rand."},
  {"math.pi", "", "3.14159.."},
  {"math.huge", "", "Infinity."},
  {"math.tointeger", "x", "The number as an integer, or nil."},
  {"math.type", "x", "\"integer\", \"float\" or nil."},
  {"io.open", "path, mode=\"r\"", "Opens a file: read(\"a\"), lines(), write(text), close()."},
  {"io.lines", "path", "The lines of a file: for line in io.lines(path) do ... end"},
  {"io.write", "...", "Writes values without anything between."},
  {"io.read", "what=\"l\"", "Reads a line of standard input."},
  {"os.time", "", "Seconds since 1970; torch.perf_counter() is the clock to measure with."},
  {"os.clock", "", "Seconds of CPU time used, of all threads; torch.perf_counter() is the clock to measure with."},
  {"os.date", "format=nil", "Date and time as text."},
  {"os.getenv", "name", "A variable of the environment, or nil."},
  {"os.exit", "status=0", "Ends the program."},
}

return topics
