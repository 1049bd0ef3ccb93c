-- Tensor methods written in Lua.
local torch = torch
local Tensor = torch._methods
torch._methods = nil

---Iterates over the first dimension: `for i, row in x:rows() do`. (ipairs would run past the end,
---where a tensor raises.)
function Tensor:rows()
  if not torch.is_tensor(self) then torch._raise("rows: a tensor is wanted, not a " .. type(self), 2) end
  local i, n = 0, #self
  return function()
    i = i + 1
    if i <= n then return i, self[i] end
  end
end

---Draws the tensor in the terminal: a heat map, or a picture of [C, H, W] or [H, W, C].
---@param options? {style?: string, width?: integer, low?: number, high?: number, file?: string}
function Tensor:show(options) require("torch.plot.heat").show(self, options) end

---Calls f with the tensor (a leaf, such as a parameter) each time its .grad has taken up a gradient in backward: to step
---and free it at once, say. Returns a handle with remove().
---@param f function
function Tensor:register_post_accumulate_grad_hook(f)
  if type(f) ~= "function" then torch._raise("register_post_accumulate_grad_hook: wants a function of the tensor, not a " .. type(f), 2) end
  local place = setmetatable({self}, {__mode = "v"})  -- the tensor keeps the hook, not the hook the tensor
  return self:_hook_after(function()
    local tensor = place[1]
    if tensor then f(tensor) end
  end)
end

local tensordot = torch.tensordot

---As PyTorch: sums of products over `dims` dimensions, or over two lists of them, which may also come as one
---argument: dims = {{1, 2}, {3, 1}}.
---@param a table|userdata
---@param b? userdata
function torch.tensordot(a, b, ...)
  local dims = ...
  local named = b == nil and type(a) == "table" and a or type(dims) == "table" and dims.dims and dims
  local pair = named and named.dims or dims
  if type(pair) ~= "table" or type(pair[1]) ~= "table" or select("#", ...) > 1 then
    if b == nil then return tensordot(a) end
    return tensordot(a, b, ...)
  end
  if named == a then a, b = a[1] or a.a, a[2] or a.b end
  return tensordot(a, b, pair[1], pair[2])
end
