-- %predict and %align: the user's own expressions asked for before they run, shapes written under each other.
local function prompt(entries)
  local r = check.tycho({"-i"}, {stdin = table.concat(entries, "\n") .. "\n", env = {XDG_STATE_HOME = check.temp("s"), COLUMNS = "80"}})
  return r.out, r.err, r.status
end

local MADE = "a = torch.ones(2, 3); b = torch.ones(3, 4); n = 0"

test("a prediction is graded step by step, and the line runs once", function()
  local out = prompt{MADE, "function f(x) n = n + 1 return x end", "%predict f(a):matmul(b):sum(2)", "3", "9", "2", "_", "n"}
  check.contains(out, "what shape is `f(a):matmul(b):sum(2)`?")
  check.contains(out, "One size is one too large.\n")
  check.contains(out, "  f(a)        [2, 3]  f32\n  :matmul(b)  [2, 4]  f32\n")
  check.contains(out, "yes.   f(a)        [2, 3]  f32\n")
  check.contains(out, ":sum(2)     [2]  f32\nf32 [2]  12 12\nf32 [2]  12 12\n")
end)

test("a broadcast is answered with its card, a dtype by its name, a number by its value", function()
  local out = prompt{MADE, "%predict a + torch.ones(3)", "2 3", "%predict a:gt(0)", "bool", "%predict a:numel()", "5", "6"}
  check.contains(out, "yes.   a              2  3\n       torch.ones(3)  .  3\n       =              2  3\n")
  check.contains(out, "what is `a:numel()`?")
  check.contains(out, "You are close")
  check.lacks(out, "too small")
  check.contains(out, "yes.\n6\n")
end)

test("an error can be predicted, and is shown", function()
  local out, err = prompt{MADE, "%predict a + b", "error"}
  check.contains(out, "yes.")
  check.contains(out, "neither is 1")
  check.contains(err, "[2, 3] and [3, 4]")
end)

test("Enter runs the line, other entries stay entries, and the prompt is as before", function()
  local out = prompt{MADE, "%predict a:sum()", "a:sum(1)", "", "6 * 7"}
  check.contains(out, "f32 [3]  2 2 2\nf32 []  6\n42\n")
end)

test("inside a lesson it comes back to the lesson", function()
  local out = prompt{"%learn shapes 2", MADE, "%predict a:t()", "2 3", "3 2", "5"}
  check.contains(out, "other way round")
  check.contains(out, "3/16")
end)

test("shapes are lined up for tensors, tables, numbers and an expression", function()
  local out = prompt{MADE, "%align a, torch.ones(3)", "%align {3, 1}, {4}", "%align a - 1", "%align a, b"}
  check.contains(out, "a              2  3\ntorch.ones(3)  .  3\n=              2  3\n")
  check.contains(out, "{3, 1}  3  1\n{4}     .  4\n=       3  4\n")
  check.contains(out, "a  2  3\n1  .  .\n=  2  3\n")
  check.contains(out, "a  2  3\nb  3  4\nthe first from the right: 3 against 4, and neither is 1\n")
end)

test("what cannot be foretold or lined up is answered with the usage", function()
  for _, entry in ipairs {"%predict", "%predict x = 3", "%predict for", "%align", "%align nosuch, 3", "%align {'x'}, {1}", "%align print"} do
    local _, err, status = prompt{entry}
    check.equal(status, 1, entry)
    check.contains(err, "usage", entry)
  end
  local _, err = prompt{"%align nosuch.x, 1"}
  check.contains(err, "error")
end)

test("the shapes of tensors of different ranks are lined up from the right", function()
  local card = require "shell.lesson.card"
  local p, q = torch.ones(3, 1), torch.ones(4)
  check.equal(card.rows({"p", "q"}, {p.shape, q.shape}), {"p  3  1", "q  .  4", "=  3  4"})
  check.equal(card.shape({p.shape, torch.ones(2, 3, 4).shape}), {2, 3, 4})
end)
