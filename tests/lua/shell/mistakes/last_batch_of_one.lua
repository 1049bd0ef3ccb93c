--@ kind: shape
--@ code: SHAPE-8
--@ says: this batch has 1 sample of shape [1, 3]
--@ says: the loader's last batch has 1 of 33 rows
--@ says: drop_last=true
--@ replace: {batch_size = 8} => {batch_size = 8, drop_last = true}
local nn, data = torch.nn, torch.utils.data
local set = data.TensorDataset(torch.randn(33, 3))
local bn = nn.BatchNorm1d(3)
for x in data.DataLoader(set, {batch_size = 8})() do
  local y = bn(x)
  y:sum()
end
