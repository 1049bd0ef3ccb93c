-- The notes about entries of the prompt: == with a tensor, tensors as conditions, gradients that add up, why
-- .grad is nil; their switches; and entries that are right and stay silent.

local home = check.temp("home")
os.execute("mkdir -p " .. check.quote(home))
local function session(entries)
  local r = check.tycho({"-i"}, {stdin = table.concat(entries, "\n") .. "\n", env = {HOME = home, XDG_STATE_HOME = home, TERM = "dumb"}})
  check.equal(r.status, 0, r.err)
  return r
end
local function says(sentence, entries, parts)
  test(sentence, function()
    local err = session(entries).err
    for _, part in ipairs(parts) do check.contains(err, part) end
  end)
end
local function silent(sentence, entries)
  test("no note about " .. sentence, function() check.equal(session(entries).err, "") end)
end

says("== between a tensor and a number is noted with the mask to write", {"x = torch.tensor{1, 5}", "x == 5"},
  {"note EQ: x == 5 is always false", "x:eq(5)"})
says("~= is always true, also of an element and of a method's result", {"x = torch.tensor{1, 5}", "x[1] ~= 2", "x:sum() ~= 3"},
  {"note EQ: x[1] ~= 2 is always true", "x[1]:ne(2)", "x:sum() ~= 3", "x:sum():ne(3)"})
says("the number may stand in front, or in a variable", {"x, n = torch.tensor{1, 5}, 3", "5 == x", "x == n"},
  {"5 == x is always false", "x:eq(5)", "x == n is always false", "x:eq(n)"})
says("a variable that the entry itself makes is known", {"y = torch.ones(3); y == 1"}, {"note EQ: y == 1"})
test("the mask that EQ names works", function()
  check.contains(session{"x = torch.tensor{1, 5}", "x:eq(5):tolist()"}.out, "true")
end)
says("a mask as a condition is noted, with what decides", {"x = torch.tensor{1.0, -1.0}", "if x:gt(0) then print(1) end", "while x:lt(0):any() do break end"},
  {"note IF: x:gt(0) is a tensor", "x:gt(0):all():item() or x:gt(0):any():item()", "x:lt(0):any() is a tensor", "x:lt(0):any():item()"})
says("a mask of a parameter inside a function is noted", {"function f(v) if v:ge(0) then return v end end"}, {"note IF: v:ge(0)"})
says("not, and, or and until are conditions too", {"x = torch.tensor{1.0}", "print(not x:gt(0))", "if 1 > 0 and x:gt(2) then end", "repeat local s = 1 until x:gt(0)"},
  {"x:gt(0)", "x:gt(2)"})
says("a second backward into one gradient is noted", {"w = torch.ones(2, {requires_grad=true})", "(w * 2):sum():backward()", "(w * 3):sum():backward()"},
  {"note ACC: w.grad holds the sum of 2 backward passes", "w.grad = nil"})
says("an entry .grad that is nil says why", {
  "w = torch.ones(2, {requires_grad=true})", "w.grad", "x = torch.ones(2)", "x.grad", "y = w * 2", "y.grad",
  "z = torch.no_grad(function() return w * 2 end)", "z.grad", "d = w:detach()", "d.grad"},
  {"no backward pass has reached w", "x does not require grad", "y was computed (by mul at [5]:1)", "keep it: y:retain_grad()",
    "z is in no graph: mul at [7]:1 ran inside no_grad", "detach at [9]:1 cut it off"})
says("a gradient that is not finite names the operation that began it", {
  "x = torch.tensor({4.0, 0.0}, {requires_grad=true})", "torch.where(x:gt(0), x:sqrt(), 0):sum():backward()"},
  {"note NAN: a gradient is not finite", "gradient of sqrt", "element [2]: input 0", "where() does not stop it"})
says("a loss that is nan names the operation, and data that hold it", {
  "x = torch.tensor({1.0, 0.0}, {requires_grad=true})", "l = (x:log() - x:log()):mean()", "l:backward()",
  "d = torch.tensor{1.0, 0/0}", "l = (x * d):mean()", "l:backward()"},
  {"first infinity in log at [2]:1", "element [2]: input 0", "sub at [2]:1 made a nan of it", "what mul at [5]:1 reads"})
