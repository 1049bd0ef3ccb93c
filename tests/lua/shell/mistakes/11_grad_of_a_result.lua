-- x was made by to(), so the gradient stays with the tensor before it.
local x = torch.ones(3, {requires_grad = true}):to("float64")
x:pow(2):sum():backward()
print(x.grad)
