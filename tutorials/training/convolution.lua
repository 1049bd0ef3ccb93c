--# title   Convolution: a small window that walks
--# see     nn
--# explains SHAPE-7

--# say     A Linear layer on a picture has a weight for every point, and learns an edge at the left and the
--#         same edge at the right separately. A convolution has one small window of weights, and walks with
--#         it over the whole picture. First on a row: the window 1 -1, at each place.
--# new     nn tensor view flatten
F = torch.nn.functional
row = torch.tensor{0.0, 0.0, 5.0, 5.0, 5.0, 0.0}
window = torch.tensor{-1.0, 1.0}
--# predict F.conv1d(row:view(1, 1, 6), window:view(1, 1, 2)):flatten() --> 0 5 0 0 -5
--# ask     -1 and 1 walk over 0 0 5 5 5 0: at each place, the right one minus the left one.
--# wrong   0 0 5 0 0 -5: A window of 2 has only 5 places on a row of 6.
--# wrong   0 -5 0 0 5: The right one minus the left one: it climbs at place 2.
--# hint    0 - 0, 5 - 0, 5 - 5, 5 - 5, 0 - 5.
--# why     It says where something begins and where it ends: an edge detector with two knobs.

--# say     How many places has a window of k on a row of n?
--# predict 28 - 5 + 1 --> 24
--# ask     A window of 5 on a row of 28?
--# wrong   23: The first place counts, too: 28 - 5 + 1.
--# wrong   28: It must not stand over the end.
--# hint    The first place of the window may be 1, 2, .. up to where its end meets the row's end.

