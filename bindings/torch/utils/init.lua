-- torch.utils: the namespace of torch.utils.data.
return {data = require "torch.utils.data"}
