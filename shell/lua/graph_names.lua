-- What %graph and %nan say of a graph: the user's names for its tensors, and where a node was made.
local holders = require "shell.holders"
local names = {}

-- Names of the user's tensors: of leaves by their identity, of computed ones by their node.
---@return table leaves names by the tensors' identity
---@return table nodes names by the nodes' ids
function names.tensors()
  local leaves, nodes = {}, {}
  local function add(name, value)
    local look = torch._inspect(value)
    if not look then return end
    if look.node then nodes[look.node.id] = nodes[look.node.id] or name else leaves[look.id] = leaves[look.id] or name end
  end
  local list = {}
  for name, value in next, _G do
    if type(name) == "string" and holders.is_users(name, value) then list[#list + 1] = {name, value} end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for _, pair in ipairs(list) do add(pair[1], pair[2]) end
  for _, pair in ipairs(list) do  -- parameters of modules
    if type(pair[2]) == "table" and rawget(pair[2], "_order") then
      local ok, named = pcall(function() return pair[2]:named_parameters() end)
      for _, each in ipairs(ok and named or {}) do add(pair[1] .. "." .. tostring(each[1]), each[2]) end
    end
  end
  return leaves, nodes
end

---"[3]", or "train.lua:41"
function names.place(source, line)
  if source == "" then return "" end
  return source:find("^%[%d+%]$") and source or ("%s:%d"):format(source:match("[^/]*$"), line)
end

---A place as text, without the line when it is an entry of the prompt.
function names.without_line(where) return (where:gsub("^(%[%d+%]):%d+$", "%1")) end

---A number as it is shown in trees and ranges.
function names.number(v)
  if v ~= v then return "nan" end
  return ("%.4g"):format(v)
end

return names
