-- What Python, NumPy and C call things, with what Lua and torch write: the data of the translator.
local words = {}

words.names = {True = "true", False = "false", None = "nil", null = "nil", NULL = "nil", __name__ = '"__main__"', __file__ = "arg[0]",
  Ellipsis = "torch.ellipsis", NotImplementedError = '"not implemented"'}

-- Why a name is written otherwise: a sentence for the report.
words.remarks = {
  True = "true, false and nil are written small in Lua",
  len = "the length of x is #x",
  print_end = "print always ends the line; io.write does not",
  range = "a loop over numbers is for i = first, last do; range(n) is n turns, counted from 1",
  enumerate = "ipairs(list) gives the position, from 1, and the value",
  zip = "two lists go side by side by their position",
  with = "a scope is a function, or a variable that is closed where its block ends",
  import = "torch is there already; files of your own come by require",
  def = "functions end with end",
  class = "classes are made by nn.class, and their methods are written with a colon",
  lambda = "a small function is function(x) return ... end",
  block = "blocks end with the word end",
  try = "pcall runs a function and gives false and the error when it fails",
  augmented = "Lua has no %s",
  named = "named arguments stand in a last table",
  list = "lists stand in braces",
  tuple = "there are no tuples: a table",
  dict = "tables are written {key = value}",
  range_index = "a range is a table in the index: from 1, both ends in it",
  index = "positions count from 1, and several stand in a table",
  power = "the power is ^",
  matmul = "the matrix product is a method",
  unequal = "not equal is ~=",
  comment = "comments begin with --",
  text = "texts are put together by format, or by ..",
  f = "a text with values in it is made by format",
  long = "a text over several lines stands in [[ ]]",
  ternary = "a choice in a line is c and a or b",
  is = "nil is compared with ==",
  ["in"] = "a table is asked for its key",
  keys = "pairs(d) gives the keys of a table, ipairs(list) the elements of a list",
  columns = "lists of rows are turned into lists of columns by a loop",
  complex = "there are no complex numbers: keep the real and the imaginary part in two tensors",
  loop_else = "a loop has no else: a variable says whether break left it",
  comprehension = "a list is filled by a loop",
  dot = "methods are called with a colon",
  full_width = "the marks of an East Asian keyboard are no part of the language",
  logic = "Lua writes and, or, not",
  del = "a variable is emptied by nil",
  increment = "Lua has no ++",
  assert = "assert is a function",
  raise = "error(text) raises",
  continue = "Lua leaves out the rest of a turn by goto continue, with ::continue:: as the loop's last line",
  elif = "else if is one word: elseif",
  numpy = "tensors do what arrays do: torch.* in the place of np.*",
  plot = "plot(y) draws; torch.plot in files",
  vision = "pictures and their transforms are in torch.utils.data",
  super = "nn.class prepares the object before init: nothing is to be called",
  decorator = "a function is handed to what decorates it",
  pass = "an empty block needs nothing in it",
  global = "names are global unless they are declared local",
  chained = "one assignment after the other",
  backslash = "a line goes on below it without a mark, behind an operator",
}

require("torch.language").of_table(words.remarks)

-- Functions: a format of their arguments (%1 the first, %* all), or a name.
words.functions = {
  len = "#%1", str = "tostring(%1)", int = "math.floor(%1)", abs = "math.abs(%*)", max = "math.max(%*)", min = "math.min(%*)",
  list = "%1", tuple = "%1", set = "%1", iter = "%1", tqdm = "torch.progress(%1)", trange = "torch.progress(%1)", repr = "tostring(%1)", bool = "%1", float = "tonumber(%1)", input = "io.read()",
  exit = "os.exit(%*)", quit = "os.exit(%*)", callable = 'type(%1) == "function"', sorted = "(function(t) table.sort(t) return t end){table.unpack(%1)}", ord = "utf8.codepoint(%1)",
  chr = "utf8.char(%1)", pow = "%1 ^ %2", hex = '("%%x"):format(%1)', id = "tostring(%1)", dir = "for name in pairs(%1) do print(name) end",
  open = "io.open(%*)", reversed = "%1", getattr = "%1[%2]", hasattr = "%1[%2] ~= nil", help = "?%1",
  enumerate = "ipairs(%1)", vars = "%1", divmod = "%1 // %2, %1 %% %2", sum = "torch.tensor(%1):sum():item()", any = "torch.tensor(%1):any():item()",
  all = "torch.tensor(%1):all():item()", isinstance = "type(%1) == %2", issubclass = "%1 == %2", super = "self", object = "{}", defaultdict = "{}",
  Counter = "(function() local out = {} for _, each in ipairs(%1) do out[each] = (out[each] or 0) + 1 end return out end)()", deque = "{}", OrderedDict = "%*", Path = "%1", display = "print(%*)", setattr = "%1[%2] = %3", ValueError = "%*", Exception = "%*", RuntimeError = "%*",
  locals = "_G", globals = "_G", exec = "load(%1)()", eval = 'load("return " .. %1)()', Tensor = "torch.tensor(%1)",
}

