--# title   Shapes, and counting from 1
--# see     tensor zeros numel
--# explains SHAPE-10 SHAPE-0

--# say     A tensor is a block of numbers, all of one kind. `torch.tensor` makes one from a Lua table.
--#         Here are the prices of three things.
--# new     tensor
prices = torch.tensor{3, 5, 4}
print(prices)
--# play    You can type anything here, at any time; try `prices` or `1 + 1`. Enter goes on.

--# say     Above the numbers stands what they are: `i64`, whole numbers of 64 bits, and the shape, `[3]`.
--#         The shape lists the sizes: how many numbers there are along each direction.
--# new     shape
more = torch.tensor{10, 20, 30, 40, 50}
--# predict more.shape --> [5]
--# wrong   10 20 30 40 50: Those are the values. The shape says only how many there are.
--# wrong   50: That is the last value. The shape says how many values there are.
--# hint    Count the numbers. An answer is typed as `3`, or `[3]`.
--# why     One direction, five numbers along it.
print(more.shape)

--# say     A table has two directions. Each inner `{..}` is a row: here the points that three pupils got
--#         in four tests.
points = torch.tensor{{7, 9,  4, 6},
                      {5, 8, 10, 3},
                      {9, 2,  1, 5}}
--# predict points.shape --> [3, 4]
--# wrong   4 3: Rows come first: how many rows are there, and how long is each?
--# wrong   12: That is how many numbers there are in all. There are two directions here.
--# wrong   3: That is the number of rows. How long is each row? Answer with both, as `2 5`.
--# hint    How many rows are there? Then: how long is each row?
--# hint    Two sizes with a blank between, rows first: `2 5` would be two rows of five.
--# why     3 rows of 4: rows first, as in a table of a book.
print(points.shape)

--# say     Each entry of the shape belongs to one dimension. Dimension 1 runs down the rows, dimension 2
--#         along a row. `ndim` is the number of dimensions, `numel()` that of all elements.
--# new     ndim numel
--# predict points:numel() --> 12
--# wrong   7: The sizes are multiplied, not added: there are 4 numbers in every row.
--# wrong   2: That is ndim, the number of dimensions.
--# hint    3 rows, and 4 numbers in each.
--# why     3 times 4. The number of elements is always the product of the sizes.
print(points.ndim, points:numel())

--# say     Everything is counted from 1: the first row is row 1. One element is found by its row and its
--#         column, `points[{row, column}]`. What comes out is still a tensor; `:item()` takes the plain Lua
--#         number out of it.
--# new     item
print(points[{1, 2}]:item())
--# predict points[{2, 3}]:item() --> 10
--# wrong   2: That is row 3, column 2. The row comes first.
--# wrong   5: You counted from 0, perhaps: row 2 is the second one.
--# hint    Row 2 is {5, 8, 10, 3}. Now its column 3.
--# why     Row 2, column 3. Pupil 2 has full points in test 3.

--# say     One position alone takes a whole row: `points[2]` is all that pupil 2 got.
--#         (What the word "view" means is for the lesson `views`.)
print(points[2])
--# predict points[3].shape --> [4]
--# wrong   3: That is how many rows there are. This is one row: how long is it?
--# wrong   1 4: It is one row, but nothing of "one" remains: the dimension of the rows is gone.
--# hint    It is the row {9, 2, 1, 5}, as a tensor of its own.
--# why     The first dimension is used up; the second one is what is left.

--# say     Negative positions count from the end: -1 is the last, -2 the one before it.
--# predict points[{-1, -2}]:item() --> 1
--# wrong   5: That is [{-1, -1}], the last of the last row.
--# wrong   3: That is row 2. -1 is the last row; -2 is the last column but one.
--# hint    The last row is {9, 2, 1, 5}. Which is the last but one in it?
--# why     The last row, and in it the last element but one.

--# say     And position 0? Think before you answer; `error` is an answer, too.
--# predict points[0] --> error
--# wrong   7 9 4 6: That is points[1]: the first row has the number 1.
--# hint    If the first row is 1, what would row 0 be?
--# why     There is no row 0, and no silent surprise: counting from 0 by mistake is caught at once.

--# say     An element is changed by assigning to its place.
points[{3, 3}] = 6
--# predict points[3] --> 9 2 6 5
--# wrong   9 2 1 5: That was before. The third element of row 3 is new.
--# hint    Row 3 was {9, 2, 1, 5}. Which of these is in column 3?
print(points[3])

