--# title   The matrix product: rows with columns
--# see     matmul dot mm bmm einsum
--# explains SHAPE-1 DTYPE-1 LINALG-0

--# say     `*` multiplies element by element. There is another product, the one that networks are made of.
--#         It begins with two rows: multiply them element by element, and add up. That is their dot
--#         product.
--# new     dot
price = torch.tensor{3, 1, 2}
amount = torch.tensor{2, 5, 4}
--# predict price:dot(amount):item() --> 19
--# wrong   6 5 8: These are the products. They are added up.
--# wrong   66: First multiply pair by pair, then add.
--# hint    3 * 2 + 1 * 5 + 2 * 4.
--# why     The bill: 6 + 5 + 8. The same as `(price * amount):sum()`.

--# say     A table times a row: the dot product of each row of the table with it. Three shops, their prices
--#         for the same three things. `a:matmul(b)` is this product.
--# new     matmul
shops = torch.tensor{{3, 1, 2}, {2, 2, 2}, {4, 1, 1}}
--# predict shops:matmul(amount) --> 19 22 17
--# wrong   19 18 17: Shop 2 wants 2 for each of the 11 things.
--# hint    For each shop the sum of price times amount; the first is 19.
--# why     One bill for each shop. The third one is the cheapest.
print(shops:matmul(amount))

--# say     A table times a table: each column of the second is a list of amounts. The element in row i,
--#         column j of the result is row i of the first with column j of the second.
--#           [3, 3] times [3, 2] is [3, 2]
lists = torch.tensor{{2, 1}, {5, 0}, {4, 3}}
print(lists)
--# predict shops:matmul(lists)[{1, 2}]:item() --> 9
--# wrong   19: That is with column 1, in [{1, 1}].
--# wrong   8: Row 1 of the shops is 3 1 2; column 2 of the lists is 1 0 3.
--# hint    Row 1 of the shops is 3 1 2; column 2 of the lists is 1 0 3.
--# why     3 * 1 + 1 * 0 + 2 * 3: what the second list costs in the first shop.
print(shops:matmul(lists))

--# say     So the sizes that meet must be equal: the columns of the first, the rows of the second. They
--#         disappear; the outer ones remain.
--#           [n, k] times [k, m] is [n, m]
a = torch.zeros(4, 7)
b = torch.zeros(7, 2)
--# predict a:matmul(b).shape --> [4, 2]
--# wrong   4 7 2: The 7 is what is added up; it disappears.
--# wrong   7 7: The inner sizes disappear, the outer ones remain.
--# hint    [4, 7] [7, 2]: cross out the two that meet.

--# say     The other way round?
--# predict b:matmul(a) --> error
--# wrong   7 7: [7, 2] times [4, 7]: in the middle 2 meets 4.
--# wrong   4 2: The order counts here: in the middle 2 meets 4.
--# hint    [7, 2] [4, 7]. What meets in the middle?
--# why     2 against 4. Other than for numbers, the order of the factors counts. `%explain SHAPE-1` is
--#         about this.

--# say     If the shape does not fit, often a table lies on its side. `t()` turns it.
--# new     t
--# predict b:t():matmul(a:t()).shape --> [2, 4]
--# wrong   4 2: Turned they are [2, 7] and [7, 4].
--# wrong   error: Turned they are [2, 7] and [7, 4]; 7 meets 7.
--# hint    [2, 7] [7, 4].
--# why     It is the transpose of `a:matmul(b)`: turn both, and exchange them.

