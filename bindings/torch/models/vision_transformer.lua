-- The vision transformer (Dosovitskiy et al. 2020): an image is a sequence of patches.
local torch = torch
local error = torch._raise
local nn = torch.nn
local init = nn.init
local maker = require("torch.models.build").maker

local EncoderBlock = nn.class("EncoderBlock")
function EncoderBlock:init(a)
  local d = a.hidden_dim
  self.ln_1 = nn.LayerNorm({d}, {eps = 1e-6})
  self.self_attention = nn.MultiheadAttention(d, a.num_heads, {dropout = a.attention_dropout, batch_first = true})
  self.dropout = nn.Dropout(a.dropout)
  self.ln_2 = nn.LayerNorm({d}, {eps = 1e-6})
  self.mlp = nn.Sequential(nn.Linear(d, a.mlp_dim), nn.GELU(), nn.Dropout(a.dropout), nn.Linear(a.mlp_dim, d), nn.Dropout(a.dropout))
  for _, i in ipairs {1, 4} do
    init.xavier_uniform_(self.mlp[i].weight)
    init.normal_(self.mlp[i].bias, 0, 1e-6)
  end
end
function EncoderBlock:forward(x)
  local y = self.ln_1(x)
  y = self.self_attention(y, y, y, {need_weights = false})
  x = x + self.dropout(y)
  return x + self.mlp(self.ln_2(x))
end

local Encoder = nn.class("Encoder")
function Encoder:init(length, a)
  self.pos_embedding = nn.Parameter(init.normal_(torch.empty({1, length, a.hidden_dim}, {device = torch._default_device()}), 0, 0.02))
  self.dropout = nn.Dropout(a.dropout)
  local layers = {}
  for i = 1, a.num_layers do layers[i] = {"encoder_layer_" .. i - 1, EncoderBlock(a)} end
  self.layers = nn.Sequential(layers)
  self.ln = nn.LayerNorm({a.hidden_dim}, {eps = 1e-6})
end
function Encoder:forward(x) return self.ln(self.layers(self.dropout(x + self.pos_embedding))) end

local VisionTransformer = nn.class("VisionTransformer")
local signature = "image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, dropout=0.0, attention_dropout=0.0, num_classes=1000"
---A vision transformer of one's own sizes; vit_b_16 and the others give the known ones.
function VisionTransformer:init(...)
  local a = nn._args("VisionTransformer", signature, ...)
  if a.image_size % a.patch_size ~= 0 then
    error(("VisionTransformer: image_size %d does not divide into patches of %d"):format(a.image_size, a.patch_size), 3, "value")
  end
  rawset(self, "image_size", a.image_size)
  rawset(self, "patch_size", a.patch_size)
  local d = a.hidden_dim
  self.conv_proj = nn.Conv2d(3, d, a.patch_size, {stride = a.patch_size})
  self.class_token = nn.Parameter(torch.zeros({1, 1, d}, {device = torch._default_device()}))
  local side = a.image_size // a.patch_size
  self.encoder = Encoder(side * side + 1, a)  -- the patches and the class token
  self.heads = nn.Sequential {{"head", nn.Linear(d, a.num_classes)}}
  init.trunc_normal_(self.conv_proj.weight, {std = math.sqrt(1 / (3 * a.patch_size ^ 2))})
  init.zeros_(self.conv_proj.bias)
  init.zeros_(self.heads[1].weight)
  init.zeros_(self.heads[1].bias)
end
---Images [N, 3, image_size, image_size] -> scores [N, num_classes].
function VisionTransformer:forward(x)
  local n, size = x:size(1), self.image_size
  if x.ndim ~= 4 or x:size(3) ~= size or x:size(4) ~= size then
    error(("VisionTransformer: wants images [N, 3, %d, %d], not shape %s"):format(size, size, tostring(x.shape)), 2, "shape")
  end
  x = self.conv_proj(x):flatten(3):transpose(2, 3)  -- [N, patches, hidden_dim]
  x = self.encoder(torch.cat({self.class_token:expand(n, -1, -1), x}, 2))
  return self.heads(x[{{}, 1}])
end

local vits = {VisionTransformer = VisionTransformer}
for _, row in ipairs {  -- name, patch_size, num_layers, num_heads, hidden_dim, mlp_dim
  {"vit_b_16", 16, 12, 12, 768, 3072},
  {"vit_b_32", 32, 12, 12, 768, 3072},
  {"vit_l_16", 16, 24, 16, 1024, 4096},
  {"vit_l_32", 32, 24, 16, 1024, 4096},
} do
  local name, patch, layers, heads, hidden, mlp = table.unpack(row)
  vits[name] = maker(name, "num_classes=1000, image_size=224, dropout=0.0, attention_dropout=0.0", function(a)
    return VisionTransformer {a.image_size, patch, layers, heads, hidden, mlp, dropout = a.dropout,
      attention_dropout = a.attention_dropout, num_classes = a.num_classes}
  end)
end
return vits
