-- torch.nn.utils.prune: parameters of which some elements are held at 0. The parameter stands as name_orig, the mask as
-- the buffer name_mask, and before each forward their product is made, as in PyTorch.
local torch = torch
local error = torch._raise
local forget = require("torch.nn.module").forget
local prune = {}

local function target(what, layer, name)
  local w = type(layer) == "table" and rawget(layer, "_order") and layer[name]
  if not torch.is_tensor(w) then error(('%s: this layer has no tensor "%s"'):format(what, tostring(name)), 3) end
  return w
end

-- How many elements an amount means: a fraction of them, or their number.
local function count_of(what, amount, size)
  if type(amount) ~= "number" or amount ~= amount or amount < 0 or (math.type(amount) == "float" and amount > 1) then
    error(("%s: amount is a fraction from 0.0 to 1.0, or a number of elements, not %s"):format(what, tostring(amount)), 3, "value")
  end
  if math.type(amount) == "integer" then
    if amount > size then error(("%s: %d elements cannot be pruned of %d"):format(what, amount, size), 3, "value") end
    return amount
  end
  local n = size * amount
  local whole = math.floor(n + 0.5)
  return math.abs(n - math.floor(n) - 0.5) < 1e-12 and math.floor(n) % 2 == 0 and math.floor(n) or whole  -- half goes to the even number
end

local function apply(layer, name, mask)
  local all = rawget(layer, "_pruned") or {}
  rawset(layer, "_pruned", all)
  if all[name] then
    layer[name .. "_mask"] = mask
    layer._buffers[name .. "_mask"] = "kept"
  else
    local original = layer[name]
    forget(layer, name)
    layer[name .. "_orig"] = original
    layer:register_buffer(name .. "_mask", mask)
    local handle = layer:register_forward_pre_hook(function(m) rawset(m, name, m[name .. "_orig"] * m[name .. "_mask"]) end, {prepend = true})
    all[name] = handle
  end
  rawset(layer, name, layer[name .. "_orig"] * mask)
  return layer
end

-- The mask so far, and the scores by which the elements are compared.
local function state_of(layer, name, scores)
  local w = layer[name .. "_orig"] or layer[name]
  local mask = layer[name .. "_mask"] or torch.ones_like(w:detach())
  return w:detach(), mask, scores or (w:detach() * mask)
end

local function amount_of(v) return type(v) == "table" and v.amount or v end
local function scores_of(v) return type(v) == "table" and v.importance_scores or nil end

-- 1 everywhere but at the n smallest of the scores among the elements that are not pruned yet.
local function smallest_out(mask, scores, n)
  if n == 0 then return mask:clone() end
  local flat = mask:reshape(-1):clone()
  local at = flat:ne(0):nonzero():squeeze(2)
  local _, order = scores:reshape(-1):index_select(1, at):topk(n, {largest = false})
  flat:index_fill_(1, at:index_select(1, order), 0)
  return flat:view_as(mask)
end
local function left(mask) return mask:ne(0):sum():item() end

---Holds the elements of smallest magnitude at 0; returns the layer.
---@param layer table
---@param name string
---@param amount number a fraction, or how many
---@param importance_scores? userdata compared in the place of the magnitudes
function prune.l1_unstructured(layer, name, amount, importance_scores)
  target("l1_unstructured", layer, name)
  importance_scores = scores_of(importance_scores) or importance_scores or scores_of(amount)
  local _, mask, scores = state_of(layer, name, importance_scores)
  local n = count_of("l1_unstructured", amount_of(amount), left(mask))
  return apply(layer, name, smallest_out(mask, scores:abs(), n))
end

---Holds elements drawn at random at 0; returns the layer.
---@param layer table
---@param name string
---@param amount number a fraction, or how many
function prune.random_unstructured(layer, name, amount)
  target("random_unstructured", layer, name)
  local _, mask = state_of(layer, name)
  return apply(layer, name, smallest_out(mask, torch.rand_like(mask), count_of("random_unstructured", amount_of(amount), left(mask))))
end

-- Whole slices along a dimension, by a score for each.
local function structured(what, layer, name, amount, dim, score)
  local w, mask = state_of(layer, name)
  if math.type(dim) ~= "integer" or dim == 0 or math.abs(dim) > w.ndim then
    error(("%s: dim must be from 1 to %d, not %s"):format(what, w.ndim, tostring(dim)), 3, "dim")
  end
  if dim < 0 then dim = w.ndim + 1 + dim end
  local flat = (w * mask):transpose(1, dim):reshape(w:size(dim), -1)
  local alive = mask:transpose(1, dim):reshape(w:size(dim), -1):ne(0):any(2):to(w.dtype)
  local slices = smallest_out(alive, score(flat), count_of(what, amount, left(alive)))
  local shape = {}
  for d = 1, w.ndim do shape[d] = d == dim and -1 or 1 end
  return apply(layer, name, mask * slices:reshape(shape))
