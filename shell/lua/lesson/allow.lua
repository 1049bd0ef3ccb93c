-- What an answer is made of: the operators, loops and names of operations in a piece of code.
-- A task's allow and forbid lists are held against it, and the order in which lessons teach.
local T = require("torch.language").text
local allow = {}

local LOOPS = {["for"] = true, ["while"] = true, ["repeat"] = true, ["goto"] = true}
local OPERATORS = {}
for op in ("+ - * / // % ^ # & | ~ << >> .."):gmatch("%S+") do OPERATORS[op] = true end

-- Tokens without blanks and comments, with their text; Lua's [[...]] and '...' are strings here.
local function tokens_of(code)
  local list = {}
  for _, t in ipairs(torch._lex(code)) do
    if t.kind ~= "space" and t.kind ~= "comment" then
      list[#list + 1] = {kind = t.kind, text = code:sub(t.first, t.last), first = t.first}
    end
  end
  return list
end

local function line_of(code, at) return select(2, code:sub(1, at):gsub("\n", "")) end

--- What a piece of code uses: a list of {name=, kind="method"|"field"|"operator"|"loop"|"global", line=}
--- (line counts from 0 within the code). A global is a name that the code itself does not define.
function allow.uses(code)
  local tokens, list, defined = tokens_of(code), {}, {}
  for i, t in ipairs(tokens) do
    local before, after = tokens[i - 1], tokens[i + 1]
    -- Names after local, for, function and inside parameter lists belong to the code itself.
    if t.kind == "keyword" and (t.text == "local" or t.text == "for") then
      local k = i + 1
      while tokens[k] and (tokens[k].kind == "name" or tokens[k].text == ",") do
        if tokens[k].kind == "name" then defined[tokens[k].text] = true end
        k = k + 1
      end
    elseif t.kind == "keyword" and t.text == "function" then
      local k = i + 1
      if after and after.kind == "name" then defined[after.text] = true end
      while tokens[k] and tokens[k].text ~= "(" do k = k + 1 end
      while tokens[k] and tokens[k].text ~= ")" do
        if tokens[k].kind == "name" then defined[tokens[k].text] = true end
        k = k + 1
      end
    elseif t.kind == "name" and after and after.text == "=" and not (before and (before.text == "." or before.text == ":")) then
      defined[t.text] = true
    end
  end
  for i, t in ipairs(tokens) do
    local before, after = tokens[i - 1], tokens[i + 1]
    local use = {name = t.text, line = line_of(code, t.first)}
    if t.kind == "name" then
      if before and before.text == ":" then
        use.kind = "method"
      elseif before and before.text == "." then
        use.kind = "field"
        use.of = tokens[i - 2] and tokens[i - 2].kind == "name" and tokens[i - 2].text or nil
      elseif not defined[t.text] and not (after and after.text == "=") then
        use.kind = "global"
      end
    elseif t.kind == "keyword" and LOOPS[t.text] then
      use.kind = "loop"
    elseif t.kind == "op" and OPERATORS[t.text] then
      -- A minus sign before a number is part of the number.
      local sign = t.text == "-" and after and after.kind == "number" and
        (not before or before.kind == "op" and before.text ~= ")" and before.text ~= "]" and before.text ~= "}")
      if not sign then use.kind = "operator" end
    end
    if use.kind then list[#list + 1] = use end
  end
  return list
end

--- Are two pieces of code the same but for blanks and comments?
---@return boolean
function allow.same_code(a, b)
  local left, right = tokens_of(a), tokens_of(b)
  if #left ~= #right then return false end
  for i, t in ipairs(left) do
    if t.text ~= right[i].text then return false end
  end
  return true
end

local function set(list)
  local s = {}
  for _, name in ipairs(list) do s[name] = true end
  return s
end

--- nil, or a sentence on the first thing in the code that the task does not allow. With an allow list,
--- its names, and names that the session's user or the lesson defined, are all there is.
---@param code string
---@param question table {allow=, forbid=}
---@param known fun(name: string): boolean is this a variable of the session that holds no function of Lua's or torch's?
---@return string|nil
function allow.complaint(code, question, known)
  if not question.allow and not question.forbid then return nil end
  local allowed, forbidden = question.allow and set(question.allow), set(question.forbid or {})
  for _, use in ipairs(allow.uses(code)) do
    local name = use.name
    local what = use.kind == "loop" and T("loops (%s)"):format(name) or use.kind == "operator" and T("the operator %s"):format(name) or name
    local banned = forbidden[name] or use.kind == "loop" and forbidden.loops
    if banned then return T("this time without %s"):format(what) end
    if allowed and not allowed[name] and not (use.kind == "loop" and allowed.loops) then
      if use.kind == "loop" or use.kind == "operator" or use.kind == "method" or
         use.kind == "field" and name ~= "torch" or
         use.kind == "global" and name ~= "torch" and name ~= question.spec.name and not known(name) then
        return T("this time without %s; allowed are %s"):format(what, table.concat(question.allow, " "))
      end
    end
  end
end

return allow
