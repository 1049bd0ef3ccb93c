-- torch.models: the known counts of parameters, the names of known weight files, and a step with small inputs.
local torch = torch
local nn, models = torch.nn, torch.models

local function count(net)
  local n = 0
  for _, p in ipairs(net:parameters()) do n = n + p:numel() end
  return n
end

test("the numbers of parameters are the published ones", function()
  for name, expected in pairs {
    resnet18 = 11689512, resnet34 = 21797672, resnet50 = 25557032, resnet101 = 44549160, resnet152 = 60192808,
    resnext50_32x4d = 25028904, wide_resnet50_2 = 68883240, vgg11 = 132863336, vgg13 = 133047848, vgg16 = 138357544,
    vgg19 = 143667240, vgg11_bn = 132868840, vgg16_bn = 138365992, vit_b_16 = 86567656, vit_b_32 = 88224232,
    vit_l_16 = 304326632, GPT = 124439808,
  } do
    local n
    torch._shapes_only(function() n = count(models[name]()) end)
    check.equal(n, expected, name)
  end
end)

-- The shapes of some parameters by name, and how many names a state dict has.
local function check_state(net, size, shapes)
  local state, n = net:state_dict(), 0
  for _ in pairs(state) do n = n + 1 end
  check.equal(n, size)
  for name, shape in pairs(shapes) do
    check.yes(state[name], "no " .. name)
    check.shape(state[name], shape, name)
  end
end

test("resnets have torchvision's names, and learn", function()
  torch.manual_seed(1)
  local net = models.resnet18 {num_classes = 10}
  check_state(net, 122, {
    ["conv1.weight"] = {64, 3, 7, 7}, ["bn1.running_mean"] = {64}, ["bn1.num_batches_tracked"] = {},
    ["layer1.0.conv1.weight"] = {64, 64, 3, 3}, ["layer2.0.downsample.0.weight"] = {128, 64, 1, 1},
    ["layer2.0.downsample.1.running_var"] = {128}, ["layer4.1.bn2.bias"] = {512}, ["fc.weight"] = {10, 512},
  })
  local y = net(torch.randn(2, 3, 32, 32))
  check.shape(y, {2, 10})
  nn.functional.cross_entropy(y, torch.tensor {3, 10}):backward()
  for _, pair in ipairs(net:named_parameters()) do check.yes(pair[2].grad, "no gradient at " .. pair[1]) end
  torch._shapes_only(function()
    check_state(models.resnet50(), 320, {
      ["layer1.0.downsample.0.weight"] = {256, 64, 1, 1}, ["layer3.5.conv3.weight"] = {1024, 256, 1, 1}, ["fc.bias"] = {1000},
    })
  end)
end)

test("resnet50 runs forward and backward, and with residuals that start at zero", function()
  local net = models.resnet50 {num_classes = 10, zero_init_residual = true}
  check.equal(net.layer1[1].bn3.weight:abs():max():item(), 0.0)
  local y = net(torch.randn(2, 3, 32, 32))
  y:sum():backward()
  check.shape(y, {2, 10})
  check.yes(net.conv1.weight.grad)
end)

test("vgg has torchvision's names", function()
  torch._shapes_only(function()
    check_state(models.vgg16(), 32, {
      ["features.0.weight"] = {64, 3, 3, 3}, ["features.28.bias"] = {512}, ["classifier.0.weight"] = {4096, 25088}, ["classifier.6.bias"] = {1000},
    })
    check_state(models.vgg11_bn {num_classes = 7}, 62, {["features.1.running_var"] = {64}, ["classifier.6.weight"] = {7, 4096}})
    local x = torch._stand_in(torch.zeros(2, 3, 32, 32))
    check.shape(models.vgg11 {num_classes = 10}(x), {2, 10})
  end)
end)

test("vgg runs forward and backward", function()
  if os.getenv("TYCHO_QUICK") or os.getenv("TYCHO_SANITIZED") then check.skip("it has 129 million parameters") end
  local net = models.vgg11_bn {num_classes = 10}
  local y = net(torch.randn(2, 3, 32, 32))
  check.shape(y, {2, 10})
  nn.functional.cross_entropy(y, torch.tensor {3, 10}):backward()
  for _, pair in ipairs(net:named_parameters()) do check.yes(pair[2].grad, "no gradient at " .. pair[1]) end
end)

