-- Files made byte by byte, for the tests of readers.
local made = {}

function made.write(path, bytes)
  os.remove(path)  -- a new file is not waited for, as one that is cut to nothing may be
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
  return path
end

function made.read(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

-- A zip archive of stored entries, given as {name, content} pairs; `row` may change a table row.
---@param entries table[]
---@param row? fun(r: table, i: integer)
function made.zip(entries, row)
  local body, rows = {}, {}
  local at = 0
  for i, e in ipairs(entries) do
    local name, content = e[1], e[2]
    local head = ("<I4I2I2I2I2I2I4I4I4I2I2"):pack(0x04034b50, 20, 0, 0, 0, 0x21, 0, #content, #content, #name, 0) .. name
    local r = {method = e.method or 0, packed = #content, size = e.size or #content, at = at, name = name}
    if row then row(r, i) end
    rows[i] = ("<I4I2I2I2I2I2I2I4I4I4I2I2I2I2I2I4I4"):pack(0x02014b50, 20, 20, 0, r.method, 0, 0x21, 0, r.packed, r.size, #r.name,
      0, 0, 0, 0, 0, r.at) .. r.name
    body[i] = head .. content
    at = at + #body[i]
  end
  local rest = table.concat(rows)
  return table.concat(body) .. rest .. ("<I4I2I2I2I2I4I4I2"):pack(0x06054b50, 0, 0, #rows, #rows, #rest, at, 0)
end

-- A .pt file of a pickle and the bytes of its storages by key.
---@param pickle string
---@param storages? table<string, string>
function made.pt(pickle, storages)
  local entries = {{"a/data.pkl", pickle}}
  for key, bytes in pairs(storages or {}) do entries[#entries + 1] = {"a/data/" .. key, bytes} end
  return made.zip(entries)
end

-- A file of PyTorch before 1.6: five pickles, then the number of elements and the elements of each storage.
---@param pickle string
---@param storages table<string, string>
---@param width integer of an element
function made.legacy(pickle, storages, width)
  local keys, data = {}, {}
  for key in pairs(storages) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do
    data[i] = ("<i8"):pack(#storages[key] // width) .. storages[key]
    keys[i] = "X" .. ("<I4"):pack(#key) .. key
  end
  return "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." .. "\x80\x02M\xe9\x03." .. "\x80\x02}." .. pickle .. "\x80\x02](" ..
    table.concat(keys) .. "e." .. table.concat(data)
end

-- A deflated .npy file of arange(12):float():view(3, 4), and its length.
made.deflated = ("9bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a0a269a3a0ab5" ..
  "0a64032e063068b007120e4004c40d40bc00880f00f1032066706460100062052036700400"):gsub("..", function(x) return string.char(tonumber(x, 16)) end)
made.deflated_size = 176

return made