--# say     Write it.
--# new     zeros sum
--# task    Write walk(x, w): for x [n] and a window w [k] the tensor [n - k + 1] whose element i is the sum
--#         of x[i] * w[1] + x[i + 1] * w[2] + .. .
--# spec    walk(x, w) return F.conv1d(x:view(1, 1, -1), w:view(1, 1, -1)):flatten()
--# try     n in 5..9
--# try     k in 2..4
--# try     x = torch.randn(n)
--# try     w = torch.randn(k)
--# forbid  conv1d conv2d
--# wrong   function walk(x, w) local out = torch.zeros(#x - #w) for i = 1, #x - #w do out[i] = (x[{{i, i +
--#         #w - 1}}] * w):sum() end return out end: There is one place more: n - k + 1.
--# wrong   function walk(x, w) local out = torch.zeros(#x - #w + 1) for i = 1, #out do out[i] = x[i] * w[1]
--#         end return out end: The sum over the whole window.
--# hint    `local out = torch.zeros(#x - #w + 1)`, then a loop over its places.
--# hint    The piece under the window is `x[{{i, i + #w - 1}}]`; times w, summed.
--# answer
function walk(x, w)
  local out = torch.zeros(#x - #w + 1)
  for i = 1, #out do out[i] = (x[{{i, i + #w - 1}}] * w):sum() end
  return out
end
print(walk(row, window))

--# say     `padding = 1` puts a zero at each end first, `stride = 2` walks in steps of 2.
--# new     ones
--# predict F.conv1d(torch.ones(1, 1, 6), torch.ones(1, 1, 3), {padding = 1}):flatten() --> 2 3 3 3 3 2
--# ask     Ones 1 1 1 1 1 1, a window of three ones, padding 1?
--# wrong   3 3 3 3: That is without padding.
--# wrong   3 3 3 3 3 3: At the ends one of the three stands over a zero.
--# hint    0 1 1, then 1 1 1 four times, then 1 1 0.
--# why     A window of 3 with padding 1 keeps the size. That is why it is met everywhere.

--# say     In pictures the window is a table, and walks along both dimensions. A picture batch is [n,
--#         colours, height, width]; `nn.Conv2d(1, 8, 3)` has eight windows of 3 x 3, and makes 8 "colours"
--#         of one, a map for each window.
conv = torch.nn.Conv2d(1, 8, 3)
--# predict conv(torch.zeros(10, 1, 28, 28)).shape --> [10, 8, 26, 26]
--# wrong   10 8 28 28: Without padding a window of 3 has 26 places on 28.
--# wrong   10 1 26 26: Eight windows: eight maps.
--# wrong   8 26 26: The 10 pictures stay.
--# hint    10 pictures, 8 maps, 28 - 3 + 1.

--# say     How many knobs are that?
--# new     numel
--# predict conv.weight:numel() + conv.bias:numel() --> 80
--# wrong   72: And a bias for each map.
--# wrong   5408: The same window is used at all places.
--# hint    8 windows of 1 * 3 * 3, and 8 biases.
--# why     A Linear from 784 points to as many outputs would have four million.

--# say     The next layer's windows look at all 8 maps at once: each window is [8, 3, 3].
--# predict torch.nn.Conv2d(8, 16, 3).weight.shape --> [16, 8, 3, 3]
--# wrong   8 16 3 3: Outputs come first, as in Linear.
--# wrong   16 3 3: Each of the 16 windows is 8 deep.
--# hint    16 windows, each 8 x 3 x 3.

--# say     What if the pictures have another number of colours?
--# predict torch.nn.Conv2d(3, 8, 3)(torch.zeros(10, 1, 28, 28)) --> error
--# wrong   10 8 26 26: Its windows are 3 deep, the pictures have 1 colour.
--# hint    Its windows are 3 deep.
--# why     And pictures read from files as [n, height, width, colours] must be turned first:
--#         `x:permute(1, 4, 2, 3)`.

--# say     `MaxPool2d(2)` takes the largest of each 2 x 2: half as high, half as wide. What matters is that
--#         there was an edge, not where to the point.
pool = torch.nn.MaxPool2d(2)
--# predict pool(torch.tensor{{{{1.0, 2.0, 0.0, 0.0}, {4.0, 3.0, 0.0, 7.0}}}}):flatten() --> 4 7
--# ask     The picture has the rows 1 2 0 0 and 4 3 0 7. What is left?
--# wrong   4 3 0 7: The largest of each square of 2 x 2.
--# wrong   2.5 1.75: The largest, not the mean.
--# hint    Left square: 1 2 4 3. Right square: 0 0 0 7.

--# say     Sizes through a network: what comes out of Conv (window k, padding p) and then MaxPool2d(2)?
--# task    Write sizes(n, layers): a picture is n high; `layers` is a list of {k, p}: for each, a convolution
--#         with window k and padding p, then a pool of 2 (an odd row is left out). Return the height at the
--#         end.
--# spec    sizes(n, layers)
--#         local x = torch.zeros(1, 1, n, 60)
--#         for _, l in ipairs(layers) do
--#           x = F.conv2d(x, torch.zeros(1, 1, l[1], 1), {padding = {l[2], 0}})
--#           x = F.max_pool2d(x, {2, 1})
--#         end
--#         return x:size(3)
--# try     n in 24..33
--# try     k in 2..4
--# try     layers = {{k, 1}, {3, 0}}
--# forbid  conv2d max_pool2d zeros
--# wrong   function sizes(n, layers) for _, l in ipairs(layers) do n = (n - l[1] + 1) // 2 end return n end:
--#         And the padding, at both ends.
--# wrong   function sizes(n, layers) for _, l in ipairs(layers) do n = (n + l[2] - l[1] + 1) // 2 end return
--#         n end: The padding is at both ends: twice.
--# wrong   function sizes(n, layers) for _, l in ipairs(layers) do n = (n + 2 * l[2] - l[1]) // 2 end return
--#         n end: n - k + 1 places.
--# hint    With padding the picture is n + 2 * p high; the window has (that) - k + 1 places.
--# hint    The pool halves: `// 2`.
--# answer
function sizes(n, layers)
  for _, layer in ipairs(layers) do
    local k, p = layer[1], layer[2]
    n = (n + 2 * p - k + 1) // 2
  end
  return n
end
print(sizes(28, {{5, 2}, {5, 2}}))

--# say     A window that you know: Sobel's, for edges. On a digit, it draws the outline.
--# new     utils abs squeeze
local set = torch.utils.data.digits()
pictures, labels = set.tensors[1], set.tensors[2]
sobel = torch.tensor{{-1.0, 0.0, 1.0}, {-2.0, 0.0, 2.0}, {-1.0, 0.0, 1.0}}
--# predict sobel:sum():item() --> 0
--# ask     What does this window say to an even grey area: what is the sum of its weights?
--# wrong   8: The left ones are negative.
--# hint    -4 and 4.
--# play    `F.conv2d(pictures["1:1"], sobel:view(1, 1, 3, 3)):abs():squeeze():show()` and
--#         `pictures[1]:show()`. Enter goes on.

--# say     Something real: a network with windows reads digits. Two convolutions, two pools, one Linear.
--# new     manual_seed optim argmax eq float mean detach
function make()
  torch.manual_seed(0)
  return torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3, {padding = 1}), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(8, 16, 3, {padding = 1}), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(64, 10))
