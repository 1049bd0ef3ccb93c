-- item() makes a plain number of the loss; a tensor made of it has no graph.
local w = torch.ones(3, {requires_grad = true})
local total = (w * 2):sum():item()
local loss = torch.tensor(total)
loss:backward()
