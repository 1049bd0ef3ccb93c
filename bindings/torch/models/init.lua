-- torch.models: known networks, ready to train or to load weights into. Names and shapes of all parameters are
-- those of torchvision (ResNet, VGG, VisionTransformer) and of nanoGPT (GPT), so that their weight files fit.
local models = {}

for _, part in ipairs {"resnet", "vgg", "vision_transformer", "gpt"} do
  for name, value in pairs(require("torch.models." .. part)) do models[name] = value end
end

return models
