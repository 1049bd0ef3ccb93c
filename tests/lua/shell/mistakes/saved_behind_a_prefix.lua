--@ kind: argument
--@ code: STATE-1
--@ says: all 2 names start with 'module.'
--@ says: load with {strip="module."}
--@ replace: load_state_dict(state) => load_state_dict(state, {strip = "module."})
local net = torch.nn.Linear(2, 3)
local state = {["module.weight"] = torch.ones(3, 2), ["module.bias"] = torch.ones(3)}
net:load_state_dict(state)
