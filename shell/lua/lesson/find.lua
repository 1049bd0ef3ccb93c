-- Finds lessons: those of the program's course, and of a class that was opened, by name, and files by path.
local course = require "shell.lesson.course"
local parse = require "shell.lesson.parse"
local T = require("torch.language").text

local find = {}

--- Parses a lesson from a file.
---@param path string
---@return table|nil lesson
---@return string|nil message
---@return table|nil problems
function find.file(path)
  local text, message = course.text(path)
  if not text then return nil, message end
  local lesson, problems = parse.lesson(text, path)
  if #problems > 0 then
    return nil, ("%s:%d: %s"):format(path, problems[1].line, problems[1].message), problems
  end
  return lesson
end

local class  -- the one that was opened

--- The course: {chapters=, lessons=}; a class's own one where it was opened.
function find.course() return class or course.inside() end

--- Opens a class: its folder's lessons are the course from now on; those of the program are still found by name.
---@param folder string
---@return table|nil course
---@return string|nil message
function find.open_class(folder)
  local ok, found = pcall(course.read, folder)
  if not ok then return nil, tostring(found) end
  if #found.lessons == 0 then return nil, folder .. T": there are no lessons here: files that end in .lua, or folders of such" end
  class = found
  return found
end

--- All lessons of the course, in their order; their entries are parsed when they are asked for.
---@return table[]
function find.all() return find.course().lessons end

-- The one that is called so, or whose name begins so; nil and those that could be meant.
local function named(list, name)
  local begins = {}
  for _, each in ipairs(list) do
    if each.name == name then return each end
    if each.name:sub(1, #name) == name:lower() then begins[#begins + 1] = each end
  end
  if #begins == 1 then return begins[1] end
  return nil, begins
end

--- A chapter by its name or the beginning of it.
---@return table|nil
function find.chapter(name) return (named(find.course().chapters, name)) end

--- A lesson by name, by its number in the list, by the beginning of its name, or by path. A path on disk wins.
---@param name string
---@return table|nil lesson
---@return string|nil message
function find.lesson(name)
  if name:find("/", 1, true) or name:find("%.lua$") then return find.file(name) end
  local all = find.all()
  local number = math.tointeger(tonumber(name))
  local lesson, begins = all[number or 0], nil
  if not lesson then lesson, begins = named(all, name) end
  if not lesson and class then lesson = named(course.inside().lessons, name) end
  if lesson and #lesson.problems > 0 then
    local p = lesson.problems[1]
    return nil, T("%s:%d: %s; `tycho --check %s` lists what is wrong"):format(lesson.path, p.line, p.message, lesson.path)
  end
  if lesson then return lesson end
  local names = {}
  for _, each in ipairs(#begins > 0 and begins or find.course().chapters) do names[#names + 1] = each.name end
  return nil, (#begins > 0 and T'no lesson "%s"; there are %s' or T'no lesson "%s"; there are the chapters %s'):format(name, table.concat(names, ", "))
end

--- The lesson that explains a code of errors, or nil; a class's own one comes first.
---@param code string such as SHAPE-2
---@return table|nil
function find.explaining(code)
  for _, from in ipairs {find.course(), course.inside()} do
    for _, lesson in ipairs(from.lessons) do
      for _, each in ipairs(lesson.explains) do
        if each == code then return lesson end
      end
    end
  end
end

--- The lesson after this one, or nil.
function find.next(lesson) return lesson.place and find.all()[lesson.place + 1] end

--- The first lesson that is not done yet, looked for from the one behind `lesson` on, then from the first; nil when all are.
---@param kept table what progress.read gave
---@param lesson? table
---@return table|nil
function find.unfinished(kept, lesson)
  local all, from = find.all(), lesson and lesson.place or 0
  for i = 1, #all do
    local each = all[(from + i - 1) % #all + 1]
    if not (kept[each.key] and kept[each.key].done) then return each end
  end
end

return find
