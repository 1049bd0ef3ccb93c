-- Properties of files: what is saved comes back, for every dtype, layout, nesting and format; views that share memory
-- share it again in PyTorch's format. They get few of the cases, as writing waits for the disk.
local property = ...
local flat = property.flat
local path = property.temp

-- An object to save, as text that names tensors already made, and its parts by their path.
local function object(case, depth, prefix, parts)
  local how = depth > 0 and case:draw(6) or case:draw(5)
  if how == 0 then
    local n = case:int(-3, 3)
    parts[prefix] = n
    return tostring(n)
  elseif how == 1 then
    local v = case:pick {"0.5", "-2.25", "1e300", "true", "false"}
    parts[prefix] = load("return " .. v)()
    return v
  elseif how == 2 then
    local v = case:pick {"", "a", "two words", "ünï", "line\nline", "'\"\\", ("long "):rep(60)}
    parts[prefix] = v
    return ("%q"):format(v):gsub("\\\n", "\\n")
  elseif how <= 4 then
    local x, name = case:tensor(case:shape(4, 3), case:pick(property.dtypes), "special")
    parts[prefix] = x
    return name
  end
  local items = {}
  if case:chance(2) then
    for k = 1, case:int(1, 3) do items[k] = object(case, depth - 1, prefix .. "[" .. k .. "]", parts) end
  else
    for k = 1, case:int(1, 3) do
      local key = "key" .. k
      items[k] = key .. " = " .. object(case, depth - 1, prefix .. "." .. key, parts)
    end
  end
  return "{" .. table.concat(items, ", ") .. "}"
end

local function compare(case, parts)
  local names = {}
  for name in pairs(parts) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local due = parts[name]
    local got = load("return " .. name, "=case", "t", case.env)()
    if type(due) == "userdata" then
      case:same(got, due, name)
    else
      case:expect(got == due and math.type(got) == math.type(due), function() return name .. " came back as " .. tostring(got) end)
    end
  end
end

property.add("what torch.save writes, torch.load reads: numbers, texts, tensors and tables of them", 0.4, function(case)
  local parts = {}
  local text = object(case, 3, "y", parts)
  case:run(("torch.save(%s, %q)"):format(text, path "property.pt"))
  case:run(("y = torch.load(%q)"):format(path "property.pt"))
  compare(case, parts)
end)

property.add("views saved together share their memory again", 0.1, function(case)
  local shape = case:shape(3, 4)
  if #shape == 0 or property.count(shape) == 0 then return end
  local _, name = case:let(case:literal(shape, case:pick(property.floats)))
  local d = case:int(1, #shape)
  local _, view = case:let(("%s:select(%d, %d)"):format(name, d, case:int(1, shape[d])))
  case:run(("torch.save({%s, %s}, %q)"):format(name, view, path "property.pt"))
  local file = assert(io.open(path "property.pt", "rb"))
  local zip = file:read(2) == "PK"  -- PyTorch's format, which keeps what tensors share
  file:close()
  if not zip then return end
  case:run(("y = torch.load(%q)"):format(path "property.pt"))
  case:run("y[2]:fill_(9)")
  case:run(view .. ":fill_(9)")
  case:same(case.env.y[1], case.env[name], "the whole after its part was written")
end)

property.add("arrays and named tensors come back from .npy, .npz and .safetensors", 0.4, function(case)
  local format = case:pick {"npy", "npz", "safetensors"}
  local parts, items = {}, {}
  for k = 1, format == "npy" and 1 or case:int(1, 3) do
    local dtype = case:pick(property.dtypes)
    if dtype == "bfloat16" and format ~= "safetensors" then dtype = "float16" end  -- NumPy has none
    local x, name = case:tensor(case:shape(4, 3), dtype, "special")
    local key = case:pick {"w", "fc.weight", "layers.1.bias", "a b"} .. k
    items[k] = format == "npy" and name or ("[%q] = %s"):format(key, name)
    parts[format == "npy" and "y" or ("y[%q]"):format(key)] = x
  end
  local file = path("property." .. format)
  case:run(("torch.save(%s, %q)"):format(format == "npy" and items[1] or "{" .. table.concat(items, ", ") .. "}", file))
  case:run(("y = torch.load(%q)"):format(file))
  compare(case, parts)
end)

property.add("a file cut short or with a byte changed raises or still loads; it never does worse", 0.3, function(case)
  local format = case:pick {"pt", "npy", "npz", "safetensors"}
  local _, name = case:let(case:literal(case:shape(2, 3), case:pick {"float32", "int64"}))
  local file = path("damaged." .. format)
  case:run(("torch.save(%s, %q)"):format(format == "npy" and name or ("{w = %s}"):format(name), file))
  local handle = assert(io.open(file, "rb"))
  local bytes = handle:read("a")
  handle:close()
  local at = case:int(1, #bytes)
  if case:chance(2) then
    bytes = bytes:sub(1, at - 1)
    case:note(("-- only the first %d bytes of it are left"):format(at - 1))
  else
    local byte = string.char(case:int(0, 255))
    bytes = bytes:sub(1, at - 1) .. byte .. bytes:sub(at + 1)
    case:note(("-- its byte %d became %d"):format(at, byte:byte()))
  end
  handle = assert(io.open(file, "wb"))
  handle:write(bytes)
  handle:close()
  local ok, err = case:try(("torch.load(%q)"):format(file))
  if ok then
    if type(err) == "userdata" then flat(err) end
  else
    case:expect(type(err) == "userdata" or type(err) == "table", function() return "a bare text: " .. tostring(err) end)
    case:expect(err.kind == "io" or err.kind == "oom", function() return "kind " .. tostring(err.kind) .. ": " .. tostring(err) end)
  end
end)
