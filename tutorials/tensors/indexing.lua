--# title   Indexing and ranges
--# see     narrow gt eq
--# explains INDEX-1 EQ IF RANGE

--# say     This table is made for reading: every number says where it stands. 23 is row 2, column 3.
t = torch.tensor{{11, 12, 13, 14},
                 {21, 22, 23, 24},
                 {31, 32, 33, 34}}
--# predict t[{3, 1}]:item() --> 31
--# hint    The row comes first, then the column.
--# why     Row 3, column 1. From here on, you can check every answer by looking at the digits.

--# say     In place of a position, `{}` takes a dimension as a whole. `t[{2, {}}]` is row 2: all columns of it.
print(t[{2, {}}])
--# predict t[{{}, 2}] --> 12 22 32
--# wrong   21 22 23 24: That is row 2. Here {} stands in the place of the rows: all rows, column 2.
--# wrong   22: Not one element: {} means every row.
--# hint    All rows, and of each the second number.
--# why     Column 2: all rows, second element of each.

--# say     A position uses its dimension up; `{}` keeps it. So a column, too, is a tensor with one dimension.
--# predict t[{{}, 2}].shape --> [3]
--# wrong   3 1: It would be [3, 1] if the second dimension were kept; the position 2 uses it up.
--# wrong   4: That is how long a row is. How long is a column?
--# hint    Of [3, 4], the 4 is used up.

--# say     A range is written `{first, last}`, and both ends belong to it.
--# predict t[{1, {2, 4}}] --> 12 13 14
--# wrong   12 13: The end belongs to the range: 2, 3 and 4.
--# wrong   13 14: Positions count from 1: the range begins with the second.
--# hint    Row 1, from the second to the fourth.
--# why     2, 3, 4: three positions. A range from a to b has b - a + 1 of them.
print(t[{1, {2, 4}}])

--# say     Ranges in both dimensions cut out a block.
--# predict t[{{1, 2}, {2, 4}}].shape --> [2, 3]
--# wrong   1 2: Both ends count: rows 1 and 2 are two rows.
--# wrong   2 2: Columns 2, 3 and 4 are three.
--# hint    How many rows from 1 to 2? How many columns from 2 to 4?
print(t[{{1, 2}, {2, 4}}])

--# say     A range keeps its dimension even if it holds one position only. Compare `t[{2, {}}]` with `t[{{2,
--#         2}, {}}]`.
--# predict t[{{2, 2}, {}}].shape --> [1, 4]
--# wrong   4: That is t[{2, {}}]. A range never uses a dimension up, not even a range of one.
--# hint    The rows from 2 to 2: one row, but still a table.
--# why     A table with one row. That matters as soon as shapes have to fit together.

--# say     `{2}` in braces is a range without an end: from 2 to the last one. And as always, negative
--#         positions count from the end.
--# predict t[{{2}, 1}] --> 21 31
--# wrong   21: {2} in braces is a range: from 2 on.
--# wrong   11 21: The range starts at 2, and goes on to the end.
--# hint    All rows from the second on, and of each the first element.
print(t[{{2}, 1}])

--# say     So `{2, -2}` runs from the second to the last but one.
--# predict t[{1, {2, -2}}] --> 12 13
--# wrong   12 13 14: -2 is the last but one, 13.
--# hint    Row 1 has 11, 12, 13, 14. Which is the last but one?

--# say     A third number is the step. `{1, -1, 2}` takes every second position, from the first to the last.
--# predict t[{3, {1, -1, 2}}] --> 31 33
--# wrong   32 34: It begins with position 1.
--# hint    Row 3, positions 1 and 3.
print(t[{3, {1, -1, 2}}])

--# say     The same as text, if you like it shorter: `t["2, 1:3"]`. A lonely `:` takes a whole dimension.
--# predict t["2:, 1"] --> 21 31
--# wrong   21: `2:` is the range from 2 to the end.
--# hint    `2:` is {2}, the range from 2 to the end.
print(t["2, 1:3"])

--# say     Your turn: a picture often has a frame that is not wanted.
--# task    Write inside(x): the table x without its first and last row, and without its first and last column.
--# spec    inside(x) return x:narrow(1, 2, x:size(1) - 2):narrow(2, 2, x:size(2) - 2)
--# try     n in 3..6
--# try     m in 3..6
--# try     x = torch.randint(10, 100, {n, m})
--# forbid  for while repeat
--# wrong   function inside(x) return x[{{2, -1}, {2, -1}}] end: -1 is the last one, and both ends belong to a
--#         range.
--# wrong   function inside(x) return x[{2, -2}] end: Two positions name one element. Each range has braces of
--#         its own.
--# hint    The first and the last are left out: from the second to the last but one.
--# hint    `{2, -2}` is that range; it is needed in both dimensions.
--# why     No size appears in it, so it works for tables of any size.
--# answer
function inside(x) return x[{{2, -2}, {2, -2}}] end

