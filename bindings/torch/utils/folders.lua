-- Files in folders as datasets: a folder for each class, read when they are asked for.
local torch = torch
local error = torch._raise
local arguments = require "torch.utils.arguments"

return function(data)
  local class = data._class
  local pictures = {"png", "jpg", "jpeg", "ppm", "pgm", "pbm", "pnm"}

  ---The bytes of a file as a tensor uint8 [n].
  ---@param path string
  ---@return Tensor
  function data.read_file(path) return torch._read_bytes(path) end

  local function endings(who, list)
    local known = {}
    for _, ending in ipairs(type(list) == "table" and list or {list}) do
      if type(ending) ~= "string" then error(("%s: extensions are texts such as \"png\", not %s"):format(who, tostring(ending)), 4, "value") end
      known[ending:lower():gsub("^%.", "")] = true
    end
    return known
  end

  -- Appends the wanted files below a folder, in order; a link that leads back to a folder above is not followed.
  local function collect(path, wanted, found, above)
    local folders, files, id = torch._directory(path)
    if not folders or above[id] then return end
    above[id] = true
    for _, name in ipairs(files) do
      local full = path .. "/" .. name
      if wanted(full, name) then found[#found + 1] = full end
    end
    for _, name in ipairs(folders) do collect(path .. "/" .. name, wanted, found, above) end
    above[id] = nil
  end

  local function without_slash(path) return #path > 1 and path:gsub("/+$", "") or path end

  -- Which files are wanted, by the end of their names: f(path, name).
  local function by_ending(who, list)
    local known = endings(who, list)
    return function(_, name)
      local ending = name:match "%.([^.]*)$"
      return ending ~= nil and known[ending:lower()] == true
    end
  end

  ---The files in a folder as a sorted list of paths; names that begin with a dot are left out.
  ---@param folder string
  ---@param options? {extensions: string|string[], recursive: boolean, folders: boolean} only names that end so ("png"); also those
  ---in folders below; the folders instead of the files
  ---@return string[]
  function data.list(folder, options)
    local a = arguments("list", {"folder", "extensions", "recursive", "folders", needed = 1}, {recursive = false, folders = false}, folder, options)
    if type(a.folder) ~= "string" then error(("list: the folder must be a string, not a %s"):format(type(a.folder)), 2) end
    for _, name in ipairs {"recursive", "folders"} do
      if type(a[name]) ~= "boolean" then error(("list: %s is true or false, not %s"):format(name, tostring(a[name])), 2) end
    end
    local wanted = a.extensions ~= nil and by_ending("list", a.extensions) or function() return true end
    local root, found = without_slash(a.folder), {}
    local inside, files = torch._directory(root == "" and "." or root)
    if not inside then error(("list: there is no folder %s%s"):format(root, root:find "[*?%[]" and "; data.glob finds files by a pattern" or ""), 2, "io") end
    if a.recursive and not a.folders then
      collect(root, wanted, found, {})
      table.sort(found)
      return found
    end
    local before = root == "/" and root or root == "" and "" or root .. "/"
    local function add(prefix, names)
      for _, name in ipairs(names) do
        if wanted(prefix .. name, name) then found[#found + 1] = prefix .. name end
      end
    end
    add(before, a.folders and inside or files)
    if a.recursive then  -- folders in folders
      local i = 1
      while found[i] do
        add(found[i] .. "/", (torch._directory(found[i])) or {})
        i = i + 1
      end
      table.sort(found)
    end
    return found
  end

  -- A part of a path pattern as a pattern of Lua: * ? [a-z] [!a-z].
  local function pattern_of(part)
    local out, i = {"^"}, 1
    while i <= #part do
      local c = part:sub(i, i)
      local set = c == "[" and part:match("^%[!?%]?[^%]]*%]", i)
      if c == "*" then out[#out + 1] = ".*"
      elseif c == "?" then out[#out + 1] = utf8.charpattern
      elseif set then
        local negated = set:sub(2, 2) == "!"
        out[#out + 1] = "[" .. (negated and "^" or "") .. set:sub(negated and 3 or 2, -2):gsub("[%%%^%]]", "%%%0") .. "]"
        i = i + #set - 1
      else
        out[#out + 1] = (c:gsub("%p", "%%%0"))
      end
      i = i + 1
    end
    return table.concat(out) .. "$"
  end

  -- The patterns that one with braces stands for: "a.{jpg,png}" is "a.jpg" and "a.png".
  local function spread(pattern, out)
    local before, list, after = pattern:match "^(.-)(%b{})(.*)$"
    if not before then
      out[#out + 1] = pattern
      return out
    end
    for part in (list:sub(2, -2) .. ","):gmatch "([^,]*)," do spread(before .. part .. after, out) end
    return out
  end

  ---The files and folders whose paths fit a pattern, as a sorted list: * stands for any letters, ? for one, [a-z] for one of these,
  ---{jpg,png} for either, and ** for folders at any depth, as in data.glob "photos/**/*.{jpg,png}". Names that begin with a dot
  ---fit no wildcard.
  ---@param pattern string
  ---@return string[]
  function data.glob(pattern)
    if type(pattern) ~= "string" then error(('glob: the pattern must be a string such as "photos/*.png", not a %s'):format(type(pattern)), 2) end
    local found, parts = {}, {}
    local function walk(prefix, k, above)
      local part, last = parts[k], k == #parts
      if part == nil then
        found[#found + 1] = prefix ~= "" and prefix or nil
        return
      end
      if not part:find "[*?%[]" then
        local path = prefix .. part
        if torch._directory(path) then
          if last then found[#found + 1] = path else walk(path .. "/", k + 1, above) end
        elseif last then
          local file = io.open(path, "rb")
          if file then
            file:close()
            found[#found + 1] = path
          end
        end
        return
      end
      local folders, files, id = torch._directory(prefix == "" and "." or prefix)
      if not folders then return end
      if part == "**" then
        if above[id] then return end  -- a link that leads back
        above[id] = true
        if last then
          for _, name in ipairs(files) do found[#found + 1] = prefix .. name end
        else
          walk(prefix, k + 1, above)
        end
        for _, name in ipairs(folders) do walk(prefix .. name .. "/", k, above) end
        above[id] = nil
        return
      end
      local fits = pattern_of(part)
      for _, list in ipairs(last and {folders, files} or {folders}) do
        for _, name in ipairs(list) do
          if name:find(fits) then
            if last then found[#found + 1] = prefix .. name else walk(prefix .. name .. "/", k + 1, above) end
          end
        end
      end
    end
    for _, one in ipairs(spread(pattern, {})) do
      parts = {}
      for part in one:gmatch "[^/]+" do parts[#parts + 1] = part end
      walk(one:sub(1, 1) == "/" and "/" or "", 1, {})
    end
    table.sort(found)
    local out = {}
    for _, path in ipairs(found) do
      if path ~= out[#out] then out[#out + 1] = path end
    end
    return out
  end

  local names = {"root", "loader", "extensions", "transform", "target_transform", "is_valid_file", "allow_empty", needed = 1}

  -- A folder whose files have no classes: {path, path}.
  local function gather_flat(self, who, a, wanted)
    self.classes, self.class_to_idx, self.samples, self.targets = {}, {}, {}, {}
    local folders, files = torch._directory(self.root)
    if not folders then error(("%s: there is no folder %s"):format(who, self.root), 5, "io") end
    for _, name in ipairs(files) do
      local path = (self.root == "/" and "" or self.root) .. "/" .. name
      if wanted(path, name) then self.samples[#self.samples + 1] = {path, path} end
    end
    if #self.samples == 0 and not a.allow_empty then
      error(("%s: there are no pictures in %s%s; allow_empty = true lets it be"):format(who, self.root,
        #folders > 0 and (", only folders (%s, ..); without flat = true each is a class"):format(folders[1]) or ""), 5, "io")
    end
  end

  local function gather(self, who, a)
    if type(a.root) ~= "string" then error(("%s: the folder must be a string, not a %s"):format(who, type(a.root)), 4) end
    for _, name in ipairs {"loader", "transform", "target_transform", "is_valid_file"} do
      local f = a[name]
      if f ~= nil and type(f) ~= "function" and not (type(f) == "table" and getmetatable(f) and getmetatable(f).__call) then
        error(("%s: %s must be a function, not a %s"):format(who, name, type(f)), 4)
      end
    end
    self.root = without_slash(a.root)
    self.loader, self.transform, self.target_transform = a.loader, a.transform, a.target_transform
    local wanted = a.is_valid_file and function(path) return a.is_valid_file(path) end or by_ending(who, a.extensions)
    if a.flat ~= nil and type(a.flat) ~= "boolean" then error(("%s: flat is true or false, not %s"):format(who, tostring(a.flat)), 4) end
    if a.flat then return gather_flat(self, who, a, wanted) end
    local files
    self.classes, files = torch._directory(self.root)
    if not self.classes then error(("%s: there is no folder %s"):format(who, self.root), 4, "io") end
    if #self.classes == 0 then
      error(("%s: %s holds no folders; it must hold one for each class, with the files inside%s"):format(who, self.root,
        who == "ImageFolder" and #files > 0 and "; flat = true takes the pictures as they lie there" or ""), 4, "io")
    end
    self.class_to_idx, self.samples, self.targets = {}, {}, {}
    local empty = {}
    for i, name in ipairs(self.classes) do
      self.class_to_idx[name] = i
      local found = {}
      collect(self.root .. "/" .. name, wanted, found, {})
      if #found == 0 then empty[#empty + 1] = name end
      for _, path in ipairs(found) do
        self.samples[#self.samples + 1] = {path, i}
        self.targets[#self.targets + 1] = i
      end
    end
    if #empty > 0 and not a.allow_empty then
      error(("%s: there are no files for %s in %s%s; allow_empty = true lets them be%s"):format(who, #empty == 1 and "class " .. empty[1] or "the classes " .. table.concat(empty, ", ", 1, math.min(10, #empty)),
        self.root, a.is_valid_file and "" or " (wanted: ." .. table.concat(type(a.extensions) == "table" and a.extensions or {a.extensions}, ", .") .. ")",
        who == "ImageFolder" and #files > 0 and "; flat = true takes the pictures beside these folders" or ""), 4, "io")
    end
  end

  ---A folder with a folder of files for each class: item i is {loader(path), class}, classes being counted from 1 in sorted order. It has
  ---classes (names), class_to_idx, samples (a list of {path, class}) and targets. Files are read when items are asked for.
  data.DatasetFolder = class("DatasetFolder", data.Dataset)
  function data.DatasetFolder:init(...)
    local a = arguments("DatasetFolder", names, {}, ...)
    if a.loader == nil then error("DatasetFolder: wants a loader, a function that makes something of a path", 3) end
    if a.extensions == nil and a.is_valid_file == nil then error('DatasetFolder: wants extensions, as in {"npy"}, or is_valid_file', 3) end
    gather(self, "DatasetFolder", a)
  end
  function data.DatasetFolder:get(i)
    local sample = self.samples[i]
    if not sample then error(("%s: item %s of %d (positions count from 1)"):format(self._name, tostring(i), #self.samples), 2, "index") end
    local x, y = self.loader(sample[1]), sample[2]
    if self.transform then x = self.transform(x) end
    if self.target_transform then y = self.target_transform(y) end
    return {x, y}
  end
  data.DatasetFolder.__len = function(self) return #self.samples end
  data.DatasetFolder.__tostring = function(self)
    if #self.classes == 0 then return ("%s: %d files in %s"):format(self._name, #self.samples, self.root) end
    return ("%s: %d files of %d classes in %s"):format(self._name, #self.samples, #self.classes, self.root)
  end

  ---Reads a picture as RGB, uint8 [3, height, width]: what ImageFolder loads with.
  ---@param path string
  ---@return Tensor
  function data.default_loader(path) return data.read_image(path, {mode = "rgb"}) end

  ---A folder with a folder of pictures for each class, as DatasetFolder: items are {picture, class}, the picture uint8 [3, height, width]
  ---unless the transform makes something else of it. flat = true: pictures that lie in the folder itself, without classes; items
  ---are then {picture, path}, and target_transform makes a label of the path.
  data.ImageFolder = class("ImageFolder", data.DatasetFolder)
  function data.ImageFolder:init(...)
    local a = arguments("ImageFolder", {"root", "transform", "target_transform", "loader", "extensions", "is_valid_file", "allow_empty", "flat", needed = 1},
      {extensions = pictures, loader = data.default_loader}, ...)
    gather(self, "ImageFolder", a)
  end
  data.ImageFolder.__len, data.ImageFolder.__tostring = data.DatasetFolder.__len, data.DatasetFolder.__tostring

  for _, name in ipairs {"DatasetFolder", "ImageFolder"} do
    data[name].__add = function(a, b) return data.ConcatDataset {a, b} end
  end
end
