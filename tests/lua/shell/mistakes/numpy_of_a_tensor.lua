--@ kind: argument
--@ code: NAME-1
--@ fix: 1
--@ says: x:tolist()
-- A tensor's numbers as a plain table, by PyTorch's name for something else.
local x = torch.ones(2)
local numbers = x:numpy()
