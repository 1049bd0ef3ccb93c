--# title   Pictures and videos: tensors of 2 to 5 dimensions
--# see     stack permute flip mean
--# explains WHITE

--# say     Numbers of dimensions have a meaning. One number has none, a row one, a table two. A grey picture is a
--#         table: height first, then width. This handwritten digit has 8 rows of 8 points from 0 to 1.
--# new     utils data
local set = torch.utils.data.digits()
item = set:get(4)
picture = item[1]
print(picture)
--# predict picture.ndim --> 3
--# wrong   2: Look at the shape, [1, 8, 8]. There is one dimension more.
--# wrong   64: That is the number of points.
--# hint    Count the sizes of [1, 8, 8].
--# why     The 1 is the number of colours: a grey picture has one sheet, a coloured one three (red, green, blue).

--# say     `:show()` paints a tensor in the terminal.
--# play    Type `picture:show()`, then `picture[1] * 16` to see its numbers. Enter goes on.

--# say     A colour picture is [3, height, width]: three sheets, one for each colour. Here is one that is
--#         all red: the first sheet is 1, the others are 0.
red = torch.zeros(3, 4, 6)
red[1] = 1
--# predict red[{{}, 2, 5}] --> 1 0 0
--# wrong   1: {} takes all three colours of the point in row 2, column 5.
--# wrong   0 0 1: The first sheet is red; only this one is 1.
--# hint    All sheets, row 2, column 5: three numbers, for red, green and blue.
--# why     The three numbers of one point are its colour.

--# say     Grey is the mean of the three colours. Which dimension disappears?
--# new     mean
--# predict red:mean(1).shape --> [4, 6]
--# wrong   3: It is the colours that disappear.
--# wrong   3 6: That is mean(2), over the height.
--# hint    The dimension of the colours is the first.
print(red:mean(1))

--# say     The eye sees green brighter than red, and blue darkest. So grey is better made with weights that
--#         add up to 1: 0.3 for red, 0.6 for green, 0.1 for blue.
--# task    Write grey(x): the colour picture x [3, h, w] as [h, w], with the weights 0.3, 0.6, 0.1.
--# spec    grey(x)
--#         return x:select(1, 1) * 0.3 + x:select(1, 2) * 0.6 + x:select(1, 3) * 0.1
--# try     h in 2..4
--# try     w in 5..7
--# try     x = torch.rand(3, h, w)
--# forbid  for while repeat
--# wrong   function grey(x) return x:mean(1) end: All three count alike here.
--# wrong   function grey(x) return x[1] * 0.3 + x[2] * 0.6 + x[3] * 0.6 end: Blue has 0.1.
--# wrong   function grey(x) return (x * torch.tensor{0.3, 0.6, 0.1}):sum(1) end: [3, h, w] and [3] line up
--#         from the right: w meets 3. The weights must be [3, 1, 1].
--# hint    `x[1]` is the red sheet, [h, w].
--# hint    `x[1] * 0.3 + ..`; or weights of the shape [3, 1, 1], times x, and the sum over dimension 1.
--# answer
function grey(x) return x[1] * 0.3 + x[2] * 0.6 + x[3] * 0.1 end
--# why     All red is as bright as a dark grey, 0.3:
print(grey(red)[1])

--# say     Many pictures of one size are a batch: [batch, colours, height, width], four dimensions. It is
--#         the shape that networks want, in this order ("NCHW").
--# new     rand
batch = torch.rand(16, 3, 32, 32)
--# predict batch[5].shape --> [3, 32, 32]
--# wrong   16 3 32: The first dimension is used up: picture 5.
--# wrong   1 3 32 32: A position uses its dimension up. (`batch[{{5, 5}}]` would keep it.)
--# hint    Picture 5 of the batch.

--# say     How many numbers are that, and how much memory? An f32 takes 4 bytes.
--# predict batch:numel() * 4 --> 196608
--# wrong   49152: That is the number of numbers. Each takes 4 bytes.
--# hint    16 * 3 * 32 * 32 * 4. 32 * 32 is 1024, times 3 is 3072; that times 16 is 49152.
--# why     192 kB. The same at 224 x 224 with 256 pictures, as large networks are trained: 154 MB, for the
--#         input alone.

--# say     The brightness of each picture in the batch: three dimensions disappear at once. `mean` takes a
--#         table of them.
--# predict batch:mean({2, 3, 4}).shape --> [16]
--# wrong   3: That would be the mean of every colour, over 1, 3 and 4.
--# wrong   3 32 32: Dimensions 2, 3 and 4 are those that go.
--# hint    [16, 3, 32, 32] without its second, third and fourth size.

--# say     Before training, every colour is brought to mean 0. That is one mean for each colour, over all
--#         pictures and points.
--# predict batch:mean{dim = {1, 3, 4}, keepdim = true}.shape --> [1, 3, 1, 1]
--# wrong   3: `keepdim` leaves a 1 in each place.
--# wrong   16 1 1 1: The dimensions 1, 3 and 4 become 1; the colours, dimension 2, stay.
--# hint    The colours stay; all others become 1.
--# why     With the ones it lines up with the batch: [1, 3, 1, 1] stretches to [16, 3, 32, 32].

