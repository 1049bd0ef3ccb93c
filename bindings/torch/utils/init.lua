-- torch.utils: the namespace of torch.utils.data.
return torch._strict({data = require "torch.utils.data"}, "torch.utils")
