-- torch.progress: what loops go over it, the line in a terminal, the lines in a log, and wrong arguments.
local data = torch.utils.data

local function gathered(...)
  local out = {}
  for a, b in torch.progress(...) do out[#out + 1] = b == nil and a or {a, b} end
  return out
end

-- A script's output where half a second passes with each look at the clock; `width`: in a terminal of that many columns.
local function shown(text, width, env)
  local path = check.temp "shown.lua"
  local file = assert(io.open(path, "wb"))
  file:write(([[
    local place, seconds = require("torch.progress").place, -0.5
    place.window = function() return %s end
    place.clock = function() seconds = seconds + 0.5 return seconds end
  ]]):format(width or "nil"), text)
  file:close()
  local out = check.tycho({path}, {env = env})
  check.equal(out.status, 0, out.err)
  return out.out, out.err
end

test("a progress goes over what a loop does, and gives the same values", function()
  check.equal(gathered(3), {1, 2, 3})
  check.equal(gathered {"a", "b"}, {"a", "b"})
  check.equal(gathered(ipairs {"a", "b"}), {{1, "a"}, {2, "b"}})
  check.equal(gathered(pairs {x = 1}), {{"x", 1}})
  check.equal(gathered(("a b"):gmatch "%a"), {"a", "b"})
  check.equal(#gathered(torch.ones(4, 2)), 4)
  local set = data.TensorDataset(torch.ones(5, 2), torch.arange(5))
  check.equal(gathered(set)[3][2]:item(), 2)
  local sizes = gathered(data.DataLoader(set, {batch_size = 2, num_workers = 1}))
  check.equal({#sizes, sizes[3][1].shape[1]}, {3, 1})
  check.equal(gathered(0), {})
  check.equal(gathered {}, {})
end)

test("one progress goes round again in each epoch, with and without brackets", function()
  local bar, n = torch.progress(data.DataLoader(data.TensorDataset(torch.ones(4, 2)), {batch_size = 2}), {desc = "x"}), 0
  for _ = 1, 2 do
    for x in bar do n = n + #x end
    for x in bar() do n = n + #x end
  end
  check.equal(n, 16)
end)

test("in a terminal a line is redrawn that ends whole, and prints stand above it", function()
  local out = shown([[
    for i in torch.progress(4, {desc = "epoch 1", unit = "batches"}) do
      if i == 2 then print("note") end
    end
    print("end")]], 70)
  check.contains(out, "\repoch 1  ░░░░")
  check.contains(out, "\r\27[Knote\n")
  check.contains(out, " 50 %  2/4")
  check.contains(out, "█ 100 %  4/4")
  check.contains(out, "batches/s")
  check.equal(out:match "\n([^\n]*)\n$", "end")
  for line in out:gmatch "[^\r\n]+" do check.yes(utf8.len((line:gsub("\27%[K", ""))) < 70, line) end
end)

test("loops inside loops share the line, which is clear at the end of the inner ones", function()
  local out = shown([[
    for e in torch.progress(2, {desc = "epoch"}) do
      local bar = torch.progress(2)
      for i in bar do bar:set_postfix{loss = torch.tensor(0.5), b = 2} end
    end]], 90)
  check.contains(out, "\repoch 1/2  ")  -- the second epoch: one is done
  check.contains(out, "b 2  loss 0.5")
  check.equal(select(2, out:gsub("\n", "")), 1)
end)

test("an error or a break in the loop ends the line", function()
  local out = shown([[
    print(pcall(function() for i in torch.progress(3) do error("boom", 0) end end))
    for i in torch.progress(3) do break end
    print("after")]], 60)
  check.contains(out, "\27[K\nfalse\tboom\n")
  check.contains(out, "\27[K\nafter\n")
end)

test("a log has a line a minute, on stderr or in the file given", function()
  local loop = [[for i in torch.progress(400, {desc = "work", %s}) do end]]
  local out, err = shown(loop:format "unit = 'steps'")
  check.equal(out, "")
  check.equal(select(2, err:gsub("\n", "")), 4)
  check.contains(err, "work   29 %  119/400  1.967 steps/s")
  check.contains(err, "work  100 %  400/400")
  check.contains(shown(loop:format "file = io.stdout"), "400/400")
  local _, short = shown "for i in torch.progress(40) do end"
  check.equal(short, "")
end)

test("of several ranks only the first shows its progress", function()
  local loop = [[for i in torch.progress(400) do end]]
  for rank = 0, 1 do
    local _, err = shown(loop, nil, {RANK = tostring(rank), WORLD_SIZE = "2"})
    check.equal(err ~= "", rank == 0)
  end
end)

test("a bar without a loop is moved by update and to", function()
  local out = shown([[
    local bar = torch.progress{total = 10, initial = 2, unit = "files"}
    bar:update()
    bar:update(2)
    bar:set_description("copy")
    bar:to(10, "done")
    bar:close()
    print(bar)]], 80)
  check.contains(out, " 30 %  3/10")
  check.contains(out, "copy  ")
  check.contains(out, "100 %  10/10  done")
  check.contains(out, "\nprogress: 10/10\n")
end)

test("wrong arguments of progress are answered", function()
  check.raises("argument", "wants what the loop goes over", torch.progress)
  check.raises("argument", "not a string", torch.progress, "loader")
  check.raises("argument", "not a boolean", torch.progress, true)
  check.raises("value", "0 or more, not -1", torch.progress, -1)
  check.raises("argument", 'no option "describe"', torch.progress, 3, {describe = "x"})
  check.raises("argument", "total must be a number of at least 0, not -3", torch.progress, {total = -3})
  check.raises("argument", "options stand in a table", torch.progress, 3, 4)
  check.raises("argument", "the iterator lost its table", torch.progress, (ipairs {}), {desc = "x"})
  check.raises("shape", "no rows", torch.progress, torch.tensor(3))
  local bar = torch.progress {total = 3}
  check.raises("argument", "nothing to go over", function() for _ in bar do end end)
  check.raises("argument", "update wants a number", function() bar:update("x") end)
  check.raises("argument", "to wants a number", function() bar:to(0 / 0) end)
end)
