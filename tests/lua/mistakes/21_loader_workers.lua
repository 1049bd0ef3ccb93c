-- A loader with workers, which this one does not have.
local data = torch.utils.data
local set = data.TensorDataset(torch.arange(6))
local loader = data.DataLoader(set, {batch_size = 2, num_workers = 2})
for x in loader() do print(x) end
