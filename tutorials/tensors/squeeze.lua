--# title   Squeeze and transpose: the same numbers, other dimensions
--# see     squeeze unsqueeze transpose permute flatten
--# explains SHAPE-3

--# say     Two columns of numbers, the same values, other shapes: `[3, 1]` is a table with one column, `[3]` a
--#         plain row. They are not the same to what lines shapes up. `squeeze` takes dimensions of size 1 away.
--# new     squeeze
column = torch.tensor{{7}, {8}, {9}}
print(column)
--# predict column:squeeze().shape --> [3]
--# wrong   1 3: That would be the other way round. The 1 goes away altogether.
--# wrong   3 1: That is the shape before.
--# hint    Cross out every 1 of [3, 1].
--# why     No number was moved or copied: it is a view.
print(column:squeeze())

--# say     Without a number, all dimensions of size 1 go.
box = torch.zeros(1, 4, 1, 5)
--# predict box:squeeze().shape --> [4, 5]
--# wrong   4 1 5: Every 1 goes, not only the first.
--# wrong   20: The other dimensions stay as they are.
--# hint    Cross out every 1 of [1, 4, 1, 5].

--# say     With a number only that dimension goes, and only if its size is 1. That is safer: a batch that happens
--#         to hold one example would lose its dimension as well.
--# predict box:squeeze(3).shape --> [1, 4, 5]
--# wrong   4 1 5: That is squeeze(1). Dimensions count from 1: the third goes.
--# wrong   4 5: Only the dimension that is named goes.
--# hint    Cross out the third of [1, 4, 1, 5].

--# say     And if the size is another one?
--# predict box:squeeze(2).shape --> [1, 4, 1, 5]
--# wrong   error: It is no error, as in PyTorch; nothing happens.
--# wrong   1 1 5: Numbers cannot disappear: the 4 stays.
--# hint    Dimension 2 has the size 4. Could it go without losing numbers?
--# why     Nothing happens, silently. When a shape is not what you wanted, look for this.

--# say     `unsqueeze(d)` does the contrary: a new 1 stands at place d afterwards. -1 means: at the end.
--# new     unsqueeze
row = torch.tensor{1, 2, 3}
--# predict row:unsqueeze(-1).shape --> [3, 1]
--# wrong   1 3: That is unsqueeze(1). -1 is the last place.
--# hint    The new 1 is the last size.
print(row:unsqueeze(-1))

--# say     A network wants pictures in batches, [batch, height, width]; here is one picture alone.
picture = torch.zeros(8, 6)
--# task    Set `batch` to the same picture as a batch of one: a view with the shape [1, 8, 6].
--# spec    batch = torch.zeros(1, 8, 6)
--# wrong   batch = picture:unsqueeze(-1): That is [8, 6, 1]. The batch comes first.
--# wrong   batch = picture:unsqueeze(3): The new 1 belongs at place 1.
--# hint    At which place should the 1 stand?
--# answer
batch = picture:unsqueeze(1)
print(batch.shape)

--# say     Now exchanging dimensions. `x:t()` exchanges rows and columns of a table; `x:transpose(a, b)` any two.
--# new     t transpose
m = torch.tensor{{1, 2, 3}, {4, 5, 6}}
print(m:t())
--# predict torch.zeros(2, 3, 4):transpose(1, 3).shape --> [4, 3, 2]
--# wrong   3 2 4: That is transpose(1, 2).
--# wrong   2 4 3: That is transpose(2, 3).
--# hint    The first and the third change places.

--# say     Where does an element go? It keeps its positions, in the new order.
--# new     arange view
x = torch.arange(24):view(2, 3, 4)
y = x:transpose(2, 3)
--# predict y[{1, 4, 2}]:item() --> 7
--# wrong   error: y has the shape [2, 4, 3]: there is a place {1, 4, 2}.
--# wrong   10: Look at x[{1, 2, 4}]: row 2 is 4 5 6 7.
--# hint    y[{1, 4, 2}] is x[{1, 2, 4}].
--# hint    The second row of x[1] is 4 5 6 7.
print(x[1])

--# say     `permute` names all dimensions at once: which old one stands first, which second, and so on.
--# new     permute
z = torch.zeros(2, 3, 4)
--# predict z:permute(3, 1, 2).shape --> [4, 2, 3]
--# wrong   3 4 2: Read it so: first comes the old dimension 3, then the old 1, then the old 2.
--# wrong   2 4 3: That exchanges only the last two.
--# hint    The first size is that of the old dimension 3.
--# why     The sizes of the dimensions 3, 1 and 2, in this order.

--# say     Careful: `view` and `permute` can make the same shape, and quite different tensors.
w = torch.tensor{{1, 2, 3}, {4, 5, 6}}
--# predict w:view(3, 2)[1] --> 1 2
--# wrong   1 4: That is the first row of w:t(): a column of w.
--# hint    `view` reads the cells in their order: 1 2 3 4 5 6, now in rows of two.
--# why     `view` cuts the same row of cells elsewhere; `t` turns the table. For pictures, the first makes
--#         noise, the second a mirror image.
print(w:view(3, 2))
print(w:t())

