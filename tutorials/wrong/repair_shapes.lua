--# title   What is wrong here? Shapes

--# say     The programs of this chapter are broken: first say what happens, then repair them. Some stop with
--#         an error, which is the friendly kind; others compute, and are wrong. The first: pictures of 3 x 4
--#         points go into a layer that expects 12 numbers.
--# new     nn ones
nn = torch.nn
layer = nn.Linear(12, 5)
pictures = torch.ones(2, 3, 4)
--# predict layer(pictures).shape --> error
--# wrong   2 5: That was meant. But a layer looks at the last dimension alone, and there it finds 4.
--# wrong   2 3 5: The last dimension is 4, and the layer expects 12.
--# hint    A Linear works on the last dimension. How many numbers does it find there?
--# why     "input has 4 features in its last dimension, the layer expects 12".

--# say     The usual cure is one word in the wrong place, or not there.
--# new     flatten manual_seed randn matmul t reshape
--# task    Repair scores(x, w): x is [n, h, v] (n pictures), w is [k, h * v]. It gives k scores for each picture:
--#         [n, k].
--# spec    scores(x, w)
--#         local out = torch.zeros(#x, #w)
--#         for i = 1, #x do out[i] = w:matmul(x[i]:reshape(-1)) end
--#         return out
--# try     n in 2..3
--# try     h in 4..5
--# try     x = torch.randn(n, h, 6)
--# try     w = torch.randn(7, 6 * h)
--# starter function scores(x, w) return x:matmul(w:t()) end
--# wrong   function scores(x, w) return x:flatten():matmul(w:t()) end: flatten() makes one row of all pictures.
--#         The first dimension counts them, and stays: flatten from dimension 2 on.
--# wrong   function scores(x, w) return w:matmul(x:flatten(2):t()) end: That is [k, n]: a row for each score, not
--#         for each picture.
--# hint    Each picture as one row: `x:flatten(2)`.
--# hint    `x:flatten(2):matmul(w:t())`.
--# answer
function scores(x, w) return x:flatten(2):matmul(w:t()) end

--# say     Next: each row shall be divided by its own sum, so that it sums to 1.
--# new     sum
counts = torch.tensor{{1.0, 3.0}, {4.0, 4.0}}
halves = counts / counts:sum(2)
--# predict halves[1] --> 0.25 0.375
--# wrong   0.25 0.75: That was meant: 1 / 4 and 3 / 4. But the sums, 4 and 8, stand as a row: above the columns.
--# hint    counts:sum(2) is the row 4 8. It is lined up from the right: 1 / 4 and 3 / 8.
--# why     No error, because the table is square. With 2 rows of 3 it would have stopped: the worst programs are
--#         tested with square tables.

--# say     Repair it.
--# new     clone rand
--# new     unsqueeze
--# task    Repair shares(x): x is [n, m]; each row divided by its sum.
--# spec    shares(x)
--#         local out = x:clone()
--#         for i = 1, #x do out[i] = x[i] / x[i]:sum() end
--#         return out
--# try     n in 2..4
--# try     m in 5..6
--# try     x = torch.rand(n, m) + 0.5
--# starter function shares(x) return x / x:sum(2) end
--# wrong   function shares(x) return x / x:sum(1) end: That divides by the sums of columns.
--# wrong   function shares(x) return x / x:sum() end: That is the sum of all.
--# hint    The sums must be a column, [n, 1].
--# hint    `x:sum(2, true)` keeps the dimension; `x:sum(2):unsqueeze(2)` brings it back.
--# answer
function shares(x) return x / x:sum(2):unsqueeze(2) end

--# say     A network's predictions come as a column [3, 1], the true values as [3]. The loss is the mean of the
--#         squared differences. Prediction and truth are equal here. (`quietly` keeps the note away that you would
--#         get.)
--# new     notes mean
function quietly(code, f)
  local was = torch.notes()[code]
  torch.notes(code, "off")
  local result = f()
  torch.notes(code, was)
  return result
end
prediction = torch.tensor{{1.0}, {2.0}, {3.0}}
truth = torch.tensor{1.0, 2.0, 3.0}
function loss(p, y) return ((p - y) ^ 2):mean() end
--# predict quietly("B2", function() return loss(prediction, truth) end) --> 1.333
--# wrong   0: That was meant. But [3, 1] - [3] compares every prediction with every truth.
--# hint    [3, 1] - [3] is a table of 9: 0 1 4 / 1 0 1 / 4 1 0. Its mean?
--# why     12 / 9. The network learns to predict the mean of all, and nobody says why: note B2 does.

