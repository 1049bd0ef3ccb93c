-- The commands of the prompt: which file holds each, so that no file is loaded before its command
-- is used. A file in shell/commands returns rows {name=, usage=, doc=, run=function(args, session)}.
local commands = {}

-- Command -> module.
commands.files = {
  ["%locals"] = "shell.commands.eval",
  ["%quit"] = "shell.commands.eval",
}

-- The row of a command, or nil.
function commands.find(name)
  local file = commands.files[name]
  if not file then return nil end
  for _, row in ipairs(require(file)) do
    if row.name == name then return row end
  end
end

---@param name string with its %
---@param args string the text after it
function commands.run(name, args, session)
  if name == "%" then
    local list = {}
    for each in pairs(commands.files) do list[#list + 1] = commands.find(each) end
    table.sort(list, function(a, b) return a.name < b.name end)
    for _, row in ipairs(list) do session.say(("%-24s %s"):format(row.usage, row.doc)) end
    return
  end
  local row = commands.find(name)
  if not row then
    local near = session.names.nearest(name, function(_, key) return (next(commands.files, key)) end)
    error(('no command "%s".%s'):format(name, near and (' Did you mean "%s"?'):format(near) or " % lists all."), 0)
  end
  row.run(args, session)
end

return commands
