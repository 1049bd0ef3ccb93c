-- A worker that never comes back with its item.
local data = torch.utils.data
local Set = data.class("Set")
function Set:__len() return 3 end
function Set:get(i)
  while i == 2 do end
  return i
end
for x in data.DataLoader(Set(), {num_workers = 2, timeout = 2})() do print(x) end
