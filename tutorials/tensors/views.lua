--# title   Views: several names for one store
--# see     view clone reshape stride
--# explains SHAPE-4 SHAPE-3

--# say     The numbers of a tensor lie in memory in one row of cells, its store. `view` looks at the same
--#         cells with another shape: here 6 cells as 2 rows of 3.
--# new     view
x = torch.tensor{1, 2, 3, 4, 5, 6}
v = x:view(2, 3)
print(v)
--# predict v[{2, 1}]:item() --> 4
--# wrong   2: Row 1 takes the cells 1 to 3; row 2 begins with cell 4.
--# hint    The first three cells are row 1. Which cell comes next?

--# say     Nothing was copied. So what is written through one name is seen through the other.
x[1] = 100
--# predict v[{1, 1}]:item() --> 100
--# wrong   1: That would be so if v were a copy; it is the same cell.
--# hint    v[{1, 1}] and x[1] are the same cell.
--# why     One cell, two names. That is what "a view" means.
print(v)

--# say     The lens `%layout` draws the cells, and says which tensors share them.
--# play    Type `%layout x, v`. Enter goes on.

--# say     Rows, columns and ranges of the last lesson are views as well.
row = v[2]
row[3] = 0
--# predict x --> 100 2 3 4 5 0
--# wrong   100 2 3 4 5 6: v[2] is no copy: its third element is cell 6 of x.
--# wrong   100 2 0 4 5 6: row is the second row of v, cells 4 to 6.
--# hint    v[2] is cells 4, 5 and 6 of x.
print(x)

--# say     A copy has to be asked for: `clone` takes cells of its own.
--# new     clone
c = x:clone()
c[1] = -1
--# predict x[1]:item() --> 100
--# wrong   -1: A clone shares nothing: only c has changed.
--# hint    Does c share cells with x?

--# say     Careful: `=` alone never copies in Lua. It gives the same tensor a second name.
same = x
same[2] = 50
--# predict x[2]:item() --> 50
--# wrong   2: `same = x` made no copy, and no new tensor at all.
--# hint    `same` and `x` are one tensor with two names.

--# say     Arithmetic makes new tensors: `x + 1` has its own cells. A method whose name ends in `_` works in
--#         place instead: `x:add_(1)` writes into the cells of x.
--# new     add_
y = x + 1
x:add_(1)
--# predict v[{1, 1}]:item() --> 101
--# wrong   100: add_ writes into the cells, and v looks at the same cells.
--# wrong   102: `x + 1` left x alone; only add_ changed it.
--# hint    x + 1 left x as it was, x:add_(1) did not.
--# why     The underscore is a warning sign: everybody who looks at these cells sees the change.
print(x)

--# say     `t()` exchanges rows and columns, and this is a view, too.
--# new     t
m = torch.tensor{{1, 2, 3}, {4, 5, 6}}
w = m:t()
print(w)
--# predict w[{3, 2}]:item() --> 6
--# wrong   3: That is w[{3, 1}].
--# wrong   5: That is w[{2, 2}].
--# hint    w[{3, 2}] is m[{2, 3}].

--# say     How can one row of cells be both? By steps. `stride()` tells how many cells to go for the next
--#         row, and for the next column. In m the next row begins 3 cells on, the next column 1 cell on.
--# new     stride
print(m:stride())
--# predict w:stride() --> [1, 3]
--# wrong   3 1: Those are the steps of m. In w, the rows are the columns of m.
--# wrong   2 1: No cell was moved. What was a step to the next column is now a step to the next row.
--# hint    Going down in w is going right in m.
--# why     Only the steps were exchanged. Transposing a million numbers costs nothing.

--# say     A view needs steps that fit. The cells of w, read row by row, are 1, 4, 2, 5, 3, 6: no single
--#         step leads through them in this order.
--# predict w:view(6) --> error
--# wrong   1 4 2 5 3 6: To put them in this order, they must be copied, and view never copies.
--# wrong   1 2 3 4 5 6: That is the order of the cells, but w reads them in another one.
--# hint    Would one step lead from 1 to 4, and then from 4 to 2?
--# why     `view` never copies, so it refuses. That is what makes it safe to rely on.

