-- What the makers of torch.models share: their arguments, and weights from a file.
local torch = torch
local nn = torch.nn
local build = {}

---A function that makes a network: `maker("resnet18", "num_classes=1000", make)`. It takes its arguments by position
---or by name, and `weights`, a file or a state dict to load into the new network.
---@param name string
---@param signature string arguments with defaults, as help shows them
---@param make fun(a: table): table
function build.maker(name, signature, make)
  signature = signature .. ", weights=nil"
  ---A known network; its arguments by name, as in {num_classes = 10}, and {weights = "file.pt"} to load some.
  return function(...)
    local a = nn._args(name, signature, ...)
    local net = make(a)
    local weights = a.weights
    if weights then
      if type(weights) == "string" then weights = torch.load(weights) end
      net:load_state_dict(weights)
    end
    return net
  end
end

return build
