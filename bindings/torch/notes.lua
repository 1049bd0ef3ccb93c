-- Notes: remarks on code that runs but probably does not do what was meant. Each has a code and a
-- switch: torch.notes("B2", "off"), "error" raises instead. A note is said once for each line of the
-- user's code, on stderr. All texts stand in notes/texts.lua.
local torch = torch
local texts = require "torch.notes.texts"
local columns = require "torch.columns"
local T = require("torch.language").text
local catalogue = texts.catalogue
local notes = {catalogue = catalogue}

local switches = {}                  -- code -> "off" or "error"; absent: on
local told = {}                      -- code .. place -> true
local accepted = {}                  -- code .. text of a line -> true
local everything_off = os.getenv("TYCHO_NOTES") == "off"
notes.last = {}                      -- code -> text of the line that it was said about last

local function state(code) return switches[code] or (everything_off and "off" or "on") end
notes.state = state

---- Places -----------------------------------------------------------------------------------------

-- The user's own code nearest on the stack: its level as the caller sees it, source and line.
local function user_frame()
  for level = 2, 60 do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    local ours = info.source:sub(1, 7) == "=torch/" or info.source:sub(1, 7) == "=shell/"
    if info.currentline > 0 and not ours then return level - 1, info.short_src, info.currentline end
  end
end

---The text of a line of the user's code, or nil.
---@param source string a file's name, or a prompt entry's "[12]"
function notes.line_text(source, line) return require("torch.source").line(source, line) end

-- What names stand for in the running function at a level (of the caller): locals, upvalues, else
-- globals. Nothing is called.
local function visible(level)
  local values = {}
  if level then
    local info = debug.getinfo(level + 1, "f")
    for i = 1, 60 do
      local name, v = debug.getupvalue(info.func, i)
      if not name then break end
      values[name] = v
    end
    for i = 1, 250 do
      local name, v = debug.getlocal(level + 1, i)
      if not name then break end
      values[name] = v
    end
  end
  return function(name)
    local v = values[name]
    if v == nil then v = rawget(_G, name) end
    return v
  end
end

