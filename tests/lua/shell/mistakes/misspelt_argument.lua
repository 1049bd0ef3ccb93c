--@ kind: argument
--@ code: ARG-1
--@ says: no argument "keepdims_"; did you mean "keepdim"?
--@ fix: 1
local x = torch.ones(2, 3)
return x:sum{dim = 1, keepdims_ = true}
