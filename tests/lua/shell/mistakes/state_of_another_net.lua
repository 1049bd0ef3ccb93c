--@ kind: shape
--@ code: STATE-1
--@ says: shapes differ
--@ says: weight is [3, 2] here and [2, 2] there
--@ says: missing: bias
--@ replace: load_state_dict(state) => load_state_dict({weight = torch.ones(3, 2)}, {strict = false})
local net = torch.nn.Linear(2, 3)
local state = {weight = torch.ones(2, 2)}
net:load_state_dict(state)