--# say     Use it.
--# new     std
--# task    Write normalise(x): the batch x [n, c, h, w], every colour minus its mean, divided by its std.
--#         (`std` takes the same arguments as `mean`.)
--# spec    normalise(x)
--#         local out = x:clone()
--#         for c = 1, x:size(2) do
--#           local sheet = x:select(2, c)
--#           out[{{}, c}] = (sheet - sheet:mean()) / sheet:std()
--#         end
--#         return out
--# try     n in 2..3
--# try     c in 4..5
--# try     x = torch.rand(n, c, 6, 7) * 3 + 1
--# forbid  for while repeat
--# wrong   function normalise(x) return (x - x:mean()) / x:std() end: That is one mean for everything. Each
--#         colour has its own.
--# wrong   function normalise(x) return (x - x:mean(2)) / x:std(2) end: Dimension 2 is the one that should stay.
--# wrong   function normalise(x) return (x - x:mean({1, 3, 4})) / x:std({1, 3, 4}) end: [c] lines up with
--#         the width, from the right. The other dimensions have to stay, as 1.
--# hint    `local m = x:mean{dim = {1, 3, 4}, keepdim = true}`.
--# answer
function normalise(x)
  local m = x:mean{dim = {1, 3, 4}, keepdim = true}
  local s = x:std{dim = {1, 3, 4}, keepdim = true}
  return (x - m) / s
end

--# say     A mirror: `flip(d)` turns a dimension round.
--# new     flip
arrow = torch.tensor{{1, 0, 0}, {1, 1, 0}, {1, 0, 0}}
--# predict arrow:flip(2)[2] --> 0 1 1
--# wrong   1 1 0: That row was before. Left and right are exchanged: dimension 2 is the width.
--# hint    Row 2 was 1 1 0. Left and right are exchanged.
--# why     Dimension 2 runs along the row, so flip(2) exchanges left and right. flip(1) would stand it on
--#         its head.
print(arrow:flip(2))

--# say     For a batch count from the end, and it works for pictures of any number of dimensions: -1 is
--#         always the width.
--# predict batch:flip(-1).shape --> [16, 3, 32, 32]
--# wrong   32 32 3 16: The sizes stay; what runs along the width is turned round.
--# hint    No size changes.

--# say     Half the size: every second row and column.
--# predict batch["..., ::2, ::2"].shape --> [16, 3, 16, 16]
--# wrong   8 3 16 32: `...` stands for all dimensions before: the steps belong to the last two.
--# wrong   16 3 32 32: `::2` takes every second position.
--# hint    `...` stands for the first two dimensions; `::2` halves one.

--# say     A video is a row of pictures: [time, colours, height, width]. A batch of videos has five
--#         dimensions. Here are two of them, 10 pictures each.
videos = torch.zeros(2, 10, 3, 24, 32)
--# predict videos[{1, {}, 1}].shape --> [10, 24, 32]
--# wrong   3 24 32: {} takes the whole time; the position 1 uses up the colours.
--# wrong   10 3 24 32: The third, 1, takes the first colour.
--# hint    Video 1, all pictures, colour 1. What is left of [2, 10, 3, 24, 32]?

--# say     Networks for videos want the colours before the time: [batch, colours, time, height, width].
--# new     transpose
--# predict videos:transpose(2, 3).shape --> [2, 3, 10, 24, 32]
--# wrong   10 2 3 24 32: The second and the third dimension are exchanged, counted from 1.
--# hint    10 and 3 change places.

--# say     What has changed from one picture to the next? Take all pictures but the first, minus all but
--#         the last.
clip = torch.zeros(10, 24, 32)
--# predict (clip["2:"] - clip["1:-2"]).shape --> [9, 24, 32]
--# wrong   10 24 32: All but the first are nine.
--# wrong   8 24 32: Each side lacks one picture, not two.
--# hint    How many are left without the first?

--# say     Something real: a camera that watches a door. Where something moves, points change. In this film
--#         a ball of 4 points moves one step to the right in each picture, but not in the fourth.
--# new     abs
film = torch.zeros(6, 8, 16)
for i, column in ipairs{2, 3, 4, 4, 5, 6} do film[{i, {4, 5}, {column, column + 1}}] = 1 end
--# task    Write motion(x): for a clip x [t, h, w], t - 1 numbers: how much each picture differs from the
--#         one before, as the mean of the absolute differences of its points.
--# spec    motion(x)
--#         local out = torch.zeros(x:size(1) - 1)
--#         for i = 2, x:size(1) do out[i - 1] = (x[i] - x[i - 1]):abs():mean() end
--#         return out
--# try     t in 3..5
--# try     h = 6
--# try     w = 7
--# try     x = torch.rand(t, h, w)
--# forbid  for while repeat
--# wrong   function motion(x) return (x["2:"] - x["1:-2"]):mean({2, 3}) end: What becomes darker and what becomes
--#         brighter cancel out. Take the absolute value first.
--# wrong   function motion(x) return (x["2:"] - x["1:-2"]):abs():mean() end: One number for each picture is
--#         asked for.
--# wrong   function motion(x) return (x["2:"] - x["1:-2"]):mean({2, 3}):abs() end: First absolute, then the
--#         mean: otherwise what becomes darker and what becomes brighter cancel out.
--# hint    The differences: `x["2:"] - x["1:-2"]`, [t - 1, h, w].
--# hint    `:abs()`, then the mean over height and width, `:mean({2, 3})`.
--# answer
function motion(x) return (x["2:"] - x["1:-2"]):abs():mean({2, 3}) end
--# why     4 points change in each step: two become bright, two dark. In the third step nothing moves.
print(motion(film) * 8 * 16)