end
---Holds the slices along a dimension with the smallest n-norm at 0; returns the layer.
---@param layer table
---@param name string
---@param amount number a fraction, or how many
---@param n number the norm, or math.huge
---@param dim integer
function prune.ln_structured(layer, name, amount, n, dim)
  target("ln_structured", layer, name)
  if type(amount) == "table" then amount, n, dim = amount.amount, amount.n, amount.dim end
  if type(n) == "table" then n, dim = n.n, n.dim end
  return structured("ln_structured", layer, name, amount, dim, function(rows) return torch.linalg.vector_norm(rows, {ord = n, dim = 2}) end)
end
---Holds slices along a dimension, drawn at random, at 0; returns the layer.
---@param layer table
---@param name string
---@param amount number a fraction, or how many
---@param dim integer
function prune.random_structured(layer, name, amount, dim)
  target("random_structured", layer, name)
  if type(amount) == "table" then amount, dim = amount.amount, amount.dim end
  if type(dim) == "table" then dim = dim.dim end
  return structured("random_structured", layer, name, amount, dim, function(rows) return torch.rand(rows:size(1)):to(rows.device) end)
end

---Holds the elements at 0 where a mask is 0; returns the layer.
---@param layer table
---@param name string
---@param mask userdata
function prune.custom_from_mask(layer, name, mask)
  target("custom_from_mask", layer, name)
  if type(mask) == "table" then mask = mask.mask end
  local w, before = state_of(layer, name)
  if not torch.is_tensor(mask) or mask.shape ~= w.shape then
    error(("custom_from_mask: the mask must have the shape %s of %s"):format(tostring(w.shape), name), 2, "shape")
  end
  return apply(layer, name, mask:to(w.dtype) * before)
end
---Makes name_orig and name_mask without pruning anything; returns the layer.
---@param layer table
---@param name string
function prune.identity(layer, name)
  target("identity", layer, name)
  local _, mask = state_of(layer, name)
  return apply(layer, name, mask:clone())
end

---Prunes elements of several parameters together: those of smallest magnitude of all, or at random.
---@param parameters table a list of {layer, name}
---@param method function prune.l1_unstructured or prune.random_unstructured
---@param amount number a fraction, or how many
function prune.global_unstructured(parameters, method, amount)
  if type(method) == "table" then method, amount = method.pruning_method, method.amount end
  if method ~= prune.l1_unstructured and method ~= prune.random_unstructured then
    error("global_unstructured: the method is prune.l1_unstructured or prune.random_unstructured", 2)
  end
  local masks, scores = {}, {}
  for i, pair in ipairs(parameters) do
    target("global_unstructured", pair[1], pair[2])
    local _, mask, score = state_of(pair[1], pair[2])
    masks[i] = mask:reshape(-1)
    scores[i] = method == prune.l1_unstructured and score:abs():reshape(-1) or torch.rand_like(masks[i])
  end
  local mask = torch.cat(masks)
  mask = smallest_out(mask, torch.cat(scores), count_of("global_unstructured", amount, left(mask)))
  local at = 1
  for _, pair in ipairs(parameters) do
    local w = state_of(pair[1], pair[2])
    apply(pair[1], pair[2], mask:narrow(1, at, w:numel()):clone():view_as(w))
    at = at + w:numel()
  end
end
prune.L1Unstructured, prune.RandomUnstructured = prune.l1_unstructured, prune.random_unstructured

---Makes the pruned parameter a plain one again, with its zeros; returns the layer.
---@param layer table
---@param name string
function prune.remove(layer, name)
  local all = type(layer) == "table" and rawget(layer, "_pruned")
  if not all or not all[name] then error(('remove: "%s" of this layer is not pruned'):format(tostring(name)), 2, "value") end
  all[name].remove()
  all[name] = nil
  local original = layer[name .. "_orig"]
  torch.no_grad(function() original.data = original:detach() * layer[name .. "_mask"] end)
  forget(layer, name .. "_orig")
  forget(layer, name .. "_mask")
  layer._buffers[name .. "_mask"] = nil
  rawset(layer, name, nil)
  layer[name] = original
  return layer
end

---Whether a layer, or one below it, has pruned parameters.
function prune.is_pruned(layer)
  for _, m in ipairs(layer:modules()) do
    if next(rawget(m, "_pruned") or {}) ~= nil then return true end
  end
  return false
end

return torch._strict(prune, "torch.nn.utils.prune")
