--# title   Broadcasting: how shapes line up
--# see     view unsqueeze
--# explains SHAPE-2 B2

--# say     Operators work element by element: the first with the first, the second with the second.
a = torch.tensor{1, 2, 3}
b = torch.tensor{10, 20, 30}
--# predict a + b --> 11 22 33
--# wrong   66: Nothing is added up; each element meets its partner.
--# hint    1 + 10, 2 + 20, 3 + 30.
print(a + b)

--# say     A number meets every element. You could say that it is stretched to the shape of the tensor.
--# predict a * 2 --> 2 4 6
--# hint    Each element times 2.
print(a * 2)

--# say     Stretching works for tensors, too. Two shapes are written under each other, lined up from the
--#         right. Where sizes are equal, all is well. Where one has no dimension, or size 1, it stretches.
--#           table  2  3
--#           row    .  3
table23 = torch.tensor{{1, 2, 3}, {4, 5, 6}}
row = torch.tensor{10, 20, 30}
--# predict (table23 + row).shape --> [2, 3]
--# wrong   3: The row stretches to the table, not the table to the row.
--# wrong   3 3: 3 meets 3 and stays 3; the 2 meets nothing and stays 2.
--# hint    From the right: 3 with 3, then 2 with nothing.
--# why     The row is added to each row of the table.
print(table23 + row)

--# say     So which number stands in row 2, column 1 of the sum?
--# predict (table23 + row)[{2, 1}]:item() --> 14
--# wrong   24: Row 2, column 1 of the table is 4; above it, in the row, stands 10.
--# hint    table23[{2, 1}] is 4. Which element of `row` is above it?

--# say     A column is a table with one column, [2, 1]. Its size 1 stretches along the rows.
column = torch.tensor{{100}, {200}}
--# predict (table23 + column)[2] --> 204 205 206
--# wrong   104 205: The whole second row gets 200.
--# wrong   104 105 106: 100 belongs to the first row.
--# hint    The second row of the table is 4 5 6. Which number of the column is beside it?
print(table23 + column)

--# say     A column with a row: both stretch.
--# new     arange view
p = torch.arange(3):view(3, 1)
q = torch.arange(4)
print(p)
print(q)
--# predict (p + q).shape --> [3, 4]
--# wrong   3: The 4 remains as well: line both up from the right.
--# wrong   4 3: Line them up from the right: the 1 of p stands over the 4 of q.
--# wrong   3 1: The 1 of p meets the 4 of q, and stretches.
--# hint    From the right: 1 meets 4, and stretches to 4. Then 3 meets nothing, and stays 3.
--# why     Every element of the column meets every element of the row: a whole table from two short lists.
print(p + q)

--# say     That is how tables are made without a loop. `torch.arange(n)` counts `0, 1, .. n - 1`.
--# task    Write table_of(n): the n x n multiplication table of 1 .. n, one expression, no loops.
--# spec    table_of(n)
--#         local out = torch.zeros(n, n, {dtype = "int64"})
--#         for i = 1, n do for j = 1, n do out[{i, j}] = i * j end end
--#         return out
--# try     n in 1..8
--# allow   arange view unsqueeze reshape t + - * /
--# wrong   function table_of(n) return (torch.arange(n) + 1) * (torch.arange(n) + 1) end: A row times a row
--#         stays a row: the squares. One of them must be a column.
--# wrong   function table_of(n) return torch.arange(n):view(n, 1) * torch.arange(n) end: `torch.arange(n)`
--#         begins with 0, and the table with 1.
--# hint    You need one column and one row.
--# hint    `torch.arange(n) + 1` is a row. What makes it a column?
--# hint    `:view(n, 1)` makes it a column. Column times row.
--# answer
function table_of(n) return (torch.arange(n) + 1):view(n, 1) * (torch.arange(n) + 1) end
print(table_of(5))

--# say     Only 1 stretches; nothing else does. Here is the table again, and two numbers, one for each row.
per_row = torch.tensor{100, 200}
--# predict table23 + per_row --> error
--# wrong   101 102 103 204 205 206: That is what was meant. But shapes line up from the right: 3 meets 2.
--# wrong   2 3: From the right, 3 meets 2, and neither is 1.
--# hint    Write [2, 3] and [2] under each other, lined up from the right.
--# why     3 meets 2, and neither is 1. The 2 of `per_row` was meant for the other dimension, but from the
--#         right it comes to stand under the 3.

--# say     To meet the rows, the two numbers must be a column. `unsqueeze(2)` puts a new dimension of size 1
--#         at place 2: [2] becomes [2, 1].
--# new     unsqueeze
--# predict per_row:unsqueeze(2).shape --> [2, 1]
--# wrong   1 2: That is unsqueeze(1): the new 1 is at place 2.
--# hint    The new 1 stands at place 2.
print(table23 + per_row:unsqueeze(2))

