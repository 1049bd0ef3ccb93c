-- Ranks beside the prompt: processes that work together over shared memory. While they are open an entry
-- runs on all of them, or on some ("@1 x", "@0,2 x"), and what they print and give is shown once where it
-- is equal. shell.rank is what each of them does.
local native = require "shell.native"
local ranks = {}

---@class RankGroup
---@field members table[] rank -> {pipe=, process=, gone=, device=}; from 0
---@field world integer
---@field calls table[] the collectives of the last entry that had any
local group

local most_ranks = 16

local function alive()
  local list = {}
  for rank = 0, group.world - 1 do
    if not group.members[rank].gone then list[#list + 1] = rank end
  end
  return list
end

-- "r0-r2,r5"
local function named(list)
  local parts, i = {}, 1
  while i <= #list do
    local j = i
    while list[j + 1] == list[j] + 1 do j = j + 1 end
    parts[#parts + 1] = i == j and "r" .. list[i] or ("r%d-r%d"):format(list[i], list[j])
    i = j + 1
  end
  return table.concat(parts, ",")
end

---Whether ranks are open.
function ranks.open() return group ~= nil end

-- How a process that is gone ended.
local function ending(member)
  local process = require "torch.multiprocessing.process"
  member.process:join(2)
  local code = member.process.exitcode
  return code and process.end_text(code) or "closed its connection"
end

-- What a rank has answered, if it has: its reply, or that it is gone.
local function answer(rank)
  local member = group.members[rank]
  if not member.pipe:poll(0.02) then return nil end
  local received, reply = pcall(member.pipe.recv, member.pipe)
  if received then return reply end
  member.gone = ending(member)
  return {ok = false, printed = "", error = ("rank %d %s"):format(rank, member.gone), calls = {}}
end

-- What the ranks of `list` answer: rank -> reply. Ctrl-C goes on to those that still run.
local function replies(list)
  local got, interrupted = {}, false
  local function collect()
    local missing
    repeat
      missing = false
      for _, rank in ipairs(list) do
        got[rank] = got[rank] or answer(rank)
        missing = missing or not got[rank]
      end
    until not missing
    return true
  end
  -- At a terminal Ctrl-C has reached them, too; who has not answered soon after is told.
  local function tell()
    for _, rank in ipairs(list) do
      local member = group.members[rank]
      if not got[rank] and not member.pipe:poll(0.3) then member.process._child:kill(2) end
    end
  end
  while true do
    local fine, err, trace = native.contained(collect)
    if fine then return got, interrupted end
    if not trace.interrupted then error(err, 0) end
    interrupted = true
    native.contained(tell)
  end
end

-- The ranks of `list` by what `part` says of their replies: {{list, text}, ..}.
local function folded(list, got, part)
  local order, by_text = {}, {}
  for _, rank in ipairs(list) do
    local text = part(got[rank])
    if text and text ~= "" then
      if not by_text[text] then
        by_text[text] = {}
        order[#order + 1] = {by_text[text], text}
      end
      table.insert(by_text[text], rank)
    end
  end
  return order
end

local function show(list, got, part, say)
  for _, pair in ipairs(folded(list, got, part)) do
    local text = pair[2]:gsub("\n$", "")
    say(named(pair[1]) .. (text:find("\n") and "\n" or "  ") .. text)
  end
end

local function ask(text, list, number)
  for _, rank in ipairs(list) do
    local member = group.members[rank]
    pcall(member.pipe.send, member.pipe, {number = number, text = text})  -- who is gone is found by its answer
  end
  return replies(list)
end

---Runs an entry on some ranks and shows what comes of it. Whether it went well on all.
---@param text string
---@param list integer[]
---@param session Session
---@return boolean
function ranks.run(text, list, session)
  local got, interrupted = ask(text, list, session.number)
  show(list, got, function(reply) return reply.printed end, session.say)
  show(list, got, function(reply) return reply.value end, session.say)
  show(list, got, function(reply) return reply.error end, session.complain)
  local well, calls = true, {}
  for _, rank in ipairs(list) do
    well = well and got[rank].ok
    for i, call in ipairs(got[rank].calls) do
      calls[i] = calls[i] or {name = call.name, of = {}}
      calls[i].of[rank] = call
    end
  end
  if #calls > 0 then group.calls = calls end
  -- A collective that was stopped half-way has ended the work together; they begin anew.
  if interrupted and #alive() == group.world then
    local everybody = alive()
    show(everybody, ask("dist.shrink_group({});", everybody, session.number), function(reply) return reply.error end, session.complain)
  end
  if #alive() == 0 then
    session.complain("no rank is left")
    ranks.close(session)
  end
  return well
end

-- "2", "0,2" or "1-3" as a list of ranks; nil and what is wrong.
local function chosen(text)
  local list, seen = {}, {}
  for word in text:gmatch("[^,]+") do
    local first, last = word:match("^r?(%d+)%-r?(%d+)$")
    if not first then first = word:match("^r?(%d+)$") end
    last = last or first
    first, last = math.tointeger(tonumber(first)), math.tointeger(tonumber(last))
    if not first or not last then return nil, ("%q is no rank: write 2, or 0,2, or 1-3"):format(word) end
    for rank = first, math.min(last, first + most_ranks) do
      local member = group.members[rank]
      if not member then return nil, ("there is no rank %d; they are 0 to %d"):format(rank, group.world - 1) end
      if member.gone then return nil, ("rank %d %s"):format(rank, member.gone) end
      if not seen[rank] then list[#list + 1] = rank end
      seen[rank] = true
    end
  end
  if #list == 0 then return nil, "which rank? write 2, or 0,2, or 1-3" end
  table.sort(list)
  return list
end

---%rank 2 x, and @2 x.
---@return string|boolean|nil wrong
function ranks.some(which, text, session)
  if not group then return "there are no ranks; %ranks 4 opens four" end
  local list, wrong = chosen(which)
  if not list then return wrong end
  if not text:find("%S") then return "and what is to run there?" end
  return ranks.run(text, list, session)
end

-- What entries become while ranks are open: Lua runs there, commands stay with the prompt.
local mode = {}
function mode.is_done(text) return text:find("^%s*@[%d,r-]+%s+%S") ~= nil and require("shell.entry").read((text:gsub("^%s*@%S+%s+", ""))) ~= nil end
function mode.handle(text)
  local session = require "shell.session"
  if not text:find("%S") or text:find("^%s*[%%!?]") then return false end
  local which, rest = text:match("^%s*@([%d,r-]+)%s+(.*)$")
  local keyboard = session.at_keyboard
  session.at_keyboard = false  -- the session keeps what was typed itself
  local well = session.dispatch(text, function()
    if not which then return ranks.run(text, alive(), session) end
    local said = ranks.some(which, rest, session)
    if type(said) == "string" then session.complain("error: " .. said) end
    return said == true
  end)
  session.at_keyboard = keyboard
  return true, well
end

---Opens `world` ranks.
---@param world integer
---@return string|nil wrong
function ranks.start(world, session)
  if group then return ("%d ranks are open already; %%ranks off ends them"):format(group.world) end
  if world < 1 or world > most_ranks then return ("1 to %d ranks"):format(most_ranks) end
  local mp = require "torch.multiprocessing"
  local ours, theirs = {}, {}
  for rank = 0, world - 1 do ours[rank], theirs[rank] = mp.Pipe() end
  local context = mp.spawn(function(rank, pipes, n) require "shell.rank"(rank, n, pipes) end, {args = {theirs, world}, nprocs = world, join = false})
  group = {members = {}, world = world, calls = {}, context = context}
  for rank = 0, world - 1 do
    theirs[rank]:close()
    group.members[rank] = {pipe = ours[rank], process = context.processes[rank + 1]}
  end
  local list = alive()
  local got, interrupted = replies(list)
  local devices, same = {}, true
  for _, rank in ipairs(list) do
    if not got[rank].ok or interrupted then
      local text = interrupted and "interrupted" or ("rank %d: %s"):format(rank, got[rank].error)
      ranks.close()
      error(text, 0)
    end
    devices[#devices + 1] = ("r%d %s"):format(rank, got[rank].device)
    same = same and got[rank].device == got[0].device
  end
  if same then devices = {named(list) .. " on " .. got[0].device} end
  mode.prompt = "r*> "
  session.mode = mode
  session.say(("%d rank%s: %s; entries run on all of them, @1 x on one, %%ranks off ends them\nthey have rank, world_size and dist (torch.distributed)"):format(
    world, world == 1 and "" or "s", table.concat(devices, ", ")))
end

---Ends all ranks.
function ranks.close(session)
  if not group then return end
  local old = group
  group = nil
  if session and session.mode == mode then session.mode = nil end
  for rank = 0, old.world - 1 do old.members[rank].pipe:close() end
  for rank = 0, old.world - 1 do
    local process = old.members[rank].process
    process:join(2)
    if process:is_alive() then
      process:kill()
      process:join(2)
    end
  end
end

---Ends one rank at once, and asks the others what they see of it.
---@return string|nil wrong
function ranks.kill(which, session)
  local list, wrong = chosen(which)
  if not list then return wrong end
  for _, rank in ipairs(list) do
    local member = group.members[rank]
    member.process:kill()
    member.gone = ending(member)
    session.say(("rank %d (process %d) %s"):format(rank, member.process.pid, member.gone))
  end
  local left = alive()
  if #left == 0 then
    session.say "no rank is left"
    return ranks.close(session)
  end
  local numbers = table.concat(list, ", ")
  session.say(("in their next collective the others see:"):format(numbers))
  ranks.run("dist.barrier()", left, session)
  session.say(("   try: dist.shrink_group({%s})  -- goes on without"):format(numbers))
end

---Draws the collectives of the last entry that had any: what each rank's tensors held before and after.
---@return string|nil wrong
function ranks.draw(session)
  if #group.calls == 0 then return "no collective has run yet; say g = torch.full({2}, rank + 1.0), then dist.all_reduce(g)" end
  local columns = require "shell.columns"
  local rows = {}
  for i, call in ipairs(group.calls) do
    local first = true
    for rank = 0, group.world - 1 do
      local at = call.of[rank]
      if at then
        for j = 1, math.max(#at.before, #at.after) do
          local before, after = at.before[j] or "", at.after[j] or ""
          rows[#rows + 1] = {first and (#group.calls > 1 and i .. " " or "") .. call.name or "", j == 1 and "r" .. rank or "", before, before == after and "the same" or after}
          first = false
        end
      end
    end
  end
  session.say(columns.table({{title = "collective"}, {title = "rank"}, {title = "before"}, {title = "after"}}, rows))
end

---One line about what is open.
function ranks.status(session)
  local words = {}
  for rank = 0, group.world - 1 do
    local member = group.members[rank]
    words[#words + 1] = ("r%d process %d%s"):format(rank, member.process.pid, member.gone and " " .. member.gone or "")
  end
  session.say(table.concat(words, "\n"))
end

return ranks
