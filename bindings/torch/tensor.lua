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
