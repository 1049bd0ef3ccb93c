-- Ranks beside the prompt: %ranks, @1 x, and what is seen when one of them ends.

-- What a session of these entries prints; the errors of an entry do not end it.
local function session(entries)
  local env = {HOME = check.temp("home"), TERM = "dumb"}
  return check.tycho({"--clean", "-i"}, {stdin = table.concat(entries, "\n") .. "\n", env = env})
end

test("entries run on every rank, and equal values are shown once", function()
  local r = session {"%ranks 3", "g = torch.full({2}, rank + 1.0)", "g", "dist.all_reduce(g)", "g", "@1 g:sum()", "%rank 0,2 rank * 10", "world_size", "%ranks off", "1 + 1"}
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "3 ranks: r0-r2")
  check.contains(r.out, "r0  f32 [2]  1 1\nr1  f32 [2]  2 2\nr2  f32 [2]  3 3\nr0-r2  f32 [2]  6 6\nr1  f32 []  12\nr0  0\nr2  20\nr0-r2  3\n2\n")
end)

test("%ranks show draws what every rank held before and after a collective", function()
  local r = session {"%ranks 2", "g = torch.full({2}, rank + 1.0)", "dist.broadcast(g, 1)", "%ranks show"}
  check.equal(r.status, 0, r.err)
  check.yes(r.out:find("broadcast%s+r0%s+1 1%s+2 2\n"), r.out)
  check.yes(r.out:find("r1%s+2 2%s+the same\n"), r.out)
end)

test("what ranks print is theirs, also where it is equal", function()
  local r = session {"%ranks 2", 'print("hello")', 'print("I am", rank)', "for i = 1, 2 do io.write(i, ' ') end"}
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "r0-r1  hello\nr0  I am\t0\nr1  I am\t1\nr0-r1  1 2 \n")
end)

test("an error on one rank leaves all of them open, with their variables", function()
  local r = session {"%ranks 2", "x = rank + 1", "ok, e = pcall(function() if rank == 1 then error('only here') end end)", "ok", "x"}
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "r0  true\nr1  false\nr0  1\nr1  2\n")
  local wrong = session {"%ranks 2", "torch.ones(2) + torch.ones(3 - rank)"}
  check.equal(wrong.status, 1)  -- input that is no terminal ends at its first error
  check.contains(wrong.out, "r1  f32 [2]  2 2")
  check.contains(wrong.err, "r0\nerror SHAPE-2")
end)

test("ranks that ask for different collectives are all told so", function()
  local r = session {"%ranks 2", "dist.all_reduce(torch.zeros(rank == 0 and 4 or 3))"}
  check.contains(r.err, "COLL-1")
  check.contains(r.err, "r0  all_reduce sum float32 [4]")
  check.contains(r.err, "r1  all_reduce sum float32 [3]")
end)

test("a rank that is killed is named by the others", function()
  local r = session {"%ranks 3", "%ranks kill 1"}
  check.contains(r.out, "rank 1 (process ")
  check.contains(r.out, "was ended by signal 9 (SIGKILL)")
  check.yes(r.err:find("rank 1 %(pid %d+ on [^)]*%) died"), r.err)  -- each may add where it was itself
  check.no(r.err:find("r1"), r.err)
  check.contains(r.err, "r0")
  check.contains(r.err, "r2")
end)

test("collectives are drawn by whatever name they are called", function()
  local r = session {"%ranks 2", "g = torch.full({1}, rank + 1.0)", "torch.distributed.all_reduce(g)", "%ranks show", "local d = torch.distributed d.broadcast(g * rank, 1)", "%ranks show"}
  check.equal(r.err, "")
  check.contains(r.out, "all_reduce")
  check.contains(r.out, "broadcast")
end)

test("a rank that ends by itself is shown with how it ended", function()
  local r = session {"%ranks 2", "@1 os.exit(3)"}
  check.contains(r.err .. r.out, "rank 1 ended with exit code 3")
end)

test("wrong use is a sentence", function()
  check.contains(session({"%ranks 0"}).err, "1 to 16 ranks")
  check.contains(session({"%ranks many"}).err, "is no number of ranks")
  check.contains(session({"%ranks show"}).err, "there are no ranks; %ranks 4 opens four")
  check.contains(session({"%rank 1 x"}).err, "there are no ranks")
  check.contains(session({"%ranks 2", "@5 rank"}).err, "there is no rank 5; they are 0 to 1")
  check.contains(session({"%ranks 2", "@1"}).err .. session({"%ranks 2", "%rank 1"}).err, "what is to run there?")
end)
