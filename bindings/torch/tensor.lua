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

-- PyTorch's tensordot also takes two lists of dimensions as one argument: dims = {{1, 2}, {3, 1}}.
local tensordot = torch.tensordot
function torch.tensordot(a, b, dims)
  local named = type(a) == "table" and b == nil and a
    or type(dims) == "table" and dims.dims ~= nil and {a, b, dims = dims.dims}
  if named then
    local pair = named.dims
    if type(pair) ~= "table" or type(pair[1]) ~= "table" then
      if named == a then return tensordot(a) end
      return tensordot(a, b, dims)
    end
    a, b, dims = named[1] or named.a, named[2] or named.b, pair
  end
  if type(dims) == "table" and type(dims[1]) == "table" and type(dims[2]) == "table" then
    return tensordot(a, b, dims[1], dims[2])
  end
  return tensordot(a, b, dims)
end
