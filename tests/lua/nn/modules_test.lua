-- Modules beyond the vectors: hooks, containers, packed sequences, copies, states, reparametrised weights, texts.
local torch = torch
local nn = torch.nn

local function names(list)
  local out = {}
  for i, pair in ipairs(list) do out[i] = pair[1] end
  return table.concat(out, " ")
end
local function raises(f, text, kind)
  local ok, err = pcall(f)
  check.yes(not ok, "must fail: " .. text)
  check.contains(tostring(err), text)
  if kind then check.equal(err.kind, kind) end
  return err
end

test("modules in fields and in plain tables are registered, in order, shared ones once", function()
  local Net = nn.class("Net")
  function Net:init()
    self.first = nn.Linear(2, 2)
    self.blocks = {nn.Linear(2, 3), nn.ReLU(), {deep = nn.Linear(3, 1)}}
    self.again = self.first
    self.scale = nn.Parameter(torch.ones(1))
    self:register_buffer("kept", torch.zeros(1))
    self:register_buffer("temporary", torch.zeros(1), false)
  end
  local net = Net()
  check.equal(names(net:named_parameters()), "scale first.weight first.bias blocks.0.weight blocks.0.bias blocks.2.deep.weight blocks.2.deep.bias")
  check.equal(names(net:named_buffers()), "kept temporary")
  check.equal(names(net:named_modules()), " first blocks.0 blocks.1 blocks.2.deep")
  check.equal(names(net:named_children()), "first blocks.0 blocks.1 blocks.2.deep")
  local state = net:state_dict()
  check.yes(state.kept and not state.temporary, "only what is persistent is saved")
  check.yes(rawequal(net:get_parameter "blocks.2.deep.weight", net.blocks[3].deep.weight), "by name")
  raises(function() net:get_submodule "blocks.7" end, 'no "7"')
end)

