-- First steps: tensors, counting from 1, gradients, and a line fitted to points.
-- Run it with `tycho tutorials/first_steps.lua`, or paste it into the prompt piece by piece.

-- A tensor is an array of numbers of one type. Lua's integers make int64, its floats float32.
local a = torch.tensor {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}
print(a.shape, a.dtype)

-- Positions count from 1: elements, dimensions, class labels. -1 is the last.
print(a[{1, 3}]:item())       -- row 1, column 3
print(a[{{}, -1}])            -- the last column: {} takes a whole dimension
print(a:sum(1))               -- dimension 1 is the rows, so this adds them up

-- Operators work on each element; shapes are lined up from the right, and a size of 1 stretches.
local column = torch.tensor {{10.0}, {20.0}}
print(a + column)

-- A tensor that requires grad remembers what is done with it; backward gives the slope.
local x = torch.tensor(3.0):requires_grad_()
local y = x ^ 2
y:backward()
print(x.grad:item())          -- d(x^2)/dx = 2x

-- Points on a line, with noise, and the line found again by going downhill.
torch.manual_seed(1)
local inputs = torch.linspace(-1, 1, 50):unsqueeze(2)
local targets = inputs * 3 + 0.5 + torch.randn(50, 1) * 0.05
local line = torch.nn.Linear(1, 1)
local optimizer = torch.optim.SGD(line:parameters(), {lr = 0.3})
for step = 1, 100 do
  optimizer:zero_grad()
  local loss = ((line(inputs) - targets) ^ 2):mean()
  loss:backward()
  optimizer:step()
end
print(("slope %.1f, height %.1f"):format(line.weight:item(), line.bias:item()))
