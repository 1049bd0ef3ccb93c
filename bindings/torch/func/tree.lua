-- Tables of tensors as torch.func sees them: a plain table is a branch, everything else a leaf. Keys are visited in one
-- order, the list part first, then names in alphabetical order.
local torch = torch
local error = torch._raise
local tree = {}

local deepest = 100  -- more levels are a table that holds itself
---The next depth of nesting.
function tree.deeper(depth)
  depth = (depth or 0) + 1
  if depth > deepest then error("a table of tensors is nested more than 100 deep: does it hold itself?", 3, "argument") end
  return depth
end

---Is it a table whose fields are looked into?
function tree.is_branch(value) return type(value) == "table" and getmetatable(value) == nil end

local function keys_of(t)
  local keys, count = {}, 0
  for i = 1, #t do keys[i] = i end
  count = #keys
  for k in next, t do
    if not (math.type(k) == "integer" and k >= 1 and k <= count) then keys[#keys + 1] = k end
  end
  for i = count + 1, #keys do  -- few: sorted by insertion, so that keys of any type may stand side by side
    local k, j = keys[i], i
    while j > count + 1 and tostring(keys[j - 1]) > tostring(k) do
      keys[j] = keys[j - 1]
      j = j - 1
    end
    keys[j] = k
  end
  return keys
end
tree.keys = keys_of

---The same tables with f(leaf, where) in place of every leaf; `where` names it, as in "argument 1.weight".
function tree.map(value, f, where, depth)
  if not tree.is_branch(value) then return f(value, where) end
  depth = tree.deeper(depth)
  local out = {}
  for _, k in ipairs(keys_of(value)) do
    out[k] = tree.map(value[k], f, where and where .. (type(k) == "number" and "[" .. k .. "]" or "." .. tostring(k)), depth)
  end
  return out
end

---All leaves in order, appended to `list`.
function tree.leaves(value, list)
  list = list or {n = 0}
  tree.map(value, function(leaf)
    list.n = list.n + 1
    list[list.n] = leaf
  end)
  return list
end

---The tables of `value` with the leaves of a list, from place `first` on (1); gives also the next place.
function tree.fill(value, list, first)
  local place = (first or 1) - 1
  local out = tree.map(value, function()
    place = place + 1
    return list[place]
  end)
  return out, place + 1
end

---Have both the same tables and keys?
function tree.alike(a, b, depth)
  depth = tree.deeper(depth)
  if not tree.is_branch(a) or not tree.is_branch(b) then return tree.is_branch(a) == tree.is_branch(b) end
  for k, v in next, a do
    if b[k] == nil or not tree.alike(v, b[k], depth) then return false end
  end
  for k in next, b do
    if a[k] == nil then return false end
  end
  return true
end

---Tensors without their graph, everything else as it is.
function tree.detach(value)
  return tree.map(value, function(leaf) return torch.is_tensor(leaf) and leaf:detach() or leaf end)
end

return tree