-- The same for functions of modules, and names in them.
words.modules = {
  ["random.random"] = "math.random()", ["random.randint"] = "math.random(%1, %2)", ["random.seed"] = "math.randomseed(%1)",
  ["random.choice"] = "%1[math.random(#%1)]", ["random.uniform"] = "%1 + (%2 - %1) * math.random()", ["random.shuffle"] = "for i = #%1, 2, -1 do local k = math.random(i) %1[i], %1[k] = %1[k], %1[i] end",
  ["random.gauss"] = "torch.randn(1):item()", ["time.time"] = "torch.perf_counter()", ["time.perf_counter"] = "torch.perf_counter()", ["time.sleep"] = 'os.execute("sleep " .. %1)',
  ["os.path.exists"] = "io.open(%1) ~= nil", ["os.path.isfile"] = "io.open(%1) ~= nil", ["os.path.join"] = '%1 .. "/" .. %2', ["os.makedirs"] = 'os.execute("mkdir -p " .. %1)', ["os.mkdir"] = 'os.execute("mkdir " .. %1)',
  ["os.listdir"] = 'io.popen("ls " .. %1):lines()', ["os.getcwd"] = 'os.getenv("PWD")', ["sys.exit"] = "os.exit(%*)", ["sys.argv"] = "arg", ["os.environ.get"] = "os.getenv(%1)",
  ["argparse.ArgumentParser"] = "{}", ["math.inf"] = "math.huge", ["math.pow"] = "%1 ^ %2", ["math.isnan"] = "%1 ~= %1", ["float.inf"] = "math.huge", ["copy.deepcopy"] = "%1:clone()", ["copy.copy"] = "%1:clone()",
  ["glob.glob"] = 'io.popen("ls " .. %1):lines()', ["gc.collect"] = "collectgarbage()", ["sys.stdout.write"] = "io.write(%*)", ["sys.stdout.flush"] = "io.stdout:flush()",
  ["itertools.count"] = "math.huge", ["json.dumps"] = "tostring(%1)", ["math.ceil"] = "math.ceil(%1)", ["math.log2"] = "math.log(%1, 2)", ["math.log10"] = "math.log(%1, 10)",
  ["math.tanh"] = "torch.tanh(torch.tensor(%1)):item()", ["datetime.datetime.now"] = "os.date()", ["datetime.now"] = "os.date()", ["np.random.seed"] = "torch.manual_seed(%1)",
  ["np.random.rand"] = "torch.rand(%*)", ["np.random.randn"] = "torch.randn(%*)", ["np.random.randint"] = "torch.randint(%*)", ["np.random.permutation"] = "torch.randperm(%1)",
  ["np.random.normal"] = "torch.normal(%*)", ["np.random.uniform"] = "torch.rand(%*)", ["np.random.choice"] = "%1[torch.randperm(#%1)]", ["np.linalg.norm"] = "torch.linalg.norm(%*)", ["np.linalg.inv"] = "torch.linalg.inv(%1)",
  ["np.mean"] = "torch.tensor(%1):double():mean():item()", ["np.sum"] = "torch.tensor(%1):sum():item()", ["np.max"] = "torch.tensor(%1):max():item()", ["np.min"] = "torch.tensor(%1):min():item()",
  ["np.array"] = "torch.tensor(%1)", ["np.asarray"] = "torch.tensor(%1)", ["np.concatenate"] = "torch.cat(%*)", ["np.dot"] = "%1:matmul(%2)", ["np.load"] = "torch.load(%1)",
  ["np.save"] = "torch.save(%2, %1)", ["np.expand_dims"] = "%1:unsqueeze(%2 + 1)", ["np.pi"] = "math.pi", ["np.inf"] = "math.huge", ["np.nan"] = "0/0", ["np.newaxis"] = "torch.newaxis", ["np.transpose"] = "%1:t()",
  ["np.loadtxt"] = "torch.utils.data.read_csv(%1):tensor()", ["np.genfromtxt"] = "torch.utils.data.read_csv(%1):tensor()", ["pd.read_csv"] = "torch.utils.data.read_csv(%1)", ["plt.plot"] = "torch.plot(%*)", ["plt.hist"] = "torch.hist(%1)",
  ["plt.imshow"] = "torch.plot(%1)", ["plt.scatter"] = "torch.plot(%*)", ["plt.show"] = "", ["plt.figure"] = "", ["plt.legend"] = "", ["plt.xlabel"] = "", ["plt.ylabel"] = "", ["plt.title"] = "", ["plt.grid"] = "", ["plt.subplots"] = "",
  ["plt.savefig"] = "torch.plot(y, {file = %1})", ["plt.close"] = "", ["torch.from_numpy"] = "torch.tensor(%1)", ["torch.Tensor"] = "torch.tensor(%1)",
  ["torch.compile"] = "%1", ["transforms.ToPILImage"] = "torch.utils.data.write_image", ["Image.open"] = "torch.utils.data.read_image(%1)", ["Image.fromarray"] = "torch.utils.data.write_image(%1)",
  ["torch.autograd.Variable"] = "%1", ["torch.jit.script"] = "%1", ["torchvision.utils.make_grid"] = "torch.utils.data.transforms.make_grid(%1)", ["torchvision.io.read_image"] = "torch.utils.data.read_image(%1)",
}