--# say     A block can be assigned as a whole: by one number, or by a tensor of the same shape.
u = torch.zeros(3, 4)
u[{{1, 2}, {1, 2}}] = 7
print(u)
--# predict u[{2, {}}] --> 7 7 0 0
--# wrong   7 7 7 7: Only the columns 1 and 2 were assigned.
--# hint    Row 2 is in the block, but only its columns 1 and 2.

--# say     There are three rows. Here is a range that goes further.
--# predict t[{{2, 4}, 1}] --> error
--# wrong   21 31: Nothing is cut off silently: row 4 does not exist.
--# hint    Row 4 does not exist. `error` is an answer, too.
--# why     A range over the edge is a mistake here, not a shorter answer. To the end is `{2}` or `{2, -1}`.

--# say     Positions can also come in a list, in any order and more than once. A list of positions is a
--#         tensor of whole numbers.
order = torch.tensor{3, 1, 3}
--# predict t[order].shape --> [3, 4]
--# wrong   2 4: Row 3 is taken twice: three positions, three rows.
--# wrong   3 3: Every position brings a whole row, with its four columns.
--# hint    One row for each of the three positions.
print(t[order])

--# say     Or you ask for the elements with a property. `t:gt(22)` ("greater than") is a mask: true or false
--#         for every element. Lua can give only one answer to `t > 22`, so the question is a method: `gt`,
--#         `lt` (less), `eq` (equal).
--# new     gt lt eq
print(t:gt(22))
--# predict t[t:gt(31)] --> 32 33 34
--# wrong   31 32 33 34: 31 is not greater than 31.
--# hint    Which elements of t are greater than 31? They come in reading order.
--# why     The elements where the mask is true, as one row. This shape depends on the values.

--# say     Why a method for "equal", too? Lua's `==` between a tensor and a number asks whether they are
--#         the same thing. They never are.
--# predict t[{1, 1}] == 11 --> false
--# wrong   true: The element is 11; but it is a tensor, and 11 is a number. `t[{1, 1}]:eq(11)` or `:item()
--#         == 11` compare.
--# hint    `t[{1, 1}]` is a tensor, with no dimensions, not a number.

--# say     And a mask is no answer for `if`: any tensor counts as true, whatever it holds. `:any():item()`
--#         asks whether one element is true, `:all():item()` whether all are.
--# new     any all
--# predict t:gt(30):any():item() --> true
--# wrong   false: 31 to 34 are.
--# hint    Is one of the elements greater than 30?
--# why     `if t:gt(100) then` would be taken, too: not nil, not false. A note says so when you write it.

--# say     Now use it.
--# task    Write even_columns(x): columns 2, 4, 6 and so on of the table x.
--# spec    even_columns(x)
--#         local rows = {}
--#         for j = 2, x:size(2), 2 do rows[#rows + 1] = x:select(2, j) end
--#         return torch.stack(rows, 2)
--# try     n in 1..4
--# try     m in 2..7
--# try     x = torch.randint(10, 100, {n, m})
--# forbid  for while repeat
--# wrong   function even_columns(x) return x[{{}, {1, -1, 2}}] end: These are the odd ones: 1, 3, 5.
--# wrong   function even_columns(x) return x[{{2, -1, 2}, {}}] end: That takes rows. The rows come first; leave
--#         them whole.
--# hint    All rows: `{}`. For the columns, a range with a step.
--# hint    From 2 to the last in steps of 2: `{2, -1, 2}`.
--# answer
function even_columns(x) return x[{{}, {2, -1, 2}}] end

--# say     A real use. A machine that reads numbers looks at one digit at a time, so the digits have to be
--#         cut out of the picture. Count the columns from 1.
function draw(picture)
  for i = 1, #picture do
    local line = ""
    for j = 1, picture.shape[2] do
      line = line .. (picture[{i, j}]:item() > 0 and "#" or ".")
    end
    print(line)
  end
end
picture = torch.tensor{
  {0,0,0,0,0,0,0,0,0},
  {0,1,0,1,0,1,1,1,0},
  {0,1,0,1,0,0,0,1,0},
  {0,1,1,1,0,0,1,0,0},
  {0,0,0,1,0,0,1,0,0},
  {0,0,0,1,0,0,1,0,0},
  {0,0,0,0,0,0,0,0,0}}
draw(picture)
--# task    Cut the 7 out: make `seven`, its 5 rows and 3 columns, without any of the border.
--# spec    seven = picture:narrow(1, 2, 5):narrow(2, 6, 3)
--# wrong   seven = picture[{{2, 6}, {5, 8}}]: Column 5 is the gap between the digits.
--# wrong   seven = picture[{{6, 8}, {2, 6}}]: Rows come first.
--# hint    The 7 begins in row 2 and ends in row 6. Now find its columns.
--# hint    Its columns are 6 to 8.
--# why     `draw(seven)` shows it. A whole line of digits is read this way, cut by cut.
--# answer
seven = picture[{{2, 6}, {6, 8}}]
draw(seven)
