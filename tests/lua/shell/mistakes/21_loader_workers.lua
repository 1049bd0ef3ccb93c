-- A dataset that holds an open file is to be loaded by workers.
local data = torch.utils.data
local Lines = data.class("Lines")
function Lines:__len() return 3 end
function Lines:init()
  self.file = io.open(arg[0])
end
function Lines:get(i)
  return #self.file:read("l") + i
end
for x in data.DataLoader(Lines(), {batch_size = 3, num_workers = 2})() do print(x) end
