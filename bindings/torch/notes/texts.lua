-- The texts of the notes, by code, in one place, so that they can be put into other languages.
local texts = {}

-- A code's texts by form: lines with {values}; a line one of whose values is absent is left out.
-- `once` is "line", "run" or "op" (once for an operation, wherever it stands); `kind` is the error's where the switch says "error".
texts.catalogue = {
  ACC = {
    kind = "autograd", once = "run", doc = ".grad holds the sum of several backward passes, because nothing zeroed it in between.",
    rule = "backward() adds to .grad. Drop the old gradients before each pass: opt:zero_grad(), or w.grad = nil. Where several passes are meant to add up, opt:step{accumulated=n} says so.",
    example = "w = torch.ones(1, {requires_grad=true})\nopt = torch.optim.SGD({w}, {lr=0.1})\nopt:zero_grad();\n(w * 2):sum():backward()\nopt:step()",
    texts = {
      step = {".grad holds the sum of {passes} backward passes, and a step has used the first of them already",
        "call opt:zero_grad() before backward, or opt:step{accumulated={passes}} if it is intended"},
      prompt = {"{name}.grad holds the sum of {passes} backward passes",
        "for the last one alone: {name}.grad = nil before backward, or opt:zero_grad()"},
    },
  },
  B2 = {
    kind = "broadcast", once = "line", doc = "Both sides of an operation were stretched, [n, 1] against [n], and the result became one number.",
    rule = "Shapes are lined up from the right: [n, 1] with [n] stretches both and gives [n, n], every pair. A table is fine; a mean over it is rarely what a loss should be. Give both sides one shape.",
    example = "pred, y = torch.ones(3, 1), torch.ones(3);\n(pred - y).shape              -- [3, 3]\n(pred:squeeze(2) - y).shape   -- [3]",
    texts = {
      loss = {"{op}: prediction {a}, target {b}: every pair was compared ({count} terms)", "{picture}",
        "if pairs were meant: {fix}"},
      op = {"{left}{a} {symbol} {right}{b} became {shape}; both sides were stretched", "{picture}",
        "if pairs were meant: {fix}"},
    },
  },
  DEV = {
    kind = "device", once = "op", doc = "An operation that a device has no kernel for runs on the CPU.",
    rule = "Most operations have kernels for CUDA devices, or are made of others that have. The rest run on the CPU: their arguments are copied there and the results back, each time. The numbers are the CPU's, the device waits meanwhile. ?cuda lists these operations.",
    texts = {
      op = {"{op} has no kernel on {device}: it runs on the CPU, on copies of its arguments", "the result is right and lies on {device}, but the device waits for it; ?cuda lists such operations"},
    },
  },
  EQ = {
    kind = "argument", once = "line", doc = "== or ~= with a tensor: Lua compares the objects, not their elements.",
    rule = "Lua gives == and ~= one boolean, and between values of different types it is false without asking anyone. eq and ne make masks.",
    example = "x = torch.tensor{1, 5}\nx:eq(5)\nx:eq(5):any():item()",
    texts = {
      number = {"{text} is always {answer}: Lua never compares a tensor with a {kind}", "an element-wise mask: {fix}"},
      tensor = {"{text} does not compare elements in Lua", "an element-wise mask: {fix}", "one boolean: {whole}"},
    },
  },
  LIST = {
    kind = "argument", once = "line", doc = "A list in double brackets, which is a text to Lua.",
    rule = "[[ and ]] are the quotes of a long text in Lua. Lists stand in braces, lists of lists too.",
    example = "x = torch.tensor{{1, 2}, {3, 4}}\nx.shape",
    texts = {list = {"{text} is a text in Lua, not a list", "a list: {fix}"}},
  },
  RANGE = {
    kind = "index", once = "run", doc = "x[{i, j}], one element of a matrix, met a tensor that fits the rows from i to j.",
    rule = "x[{i, j}] is the element in row i and column j. A range has braces of its own: x[{{i, j}}] are the rows from i to j, both with it.",
    example = "x = torch.zeros(6, 5)\nx[{1, 5}].shape\nx[{{1, 5}}].shape",
    texts = {range = {"{name}[{{first}, {last}}] is one element of {shape}, and meets {other}, the shape of rows {first} to {last}{at}", "a range of rows: {name}[{{{first}, {last}}}]"}},
  },
  SIZES = {
    kind = "argument", once = "line", doc = "Several names for x.shape, which is one value.",
    rule = "x.shape and x:size() give the sizes as one value, and Lua takes no list apart: the other names become nil. table.unpack gives several values of one.",
    example = "x = torch.zeros(2, 3)\nrows, columns = table.unpack(x.shape)\ncolumns",
    texts = {sizes = {"{text} gives one value, so {second} is nil", "the sizes one by one: {fix}"}},
  },
  WHITE = {
    kind = "value", once = "line", doc = "A picture of floating point numbers far above 1, which is all that is drawn as white.",
    rule = "Numbers from 0 to 1 go from black to white, and what is above is white. Bytes go from 0 to 255: x / 255 makes 0 to 1 of them, and x:byte() bytes of 0 to 255.",
    example = "x = torch.rand(3, 4, 4) * 255\n(x / 255):max():item() <= 1",
    texts = {picture = {"a picture of floating point numbers goes from 0 to 1; this one goes up to {max}, and all above 1 is white", "if it goes to 255: x / 255, or x:byte()"}},
  },
  FIELD = {
    kind = "argument", once = "line", doc = "A new field whose name is nearly that of a parameter or an option.",
    rule = "Lua makes a new field where a name is misspelt, and what it was meant to change stays as it is.",
    example = "layer = torch.nn.Linear(2, 3)\ntorch.no_grad(function() layer.weight:fill_(3) end)",
    texts = {
      parameter = {'{name} is a new field of this {class}; its parameter is called {near}', "to change the values: torch.no_grad(function() {called}.{near}:fill_(value) end)"},
      option = {"{name} is a new field of this {class}, which does nothing; options stand in the groups", "to change it: {called}.param_groups[1].{near} = value"},
    },
  },
  LABEL = {
    kind = "value", once = "line", doc = "A dataset's class numbers begin with 0; here they begin with 1.",
    rule = "Positions count from 1 in Lua, and classes are positions of the scores. A 0 among the labels is an error, but a batch without one passes, and every class is taken for the one below it.",
    example = "y = torch.tensor{0, 2, 1}\ndata.TensorDataset(torch.ones(3, 2), y + 1);",
    texts = {
      dataset = {"{name} holds class numbers from 0 to {most}; they count from 1 here, from 1 to {count}", "{fix}"},
      short = {"the labels of this epoch go from 1 to {most}, and the loss is over {count} classes: the last never occurs", "labels that counted from 0: {fix}; and for {most} classes the last layer gives {most} scores"},
      epoch = {"the labels of this epoch go from 0 to {most}; they count from 1 here, from 1 to {count}", "in the dataset, or in the loop: {fix}"},
    },
  },
  SCOPE = {
    kind = "autograd", once = "line", doc = "A scope such as torch.no_grad() that no <close> variable holds ends at once.",
    rule = "torch.no_grad() gives an object that ends the mode when its <close> variable goes. Where none holds it, nothing says where it should end, so it ends at once, and all is as before it. Scopes of a device or a stream are the same.",
    example = "x = torch.ones(2, {requires_grad=true})\ntorch.no_grad(function() return x * 2 end).requires_grad",
    texts = {
      bare = {"{call} alone ends with its statement{at}", "for some lines: {inside}", "for a block: do local _ <close> = {call} ... end"},
      open = {"{name} would never close {call}, so it ends with its statement{at}", "to the end of the block: local {name} <close> = {call}", "for some lines: {inside}"},
    },
  },
  F64 = {
    kind = "dtype", once = "line", doc = "A float64 constant turned a float32 computation into float64.",
    rule = "A float64 tensor with dimensions makes float64 of what it meets. Numbers and 0-d tensors do not: write constants as numbers, or convert them once.",
    example = "w = torch.ones(2, {requires_grad=true})\nk = torch.tensor({0.5, 2}, {dtype=\"float64\"});\n(w * k:float()).dtype",
    texts = {
      op = {"{op}: float64 {constant} turned float32 {chain} into float64, which takes twice the memory and time",
        "if that was not meant: {fix}"},
    },
  },
  GRAD = {
    kind = "autograd", once = "line", doc = ".grad was read of a tensor that keeps none.",
    rule = "Only leaves keep their gradient: tensors made with requires_grad=true, and parameters. What is computed from them passes it on; x:retain_grad() before backward keeps it.",
    example = "w = torch.ones(2, {requires_grad=true})\nh = w * 2\nh:retain_grad()\nh:sum():backward()\nh.grad",
    texts = {
      computed = {"{name}.grad is nil because {name} was computed (by {op}{at}): only leaves keep their gradient", "{fix}"},
      moved = {"{name}.grad is nil because {name} was computed (by {op}{at}); the leaf is the tensor before it", "{fix}"},
      constant = {"{name}.grad is nil because {name} does not require grad", "{fix}"},
      cut = {"{name}.grad is nil because {name} is in no graph: {why}"},
      unused = {"{name}.grad is nil because no backward pass has reached {name}"},
    },
  },
  IF = {
    kind = "argument", once = "line", doc = "A tensor as a condition: it is always true in Lua.",
    rule = "In Lua only nil and false are false, so a tensor is true whatever it holds. any() or all() and item() give the boolean.",
    example = "x = torch.tensor{1, -1}\nif x:gt(0):any():item() then print(\"some are positive\") end",
    texts = {
      condition = {"{text} is a tensor, and a tensor is always true in Lua", "its elements decide with: {fix}"},
    },
  },
  LRS = {
    kind = "value", once = "run", doc = "A schedule's step came before the optimiser's first step.",
    rule = "scheduler:step() says that an epoch is done and sets the rates of the next one: it comes after opt:step(). The other way round the first rate is never used.",
    example = "w = torch.ones(1, {requires_grad=true})\nopt = torch.optim.SGD({w}, {lr=0.1})\nscheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)\n(w * 2):sum():backward()\nopt:step()\nscheduler:step()",
    texts = {
      order = {"{name}: step was called before the optimiser's first step, so the first rate was skipped",
        "call opt:step() first, then scheduler:step()"},
    },
  },
  MAP = {
    kind = "device", once = "run", doc = "A file's tensors were on a device; there is none here, so they are on the CPU.",
    rule = "A saved tensor goes back to its device. On a machine without devices it goes to the CPU; map_location says so beforehand, and sends tensors elsewhere: a device, a table {[\"cuda:1\"]=\"cuda:0\"}, or a function.",
    example = "torch.save(torch.ones(2), \"ones.pt\")\ntorch.load(\"ones.pt\", {map_location=\"cpu\"})\nos.remove(\"ones.pt\");",
    texts = {
      cpu = {"{path} holds tensors of {device}, and there is no CUDA device here: they are on the CPU",
        "torch.load(path, {map_location=\"cpu\"}) asks for that"},
    },
  },
  MODE = {
    kind = "autograd", once = "run", doc = "A model with dropout or batch norm ran under no_grad in training mode.",
    rule = "Dropout drops and batch norm uses the batch's own statistics in training mode. no_grad does not change that; net:eval() does.",
    example = "net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))\nnet:eval()\ntorch.no_grad(function() return net(torch.ones(1, 2)).shape end)",
    texts = {
      layer = {"{layer} ran in training mode under no_grad{at}, so the results are not those of the trained model",
        "before evaluation: net:eval(); back to training: net:train()"},
    },
  },
  NAN = {
    kind = "value", once = "line", doc = "The loss, or a gradient, is nan.",
    rule = "A nan spreads through everything computed from it. It begins where an operation has no value (log and sqrt of negative numbers, 0/0) or none that the type can hold; a gradient also begins it where the slope is infinite. %nan loss looks for the place.",
    example = "x = torch.tensor({4.0, 0.0}, {requires_grad=true})\nx:clamp{min=1e-12}:sqrt():sum():backward()\nx.grad",
    texts = {
      loss = {"the loss is nan; first {what} in {op}{at}", "{element}", "{why}"},
      data = {"the loss is nan; the first {what} stands in what {op}{at} reads", "{why}"},
      parameter = {"the loss is nan, because a parameter that {op}{at} reads holds {what}", "{why}"},
      somewhere = {"the loss is nan", "%nan loss at the prompt looks for the operation that made it"},
      gradient = {"a gradient is not finite; first {what} in the gradient of {op}{at}", "{element}", "{why}"},
    },
  },
  REG = {
    kind = "argument", once = "run", doc = "A layer works in a network that does not know it, and is not trained.",
    rule = "A network knows the layers that are assigned to its fields, also in plain tables: self.layers = {...}. A layer in a local variable works in forward, but parameters(), to(), train() and state_dict() do not reach it.",
    example = "Net = torch.nn.class(\"Net\")\nfunction Net:init() self.layers = {torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)} end\n#Net():parameters()",
    texts = {
      step = {"{layer} works in {net}, but {net} does not know it: {count} numbers had gradients and are not trained by {optimizer}",
        "in {net}:init, before the optimiser is made: {fix}"},
      made = {"{layer} stands in an object that {net} does not look into: its {count} numbers are not given to {optimizer}",
        "in {net}:init: {fix}"},
    },
  },
  SOFT = {
    kind = "argument", once = "line", doc = "cross_entropy of probabilities: it applies log_softmax itself.",
    rule = "cross_entropy takes raw scores: it applies log_softmax itself, without overflow. Given probabilities it still runs, and learns badly.",
    example = "scores = torch.zeros(2, 3)\ntorch.nn.functional.cross_entropy(scores, torch.tensor{1, 3})",
    texts = {
      loss = {"cross_entropy already applies log_softmax, and its input comes from {op}{at}", "pass the raw scores"},
    },
  },
  SUM = {
    kind = "autograd", once = "line", doc = "A running total keeps the graph of every iteration.",
    rule = "total = total + loss makes a new operation that holds the old ones: the graph of every iteration stays in memory. A number holds nothing.",
    example = "w = torch.ones(1, {requires_grad=true})\ntotal = 0\nfor i = 1, 3 do total = total + (w * i):sum():item() end\ntotal",
    texts = {
      total = {"graph depth grew by 1 per iteration through '{name}'{at}", "a number is enough: use {loss}:item()"},
    },
  },
  SYNC = {
    kind = "value", once = "line", doc = "item() in a loop: each call waits for the device, or picks one element.",
    rule = "item() takes a number out of a tensor: on a device it waits until everything before it is done. Sum tensors and take one number at the end; tolist() takes all elements at once.",
    example = "x = torch.ones(5)\nx:sum():item()\n#x:tolist()",
    texts = {
      device = {"item() has run {count} times on this line, and each one waits for {device}",
        "add up the tensors themselves (total = total + x:detach()) and call item() once at the end"},
      element = {"item() has picked {count} elements one by one on this line",
        "all of them at once: x:tolist()"},
    },
  },
}

