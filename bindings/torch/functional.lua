-- Functions of torch.nn.functional that are put together from other operations.
local torch = torch
local error = torch._raise
local F = torch.nn.functional

---x1 W x2 + b for every output, over the last dimensions: weight [out, in1, in2].
---@param x1 userdata
---@param x2 userdata
---@param weight userdata
---@param bias? userdata
function F.bilinear(x1, x2, weight, bias)
  if not (torch.is_tensor(x1) and torch.is_tensor(x2)) then error("bilinear: wants two tensors, x1 and x2", 2) end
  local y = torch.einsum("...i,oij,...j->...o", x1, weight, x2)
  return bias and y + bias or y
end

---triplet_margin_loss with a distance of one's own.
---@param anchor userdata
---@param positive userdata
---@param negative userdata
---@param options? {distance_function?: function, margin?: number, swap?: boolean, reduction?: string}
function F.triplet_margin_with_distance_loss(anchor, positive, negative, options)
  if type(options or {}) ~= "table" then
    error("triplet_margin_with_distance_loss: the options are a table, not " .. tostring(options), 2, "argument")
  end
  options = options or {}
  local distance, reduction = options.distance_function or F.pairwise_distance, options.reduction or "mean"
  local near, far = distance(anchor, positive), distance(anchor, negative)
  if options.swap then far = torch.minimum(far, distance(positive, negative)) end
  local loss = (near - far + (options.margin or 1.0)):clamp_min(0)
  if reduction == "none" then return loss end
  if reduction ~= "sum" and reduction ~= "mean" then
    error(('triplet_margin_with_distance_loss: reduction must be "none", "mean" or "sum", not "%s"'):format(tostring(reduction)), 2, "value")
  end
  return reduction == "sum" and loss:sum() or loss:mean()
end
