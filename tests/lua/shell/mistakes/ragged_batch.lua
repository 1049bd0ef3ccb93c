--@ kind: shape
--@ code: DATA-1
--@ says: collate: item 2 (dataset index 2) has shape [3], item 1 (dataset index 1) has [2]
--@ says: collate_fn
--@ replace: {batch_size = 2} => {batch_size = 2, collate_fn = function(items) return #items end}
local data = torch.utils.data
local Set = data.class("Set")
function Set:get(i) return torch.ones(i + 1) end
Set.__len = function() return 4 end
local loader = data.DataLoader(Set(), {batch_size = 2})
for batch in loader() do local _ = batch end