test("train, eval, apply, requires_grad_ and conversions reach everything below", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()))
  net:eval()
  for _, m in ipairs(net:modules()) do check.equal(m.training, false) end
  net:train()
  local seen = {}
  check.yes(net:apply(function(m) seen[#seen + 1] = m._name end) == net, "apply returns the module")
  check.equal(seen[#seen], "Sequential")
  check.equal(#seen, 5)
  net:requires_grad_(false)
  for _, p in ipairs(net:parameters()) do check.equal(p.requires_grad, false) end
  check.equal(#net:parameters(), 4)
  net:requires_grad_():double()
  check.equal(net[1].weight.dtype, torch.float64)
  check.equal(net[2][1].running_mean.dtype, torch.float64)
  check.equal(net[2][1].num_batches_tracked.dtype, torch.int64)
  net:half():float()
  net(torch.randn(4, 2)):sum():backward()
  check.yes(net[1].weight.grad, "a gradient")
  net:zero_grad()
  check.equal(net[1].weight.grad, nil)
end)

test("forward hooks see and replace inputs and outputs, and go away", function()
  local layer, log = nn.Linear(2, 2), {}
  local pre = layer:register_forward_pre_hook(function(_, inputs) log[#log + 1] = "pre" return {inputs[1] * 0} end)
  local post = layer:register_forward_hook(function(_, inputs, output) log[#log + 1] = "post" return output + 1 end)
  local y = layer(torch.ones(1, 2))
  check.yes(torch.allclose(y, layer.bias + 1), "both replaced")
  check.equal(table.concat(log, " "), "pre post")
  pre:remove()
  post:remove()
  layer(torch.ones(1, 2))
  check.equal(#log, 2)
end)

test("backward hooks see the gradients of inputs and outputs, and replace them", function()
  local layer = nn.Linear(3, 2)
  local x = torch.ones(4, 3):requires_grad_()
  local shapes
  local handle = layer:register_full_backward_hook(function(_, grad_input, grad_output)
    shapes = {grad_input[1].shape, grad_output[1].shape}
    return {grad_input[1] * 2}
  end)
  layer(x):sum():backward()
  check.equal(tostring(shapes[1]), "[4, 3]")
  check.equal(tostring(shapes[2]), "[4, 2]")
  check.yes(torch.allclose(x.grad, 2 * layer.weight:sum(1):expand(4, 3)), "the gradient was doubled")
  handle:remove()
  x.grad = nil
  layer:register_full_backward_pre_hook(function(_, grad_output) return {grad_output[1] * 3} end)
  layer(x):sum():backward()
  check.yes(torch.allclose(x.grad, 3 * layer.weight:sum(1):expand(4, 3)), "the gradient of the output was tripled")
end)

test("Sequential and ModuleList are lists that can be changed", function()
  local net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
  check.yes(net[-1] == net[3], "from the end")
  net:insert(2, nn.BatchNorm1d(4)):append(nn.Tanh())
  check.equal(#net, 5)
  check.equal(tostring(net(torch.randn(3, 2)).shape), "[3, 1]")
  check.equal(net:pop()._name, "Tanh")
  check.equal(net:pop(2)._name, "BatchNorm1d")
  check.equal(names(net:named_parameters()), "0.weight 0.bias 2.weight 2.bias")
  check.equal(#net:slice(1, 2), 2)
  local list = nn.ModuleList {nn.Linear(1, 1)}
  list:extend {nn.ReLU(), nn.Linear(1, 2)}
  check.equal(#list:parameters(), 4)
  raises(function() list:append "text" end, "not a module")
  raises(function() list:pop(9) end, "out of range", "index")
  local named = nn.Sequential {{"one", nn.Linear(2, 2)}, {"two", nn.ReLU()}}
  check.equal(names(named:named_parameters()), "one.weight one.bias")
  named:load_state_dict(named:state_dict())
end)

test("ModuleDict, ParameterList and ParameterDict register what they hold", function()
  local dict = nn.ModuleDict {{"b", nn.Linear(1, 1)}, {"a", nn.ReLU()}}
  check.equal(table.concat(dict:keys(), " "), "b a")
  check.equal(#dict, 2)
  check.equal(dict:pop("a")._name, "ReLU")
  check.yes(dict:contains "b" and not dict:contains "a", "contains")
  raises(function() nn.ModuleDict {forward = nn.ReLU()} end, "a name of its own")
  local parameters = nn.ParameterList {torch.ones(2), torch.zeros(3)}
  check.equal(names(parameters:named_parameters()), "0 1")
  check.equal(names(nn.ParameterDict {w = torch.ones(2)}:named_parameters()), "w")
end)

test("tied weights are one parameter, in copies too", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  net[2].weight = net[1].weight
  check.equal(#net:parameters(), 3)
  local copy = net:clone()
  check.equal(#copy:parameters(), 3)
  check.yes(rawequal(copy[1].weight, copy[2].weight) and not rawequal(copy[1].weight, net[1].weight), "tied to each other only")
  torch.no_grad(function() copy[1].weight:zero_() end)
  check.yes(net[1].weight:abs():sum():item() > 0, "the first is untouched")
end)

test("packed sequences give each sequence what it gets alone", function()
  torch.manual_seed(1)
  local sequences = {torch.randn(3, 2), torch.randn(5, 2), torch.randn(1, 2)}
  for _, kind in ipairs {"RNN", "LSTM", "GRU"} do
    local net = nn[kind](2, 3, {num_layers = 2, bidirectional = true})
    local packed = nn.utils.rnn.pack_sequence(sequences, {enforce_sorted = false})
    local out, state = net(packed)
    local padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
    check.equal(table.concat(lengths:tolist(), " "), "3 5 1")
    for i, s in ipairs(sequences) do
      local alone, last = net(s)
      check.yes(torch.allclose(alone, padded:select(2, i):narrow(1, 1, #s), {atol = 1e-6}), kind .. " outputs")
      local h, h_alone = kind == "LSTM" and state[1] or state, kind == "LSTM" and last[1] or last
      check.yes(torch.allclose(h_alone, h:select(2, i), {atol = 1e-6}), kind .. " states")
    end
  end
  raises(function() nn.utils.rnn.pack_sequence(sequences) end, "enforce_sorted=false", "value")
  local padded = nn.utils.rnn.pad_sequence(sequences, {batch_first = true, padding_value = -1})
  check.equal(tostring(padded.shape), "[3, 5, 2]")
  check.equal(padded[{3, 2, 1}]:item(), -1.0)
end)

test("recurrent layers take no sequences at all, and refuse no time steps", function()
  for _, kind in ipairs {"RNN", "LSTM", "GRU"} do
    local net = nn[kind](2, 3, {bidirectional = true})
    local y = net(torch.randn(4, 0, 2))
    check.equal(tostring(y.shape), "[4, 0, 6]")
    y:sum():backward()
    raises(function() net(torch.randn(0, 4, 2)) end, "at least one time step", "shape")
  end
end)

test("an LSTM goes on from its state as if there had been no break", function()
  local lstm, x = nn.LSTM(2, 3), torch.randn(6, 4, 2)
  local whole, last = lstm(x)
  local first, state = lstm(x[{{1, 3}}])
  local second, last_too = lstm(x[{{4, 6}}], state)
  check.yes(torch.allclose(whole, torch.cat({first, second}), {atol = 1e-6}), "outputs")
  check.yes(torch.allclose(last[2], last_too[2], {atol = 1e-6}), "c")
  raises(function() lstm(x, torch.zeros(1, 4, 3)) end, "{h, c}")
  raises(function() lstm(x, {torch.zeros(1, 4, 2), torch.zeros(1, 4, 3)}) end, "must be [1, 4, 3]", "shape")
  raises(function() lstm(torch.zeros(6, 4, 5)) end, "input_size=2", "shape")
end)

test("attention with a mask sees nothing of what is masked, with and without weights", function()
  torch.manual_seed(2)
  local mha, x = nn.MultiheadAttention(4, 2, {batch_first = true}), torch.randn(2, 5, 4)
  local mask = torch.ones(5, 5):triu(1):bool()
  local y, w = mha(x, x, x, {attn_mask = mask})
  check.yes(w:triu(1):abs():sum():item() == 0, "no weight above the diagonal")
  local z, none = mha(x, x, x, {attn_mask = mask, need_weights = false})
  check.equal(none, nil)
  check.yes(torch.allclose(y, z, {atol = 1e-5}), "the same without weights")
  local c = mha(x, x, x, {is_causal = true, need_weights = false})
  check.yes(torch.allclose(y, c, {atol = 1e-5}), "and with is_causal")
  raises(function() mha(x, x, x, {mask = mask}) end, 'no argument "mask"')
end)

test("a transformer's copies of a layer begin equal and are trained apart", function()
  local stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, {dropout = 0.0}), 2)
  check.yes(torch.equal(stack.layers[1].linear1.weight, stack.layers[2].linear1.weight), "equal")
  check.equal(#stack:parameters(), 24)
  check.equal(stack:named_parameters()[1][1], "layers.0.self_attn.in_proj_weight")
end)

test("weight_norm and spectral_norm make the weight from other parameters, and are taken back", function()
  local layer = nn.Linear(3, 4)
  local before = layer.weight:detach():clone()
  nn.utils.weight_norm(layer)
  check.equal(names(layer:named_parameters()), "bias weight_g weight_v")
  layer(torch.ones(1, 3)):sum():backward()
  check.yes(layer.weight_g.grad and layer.weight_v.grad, "gradients")
  check.yes(torch.allclose(layer.weight, before, {atol = 1e-6}), "the same weight")
  nn.utils.remove_weight_norm(layer)
  check.equal(names(layer:named_parameters()), "bias weight")
  local s = nn.utils.spectral_norm(nn.Linear(5, 4), {n_power_iterations = 30})
  s(torch.ones(1, 5))
  check.yes(math.abs(torch.linalg.svdvals(s.weight:detach())[1]:item() - 1) < 1e-3, "the largest singular value is 1")
  raises(function() nn.utils.remove_weight_norm(s) end, "has none")
end)

test("gradients are clipped by norm and by value, and parameters become one vector and back", function()
  local w = torch.tensor({3.0, 4.0}, {requires_grad = true})
  w.grad = torch.tensor {3.0, 4.0}
  check.yes(math.abs(nn.utils.clip_grad_norm_({w}, 1.0):item() - 5) < 1e-6, "the norm before")
  check.yes(math.abs(w.grad:norm():item() - 1) < 1e-5, "the norm after")
  nn.utils.clip_grad_value_({w}, 0.7)
  check.yes(math.abs(w.grad[2]:item() - 0.7) < 1e-6, "the value")
  w.grad = torch.tensor {math.huge, 0.0}
  raises(function() nn.utils.clip_grad_norm_({w}, 1.0, {error_if_nonfinite = true}) end, "inf", "value")
  local net = nn.Linear(2, 3)
  local v = nn.utils.parameters_to_vector(net:parameters())
  check.equal(v:numel(), 9)
  nn.utils.vector_to_parameters(torch.arange(9.0), net:parameters())
  check.equal(net.bias[1]:item(), 6.0)
  raises(function() nn.utils.vector_to_parameters(torch.arange(8.0), net:parameters()) end, "8 elements", "shape")
end)

test("arguments are told by name, given as a table, and None is said by torch.none", function()
  check.equal(nn.Linear {2, 3, bias = false}.bias, nil)
  check.equal(nn.MaxPool2d(3).stride, 3)
  check.equal(nn.BatchNorm1d(3, {momentum = torch.none}).momentum, nil)
  check.equal(#nn.LayerNorm {2, 3}.normalized_shape, 2)
  raises(function() nn.Conv2d(1, 2) end, '"kernel_size" is missing')
  raises(function() nn.Conv2d(1, 2, 3, {kernel = 3}) end, 'no argument "kernel"')
  raises(function() nn.Conv2d(1, 2, 3, {kernel_size = 3}) end, "given twice")
  raises(function() nn.Conv2d(3, 4, 1, {groups = 2}) end, "do not divide", "shape")
  raises(function() nn.GroupNorm(3, 4) end, "do not divide", "value")
  raises(function() nn.MultiheadAttention(5, 2) end, "does not divide", "value")
end)

test("a pooling with indices is undone by its unpooling", function()
  local x = torch.arange(16.0):view(1, 1, 4, 4)
  local y, at = nn.MaxPool2d(2, {return_indices = true})(x)
  local back = nn.MaxUnpool2d(2)(y, at)
  check.equal(tostring(back.shape), "[1, 1, 4, 4]")
  check.equal(back:sum():item(), y:sum():item())
  check.equal(back[{1, 1, 4, 4}]:item(), 15.0)
end)

test("a transposed convolution takes the size that its result is to have", function()
  local up = nn.ConvTranspose2d(1, 1, 3, {stride = 2, padding = 1})
  check.equal(tostring(up(torch.ones(1, 1, 4, 4), {8, 8}).shape), "[1, 1, 8, 8]")
  raises(function() up(torch.ones(1, 1, 4, 4), {12, 12}) end, "not between 7 and 8", "shape")
end)

test("SyncBatchNorm takes the place of every BatchNorm", function()
  local net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Sequential(nn.BatchNorm2d(2)))
  local changed = nn.SyncBatchNorm.convert_sync_batchnorm(net)
  check.equal(changed[2][1]._name, "SyncBatchNorm")
  check.equal(#changed:parameters(), 4)
  check.equal(tostring(changed(torch.randn(2, 1, 3, 3)).shape), "[2, 2, 3, 3]")
end)

test("an embedding from given rows is frozen unless asked", function()
  local e = nn.Embedding.from_pretrained(torch.ones(4, 2))
  check.equal(e.weight.requires_grad, false)
  check.equal(nn.Embedding.from_pretrained(torch.ones(4, 2), {freeze = false}).weight.requires_grad, true)
  check.equal(nn.Embedding(4, 2, {padding_idx = -1}).padding_idx, 4)
  raises(function() nn.Embedding(4, 2, {padding_idx = 0}) end, "out of range", "index")
end)

test("every layer has a text in both spellings", function()
  local style = torch.get_printoptions().style
  local net = nn.Sequential(nn.Conv2d(1, 2, 3, {padding = 1, bias = false}), nn.Flatten(), nn.Softmax(2), nn.Embedding(5, 3, {padding_idx = 1}))
  check.contains(tostring(net), "(0): Conv2d(1, 2, kernel_size={3, 3}, stride={1, 1}, padding={1, 1}, bias=false)")
  torch.set_printoptions {style = "pytorch"}
  local text = tostring(net)
  torch.set_printoptions {style = style}
  check.equal(text, [[
Sequential(
  (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
  (1): Flatten(start_dim=1, end_dim=-1)
  (2): Softmax(dim=1)
  (3): Embedding(5, 3, padding_idx=0)
)]])
end)

test("wrong arguments of layers are told with the layer's name", function()
  raises(function() nn.Linear("3", 4) end, "in_features must be a whole number")
  raises(function() nn.Conv2d(1, 2, "x") end, "kernel_size must be one whole number or a list of 2")
  raises(function() nn.Conv2d(1, 2, {3}) end, "a list of 2, not of 1")
  raises(function() nn.LSTM(2, 3)(5) end, "the input must be a tensor")
  raises(function() nn.BatchNorm2d(3)("x") end, "the input must be a tensor")
  raises(function() nn.ModuleDict(5) end, "wants a table")
  raises(function() nn.TransformerEncoder(5, 2) end, "wants a layer to copy")
  raises(function() nn.CrossEntropyLoss {weight = 5} end, "weight must be a tensor")
  raises(function() nn.utils.rnn.pack_padded_sequence(5, {1}) end, "wants a tensor")
  raises(function() nn.Embedding.from_pretrained(5) end, "must be a tensor")
end)

test("networks with state run on a simulated device and in short types", function()
  check.equal(nn.LSTM(2, 3):bfloat16()(torch.ones(4, 1, 2):bfloat16()).dtype, torch.bfloat16)
  torch.autocast("cpu", {dtype = "bfloat16"}, function()
    for _, kind in ipairs {"RNN", "LSTM", "GRU"} do
      local net = nn[kind](2, 3)
      net(torch.randn(4, 2, 2)):sum():backward()
      check.equal(net.weight_ih_l0.grad.dtype, torch.float32)
    end
  end)
  local out = check.tycho({"-e", [[
    local nn = torch.nn
    local y, s = nn.LSTM(2, 3, {num_layers = 2}):to("cuda")(torch.ones(4, 1, 2, {device = "cuda"}))
    local t = nn.Transformer(4, 2, 1, 1, 8):to("cuda")
    local x = torch.ones(3, 1, 4, {device = "cuda"})
    print(y.device, s[2].device, t(x, x, {tgt_mask = nn.Transformer.generate_square_subsequent_mask(3, {device = "cuda"})}).device)
  ]]}, {env = {TYCHO_SIMULATE_CUDA = "1"}}).out
  check.contains(out, "cuda:0\tcuda:0\tcuda:0")
end)

test("a buffer may be assigned like a parameter", function()
  local Net = nn.class("Net")
  function Net:init()
    self.kept = nn.Buffer(torch.ones(2))
    self.temporary = nn.Buffer(torch.ones(2), {persistent = false})
  end
  local net = Net()
  check.equal(names(net:named_buffers()), "kept temporary")
  check.yes(net:state_dict().kept and not net:state_dict().temporary, "saved")
  check.equal(#net:parameters(), 0)
end)

test("the adaptive softmax gives each label the log-probability that log_prob has for it", function()
  torch.manual_seed(3)
  local layer, x, labels = nn.AdaptiveLogSoftmaxWithLoss(16, 20, {4, 10}), torch.randn(6, 16), torch.tensor {1, 4, 5, 10, 11, 20}
  local out, loss = layer(x, labels)
  local all = layer:log_prob(x)
  check.yes(torch.allclose(all:exp():sum(2), torch.ones(6), {atol = 1e-5}), "probabilities")
  check.yes(torch.allclose(out, all:gather(2, labels:unsqueeze(2)):squeeze(2), {atol = 1e-5}), "of the labels")
  check.yes(math.abs(loss:item() + out:mean():item()) < 1e-6, "the loss")
  loss:backward()
  check.yes(layer.head.weight.grad and layer.tail[2][1].weight.grad, "gradients")
  check.equal(names(layer:named_parameters()), "head.weight tail.0.0.weight tail.0.1.weight tail.1.0.weight tail.1.1.weight")
  raises(function() nn.AdaptiveLogSoftmaxWithLoss(8, 20, {4, 20}) end, "cutoffs", "value")
  raises(function() layer(x, labels + 1) end, "1..20", "index")
end)

test("PyTorch's text of layers says what differs from the usual", function()
  local style = torch.get_printoptions().style
  torch.set_printoptions {style = "pytorch"}
  local texts = {
    tostring(nn.Conv1d(1, 2, 3, {padding = "same", padding_mode = "circular"})), tostring(nn.LSTM(2, 3, {bias = false, bidirectional = true})),
    tostring(nn.RNNCell(2, 3, {nonlinearity = "relu"})), tostring(nn.Upsample {scale_factor = 2}), tostring(nn.LPPool2d(2, 3)),
    tostring(nn.LocalResponseNorm(2)), tostring(nn.ReLU(true)), tostring(nn.EmbeddingBag(4, 2)), tostring(nn.ModuleList {nn.ReLU(), nn.ReLU()}),
  }
  torch.set_printoptions {style = style}
  check.equal(texts, {
    "Conv1d(1, 2, kernel_size=(3,), stride=(1,), padding=same, padding_mode=circular)", "LSTM(2, 3, bias=False, bidirectional=True)",
    "RNNCell(2, 3, nonlinearity=relu)", "Upsample(scale_factor=2.0, mode='nearest')", "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)",
    "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)", "ReLU(inplace=True)", "EmbeddingBag(4, 2, mode='mean')", "ModuleList(\n  (0-1): 2 x ReLU()\n)",
  })
end)

test("a module that is below itself is printed, converted and walked", function()
  local Part, Whole = nn.class("Part"), nn.class("Whole")
  function Part:init(parent) self.fc, self.parent = nn.Linear(1, 2), parent end
  function Whole:init() self.me, self.part = self, Part(self) end
  local net, count = Whole(), 0
  check.contains(tostring(net), "(part): Part(")
  check.contains(tostring(net), "Whole(..)")
  net:apply(function() count = count + 1 end)
  check.yes(count >= 3)
  check.equal(names(net:to("float64"):named_parameters()), "part.fc.weight part.fc.bias")
  check.yes(rawequal(net:clone().part.parent, net) == false)
end)

test("mistakes in registering and loading say what would be right", function()
  local net = nn.Sequential(nn.Linear(2, 3))
  raises(function() net:load_state_dict(net) end, "net:state_dict()", "argument")
  raises(function() net:to("int64") end, "floating point", "dtype")
  raises(function() net:apply(3) end, "wants a function", "argument")
  raises(function() net[1]:register_buffer("weight", torch.ones(1)) end, "already", "argument")
  net[1]:register_buffer("mean", torch.ones(1))
  net[1]:register_buffer("mean", torch.zeros(1))
  raises(function() nn.Sequential(nn.ReLU(), nil, nn.ReLU()) end, "element 2 is nil", "argument")
  raises(function() nn.ModuleList {nn.ReLU(), nil, nn.ReLU()} end, "element 2 is nil", "argument")
  raises(function() nn.Sequential(nn.ReLU) end, "nn.ReLU(..) makes a layer", "argument")
  check.equal(nn.MultiheadAttention(4, 2, {}).dropout, 0.0)
  raises(function() nn.Softmax(torch.ones(2)) end, "nn.Softmax(..)(x)", "argument")
  check.equal(raises(function() net(torch.ones(1, 2, {dtype = "int64"})) end, "one type", "dtype").hint, 'input = input:to("float32")')
end)

test("embedding shortens its rows on a device as on the CPU", function()
  local r = check.tycho({"-e", [[
    local F = torch.nn.functional
    local w, at = torch.tensor{{3.0, 4.0}, {0.3, 0.4}}, torch.tensor{1, 2}
    local here = F.embedding(at, w:clone(), {max_norm = 1.0})
    local there = F.embedding(at:to("cuda"), w:to("cuda"), {max_norm = 1.0}):cpu()
    if torch.equal(here, there) then print "same" end
  ]]}, {env = {TYCHO_SIMULATE_CUDA = "1"}})
  check.contains(r.out, "same")
end)