-- Why an operation makes nan or infinity: what its inputs tell, and a few whose reason is their own.
texts.nan = {
  forward = {
    div = "0/0 is nan, x/0 infinite: add a little below the line, a / (b + 1e-8)",
    pow = "a negative number to a fractional power is nan, 0 to a negative one infinite",
    exp = "exp overflows above 88 in float32: subtract the maximum first, or use log_softmax or logsumexp",
    softmax = "a row whose scores are all -infinity has no softmax: leave one of them finite",
    std = "the deviation of one element is nan: {correction=0}",
  },
  backward = {
    sqrt = "d sqrt(x) is 1/(2 sqrt(x)), which is infinite at 0; where() does not stop it, 0 times infinity is nan: clamp before the sqrt, x:clamp{min=1e-12}:sqrt()",
    log = "d log(x) is 1/x, which is infinite at 0; where() does not stop it: clamp before the log, x:clamp{min=1e-12}:log()",
    div = "d (a/b) is -a/b^2 in b, infinite at 0; where() does not stop it: make b safe before the division",
    norm = "the norm has no slope at 0: (x:pow(2):sum() + 1e-12):sqrt()",
    where = "where() passes 0 to the side that was not chosen, and 0 times infinity is nan: make its values safe first",
  },
  infinite_input = "there is an infinity among its inputs",
  slope = "its slope is infinite or none there; where() does not stop it, 0 times infinity is nan: change the input before %s, as with x:clamp{min=1e-12}",
  no_value = "%s has no value at %g: clamp before it, x:clamp{min=1e-12}:%s()",
  too_large = "the result is larger than its type can hold: make the inputs smaller, or compute in float64",
  parameter = "a step put it there, from a gradient that was not finite: the prompt names the operation (tycho -i, then the steps); a smaller lr or clipped gradients often end it",
  data = "the numbers that it reads hold it before anything is computed: x:isnan():any() finds which",
}

return require("torch.language").of_table(texts)
