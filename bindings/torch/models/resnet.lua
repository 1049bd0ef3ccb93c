-- Residual networks (He et al. 2015), with the wide ones and those of grouped convolutions (ResNeXt).
local torch = torch
local nn = torch.nn
local init = nn.init
local maker = require("torch.models.build").maker

local function conv3x3(from, to, stride, groups)
  return nn.Conv2d(from, to, 3, {stride = stride or 1, padding = 1, groups = groups or 1, bias = false})
end
local function conv1x1(from, to, stride) return nn.Conv2d(from, to, 1, {stride = stride or 1, bias = false}) end

-- Two convolutions beside the shortcut.
local BasicBlock = nn.class("BasicBlock")
BasicBlock.expansion = 1  -- channels out for each inside
function BasicBlock:init(from, planes, stride, downsample)
  self.conv1 = conv3x3(from, planes, stride)
  self.bn1 = nn.BatchNorm2d(planes)
  self.relu = nn.ReLU {inplace = true}
  self.conv2 = conv3x3(planes, planes)
  self.bn2 = nn.BatchNorm2d(planes)
  self.downsample = downsample
end
function BasicBlock:forward(x)
  local y = self.relu(self.bn1(self.conv1(x)))
  y = self.bn2(self.conv2(y))
  return self.relu(y + (self.downsample and self.downsample(x) or x))
end

-- A narrow 3x3 convolution between two of 1x1; the stride is in the middle one.
local Bottleneck = nn.class("Bottleneck")
Bottleneck.expansion = 4
function Bottleneck:init(from, planes, stride, downsample, groups, width_per_group)
  local width = planes * width_per_group // 64 * groups
  self.conv1 = conv1x1(from, width)
  self.bn1 = nn.BatchNorm2d(width)
  self.conv2 = conv3x3(width, width, stride, groups)
  self.bn2 = nn.BatchNorm2d(width)
  self.conv3 = conv1x1(width, planes * 4)
  self.bn3 = nn.BatchNorm2d(planes * 4)
  self.relu = nn.ReLU {inplace = true}
  self.downsample = downsample
end
function Bottleneck:forward(x)
  local y = self.relu(self.bn1(self.conv1(x)))
  y = self.relu(self.bn2(self.conv2(y)))
  y = self.bn3(self.conv3(y))
  return self.relu(y + (self.downsample and self.downsample(x) or x))
end

---The network itself, to build others on.
---@param kind table the class of the blocks: torch.models.BasicBlock or torch.models.Bottleneck
---@param depths integer[] blocks in each of the four stages
---@param a? {num_classes: integer, groups: integer, width_per_group: integer, zero_init_residual: boolean}
local ResNet = nn.class("ResNet")
function ResNet:init(kind, depths, a)
  a = a or {}
  local groups, width = a.groups or 1, a.width_per_group or 64
  self.conv1 = nn.Conv2d(3, 64, 7, {stride = 2, padding = 3, bias = false})
  self.bn1 = nn.BatchNorm2d(64)
  self.relu = nn.ReLU {inplace = true}
  self.maxpool = nn.MaxPool2d(3, {stride = 2, padding = 1})
  local from = 64
  for i, depth in ipairs(depths) do
    local planes, blocks = 64 << (i - 1), {}
    for k = 1, depth do
      local stride, downsample = k == 1 and i > 1 and 2 or 1, nil
      local to = planes * kind.expansion
      if stride ~= 1 or from ~= to then downsample = nn.Sequential(conv1x1(from, to, stride), nn.BatchNorm2d(to)) end
      blocks[k] = kind(from, planes, stride, downsample, groups, width)
      from = to
    end
    self["layer" .. i] = nn.Sequential(blocks)
  end
  self.avgpool = nn.AdaptiveAvgPool2d({1, 1})
  self.fc = nn.Linear(from, a.num_classes or 1000)
  for _, m in ipairs(self:modules()) do
    if m._name == "Conv2d" then init.kaiming_normal_(m.weight, {mode = "fan_out", nonlinearity = "relu"}) end
  end
  if a.zero_init_residual then
    for _, m in ipairs(self:modules()) do
      if m._name == "Bottleneck" then init.zeros_(m.bn3.weight) end
      if m._name == "BasicBlock" then init.zeros_(m.bn2.weight) end
    end
  end
end
---Images [N, 3, H, W] -> scores [N, num_classes].
function ResNet:forward(x)
  x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
  x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
  return self.fc(torch.flatten(self.avgpool(x), 2))
end

local resnets = {ResNet = ResNet, BasicBlock = BasicBlock, Bottleneck = Bottleneck}
for _, row in ipairs {  -- name, blocks, how many in each stage, groups, width_per_group
  {"resnet18", BasicBlock, {2, 2, 2, 2}},
  {"resnet34", BasicBlock, {3, 4, 6, 3}},
  {"resnet50", Bottleneck, {3, 4, 6, 3}},
  {"resnet101", Bottleneck, {3, 4, 23, 3}},
  {"resnet152", Bottleneck, {3, 8, 36, 3}},
  {"resnext50_32x4d", Bottleneck, {3, 4, 6, 3}, 32, 4},
  {"wide_resnet50_2", Bottleneck, {3, 4, 6, 3}, 1, 128},
} do
  local name, kind, depths, groups, width = table.unpack(row)
  local signature = ("num_classes=1000, zero_init_residual=false, groups=%d, width_per_group=%d"):format(groups or 1, width or 64)
  resnets[name] = maker(name, signature, function(a) return ResNet(kind, depths, a) end)
end
return resnets
