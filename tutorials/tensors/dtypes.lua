--# title   Kinds of numbers, and how exact they are
--# see     dtype to float allclose
--# explains DTYPE-0 DTYPE-4 F64 NAN

--# say     A tensor holds one kind of number, its dtype. In memory each number has a fixed width: `i64` is a
--#         whole number of 64 bits, `f32` a number with a point, of 32 bits, `i8` and `u8` have 8.
x = torch.tensor{1, 2, 3}
y = torch.tensor{1.5, 2, 3}
print(x)
print(y)
--# predict (x + y).dtype --> f32
--# wrong   i64: 2.5 would not fit into whole numbers.
--# hint    Could whole numbers hold 1 + 1.5?
--# why     Where kinds meet, the result has the one that can hold both.

--# say     Dividing whole numbers with `/` gives fractions, as in Lua. `//` rounds down.
--# predict (torch.tensor{7, 8} / 2).dtype --> f32
--# wrong   i64: 7 / 2 is 3.5.
--# hint    7 / 2 is no whole number.
print(torch.tensor{7, 8} / 2)
print(torch.tensor{7, 8} // 2)

--# say     A method that works in place (its name ends in `_`) cannot do that: the cells are as wide as they are.
--# new     add_
--# predict torch.tensor{1, 2}:add_(0.5) --> error
--# wrong   1.5 2.5: The cells of an i64 tensor hold whole numbers only.
--# wrong   1 2: Nothing is cut off behind your back.
--# hint    1.5 would have to be stored in a cell for whole numbers.
--# why     `x = x + 0.5` makes a new tensor, of f32.

--# say     A dtype is chosen when a tensor is made, or changed with `:to`: the result is a new tensor. Shorter
--#         names are `:float()` for f32, `:long()` for i64, `:bool()`, `:double()` for f64.
--# new     to float long bool double
print(torch.tensor({1, 2}, {dtype = "float64"}))
--# predict torch.tensor{2.7, -2.7}:long() --> 2 -2
--# wrong   3 -3: It does not round. What stands behind the point is cut off.
--# wrong   2 -3: It is not rounded down either: what stands behind the point is cut off.
--# hint    What stands behind the point is cut off.
--# why     Cut off, towards 0. `:round()` before it would give 3 and -3.

--# say     f64, with twice the bits, wins against f32: one such tensor makes f64 of all that it meets.
--# predict (torch.ones(2) + torch.ones(2):double()).dtype --> f64
--# wrong   f32: The wider kind of the two is taken.
--# hint    Which of the two can hold both?
--# why     Twice the memory, half the speed. (Plain Lua numbers are f64 as well, but they take on the
--#         tensor's dtype.)

--# say     `:bool()` asks each number for its truth.
--# predict torch.tensor{3, 0, -1}:bool() --> true false true
--# wrong   true false false: Only 0 is false.
--# wrong   true true true: In Lua 0 counts as true, but a number in a tensor of bool is true if it is not 0.
--# hint    Only 0 becomes false.
print(torch.tensor{3, 0, -1}:bool())

--# say     Eight bits hold 256 different values: `i8` those from -128 to 127, `u8` those from 0 to 255.
--#         What comes after the largest?
small = torch.tensor({127, 1}, {dtype = "int8"})
--# predict small + 1 --> -128 2
--# wrong   128 2: 128 does not fit into 8 bits with a sign.
--# wrong   127 2: It does not stop at the largest; it runs over, like the counter of a car.
--# wrong   error: Nothing is said at all; it runs over, like the counter of a car.
--# hint    Like the counter of a car after 999 999: it begins again, at the smallest.
--# why     Overflow, and nothing tells you. Pictures are u8: adding light to them with + 50 makes bright places
--#         dark.
print(small + 1)

--# say     See it happen: a pixel with 220, made lighter by 50.
--# predict (torch.tensor({220, 100}, {dtype = "uint8"}) + 50)[1]:item() --> 14
--# wrong   270: u8 ends at 255.
--# wrong   255: It does not stop at 255; it begins again at 0.
--# wrong   15: 255 is the last; 256 becomes 0, 257 becomes 1, and so on.
--# hint    220 + 50 = 270. Take 256 away: after 255 comes 0.

--# say     The cure: count in a wider dtype, limit it, then go back. `:clamp(low, high)` limits.
--# new     clamp
--# task    Write lighter(x, by): the u8 picture x made lighter by the number `by`, nowhere more than 255, u8
--#         again.
--# spec    lighter(x, by)
--#         local out = x:clone()
--#         for i = 1, #x do out[i] = math.min(255, x[i]:item() + by) end
--#         return out
--# try     n in 2..6
--# try     by in 10..200
--# try     x = torch.randint(0, 256, {n}):to("uint8")
--# wrong   function lighter(x, by) return (x + by):clamp(0, 255) end: It ran over before it was limited. First
--#         a wider dtype.
--# wrong   function lighter(x, by) return (x:long() + by):clamp(0, 255) end: The values are right, but they are
--#         i64: `:to("uint8")`.
--# wrong   function lighter(x, by) return (x:long() + by):to("uint8") end: 270 does not fit into u8. Limit it
--#         first.
--# hint    `x:long() + by` does not run over.
--# hint    Then `:clamp(0, 255)`, and last `:to("uint8")`.
--# answer
function lighter(x, by) return (x:long() + by):clamp(0, 255):to("uint8") end
--# why     First wider, then limited, then back: in any other order it runs over.
print(lighter(torch.tensor({220, 100}, {dtype = "uint8"}), 50))

--# say     Now numbers with a point. They are stored in base 2: halves, quarters, eighths. 0.5 and 0.75 are
--#         exact, 0.1 is not: no sum of such parts is just 0.1. In plain Lua (f64):
print(("%.20f"):format(0.1))
--# predict 0.1 + 0.2 == 0.3 --> false
--# wrong   true: It would be so on paper. Each of the three numbers is a little off, and not by the same.
--# hint    0.1, 0.2 and 0.3 are all a little off.
--# why     The sum is 0.30000000000000004. That is no mistake of Lua; every language that counts in base 2 has
--#         it.

--# say     The lens `%bits` shows it: the sign, the exponent (which power of two), and the fraction's bits.
--# play    Type `%bits 0.1`, then `%bits 0.5`. In the rows for 0.1 the digits never end: 1001 1001 1001. Enter
--#         goes on.

--# say     So numbers with a point are never asked whether they are equal, but whether they are close.
--# new     allclose
p = torch.tensor{0.1, 0.2} + 0.2
q = torch.tensor{0.3, 0.4}
--# predict torch.allclose(p, q) --> true
--# wrong   false: `allclose` allows a small difference (about one part in 100,000).
--# hint    They differ in the eighth digit, if at all.

--# say     f32 keeps 24 bits, that is about 7 decimal digits, for large numbers and for small ones. So
--#         whole numbers are exact up to 2^24 = 16777216. And the next?
big = torch.tensor(16777216.0)
--# predict big + 1 - big --> 0
--# wrong   1: 16777217 would need 25 bits; the sum is rounded to 16777216.
--# hint    16777217 needs 25 bits, and there are 24.
--# why     The 1 is lost. A loop that counts in f32 stands still at 16,777,216.

--# say     `bfloat16`, the dtype of large networks, keeps only 8 bits: whole numbers are exact up to 256,
--#         then it takes steps of 2, from 512 on steps of 4.
--# new     bfloat16
--# predict torch.tensor{258, 259.5}:bfloat16() --> 258 260
--# wrong   258 259: Odd numbers above 256 have no place in it.
--# wrong   258 259.5: Above 256 it goes in steps of 2.
--# wrong   258 258: 259.5 lies between 258 and 260. Which is nearer?
--# hint    Above 256 there are only even numbers. Which is nearest to 259.5?
print(torch.tensor{255, 256, 257, 258, 259}:bfloat16())

--# say     That is 2 or 3 decimal digits. What happens to a learning step that is smaller?
w = torch.tensor(1.0):bfloat16()
--# predict w + 0.001 - w --> 0
--# wrong   0.001: Between 1 and 2, bf16 has 128 steps: the next number after 1 is 1.0078.
--# hint    The next number after 1 is 1.0078. Which one is nearest to 1.001?
--# why     Small steps are lost. That is why training in bfloat16 keeps its weights in f32; the lesson on mixed
--#         precision comes back to it.

--# say     `float16` has more digits (11 bits), but ends early: its largest number is 65504.
--# new     half
--# predict torch.tensor{60000.0, 1.0}:half() * 2 --> inf 2
--# wrong   120000 2: The largest number of f16 is 65504.
--# wrong   65504 2: It does not stop at the largest. What is over the end has a name of its own.
--# hint    120000 is over the end. What comes there is written `inf`.
--# why     Too large is `inf`, infinity. bf16 reaches as far as f32, to 3e38.

--# say     The last special value is `nan`, "not a number": 0 / 0, or inf - inf. It is not equal to anything.
--# new     eq
n = torch.tensor{0.0, 1.0} / torch.tensor{0.0, 2.0}
print(n)
--# predict n:eq(n) --> false true
--# wrong   true true: The first is nan, which is not even equal to itself.
--# hint    The first element is nan.
--# why     So that is how to find it: what is not equal to itself is nan. `x:isnan()` says the same.

--# say     One nan spoils every sum it is in.
--# new     isnan
readings = torch.tensor{2.0, 0 / 0, 4.0}
--# predict readings:sum():isnan():item() --> true
--# wrong   false: 2 + nan is nan, and nan + 4 is nan.
--# hint    What is 2 + nan?

--# say     Something real: the sum of many. A bank adds up a million times 0.1 in f32, one after the other;
--#         the error of each step is small, but it is always to the same side. In bfloat16 it is easy to
--#         see.
tenth = torch.full({1000000}, 0.1)
print(tenth:sum():item())
--# task    Write drift(n): how far the sum of n numbers 0.1, kept in whole steps of bfloat16, is from n /
--#         10: start with `torch.tensor(0.0):bfloat16()`, add 0.1 n times, and return n / 10 minus the
--#         sum's item.
--# spec    drift(n)
--#         local total = torch.tensor(0.0):bfloat16()
--#         for i = 1, n do total = (total:float() + 0.1):bfloat16() end
--#         return n / 10 - total:item()
--# try     n in 100..400
--# wrong   function drift(n) local t = 0.0 for i = 1, n do t = t + 0.1 end return n / 10 - t end: This adds
--#         in Lua's f64. The sum should be a bfloat16 tensor.
--# hint    A loop: `for i = 1, n do total = total + 0.1 end`.
--# hint    `total:item()` is the plain number; subtract it from n / 10.
--# answer
function drift(n)
  local total = torch.tensor(0.0):bfloat16()
  for i = 1, n do total = total + 0.1 end
  return n / 10 - total:item()
end
--# why     After 400 steps there should be 40; the sum stands still at 32, because 32 + 0.1 is rounded to
--#         32 again. `sum()` does better: it adds many small parts first, in more bits.
print(drift(400))