says("a note of the engine names the variables of the entry", {"pred, y = torch.ones(64, 1), torch.ones(64)", "((pred - y) ^ 2):mean()"},
  {"note B2: pred [64, 1] - y [64] became [64, 64]; both sides were stretched", "   pred  64   1", "   y      .  64     lined up from the right",
    "if pairs were meant: pred:squeeze(2) - y", "(%ok B2 to accept this line)"})
test("a note stands below the value", function()
  local both = check.temp("both")
  os.execute(("printf 'x = torch.ones(2)\\nx == 1\\n' | %s -i >%s 2>&1"):format(check.quote(check.program), check.quote(both)))
  local file = assert(io.open(both))
  check.contains(file:read("a"), "false\nnote EQ")
  file:close()
end)

test("%ok accepts the line of the last note, `all` the code, and alone lists them", function()
  local r = session{"x = torch.ones(2)", "x == 1", "%ok EQ", "x == 1", "x == 2", "%ok EQ all", "x == 3", "%ok", "%ok eq on", "x == 4"}
  check.equal(select(2, r.err:gsub("note EQ", "")), 3)
  check.contains(r.err, "x == 4")
  check.lacks(r.err, "x == 3")
  check.contains(r.out, "accepted for EQ: x == 1")
  check.contains(r.out, "B2    on")
end)
test("%ok refuses unknown codes and words", function()
  for _, entry in ipairs {"%ok ZZ", "%ok B2 maybe", "%ok B2 all more"} do
    local r = check.tycho({"-i"}, {stdin = entry .. "\n"})
    check.equal(r.status, 1)
    check.contains(r.err, "%ok")
  end
end)

test("%explain tells the rule of a note, and its example runs without a note", function()
  for code, entry in pairs(require("torch.notes").catalogue) do
    local r = session{"%explain " .. code, entry.example}
    check.contains((r.out:gsub("%s+", " ")), entry.rule:sub(1, 40))
    check.equal(r.err, "", code)
  end
end)

silent("comparisons with nil, of fields, counts and numbers", {
  "x = torch.tensor{1, 5}", "x == nil", "x ~= nil", "#x == 2", "x.ndim == 1", "x:size(1) == 2", "x[1]:item() == 1", "x.dtype == torch.int64",
  "x:sum():item() == 6", "x:tolist()[1] == 1", "x:numel() == 2 and x.shape[1] == 2", "x:dim() == 1", "x == x", "x.grad == nil",
  "'x == 5'", "-- x == 5", "t = {x = 5}; t.x == 5", "x:size()[1] == 2", "torch.equal(x, x) == true", "x:eq(5):any():item() == true"})
silent("names that are parameters or locals", {
  "x = torch.tensor{1, 5}", "function f(x) return x == 5 end", "g = function(x, y) return y ~= x end", "for x = 1, 2 do if x == 1 then break end end",
  "do local x = 5; assert(x == 5) end", "for i, x in ipairs{1} do assert(x == 1) end", "f(5)"})
silent("conditions that are booleans or ask for nil", {
  "x = torch.tensor{1.0, 2.0}", "if x then end", "if x.grad then end", "if not x.requires_grad then end", "if x:gt(0):all():item() then end",
  "if x:is_contiguous() then end", "if torch.is_tensor(x) then end", "if torch.equal(x, x) and x then end", "if torch.allclose(x, x) then end",
  "while x:numel() > 5 do end", "m = {gt = function() return false end}", "if x:dim() == 1 and #x == 2 then end", "s = 'a'; if s:find('b') then end",
  "y = x or torch.ones(2)", "z = x:gt(0) and 1"})
silent("backward in loops, after zeroing, in functions and with two leaves", {
  "w = torch.ones(2, {requires_grad=true}); v = torch.ones(2, {requires_grad=true})", "(w * 2):sum():backward()", "w.grad = nil", "(w * 2):sum():backward()",
  "w.grad:zero_(); (w * 2):sum():backward()", "(v * 2):sum():backward()", "w.grad = nil", "for i = 1, 3 do (w * 2):sum():backward() end"})
silent("lessons on broadcasting", {
  "a = torch.arange(3):view(3, 1)", "b = torch.arange(3)", "a + b", "(a * b).shape", "t = a * b; t:sum(1)", "x = torch.randn(4, 3)", "(x - x:mean(1)):pow(2):mean()",
  "(x - x:mean{dim=2, keepdim=true}):pow(2):mean()"})
