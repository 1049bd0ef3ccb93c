-- Random convolutions: channels, kernels, strides, dilations, groups, paddings, transposed ones, every type, forward
-- and both gradients. Part of guarded.lua.
local guarded = ...
local F = torch.nn.functional

local kMostWork = {float32 = 8e6, bfloat16 = 8e6}  -- multiply-adds of one case; other types have slower kernels

local function product(list)
  local n = 1
  for _, x in ipairs(list) do n = n * x end
  return n
end

local function list_text(list) return "{" .. table.concat(list, ",") .. "}" end

local function sizes(draw, c, dims)
  for d = 1, dims do
    c.stride[d] = draw:chance(2) and draw:int(1, 4) or draw:int(1, 2)
    c.dilation[d] = draw:chance(4) and draw:int(1, 3) or 1
    c.kernel[d] = c.single and 1 or draw:int(1, 7)
    c.padding[d] = draw:chance(2) and 0 or draw:int(0, (c.kernel[d] - 1) * c.dilation[d] // 2 + 1)
  end
end

-- Sizes that fit the kernel, and grow while the work allows.
local function grow(draw, c, dims, most)
  local filters = c.out * (c.channels // c.groups) * product(c.kernel)
  local most_values = 2e5 / c.images / math.max(c.channels, c.out) / product(c.stride)
  local pixels = math.max(1, math.min(most_values, most * math.random() ^ 2 / filters / c.images))
  local line = math.max(1, math.floor(pixels ^ (1 / dims)))
  for d = 1, dims do
    local out = draw:int(math.max(1, line // 2), line * 3 // 2 + 1)
    if d == 1 and draw:chance(6) then out = 1 end
    local need = (out - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilation[d] + 1 - 2 * c.padding[d]
    c.input[d] = math.max(1, math.max(need, (c.kernel[d] - 1) * c.dilation[d] + 1 - 2 * c.padding[d]) + draw:int(0, c.stride[d] - 1))
  end
end

-- Even strides of even images are where libraries have ways of their own.
local function exact_strides(c, dims)
  for d = 1, dims do
    c.padding[d] = 0
    c.input[d] = math.max(1, (c.input[d] + c.stride[d] - 1) // c.stride[d]) * c.stride[d]
  end
end

local function make(draw, transposed, dtypes)
  local dims, dtype = draw:pick {1, 2, 2, 2, 2, 3}, draw:pick(dtypes)
  local c = {single = draw:chance(3), kernel = {}, stride = {}, dilation = {}, padding = {}, input = {}}
  c.images = draw:pick {1, 1, 2, 3, 5}
  c.groups = 1
  if draw:chance(5) then
    c.groups = draw:pick {2, 3, 4, 8, 16, 40}
    local most = math.max(1, 300 // c.groups)
    c.channels, c.out = c.groups * (draw:chance(2) and 1 or draw:size(most)), c.groups * (draw:chance(2) and 1 or draw:size(most))
  else
    local function channels() return draw:chance(2) and draw:size(300) or draw:pick {1, 3, 8, 15, 16, 17, 31, 32, 48, 64, 112, 128, 256} end
    c.channels, c.out = channels(), channels()
  end
  sizes(draw, c, dims)
  grow(draw, c, dims, kMostWork[dtype] or 5e5)
  if c.single and draw:chance(2) then exact_strides(c, dims) end
  local bias = draw:chance(2)
  local shape = {c.images, c.channels, table.unpack(c.input)}
  local weight = {c.out, c.channels // c.groups, table.unpack(c.kernel)}
  if transposed then weight = {c.channels, c.out // c.groups, table.unpack(c.kernel)} end
  local named = {stride = c.stride, padding = c.padding, dilation = c.dilation, groups = c.groups}
  if transposed then
    local extra = {}
    for d = 1, dims do
      extra[d] = draw:chance(3) and draw:int(0, math.max(c.stride[d], c.dilation[d]) - 1) or 0
      -- The result has at least one element.
      local size = (c.input[d] - 1) * c.stride[d] - 2 * c.padding[d] + c.dilation[d] * (c.kernel[d] - 1) + extra[d] + 1
      if size < 1 then c.padding[d] = 0 end
    end
    named.output_padding = extra
  end
  local name = (transposed and "conv_transpose" or "conv") .. dims .. "d"
  local text = ("%s %s x %s w %s stride %s padding %s dilation %s groups %d%s%s"):format(name, dtype, list_text(shape),
    list_text(weight), list_text(c.stride), list_text(c.padding), list_text(c.dilation), c.groups, bias and " bias" or "",
    transposed and " output_padding " .. list_text(named.output_padding) or "")
  return text, function()
    local inputs = {draw:values(shape, dtype), draw:values(weight, dtype)}
    if bias then inputs[3] = draw:values({c.out}, dtype) end
    -- Sums of many numbers of size 1 may cancel: over windows, and over images and pixels.
    local taps, pixels = product(weight) / (transposed and c.channels or c.out), c.images * product(c.input) / product(c.stride)
    guarded.compare(draw, function(x, w, b) return F[name](x, w, b, named) end, inputs, dtype, not dtype:find("int"),
      {math.sqrt(taps) / 3, 0, math.sqrt(pixels) / 3, math.sqrt(pixels) / 3})
  end
end

local common = {"float32", "float32", "float32", "bfloat16", "bfloat16"}
guarded.add("random convolutions of float32 and bfloat16 and their gradients agree with float64", 40,
  function(draw) return make(draw, false, common) end)
guarded.add("random convolutions of the other types and their gradients agree with float64", 8,
  function(draw) return make(draw, false, {"float16", "float64", "int64", "int32"}) end)
guarded.add("random transposed convolutions and their gradients agree with float64", 12,
  function(draw) return make(draw, true, draw:chance(4) and {"float16", "float64"} or common) end)
