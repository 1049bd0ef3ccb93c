--@ kind: shape
--@ code: SHAPE-8
--@ says: batch_norm 'bn': training needs at least 2 values per channel, this batch has 1 sample of shape [1, 3]
--@ says: drop_last=true
--@ says: bn:eval()
--@ replace: bn(x) => bn:eval()(x)
local bn = torch.nn.BatchNorm1d(3)
local x = torch.ones(1, 3)
local y = bn(x)
return y