--# say     Fix it.
--# task    Write scale_rows(x, f): the table x [n, m] with row i multiplied by f[i]; f has the shape [n].
--# spec    scale_rows(x, f)
--#         local out = x:clone()
--#         for i = 1, #x do out[i] = x[i] * f[i] end
--#         return out
--# try     n in 1..4
--# try     m in 1..4
--# try     x = torch.randn(n, m)
--# try     f = torch.randn(n)
--# forbid  for while repeat
--# starter function scale_rows(x, f) return x * f end
--# wrong   function scale_rows(x, f) return x * f:unsqueeze(1) end: [1, n] is a row still. The new dimension
--#         belongs at place 2.
--# hint    `x * f` lines f up with the columns; for n = m this even works, and is wrong.
--# hint    Make f a column first.
--# answer
function scale_rows(x, f) return x * f:unsqueeze(2) end

--# say     More dimensions on the left are no trouble. Ten tables at once meet one table, each for itself.
ten = torch.zeros(10, 2, 3)
--# predict (ten + table23).shape --> [10, 2, 3]
--# wrong   2 3: The 10 stays: each of the ten tables is added to.
--# hint    From the right: 3 with 3, 2 with 2, 10 with nothing.

--# say     Even between them, one dimension at a time.
r = torch.zeros(5, 1, 3)
s = torch.zeros(4, 1)
--# predict (r + s).shape --> [5, 4, 3]
--# wrong   5 1 3: In the middle, 1 meets 4 and stretches.
--# wrong   5 4 1: At the right, 3 meets 1, which stretches.
--# hint    From the right: 3 meets 1; 1 meets 4; 5 meets nothing.

--# say     And here is the trap that has cost most people a day. A model gives its answers as a column [4, 1];
--#         the true values are a row [4]. Their differences should be 4 numbers.
--# new     ones
answers = torch.ones(4, 1)
truth = torch.ones(4)
--# predict (answers - truth).shape --> [4, 4]
--# wrong   4: It should be. But line up [4, 1] and [4] from the right.
--# wrong   4 1: Line up [4, 1] and [4] from the right: 1 meets 4.
--# hint    [4, 1] over [4], lined up from the right: this is a column with a row.
--# why     Every answer was compared with every true value, and no error told you. When a result is
--#         too large, look at the shapes first.
print((answers - truth).shape)

--# say     Used on purpose, it is a tool: all pairs at once. Five towns lie along a road, at these kilometres.
--# new     abs
towns = torch.tensor{0, 12, 20, 35, 41}
--# task    Write gaps(x): the table [n, n] of distances between any two places of x [n]. Entry {i, j} is the
--#         distance from i to j, never negative.
--# spec    gaps(x)
--#         local out = torch.zeros(#x, #x, {dtype = x.dtype})
--#         for i = 1, #x do for j = 1, #x do out[{i, j}] = math.abs(x[i]:item() - x[j]:item()) end end
--#         return out
--# try     n in 2..6
--# try     x = torch.randint(0, 50, {n})
--# forbid  for while repeat
--# wrong   function gaps(x) return x:view(-1, 1) - x end: Some of these are negative; a distance is not.
--# wrong   function gaps(x) return x:view(-1, 1) - x:abs() end: `:abs()` binds to x alone. Put brackets around
--#         the difference.
--# hint    A column minus a row gives all differences.
--# hint    `x:view(-1, 1)` is the column. `:abs()` of the difference takes the sign away; mind the brackets.
--# answer
function gaps(x) return (x:view(-1, 1) - x):abs() end
print(gaps(towns))

--# say     Last, towns on a map: x is how far east, y how far north. The distance of two of them is the root
--#         of the sum of the squared differences. `^ 2` squares, `:sqrt()` takes the root.
--# new     sqrt
east = torch.tensor{0.0, 3.0, 3.0}
north = torch.tensor{0.0, 4.0, 0.0}
--# task    Write distances(x, y): the table [n, n] of distances between all pairs of n points.
--# spec    distances(x, y)
--#         local out = torch.zeros(#x, #x)
--#         for i = 1, #x do for j = 1, #x do out[{i, j}] = ((x[i] - x[j]):item() ^ 2 + (y[i] - y[j]):item() ^ 2) ^ 0.5 end end
--#         return out
--# try     n in 2..5
--# try     x = torch.randn(n)
--# try     y = torch.randn(n)
--# forbid  for while repeat
--# wrong   function distances(x, y) return (x:view(-1, 1) - x):abs() + (y:view(-1, 1) - y):abs() end: That is
--#         the way along streets: first east, then north. The straight one is the root of squares.
--# wrong   function distances(x, y) return (x:view(-1, 1) - x) ^ 2 + (y:view(-1, 1) - y) ^ 2 end: The root is
--#         still missing.
--# hint    Make the table of differences for x, and the one for y, as in the last task.
--# hint    Square both tables, add them, take the root: `(dx ^ 2 + dy ^ 2):sqrt()`.
--# why     A program that looks for the nearest neighbour begins exactly so. With east and north from above,
--#         the first two towns are 5 apart: 3 east, 4 north.
--# answer
function distances(x, y)
  local dx = x:view(-1, 1) - x
  local dy = y:view(-1, 1) - y
  return (dx ^ 2 + dy ^ 2):sqrt()
end
print(distances(east, north))
