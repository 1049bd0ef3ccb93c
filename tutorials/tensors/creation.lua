--# title   Making tensors: describe them, do not type them
--# see     full arange linspace eye cat
--# explains SHAPE-5 ARG-0 ARG-1 VALUE-0

--# say     The first lesson typed every number. Larger tensors are described: a shape, and what goes in.
--#         `torch.ones` and `torch.full` are like `torch.zeros`; `full` takes the shape as a table, and a value.
--# new     ones full
a = torch.ones(2, 3)
b = torch.full({2, 3}, 7)
print(a)
print(b)
--# predict b:numel() --> 6
--# wrong   7: 7 is the value. How many of them are there?
--# wrong   5: The sizes are multiplied: 2 rows of 3.
--# hint    2 rows of 3.

--# say     `ones` and `zeros` make `f32`, numbers with fractions. `full` looks at the value.
--# predict b.dtype --> i64
--# wrong   f32: `ones` and `zeros` make f32; `full` looks at its value, and 7 has no point.
--# hint    7 is a whole number.
--# why     `torch.full({2, 3}, 7.0)` would make f32. A point in the right place saves many errors later.

--# say     `torch.arange` counts. With one number it gives so many of them, and the first is 0: this is the
--#         one place where counting begins with 0, because here it is not positions that are counted, but steps.
--# new     arange
print(torch.arange(5))
--# predict torch.arange(4)[4]:item() --> 3
--# wrong   4: The numbers are 0 1 2 3. Position 4 holds the last one.
--# wrong   error: There are four numbers, so position 4 exists.
--# hint    The four numbers are 0 1 2 3.
--# why     Positions begin with 1, the values with 0.

--# say     With two numbers it begins at the first and stops before the second.
--# predict torch.arange(3, 7) --> 3 4 5 6
--# wrong   3 4 5 6 7: The end is not included: 7 - 3 = 4 numbers.
--# wrong   3 7: They are the ends; what lies between is there, too.
--# hint    How many are there? The second number minus the first.
--# why     7 - 3 = 4 numbers. (Ranges in an index, `{3, 7}`, do include both ends: those are positions.)

--# say     A third number is the step.
--# predict torch.arange(10, 0, -3) --> 10 7 4 1
--# wrong   10 7 4: 1 is still before 0, going down.
--# wrong   10 7 4 1 -2: It stops before 0.
--# hint    Down from 10 in steps of 3, as long as it has not reached 0.

--# say     `arange` is told the step. `torch.linspace` is told how many: so many points from the first number
--#         to the last, both included, at equal distances. It is what the x of a plot is made of.
--# new     linspace
print(torch.linspace(0, 1, 5))
--# predict torch.linspace(0, 10, 6)[2]:item() --> 2
--# wrong   1.6667: Six points leave five gaps between them.
--# wrong   0: That is the first one.
--# hint    6 points have 5 gaps between them. How wide is each, if all make 10?
--# why     6 points, 5 gaps of 2: 0 2 4 6 8 10.

--# say     Use it: a ruler.
--# task    Write ruler(n): the n + 1 marks of a ruler of length 1 that is cut into n equal parts; the first
--#         is 0, the last is 1.
--# spec    ruler(n)
--#         local marks = {}
--#         for i = 0, n do marks[#marks + 1] = i / n end
--#         return torch.tensor(marks, {dtype = "float32"})
--# try     n in 1..10
--# forbid  for while repeat
--# wrong   function ruler(n) return torch.linspace(0, 1, n) end: n points leave n - 1 parts between them.
--# wrong   function ruler(n) return torch.arange(0, 1, 1 / n) end: `arange` stops before 1; the last mark is
--#         missing.
--# wrong   function ruler(n) return torch.arange(n + 1) end: These are 0 1 2 and so on. The last mark should be
--#         1.
--# hint    How many marks does a ruler have that is cut once, into two parts?
--# hint    n parts have n + 1 ends.
--# answer
function ruler(n) return torch.linspace(0, 1, n + 1) end
--# why     n parts have n + 1 ends. With 4 parts:
print(ruler(4))

--# say     `torch.eye(n)` has ones on the diagonal, and zeros beside it.
--# new     eye sum
print(torch.eye(3))
--# predict torch.eye(100):sum():item() --> 100
--# wrong   10000: That many numbers are in it. Most are 0.
--# hint    `sum` adds all up. How many ones are on the diagonal?

--# say     Chance: `rand` draws between 0 and 1, `randn` around 0 (mostly between -2 and 2), `randint(low,
--#         high, shape)` whole numbers from low on, and below high.
--# new     rand randn randint
dice = torch.randint(1, 7, {10})
print(dice)
--# play    Run `torch.randint(1, 7, {10})` a few times: never a 7. Enter goes on.

--# say     They are not really random: they follow from a number called the seed. The same seed, the same
--#         numbers: so a run can be repeated, by you and by others.
--# new     manual_seed equal
torch.manual_seed(5)
first = torch.rand(3)
torch.manual_seed(5)
again = torch.rand(3)
--# predict torch.equal(first, again) --> true
--# wrong   false: The seed was set to 5 before both.
--# hint    Both times the seed was 5, and then three numbers were drawn.
--# why     `torch.equal` asks whether shape and values are the same: one answer for all.

