--# title   What is wrong here? Programs from Python
--# explains NAME-1 ARG-3 ARG-2 RANGE SIZES LIST

--# say     Programs that came from PyTorch, line by line. Three things are different: all counts begin with 1,
--#         both ends of a range belong to it, and some of Lua's signs mean something else. x[2:4] of Python
--#         has two elements. In Lua it was written so:
--# new     arange
x = torch.arange(10) * 10
--# predict x[{{2, 4}}] --> 10 20 30
--# wrong   20 30: That is Python's x[2:4]: its positions 2 and 3 are 3 and 4 here.
--# wrong   20 30 40: Positions count from 1: number 2 is 10.
--# hint    Elements number 2, 3 and 4.

--# say     So what is the right one?
--# new     item tensor
--# new     randn
--# task    Repair python_slice(x, a, b): Python's x[a:b], for 0 <= a < b <= #x.
--# spec    python_slice(x, a, b)
--#         local list = {}
--#         for i = a, b - 1 do list[#list + 1] = x[i + 1]:item() end
--#         return torch.tensor(list)
--# try     a in 0..3
--# try     b in 4..8
--# try     x = torch.randn(8)
--# starter function python_slice(x, a, b) return x[{{a, b}}] end
--# wrong   function python_slice(x, a, b) return x[{{a + 1, b + 1}}] end: The end is Python's first one that does not
--#         belong to it: b, counted from 1, is its last one that does.
--# wrong   function python_slice(x, a, b) return x[{{a, b - 1}}] end: Positions count from 1.
--# hint    The first one is number a + 1 here.
--# hint    The last one is Python's b - 1, which is number b here.
--# answer
function python_slice(x, a, b) return x[{{a + 1, b}}] end

--# say     Dimensions count from 1, too. `x.sum(1)` of Python adds up the rows' elements; here?
--# new     ones sum
--# predict torch.ones(2, 5):sum(1).shape --> [5]
--# wrong   2: That is Python's. Dimension 1 is the first one here.
--# hint    Dimension 1 is the first one, and goes away.
--# why     No error: it is only another sum. -1 is the last one in both: `sum(-1)` needs no thinking.

--# say     Repair a softmax that was ported so: rows of scores become rows of probabilities.
--# new     exp zeros_like
--# task    Repair chances(x): x [n, m]; exp of each element, divided by the sum of its row.
--# spec    chances(x)
--#         local out = torch.zeros_like(x)
--#         for i = 1, #x do
--#           local e = x[i]:exp()
--#           out[i] = e / e:sum()
--#         end
--#         return out
--# try     n in 2..3
--# try     m in 4..5
--# try     x = torch.randn(n, m)
--# starter function chances(x) return x:exp() / x:exp():sum(1, true) end
--# wrong   function chances(x) return x:exp() / x:exp():sum(-1) end: Right dimension; but it must stay, as a column:
--#         sum(-1, true).
--# hint    Python's dim 1 is 2 here.
--# answer
function chances(x) return x:exp() / x:exp():sum(2, true) end

--# say     An element as a condition. In Lua everything is true except `false` and `nil`. A tensor is neither.
--# new     gt notes
function quietly(code, f, ...)
  local was = torch.notes()[code]
  torch.notes(code, "off")
  local result = f(...)
  torch.notes(code, was)
  return result
end
function is_positive(v)
  if v:gt(0) then return true end
  return false
end
--# predict quietly("IF", is_positive, torch.tensor(-5)) --> true
--# wrong   false: v:gt(0) is a tensor that holds false; and a tensor is not false.
--# hint    Is a tensor that holds false `nil` or `false`?
--# why     `if v:gt(0):item() then`. The note IF finds it.

--# say     And two tensors that have the same numbers, compared with `==`?
--# predict torch.tensor{1, 2} == torch.tensor{1, 2} --> error
--# wrong   true: Lua makes one boolean of ==, so it could not say which elements are equal.
--# wrong   true true: Lua makes one boolean of ==; `a:eq(b)` compares element by element.
--# hint    Lua would make one boolean of it.

--# say     Repair a loop that looks for the first positive element.
--# new     tolist
--# task    Repair first_positive(x): the position of the first element above 0, or 0 if there is none.
--# spec    first_positive(x)
--#         for i, v in ipairs(x:tolist()) do
--#           if v > 0 then return i end
--#         end
--#         return 0
--# try     n in 1..6
--# try     x = torch.randn(n) - 0.7
--# starter
--#         function first_positive(x)
--#           for i = 0, #x - 1 do
--#             if x[i + 1]:gt(0) then return i end
--#           end
--#           return 0
--#         end
--# wrong   function first_positive(x) for i = 1, #x do if x[i]:gt(0) then return i end end return 0 end: It finds the first
--#         one always: a tensor is true.
--# wrong   function first_positive(x) for i = 0, #x - 1 do if x[i + 1]:item() > 0 then return i end end return 0 end:
--#         Positions count from 1.
--# hint    `x[i]:item() > 0` compares numbers.
--# answer
function first_positive(x)
  for i = 1, #x do
    if x[i]:item() > 0 then return i end
  end
  return 0
end

--# say     Methods are called with a colon. With a point, the object is not handed over:
v = torch.tensor{1, 2, 3}
--# predict v.sum() --> error
--# wrong   6: That is v:sum(). With a point, sum is not told of what.
--# hint    Who tells sum which tensor?
--# why     "v.sum is a method, and a point gives it no object; would fit: v:sum()".

