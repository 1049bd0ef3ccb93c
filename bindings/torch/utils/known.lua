-- Well known data: MNIST and its relatives, CIFAR-10, UCI's digits. They are read when their files are there;
-- otherwise the error says which files are wanted, how large they are and where to get them.
local torch = torch
local error = torch._raise
local arguments = require "torch.utils.arguments"

return function(data)
  local class = data._class

  local function exists(path)
    local f = io.open(path, "rb")
    if f then f:close() end
    return f ~= nil
  end

  -- Where data that comes with the program lies: $TYCHO_DATA, beside an installed program, in the source tree.
  local function own_places()
    local list = {os.getenv "TYCHO_DATA"}
    local program = torch._places()
    if program then
      list[#list + 1] = program .. "/../share/tycho/data"
      list[#list + 1] = program .. "/../scripts/data"
    end
    list[#list + 1] = "scripts/data"
    return list
  end

  -- The path of a file in one of the directories, packed or not; nil where it is not.
  local function find(directories, name, endings)
    for _, directory in ipairs(directories) do
      for _, ending in ipairs(endings) do
        local path = directory .. "/" .. name .. ending
        if exists(path) then return path end
      end
    end
  end

  -- Pictures with labels whose items pass through a transform; without one a TensorDataset does.
  local Pictures = class("Pictures", data.Dataset)
  data._Pictures = Pictures
  Pictures.__len = function(self) return #self.images end
  function Pictures:get(i)
    local x, y = self.images[i], self.labels[i]
    if self.transform then x = self.transform(x) end
    if self.target_transform then y = self.target_transform(y) end
    return {x, y}
  end
  Pictures.__add = function(a, b) return data.ConcatDataset {a, b} end

  -- The dataset of uint8 pictures [n, channels, height, width] and labels from 1.
  local function made(who, a, images, labels, classes, most)
    local set
    if a.transform or a.target_transform then
      set = setmetatable({transform = a.transform, target_transform = a.target_transform}, Pictures)
    else
      local dtype = tostring(a.dtype or "float32"):gsub("^torch%.", "")
      if dtype ~= "float32" and dtype ~= "uint8" then
        error(("%s: dtype is float32 (0 to 1) or uint8 (as in the file), not %s"):format(who, dtype), 3, "dtype")
      end
      if dtype == "float32" then images = images:float():div_(most) end
      set = data.TensorDataset(images, labels)
    end
    set.images, set.labels, set.classes = images, labels, classes
    return set
  end

  local function check_arguments(who, a)
    if a.root ~= nil and type(a.root) ~= "string" then error(("%s: the directory must be a string, not a %s"):format(who, type(a.root)), 3) end
    if type(a.train) ~= "boolean" then error(("%s: train is true or false, not %s"):format(who, tostring(a.train)), 3) end
    for _, name in ipairs {"transform", "target_transform"} do
      local f = a[name]
      if f ~= nil and type(f) ~= "function" and not (type(f) == "table" and getmetatable(f) and getmetatable(f).__call) then
        error(("%s: %s must be a function, not a %s"):format(who, name, type(f)), 3)
      end
    end
  end

  local names = {"root", "train", "transform", "target_transform", "dtype"}

  -- --- MNIST and what has its format ---

  local function idx_set(who, place, sizes, classes, folders, ...)
    local a = arguments(who, names, {train = true}, ...)
    check_arguments(who, a)
    local part = a.train and "train" or "t10k"
    local wanted = {part .. "-images-idx3-ubyte", part .. "-labels-idx1-ubyte"}
    local root, directories = a.root or ".", {}
    for i, folder in ipairs(folders) do directories[i] = root .. folder end
    local paths = {}
    for i, name in ipairs(wanted) do
      paths[i] = find(directories, name, {"", ".gz"})
      if not paths[i] then
        local lines = {}
        for file, size in sizes:gmatch "(%S+) (%S+)" do lines[#lines + 1] = ("  curl -LO %s%s  # %s bytes"):format(place, file, size) end
        error(("%s: there is no %s (or %s.gz) in %s; get its files into that directory:\n%s"):format(who, name, name, root, table.concat(lines, "\n")), 3, "io")
      end
    end
    local images, labels = torch.io.read_idx(paths[1]), torch.io.read_idx(paths[2])
    if images.ndim ~= 3 or images.dtype ~= torch.uint8 then
      error(("%s: %s must hold bytes [n, height, width], not %s %s"):format(who, paths[1], tostring(images.dtype), tostring(images.shape)), 3, "io")
    end
    if labels.ndim ~= 1 or #labels ~= #images then
      error(("%s: %s must hold a label for each of %d pictures, not %s"):format(who, paths[2], #images, tostring(labels.shape)), 3, "io")
    end
    if #labels > 0 and (labels:max():item() >= #classes or labels:min():item() < 0) then
      error(("%s: %s must hold labels from 0 to %d, not %d"):format(who, paths[2], #classes - 1, labels:max():item()), 3, "io")
    end
    return made(who, a, images:unsqueeze(2), labels:long() + 1, classes, 255)
  end

  local mnist_sizes = "train-images-idx3-ubyte.gz 9912422 train-labels-idx1-ubyte.gz 28881 t10k-images-idx3-ubyte.gz 1648877 t10k-labels-idx1-ubyte.gz 4542"
  local digits = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

  ---Handwritten digits (MNIST) from the four files in a directory, packed or not: a dataset of {picture, label}, the picture float32
  ---[1, 28, 28] from 0 to 1, labels 1..10 for the digits 0..9 (classes). train = false gives the test part; with a `transform` pictures
  ---come to it as uint8; dtype = "uint8" leaves them as bytes. The whole is in set.images and set.labels.
  ---@param root string
  ---@param options? {train: boolean, transform: function, target_transform: function, dtype: string}
  ---@return table
  function data.mnist(root, options)
    return idx_set("mnist", "https://ossci-datasets.s3.amazonaws.com/mnist/", mnist_sizes, digits, {"", "/MNIST/raw", "/mnist"}, root, options)
  end

  local fashion_sizes = "train-images-idx3-ubyte.gz 26421880 train-labels-idx1-ubyte.gz 29515 t10k-images-idx3-ubyte.gz 4422102 t10k-labels-idx1-ubyte.gz 5148"
  local clothes = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"}

  ---Clothes (Fashion-MNIST) in MNIST's format; see data.mnist.
  ---@param root string
  ---@param options? {train: boolean, transform: function, target_transform: function, dtype: string}
  ---@return table
  function data.fashion_mnist(root, options)
    return idx_set("fashion_mnist", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", fashion_sizes, clothes,
      {"", "/FashionMNIST/raw", "/fashion-mnist"}, root, options)
  end

  -- --- CIFAR-10 ---

  local things = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

  ---Small photographs in ten classes (CIFAR-10) from the files of its binary version: a dataset of {picture, label}, the picture float32
  ---[3, 32, 32] from 0 to 1, labels 1..10. Options as data.mnist's.
  ---@param root string
  ---@param options? {train: boolean, transform: function, target_transform: function, dtype: string}
  ---@return table
  function data.cifar10(root, options)
    local a = arguments("cifar10", names, {train = true}, root, options)
    check_arguments("cifar10", a)
    root = a.root or "."
    local wanted = a.train and {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"} or {"test_batch.bin"}
    local parts = {}
    for i, name in ipairs(wanted) do
      local path = find({root, root .. "/cifar-10-batches-bin"}, name, {""})
      if not path then
        local other = find({root, root .. "/cifar-10-batches-py"}, "data_batch_1", {""}) and " (only the Python version, which is not read)" or ""
        error(("cifar10: there is no %s in %s%s; get the binary version into that directory:\n  curl -LO https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz  # 170052171 bytes\n  tar xzf cifar-10-binary.tar.gz"):format(name, root, other), 2, "io")
      end
      local bytes = torch._read_bytes(path)
      if #bytes == 0 or #bytes % 3073 ~= 0 then
        error(("cifar10: %s must hold records of 3073 bytes, but has %d bytes"):format(path, #bytes), 2, "io")
      end
      parts[i] = bytes:view(-1, 3073)
      if parts[i][{{}, 1}]:max():item() > 9 then
        error(("cifar10: %s is damaged: a label is %d, above 9"):format(path, parts[i][{{}, 1}]:max():item()), 2, "io")
      end
    end
    local records = torch.cat(parts)
    local images = records[{{}, {2, 3073}}]:contiguous():view(-1, 3, 32, 32)
    return made("cifar10", a, images, records[{{}, 1}]:long() + 1, things, 255)
  end

  -- --- digits ---

  ---1,797 handwritten digits of 8 x 8 pixels (UCI), which come with the program: a dataset of {picture, label}, the picture float32
  ---[1, 8, 8] from 0 to 1, labels 1..10 for the digits 0..9. `root`: another directory of digits.csv or digits.csv.gz.
  ---@param root? string
  ---@param options? {transform: function, target_transform: function, dtype: string} a transform gets uint8 from 0 to 16
  ---@return table
  function data.digits(root, options)
    local a = arguments("digits", {"root", "transform", "target_transform", "dtype"}, {train = true}, root, options)
    check_arguments("digits", a)
    local path = find(a.root and {a.root} or own_places(), "digits.csv", {"", ".gz"})
    if not path then
      error(("digits: there is no digits.csv(.gz) in %s; it comes with the sources, in scripts/data: digits(\"DIRECTORY\") or the variable TYCHO_DATA say where it lies"):format(
        a.root or table.concat(own_places(), ", ")), 2, "io")
    end
    local t = data.read_csv(path, {header = false, dtype = "uint8"})
    if #t.names ~= 65 or t[65]:max():item() > 9 then error(("digits: %s must hold 64 pixels and a label from 0 to 9 in each row"):format(path), 2, "io") end
    local rows = t:tensor()
    return made("digits", a, rows[{{}, {1, 64}}]:contiguous():view(-1, 1, 8, 8), rows[{{}, 65}]:long() + 1, digits, 16)
  end
end