--# say     `reshape` is a view where it can be, and a copy where it must.
--# new     reshape
--# predict w:reshape(6) --> 1 4 2 5 3 6
--# wrong   1 2 3 4 5 6: w is read row by row: its first row is 1, 4.
--# hint    Read w row by row; its rows are {1, 4}, {2, 5} and {3, 6}.
--# why     Here it had to copy. So a change of `flat` does not reach w:
flat = w:reshape(6)
flat[2] = 0
print(w[{1, 2}]:item())

--# say     What a list of positions or a mask picks is always a copy: such elements can lie anywhere.
picked = x[torch.tensor{3, 4}]
picked[1] = 0
--# predict x[3]:item() --> 4
--# wrong   0: A list of positions copies; x keeps its 4.
--# hint    x[3] was 4 before, and `picked` is a copy.
--# why     Ranges give views, lists and masks give copies.

--# say     Now you. A function should leave what it is given alone, unless its name says otherwise.
--# task    Write muted(x): a tensor like x with 0 as its first element. The given x must stay as it is.
--# spec    muted(x) return torch.cat{torch.zeros(1, {dtype = x.dtype}), x["2:"]}
--# try     n in 1..6
--# try     x = torch.randn(n)
--# wrong   function muted(x) x[1] = 0 return x end: The tensor of the caller has changed. Take a copy first.
--# wrong   function muted(x) local y = x y[1] = 0 return y end: `=` makes no copy: y is another name of x.
--# hint    Assigning to x[1] would change the tensor of the caller.
--# hint    Take a copy first: `local y = x:clone()`.
--# answer
function muted(x)
  local y = x:clone()
  y[1] = 0
  return y
end

--# say     Some programs store tables column by column.
--# task    Write by_columns(x): all elements of the table x in one row, column after column, so that
--#         {{1, 2, 3}, {4, 5, 6}} becomes 1 4 2 5 3 6.
--# spec    by_columns(x)
--#         local columns = {}
--#         for j = 1, x:size(2) do columns[j] = x:select(2, j) end
--#         return torch.cat(columns)
--# try     n in 2..4
--# try     m in 2..4
--# try     x = torch.randint(10, 100, {n, m})
--# forbid  for while repeat
--# wrong   function by_columns(x) return x:reshape(-1) end: That reads row after row.
--# wrong   function by_columns(x) return x:t():view(-1) end: A view never copies, and no step leads through the
--#         cells in this order. `reshape` copies.
--# hint    You saw it above: exchange rows and columns, then read row by row.
--# hint    After `t()` a view is not possible; `reshape` copies. -1 as a size means "as many as there are".
--# answer
function by_columns(x) return x:t():reshape(-1) end

--# say     A real use: retouching. Here is a picture that is too dark in one place. A patch of it is a view,
--#         so a change of the patch changes the picture.
--# new     zeros fill_
image = torch.tensor{{5, 5, 5, 5, 5, 5},
                     {5, 5, 2, 2, 2, 5},
                     {5, 5, 2, 2, 2, 5},
                     {5, 5, 5, 5, 5, 5}}
corner = image[{{1, 2}, {1, 2}}]
corner:fill_(9)
--# predict image[1] --> 9 9 5 5 5 5
--# wrong   5 5 5 5 5 5: The patch is a view of the picture, so the picture has changed.
--# wrong   9 9 9 9 9 9: Only the columns 1 and 2 belong to the patch.
--# hint    The patch is rows 1 and 2, columns 1 and 2.
print(image)

--# say     The dark place is the 2s: rows 2 and 3, columns 3 to 5.
--# task    Add 3 to the dark place, so that it becomes 5 like the rest. Take the patch, then change it in
--#         place.
--# spec    image = (function() local y = image:clone() y["2:3, 3:5"] = 5 return y end)()
--# forbid  for while repeat
--# wrong   image[{{2, 3}, {3, 5}}] = 3: The dark place has 2, and 3 more are 5. Add, or assign 5.
--# wrong   image = image + 3: The light places are lighter, too.
--# hint    `dark = image[{{2, 3}, {3, 5}}]` takes the patch.
--# hint    `dark:add_(3)` adds to its cells. `dark = dark + 3` would make a new tensor and leave the picture
--#         alone.
--# why     One small view, and the work is done where it has to be; the rest was not touched, nor copied.
--# answer
dark = image[{{2, 3}, {3, 5}}]
dark:add_(3)
