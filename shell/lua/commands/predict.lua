-- %predict asks for the shape of the user's own line before it runs; %align shows how shapes line up.
local language = require "torch.language"
local T = language.text
local function say_beside(session, first, lines)
  local width = require("shell.text").width(first)
  for i, line in ipairs(lines) do session.say((i == 1 and first or (" "):rep(width)) .. line) end
end

-- What an answer is held against: the shape or the dtype of a tensor, else the value.
local function goal(answer, value)
  if not require("shell.lesson.values").is_tensor(value) then return value end
  if answer.kind == "dtype" then return value.dtype end
  return value.shape
end

local function predict(args, session)
  local code = args:gsub("^%s+", ""):gsub("[%s;]+$", "")
  if code == "" then return T"wants an expression" end
  if not load("return " .. code .. "\n", "=", "t") then return T"wants an expression whose value can be foretold" end
  local grade, operands = require "shell.lesson.grade", require "shell.lesson.operands"
  local values, text = require "shell.lesson.values", require "shell.lesson.text"
  local colour, native = require "shell.colour", require "shell.native"
  local run, done = require("shell.commands").compile(code, session)
  local inferred = operands.infer(code)
  local is_tensor = values.is_tensor(inferred) or inferred == nil
  local before, tries, result, mode = session.mode, 0, nil, {prompt = "predict> "}

  local function say(line) session.say(text.paint(text.wrap(line, text.width()))) end
  local function finish()
    session.mode = before
    if not result then result = table.pack(native.guarded(run)) end
    if not result[1] then return session.report(result[2], result[3]) end
    local packed = table.pack(table.unpack(result, 2, result.n))
    done(packed)
    session.print(packed)
  end
  local function ask()
    say(is_tensor and T("Before it runs: what shape is `%s`? (`[3, 4]`, or its dtype, or `error`; Enter runs it)"):format(code)
      or T("Before it runs: what is `%s`? (Enter runs it)"):format(code))
  end
  function mode.is_done(entry) return not entry:find("%S") or grade.read(entry) ~= nil end
  function mode.handle(entry)
    local answer = grade.read(entry)
    if not entry:find("%S") or entry:find("^%s*%%skip%s*$") or entry:find("^%s*%%quit%s*$") then
      finish()
      return true
    elseif not answer then
      return false
    end
    if not result then result = table.pack(native.guarded(run)) end
    if result[3] and type(result[3]) == "table" and result[3].interrupted then
      finish()
      return true
    end
    local wanted = {ok = result[1], value = result[1] and goal(answer, result[2]) or nil}
    local right, remark = grade.grade(answer, wanted, code, function(name) return rawget(_G, name) end)
    if right then
      local names, shapes = operands.sides(code)
      local rows = names and require("shell.lesson.card").rows(names, shapes) or operands.chain(code) or {""}
      say_beside(session, colour("yes.", "good") .. (rows[1] ~= "" and "   " or ""), rows)
      finish()
      return true
    end
    tries = tries + 1
    local mark = colour(T"not yet.", "bad")
    say(remark and language.beside(mark, language.sentence(remark)) or mark)
    local chain = tries == 2 and operands.chain(code)
    for i = 1, chain and #chain - 1 or 0 do session.say("  " .. chain[i]) end
    return true
  end
  function mode.cancel()
    session.mode = before
    if not result then say(T"Left; it was not run.") end
  end
  session.mode = mode
  ask()
end

local function align(args, session)
  local operands, card = require "shell.lesson.operands", require "shell.lesson.card"
  local values, perform = require "shell.lesson.values", require "shell.lesson.perform"
  local names, shapes = operands.list(args), {}
  if #names == 1 then
    local left, right = card.split(args)
    names = left and {left, right} or names
  end
  if #names == 1 and names[1] == "" then return T"wants tensors, or an expression of two" end
  for i, name in ipairs(names) do
    local found = perform.value(name)
    if not found.ok then error(found.value, 0) end
    local v = found.value
    if values.is_tensor(v) then
      shapes[i] = v.shape
    elseif type(v) == "number" then
      shapes[i] = {}
    elseif type(v) == "table" then
      shapes[i] = {}
      for d = 1, #v do
        if math.type(v[d]) ~= "integer" then return T("wants tensors or shapes; %s is neither"):format(name) end
        shapes[i][d] = v[d]
      end
    else
      return T("wants tensors or shapes; %s is neither"):format(name)
    end
  end
  for _, line in ipairs(card.rows(names, shapes)) do session.say(line) end
end

return {
  {
    name = "predict",
    usage = "%predict EXPRESSION",
    doc = "Asks what shape (or dtype, or value) the expression has, then runs it and says how you did.",
    example = "%predict a:matmul(b):sum(2)",
    run = predict,
  },
  {
    name = "align",
    usage = "%align a, b",
    doc = "Writes the shapes of tensors under each other, lined up from the right as operators do it.",
    more = "Shapes work, too: %align {3, 1}, {4}; and an expression: %align a + b.",
    example = "%align torch.zeros(3, 1), torch.zeros(4)",
    run = align,
  },
}
