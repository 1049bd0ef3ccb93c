-- A lesson's own commands: %hint, %skip, %play, %back, %reset, %next and %quit.
local card = require "shell.lesson.card"
local find = require "shell.lesson.find"
local operands = require "shell.lesson.operands"
local perform = require "shell.lesson.perform"
local room = require "shell.lesson.room"
local task = require "shell.lesson.task"
local values = require "shell.lesson.values"
local T = require("torch.language").text

---@param tools table what the lesson can do: say, step, ask, advance, ..; `current` gives its state
---@return table<string, fun()> commands
return function(tools)
  local commands, L = {}, tools.current

  function commands.hint()
    local q = tools.step().question
    local hints = q and q.hints or {}
    L().hints = L().hints + 1
    local hint = hints[L().hints]
    if hint then
      tools.say_line(hint .. (L().hints < #hints and T"   (there is another)" or ""))
    elseif q and q.kind == "predict" and L().hints == #hints + 1 and operands.sides(q.expression) then
      local names, shapes = operands.sides(q.expression)
      local rows = card.rows(names, shapes)
      for i = 1, #names do tools.say("  " .. rows[i]) end
    else
      tools.say_line(q and q.kind ~= "play" and T"There is no further hint; %skip shows the answer." or
        T"There is nothing to find out here; Enter goes on.")
    end
  end

  function commands.skip()
    local q = tools.step().question
    if q and q.kind == "predict" then
      tools.say("  " .. q.answer)
      return tools.complete "skipped"
    elseif q and q.kind == "task" then
      if L().before and values.is_tensor(L().seen) then rawset(_G, q.spec.name, task.copy(L().before)) end
      perform.shown(L().session, q.answer)
      return tools.complete "skipped"
    end
    tools.advance()
  end

  function commands.play()
    L().playing = not L().playing
    tools.mode.prompt = L().playing and "play> " or tools.prompt
    if not L().playing then return tools.ask() end
    tools.say_line(T"The lesson waits; %play or Enter comes back to it.")
  end

  function commands.back()
    if L().at == 1 then return tools.say_line(T"This is the first entry.") end
    L().at = L().at - 1
    tools.save()
    tools.show_step()
  end

  function commands.quit()
    tools.count "open"
    tools.save()
    local l = L().lesson
    tools.say_line(T("Left at %d/%d; %%learn %s goes on from here."):format(L().at, #l.steps, l.name))
    tools.run.leave(L().session)
  end

  function commands.reset()
    room.clear()
    L().at, L().solved, L().counts = 1, {}, {}
    tools.save()
    tools.show_step()
  end

  commands["next"] = function()
    local l, session = L().lesson, L().session
    local after = find.next(l)
    if not after then return tools.say_line(T"This is the last lesson.") end
    tools.count "open"
    tools.save()
    tools.run.start(after, session)
  end

  return commands
end