--# say     Now write it yourself once.
--# new     unsqueeze sum
--# task    Write product(a, b): the matrix product of a [n, k] and b [k, m], without `matmul` and its relatives.
--# spec    product(a, b) return a:matmul(b)
--# try     n in 2..3
--# try     k in 4..5
--# try     m in 6..7
--# try     a = torch.randn(n, k)
--# try     b = torch.randn(k, m)
--# forbid  matmul mm einsum inner tensordot addmm linear
--# wrong   function product(a, b) return a * b end: That is element by element, and the shapes do not even
--#         line up.
--# wrong   function product(a, b) return (a:unsqueeze(3) * b):sum(3) end: [n, k, 1] times [k, m] is [n, k,
--#         m]. k is what is added up: dimension 2.
--# wrong   function product(a, b) return (a:unsqueeze(3) * b):sum(1) end: [n, k, 1] times [k, m] is [n, k,
--#         m]. k is what is added up: dimension 2.
--# hint    Two loops, and `a[i]:dot(b[{{}, j}])` for each element of `torch.zeros(#a, b.shape[2])`.
--# hint    Or by broadcasting: `a:unsqueeze(3)` is [n, k, 1], times b, [k, m], is [n, k, m]. Which
--#         dimension is added up?
--# why     `matmul` does just this, only many times faster.
--# answer
function product(a, b) return (a:unsqueeze(3) * b):sum(2) end

--# say     The table that changes nothing is `torch.eye`: ones on the diagonal.
--# new     eye
m = torch.tensor{{1, 2}, {3, 4}}
--# predict m:matmul(torch.eye(2, {dtype = "int64"})) --> 1 2 3 4
--# wrong   1 0 0 4: That is `m * eye`, element by element.
--# hint    Row 1 with column 1 of eye: 1 * 1 + 2 * 0.

--# say     And this one exchanges the columns: each column of the second table says what the new column is
--#         made of.
swap = torch.tensor{{0, 1}, {1, 0}}
--# predict m:matmul(swap) --> 2 1 4 3
--# wrong   3 4 1 2: These are the rows exchanged: that is `swap:matmul(m)`.
--# hint    Column 1 of `swap` is 0 1: none of the old column 1, once the old column 2.
--# why     From the right a matrix mixes columns, from the left it mixes rows.
print(swap:matmul(m))

--# say     A layer of a network is this product: `x` holds one example in each row, the weights one column
--#         for each output, and a bias is added to each output.
--# new     randn
x = torch.randn(32, 10)
weight = torch.randn(10, 4)
bias = torch.randn(4)
--# predict (x:matmul(weight) + bias).shape --> [32, 4]
--# wrong   32 10: 10 meets 10, and disappears.
--# wrong   4: Each of the 32 examples has its four outputs.
--# hint    [32, 10] [10, 4], and [4] lines up with the columns.
--# why     32 examples, 4 answers each; the bias is stretched over the rows.

--# say     Both sides have to be of one kind: other than `+`, the product does not mix whole numbers and
--#         numbers with a point.
whole = torch.tensor{{1, 2}, {3, 4}}
part = torch.tensor{{0.5}, {0.25}}
--# predict whole:matmul(part) --> error
--# wrong   1 2.5: It would be. But `whole` is i64, and `part` is f32.
--# hint    `whole` is i64, `part` is f32.
--# why     `whole:float():matmul(part)` works, and gives 1 and 2.5.
print(whole:float():matmul(part))

--# say     Batches: with more than two dimensions, the last two are multiplied as tables, one pair for each
--#         of the others.
p = torch.zeros(10, 2, 3)
q = torch.zeros(10, 3, 5)
--# predict p:matmul(q).shape --> [10, 2, 5]
--# wrong   10 3 3: [2, 3] times [3, 5], ten times.
--# wrong   2 5: Ten products: one for each pair of tables.
--# hint    Ten times: [2, 3] [3, 5].

--# say     The dimensions in front are broadcast: one table serves all.
--# predict p:matmul(torch.zeros(3, 4)).shape --> [10, 2, 4]
--# wrong   error: The table [3, 4] is used for each of the ten.
--# hint    [2, 3] [3, 4], with the same second table each time.

