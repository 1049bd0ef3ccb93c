-- Near misses: every remark is given for its slip, and for right answers none.
local near_miss = require "shell.lesson.near_miss"

torch.manual_seed(3)
local x = torch.randn(3, 4)
local s = torch.randn(4, 4)
local r = torch.arange(4) + 1

-- The row that must know it, what was answered, what was wanted, what it was tried on.
local CASES = {
  {"unchanged", x, x:exp(), {x}},
  {"dtype", torch.tensor{1, 2}, torch.tensor{1.0, 2.0}},
  {"diagonal", r * r, r:view(4, 1) * r},
  {"transposed", s:t(), s},
  {"transposed", x:t(), x},
  {"extra size 1", x:sum(1):unsqueeze(1), x:sum(1), {x}},
  {"extra size 1", x[{{2, 2}}], x[2]},
  {"missing size 1", x:sum(2), x:sum(2):unsqueeze(2), {x}},
  {"other rows or columns", x[{{}, {1, -1, 2}}], x[{{}, {2, -1, 2}}], {x}},
  {"other rows or columns", x[{{1, 2}}], x[{{2, 3}}], {x}},
  {"another block", x[{{1, 2}, {1, 2}}], x[{{2, 3}, {2, 4}}], {x}},
  {"a column for a row", x:sum(2):view(3, 1), x:sum(2):view(1, 3), {x}},
  {"other shape", x:view(2, 6), x},
  {"the wrong dimension", x:sum(1), x:sum(2), {x}},
  {"the wrong dimension", s:mean(2), s:mean(1), {s}},
  {"the wrong dimension", x:argmax(1), x:argmax(2), {x}},
  {"everything reduced", x:sum(), x:sum(1)},
  {"everything reduced", torch.tensor{1.0, 2.0, 6.0}:mean(), torch.tensor{1.0, 2.0, 6.0}},
  {"not reduced yet", x:sum(1), x:sum()},
  {"a range too short or too long", x[{{1, 2}}], x},
  {"a range too short or too long", x[{{2, 3}}], x},
  {"a range too short or too long", x, x[{{}, {1, 3}}]},
  {"sign", -x, x},
  {"inverted mask", x:gt(0):logical_not(), x:gt(0)},
  {"absolute", torch.tensor{1.0, 2.0, -3.0}, torch.tensor{1.0, -2.0, 3.0}},
  {"off by one", torch.arange(5), torch.arange(5) + 1},
  {"off by one", torch.arange(5) + 2, torch.arange(5) + 1},
  {"a mean not taken", x:sum(1), x:mean(1), {x}},
  {"a mean not taken", x:mean(1) / 3, x:mean(1), {x}},
  {"a mean not taken", x:std(1), x:std(1, {correction = 0}), {x}},
  {"a mean not taken", x:var{dim = 1, correction = 0}, x:var(1), {x}},
  {"squares and roots", torch.tensor{4.0, 9.0}, torch.tensor{2.0, 3.0}},
  {"squares and roots", torch.tensor{2.0, 3.0}, torch.tensor{4.0, 9.0}},
  {"factors", x * 2, x},
  {"factors", x * 100, x},
  {"scaled otherwise", s / s:sum(2), s / s:sum{2, keepdim = true}, {s}},
  {"scaled otherwise", x / x:sum(1), x / x:sum{2, keepdim = true}, {x}},
  {"scaled otherwise", x / x:sum(), x / x:sum(1), {x}},
  {"scaled otherwise", x - x:mean{2, keepdim = true}, x - x:mean(1), {x}},
  {"scaled otherwise", x - x:mean(1) / x:std(1), (x - x:mean(1)) / x:std(1), {x}},
  {"scaled otherwise", (x - x:mean(1)) / x:var(1), (x - x:mean(1)) / x:std(1), {x}},
  {"scaled otherwise", x - x:mean(1), (x - x:mean(1)) / x:std(1), {x}},
  {"reversed", torch.tensor{1, 2, 5, 9}:flip(1), torch.tensor{1, 2, 5, 9}},
  {"shifted", torch.tensor{1, 2, 5, 9}:roll(1, 1), torch.tensor{1, 2, 5, 9}},
  {"one over", torch.tensor{0.5, 0.25, 4.0}, torch.tensor{2.0, 4.0, 0.25}},
  {"a constant off", x + 7.5, x},
  {"sorted differently", torch.tensor{5, 1, 9, 2}, torch.tensor{1, 2, 5, 9}},
  {"not a number", torch.tensor{1.0, 0 / 0}, torch.tensor{1.0, 2.0}},
  {"some entries", torch.tensor{1.0, 5.0, 3.25}, torch.tensor{1.0, 2.0, 3.25}},
  {"nothing", nil, x},
  {"number", 3, x},
  {"item", torch.tensor(3.0), 3.0},
  {"table", {1, 2}, x},
  {"function", print, x},
  {"kind", "x", x},
}

test("every slip is known by its row, and said in a sentence", function()
  for i, c in ipairs(CASES) do
    local remark, name = near_miss.find(c[2], c[3], c[4])
    check.equal(name, c[1], "case " .. i)
    check.yes(type(remark) == "string" and #remark > 8, "case " .. i)
  end
end)

test("every row has a case here", function()
  local seen = {}
  for _, c in ipairs(CASES) do seen[c[1]] = true end
  for _, name in ipairs(near_miss.names()) do check.yes(seen[name], name) end
end)

test("answers that are simply different are told nothing false", function()
  for seed = 1, 50 do
    torch.manual_seed(seed)
    local a, b = torch.randn(3, 4), torch.randn(3, 4)
    check.equal(near_miss.find(a, b, {torch.randn(3, 4)}), nil, seed)
    check.equal(near_miss.find(torch.randn(5), torch.randn(3, 2), {a}), nil, seed)
  end
end)

test("empty tensors, numbers without dimensions, and masks of any shape are answered", function()
  local odd = {torch.zeros(0), torch.zeros(0, 3), torch.zeros({}), torch.zeros(1), torch.zeros(1, 1), torch.tensor{true},
               torch.tensor(0 / 0), torch.zeros(2, 0, 2), torch.tensor{math.huge, -math.huge}, torch.tensor(3)}
  for _, a in ipairs(odd) do
    for _, b in ipairs(odd) do
      local ok, message = pcall(near_miss.find, a, b, odd)
      check.yes(ok, message)
    end
  end
end)

test("a remark on positions counts them from 1", function()
  check.contains(near_miss.find(torch.tensor{1.0, 5.0, 3.25}, torch.tensor{1.0, 2.0, 3.25}), "first at [2] is 5, wanted 2")
  check.contains(near_miss.find(torch.tensor{{1.0, 7.0}, {3.5, 5.0}}, torch.tensor{{1.0, 7.0}, {3.5, 9.0}}), "[{2, 2}]")
end)
