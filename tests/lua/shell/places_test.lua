-- Where in torch a name is: every name of a part must be found, or a slip of the pen is not told where it belongs.
local places = require "torch.explain.places"

test("every name that a part of torch has is found there", function()
  for _, path in ipairs {"torch.nn", "torch.nn.functional", "torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils", "torch.nn.init", "torch.nn.utils",
    "torch.nn.parallel", "torch.utils.data", "torch.utils.data.transforms", "torch.metrics", "torch.models", "torch.func", "torch.distributions",
    "torch.distributed", "torch.amp", "torch.cuda", "torch.linalg"} do
    for name, value in pairs(places.reach(path)) do
      if type(name) == "string" and name:sub(1, 1) ~= "_" and not places.is_part(value) then
        local found = false
        for _, other in ipairs(places.of(name)) do found = found or other == path end
        check.yes(found, path .. "." .. name)
      end
    end
  end
end)
