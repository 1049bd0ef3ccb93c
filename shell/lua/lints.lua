-- What the prompt looks for in the text of an entry: == with a tensor (EQ), a tensor as a condition
-- (IF), a second backward without zeroing (ACC), and why x.grad is nil (GRAD). They are notes
-- (torch/notes.lua): each can be switched off, and a false alarm is worse than silence.
local notes = require "torch.notes"
local lints = {}

-- Methods and fields of tensors whose results are no tensors.
local plain_results = {}
for name in ([[item tolist size stride numel nelement dim ndimension element_size storage_offset data_ptr type
  is_contiguous is_floating_point is_leaf equal allclose backward register_hook retain_grad rows show shape dtype
  device ndim requires_grad grad_fn is_cuda split chunk unbind topk sort max min nonzero mode median kthvalue]]):gmatch("%S+") do
  plain_results[name] = true
end
-- Methods that only tensors have and that give a mask.
local masks = {gt = true, lt = true, ge = true, le = true, isnan = true, isinf = true, isfinite = true}

-- The entry's tokens without spaces and comments.
local function words_of(text)
  local words = {}
  for _, token in ipairs(torch._lex(text)) do
    if token.kind ~= "space" and token.kind ~= "comment" then
      words[#words + 1] = {kind = token.kind, text = text:sub(token.first, token.last), first = token.first, last = token.last}
    end
  end
  return words
end

local function line_at(text, position)
  return select(2, text:sub(1, position):gsub("\n", "")) + 1
end

-- Names that are parameters, loop variables or locals somewhere in the entry: what they stand for is
-- not known from here. A local at depth 0 becomes a variable of the session, which is.
local function hidden_names(words)
  local hidden, depth = {}, 0
  for i, w in ipairs(words) do
    if w.kind == "keyword" then
      if w.text == "function" or w.text == "do" or w.text == "then" or w.text == "repeat" then depth = depth + 1 end
      if w.text == "end" or w.text == "until" or w.text == "elseif" then depth = depth - 1 end
      local from
      if w.text == "local" and depth > 0 or w.text == "for" then from = i + 1 end
      if w.text == "function" then
        from = i + 1
        while words[from] and words[from].text ~= "(" do from = from + 1 end
        from = from + 1
      end
      while from and words[from] do
        local text = words[from].text
        if words[from].kind == "name" then hidden[text] = true elseif text ~= "," and text ~= "function" then break end
        from = from + 1
      end
    end
  end
  return hidden
end

local closing = {["("] = ")", ["["] = "]", ["{"] = "}"}
local opening = {[")"] = "(", ["]"] = "[", ["}"] = "{"}

-- The last word of the suffixed expression (name, fields, indexes, calls) that begins at word i.
local function chain_end(words, i)
  if not words[i] or words[i].kind ~= "name" then return nil end
  local last = i
  while words[last + 1] do
    local text = words[last + 1].text
    if (text == "." or text == ":") and words[last + 2] and words[last + 2].kind == "name" then
      last = last + 2
    elseif closing[text] or words[last + 1].kind == "string" then
      if words[last + 1].kind == "string" then
        last = last + 1
      else
        local depth = 0
        local at = last + 1
        repeat
          if closing[words[at].text] then depth = depth + 1 elseif opening[words[at].text] then depth = depth - 1 end
          at = at + 1
        until depth == 0 or not words[at]
        if depth ~= 0 then return nil end
        last = at - 1
      end
    else
      break
    end
  end
  return last
end

-- The first word of such an expression that ends at word i.
local function chain_begin(words, i)
  for first = i, 1, -1 do
    local before = words[first - 1] and words[first - 1].text
    if words[first].kind == "name" and before ~= "." and before ~= ":" and chain_end(words, first) == i then return first end
  end
end

-- Is the expression of words first..last a tensor? The first name's value is looked up raw, nothing
-- runs. Also the name of the last method, or nil.
local function is_tensor(words, first, last, hidden)
  local value = rawget(_G, words[first].text)
  local method
  local i = first + 1
  local known = not hidden[words[first].text] and torch.is_tensor(value)
  local library = words[first].text == "torch" and value == torch and words[i] and words[i].text == "." and "torch"
  while i <= last do
    local text = words[i].text
    if text == ":" or text == "." then
      method = words[i + 1].text
      if plain_results[method] or (library and method:find("^is_")) then return false, method end
      if text == "." and known and method ~= "grad" and method ~= "data" and method ~= "T" and method ~= "mT" then return false end
      if library and i == first + 1 then
        known = type(rawget(torch, method)) == "function" and torch._methods_have(method)
      end
      i = i + 2
    else
      local depth = 0
      repeat
        local word = words[i].text
        if closing[word] then depth = depth + 1 elseif opening[word] then depth = depth - 1 end
        i = i + 1
      until depth == 0 or i > last or not words[i]
    end
  end
  if not known and masks[method] and words[last].text == ")" then return true, method end
  return known, method
end

local function span(text, words, first, last) return text:sub(words[first].first, words[last].last) end

local function place(entry_name, text, word) return {source = entry_name, line = line_at(text, word.first)} end

-- == and ~= with a tensor on one side and a number, a string or a boolean on the other.
local function check_equal(text, words, hidden, name)
  for i, w in ipairs(words) do
    if w.kind == "op" and (w.text == "==" or w.text == "~=") and words[i - 1] and words[i + 1] then
      local sides = {}
      local first = chain_begin(words, i - 1)
      local last = chain_end(words, i + 1)
      if words[i + 1].text == "-" and words[i + 2] and words[i + 2].kind == "number" then last = nil end
      local after = words[(last or i + 1) + 1]
      local function simple(a, b)  -- nothing binds tighter on the outer sides
        local outer = words[a - 1] and words[a - 1].text
        return not (outer and (outer:find("^[%+%-%*/%%%^#~&|]$") or outer == "//" or outer == ".."))
      end
      if first and simple(first) and is_tensor(words, first, i - 1, hidden) then sides[1] = {first, i - 1} end
      if last and is_tensor(words, last and i + 1, last, hidden) then sides[2] = {i + 1, last} end
      if after and after.text:find("^[%+%-%*/%%%^]$") then sides = {} end
      local other
      if sides[1] and not sides[2] then other = words[i + 1] elseif sides[2] and not sides[1] then other = words[i - 1] end
      local constant = other and (other.kind == "number" or other.kind == "string" or other.text == "true" or other.text == "false"
        or other.text == "-" and words[i + 2] and words[i + 2].kind == "number")
      if other and not constant and other.kind == "name" and not hidden[other.text] then
        local only = sides[1] and chain_end(words, i + 1) == i + 1 or sides[2] and chain_begin(words, i - 1) == i - 1
        local v = rawget(_G, other.text)
        constant = only and (type(v) == "number" or type(v) == "string" or type(v) == "boolean")
      end
      if constant then
        local tensor = sides[1] or sides[2]
        local from = sides[1] and first or other == words[i - 1] and i - 1
        local to = sides[2] and last or (other.text == "-" and i + 2 or i + 1)
        local value = sides[1] and span(text, words, i + 1, to) or span(text, words, i - 1, i - 1)
        local kind = other.kind == "string" and "string" or (other.text == "true" or other.text == "false") and "boolean" or "number"
        if other.kind == "name" then kind = type(rawget(_G, other.text)) end
        notes.tell("EQ", "number", {
          kind = kind,
          text = span(text, words, from, to), answer = w.text == "==" and "false" or "true",
          fix = ("%s:%s(%s)"):format(span(text, words, tensor[1], tensor[2]), w.text == "==" and "eq" or "ne", value),
        }, place(name, text, w))
      end
    end
  end
end

-- A part of a condition, words first..last: a call that gives a tensor?
local function check_part(text, words, first, last, hidden, name)
  while words[first] and (words[first].text == "not" or words[first].text == "(") do
    if words[first].text == "(" and last and words[last].text == ")" then last = last - 1 end
    first = first + 1
  end
  local ends = chain_end(words, first)
  if not ends or last and ends ~= last then return end
  local yes, method = is_tensor(words, first, ends, hidden)
  if not (yes and method and words[ends].text == ")") then return end
  local expression = span(text, words, first, ends)
  local fix = (method == "any" or method == "all") and expression .. ":item()"
    or expression .. ":all():item() or " .. expression .. ":any():item()"
  notes.tell("IF", "condition", {text = expression, fix = fix}, place(name, text, words[first]))
end

-- Conditions: of if, elseif, while, until and not; each part of `and` and `or`. A bare name is a test
-- for nil and is meant.
local stops = {["if"] = "then", ["elseif"] = "then", ["while"] = "do"}
local follows = {["end"] = true, ["else"] = true, ["then"] = true, ["do"] = true, ["and"] = true, ["or"] = true,
  [")"] = true, [","] = true, [";"] = true, ["}"] = true, ["]"] = true}
local function check_conditions(text, words, hidden, name)
  for i, w in ipairs(words) do
    if w.kind == "keyword" and stops[w.text] then
      local first, depth = i + 1, 0
      for at = i + 1, #words do
        local word = words[at].text
        if closing[word] then depth = depth + 1 elseif opening[word] then depth = depth - 1 end
        if depth == 0 and (word == "and" or word == "or" or word == stops[w.text]) then
          check_part(text, words, first, at - 1, hidden, name)
          first = at + 1
          if word == stops[w.text] then break end
        end
      end
    elseif w.text == "not" or w.text == "until" then
      local ends = words[i + 1] and chain_end(words, i + 1)
      local after = ends and words[ends + 1]
      if ends and (not after or w.text == "until" and after.kind ~= "op" or follows[after.text]) then
        check_part(text, words, i + 1, ends, hidden, name)
      end
    end
  end
end

-- The first tensor or module of the session whose gradient sums several passes.
local function summed_gradient()
  local names = {}
  for name in next, _G do
    if type(name) == "string" and name:sub(1, 1) ~= "_" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local v = rawget(_G, name)
    if torch.is_tensor(v) and v.is_leaf and v.requires_grad and v.grad then
      local passes = torch._passes(v.grad)
      if passes > 1 then return name, passes end
    end
  end
end

-- backward outside of functions and loops, for the second time into one gradient.
local function check_passes(text, words, name)
  local word
  for _, w in ipairs(words) do
    if w.kind == "keyword" and (w.text == "for" or w.text == "while" or w.text == "repeat" or w.text == "function") then return end
    if w.kind == "name" and w.text == "accumulated" then return end
    if w.kind == "name" and w.text == "backward" then word = w end
  end
  if not word then return end
  local leaf, passes = summed_gradient()
  if leaf then notes.tell("ACC", "prompt", {name = leaf, passes = passes}, place(name, text, word)) end
end

-- An entry x.grad that gave nil.
local function check_no_grad(text, values, name)
  local variable = text:match("^%s*([%a_][%w_]*)%.grad%s*;?%s*$")
  local x = variable and rawget(_G, variable)
  if not (torch.is_tensor(x) and values and values[1] == nil and values.n == 1) or not x.is_leaf then return end
  local at = {source = name, line = 1}
  local cut = torch._cut(x)
  if x.requires_grad then
    notes.tell("GRAD", "unused", {name = variable}, at)
  elseif cut then
    notes.tell("GRAD", "cut", {name = variable, why = cut}, at)
  else
    notes.tell("GRAD", "constant", {name = variable, fix = variable .. ":requires_grad_() before the computation"}, at)
  end
end

---Looks at an entry, before it runs and after.
---@param text string
---@param name string of its chunk, "[12]"
---@param values? table packed results, after it ran
function lints.check(text, name, values)
  if values then torch._flush_notes() end
  if not (text:find("[=~]=") or text:find("backward", 1, true) or text:find("%.grad") or text:find("not", 1, true)
    or text:find("if", 1, true) or text:find("while", 1, true) or text:find("until", 1, true)) then return end
  local words = words_of(text)
  local hidden = hidden_names(words)
  if notes.state("EQ") ~= "off" then check_equal(text, words, hidden, name) end
  if notes.state("IF") ~= "off" then check_conditions(text, words, hidden, name) end
  if values then
    check_passes(text, words, name)
    check_no_grad(text, values, name)
  end
end

---Joins the session.
function lints.install(session)
  torch._watch_gradients(true)
  notes.paint = function(text) return require("shell.colour")(text, "note") end
  -- Long lines are broken at the window's edge, pictures of several lines are left.
  notes.fold = function(text, used)
    local window = torch._terminal()
    local wide = window.terminal and window.columns or 0
    if wide < 20 or text:find("\n") or #text + used <= wide then return text end
    local indent = text:match("^ *")
    local filler = ("-"):rep(used)  -- stands for what is before the text
    local parts = require("shell.columns").wrap(filler .. text:sub(#indent + 1), wide - math.max(#indent, 3) - 1)
    return indent .. table.concat(parts, "\n" .. (" "):rep(math.max(#indent, 3))):sub(used + 1)
  end
  local function name() return ("[%d]"):format(session.number) end
  table.insert(session.hooks.before, function(record)
    notes.hold()
    torch._nan_again()
    lints.check(record.text, name())
  end)
  table.insert(session.hooks.after, function(record, _, values)
    if not record.text:find("^%s*[%%!?]") then lints.check(record.text, name(), values or {n = 0}) end
    notes.release()
  end)
end

return lints
