-- Transformer encoders and decoders (Vaswani et al. 2017), after and before normalisation.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F, init = nn.functional, nn.init
local define = require("torch.nn.layer").define
local forward_args = nn._forward_args

local function activation_of(f)
  if f == "relu" then return F.relu end
  if f == "gelu" then return F.gelu end
  if type(f) == "function" or type(f) == "table" then return f end
  error(('Transformer: activation must be "relu", "gelu" or a function, not %s'):format(tostring(f)), 5, "value")
end

local signature = 'd_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=false, norm_first=false, bias=true, device=nil, dtype=nil'

-- The parts of a layer, in PyTorch's order.
local function make_layer(self, a, attentions)
  local common = {device = a.device, dtype = a.dtype}
  local function with(t)
    for k, v in pairs(common) do t[k] = v end
    return t
  end
  for _, name in ipairs(attentions) do
    self[name] = nn.MultiheadAttention(a.d_model, a.nhead, with {dropout = a.dropout, bias = a.bias, batch_first = a.batch_first})
  end
  self.linear1 = nn.Linear(a.d_model, a.dim_feedforward, with {bias = a.bias})
  self.dropout = nn.Dropout(a.dropout)
  self.linear2 = nn.Linear(a.dim_feedforward, a.d_model, with {bias = a.bias})
  local count = #attentions + 1
  for i = 1, count do self["norm" .. i] = nn.LayerNorm({a.d_model}, with {eps = a.layer_norm_eps, bias = a.bias}) end
  for i = 1, count do self["dropout" .. i] = nn.Dropout(a.dropout) end
  rawset(self, "activation", nil)
  local f = activation_of(a.activation)
  if type(f) == "table" then self.activation = f else rawset(self, "activation", f) end
end
local function forget(self)
  for _, k in ipairs {"dropout", "d_model", "nhead", "dim_feedforward", "batch_first", "layer_norm_eps"} do rawset(self, k, nil) end
end

local function feed_forward(self, x) return self.linear2(self.dropout(self.activation(self.linear1(x)))) end

define("TransformerEncoderLayer", signature, "Self-attention and a feed-forward network, each with a residual and a normalisation.", {
  rule = "[T, N, d_model] -> the same shape", see = "nn.TransformerEncoder, nn.MultiheadAttention",
  example = "nn.TransformerEncoderLayer(4, 2, 8)(torch.ones(5, 3, 4)).shape --> [5, 3, 4]",
  init = function(self, a)
    forget(self)
    make_layer(self, a, {"self_attn"})
  end,
  forward = function(self, ...)
    local a = forward_args({"src", "src_mask", "src_key_padding_mask", "is_causal"}, "TransformerEncoderLayer", ...)
    local function attend(x)
      return self.dropout1((self.self_attn(x, x, x, {attn_mask = a.src_mask, key_padding_mask = a.src_key_padding_mask,
        need_weights = false, is_causal = a.is_causal})))
    end
    local x = a.src
    if self.norm_first then
      x = x + attend(self.norm1(x))
      return x + self.dropout2(feed_forward(self, self.norm2(x)))
    end
    x = self.norm1(x + attend(x))
    return self.norm2(x + self.dropout2(feed_forward(self, x)))
  end,
})

local decoder_arguments = {"tgt", "memory", "tgt_mask", "memory_mask", "tgt_key_padding_mask", "memory_key_padding_mask", "tgt_is_causal", "memory_is_causal"}

define("TransformerDecoderLayer", signature, "Self-attention, attention to an encoder's result, and a feed-forward network.", {
  rule = "[T, N, d_model], memory [S, N, d_model] -> [T, N, d_model]", see = "nn.TransformerDecoder",
  example = "nn.TransformerDecoderLayer(4, 2, 8)(torch.ones(5, 3, 4), torch.ones(6, 3, 4)).shape --> [5, 3, 4]",
  init = function(self, a)
    forget(self)
    make_layer(self, a, {"self_attn", "multihead_attn"})
  end,
  forward = function(self, ...)
    local a = forward_args(decoder_arguments, "TransformerDecoderLayer", ...)
    local function own(x)
      return self.dropout1((self.self_attn(x, x, x, {attn_mask = a.tgt_mask, key_padding_mask = a.tgt_key_padding_mask,
        need_weights = false, is_causal = a.tgt_is_causal})))
    end
    local function other(x)
      return self.dropout2((self.multihead_attn(x, a.memory, a.memory, {attn_mask = a.memory_mask,
        key_padding_mask = a.memory_key_padding_mask, need_weights = false, is_causal = a.memory_is_causal})))
    end
    local x = a.tgt
    if self.norm_first then
      x = x + own(self.norm1(x))
      x = x + other(self.norm2(x))
      return x + self.dropout3(feed_forward(self, self.norm3(x)))
    end
    x = self.norm1(x + own(x))
    x = self.norm2(x + other(x))
    return self.norm3(x + self.dropout3(feed_forward(self, x)))
  end,
})

