-- Properties of index expressions, read and assigned, in every form (tables, text, tensors, masks), against a slow
-- model that knows a tensor as a shape and a flat list of its values.
local property = ...
local count, flat, model = property.count, property.flat, property.model
local each, offset, remap, seen, all_different = model.each, model.offset, model.remap, model.seen, model.all_different

-- Each item: its Lua text, its text form (nil when it has none), and what it means: one of
--   {at=i} {keep=list of positions} {new=true} {list=flat positions, shape=}; a mask has several lists.
local function basic_item(case, n)
  local how = case:draw(n > 0 and 6 or 3)
  if how == 0 then return {lua = "{}", text = ":", keep = "all"} end
  if how == 1 then return {lua = "torch.newaxis", text = "new", new = true} end
  local positions = {}
  local first = case:int(1, math.max(1, n))
  if how == 2 or n == 0 then  -- an empty range
    local k = n == 0 and 1 or first
    return {lua = ("{%d, %d}"):format(k, k - 1), text = ("%d:%d"):format(k, k - 1), keep = {}}
  end
  local said_first = case:chance(3) and first - n - 1 or first
  if how == 3 then return {lua = tostring(said_first), text = tostring(said_first), at = first} end
  local last = case:int(first, n)
  local stride = how == 5 and case:int(1, 3) or 1
  if how == 4 and last == n and case:chance(2) then
    for p = first, n do positions[#positions + 1] = p end
    return {lua = ("{%d}"):format(said_first), text = ("%d:"):format(said_first), keep = positions}
  end
  for p = first, last, stride do positions[#positions + 1] = p end
  local said_last = case:chance(3) and last - n - 1 or last
  local tail = how == 5 and (", %d"):format(stride) or ""
  return {lua = ("{%d, %d%s}"):format(said_first, said_last, tail),
    text = ("%d:%d%s"):format(said_first, said_last, how == 5 and ":" .. stride or ""), keep = positions}
end

-- A tensor of positions whose shape broadcasts with {2, n}.
local function list_item(case, n, width)
  local shape = case:pick {{width}, {}, {1}, {2, 1}, {2, width}}
  local list, words = {}, {}
  for k = 1, count(shape) do
    local p = case:int(1, n)
    list[k], words[k] = p, tostring(case:chance(4) and p - n - 1 or p)
  end
  local text = #shape == 0 and ("torch.tensor(%s)"):format(words[1]) or ("torch.tensor({%s})"):format(table.concat(words, ", "))
  if #shape == 2 then text = ("%s:reshape(%s)"):format(text, table.concat(shape, ", ")) end
  if case:chance(3) then text = text .. ":int()" end
  return {lua = text, lists = {list}, shape = shape}
end

local function mask_item(case, n)
  local list, words = {}, {}
  for k = 1, n do
    local on = case:chance(2)
    words[k] = tostring(on)
    if on then list[#list + 1] = k end
  end
  return {lua = ("torch.tensor({%s}, {dtype=\"bool\"})"):format(table.concat(words, ", ")), lists = {list}, shape = {#list}, mask = true}
end

-- An index expression for a shape: the items in order, and whether any is a tensor.
local function expression(case, shape, advanced)
  local items, d, dots, width, masked, axes = {}, 1, false, case:int(1, 3), false, 0
  while d <= #shape do
    local how = case:draw(advanced and 8 or 5)
    if how == 1 and not dots and case:chance(2) then break end
    if how == 2 and not dots then
      dots = true
      local skipped = case:int(0, #shape - d + 1)
      items[#items + 1] = {lua = "torch.ellipsis", text = "...", dots = skipped}
      d = d + skipped
    elseif how >= 5 and shape[d] > 0 and not (masked or (how == 7 and #items > 0)) then
      if how == 7 then
        items[1], masked = mask_item(case, shape[d]), true
      else
        items[#items + 1] = list_item(case, shape[d], width)
      end
      d = d + 1
    else
      local item = basic_item(case, shape[d])
      if item.new then
        axes = axes + 1
        if axes > 2 then item = {lua = "{}", text = ":", keep = "all"} end  -- a tensor has at most 8 dimensions
      end
      items[#items + 1] = item
      if not item.new then d = d + 1 end
    end
  end
  return items
end

-- The model's answer: a view-like {shape, cells}, where cells are positions in the indexed tensor.
local function indexed(shape, items)
  local parts, d = {}, 1  -- per old dimension or new axis, in order
  local joint
  for _, item in ipairs(items) do
    if item.dots then
      for _ = 1, item.dots do
        parts[#parts + 1], d = {d = d, n = shape[d]}, d + 1
      end
    elseif item.new then
      parts[#parts + 1] = {n = 1}
    elseif item.at then
      parts[#parts + 1], d = {d = d, at = item.at}, d + 1
    elseif item.keep then
      local list = item.keep ~= "all" and item.keep or nil
      parts[#parts + 1], d = {d = d, list = list, n = list and #list or shape[d]}, d + 1
    else
      parts[#parts + 1], d = {d = d, joint = item.lists[1], shape = item.shape}, d + 1
      joint = joint or {}
      for e = 1, math.max(#joint, #item.shape) do
        local a, b = joint[#joint - e + 1] or 1, item.shape[#item.shape - e + 1] or 1
        if a ~= b and a ~= 1 and b ~= 1 then return nil end
        local size = a == 1 and b or a
        if e > #joint then table.insert(joint, 1, size) else joint[#joint - e + 1] = size end
      end
    end
  end
  while d <= #shape do parts[#parts + 1], d = {d = d, n = shape[d]}, d + 1 end
  -- Where the joint dimensions go: in place when their tensors stand side by side (single positions do not count).
  local first, last, kept, together = nil, nil, 0, true
  for _, p in ipairs(parts) do
    if p.joint then
      if not first then first = kept end
      if last and last ~= kept then together = false end
      last = kept
    elseif p.n then
      kept = kept + 1
    end
  end
  local at = joint and (together and first or 0) or 0
  local out = {}
  for _, p in ipairs(parts) do if p.n then out[#out + 1] = p.n end end
  for k = 1, joint and #joint or 0 do table.insert(out, at + k, joint[k]) end
  local whole = {shape = shape, cells = {}}
  for k = 1, count(shape) do whole.cells[k] = k end
  return remap(whole, out, function(index)
    local old, plain = {}, 0
    for _, p in ipairs(parts) do
      if p.at then
        old[p.d] = p.at
      elseif p.joint then
        local position = 0
        for e = 1, #p.shape do
          local i = index[at + #joint - #p.shape + e]
          position = position * p.shape[e] + (p.shape[e] == 1 and 0 or i - 1)
        end
        old[p.d] = p.joint[position + 1]
      else
        plain = plain + 1
        local i = index[plain > at and joint and plain + #joint or plain]
        if p.d then old[p.d] = p.list and p.list[i] or i end
      end
    end
    return old
  end)
end

local function index_property(advanced)
  return function(case)
    local shape, dtype = case:shape(4, 4), case:pick(property.dtypes)
    if #shape == 0 then shape = {case:int(1, 4)} end
    local x, name = case:tensor(shape, dtype)
    local items = expression(case, shape, advanced)
    if #items == 0 then return end
    local m = indexed(shape, items)
    if not m or #m.cells > 500 then return end
    local words, plain, texts = {}, true, {}
    for k, item in ipairs(items) do
      words[k], texts[k] = item.lua, item.text
      if item.lists then plain = false end
    end
    local index
    if plain and case:chance(2) then
      index = ('["%s"]'):format(table.concat(texts, case:pick {", ", ","}))
    elseif #items == 1 and (items[1].at or items[1].lists) and case:chance(2) then
      index = "[" .. words[1] .. "]"
    else
      index = "[{" .. table.concat(words, ", ") .. "}]"
    end
    local values = flat(x)
    local got, got_name = case:let(name .. index)
    case:same_shape(got, m.shape, index)
    case:same(got, seen(m, values), index)
    case:expect(property.dtype_of(got) == dtype, "the dtype changed")
    -- Assign: to a dense copy, as an expanded tensor cannot be written.
    local target, target_name = case:let(name .. ":clone()")
    local cells = m.cells
    if case:chance(2) or not all_different(cells) then
      local v = case:value(dtype)
      case:run(("%s%s = %s"):format(target_name, index, property.spell(v)))
      for _, c in ipairs(cells) do values[c] = v end
    else
      local skip = case:int(0, #m.shape)  -- leading sizes left out, others sometimes 1: both broadcast
      local small = {}
      for d = skip + 1, #m.shape do small[#small + 1] = case:chance(4) and 1 or m.shape[d] end
      local source, source_name = case:tensor(small, dtype)
      case:run(("%s%s = %s"):format(target_name, index, source_name))
      local from = flat(source)
      local k = 0
      each(m.shape, function(i)
        k = k + 1
        local part = {}
        for d = 1, #small do part[d] = small[d] == 1 and 1 or i[skip + d] end
        values[cells[k]] = from[offset(small, part)]
      end)
    end
    case:same(target, values, "after the assignment to " .. index)
    if plain then
      local ok = case:try(got_name .. ":data_ptr()")
      case:expect(ok, "no data_ptr")
    end
  end
end

property.add("ranges, positions, newaxis, ellipsis and text read and assign what a slow model says", 3, index_property(false))
property.add("tensors of positions and masks read and assign what a slow model says", 3, index_property(true))
