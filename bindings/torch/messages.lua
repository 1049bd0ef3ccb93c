-- The texts of error reports, by code: `title` stands in the first line of a report (%s is the operation)
-- where the picture below it says the rest; `rule` is what %explain tells; `example` runs as it stands.
-- One table, so that the texts can be had in other languages. The engine's own sentences are not here.
local messages = {}

messages.words = {
  fits = "would fit:",
  try = "try:",
  explain = "%%explain %s shows the rule on your sizes",
  dims_are = "dim %d is %d, dim %d is %d",
  dim_is = "dim %d is %d",
  in_features = "in_features is %d",
  another_linear = "nn.Linear(%d, %d)  -- if in_features is wrong",
  elements = "%d elements",
  channels = "%d channels (dim %d)",
  one_channel = "%d channel (dim %d)",
  channels_expected = "%d channels expected",
  dimensions = "%d dimensions",
  one_dimension = "%d dimension",
  is_nil = "%s%s is nil, so it cannot be called",
  continued = "%s: line %d begins with \"(\", so it goes on with the line before and calls what that gives",
  semicolon = ";%s",
  colon = "%s is a method, and a point gives it no object to work on: a colon hands it %s",
  wrong_self = "%s:%s: self must be a %s, and is %s",
  right_self = "obj:%s(...), where obj is the object",
  wrong_arguments = "%s: does not take these arguments (%s)",
  text_plus = "texts are joined by .., not by +",
  text_times = "a text is repeated by rep, not by *",
  table_arithmetic = "a table is a list and no numbers: a tensor is made of it, and table.insert(t, value) makes it longer",
  from_one = "dimensions count from 1",
  lone_value = "a value alone is no statement in a file",
  is_method = "%s is a method, so it must be called",
  is_field = "%s is a field, not a method",
  python_function = "Python's %s is no function here",
  no_growth = "a tensor does not grow as a list does: torch.cat({%s, torch.tensor{value}}) is a longer one; or collect in a table",
  range_inside = "a range lies inside the tensor; one that stops at the ends, as Python's do: %s",
  range_meant = "%s  -- a range of rows; %s is one element",
  arange_ends = "torch.arange(1, %s)  -- arange(1, %s) ends before %s",
  python_method = "tables and texts have no method %s as in Python",
  python_text = "a text with values in it is made by format",
  at_the_prompt = "%s is there at the prompt; a file says first what it is",
  self_is_nil = "self is nil: %s is written with a point, and a colon gives it the object",
  python_module = "%s is a module of Python, which is not here",
  not_opened = "%s is nil: io.open could not open the file; assert says why",
  no_such_method = "the %s %s has no method %s",
  has_methods = "its methods: %s",
  no_module = "there is no %s here: %s",
  loop_number = "a loop over numbers has a first and a last one",
  loop_tensor = "a tensor is no iterator; its rows have numbers",
  loop_list = "a list is no iterator; ipairs goes through it",
  no_scope_held = "a device is a value; the default device inside of a function is a scope",
  no_scope_called = "a scope begins where its function is called",
  no_scope = "a variable with <close> holds a scope, a file or another object that ends with its block",
  format = "values are put into a text by format",
  next_of = "next gives the key first: the first of a list is [1]",
  joined_value = "a %s is not joined to a text as it is",
  joined = "a tensor is not joined to a text as it is",
  no_function = "a tensor is no function; elements are had with brackets",
  number_wanted = "%s wants a number, and this is a tensor; item() gives the number of a tensor with one element",
  short_batch = "DataLoader(set, {drop_last=true})  -- the loader's last batch has %d of %d rows",
  more = "   .. %d more",
  entry_line = "%s line %d",
  mean_name = "did you mean %s?",
  assigned = {["1"] = "the tensor", ["3"] = "the value"},
  no_method = "torch.%s, which is a function and not a method",
  made = "%s was made in line %d: %s",
  to_run = "An example to run:",
  no_error = "no error yet: %explain CODE shows one of these",
  no_code = "no code \"%s\"; there are: %s",
}