-- A stack of copies of one layer.
local function stack(self, one, a)
  local layers = {}
  if type(one) ~= "table" or type(one.clone) ~= "function" then
    error(("%s: wants a layer to copy, not a %s"):format(self._name, type(one)), 4)
  end
  for i = 1, a.num_layers do layers[i] = one:clone() end
  for _, k in ipairs {"encoder_layer", "decoder_layer", "norm"} do rawset(self, k, nil) end
  self.layers = nn.ModuleList(layers)
  if a.norm then self.norm = a.norm end
end

define("TransformerEncoder", "encoder_layer, num_layers, norm=nil, enable_nested_tensor=true, mask_check=true", "A stack of copies of an encoder layer.", {
  see = "nn.TransformerEncoderLayer, nn.Transformer",
  init = function(self, a) stack(self, a.encoder_layer, a) end,
  forward = function(self, ...)
    local a = forward_args({"src", "mask", "src_key_padding_mask", "is_causal"}, "TransformerEncoder", ...)
    local x = a.src
    for i = 1, #self.layers do
      x = self.layers[i](x, {src_mask = a.mask, src_key_padding_mask = a.src_key_padding_mask, is_causal = a.is_causal})
    end
    return self.norm and self.norm(x) or x
  end,
})

define("TransformerDecoder", "decoder_layer, num_layers, norm=nil", "A stack of copies of a decoder layer.", {
  see = "nn.TransformerDecoderLayer, nn.Transformer",
  init = function(self, a) stack(self, a.decoder_layer, a) end,
  forward = function(self, ...)
    local a = forward_args(decoder_arguments, "TransformerDecoder", ...)
    local x, options = a.tgt, {}
    for i = 3, #decoder_arguments do options[decoder_arguments[i]] = a[decoder_arguments[i]] end
    for i = 1, #self.layers do x = self.layers[i](x, a.memory, options) end
    return self.norm and self.norm(x) or x
  end,
})

define("Transformer", 'd_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, activation="relu", custom_encoder=nil, custom_decoder=nil, layer_norm_eps=1e-5, batch_first=false, norm_first=false, bias=true, device=nil, dtype=nil',
  "An encoder and a decoder: `y = transformer(src, tgt, {tgt_mask=mask})`.", {
  rule = "[S, N, d_model], [T, N, d_model] -> [T, N, d_model]", see = "nn.TransformerEncoder, nn.TransformerDecoder",
  example = "net = nn.Transformer(4, 2, 1, 1, 8)\nnet(torch.ones(5, 3, 4), torch.ones(6, 3, 4)).shape --> [6, 3, 4]",
  init = function(self, a)
    for _, k in ipairs {"custom_encoder", "custom_decoder", "dropout", "activation"} do rawset(self, k, nil) end
    local function options()
      return {dim_feedforward = a.dim_feedforward, dropout = a.dropout, activation = a.activation, layer_norm_eps = a.layer_norm_eps,
        batch_first = a.batch_first, norm_first = a.norm_first, bias = a.bias, device = a.device, dtype = a.dtype}
    end
    local function norm() return nn.LayerNorm({a.d_model}, {eps = a.layer_norm_eps, bias = a.bias, device = a.device, dtype = a.dtype}) end
    self.encoder = a.custom_encoder or nn.TransformerEncoder(nn.TransformerEncoderLayer(a.d_model, a.nhead, options()), a.num_encoder_layers, norm())
    self.decoder = a.custom_decoder or nn.TransformerDecoder(nn.TransformerDecoderLayer(a.d_model, a.nhead, options()), a.num_decoder_layers, norm())
    for _, p in ipairs(self:parameters()) do
      if p.ndim > 1 then init.xavier_uniform_(p) end
    end
  end,
  forward = function(self, ...)
    local a = forward_args({"src", "tgt", "src_mask", "tgt_mask", "memory_mask", "src_key_padding_mask", "tgt_key_padding_mask",
      "memory_key_padding_mask", "src_is_causal", "tgt_is_causal", "memory_is_causal"}, "Transformer", ...)
    local memory = self.encoder(a.src, {mask = a.src_mask, src_key_padding_mask = a.src_key_padding_mask, is_causal = a.src_is_causal})
    return self.decoder(a.tgt, memory, {tgt_mask = a.tgt_mask, memory_mask = a.memory_mask, tgt_key_padding_mask = a.tgt_key_padding_mask,
      memory_key_padding_mask = a.memory_key_padding_mask, tgt_is_causal = a.tgt_is_causal, memory_is_causal = a.memory_is_causal})
  end,
})

---A mask for n positions in which none sees those after it: 0 on and below the diagonal, -infinity above.
function nn.Transformer.generate_square_subsequent_mask(n, options)
  local o = options or {}
  return torch.full({n, n}, -math.huge, {dtype = o.dtype, device = o.device or torch._default_device()}):triu(1)
end
