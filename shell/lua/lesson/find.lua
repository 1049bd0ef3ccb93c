-- Finds lessons: those inside the program by name, and files by path.
local parse = require "shell.lesson.parse"

local find = {}

local function read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text = file:read("a")
  file:close()
  if not text then return nil, path .. ": it cannot be read" end
  return text
end

--- Parses a lesson from a file.
---@return table|nil lesson
---@return string|nil message
---@return table|nil problems
function find.file(path)
  local text, message = read(path)
  if not text then return nil, message end
  local lesson, problems = parse.lesson(text, path)
  if #problems > 0 then
    return nil, ("%s:%d: %s"):format(path, problems[1].line, problems[1].message), problems
  end
  return lesson
end

local inside  -- the program's own lessons, parsed when first asked for

--- All lessons of the program, in their order.
---@return table[]
function find.all()
  if inside then return inside end
  inside = {}
  for _, path in ipairs(torch._embedded()) do
    if path:find("^tutorials/") then
      local lesson, problems = parse.lesson(torch._embedded(path), path)
      if lesson and #problems == 0 then inside[#inside + 1] = lesson end
    end
  end
  table.sort(inside, function(a, b) return a.number < b.number end)
  return inside
end

--- A lesson by name, by number, by the beginning of its name, or by path. A path on disk wins.
---@param name string
---@return table|nil lesson
---@return string|nil message
function find.lesson(name)
  if name:find("/", 1, true) or name:find("%.lua$") then return find.file(name) end
  local begins, number = {}, math.tointeger(tonumber(name))
  for _, lesson in ipairs(find.all()) do
    if lesson.name == name or number and lesson.number == number then return lesson end
    if lesson.name:sub(1, #name) == name:lower() then begins[#begins + 1] = lesson end
  end
  if #begins == 1 then return begins[1] end
  local names = {}
  for _, lesson in ipairs(#begins > 1 and begins or find.all()) do names[#names + 1] = lesson.name end
  return nil, ('no lesson "%s"; there are %s'):format(name, table.concat(names, ", "))
end

--- The lesson that explains a code of errors, or nil.
---@param code string such as SHAPE-2
---@return table|nil
function find.explaining(code)
  for _, lesson in ipairs(find.all()) do
    for _, each in ipairs(lesson.explains) do
      if each == code then return lesson end
    end
  end
end

--- The lesson after this one, or nil.
function find.next(lesson)
  for _, other in ipairs(find.all()) do
    if other.number == lesson.number + 1 then return other end
  end
end

return find