test("a vision transformer has torchvision's names, and learns", function()
  local net = models.VisionTransformer {image_size = 32, patch_size = 8, num_layers = 2, num_heads = 4, hidden_dim = 32, mlp_dim = 64, num_classes = 10}
  check_state(net, 32, {
    class_token = {1, 1, 32}, ["conv_proj.weight"] = {32, 3, 8, 8}, ["encoder.pos_embedding"] = {1, 17, 32},
    ["encoder.layers.encoder_layer_0.ln_1.weight"] = {32}, ["encoder.layers.encoder_layer_1.self_attention.in_proj_weight"] = {96, 32},
    ["encoder.layers.encoder_layer_1.self_attention.out_proj.bias"] = {32}, ["encoder.layers.encoder_layer_0.mlp.0.weight"] = {64, 32},
    ["encoder.layers.encoder_layer_0.mlp.3.weight"] = {32, 64}, ["encoder.ln.bias"] = {32}, ["heads.head.weight"] = {10, 32},
  })
  local y = net(torch.randn(2, 3, 32, 32))
  check.shape(y, {2, 10})
  torch.sum(y * torch.randn(2, 10)):backward()
  for _, pair in ipairs(net:named_parameters()) do check.yes(pair[2].grad, "no gradient at " .. pair[1]) end
  check.raises("shape", "[N, 3, 32, 32]", function() net(torch.randn(2, 3, 16, 16)) end)
  check.raises("value", "does not divide into patches", models.VisionTransformer, {30, 8, 2, 4, 32, 64})
end)

test("a GPT has nanoGPT's names, one table for reading and writing, and learns a text by heart", function()
  torch.manual_seed(1)
  local net = models.GPT {vocab_size = 11, block_size = 8, n_layer = 2, n_head = 2, n_embd = 32, bias = false}
  check_state(net, 16, {
    ["transformer.wte.weight"] = {11, 32}, ["transformer.wpe.weight"] = {8, 32}, ["transformer.h.0.ln_1.weight"] = {32},
    ["transformer.h.1.attn.c_attn.weight"] = {96, 32}, ["transformer.h.1.attn.c_proj.weight"] = {32, 32},
    ["transformer.h.0.mlp.c_fc.weight"] = {128, 32}, ["transformer.h.0.mlp.c_proj.weight"] = {32, 128},
    ["transformer.ln_f.weight"] = {32}, ["lm_head.weight"] = {11, 32},
  })
  check.yes(rawequal(net.transformer.wte.weight, net.lm_head.weight))
  local text = torch.arange(1, 10):unsqueeze(1)
  local opt = torch.optim.AdamW(net:parameter_groups(0.1), {lr = 0.01})
  local loss
  for _ = 1, 60 do
    opt:zero_grad()
    local scores
    scores, loss = net(text[{{}, {1, 8}}], text[{{}, {2, 9}}])
    check.shape(scores, {1, 8, 11})
    loss:backward()
    opt:step()
  end
  check.yes(loss:item() < 0.5, "loss " .. loss:item())
  check.equal(net:generate(torch.tensor {{1}}, 7, {top_k = 1}), {{1, 2, 3, 4, 5, 6, 7, 8}})
  check.shape(net:generate(torch.tensor {{1, 2}}, 10), {1, 12})
  check.yes(net.training)
  check.raises("shape", "more than block_size", function() net(torch.ones({1, 9}, {dtype = "int64"})) end)
end)

test("a GPT sees no later token", function()
  local net = models.GPT {vocab_size = 11, block_size = 8, n_layer = 2, n_head = 2, n_embd = 32}:eval()
  local a, b = net(torch.tensor {{1, 2, 3, 4}}), net(torch.tensor {{1, 2, 9, 9}})
  check.close(a[{{}, {1, 2}}], b[{{}, {1, 2}}])
  check.yes((a[{{}, 3}] - b[{{}, 3}]):abs():max():item() > 1e-3)
end)

test("weights come from a file or a table, and wrong arguments are named", function()
  local small = {vocab_size = 5, block_size = 4, n_layer = 1, n_head = 1, n_embd = 4}
  check.raises("argument", 'no argument "classes"', models.resnet18, {classes = 10})
  check.raises("value", "does not divide", models.GPT, {n_embd = 10, n_head = 3})
  local one, path = models.resnet18 {num_classes = 3}, check.temp("resnet.pt")
  torch.save(one:state_dict(), path)
  local other = models.resnet18 {num_classes = 3, weights = path}
  check.yes(torch.equal(one.layer3[2].conv1.weight, other.layer3[2].conv1.weight))
  local third = models.resnet18 {num_classes = 3, weights = one:state_dict()}
  check.yes(torch.equal(one.fc.bias, third.fc.bias))
  check.raises(nil, "fc.weight", models.resnet18, {num_classes = 4, weights = path})
  check.yes(models.GPT(small):state_dict()["lm_head.weight"])
end)
