-- A hand-written step that changes a weight while its graph is being recorded.
local w = torch.tensor({0.5, 1.0}, {requires_grad = true})
local lr = 0.1
w:pow(2):sum():backward()
w:sub_(lr * w.grad)
print(w)