messages.codes = {
  ["SHAPE-1"] = {
    title = "%s needs equal inner sizes",
    rule = "The product of matrices [n, k] and [k, m] is [n, m]: the last size of the first must be the last but one of the second. Dimensions before these are batches.",
    example = "x = torch.ones(2, 3)\nw = torch.ones(4, 3)\nx:matmul(w:t())   -- [2, 3] times [3, 4]",
  },
  ["SHAPE-2"] = {
    rule = "Shapes are laid under each other from the right. Two sizes agree when they are equal or one of them is 1 (then it is stretched); a missing one counts as 1.",
    example = "a = torch.ones(2, 3)\nb = torch.tensor{10.0, 20.0}\na + b:unsqueeze(2)   -- [2, 3] and [2, 1]",
  },
  ["SHAPE-3"] = {
    rule = "A new shape must hold as many elements as there are: the product of its sizes. One size may be -1: it is worked out.",
    example = "x = torch.arange(6)\nx:reshape(2, -1)   -- [2, 3]",
  },
  ["SHAPE-4"] = {
    rule = "view shows the same memory in another shape, so the elements must lie there in order; after a transpose they do not. reshape copies when it must.",
    example = "x = torch.ones(2, 3):t()\nx:reshape(6)",
  },
  ["SHAPE-5"] = {
    rule = "cat joins tensors along a dimension that they have: all other sizes must be equal. stack makes a new dimension: all sizes must be equal.",
    example = "a, b = torch.ones(2, 3), torch.ones(2, 4)\ntorch.cat({a, b}, 2)   -- [2, 7]",
  },
  ["SHAPE-6"] = {
    rule = "nn.Linear(in, out) works on the last dimension: [.., in] becomes [.., out]. Its weight is [out, in]. Images are flattened first: x:flatten(2) keeps the batch.",
    example = "fc = torch.nn.Linear(12, 5)\nx = torch.ones(2, 3, 4)\nfc(x:flatten(2))   -- [2, 12] to [2, 5]",
  },
  ["SHAPE-7"] = {
    rule = "Convolution and pooling take [batch, channels, sizes ..] or, for one sample, [channels, sizes ..]. The channels must be those that the layer was made for.",
    example = "conv = torch.nn.Conv2d(1, 8, 3)\nx = torch.ones(10, 28, 28)   -- 10 grey images\nconv(x:unsqueeze(2))",
  },
  ["SHAPE-8"] = {
    rule = "In training, batch_norm takes mean and variance of each channel over the batch; one value has no variance. The last batch of an epoch is often smaller: leave it out (drop_last=true), or call model:eval() when not training.",
    example = "bn = torch.nn.BatchNorm1d(3)\nbn:eval()(torch.ones(1, 3))",
  },
  ["SHAPE-9"] = {
    rule = "A loss compares predictions with targets. For class numbers the targets have the scores' shape without the dimension of classes: [n, classes] and [n].",
    example = "scores = torch.zeros(3, 4)\ny = torch.tensor{{1}, {2}, {4}}\ntorch.nn.functional.cross_entropy(scores, y:squeeze(2))",
  },
  ["SHAPE-10"] = {
    rule = "item() gives the one number of a tensor with one element.",
    example = "x = torch.tensor{1.0, 2.0}\nx:sum():item()\nx[1]:item()",
  },
  ["SHAPE-0"] = {rule = "The sizes of these tensors do not fit this operation; ?name shows its rule.", example = "torch.ones(2, 3).shape"},
  ["DIM-1"] = {
    rule = "Dimensions count from 1; -1 is the last. A tensor with shape [2, 3] has dimensions 1 and 2.",
    example = "x = torch.ones(2, 3)\nx:sum(2)    -- over the columns: [2]\nx:sum(-1)   -- the same",
  },
  ["INDEX-1"] = {
    rule = "Positions count from 1; -1 is the last. Ranges {first, last} include both ends, {first} goes to the end, and {k, k - 1} is empty. A float counts where it is whole, as 2.0; 2.5, 0 and what lies past the end are errors, in ranges too.",
    example = "x = torch.arange(5)\nx[5]\nx[-1]\nx[{{2, 3}}]\nx[{{2.0}}]",
  },
  ["INDEX-2"] = {
    rule = "Labels are positions: with C classes they are 1 to C. Data made for Python counts from 0: add 1.",
    example = "y = torch.tensor{0, 1, 2}   -- from 0\ntorch.nn.functional.cross_entropy(torch.zeros(3, 3), y + 1)",
  },
  ["DTYPE-1"] = {
    rule = "Matrix products and layers want one type on all sides. x:float(), x:long() and x:to(other.dtype) convert.",
    example = "x = torch.ones(2, 3)\nw = torch.ones(3, 2):long()\nx:matmul(w:float())",
  },
  ["DTYPE-2"] = {
    rule = "This takes floating point numbers: a mean of integers is rarely an integer. Convert first.",
    example = "x = torch.tensor{1, 2}\nx:float():mean()",
  },
  ["DTYPE-3"] = {
    rule = "Class numbers are int64; probabilities, and the targets of regressions, are floating point.",
    example = "y = torch.tensor{1.0, 2.0}\ntorch.nn.functional.cross_entropy(torch.zeros(2, 3), y:long())",
  },
  ["DTYPE-4"] = {
    rule = "x:add_(y) stores the result in x, whose type stays. A result of a higher type does not go in.",
    example = "x = torch.tensor{1, 2}\nx = x:add(1.5)   -- a new tensor of float32",
  },
  ["DTYPE-0"] = {rule = "This operation does not take this type; x:float(), x:long() and x:bool() convert.", example = "torch.ones(2):long().dtype"},
  ["DEVICE-1"] = {
    rule = "All tensors of an operation lie on one device. Move data to the model's device once, where it is loaded.",
    example = "x = torch.ones(2)\nx:to(torch.device(\"cpu\")).device",
  },
  ["GRAD-1"] = {
    rule = "A gradient says how one number changes. Make one of the tensor (sum, mean, a loss), or say how much each element counts.",
    example = "x = torch.ones(2, {requires_grad=true})\ny = x * 3\ny:sum():backward()\nx.grad",
  },
  ["GRAD-2"] = {
    rule = "A tensor with requires_grad=true is where gradients end, so it may not change while a graph is recorded. A step on weights is no part of the graph: take it inside torch.no_grad, or leave it to an optimiser.",
    example = "w = torch.ones(2, {requires_grad=true})\n(w * 3):sum():backward()\ntorch.no_grad(function() w:sub_(0.1 * w.grad) end)",
  },
  ["GRAD-3"] = {
    rule = "backward() frees what the graph kept, so a graph serves one pass. Mostly the forward pass belongs into the loop, or a state carried from step to step needs h = h:detach(). retain_graph=true keeps everything: only for two passes over one graph.",
    example = "w = torch.ones(2, {requires_grad=true})\nfor i = 1, 2 do w:exp():sum():backward() end   -- a new graph each time",
  },
  ["GRAD-4"] = {
    rule = "Some gradients need the operation's input or result as it was. A method that ends in _ changes it; y = y:add(1), without the _, makes a new tensor.",
    example = "w = torch.ones(2, {requires_grad=true})\ny = w:exp()\ny = y + 1\ny:sum():backward()",
  },
  ["GRAD-5"] = {
    rule = "backward() goes from a result back to tensors with requires_grad=true. no_grad, detach(), item() and integers end the way.",
    example = "w = torch.ones(2, {requires_grad=true})\nloss = (w * 2):sum()\nloss:backward()",
  },
  ["GRAD-0"] = {rule = "Gradients are recorded from tensors with requires_grad to the number on which backward is called; ?backward tells more.", example = "x = torch.ones(2, {requires_grad=true})\n(x * 2):sum():backward()\nx.grad"},
  ["ARG-1"] = {
    rule = "Named arguments stand in a table: x:sum{dim=1, keepdim=true}. ?name shows the names.",
    example = "torch.ones(2, 3):sum{dim=1, keepdim=true}",
  },
  ["ARG-2"] = {
    rule = "Lua turns <, <=, >, >= and == into one boolean, so between tensors they raise. Methods give a mask: x:gt(3), x:eq(y). A tensor is always true in a condition: use :any():item() or :all():item().",
    example = "x = torch.tensor{1, 5}\nx:gt(3)\nx:gt(3):any():item()\ntorch.equal(x, x)",
  },
  ["ARG-3"] = {
    rule = "x:sum() hands x over; x.sum() hands over nothing.",
    example = "x = torch.ones(3)\nx:sum()",
  },
  ["ARG-0"] = {rule = "The arguments do not fit; ?name shows the signature.", example = "torch.zeros(2, 3)"},
  ["NAME-1"] = {rule = "There is no such name; ??text searches, Tab completes.", example = "torch.relu(torch.tensor{-1.0, 2.0})"},
  ["MODULE-1"] = {
    rule = "A module finds its layers in its own fields (self.fc = nn.Linear(..)), plain tables in fields included. Layers in other variables are not trained.",
    example = "nn = torch.nn\nNet = nn.class(\"Net\")\nfunction Net:init() self.fc = nn.Linear(2, 3) end\n#Net():parameters()",
  },
  ["STATE-1"] = {
    rule = "The names and shapes of a saved state must be those of the module; {strip=\"module.\"} takes a prefix off, {strict=false} loads what fits by name.",
    example = "a, b = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)\nb:load_state_dict(a:state_dict())",
  },
  ["DATA-1"] = {
    rule = "A batch stacks its samples, so they need one shape. Give the loader a collate_fn that pads or packs, or cut the samples.",
    example = "a, b = torch.ones(2), torch.ones(3)\ntorch.stack{torch.nn.functional.pad(a, {0, 1}), b}",
  },
  ["MEM-1"] = {
    rule = "Tensors are freed when nothing names them any more. Often a list of losses keeps every graph: total = total + loss:item().",
    example = "total = 0\nloss = torch.ones(1, {requires_grad=true}):sum()\ntotal = total + loss:item()",
  },
  ["VALUE-0"] = {rule = "The value does not do for this argument; ?name shows what does.", example = "torch.zeros(2)"},
  ["IO-0"] = {rule = "The file cannot be read or written; the message names it.", example = "torch.zeros(2)"},
  ["LINALG-0"] = {rule = "The matrix does not allow this.", example = "torch.eye(2)"},
  ["COLL-1"] = {
    rule = "All ranks of a group call the same collectives in the same order, with the same shape, dtype, operation and root. Nothing was sent, so all can go on.",
    example = "torch.distributed.init_process_group()\nx = torch.ones(2)\ntorch.distributed.all_reduce(x)\ntorch.distributed.destroy_process_group()",
  },
  ["DIST-0"] = {rule = "The processes do not agree, or one is gone.", example = "torch.zeros(2)"},
  ["STOP-0"] = {rule = "Ctrl-C stopped this. Variables are as they were.", example = "torch.zeros(2)"},
}

return require("torch.language").of_table(messages)