--# say     Use it: how alike are the words of a sentence? Each word is a row of d numbers; alike are two whose
--#         dot product is large. A batch of sentences is [n, words, d].
--# new     transpose
--# task    Write alike(x): for a batch x [n, t, d] the tables [n, t, t] of the dot products of all pairs of
--#         words.
--# spec    alike(x)
--#         local out = torch.zeros(x:size(1), x:size(2), x:size(2))
--#         for s = 1, x:size(1) do
--#           for i = 1, x:size(2) do for j = 1, x:size(2) do out[{s, i, j}] = (x[{s, i}] * x[{s, j}]):sum() end end
--#         end
--#         return out
--# try     n in 2..3
--# try     t in 4..5
--# try     x = torch.randn(n, t, 6)
--# forbid  for while repeat
--# wrong   function alike(x) return x:matmul(x) end: [t, d] meets [t, d]. The second must be turned.
--# wrong   function alike(x) return x:matmul(x:transpose(1, 2)) end: Dimension 1 is the batch, which stays.
--#         Turn the last two.
--# wrong   function alike(x) return x:transpose(2, 3):matmul(x) end: That is [n, d, d]: the words are added
--#         up. The first must stay as it is.
--# hint    [t, d] times [d, t] is [t, t]. So the second factor is x with its last two dimensions exchanged.
--# hint    `x:transpose(2, 3)` is [n, d, t].
--# why     This table is the heart of attention: which word looks at which. You will meet it again.
--# answer
function alike(x) return x:matmul(x:transpose(2, 3)) end

--# say     Something real: reading handwritten digits with one matrix product. From 1,000 pictures of 8 x 8
--#         points, each laid out as a row of 64, the mean picture of each digit is taken: 10 rows of 64,
--#         the templates.
--# new     utils data flatten mean eq stack
local set = torch.utils.data.digits()
pictures = set.tensors[1]:flatten(2)
labels = set.tensors[2]
known = pictures["1:1000"]
local rows = {}
for c = 1, 10 do rows[c] = known[labels["1:1000"]:eq(c)]:mean(1) end
templates = torch.stack(rows)
print(pictures.shape, templates.shape)
--# play    `templates[4]:view(8, 8):show()` is the mean 3 (class 1 is the digit 0). Enter goes on.

--# say     The nearer a picture x is to a template m, the larger is x . m - m . m / 2 (half the squared
--#         distance, with what is the same for all templates left out). So the scores of all pictures for
--#         all digits are one matrix product.
--# new     argmax float
--# task    Write read_digits(x, m): for pictures x [n, 64] and templates m [10, 64] the class (1 .. 10)
--#         with the best score, [n].
--# spec    read_digits(x, m)
--#         local out = torch.zeros(#x, {dtype = "int64"})
--#         for i = 1, #x do out[i] = ((x[i] - m) ^ 2):sum(2):argmin(1) end
--#         return out
--# try     n in 5..9
--# try     k in 3..4
--# try     x = torch.rand(n, 64)
--# try     m = torch.rand(k, 64)
--# forbid  for while repeat
--# wrong   function read_digits(x, m) return x:matmul(m:t()):argmax(2) end: Bright templates win then, for
--#         every picture: m . m / 2 must be subtracted.
--# wrong   function read_digits(x, m) return (x:matmul(m:t()) - (m * m):sum(2) / 2):argmax(1) end: That is
--#         the best picture for each digit. The best digit for each picture is asked for.
--# hint    `x:matmul(m:t())` is [n, 10]. `(m * m):sum(2)` is [10], which lines up with its columns.
--# hint    The best of each row: `:argmax(2)`.
--# answer
function read_digits(x, m) return (x:matmul(m:t()) - (m * m):sum(2) / 2):argmax(2) end
--# why     Now on the 797 pictures that it never saw: the share that it reads correctly.
unknown = pictures["1001:"]
print(read_digits(unknown, templates):eq(labels["1001:"]):float():mean())

--# say     So many of 797 digits that it never saw are read correctly, by one product of [797, 64] with
--#         [64, 10]. Chance would have 0.1.
--# play    Look at one it misses: `wrong = read_digits(unknown, templates):ne(labels["1001:"])`, then
--#         `unknown[wrong][1]:view(8, 8):show()`. Enter ends the lesson.
