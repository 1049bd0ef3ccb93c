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

  local names = {"root", "loader", "extensions", "transform", "target_transform", "is_valid_file", "allow_empty", needed = 1}

  local function gather(self, who, a)
    if type(a.root) ~= "string" then error(("%s: the folder must be a string, not a %s"):format(who, type(a.root)), 4) end
    for _, name in ipairs {"loader", "transform", "target_transform", "is_valid_file"} do
      local f = a[name]
      if f ~= nil and type(f) ~= "function" and not (type(f) == "table" and getmetatable(f) and getmetatable(f).__call) then
        error(("%s: %s must be a function, not a %s"):format(who, name, type(f)), 4)
      end
    end
    self.root = #a.root > 1 and a.root:gsub("/+$", "") or a.root
    self.loader, self.transform, self.target_transform = a.loader, a.transform, a.target_transform
    self.classes = torch._directory(self.root)
    if not self.classes then error(("%s: there is no folder %s"):format(who, self.root), 4, "io") end
    if #self.classes == 0 then
      error(("%s: %s holds no folders; it must hold one for each class, with the files inside"):format(who, self.root), 4, "io")
    end
    local wanted
    if a.is_valid_file then
      wanted = function(path) return a.is_valid_file(path) end
    else
      local known = endings(who, a.extensions)
      wanted = function(_, name)
        local ending = name:match "%.([^.]*)$"
        return ending ~= nil and known[ending:lower()] == true
      end
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
      error(("%s: there are no files for %s in %s%s; allow_empty = true lets them be"):format(who, #empty == 1 and "class " .. empty[1] or "the classes " .. table.concat(empty, ", ", 1, math.min(10, #empty)),
        self.root, a.is_valid_file and "" or " (wanted: ." .. table.concat(type(a.extensions) == "table" and a.extensions or {a.extensions}, ", .") .. ")"), 4, "io")
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
    return ("%s: %d files of %d classes in %s"):format(self._name, #self.samples, #self.classes, self.root)
  end

  ---Reads a picture as RGB, uint8 [3, height, width]: what ImageFolder loads with.
  ---@param path string
  ---@return Tensor
  function data.default_loader(path) return data.read_image(path, {mode = "rgb"}) end

  ---A folder with a folder of pictures for each class, as DatasetFolder: items are {picture, class}, the picture uint8 [3, height, width]
  ---unless the transform makes something else of it.
  data.ImageFolder = class("ImageFolder", data.DatasetFolder)
  function data.ImageFolder:init(...)
    local a = arguments("ImageFolder", {"root", "transform", "target_transform", "loader", "extensions", "is_valid_file", "allow_empty", needed = 1},
      {extensions = pictures, loader = data.default_loader}, ...)
    gather(self, "ImageFolder", a)
  end
  data.ImageFolder.__len, data.ImageFolder.__tostring = data.DatasetFolder.__len, data.DatasetFolder.__tostring

  for _, name in ipairs {"DatasetFolder", "ImageFolder"} do
    data[name].__add = function(a, b) return data.ConcatDataset {a, b} end
  end
end
