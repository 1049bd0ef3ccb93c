-- Commands of ranks beside the prompt: %ranks, %rank.
local function ranks() return require "shell.ranks" end

return {
  {
    name = "%ranks",
    usage = "%ranks N | show | kill RANK | off",
    doc = "Open N ranks, processes that work together, on which entries then run; show: who held what before and after the last collective; kill: end one, and see what the others see; off: end them.",
    more = "Entries run on all ranks, @1 x and @0,2 x on some. Each has the globals rank, world_size and dist (torch.distributed), and variables of its own. What they give is shown once where it is equal.",
    example = "%ranks 4\ng = torch.full({2}, rank + 1.0)\ndist.all_reduce(g)\n%ranks show",
    run = function(args, session)
      local word, rest = args:match("^(%S*)%s*(.-)$")
      local count = math.tointeger(tonumber(word))
      if count and rest == "" then return ranks().start(count, session) end
      if word ~= "" and word ~= "show" and word ~= "kill" and word ~= "off" then return ("%q is no number of ranks, and not show, kill or off"):format(args) end
      if not ranks().open() then return "there are no ranks; %ranks 4 opens four" end
      if word == "show" then return ranks().draw(session) end
      if word == "kill" then return ranks().kill(rest, session) end
      if word == "off" then return ranks().close(session) end
      ranks().status(session)
    end,
  },
  {
    name = "%rank",
    usage = "%rank RANKS ENTRY",
    doc = "Run an entry on some ranks; @RANKS ENTRY is the same.",
    example = "%rank 2 g:sum()",
    run = function(args, session)
      local which, rest = args:match("^(%S*)%s*(.*)$")
      return ranks().some(which, rest, session)
    end,
  },
}
