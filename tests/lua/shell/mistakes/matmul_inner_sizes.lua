--@ kind: shape
--@ code: SHAPE-1
--@ says: [32, 784]
--@ says: [256, 784]
--@ says: dim 2 is 784
--@ says: dim 1 is 256
--@ says: would fit: x:matmul(W1:t())  -> [32, 256]
--@ line: local h = x:matmul(W1) + b1
--@ span: x:matmul(W1)
--@ fix: 1
local x, W1, b1 = torch.ones(32, 784), torch.ones(256, 784), torch.ones(256)
local h = x:matmul(W1) + b1
return h
