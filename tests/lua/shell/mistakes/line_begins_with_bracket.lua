--@ kind: argument
--@ code: NAME-1
--@ says: begins with "("
--@ replace: (net(x) ^ 2) => ;(net(x) ^ 2)
local net, x = torch.nn.Linear(2, 1), torch.ones(3, 2)
net:zero_grad()
(net(x) ^ 2):sum():backward()
return net.weight.grad
