-- A course: a folder whose folders are its chapters and whose files are its lessons, inside the program or on the
-- disk. A folder's order.txt may hold its title, `# TITLE`, and the order, a name a line; files that it does not
-- name follow, those with a number (`--# lesson N`) first, then by name. Only the heads of lessons are read here;
-- the rest is parsed when it is asked for.
local parse = require "shell.lesson.parse"

local course = {}

local ORDER = "order.txt"

--- The text of a file on the disk.
---@return string|nil text
---@return string|nil message
function course.text(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text = file:read("a")
  file:close()
  if not text then return nil, path .. ": it cannot be read" end
  return text
end

-- --- what a folder holds ---

-- Names in the folder, "name.lua" or "name/", of the program's own files.
local function embedded_names(folder)
  local names, seen = {}, {}
  for _, path in ipairs(torch._embedded()) do
    local name = path:sub(1, #folder + 1) == folder .. "/" and path:sub(#folder + 2):match "^[^/]+/?"
    if name and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return names
end

local function disk_names(folder)
  local folders, names = torch._directory(folder)
  if not folders then error(("there is no folder %s"):format(folder), 0) end
  for _, name in ipairs(folders) do names[#names + 1] = name .. "/" end
  return names
end

local INSIDE = {names = embedded_names, text = function(path) return torch._embedded(path) end}
local DISK = {names = disk_names, text = course.text}

-- `order.txt`: the title, name -> place, and name -> line; nothing where there is none.
local function order_of(tree, folder, names)
  local title, places, lines
  for _, name in ipairs(names) do
    if name == ORDER then
      local at, n = 0, 0
      places, lines = {}, {}
      for line in ((tree.text(folder .. "/" .. ORDER) or ""):gsub("\r", "") .. "\n"):gmatch "(.-)\n" do
        local word = line:match "^%s*([^#%s]%S*)%s*$"
        title = title or line:match "^#%s*(.-)%s*$"
        at = at + 1
        if word then
          n = n + 1
          places[word], lines[word] = n, at
        end
      end
    end
  end
  return title, places, lines
end

-- Names of an order.txt that nothing in its folder has.
local function missing_in(folder, lines, has, missing)
  for name, line in pairs(lines or {}) do
    if not has[name] then missing[#missing + 1] = {path = folder .. "/" .. ORDER, line = line, name = name} end
  end
end

-- --- records ---

local lazy = {}

-- Whatever is not in a lesson's head is parsed at its first use.
function lazy.__index(record, key)
  if key ~= "steps" and key ~= "problems" then return nil end
  local text = record.tree.text(record.path)
  local lesson, problems = parse.lesson(text or "", record.path)
  rawset(record, "steps", lesson and lesson.steps or {})
  rawset(record, "problems", problems)
  rawset(record, "see_line", lesson and lesson.see_line)
  rawset(record, "explains_line", lesson and lesson.explains_line)
  return rawget(record, key)
end

--- The record of one lesson: name, path, title, see, explains; steps and problems when they are asked for.
---@return table|nil record nil where the file cannot be read
---@return string|nil message
function course.record(path, tree)
  tree = tree or DISK
  local text, message = tree.text(path)
  if not text then return nil, message end
  local record = parse.head(text, path)
  record.tree = tree
  return setmetatable(record, lazy)
end

local function chapter_of(tree, folder, name, missing)
  local names = tree.names(folder)
  local title, places, lines = order_of(tree, folder, names)
  local has = {}
  local chapter = {name = name, title = title or name:sub(1, 1):upper() .. name:sub(2):gsub("_", " "), lessons = {}, path = folder}
  for _, file in ipairs(names) do
    if file:find "%.lua$" then
      local record = course.record(folder .. "/" .. file, tree)
      if record then
        record.chapter = chapter
        has[record.name] = true
        chapter.lessons[#chapter.lessons + 1] = record
      end
    end
  end
  local function place(record) return places and places[record.name] or math.huge end
  table.sort(chapter.lessons, function(a, b)
    if place(a) ~= place(b) then return place(a) < place(b) end
    local m, n = a.number or math.huge, b.number or math.huge
    if m ~= n then return m < n end
    return a.path < b.path
  end)
  if missing then missing_in(folder, lines, has, missing) end
  return chapter
end

--- Reads a course. With an order.txt only the folders that it names are chapters; lessons beside the folders are
--- a chapter before them. Raises where there is no such folder.
---@param folder string
---@param tree? table where files are: those of the disk unless given
---@return table course {title=, chapters = {{name=, title=, lessons=}}, lessons = {record}, missing = {{path=, line=, name=}}}
function course.read(folder, tree)
  tree = tree or DISK
  folder = folder:gsub("(.)/+$", "%1")
  local names = tree.names(folder)
  local title, places, lines = order_of(tree, folder, names)
  local base = folder:match "([^/]+)$" or folder
  local chapters, missing = {chapter_of(tree, folder, base)}, {}
  local folders, has = {}, {}
  for _, name in ipairs(names) do
    local bare = name:match "^(.*)/$"
    if bare and not bare:find "^%." and (not places or places[bare]) then folders[#folders + 1] = bare end
    has[bare or ""] = true
  end
  for _, record in ipairs(chapters[1].lessons) do has[record.name] = true end
  missing_in(folder, lines, has, missing)
  table.sort(folders, function(a, b)
    if places then return places[a] < places[b] end
    return a < b
  end)
  for _, name in ipairs(folders) do chapters[#chapters + 1] = chapter_of(tree, folder .. "/" .. name, name, missing) end
  local found = {title = title or base, path = folder, chapters = {}, lessons = {}, missing = missing}
  for _, chapter in ipairs(chapters) do
    if #chapter.lessons > 0 then found.chapters[#found.chapters + 1] = chapter end
    for _, record in ipairs(chapter.lessons) do
      found.lessons[#found.lessons + 1] = record
      record.place = #found.lessons
      -- What progress calls it: a class may have a lesson of a name that the program's course has, too.
      record.key = tree == INSIDE and record.name or base:gsub("[^%w_%-]", "_") .. "." .. record.name:gsub("[^%w_%-%.]", "_")
    end
  end
  return found
end

local inside

--- The course inside the program.
function course.inside()
  inside = inside or course.read("tutorials", INSIDE)
  return inside
end

return course