-- Methods: %0 is the object.
words.methods = {
  most_common = "(function(t) local out = {} for key, n in pairs(t) do out[#out + 1] = {key, n} end table.sort(out, function(a, b) return a[2] > b[2] end) return {table.unpack(out, 1, %1)} end)(%0)",
  append = "table.insert(%0, %1)", insert = "table.insert(%0, %1 + 1, %2)", extend = "table.move(%1, 1, #%1, #%0 + 1, %0)", numpy = "%0:tolist()",
  startswith = "%0:sub(1, #%1) == %1", endswith = "%0:sub(-#%1) == %1", strip = '%0:match("^%%s*(.-)%%s*$")', join = "table.concat(%1, %0)",
  replace = "%0:gsub(%1, %2)", ["repeat"] = "%0:tile(%*)", astype = "%0:to(%1)", nelement = "%0:numel()", keys = "pairs(%0)", values = "pairs(%0)",
  rstrip = '%0:match("^(.-)%%s*$")', lstrip = '%0:match("^%%s*(.*)$")', readlines = "(function() local out = {} for line in %0:lines() do out[#out + 1] = line end return out end)()", isdigit = '%0:find("^%%d+$") ~= nil',
  index = "(function() for i, each in ipairs(%0) do if each == %1 then return i end end end)()", remove = "for i, each in ipairs(%0) do if each == %1 then table.remove(%0, i) break end end",
  reverse = "for i = 1, #%0 // 2 do %0[i], %0[#%0 - i + 1] = %0[#%0 - i + 1], %0[i] end", readline = '%0:read("L")', read = '%0:read("a")', parse_args = "%0",
  __len__ = "#%0", __getitem__ = "%0:get(%1)", copy = "%0:clone()", count = "select(2, %0:gsub(%1, \"\"))", numpy_ = "%0:tolist()",
  title = "%0:upper()", type = "%0:to(%1)", update = "for k, v in pairs(%1) do %0[k] = v end", setdefault = "%0[%1] = %0[%1] or %2",
}

-- Roots of modules, whose functions are called with a point.
words.libraries = {}
for name in ("torch nn F optim data dist math string table os io utf8 T transforms datasets utils models init lr_scheduler functional linalg autograd amp cuda mp distributions json random metrics"):gmatch "%S+" do
  words.libraries[name] = true
end

-- Which arguments of a method are dimensions: 1 is the first behind the object.
words.dims = {}
for names, places in pairs {
  ["sum mean prod std var argmax argmin softmax log_softmax squeeze unsqueeze size cumsum cumprod sort argsort unbind any all amax amin logsumexp max min median norm nansum nanmean mode squeeze_ unsqueeze_ index_select gather scatter scatter_ scatter_add scatter_add_ index_add_ index_fill_ index_copy_ unfold diff"] = {1},
  ["transpose transpose_ swapaxes movedim flatten"] = {1, 2}, ["select narrow"] = {1, 2},  -- and the position
  ["flip"] = {1, 2, 3, 4}, ["topk kthvalue roll repeat_interleave tensor_split split chunk"] = {2}, ["Softmax LogSoftmax Flatten"] = {0}, ["cat stack concat"] = {1}, ["permute"] = {1, 2, 3, 4, 5, 6},
} do
  for name in names:gmatch "%S+" do words.dims[name] = places end
end
words.named_dims = {dim = true, axis = true, start_dim = true, end_dim = true, dim0 = true, dim1 = true, dims = true, batch_first = false}

