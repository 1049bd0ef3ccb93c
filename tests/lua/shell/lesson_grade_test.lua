-- Predictions: how answers are read, what is right, what a wrong one is told; and the alignment card.
local card = require "shell.lesson.card"
local grade = require "shell.lesson.grade"

local function lookup() end

local function graded(text, value, expression)
  local answer = grade.read(text)
  check.yes(answer, text .. " is no answer")
  return grade.grade(answer, {ok = true, value = value}, expression or "x", lookup)
end

test("a shape is answered in any of the usual ways", function()
  local shape = torch.zeros(3, 4).shape
  for _, text in ipairs {"3 4", "[3, 4]", "{3,4}", "(3, 4)", "3, 4", "3x4", "3 x 4", "torch.Size([3, 4])", " 3  4 ", "[3, 4] -- so"} do
    check.yes(graded(text, shape), text)
  end
  for _, text in ipairs {"4 3", "3", "3 4 1", "12", "[]", "f32", "true"} do check.no((graded(text, shape)), text) end
  for _, text in ipairs {"[]", "{}", "scalar"} do check.yes(graded(text, torch.zeros({}).shape), text) end
  check.yes(graded("2x3x4", torch.zeros(2, 3, 4).shape))
end)

test("a dtype is answered by its short or its long name", function()
  for _, text in ipairs {"f32", "float32", "torch.float32", "F32"} do check.yes(graded(text, torch.float32), text) end
  local right, remark = graded("i64", torch.float32)
  check.no(right)
  check.contains(remark, "fractions")
end)

test("numbers may be rounded to the places that are typed", function()
  for _, text in ipairs {"0.67", "0.667", "2/3", "0.66667"} do check.yes(graded(text, 2 / 3), text) end
  for _, text in ipairs {"0.6", "1", "0.66", "0.7"} do check.no((graded(text, 2 / 3)), text) end
  check.yes(graded("3", 3))
  check.yes(graded("3.0", 3))
  check.no((graded("3.4", 3)))
  check.yes(graded("nan", 0 / 0))
  check.yes(graded("-inf", -math.huge))
  check.no((graded("65504", math.huge)))
  check.no((graded("inf", -math.huge)))
end)

test("values of a tensor are answered in reading order, brackets or not", function()
  local x = torch.tensor{{1, 2}, {3, 4}}
  for _, text in ipairs {"1 2 3 4", "{{1, 2}, {3, 4}}", "[[1,2],[3,4]]", "1 2; 3 4"} do check.yes(graded(text, x), text) end
  local right, remark = graded("1 3 2 4", x)
  check.no(right)
  check.contains(remark, "transpose")
  check.yes(graded("true false", torch.tensor{true, false}))
  check.yes(graded("1 0", torch.tensor{true, false}))
  check.no((graded("false true", torch.tensor{true, false})))
end)

test("an error can be foreseen", function()
  check.yes((grade.grade(grade.read("error"), {ok = false, value = "x"}, "x", lookup)))
  check.no((grade.grade(grade.read("3"), {ok = false, value = "x"}, "x", lookup)))
  check.no((graded("error", 3)))
end)

test("what is to be run is no answer", function()
  for _, text in ipairs {"x", "a + b", "print(3)", "3 + 4", "x.shape", "%who", "?view", "f()", "x = 3", "1 two", ""} do
    check.equal(grade.read(text), nil, text)
  end
end)

test("a wrong shape is told what it looks like", function()
  local shape = torch.zeros(3, 1, 4).shape
  local function remark(text) return select(2, graded(text, shape)) end
  check.contains(remark("12"), "number of elements")
  check.contains(remark("4 1 3"), "other way round")
  check.contains(remark("1 3 4"), "another order")
  check.contains(remark("3 4"), "size 1 is still there")
  check.contains(remark("3 1 3"), "one too small")
  check.contains(remark("3 1 9"), "one of the sizes")
  check.contains(remark("3 9"), "3 dimensions")
  check.contains(select(2, graded("3", torch.zeros({}).shape)), "no dimensions")
end)

test("rows exchanged with columns, and counting from 0, are seen in indexing", function()
  local t = torch.tensor{{11, 12, 13}, {21, 22, 23}, {31, 32, 33}}
  local function remark(text)
    return select(2, grade.grade(grade.read(text), {ok = true, value = 12}, "t[{1, 2}]", function() return t end))
  end
  check.contains(remark("21"), "the row comes first")
  check.contains(remark("23"), "count from 1")
end)

test("questions are made from the expression", function()
  check.equal(grade.question("(a + b).shape"), "what shape is `a + b`?")
  check.equal(grade.question("x:sum(1).dtype"), "what dtype is `x:sum(1)`?")
  check.equal(grade.question("x[1]"), "what is `x[1]`?")
end)

test("the alignment card lines shapes up from the right", function()
  check.equal(card.rows({"a", "b"}, {{3, 1}, {4}}), {"a  3  1", "b  .  4", "=  3  4"})
  check.equal(card.rows({"row", "x"}, {{3}, {10, 2, 3}}), {"row   .  .  3", "x    10  2  3", "=    10  2  3"})
  local rows = card.rows({"x", "y"}, {{2, 3}, {2}})
  check.equal(#rows, 3)
  check.contains(rows[3], "3 against 2")
  check.equal(card.rows({"a", "b"}, {{}, {2}}), {"a  .", "b  2", "=  2"})
end)

test("an expression is split at the operator that is applied last", function()
  local function split(e) return table.concat({card.split(e)}, " | ") end
  check.equal(split("a + b"), "a | b | +")
  check.equal(split("a + b * c"), "a | b * c | +")
  check.equal(split("a - b - c"), "a - b | c | -")
  check.equal(split("(a - b)"), "a | b | -")
  check.equal(split("(a + b) * (c + d)"), "(a + b) | (c + d) | *")
  check.equal(split("x:sum{dim = 1} / y[{1, -2}]"), "x:sum{dim = 1} | y[{1, -2}] | /")
  check.equal(split("x:sum(1)"), "")
  check.equal(split("-x"), "")
  check.equal(split("a, b + c"), "")
end)
