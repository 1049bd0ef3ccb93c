--# title   Reductions: sums, means and the best, along a dimension
--# see     sum mean max argmax std
--# explains DIM-1 DTYPE-2

--# say     A reduction makes fewer numbers out of many. `sum()` makes one of them all.
--# new     sum
m = torch.tensor{{1, 2, 3},
                 {4, 5, 6}}
--# predict m:sum():item() --> 21
--# hint    1 + 2 + 3 + 4 + 5 + 6
print(m:sum())

--# say     With a dimension it adds along that dimension only, and this dimension is gone afterwards.
--#         Dimension 1 runs down the rows.
--# predict m:sum(1).shape --> [3]
--# wrong   2: Dimension 1 has the size 2, and that is what goes. What is left?
--# wrong   1 3: The dimension goes altogether, unless you ask to keep it.
--# hint    The shape is [2, 3]. Cross out the first.
--# why     [2, 3] without its first size. The number you give names what disappears.
print(m:sum(1))

--# say     And the other one?
--# predict m:sum(2) --> 6 15
--# wrong   5 7 9: That is m:sum(1), down the rows. Dimension 2 runs along a row.
--# wrong   21: That is m:sum(), of everything.
--# hint    Dimension 2 is crossed out of [2, 3]: two numbers remain, one for each row.
--# why     One sum for each row, because the columns were added up.
print(m:sum(2))

--# say     Three dimensions, the same rule.
--# new     zeros
x3 = torch.zeros(4, 5, 6)
--# predict x3:sum(2).shape --> [4, 6]
--# wrong   5 6: That is without the first. Cross out the second.
--# wrong   4 5: That is without the third. Cross out the second.
--# wrong   5: That is the dimension that goes.
--# hint    Cross out the second size.

--# say     `mean` divides the sum by the number of elements. What does it say to whole numbers?
--# new     mean
--# predict m:mean() --> error
--# wrong   3.5: It would be, but m holds whole numbers (i64), and a mean is a fraction.
--# hint    m is i64. Can a mean be stored in whole numbers?
--# why     The kind of numbers never changes behind your back. `m:float()` makes fractions of them first.

--# say     So turn them into `f32` first.
--# new     float
f = m:float()
--# predict f:mean(2) --> 2 5
--# wrong   2.5 3.5 4.5: That is f:mean(1), down the rows.
--# wrong   6 15: Those are the sums. Each row has 3 numbers.
--# wrong   3.5: That is the mean of everything. Here each row has its own.
--# hint    The mean of each row: of 1 2 3, and of 4 5 6.
print(f:mean(2))

--# say     `max(2)` finds the largest of each row, and gives two things: the values, and their positions.
--# new     max
scores = torch.tensor{{0.1, 0.7, 0.2},
                      {0.6, 0.3, 0.1},
                      {0.2, 0.2, 0.6},
                      {0.3, 0.6, 0.1}}
best, where = scores:max(2)
print(best)
--# predict where --> 2 1 3 2
--# wrong   1 0 2 1: Positions count from 1.
--# wrong   0.7 0.6 0.6 0.6: Those are the values. Where do they stand?
--# wrong   2 1 3: Down the rows it would be three; max(2) gives one position for each of the four rows.
--# hint    In row 1 the largest, 0.7, stands at position 2.
print(where)

--# say     Where only the positions matter, `argmax` gives them alone. This is how a classifier answers: it
--#         has a score for each class, and takes the class with the best one.
--# new     argmax
--# predict scores:argmax(2).shape --> [4]
--# wrong   3: That would be argmax(1), the best row for each class.
--# wrong   4 1: The dimension of the classes is gone.
--# hint    One answer for each of the 4 rows.

--# say     Often the result has to meet the table again, and then a lost dimension hurts: [2, 3] divided by
--#         [2] does not line up. `keepdim` leaves a 1 in its place.
--# predict f:sum{dim = 2, keepdim = true}.shape --> [2, 1]
--# wrong   2: With keepdim, the dimension stays, with size 1.
--# wrong   1 3: That is dim = 1. Dimension 2 becomes 1.
--# hint    [2, 3], with a 1 in place of the second size.
--# why     A column, one sum for each row: it stretches along the rows.
print(f / f:sum{dim = 2, keepdim = true})

--# say     Use it.
--# task    Write shares(x): each row of x divided by its sum, so that every row adds up to 1.
--# spec    shares(x)
--#         local out = x:clone()
--#         for i = 1, #x do out[i] = x[i] / x[i]:sum() end
--#         return out
--# try     n in 1..4
--# try     m in 1..4
--# try     x = torch.rand(n, m) + 0.1
--# forbid  for while repeat
--# wrong   function shares(x) return x / x:sum() end: Now the whole table adds up to 1. Each row should.
--# wrong   function shares(x) return x / x:sum(2) end: [n] lines up with the columns; as a column, [n, 1], it
--#         would line up with the rows.
--# wrong   function shares(x) return x / x:sum{dim = 1, keepdim = true} end: Now every column adds up to 1.
--# hint    What is divided by what? x, by the sums of its rows.
--# hint    The sums must be a column: `x:sum{dim = 2, keepdim = true}`.
--# answer
function shares(x) return x / x:sum{dim = 2, keepdim = true} end