--# say     What holds for the next ones, without a new seed?
--# predict torch.equal(torch.rand(3), first) --> false
--# wrong   true: The seed was not set again: these are the numbers after `again`.
--# hint    The drawing goes on where it was.

--# say     Often a tensor is wanted that is like another one. Names with `_like` take shape and dtype from it.
--# new     zeros_like rand_like
print(torch.zeros_like(dice))
--# predict torch.zeros_like(dice).dtype --> i64
--# wrong   f32: `zeros` makes f32; `zeros_like` makes what it is given: `dice` holds whole numbers.
--# hint    Which dtype has `dice`?

--# say     From parts: `torch.cat` puts tensors one behind the other. A table of tensors goes in.
--# new     cat
left = torch.zeros(2)
right = torch.ones(3)
--# predict torch.cat{left, right} --> 0 0 1 1 1
--# wrong   1 1 1: Nothing is added, they are put in a row.
--# hint    Two zeros, then three ones.
print(torch.cat{left, right})

--# say     Tables are joined along a dimension that you name last; without it, along the first. All other sizes
--#         have to be the same.
t1 = torch.zeros(2, 3)
t2 = torch.ones(2, 5)
--# predict torch.cat({t1, t2}, 2).shape --> [2, 8]
--# wrong   4 8: Only dimension 2 grows; the tables are put side by side.
--# wrong   2 15: Sizes are added where they are joined: 3 + 5.
--# hint    Side by side: the rows stay, 3 columns and 5 columns.

--# say     And without the 2?
--# predict torch.cat{t1, t2} --> error
--# wrong   4 3: One below the other, rows of 3 and rows of 5 make no table.
--# wrong   4 8: They are put one below the other now. How long are the rows?
--# hint    One below the other. Do 3 columns fit to 5 columns?
--# why     Joined along the first dimension, all others must agree: 3 is not 5.

--# say     `torch.stack` joins along a new dimension: tensors of one shape become the rows of a table.
--# new     stack
mon = torch.tensor{12, 14, 13}
tue = torch.tensor{11, 15, 15}
--# predict torch.stack{mon, tue}.shape --> [2, 3]
--# wrong   6: That would be `cat`. `stack` makes a dimension of its own for "which one".
--# wrong   3 2: The new dimension is the first: two rows.
--# hint    Two rows of three.
print(torch.stack{mon, tue})

--# say     Both together: a frame around a picture.
--# task    Write framed(x): the table x [n, m] with a border of zeros around it, one wide: [n + 2, m + 2].
--# spec    framed(x)
--#         local out = torch.zeros(x:size(1) + 2, x:size(2) + 2)
--#         for i = 1, x:size(1) do for j = 1, x:size(2) do out[{i + 1, j + 1}] = x[{i, j}] end end
--#         return out
--# try     n in 1..3
--# try     m in 4..6
--# try     x = torch.rand(n, m) + 1
--# forbid  for while repeat
--# wrong   function framed(x) return torch.zeros(#x + 2, x.shape[2] + 2) end: That is the frame. The
--#         picture belongs into its middle.
--# wrong   function framed(x) local out = torch.zeros(#x + 2, x.shape[2] + 2) out[{{1, -2}, {1, -2}}] = x
--#         return out end: That is the upper left corner. Row 1 and column 1 belong to the frame.
--# hint    First make the whole with `torch.zeros`; its sizes are `#x + 2` and `x.shape[2] + 2`.
--# hint    Then assign x to the middle: from the second to the last but one, in both dimensions, is `{2, -2}`.
--# answer
function framed(x)
  local out = torch.zeros(#x + 2, x.shape[2] + 2)
  out[{{2, -2}, {2, -2}}] = x
  return out
end
--# why     Describe the whole, then write a part. (`cat` with rows and columns of zeros would do as well.)
print(framed(torch.ones(2, 3)))

--# say     Something real: a sound is a tensor, a number for each of 8,000 moments of a second. A pure tone
--#         of f vibrations in a second is sin(2 pi f t), where t is the time. `torch.sin` takes the sine of
--#         each element.
--# new     sin
--# task    Write tone(f, rate): one second of the tone, at the times 0, 1/rate, 2/rate and so on: `rate` numbers.
--# spec    tone(f, rate)
--#         local out = {}
--#         for i = 1, rate do out[i] = math.sin(2 * math.pi * f * (i - 1) / rate) end
--#         return torch.tensor(out, {dtype = "float32"})
--# try     f in 1..2
--# try     rate in 20..40
--# forbid  for while repeat
--# wrong   function tone(f, rate) return torch.sin(torch.arange(rate) / rate * f) end: A whole vibration is 2 pi
--#         long, not 1.
--# wrong   function tone(f, rate) return torch.sin(2 * math.pi * f * torch.linspace(0, 1, rate)) end: Both ends
--#         belong to `linspace`, so its steps are a little too long: there are rate - 1 of them in the second.
--# hint    The times first: `torch.arange(rate) / rate`.
--# hint    Then `torch.sin` of 2 * math.pi * f times them.
--# answer
function tone(f, rate)
  local t = torch.arange(rate) / rate
  return torch.sin(2 * math.pi * f * t)
end
--# why     The note a of an orchestra is `tone(440, 8000)`; `plot(tone(3, 100))` draws a slower one. A row of
--#         numbers is all that a sound is.
print(tone(440, 8000).shape)
