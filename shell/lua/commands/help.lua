-- %demo: the examples of a help page, run one after another in the session.

local T = require("torch.language").text
local function steps_of(topic)
  local catalog, examples = require "shell.help.catalog", require "shell.help.examples"
  for _, entry in ipairs(catalog.find(topic)) do
    local texts = {}
    if entry.record then
      for _, s in ipairs(entry.record.signatures) do texts[#texts + 1] = s.example end
    elseif entry.row and entry.row.example then
      texts[1] = entry.row.example
    end
    local steps = examples.parse(table.concat(texts, "\n"))
    if #steps > 0 then return steps, entry end
  end
end

-- Waits for a key where somebody is there to press one; false when they want no more.
local function go_on()
  local ok, native = pcall(require, "shell.native")
  if ok and native.read_key and native.is_terminal and native.is_terminal(0) and native.is_terminal(1) then
    local key = native.read_key()
    return key and key ~= "q" and key ~= "\27" and key ~= "\3" and key ~= "\4"
  end
  return true
end

local function demo(args, session)
  local topic = args:match "^%s*%??(.-)%s*$"
  if topic == "" then return T"wants the name of an operation" end
  local steps, entry = steps_of(topic)
  if not steps then return T("there are no examples of \"%s\""):format(topic) end
  local colour = require("shell.help.pages").colour
  session.say(colour(T("%s: %d steps, any key goes on, q stops"):format(entry.name, #steps), "faint"))
  for i, step in ipairs(steps) do
    session.say(colour("> ", "prompt") .. step.code)
    local ok, values = session.eval(step.code)
    if not ok then error(values, 0) end
    if session.print and values.n > 0 and not step.code:find ";%s*$" then session.print(values) end
    if i < #steps and not go_on() then return end
  end
end

return {
  {name = "demo", usage = "%demo name", doc = "Runs the examples of a help page one by one; their variables stay.",
    example = "%demo topk", run = demo},
}