-- Where names of PyTorch's modules are here, for import.
words.imports = {
  ["torch"] = "torch", ["torch.nn"] = "torch.nn", ["torch.nn.functional"] = "torch.nn.functional", ["torch.optim"] = "torch.optim", ["torch.utils.data"] = "torch.utils.data",
  ["torchvision"] = "torch.utils.data", ["torchvision.transforms"] = "torch.utils.data.transforms", ["torchvision.datasets"] = "torch.utils.data", ["torchvision.models"] = "torch.models", ["torchvision.utils"] = "torch.utils.data.transforms",
  ["matplotlib.pyplot"] = "torch", ["matplotlib"] = "torch", ["numpy"] = "torch", ["pandas"] = "torch.utils.data", ["torchvision.transforms.v2"] = "torch.utils.data.transforms", ["PIL"] = "torch.utils.data", ["torch.distributions"] = "torch.distributions",
  ["torchvision.transforms.functional"] = "torch.utils.data.transforms", ["torchtext"] = "torch.utils.data.text", ["torch.optim.lr_scheduler"] = "torch.optim.lr_scheduler", ["torch.utils"] = "torch.utils", ["torch.nn.utils"] = "torch.nn.utils",
  ["torch.amp"] = "torch.amp", ["torch.cuda.amp"] = "torch.amp", ["torch.autograd"] = "torch.autograd", ["torch.func"] = "torch.func", ["torch.distributed"] = "torch.distributed", ["torch.nn.init"] = "torch.nn.init", ["torch.linalg"] = "torch.linalg", ["torchvision.io"] = "torch.utils.data",
}
-- Modules of Python whose work Lua's libraries do, with a word about it.
words.standard = {
  math = "math is there already", os = "os and io are there already", sys = "arg holds the words after the file's name", random = "math.random, torch.rand", time = "os.time(), torch.perf_counter()",
  json = "torch.save keeps tables", copy = "x:clone() copies a tensor", glob = "torch.utils.data.glob", collections = "tables do it", typing = "Lua has no types to write", tqdm = "torch.progress shows how far a loop is",
  argparse = "arg holds the words after the file's name", itertools = "loops do it", functools = "functions do it", pathlib = "paths are texts", warnings = "torch.notes switches notes", logging = "print", datetime = "os.date()",
  string = "string is there already", re = "string.match and string.gsub", csv = "torch.utils.data.read_csv", pickle = "torch.save and torch.load", dataclasses = "tables do it", gc = "collectgarbage()", shutil = "os.rename, os.remove", contextlib = "do local x <close> = ... end",
  sklearn = "torch.utils.data, torch.metrics", torchmetrics = "torch.metrics", scipy = "torch.linalg, torch.special", einops = "x:view, x:permute", transformers = "torch.models", __future__ = "nothing is to be written", abc = "nothing is to be written", urllib = "io.popen", requests = "io.popen", seaborn = "torch.plot", torchsummary = "print(net)", torchinfo = "print(net)", wandb = "scripts/training.lua writes metrics", ["torch.utils.tensorboard"] = "scripts/training.lua writes metrics", subprocess = "io.popen", threading = "DataLoader has num_workers", inspect = "debug.getinfo", enum = "tables do it",
}

-- Names of modules that are not there, with a word about them.
words.roots = {
  np = "tensors do what NumPy's arrays do", numpy = "tensors do what NumPy's arrays do", plt = "plot(y) draws; torch.plot in files", pd = "torch.utils.data.read_csv reads tables", torchvision = words.remarks.vision,
  sys = "arg holds the words after the file's name", random = "math.random and torch.rand make random numbers", time = "os.time() and torch.perf_counter() tell the time", json = "torch.save keeps tables",
  transforms = "they are in torch.utils.data.transforms", datasets = "they are in torch.utils.data", f = words.remarks.f, re = "string.match and string.gsub look into texts", Image = "torch.utils.data.read_image reads pictures", copy = "x:clone() copies",
}

-- What the prompt has as names of its own, and files do not.
words.shortcuts = {nn = "torch.nn", F = "torch.nn.functional", optim = "torch.optim", data = "torch.utils.data", dist = "torch.distributed", plot = "torch.plot", hist = "torch.hist"}

-- Lines for a system's shell or a notebook: what to write instead.
function words.command(text)
  local line = text:match "^%s*[$!%%]?%s*([^\n]*%S)%s*$"
  if not line then return nil end
  if line:find "^pip3? install " or line:find "^conda install " or line:find "^python3? %-m pip " then return "-- nothing is to be installed" end
  if line:find "^matplotlib " and text:find "^%s*%%" then return "-- plot(y) draws here" end
  local file, rest = line:match "^python3? ([%w_./%-]+)%.py%s*(.*)$"
  if not file then return nil end
  local all = {}
  for word in rest:gmatch "%S+" do all[#all + 1] = ("%q"):format(word) end
  return (#all > 0 and "arg = {" .. table.concat(all, ", ") .. "}; " or "") .. ('dofile "%s.lua"'):format(file)
end

return words
