-- Recurrent and attention layers: states and masks that do not fit are told in the user's words, and a causal
-- attention stays causal with other masks.
local nn = torch.nn

test("states of another shape or type are told by recurrent layers and cells", function()
  local x = torch.ones(5, 2, 3)
  local h = torch.zeros(1, 2, 4)
  check.raises("dtype", "the state h is torch.float64 and the input torch.float32", nn.LSTM(3, 4), x, {h:double(), h:double()})
  check.raises("argument", "one tensor h", nn.GRU(3, 4), x, {h, h})
  check.raises("argument", "one tensor h", nn.GRU(3, 4), x[{{}, 1}], {h, h})
  check.raises("shape", "the state h must be [2, 4], not [3, 4]", nn.GRUCell(3, 4), x[1], torch.zeros(3, 4))
  check.raises("shape", "the state c must be [2, 4], not [2, 5]", nn.LSTMCell(3, 4), x[1], {torch.zeros(2, 4), torch.zeros(2, 5)})
  check.raises("argument", "the state h must be a tensor, not a number", nn.LSTM(3, 4), x[1], {1, 2})
  check.raises("argument", "the state c must be a tensor, not a number", nn.LSTMCell(3, 4), x[1], {torch.zeros(2, 4), 2})
  check.raises("dtype", "the state h is", nn.RNNCell(3, 4), x[1], torch.zeros(2, 4):half())
  torch.autocast("cpu", {dtype = "bfloat16"}, function() nn.LSTM(3, 4)(x:bfloat16(), {h, h}) end)
end)

test("layers that are given no tensor say so", function()
  for _, layer in ipairs {nn.Flatten(), nn.Unflatten(2, {1, 1}), nn.ReLU(), nn.Bilinear(1, 1, 1), nn.LSTM(1, 1)} do
    check.raises("argument", "tensor", layer, "x")
    check.raises("argument", "tensor", layer, 3)
  end
end)

test("masks of another shape or of whole numbers are told by MultiheadAttention", function()
  local mha, x = nn.MultiheadAttention(4, 2), torch.ones(3, 1, 4)
  local function given(mask) return function() return mha(x, x, x, mask) end end
  check.raises("shape", "attn_mask must be [3, 3] or [2, 3, 3], not [2, 2]", given {attn_mask = torch.ones(2, 2)})
  check.raises("dtype", "attn_mask:bool()", given {attn_mask = torch.ones(3, 3, {dtype = "int64"})})
  check.raises("shape", "key_padding_mask must be [1, 3], not [2, 3]", given {key_padding_mask = torch.zeros(2, 3, {dtype = "bool"})})
  check.raises("argument", "not table", given {attn_mask = {1, 2}})
end)

test("is_causal holds beside a padding mask and added keys", function()
  for _, options in ipairs {{}, {add_zero_attn = true}, {add_bias_kv = true}} do
    torch.manual_seed(1)
    local mha = nn.MultiheadAttention(4, 2, options)
    local x, padding = torch.randn(5, 1, 4), torch.tensor {{false, true, false, false, false}}
    local mask = nn.Transformer.generate_square_subsequent_mask(5)
    for _, weights in ipairs {true, false} do
      local one = mha(x, x, x, {is_causal = true, key_padding_mask = padding, need_weights = weights})
      check.close(one, (mha(x, x, x, {attn_mask = mask, key_padding_mask = padding, need_weights = weights})))
    end
  end
end)
