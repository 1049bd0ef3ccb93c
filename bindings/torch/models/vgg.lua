-- VGG (Simonyan and Zisserman 2014): stacks of 3x3 convolutions, with and without batch normalisation.
local torch = torch
local nn = torch.nn
local init = nn.init
local maker = require("torch.models.build").maker

-- Names without and with batch normalisation; how many convolutions stand before each of the five pools.
local forms = {
  {"vgg11", "vgg11_bn", {1, 1, 2, 2, 2}},
  {"vgg13", "vgg13_bn", {2, 2, 2, 2, 2}},
  {"vgg16", "vgg16_bn", {2, 2, 3, 3, 3}},
  {"vgg19", "vgg19_bn", {2, 2, 4, 4, 4}},
}
local channels = {64, 128, 256, 512, 512}

local VGG = nn.class("VGG")
function VGG:init(stage, batch_norm, a)
  local layers, from = {}, 3
  for i, count in ipairs(stage) do
    for _ = 1, count do
      layers[#layers + 1] = nn.Conv2d(from, channels[i], 3, {padding = 1})
      if batch_norm then layers[#layers + 1] = nn.BatchNorm2d(channels[i]) end
      layers[#layers + 1] = nn.ReLU {inplace = true}
      from = channels[i]
    end
    layers[#layers + 1] = nn.MaxPool2d(2, {stride = 2})
  end
  self.features = nn.Sequential(layers)
  self.avgpool = nn.AdaptiveAvgPool2d({7, 7})
  self.classifier = nn.Sequential(
    nn.Linear(512 * 7 * 7, 4096), nn.ReLU {inplace = true}, nn.Dropout {p = a.dropout},
    nn.Linear(4096, 4096), nn.ReLU {inplace = true}, nn.Dropout {p = a.dropout},
    nn.Linear(4096, a.num_classes))
  for _, m in ipairs(self:modules()) do
    if m._name == "Conv2d" then
      init.kaiming_normal_(m.weight, {mode = "fan_out", nonlinearity = "relu"})
      init.zeros_(m.bias)
    elseif m._name == "Linear" then
      init.normal_(m.weight, 0, 0.01)
      init.zeros_(m.bias)
    end
  end
end
---Images [N, 3, H, W] of 32 x 32 and larger -> scores [N, num_classes].
function VGG:forward(x) return self.classifier(torch.flatten(self.avgpool(self.features(x)), 2)) end

local vggs = {VGG = VGG}
for _, form in ipairs(forms) do
  for i = 1, 2 do
    vggs[form[i]] = maker(form[i], "num_classes=1000, dropout=0.5", function(a) return VGG(form[3], i == 2, a) end)
  end
end
return vggs