--# say     A mask counts as 0 and 1, so its sum is a count: how many elements are greater than 2?
--# new     gt
--# predict m:gt(2):sum():item() --> 4
--# wrong   18: That is the sum of these elements. The mask holds 0 and 1, so it counts them.
--# wrong   5: 2 is not greater than 2.
--# hint    3, 4, 5 and 6 are greater than 2.

--# say     And its mean is a share: the part of the elements for which it holds. (A mean needs fractions:
--#         `float()`.)
--# new     eq
guess = torch.tensor{2, 1, 3, 2}
right = torch.tensor{2, 1, 1, 2}
print(guess:eq(right))
--# predict guess:eq(right):float():mean():item() --> 0.75
--# wrong   3: That is how many are right. The mean is their share.
--# wrong   75: A share of 1, not per cent: 0.75.
--# wrong   0.25: That is the share of the wrong ones.
--# hint    3 of 4 are equal.

--# say     A real use. A classifier gave `scores` [n, classes], with the classes counted from 1; `labels` [n]
--#         holds the right ones. How good is it?
labels = torch.tensor{2, 1, 1, 2}
--# task    Write accuracy(scores, labels): the share of rows whose best class is the label. It is 0.75 here.
--# spec    accuracy(scores, labels)
--#         local hits = 0
--#         for i = 1, #labels do
--#           local _, best = scores[i]:max(1)
--#           if best:item() == labels[i]:item() then hits = hits + 1 end
--#         end
--#         return torch.tensor(hits / #labels)
--# try     n in 1..8
--# try     k in 2..4
--# try     scores = torch.randn(n, k)
--# try     labels = torch.randint(1, k + 1, {n})
--# forbid  for while repeat
--# wrong   function accuracy(scores, labels) return scores:argmax(1):eq(labels):float():mean() end: `argmax(1)`
--#         looks for the best row of each class.
--# wrong   function accuracy(scores, labels) return scores:argmax(2):eq(labels):sum() end: That is how many are
--#         right; the share is asked for.
--# hint    First the answers of the classifier: `scores:argmax(2)`.
--# hint    Then a mask of the right ones, and its mean, as above.
--# why     Four words, one after the other: the best, equal to the label, as numbers, their mean.
--# answer
function accuracy(scores, labels) return scores:argmax(2):eq(labels):float():mean() end
print(accuracy(scores, labels))

--# say     Averages per class: of these four plants we know length and width, and their kind.
plants = torch.tensor{{5.0, 1.0}, {7.0, 3.0}, {6.0, 2.0}, {1.0, 4.0}}
kind = torch.tensor{1, 2, 1, 2}
print(plants[kind:eq(1)])
--# task    Write class_mean(x, labels, c): the mean of those rows of x whose label is c, one number for each
--#         column.
--# spec    class_mean(x, labels, c)
--#         local total, n = torch.zeros(x:size(2)), 0
--#         for i = 1, #x do
--#           if labels[i]:item() == c then total, n = total + x[i], n + 1 end
--#         end
--#         return total / n
--# try     n in 2..6
--# try     c in 1..2
--# try     x = torch.randn(n, 3)
--# try     labels = torch.arange(n) % 2 + 1
--# forbid  for while repeat
--# wrong   function class_mean(x, labels, c) return x[labels:eq(c)]:mean() end: One number for each column is
--#         asked for, not one for all.
--# wrong   function class_mean(x, labels, c) return x[labels:eq(c)]:mean(2) end: This is a mean for each row.
--#         The rows are what should disappear.
--# hint    A mask picks the rows: `x[labels:eq(c)]`.
--# hint    The mean of these rows goes down the rows: which dimension disappears?
--# answer
function class_mean(x, labels, c) return x[labels:eq(c)]:mean(1) end
print(class_mean(plants, kind, 1))

--# say     `std` measures the spread. Tables are often standardised before anything is learned from them:
--#         every column gets the mean 0 and the spread 1, so that centimetres and kilos count alike.
--# new     std
--# task    Write standardise(x): from every column of x [n, m] its mean is subtracted, then it is divided by
--#         its std.
--# spec    standardise(x)
--#         local columns = {}
--#         for j = 1, x:size(2) do
--#           local c = x:select(2, j)
--#           columns[j] = (c - c:mean()) / c:std()
--#         end
--#         return torch.stack(columns, 2)
--# try     n in 3..6
--# try     m in 1..4
--# try     x = torch.randn(n, m) * 3 + 5
--# forbid  for while repeat
--# wrong   function standardise(x) return (x - x:mean()) / x:std() end: That is one mean and one spread for the
--#         whole table. Each column has its own.
--# wrong   function standardise(x) return x - x:mean(1) / x:std(1) end: Division goes first. Put brackets
--#         around the difference.
--# hint    The mean of every column is `x:mean(1)`, with the shape [m]. Does it line up with [n, m]?
--# hint    It does, from the right. So `x - x:mean(1)`, in brackets, divided by `x:std(1)`.
--# why     Here nothing had to be kept: a row of m numbers lines up with the columns by itself.
--# answer
function standardise(x) return (x - x:mean(1)) / x:std(1) end
print(standardise(plants))
