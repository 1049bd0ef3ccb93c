-- Examples of help pages: lines of Lua, each `code --> what the prompt shows`; further lines of what is
-- shown begin with a space or "[". A line without an arrow sets something up. Tests run every example,
-- `%demo` runs them for a person.
local torch = torch
local examples = {}

-- What the prompt shows for an entry's values, without colours.
local function shown(values)
  local ok, show = pcall(require, "shell.show")
  if ok and type(show) == "table" and show.values then
    return (show.values(values) or ""):gsub("\27%[[%d;]*m", "")
  end
  local texts = {}
  for i = 1, values.n do texts[i] = tostring(values[i]) end
  return table.concat(texts, "\t")
end

---@param text string the example of a record
---@return {code: string, shown: string|nil}[] steps
function examples.parse(text)
  local steps = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    local last = steps[#steps]
    if line:find "^[ %[]" and last and last.shown then
      last.shown = last.shown .. "\n" .. line
    elseif line ~= "" then
      local code, result = line:match "^(.-)%s*%-%->%s?(.*)$"
      steps[#steps + 1] = {code = code or line, shown = result}
    end
  end
  return steps
end

---The names that examples may use: those of the prompt.
function examples.environment()
  local names = {torch = torch, nn = torch.nn, F = torch.nn.functional, optim = torch.optim, data = torch.utils.data}
  return setmetatable(names, {__index = _G})
end

---Runs one step; what the prompt would show, or nil when it shows nothing.
---@param code string
---@param environment table
---@return string|nil
function examples.run(code, environment)
  local f = load("return " .. code, "=example", "t", environment)
  local silent = not f or code:find ";%s*$"
  if not f then f = assert(load(code, "=example", "t", environment)) end
  local values = table.pack(f())
  if silent or values.n == 0 then return nil end
  return shown(values)
end

---The lines of an example with what they show now.
---@param text string
---@return string
function examples.fill(text)
  local environment, lines = examples.environment(), {}
  for _, step in ipairs(examples.parse(text)) do
    local result = examples.run(step.code, environment)
    lines[#lines + 1] = result and step.code .. " --> " .. result or step.code
  end
  return table.concat(lines, "\n")
end

return examples
