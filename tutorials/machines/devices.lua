--# title   Devices, and moving between them
--# see     cuda
--# explains DEVICE-1 DEV SYNC MAP

--# say     A graphics card computes many times faster than the processor, and has a memory of its own. So
--#         every tensor lives somewhere: `x.device`. Your machine may have no card; four are simulated
--#         here, with all the rules of real ones, and the processor's speed.
--# new     cuda device ones
if torch.cuda.device_count() < 4 then torch.cuda.simulate(4) end
x = torch.ones(3)
--# predict tostring(x.device) == "cpu" --> true
--# ask     Nothing else was said. Does x live on the CPU? (true or false)
--# wrong   false: A card is used only where one says so.
--# hint    A card is used only where one says so.
print(x.device)

--# say     Cards are called cuda:0, cuda:1 and so on, from 0, as everywhere else in the world of cards.
--# predict torch.cuda.device_count() >= 4 --> true
--# ask     Four were simulated, so the last is cuda:3. Is `torch.cuda.device_count()` at least 4? (true or false)
--# wrong   false: It counts them: 4.
--# hint    It counts them.

--# say     A tensor is made on a card, or moved there. `to` makes a copy; the original stays where it was.
--# new     to
y = x:to("cuda:1")
--# predict tostring(x.device) == "cuda:1" --> false
--# wrong   true: to makes a copy. x is where it was.
--# hint    to makes a copy. What of the original?
print(x, y)

--# say     And what is there already is not copied.
y:to("cuda:1")[1] = 7
--# predict y --> 7 1 1
--# wrong   1 1 1: y is on cuda:1 already, so `to` gives y itself.
--# hint    y is on cuda:1 already.
--# why     So `to` costs nothing where there is nothing to do: one writes it freely.

--# say     What is computed of a tensor lives where the tensor lives. Numbers go anywhere.
z = y * 2 + 1
--# predict z.device.index --> 1
--# ask     On which card is z?
--# wrong   0: y is on cuda:1, and so is what is made of it.
--# hint    Where y is.

--# say     But two tensors must be in one place.
--# predict x + y --> error
--# wrong   8 2 2: x is on the CPU, y on cuda:1. Nobody moves them behind your back.
--# hint    x is on the CPU, y on cuda:1.
--# why     Moving is slow, so it is never done without being told. The message names both ways to mend it.

--# say     A tensor without dimensions counts as a number.
--# new     tensor
--# predict y * torch.tensor(2) --> 14 2 2
--# wrong   error: It has no dimensions: a number, which goes anywhere.
--# hint    A single number goes anywhere.

--# say     Functions should work wherever their arguments are. This one does not: its `zeros` are always on
--#         the CPU.
--# new     zeros cat
function padded(x) return torch.cat{x, torch.zeros(2)} end
--# predict padded(y) --> error
--# wrong   7 1 1 0 0: y is on cuda:1, the zeros are on the CPU.
--# hint    Where are the zeros?

--# say     Mend it.
--# new     cpu
--# task    Write padded(x): x [n] with two zeros behind it, made on x's device. Return two values: the
--#         result moved to the CPU, `out:cpu()`, and the text of the device that it was on,
--#         `tostring(out.device)`.
--# spec    padded(x)
--#         local out = torch.zeros(#x + 2)
--#         out[{{1, #x}}] = x:cpu()
--#         return out, tostring(x.device)
--# try     n in 2..5
--# try     k in 0..3
--# try     x = torch.randn(n):to("cuda:" .. k)
--# wrong   function padded(x) local out = torch.cat{x, torch.zeros(2, {device = "cuda:0"})} return out:cpu(),
--#         tostring(out.device) end: x may be on another card: {device = x.device}.
--# wrong   function padded(x) local out = torch.cat{x:cpu(), torch.zeros(2)} return out:cpu(),
--#         tostring(out.device) end: That moves x away from its device. Make the zeros there.
--# hint    `torch.zeros(2, {device = x.device})`.
--# answer
function padded(x)
  local out = torch.cat{x, torch.zeros(2, {device = x.device})}
  return out:cpu(), tostring(out.device)
end
print(padded(y))

--# say     A network moves as a whole: all its parameters. Other than for tensors, `net:to(device)` moves
--#         the network itself.
--# new     nn
net = torch.nn.Linear(3, 2)
net:to("cuda:2")
--# predict net.weight.device.index --> 2
--# wrong   0: All its parameters are on cuda:2 now.
--# hint    It was moved.

--# say     Its data has to come to it.
--# predict net(x) --> error
--# wrong   0 0: x is on the CPU, the weights are on cuda:2.
--# hint    x is on the CPU.
print(net(x:to("cuda:2")))

--# say     The move is an operation like any other: gradients go back over it.
--# new     sum
a = torch.ones(2, {requires_grad = true})
b = (a:to("cuda:1") * 3):to("cuda:2")
b:sum():backward()
--# predict a.grad --> 3 3
--# wrong   0 0: The graph crosses both moves.
--# wrong   1 1: On the way it is multiplied by 3.
--# hint    The graph crosses both moves.
print(a.grad, a.grad.device)

--# say     Moving costs time: a card adds a million numbers in a hundredth of the time that they need to come
--#         to it. Over PCI Express about 16 billion bytes pass in a second. How many milliseconds take 16
--#         million bytes?
--# predict 16e6 / 16e9 * 1000 --> 1
--# wrong   1000: A thousandth of a second.
--# wrong   0.001: That is in seconds.
--# hint    16 million of 16 billion: a thousandth of a second.