--# say     Repair it, for both ways that predictions may come.
--# new     item
--# task    Repair mse(p, y): the mean of the squared differences; p is [n, 1] or [n], y is [n].
--# spec    mse(p, y)
--#         local total = 0
--#         for i = 1, #y do total = total + (p[i]:sum() - y[i]):item() ^ 2 end
--#         return torch.tensor(total / #y)
--# try     n in 3..6
--# try     k in 0..1
--# try     p = k == 1 and torch.randn(n, 1) or torch.randn(n)
--# try     y = torch.randn(n)
--# starter function mse(p, y) return ((p - y) ^ 2):mean() end
--# wrong   function mse(p, y) return ((p - y:unsqueeze(2)) ^ 2):mean() end: Now a p of shape [n] fails to meet it: give
--#         both the same shape, whatever p's is.
--# hint    `p:reshape(-1)` is [n] in both cases.
--# answer
function mse(p, y) return ((p:reshape(-1) - y) ^ 2):mean() end

--# say     A table is turned on its side, and its numbers wanted in one row.
--# new     arange view
table23 = torch.arange(6):view(2, 3)
--# predict table23:t():view(6) --> error
--# wrong   0 1 2 3 4 5: They lie so in memory, but t() wants to read them column by column: no view of these cells
--#         has that order.
--# wrong   0 3 1 4 2 5: That is the order wanted. A view copies nothing, and in memory lies 0 1 2 3 4 5.
--# hint    A view shows the cells in the order in which they lie. Do they lie so?
--# why     `reshape` copies where a view cannot be. It is what is nearly always meant.

--# say     But reshape is no cure for what should have been a transpose. Pictures lie as [n, channels, points], and
--#         wanted are [n, points, channels].
--# new     transpose randint
--# new     zeros size
--# task    Repair points_first(x): x [n, c, p] as [n, p, c], where each point keeps its channels.
--# spec    points_first(x)
--#         local out = torch.zeros(x:size(1), x:size(3), x:size(2), {dtype = x.dtype})
--#         for i = 1, x:size(1) do for c = 1, x:size(2) do for p = 1, x:size(3) do
--#           out[{i, p, c}] = x[{i, c, p}]
--#         end end end
--#         return out
--# try     n in 1..2
--# try     c in 2..3
--# try     x = torch.randint(0, 9, {n, c, 4})
--# starter function points_first(x) return x:reshape(x:size(1), x:size(3), x:size(2)) end
--# wrong   function points_first(x) return x:t() end: t() is for tables; here dimensions 2 and 3 change places.
--# wrong   function points_first(x) return x:transpose(1, 2) end: Dimensions count from 1: the channels are number 2.
--# hint    The shape is right, and the numbers are in the wrong places: reshape only cuts the row anew.
--# hint    `x:transpose(2, 3)`.
--# answer
function points_first(x) return x:transpose(2, 3) end

--# say     Something real: a small network that has three of these mistakes. It reads n pictures [n, 3, 4] and gives
--#         one number for each, [n], compared with the truth [n].
--# task    Repair error_of(x, y, w): the mean squared difference of x's weighted sums (w is [12], one weight for each
--#         point) and y [n].
--# spec    error_of(x, y, w)
--#         local total = 0
--#         for i = 1, #x do total = total + ((x[i]:reshape(-1) * w):sum() - y[i]):item() ^ 2 end
--#         return torch.tensor(total / #x)
--# try     n in 2..5
--# try     x = torch.randn(n, 3, 4)
--# try     y = torch.randn(n)
--# try     w = torch.randn(12)
--# starter function error_of(x, y, w) return ((x:flatten():matmul(w:view(12, 1)) - y) ^ 2):mean() end
--# wrong   function error_of(x, y, w) return ((x:flatten(2):matmul(w:view(12, 1)) - y) ^ 2):mean() end: It runs now,
--#         but the sums are a column [n, 1] and y is a row: all pairs.
--# wrong   function error_of(x, y, w) return ((x:flatten(2):matmul(w) - y) ^ 2):sum() end: The mean, not the sum.
--# hint    flatten(2), and no column: what does [n, 12] times [12] give?
--# hint    `x:flatten(2):matmul(w)` is [n].
--# answer
function error_of(x, y, w) return ((x:flatten(2):matmul(w) - y) ^ 2):mean() end
print(error_of(torch.ones(2, 3, 4), torch.tensor{12.0, 10.0}, torch.ones(12)))