end
--# predict 16 * sizes(8, {{3, 1}, {3, 1}}) ^ 2 --> 64
--# ask     The pictures are 8 x 8. How many numbers come to the Linear?
--# wrong   16: 16 maps of 2 x 2.
--# wrong   256: After two pools the maps are 2 x 2.
--# hint    8, 4, 2: 16 maps of 2 x 2.

--# say     Train it, in batches of 100.
--# task    Write train(steps): net = make() (a local one); Adam with lr 0.01; step i takes the pictures from
--#         100 * k + 1 to 100 * k + 100 with k = (i - 1) % 10, and their labels, with cross_entropy. Return
--#         net's scores for pictures["1001:"], detached.
--# spec    train(steps)
--#         local n = make()
--#         local o = torch.optim.Adam(n:parameters(), {lr = 0.01})
--#         for i = 0, steps - 1 do
--#           local a = i % 10 * 100 + 1
--#           for _, p in ipairs(n:parameters()) do p.grad = nil end
--#           F.cross_entropy(n(pictures[{{a, a + 99}}]), labels[{{a, a + 99}}]):backward()
--#           o:step()
--#         end
--#         return n(pictures["1001:"]):detach()
--# try     steps in 1..4
--# wrong   function train(steps) local net = make() local opt = torch.optim.Adam(net:parameters(), {lr =
--#         0.01}) for i = 1, steps do opt:zero_grad() F.cross_entropy(net(pictures["1:100"]),
--#         labels["1:100"]):backward() opt:step() end return net(pictures["1001:"]):detach() end: These are
--#         always the first hundred.
--# wrong   function train(steps) local net = make() local opt = torch.optim.Adam(net:parameters(), {lr =
--#         0.01}) for i = 1, steps do local k = (i - 1) % 10 F.cross_entropy(net(pictures[{{100 * k + 1, 100
--#         * k + 100}}]), labels[{{100 * k + 1, 100 * k + 100}}]):backward() opt:step() end return
--#         net(pictures["1001:"]):detach() end: zero_grad is missing.
--# hint    `local k = (i - 1) % 10`, `local part = {{100 * k + 1, 100 * k + 100}}`, then `pictures[part]` and
--#         `labels[part]`.
--# hint    zero_grad; the loss, `F.cross_entropy(net(pictures[part]), labels[part])`; backward; step.
--# answer
function train(steps)
  local net = make()
  local opt = torch.optim.Adam(net:parameters(), {lr = 0.01})
  for i = 1, steps do
    local k = (i - 1) % 10
    local part = {{100 * k + 1, 100 * k + 100}}
    opt:zero_grad()
    local loss = F.cross_entropy(net(pictures[part]), labels[part])
    loss:backward()
    opt:step()
  end
  return net(pictures["1001:"]):detach()
end
--# why     With 1,898 knobs, fewer than the Linear network of the lesson on digits had, it reads so many of
--#         the 797 that it never saw:
print(train(150):argmax(2):eq(labels["1001:"]):float():mean():item())
