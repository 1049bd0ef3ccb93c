--@ kind: shape
--@ code: SHAPE-7
--@ says: conv2d 'conv': the input has 10 channels
--@ says: the weight expects 1
--@ says: would fit: conv(x:unsqueeze(2))  -> [10, 8, 26, 26]
--@ fix: 1
local conv = torch.nn.Conv2d(1, 8, 3)
local x = torch.ones(10, 28, 28)
local y = conv(x)
return y