--# say     The kind of the numbers is the dtype. Whole numbers make `i64` (int64). As soon as one number
--#         has a point in it, all become `f32` (float32), numbers with fractions: a tensor has one kind only.
--# new     dtype
heights = torch.tensor{1.5, 2, 1.75}
--# predict heights.dtype --> f32
--# wrong   i64: 1.5 would not fit into whole numbers.
--# hint    Is any of them no whole number? Then the answer is `f32`.
--# why     The 2 was stored as 2.0, so that all are of one kind.
print(heights)

--# say     `torch.zeros` makes a tensor full of zeros; here you give sizes, not values.
--# new     zeros
empty = torch.zeros(2, 5)
--# predict empty.shape --> [2, 5]
--# wrong   2: Sizes were given, not values: 2 rows, and 5 columns.
--# hint    The two numbers in the brackets are the sizes themselves.
--# why     Two rows of five zeros. They are `f32`, because most numbers in this field are.
print(empty)

--# say     Your turn. Make `board`, a board of 8 rows and 8 columns, full of zeros, with a 1 in its first
--#         row, fourth column: that is where the queen stands.
--# task    Make the board, then put the queen on it. Two lines; type one after the other.
--# spec    board = (function() local b = torch.zeros(8, 8) b[{1, 4}] = 1 return b end)()
--# wrong   board = torch.zeros(8, 8): The queen is still to come.
--# wrong   board[{4, 1}] = 1: The row comes first.
--# hint    The board alone is `board = torch.zeros(8, 8)`.
--# hint    Now assign 1 to the place {1, 4}, as the lesson did with `points[{3, 3}] = 6`.
--# answer
board = torch.zeros(8, 8)
board[{1, 4}] = 1

--# say     `#x` is the first size, as a plain number. So a loop over the rows of a tensor looks like any
--#         loop in Lua: from 1 to #x.
for i = 1, #points do
  print("pupil " .. i, points[{i, 1}]:item())
end
--# predict #points --> 3
--# wrong   4: That is the second size, points.shape[2]. `#` gives the first.
--# wrong   12: That is numel. `#` gives the first size only.
--# hint    It is points.shape[1].

--# say     A picture is a tensor, too: a number for each point, here 0 for dark and 1 for light. This
--#         function prints one, row by row.
function draw(picture)
  for i = 1, #picture do
    local line = ""
    for j = 1, picture.shape[2] do
      line = line .. (picture[{i, j}]:item() > 0 and "#" or ".")
    end
    print(line)
  end
end
smile = torch.zeros(4, 5)
smile[{1, 2}] = 1
smile[{1, 4}] = 1
smile[{3, 1}] = 1
smile[{3, 5}] = 1
smile[4] = torch.tensor{0.0, 1.0, 1.0, 1.0, 0.0}
draw(smile)
--# play    Change a point of it (`smile[{2, 3}] = 1`), and `draw(smile)` again. Enter goes on.

--# say     A colour picture has a red, a green and a blue sheet: three dimensions. This one has 3 sheets
--#         of 10 rows and 20 columns.
photo = torch.zeros(3, 10, 20)
--# predict photo:numel() --> 600
--# wrong   33: The sizes are multiplied, not added.
--# wrong   200: That is one sheet. There are three.
--# hint    One sheet has 10 times 20 numbers.
--# why     A photo of a telephone is the same, [3, 3000, 4000]: 36 million numbers.
print(photo.shape, photo:numel())

--# say     To end with, a picture by a function. A cross of size 5 is
--#           #...#
--#           .#.#.
--#           ..#..
--#           .#.#.
--#           #...#
--# task    Write cross(n): a picture [n, n] of zeros, with ones on both diagonals.
--# spec    cross(n)
--#         local c = torch.eye(n)
--#         return torch.maximum(c, c:flip(1))
--# try     n in 1..9
--# wrong   function cross(n) return torch.eye(n) end: That is one of the two diagonals.
--# wrong   function cross(n) local p = torch.zeros(n, n) for i = 1, n do p[{i, i}] = 1 p[{i, n - i}] = 1 end
--#         return p end: Row 1 has its second point in column n, not in n - 1.
--# hint    Begin with `local p = torch.zeros(n, n)`, end with `return p`, and put a loop between.
--# hint    In row i, the first diagonal is at column i: `p[{i, i}] = 1`.
--# hint    The other one starts in the last column: row 1 has column n, row 2 column n - 1, row i has n + 1 -
--#         i.
--# why     Counting from 1, the mirror image of i is n + 1 - i. `draw(cross(9))` shows yours.
--# answer
function cross(n)
  local p = torch.zeros(n, n)
  for i = 1, n do
    p[{i, i}] = 1
    p[{i, n + 1 - i}] = 1
  end
  return p
end
draw(cross(9))
