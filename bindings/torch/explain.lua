-- Error reports: what an error's fields and its text are made from when someone looks at them. The
-- operands with the names in the user's line, the sizes that disagree, the line underlined, and changes
-- that were tried with stand-ins before they are shown.
local torch = torch
local Call = require "torch.explain.call"
local messages = require "torch.messages"
local rule_for = require "torch.explain.rules"
local source = require "torch.source"
local words = messages.words
local explain = {}

local most_fixes = 3

-- A mistake in a rule must not hide the error that it is about; tests set explain.strict.
local function guard(f, ...)
  if explain.strict then return f(...) end
  local ok, result = pcall(f, ...)
  return ok and result or nil
end

local function is_error(err)
  local meta = type(err) == "table" and debug.getmetatable(err)
  return meta and meta.__name == "error" and type(rawget(err, "message")) == "string"
end

-- Everything about an error that its fields and texts need.
local function analyse(err)
  local kind, op, message = rawget(err, "kind") or "", rawget(err, "op") or "", rawget(err, "message") or ""
  local a = {err = err, rule = rule_for(kind, op, message), notes = {}, fixed = rawget(err, "_fixes")}
  if rawget(err, "_code") then a.rule = {code = rawget(err, "_code"), quiet = true} end
  local call = guard(Call.read, err)
  if call then
    call.message, call.hint = message, rawget(err, "hint")
    a.call = call
    if kind == "argument" and (rawget(err, "_code") or "ARG-0") == "ARG-0" then
      local point = guard(require("torch.explain.repairs").point, call)
      if point then
        a.said, a.remark = point.said, point.remark
        a.rule = {code = "ARG-3", quiet = true, fixes = function() return {point} end, hint = function() return #a.fixed == 0 and point.code end}
      end
    end
    local notes = a.rule.notes
    if notes then a.notes = guard(notes, call) or {} end
  end
  return a
end

-- The changes of a rule that fit: {code =, shape =}.
local function find_fixes(a)
  local call, fixes, seen = a.call, {}, {}
  if a.fixed then return a.fixed end
  a.fixed = fixes
  if not (call and call.node) then return fixes end
  a.picked = require("torch.explain.repairs").picked(call)
  if a.picked then return fixes end
  local candidates = {}
  if a.rule.fixes then candidates = a.rule.fixes(call) end
  if a.rule.near then candidates = require("torch.explain.names").candidates(call) end
  for k = 1, 12 do
    local edit = candidates[k]
    if edit and #fixes < most_fixes then
      local code, shape = call:try(edit)
      if code and not seen[code] and code ~= call:code(call.node) then
        seen[code] = true
        fixes[#fixes + 1] = {code = code, shape = shape}
      end
    end
  end
  return fixes
end

-- The user's line (lines, when the failing part goes over several), where the failing part stands in
-- it, and the line's number.
local function line_of(a)
  local call = a.call
  if not (call and call.text and call.line) then return nil end
  local node = call.node
  local at = node and node.kind ~= "table" and node.from or call.line
  local begin, n = 1, 1
  while n < at do
    local next_line = call.text:find("\n", begin, true)
    if not next_line then return nil end
    begin, n = next_line + 1, n + 1
  end
  local stop = (call.text:find("\n", node and math.max(begin, node.last) or begin, true) or #call.text + 1) - 1
  local line = call.text:sub(begin, stop):gsub("\r$", "")
  local first, last
  if node then first, last = node.first - begin + 1, node.last - begin + 1 end
  return line, first, last, at
end

---A field of an error object that is worked out when it is first read (bindings/core/error.cpp).
function explain.field(err, key)
  local a = analyse(err)
  local value
  if key == "code" then
    value = a.rule.code
  elseif key == "operands" or key == "shapes" then
    value = {}
    for k, o in ipairs(a.call and a.call.operands or {}) do
      value[k] = key == "shapes" and o.shape or {name = o.name, dtype = o.dtype, shape = o.shape, device = o.device}
    end
  elseif key == "line" then
    value = line_of(a)
  elseif key == "span" then
    local _, first, last = line_of(a)
    value = first and {first, last}
  elseif key == "fixes" then
    value = {}
    for k, fix in ipairs(guard(find_fixes, a) or {}) do value[k] = fix.code end
  end
  if value ~= nil then rawset(err, key, value) end
  return value
end

local columns = require "torch.columns"
local width = columns.of
local function pad(text, n) return text .. (" "):rep(n - width(text)) end
local function shape_text(shape) return "[" .. table.concat(shape, ", ") .. "]" end
local function plain(text) return text end

local function fold(text, most) return table.concat(columns.folded(text, most), "\n") end

-- Sizes of two operands under each other, from the right: "2 3", "2 4", ". ^".
local function aligned(a, b, in_place)
  local top, bottom, marks = {}, {}, {}
  local n = math.max(#a, #b)
  for k = 1, n do
    local x, y = rawget(a, k - n + #a), rawget(b, k - n + #b)
    local w = math.max(#tostring(x or ""), #tostring(y or ""))
    local form = "%" .. w .. "s"
    top[k], bottom[k] = form:format(x or ""), form:format(y or "")
    local bad = x and y and x ~= y and (in_place or x ~= 1) and y ~= 1 or in_place and not x
    marks[k] = form:format(bad and ("^"):rep(w) or ".")
  end
  return table.concat(top, " "), table.concat(bottom, " "), table.concat(marks, " ")
end

-- The operands' lines.
local function operand_lines(a, colour)
  local call, lines = a.call, {}
  if not call or #call.operands == 0 or a.rule.quiet then return lines end
  local names, shapes, notes = 0, 0, {}
  local count = math.min(#call.operands, 6)
  local marks
  for k = 1, count do
    local o = call.operands[k]
    names = math.max(names, width(o.label))
    o.brief = o.dtype .. " " .. shape_text(o.shape) .. ((o.device ~= "cpu" or a.rule.devices) and "  " .. o.device or "")
    shapes = math.max(shapes, #o.brief)
    notes[k] = a.notes[k] or ""
  end
  local said = rawget(a.err, "message") or ""
  if a.rule.picture == "broadcast" and #call.operands == 2 and said:find(shape_text(call.operands[1].shape), 1, true)
    and said:find(shape_text(call.operands[2].shape), 1, true) then
    local top, bottom
    top, bottom, marks = aligned(call.operands[1].shape, call.operands[2].shape, said:find("^%w+_: the result") ~= nil)
    notes = {top, bottom}
  end
  for k = 1, count do
    local o = call.operands[k]
    local line = ("   %s   %s     %s"):format(colour(pad(o.label, names), "name"), pad(o.brief, shapes), notes[k])
    lines[#lines + 1] = (line:gsub("%s+$", ""))
  end
  if marks then lines[#lines + 1] = colour(("   %s   %s     %s"):format((" "):rep(names), (" "):rep(shapes), marks), "error") end
  if #call.operands > count then lines[#lines + 1] = words.more:format(#call.operands - count) end
  return lines
end

-- The user's line with the failing part underlined; long lines are cut around it.
local function source_lines(a, colour)
  local line, first, last, at = line_of(a)
  if not line then return {} end
  if line:find("\n", 1, true) then
    line = line:match("^[^\n]*")
    last = first and math.min(last, #line)
  end
  local chunk = a.call.chunk
  local label = chunk:match("^=(%[%d+%])$") or chunk:match("^@.-([^/]+)$") or ""
  if label:find("^%[") then
    if a.call.text:find("\n") then label = words.entry_line:format(label, at) end
  elseif label ~= "" then
    label = ("%s:%d"):format(label, at)
  end
  if label ~= "" then label = label .. " " end
  line = line:gsub("\t", " ")
  local room = math.max((a.width or 110) - 4 - width(label), 12)
  local from = #line:match("^%s*") + 1
  if first and last - from >= room then from = math.max(from, math.min(first, last - room + 1)) end
  while (line:byte(from) or 0) & 0xC0 == 0x80 do from = from + 1 end  -- not inside a character
  local shown = line:sub(from, from + room - 1)
  while #shown > 0 and not utf8.len(shown) and utf8.len(line) do shown = shown:sub(1, -2) end
  local lines = {"   " .. colour(label, "label") .. shown}
  if first and last >= first then
    lines[2] = "   " .. (" "):rep(width(label) + width(line:sub(from, first - 1)))
      .. colour(("^"):rep(math.max(1, width(line:sub(first, math.min(last, from + room - 1))))), "error")
  end
  return lines
end

-- Where an operand was made: the last assignment to its name above the failing line.
local function made_lines(a)
  local lines, call = {}, a.call
  if not (a.rule.devices and call and call.node) then return lines end
  for _, o in ipairs(call.operands) do
    local last = o.name and call:made(o.name)
    if last and last.line < call.line then
      local code = call:code(last.value)
      if #code <= 60 and not code:find("\n") then lines[#lines + 1] = "   " .. words.made:format(o.name, last.line, code) end
    end
  end
  return lines
end

local function one_line(code)
  if not code:find("\n", 1, true) then return code end
  return (code:gsub("%s*\n%s*", " "):gsub(" ([:.,)])", "%1"):gsub("%( ", "("))
end

-- Advice in a narrow window: the remark behind its code goes below it, as remarks that may be pasted too.
local function advice(a, text)
  local line = "   " .. words.try .. " " .. text
  local code, remark = text:match("^(.-)%s+%-%- (.*)$")
  if not a.width or width(line) <= a.width then return line end
  if not code then
    local indent = "\n   " .. (" "):rep(width(words.try) + 1)
    return "   " .. words.try .. " " .. fold(text, a.width - #indent + 1):gsub("\n", indent)
  end
  local lead = "   " .. (" "):rep(width(words.try) + 1) .. "-- "
  return "   " .. words.try .. " " .. code .. "\n" .. lead .. fold(remark, a.width - #lead):gsub("\n", "\n" .. lead)
end

local function fix_lines(a, colour)
  local lines, fixes = {}, guard(find_fixes, a) or {}
  a.fixed = fixes
  if a.picked then return {advice(a, a.picked)} end
  for k, fix in ipairs(fixes) do
    local lead = k == 1 and words.fits or (" "):rep(width(words.fits))
    lines[k] = ("   %s %s%s"):format(lead, colour(one_line(fix.code), "good"), fix.shape and "  -> " .. fix.shape or "")
  end
  local hint = rawget(a.err, "hint")
  if type(hint) == "string" and hint ~= "" then hint = guard(require "torch.explain.own_names", hint, a.call) or hint end
  local more = a.rule.hint and a.call and guard(a.rule.hint, a.call)
  if a.rule.near and a.call then more = guard(require("torch.explain.names").hint, a.call) end
  local besides = type(hint) == "string" and hint:match("%-%- (for [^;]+)$")
  besides = besides or a.remark
  if #fixes > 0 and besides then lines[#lines + 1] = ("   (%s)"):format(besides) end
  if #fixes == 0 and type(hint) == "string" and hint ~= "" then lines[#lines + 1] = advice(a, hint) end
  if more and (#fixes == 0 or not a.rule.near) then lines[#lines + 1] = advice(a, more) end
  return lines
end

-- The lines below the first; a bare line of source is only for reports, whose reader has not seen it.
local function body(a, colour, bare)
  local lines = operand_lines(a, colour)
  local fixes = fix_lines(a, colour)
  if bare or (a.call and a.call.node and (#lines > 0 or #a.fixed > 0)) then
    for _, line in ipairs(source_lines(a, colour)) do lines[#lines + 1] = line end
  end
  for _, line in ipairs(made_lines(a)) do lines[#lines + 1] = line end
  return table.move(fixes, 1, #fixes, #lines + 1, lines)
end

---The text of an error object, for tostring: the place, the sentence, and what is known around it.
---@param err table
---@return string
function explain.text(err)
  local where, a = rawget(err, "where") or "", analyse(err)
  local lines = {(where ~= "" and where .. ": " or "") .. (a.said or rawget(err, "message") or "")}
  if rawget(err, "kind") ~= "interrupt" then table.move(body(a, plain), 1, 99, 2, lines) end
  return table.concat(lines, "\n")
end

---The error object of anything raised: itself, or one made from the text of an error of Lua's own that
---more can be said about (an unknown name, a method without its colon); else nil.
---@param err any
function explain.object(err)
  if is_error(err) then return err end
  if type(err) ~= "string" then return nil end
  return guard(function() return require("torch.explain.names").from_text(err) end) or nil
end

---What the prompt and a script's end say of an error.
---@param err any
---@param options? {colour?: fun(text: string, style: string): string, where?: boolean}
---@return string
function explain.report(err, options)
  local colour = options and options.colour or plain
  local object = explain.object(err)
  if not object then
    local ok, text = pcall(tostring, err)
    return colour("error", "error") .. ": " .. (ok and text or "an error whose __tostring fails")
  end
  local a = analyse(object)
  a.width = options and options.width
  local operands = operand_lines(a, colour)
  local entry = messages.codes[a.rule.code]
  local title = a.rule.picture == true and #operands > 0 and entry and entry.title
  local message, where = a.said or rawget(object, "message"), rawget(object, "where") or ""
  local lines = {("%s%s: %s"):format(options and options.where and where ~= "" and where .. ": " or "",
    colour("error " .. a.rule.code, "error"), title and title:format(message:match("^([^:]+):") or rawget(object, "op")) or message)}
  if a.width then lines[1] = fold(lines[1], a.width - 3):gsub("\n", "\n   ") end
  table.move(body(a, colour, true), 1, 99, 2, lines)
  if title and rawget(object, "worker") then
    local item = rawget(object, "index")
    lines[#lines + 1] = ("   in worker %d of the loader%s"):format(object.worker, item and ", item " .. tostring(item) or "")
  end
  if entry and #operands > 0 and not a.rule.code:find("%-0$") then
    local pointer = "   " .. words.explain:format(a.rule.code)
    if a.width and width(pointer) > a.width then pointer = pointer:match("^%s*%S+ %S+") end
    lines[#lines + 1] = colour(pointer, "faint")
  end
  return table.concat(lines, "\n")
end

---The page of an error, for ?err and %explain: the report and the rule behind it.
---@param err any
---@param options? {colour?: fun(text: string, style: string): string}
---@return string
function explain.long(err, options)
  local text = explain.report(err, options):gsub("\n[^\n]*%%explain [^\n]*$", "")
  local object = explain.object(err)
  return object and text .. "\n\n" .. explain.rule(object.code, options) or text
end

---The rule of a code, with an example; nil when there is no such code.
---@param code string "SHAPE-1"
---@return string?
function explain.rule(code, options)
  local colour = options and options.colour or plain
  local entry = messages.codes[code] or require("torch.notes.texts").catalogue[code]
  if not entry then return nil end
  local lines = {colour(code, "heading"), fold(entry.rule, math.min((options and options.width or 80) - 2, 78))}
  if entry.example then lines[#lines + 1] = words.to_run .. "\n   " .. entry.example:gsub("\n", "\n   ") end
  return table.concat(lines, "\n")
end

---All codes, sorted.
function explain.codes()
  local list = {}
  for code in pairs(messages.codes) do list[#list + 1] = code end
  for code in pairs(require("torch.notes.texts").catalogue) do list[#list + 1] = code end
  table.sort(list)
  return list
end

return explain