--# say     A line that begins with a bracket goes on with the line before it. What is a?
function two_lines()
  local a = math.abs
  (-5)
  return a
end
--# predict two_lines() --> 5
--# wrong   -5: `local a = math.abs(-5)`: the line break is no end.
--# hint    Lua reads `local a = math.abs (-5)`.
--# why     A program where `opt:zero_grad()` stands above `(net(x) - y):sum():backward()` calls what zero_grad gives. Give the
--#         loss a name, or begin the line with `;`.

--# say     Braces: `x[{i, j}]` is the element in row i and column j; a range has braces of its own, `x[{{i, j}}]`. In
--#         Python, x[1:2] were rows. Here is a table of the numbers 0 to 5:
--# new     view
board = torch.arange(6):view(2, 3)
--# predict board[{1, 2}]:item() --> 1
--# wrong   3: Row 1, column 2.
--# wrong   0 1 2 3 4 5: That is board[{{1, 2}}], rows 1 to 2.
--# hint    Row 1, column 2.

--# say     And its shape, taken apart as in Python: `rows, columns = x.shape`?
--# new     shape
--# predict select("#", board.shape) --> 1
--# ask     How many values does board.shape give to these two names?
--# wrong   2: It is one value, a list. Lua gives it to the first name, and nil to the second.
--# hint    It is a list; how many lists?
--# why     `rows, columns = table.unpack(board.shape)`, or `board:size(2)`.

--# say     Powers and whole numbers: `^` is the power (in Python `**`), and `//` rounds down. `-7 // 2`?
--# predict -7 // 2 --> -4
--# wrong   -3: It rounds down, not towards 0.
--# wrong   -3.5: That is -7 / 2.
--# hint    -3.5, rounded down.

--# say     A list with holes: Python's `None` became nil. How many layers are in {10, nil, 30} for a loop with ipairs?
count = 0
for _ in ipairs{10, nil, 30} do count = count + 1 end
--# predict count --> 1
--# wrong   3: nil is no entry; ipairs ends at it.
--# wrong   2: ipairs ends at the first nil.
--# hint    ipairs ends at the first nil.
--# why     Where a place may be empty, `false` can stand in it.

--# say     Python's dictionaries keep the order in which they were filled; Lua's tables promise none for names. So
--#         parameters in a table with names are walked in an order of their own. Repair a sum of texts that relies on it.
--# task    Repair describe(sizes): sizes is a table from names to numbers; "a=1 b=2", ordered by name.
--# spec    describe(sizes)
--#         local names, parts = {}, {}
--#         for name in pairs(sizes) do names[#names + 1] = name end
--#         table.sort(names)
--#         for i, name in ipairs(names) do parts[i] = name .. "=" .. sizes[name] end
--#         return table.concat(parts, " ")
--# try     k in 1..9
--# try     sizes = {out = k, bias = k + 1, ["in"] = 2 * k, ["a" .. k] = 7, weight = 3}
--# starter
--#         function describe(sizes)
--#           local parts = {}
--#           for name, n in pairs(sizes) do parts[#parts + 1] = name .. "=" .. n end
--#           return table.concat(parts, " ")
--#         end
--# wrong   function describe(sizes) local parts = {} for _, n in ipairs(sizes) do parts[#parts + 1] = tostring(n) end
--#         return table.concat(parts, " ") end: ipairs walks 1, 2, 3 ..; there are only names here.
--# hint    Put "name=number" into a list, and sort the list.
--# hint    `table.sort(parts)` before `table.concat`.
--# answer
function describe(sizes)
  local parts = {}
  for name, n in pairs(sizes) do parts[#parts + 1] = name .. "=" .. n end
  table.sort(parts)
  return table.concat(parts, " ")
end

--# say     Something real: k nearest neighbours, ported line by line, with three mistakes. In Python it was
--#           d = ((train - x) ** 2).sum(1)
--#           near = d.argsort()[:3]
--#           return labels[near].mode().values
--# new     argsort mode
--# task    Repair neighbours(train, x): the positions of the 3 rows of train [n, m] that are nearest to x [m], the nearest
--#         first: [3].
--# spec    neighbours(train, x)
--#         local order = {}
--#         for i = 1, #train do order[i] = {i, ((train[i] - x) ^ 2):sum():item()} end
--#         table.sort(order, function(a, b) return a[2] < b[2] end)
--#         return torch.tensor{order[1][1], order[2][1], order[3][1]}
--# try     n in 4..7
--# try     m in 2..3
--# try     train = torch.randn(n, m)
--# try     x = torch.randn(m)
--# starter function neighbours(train, x) return ((train - x) ^ 2):sum(1):argsort()[{{0, 3}}] end
--# wrong   function neighbours(train, x) return ((train - x) ^ 2):sum(1):argsort()[{{1, 3}}] end: The sum over the columns,
--#         for each row: dimension 2 here.
--# wrong   function neighbours(train, x) return ((train - x) ^ 2):sum(2):argsort()[{{2, 4}}] end: The first three are 1 to 3.
--# hint    dim 1 of Python is 2 here.
--# hint    `[:3]` is `[{{1, 3}}]`.
--# answer
function neighbours(train, x) return ((train - x) ^ 2):sum(2):argsort()[{{1, 3}}] end
points = torch.tensor{{0.0, 0.0}, {1.0, 0.0}, {5.0, 5.0}, {0.0, 1.5}}
print(neighbours(points, torch.tensor{0.1, 0.0}))