--# say     A photo as files hold it has its colours last, [height, width, 3]; networks want [3, height, width].
--# task    Write colours_first(x): the photo x [h, w, 3] as [3, h, w].
--# spec    colours_first(x)
--#         return torch.stack{x:select(3, 1), x:select(3, 2), x:select(3, 3)}
--# try     h in 2..3
--# try     w in 4..6
--# try     x = torch.randint(0, 256, {h, w, 3})
--# wrong   function colours_first(x) return x:view(3, x.shape[1], x.shape[2]) end: The right shape, the
--#         wrong numbers: `view` moves nothing. Each red point has its green neighbour in the next cell.
--# wrong   function colours_first(x) return x:permute(3, 2, 1) end: Now height and width are exchanged: the
--#         photo lies on its side.
--# wrong   function colours_first(x) return x:transpose(1, 3) end: Now height and width are exchanged: the
--#         photo lies on its side.
--# hint    Which old dimension comes first? Which next?
--# hint    `permute(3, 1, 2)`.
--# answer
function colours_first(x) return x:permute(3, 1, 2) end
--# why     No number was moved: it is a view, with other steps.
print(colours_first(torch.zeros(8, 6, 3)).shape)

--# say     After `permute` the cells are no longer in order. `view` says so; `reshape` copies where it must.
--# new     reshape
p = torch.zeros(2, 3, 4):permute(3, 1, 2)
--# predict p:view(24) --> error
--# wrong   24: The number of cells is right, but they are not in this order, and `view` never copies.
--# hint    `view` never copies. Do the cells lie in the order of p?
--# why     `p:reshape(24)` works, and copies.

--# say     `flatten` joins dimensions: all of them, or from one on. `flatten(2)` keeps the first and makes one of
--#         the rest: that is what stands between the pictures and the last layer of a network.
--# new     flatten
pictures = torch.zeros(10, 3, 4, 5)
--# predict pictures:flatten(2).shape --> [10, 60]
--# wrong   30 20: From the second on, all become one: 3 times 4 times 5.
--# wrong   600: That is flatten(). The first dimension, the pictures, stays.
--# wrong   10 12: All from the second on are joined: 3 times 4 times 5.
--# hint    10 stays. 3, 4 and 5 are multiplied.

--# say     Splitting a dimension is `view`, or `reshape`: an 8 x 8 board as 4 blocks of 2 rows.
board = torch.arange(64):view(8, 8)
--# predict board:view(4, 2, 8)[{2, 1, 1}]:item() --> 16
--# wrong   8: Block 1 has the rows 1 and 2. Block 2 begins with row 3.
--# wrong   24: Row 3 begins with 2 times 8.
--# hint    Block 2 begins with row 3 of the board. Row 1 begins with 0, row 2 with 8.

--# say     Something real, with all of it: a contact sheet. Photographers put many small pictures on one
--#         page. For n = rows * columns pictures [n, h, w], row by row, the page is [rows * h, columns *
--#         w]. Split n into rows and columns: [rows, columns, h, w]. On the page the lines of all pictures
--#         of a row are side by side, so the order must be rows, h, columns, w. Then join two and two.
--#         Real pictures come from `torch.utils.data`: handwritten digits, 8 x 8.
--# new     utils data
--# task    Write sheet(x, rows): the pictures x [n, h, w] on one page with so many rows of pictures.
--# spec    sheet(x, rows)
--#         local n, h, w = x:size(1), x:size(2), x:size(3)
--#         local columns = n // rows
--#         local lines = {}
--#         for r = 1, rows do
--#           local side = {}
--#           for c = 1, columns do side[c] = x[(r - 1) * columns + c] end
--#           lines[r] = torch.cat(side, 2)
--#         end
--#         return torch.cat(lines, 1)
--# try     rows in 2..3
--# try     columns = 4
--# try     h = 5
--# try     w = 6
--# try     x = torch.rand(rows * columns, h, w)
--# forbid  for while repeat
--# wrong   function sheet(x, rows) return x:reshape(rows * x.shape[2], -1) end: The right shape, but the
--#         lines of the pictures are mixed up: rows, h, columns, w must be their order first.
--# wrong   function sheet(x, rows) return x:view(rows, -1, x.shape[2], x.shape[3]):permute(1, 2, 3,
--#         4):reshape(rows * x.shape[2], -1) end: permute(1, 2, 3, 4) changes nothing. h comes second, and
--#         the columns third.
--# hint    `x:view(rows, -1, x.shape[2], x.shape[3])` is [rows, columns, h, w].
--# hint    rows, h, columns, w: `permute(1, 3, 2, 4)`, or transpose(2, 3).
--# hint    Then `reshape(rows * x.shape[2], -1)`.
--# answer
function sheet(x, rows)
  local h, w = x.shape[2], x.shape[3]
  return x:view(rows, -1, h, w):permute(1, 3, 2, 4):reshape(rows * h, -1)
end
--# why     In the next line are four real digits; try `sheet(digits, 2):show()` afterwards.
local set = torch.utils.data.digits()
digits = torch.cat{set:get(1)[1], set:get(2)[1], set:get(3)[1], set:get(4)[1]}
print(digits.shape, sheet(digits, 2).shape)
