-- Python's loops written in Lua: over numbers, lists, pairs, loaders, files, in statements and in comprehensions.
local loops = {}

local function names_of(w, target)
  if target.kind ~= "tuple" then return {(w:write(target))}, {target.kind == "name"} end
  local out = {}
  for k, item in ipairs(target.items) do
    out[k] = item.kind == "tuple" and item or (w:write(item))
  end
  return out
end

-- `local a, b = each[1], each[2]` for names in a tuple; tuples in it are taken apart after it.
local function taken(w, tuple, from)
  local names, values, inner = {}, {}, {}
  for k, item in ipairs(tuple.items) do
    names[k] = item.kind == "tuple" and from:gsub("^each", "") .. "_" .. k or (w:write(item))
    values[k] = ("%s[%d]"):format(from, k)
    if item.kind == "tuple" then inner[#inner + 1] = "; " .. taken(w, item, names[k]) end
  end
  return ("local %s = %s%s"):format(table.concat(names, ", "), table.concat(values, ", "), table.concat(inner))
end

-- What takes apart the tuples among a loop's own names, which stand there as _1, _2.
local function inside_of(w, names)
  local out = {}
  for k, name in ipairs(names) do
    if type(name) == "table" then out[#out + 1] = taken(w, name, "_" .. k) end
  end
  return #out > 0 and table.concat(out, "; ") or nil
end

local function is_loader(text) return text:lower():find "loader" ~= nil or text:find "^dl$" or text:find "_dl$" or text:find "DataLoader" end
local function is_dict(text) return text == "d" or text:find "dict$" or text == "config" or text == "cfg" or text == "counts" end
local function less_one(w, e)
  local n = w.number(e)
  if n then return tostring(n - 1) end
  if e.kind == "binary" and e.op == "+" and w.number(e[2]) == 1 then return (w:write(e[1])) end
  return w:under(e, 10) .. " - 1"
end

-- A loop's head with a bar that shows how far it is.
local function with_bar(head)
  for from, to in pairs {["^for ([%w_]+) = 1, ([^,]+) do$"] = "for %1 in torch.progress(%2) do", [" in ([%w_.]+)%(%) do$"] = " in torch.progress(%1) do",
    [" in (i?pairs%(.*%)) do$"] = " in torch.progress(%1) do"} do
    head = head:gsub(from, to)
  end
  return head
end

---The head of a loop: the line up to do, what the body begins with, what stands before the loop, what ends the body.
---@return string head, string? inside, string? before, string? after
function loops.head(w, target, iter)
  local call = iter.kind == "call" and iter[1]
  local name = call and (call.kind == "name" and call.text or call.kind == "field" and call.name)
  local args = iter.args or {}
  if name == "tqdm" or name == "list" or name == "trange" or name == "reversed" and args[1] and args[1].kind ~= "call" or name == "iter" then
    if (name == "tqdm" or name == "trange") and args[1] then
      local over = name == "tqdm" and args[1] or {kind = "call", {kind = "name", text = "range"}, args = {args[1]}}
      local head, inside, before, after = loops.head(w, target, over)
      return with_bar(head), inside, before, after
    elseif name == "reversed" then
      local list = w:write(args[1])
      return ("for i = #%s, 1, -1 do"):format(list), ("local %s = %s[i]"):format((w:write(target)), list)
    elseif args[1] then
      return loops.head(w, target, args[1])
    end
    call, name = iter[1], "range"
  end
  local names = names_of(w, target)
  if name == "reversed" and args[1] and args[1].kind == "call" and args[1][1].text == "range" and #args[1].args == 1 then
    return ("for %s = %s, 1, -1 do"):format(names[1], (w:write(args[1].args[1])))
  end
  if name == "range" and call.kind == "name" then
    w.said "range"
    local n = names[1]
    if #args == 1 then
      local count = w:write(args[1])
      -- Devices and ranks are numbered from 0 here too.
      if w.values or count:find "device_count%(%)$" or count:find "world_size" or count:find "n_?gpus$" or count:find "nprocs$" then return ("for %s = 0, %s do"):format(n, less_one(w, args[1])) end
      return ("for %s = 1, %s do"):format(n, count)
    end
    local step = args[3] and w.number(args[3])
    if args[3] and not step then return ("for %s = %s, %s - 1, %s do"):format(n, (w:write(args[1])), w:under(args[2], 10), (w:write(args[3]))) end
    local last = step and step < 0 and (w.number(args[2]) and tostring(w.number(args[2]) + 1) or w:under(args[2], 10) .. " + 1") or less_one(w, args[2])
    return ("for %s = %s, %s%s do"):format(n, (w:write(args[1])), last, step and ", " .. step or "")
  end
  if name == "enumerate" and args[1] then
    local over = args[1]
    local start = args[2] and w.number(args[2][1] and args[2].kind == "named" and args[2][1] or args[2])
    local from = start and start ~= 1 and start ~= 0 and ("local step = %s + %d"):format(names[1], start - 1) or nil
    local value = target.kind == "tuple" and target.items[2]
    if not value then w.fail() end
    local inner, inside, before = loops.head(w, value, over)
    if inner:find "^for i = 1, #" and inside then  -- of zip
      return inner, (names[1] ~= "i" and ("local %s = i; "):format(names[1]) or "") .. inside
    end
    if inner:find "^for _, [%w_]+ in ipairs" then
      w.said "enumerate"
      return (inner:gsub("^for _,", "for " .. names[1] .. ",")), from or inside
    end
    return inner, names[1] .. " = " .. names[1] .. " + 1" .. (inside and "; " .. inside or ""), (before and before .. " " or "") .. ("local %s = 0"):format(names[1])
  end
  if name == "zip" and call.kind == "name" and #args > 0 and args[1].kind ~= "star" then
    w.said "zip"
    local first, values, lefts = nil, {}, {}
    for k, arg in ipairs(args) do
      local from, less = 0, 0
      local slice = arg.kind == "index" and #arg.items == 1 and arg.items[1].kind == "slice" and not arg.items[1].step and arg.items[1]
      if slice and (slice.first == nil or (w.number(slice.first) or 0) > 0) and (slice.last == nil or (w.number(slice.last) or 0) < 0) then  -- zip(xs[:-1], xs[1:])
        from, less = slice.first and w.number(slice.first) or 0, slice.last and -w.number(slice.last) or 0
        arg = arg[1]
      end
      local list = w:object(arg)
      if arg.kind == "call" then w.fail() end
      first = first or list .. (from + less > 0 and " - " .. from + less or "")
      values[k], lefts[k] = list .. (from > 0 and "[i + " .. from .. "]" or "[i]"), type(names[k]) == "string" and names[k] or "_" .. k
    end
    local inner = inside_of(w, names)
    return ("for i = 1, #%s do"):format(first), ("local %s = %s%s"):format(table.concat(lefts, ", "), table.concat(values, ", "), inner and "; " .. inner or "")
  end
  if name == "readlines" and call.kind == "field" then return ("for %s in %s:lines() do"):format(names[1], w:object(call[1])) end
  local flat = {}
  for k, n in ipairs(names) do flat[k] = type(n) == "string" and n or "_" .. k end
  if call and call.kind == "field" then
    local of = w:object(call[1])
    if name == "items" then
      w.said "in"
      return ("for %s in pairs(%s) do"):format(table.concat(flat, ", "), of), inside_of(w, names)
    elseif name == "keys" then
      return ("for %s in pairs(%s) do"):format(flat[1], of)
    elseif name == "values" then
      return ("for _, %s in pairs(%s) do"):format(flat[1], of)
    elseif (name == "named_parameters" or name == "named_modules" or name == "named_children" or name == "named_buffers") and #flat == 2 then
      return ("for _, each in ipairs(%s) do"):format((w:write(iter))), ("local %s = each[1], each[2]"):format(table.concat(flat, ", "))
    end
  end
  if name == "open" and call.kind == "name" then return ("for %s in io.lines(%s) do"):format(flat[1], args[1] and (w:write(args[1])) or "") end
  w.iterates = true
  local text = w:write(iter)
  w.iterates = nil
  if is_loader(text) then return ("for %s in %s() do"):format(table.concat(flat, ", "), w:object(iter)) end
  if iter.kind == "name" and (iter.text == "f" or iter.text == "file") then return ("for %s in %s:lines() do"):format(flat[1], text) end
  if iter.kind == "string" or iter.kind == "name" and (iter.text == "text" or iter.text == "word") then return ('for %s in %s:gmatch(utf8.charpattern) do'):format(flat[1], w:object(iter)) end
  if text:find ":gmatch%(" or text:find ":lines%(" then return ("for %s in %s do"):format(flat[1], text) end
  if #flat == 1 and iter.kind == "name" and w.text_names[iter.text] then return ("for %s in %s:gmatch(utf8.charpattern) do"):format(flat[1], text) end
  if #flat > 1 then return ("for _, each in ipairs(%s) do"):format(text), taken(w, target, "each") end
  if target.kind == "name" and iter.kind == "name" and (w.by_key and w.by_key(iter.text, target.text) or is_dict(iter.text)) then
    w.said "keys"
    return ("for %s in pairs(%s) do"):format(flat[1], text)
  end
  return ("for _, %s in ipairs(%s) do"):format(flat[1], text)
end

-- The loops of a comprehension around the statement `body`.
function loops.around(w, tree, body, computed)
  -- Positions begin with 1, but what is computed from the numbers themselves stays as it is.
  w.values = not (computed or body):gsub("out%[#out %+ 1%]", ""):find "[%w_%]]%[" or nil
  local before, lead, tail = {}, {}, {}
  for _, each in ipairs(tree.loops) do
    local head, inside, first = loops.head(w, each.target, each.iter)
    if first then before[#before + 1] = first .. " " end
    lead[#lead + 1] = head .. " " .. (inside and inside .. "; " or "")
    tail[#tail + 1] = " end"
    if each.test then
      lead[#lead + 1] = ("if %s then "):format((w:write(w:truth(each.test))))
      tail[#tail + 1] = " end"
    end
  end
  w.values = nil
  return table.concat(before) .. table.concat(lead) .. body .. table.concat(tail)
end

---The statements that fill `into` with a comprehension's elements.
function loops.filled(w, tree, into)
  w.said "comprehension"
  local element = tree.element
  if element.kind == "pair" then
    local key, value = (w:write(element.key)), (w:write(element[1]))
    return loops.around(w, tree, ("%s[%s] = %s"):format(into, key, value), key .. value)
  end
  local value = w:write(element)
  return loops.around(w, tree, ("%s[#%s + 1] = %s"):format(into, into, value), value)
end

function loops.value(w, tree)
  return ("(function() local out = {} %s return out end)()"):format(loops.filled(w, tree, "out")), 20
end

local folds = {sum = {"0", "total = total + %s"}, any = {"false", "total = total or %s"}, all = {"true", "total = total and %s"},
  max = {"-math.huge", "total = math.max(total, %s)"}, min = {"math.huge", "total = math.min(total, %s)"}}

---sum(x for x in xs) and its relatives.
function loops.folded(w, name, tree)
  local fold = folds[name]
  local body = loops.around(w, tree, fold[2]:format((w:under(tree.element, name == "sum" and 11 or 3):gsub("%%", "%%%%"))))
  return ("(function() local total = %s %s return total end)()"):format(fold[1], body), 20
end

return loops