--# say     Estimate before you move.
--# task    Write pays(bytes, cpu_ms, gpu_ms): whether it pays to move: the way there and back (so many bytes
--#         each, at 16e9 bytes a second) plus gpu_ms is less than cpu_ms. True or false.
--# spec    pays(bytes, cpu_ms, gpu_ms)
--#         local seconds = 2 * bytes / 16e9
--#         return cpu_ms - gpu_ms > 1000 * seconds
--# try     k in 1..40
--# try     bytes = k * 1e6
--# try     cpu_ms in 2..6
--# try     gpu_ms in 0..1
--# wrong   function pays(bytes, cpu_ms, gpu_ms) return gpu_ms < cpu_ms end: The way is missing.
--# wrong   function pays(bytes, cpu_ms, gpu_ms) return bytes / 16e9 * 1000 + gpu_ms < cpu_ms end: There, and
--#         back.
--# wrong   function pays(bytes, cpu_ms, gpu_ms) return 2 * bytes / 16e9 + gpu_ms < cpu_ms end: That adds
--#         seconds to milliseconds.
--# hint    The way takes 2 * bytes / 16e9 seconds: times 1000 are milliseconds.
--# answer
function pays(bytes, cpu_ms, gpu_ms) return 2 * bytes / 16e9 * 1000 + gpu_ms < cpu_ms end
--# why     Adding two vectors never pays, whatever the size. A network whose data stays there for thousands
--#         of steps always does.
print(pays(4e6, 0.3, 0.01), pays(4e6, 900, 10))

--# say     `item()` brings a number to the CPU: it waits until the card has done all that it was told. So a
--#         loop that asks for the loss in each step makes the card stand still. One sums up on the card, and
--#         asks once. How often does this loop wait?
--# new     detach
total = torch.zeros(1, {device = "cuda:0"})
for i = 1, 100 do
  total = total + i
  if i % 25 == 0 then last = total:item() end
end
--# predict 100 // 25 --> 4
--# ask     How often does this loop wait for the card?
--# wrong   100: Only where i can be divided by 25.
--# wrong   1: At 25, 50, 75 and 100.
--# hint    At 25, 50, ..
print(last)

--# say     Something real: one script for every machine. It takes the card where there is one, and all
--#         follows from a single variable.
--# new     manual_seed utils optim flatten
device = torch.cuda.is_available() and "cuda:0" or "cpu"
local set = torch.utils.data.digits()
images, labels = set.tensors[1]:flatten(2), set.tensors[2]
--# task    Write losses(device, steps): torch.manual_seed(0); net = a Linear from 64 to 10, moved to the device;
--#         SGD over its parameters with lr 0.5; the first 100 images and labels, moved there; so many steps
--#         with cross_entropy. Return the losses as numbers, a table.
--# spec    losses(device, steps)
--#         torch.manual_seed(0)
--#         local net = torch.nn.Linear(64, 10)
--#         local opt, out = torch.optim.SGD(net:parameters(), {lr = 0.5}), {}
--#         for i = 1, steps do
--#           net.weight.grad, net.bias.grad = nil, nil
--#           local loss = torch.nn.functional.cross_entropy(net(images["1:100"]), labels["1:100"])
--#           loss:backward()
--#           opt:step()
--#           out[i] = loss:item()
--#         end
--#         return out
--# try     steps in 1..5
--# try     k in 0..1
--# try     device = ({[0] = "cpu", "cuda:3"})[k]
--# wrong   function losses(device, steps) torch.manual_seed(0) local net = torch.nn.Linear(64,
--#         10):to(device) local opt, out = torch.optim.SGD(net:parameters(), {lr = 0.5}), {} for i = 1, steps
--#         do opt:zero_grad() local loss = torch.nn.functional.cross_entropy(net(images["1:100"]),
--#         labels["1:100"]) loss:backward() opt:step() out[i] = loss:item() end return out end: The images
--#         and labels must move, too.
--# wrong   function losses(device, steps) torch.manual_seed(0) local net = torch.nn.Linear(64,
--#         10):to("cuda:0") local x, y = images["1:100"]:to("cuda:0"), labels["1:100"]:to(device) local opt,
--#         out = torch.optim.SGD(net:parameters(), {lr = 0.5}), {} for i = 1, steps do opt:zero_grad() local
--#         loss = torch.nn.functional.cross_entropy(net(x), y) loss:backward() opt:step() out[i] =
--#         loss:item() end return out end: Not always cuda:0: the device that was given.
--# hint    `torch.nn.Linear(64, 10):to(device)`, `images["1:100"]:to(device)`, `labels["1:100"]:to(device)`.
--# hint    Make the optimiser after the move, and move the data before the loop: once.
--# answer
function losses(device, steps)
  torch.manual_seed(0)
  local net = torch.nn.Linear(64, 10):to(device)
  local x, y = images["1:100"]:to(device), labels["1:100"]:to(device)
  local opt, out = torch.optim.SGD(net:parameters(), {lr = 0.5}), {}
  for i = 1, steps do
    opt:zero_grad()
    local loss = torch.nn.functional.cross_entropy(net(x), y)
    loss:backward()
    opt:step()
    out[i] = loss:item()
  end
  return out
end
--# why     The same on the CPU and on a card:
print(losses("cpu", 50)[50], losses(device, 50)[50])
