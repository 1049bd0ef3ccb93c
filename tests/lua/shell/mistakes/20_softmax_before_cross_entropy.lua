-- cross_entropy gets probabilities, and applies log_softmax to them again.
local F = torch.nn.functional
local w = torch.ones(2, 3, {requires_grad = true})
local y = torch.tensor{1, 3}
local scores = F.softmax(w * 2, 2)
local loss = F.cross_entropy(scores, y)
loss:backward()