---The one plain name in a line whose value is a tensor that `fits`, or nil.
local function name_of(text, value_of, fits)
  local found
  local tokens, words = torch._lex(text), {}
  for _, token in ipairs(tokens) do
    if token.kind ~= "space" then words[#words + 1] = {kind = token.kind, text = text:sub(token.first, token.last)} end
  end
  for i, word in ipairs(words) do
    local before, after = i > 1 and words[i - 1].text, i < #words and words[i + 1].text
    local plain = before ~= "." and before ~= ":" and after ~= "." and after ~= ":" and after ~= "(" and after ~= "["
    if word.kind == "name" and plain and after ~= "=" then
      local v = value_of(word.text)
      if torch.is_tensor(v) and fits(v) and word.text ~= found then
        if found then return nil end
        found = word.text
      end
    end
  end
  return found
end
local function has_shape(shape) return function(t) return tostring(t.shape) == shape end end

---- Saying -----------------------------------------------------------------------------------------

local function fill(line, values)
  local whole = true
  local text = line:gsub("{(%w+)}", function(key)
    local v = values[key]
    if v == nil then whole = false end
    return tostring(v)
  end)
  return whole and text or nil
end

---The lines of a note, from the catalogue.
function notes.text(code, form, values)
  local lines = {}
  for _, line in ipairs(catalogue[code].texts[form]) do lines[#lines + 1] = fill(line, values) end
  return lines
end

local function trimmed(text) return (text:match("^%s*(.-)%s*$")) end

local held, held_since

---Says a note unless it is switched off or was said for this line before.
---@param place? {source: string, line: integer} the user's line; the running one when absent
function notes.tell(code, form, values, place)
  local switch = state(code)
  if switch == "off" then return end
  local source, line = place and place.source, place and place.line
  if not source then
    local _, s, l = user_frame()
    source, line = s, l
  end
  local at = source and ("%s:%d"):format(source, line)
  local once = catalogue[code].once
  local key = once == "run" and code or code .. " " .. tostring(once == "op" and values.op or at)
  if switch ~= "error" and told[key] then return end
  local text = source and notes.line_text(source, line)
  if text and accepted[code .. " " .. trimmed(text)] then return end
  told[key] = true
  notes.last[code] = text and trimmed(text) or nil
  if at and values.at == " at " .. at then values.at = "" end
  local lines = notes.text(code, form, values)
  if switch == "error" then
    for i = #lines, 1, -1 do
      if lines[i]:find("\n") then table.remove(lines, i) end
    end
    torch._raise(("note %s: %s"):format(code, table.concat(lines, "; ")), 3, catalogue[code].kind)
  end
  if at and source:sub(1, 1) ~= "[" then lines[1] = lines[1] .. (" (%s)"):format(at) end
  for i = 2, #lines do lines[i] = "   " .. lines[i]:gsub("\n", "\n   ") end
  if source and source:sub(1, 1) == "[" and code ~= "GRAD" then
    lines[#lines] = lines[#lines] .. "  " .. T("(%%ok %s to accept this line)"):format(code)
  end
  if notes.fold then
    for i, text_line in ipairs(lines) do lines[i] = notes.fold(text_line, i == 1 and columns.of(T("note %s:"):format(code)) + 1 or 0) end
  end
  local head = T("note %s:"):format(code)
  local said = ("%s %s\n"):format(notes.paint and notes.paint(head) or head, table.concat(lines, "\n"))
  if held and torch.perf_counter() - held_since < 1 then
    held[#held + 1] = said
    return
  end
  io.stdout:flush()
  io.stderr:write(said)
end

---At the prompt notes stand below the value of the entry, unless it takes long.
function notes.hold() held, held_since = held or {}, torch.perf_counter() end
function notes.release()
  if held and #held > 0 then
    io.stdout:flush()
    io.stderr:write(table.concat(held))
  end
  held = nil
end

---Accepts the line that a note was said about last: it stays silent about that text.
function notes.accept(code)
  local text = notes.last[code]
  if not text then return nil end
  accepted[code .. " " .. text] = true
  return text
end

---- What the notes' values are made from --------------------------------------------------------------

local function sizes(shape)
  local list = {}
  for n in shape:gmatch("%d+") do list[#list + 1] = n end
  return list
end

-- Two shapes lined up from the right, one below the other, after their names.
local function lined_up(name_a, a, name_b, b)
  local x, y = sizes(a), sizes(b)
  local n, width, wide = math.max(#x, #y), math.max(#name_a, #name_b), 1
  for i = 1, n do wide = math.max(wide, #(x[i] or ""), #(y[i] or "")) end
  local function row(name, list)
    local parts = {name .. (" "):rep(width - #name)}
    for i = 1, n do
      local size = list[i - n + #list] or "."
      parts[#parts + 1] = (" "):rep(wide - #size + 2) .. size
    end
    return table.concat(parts)
  end
  return row(name_a, x) .. "\n" .. row(name_b, y) .. "     lined up from the right"
end

-- The two operands in the user's line: {text =, simple = can take a method as it stands}. `op` is an
-- operator, a method or a function; nil when the line does not tell for sure.
local function operands_at(chunk, line, op, loss)
  local code = require "torch.source"
  local text = chunk and code.text(chunk)
  if not text then return end
  local found, other
  for _, node in ipairs((code.parse(text, line))) do
    if node.line == line then
      local named = node.kind == "call" and node.name == op
      if node.kind == "binary" and node.op == op then named = node.args[1].kind ~= "value" and node.args[2].kind ~= "value" end
      if named then
        if found then return end
        found = node
      elseif loss and node.kind == "call" and not node.method and #node.args == 2 then
        other = other == nil and node or false
      end
    end
  end
  found = found or other
  if not found then return end
  local parts = found.method and {found.called, found.args[1]} or found.args
  local function side(node)
    if not node then return nil end
    local simple = node.kind == "name" or node.kind == "field" or node.kind == "index" or node.kind == "call" or node.kind == "group"
    return {text = text:sub(node.first, node.last):gsub("%s+", " "), simple = simple, name = node.kind == "name" and node.name}
  end
  return side(parts[1]), side(parts[2])
end

local prepare = {}
function prepare.B2(form, v, source, line, value_of)
  local left, right = operands_at(source, line, form == "loss" and v.op or v.symbol, form == "loss")
  local function has(side, shape)
    local t = side and side.name and value_of(side.name)
    return side and (not torch.is_tensor(t) or tostring(t.shape) == shape)
  end
  if not (has(left, v.a) and has(right, v.b)) then
    local text = source and notes.line_text(source, line) or ""
    local function named(shape)
      local name = name_of(text, value_of, has_shape(shape))
      return name and {text = name, simple = true}
    end
    left, right = named(v.a), named(v.b)
  end
  if form == "loss" then
    left, right = left or {text = "pred", simple = true}, right or {text = "target", simple = true}
  end
  local a, b = sizes(v.a), sizes(v.b)
  local narrow, flat = left, right
  if #a < #b then narrow, flat = right, left end
  local d = math.max(#a, #b)
  local function with(side, method) return (side.simple and "%s:%s(%d)" or "(%s):%s(%d)"):format(side.text, method, d) end
  if narrow and flat then
    if form == "loss" then
      v.fix = with(flat, "unsqueeze") .. " or " .. with(narrow, "squeeze")
    else
      local operator = v.symbol:find("^%a") and "%s:%s(%s)" or "%s %s %s"
      v.fix = operator:format(narrow == left and with(narrow, "squeeze") or left.text, v.symbol, narrow == right and with(narrow, "squeeze") or right.text)
    end
  else
    v.fix = ("give both sides one shape: x:squeeze(%d) for %s, or x:unsqueeze(%d) for %s"):format(d, #a > #b and v.a or v.b, d, #a > #b and v.b or v.a)
  end
  local function shown(side) return side and #side.text <= 30 and side.text end
  v.left, v.right = shown(left) and left.text .. " " or "", shown(right) and right.text .. " " or ""
  v.picture = lined_up(shown(left) or "left", v.a, shown(right) or "right", v.b)
end
function prepare.RANGE(_, v, source, line)
  local text = source and notes.line_text(source, line) or ""
  v.name = text:match("([%a_][%w_%.]*)%[%s*{%s*" .. v.first .. "%s*,%s*" .. v.last .. "%s*}%s*%]") or ""
end
function prepare.F64(_, v, source, line, value_of)
  local text = source and notes.line_text(source, line)
  local name = text and name_of(text, value_of, function(t) return tostring(t.dtype):find("float64") and tostring(t.shape) == v.constant end)
  v.fix = (name or "the constant") .. ":float()"
  if name then v.constant = name .. " " .. v.constant end
end
function prepare.SUM(_, v, source, line)
  local text = source and notes.line_text(source, line) or ""
  local name, loss = text:match("([%a_][%w_%.]*)%s*=%s*[%a_][%w_%.]*%s*%+%s*([%a_][%w_%.]*)")
  v.name, v.loss = name or "the total", loss or "loss"
end

function prepare.GRAD(form, v, source, line)
  local text = source and notes.line_text(source, line) or ""
  v.name = text:match("([%a_][%w_%.]*)%.grad") or "x"
  v.fix = ("keep it: %s:retain_grad() before backward"):format(v.name)
  if form == "moved" then
    v.fix = ("create it there: torch.tensor(v, {%s, requires_grad=true}), or %s:retain_grad() before backward"):format(v.option, v.name)
  end
end

---A note from the engine; true when it need not be offered again for this line.
function notes.from_engine(code, form, v, source, line)
  if state(code) == "off" then return true end
  if code == "LABEL" then return require("torch.notes.labels").used(tonumber(v.classes)) end
  if code == "B2" and form == "op" and source then
    -- pos:unsqueeze(2) - neg says that all pairs are meant.
    local text = notes.line_text(source, line) or ""
    if text:find("unsqueeze", 1, true) or text:find("newaxis", 1, true) then return true end
  end
  local level, running = user_frame()
  local value_of = visible(running == source and level)
  if prepare[code] then prepare[code](form, v, source, line, value_of) end
  notes.tell(code, form, v, source and {source = source, line = line})
  return state(code) ~= "error"
end

-- What the engine still holds back is said when the program ends.
notes.at_end = setmetatable({}, {__gc = function() pcall(torch._flush_notes) end})

local function nan_reason(s)
  local pass = s.place == "gradient" and "backward" or "forward"
  local own = texts.nan[pass][s.op]
  if own then return own end
  local input = tonumber(s.element:match("input (%S+)$") or "")
  if s.element:find("infinity", 1, true) then return texts.nan.infinite_input end
  if pass == "backward" then
    return texts.nan.slope:format(s.op)
  end
  if input and input <= 0 then
    return texts.nan.no_value:format(s.op, input, s.op)
  end
  if s.what == "infinity" then return texts.nan.too_large end
end

---Completes what the engine found out about a nan for the texts.
function notes.nan_values(s)
  local why = (s.place == "gradient" or s.place == "loss") and nan_reason(s) or nil
  if s.place == "data" or s.place == "parameter" then why = texts.nan[s.place] end
  local parts = {}
  if s.element ~= "" then parts[#parts + 1] = s.element end
  if s.then_op ~= "" then parts[#parts + 1] = s.then_op .. " made a nan of it" end
  return {op = s.op, at = s.at, what = s.what, why = why, element = #parts > 0 and table.concat(parts, "; ") or nil}
end
function notes.nan_found(form, s)
  if form ~= "nowhere" then notes.tell("NAN", form, notes.nan_values(s)) end
end

-- For the message about a saved tensor that was changed: the user's statement as it should read.
local operator = {add = "+", sub = "-", mul = "*", div = "/"}
function notes.change_fix(source, line, op)
  local text = notes.line_text(source, line)
  local name, method, arguments = (text or ""):match("^%s*([%a_][%w_%.]*):([%w_]+)_(%b())%s*;?%s*$")
  if not name or method ~= op then return nil end
  local inside = arguments:sub(2, -2)
  local one = inside ~= "" and not inside:find("[,{]")
  if one and operator[op] and inside:find("[^%w_%.]") then inside = "(" .. inside .. ")" end
  local new = one and operator[op] and ("%s = %s %s %s"):format(name, name, operator[op], inside)
    or ("%s = %s:%s%s"):format(name, name, op, arguments)
  return ("%s  -- in place of %s; or %s = %s:clone() before it"):format(new, trimmed(text), name, name)
end

local held_at = {}  -- places whose line says that the scope is closed
---A scope was opened: does it end where its variable goes? `name` is what it is called by, `holder` the local variable
---that holds it, if any.
---@return boolean held
function notes.scope_held(name, source, line, holder)
  local at = holder and source .. ":" .. line
  if at and held_at[at] then return true end
  local text = source ~= "" and notes.line_text(source, line) or nil
  local form = "bare"
  if holder then
    -- Without <close> a variable does not end it. Only the line tells; where it says nothing, the scope stays.
    local declared = text and text:match("local%s+" .. holder:gsub("%W", "%%%0") .. "%s*=")
    if not declared then
      held_at[at] = true
      return true
    end
    form = "open"
  end
  local call = text and text:match("[%w_.:]*%f[%w_]" .. name:match "[%w_]+$" .. "%s*%b()") or name .. "(..)"
  local arguments = call:match "%((.*)%)$" or ""
  local inside = call:gsub("%(.*%)$", "") .. "(" .. (arguments ~= "" and arguments .. ", " or "") .. "function() ... end)"
  local place = source ~= "" and {source = source, line = line} or nil
  notes.tell("SCOPE", form, {call = call, name = holder, inside = inside, at = ""}, place)
  return false
end

---- Switches ---------------------------------------------------------------------------------------

local function sorted_codes()
  local codes = {}
  for code in pairs(catalogue) do codes[#codes + 1] = code end
  table.sort(codes)
  return codes
end

local List = {__name = "notes"}
function List:__tostring()
  local lines = {}
  for _, code in ipairs(sorted_codes()) do lines[#lines + 1] = ("%-5s %-6s %s"):format(code, self[code], catalogue[code].doc) end
  return table.concat(lines, "\n")
end

---Switches a note on or off, or makes it an error; without arguments gives the list of all.
---@param code? string "B2", ...; "all" for every note
---@param switch? "on"|"off"|"error"
function notes.switch(code, switch)
  if code == nil then
    local list = setmetatable({}, List)
    for name in pairs(catalogue) do list[name] = state(name) end
    return list
  end
  if type(code) ~= "string" or (code ~= "all" and not catalogue[code:upper()]) then
    torch._raise(("notes: there is no note %s (there are: %s)"):format(tostring(code), table.concat(sorted_codes(), ", ")), 2)
  end
  if switch ~= nil and switch ~= "on" and switch ~= "off" and switch ~= "error" then
    torch._raise(('notes: the switch is "on", "off" or "error", not %s'):format(tostring(switch)), 2)
  end
  local before = code ~= "all" and state(code:upper()) or nil
  if switch then
    for name in pairs(catalogue) do
      if code == "all" or name == code:upper() then switches[name] = switch end
    end
    torch._forget_notes()
    torch._nan_again()
  end
  return before
end

---Forgets which lines were noted already.
function notes.forget()
  told = {}
  torch._forget_notes()
end

return notes
