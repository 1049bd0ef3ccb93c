-- torch.utils: the namespace of torch.utils.data and torch.utils.checkpoint.
return torch._strict({data = require "torch.utils.data", checkpoint = require "torch.utils.checkpoint"}, "torch.utils")
