-- Known data and folders of pictures: read from files in their own formats, which the tests make themselves.
local data = torch.utils.data

local function write(path, bytes)
  os.execute("mkdir -p " .. check.quote((path:match "^(.*)/")))
  local f = assert(io.open(path, "wb"))
  f:write(bytes)
  f:close()
  return path
end

test("mnist reads IDX files, packed or not, and says where to get them", function()
  local dir = check.temp "mnist"
  local pixels = {}
  for i = 1, 3 * 4 do pixels[i] = string.char(i * 20) end
  write(dir .. "/train-images-idx3-ubyte", "\0\0\8\3" .. (">I4I4I4"):pack(3, 2, 2) .. table.concat(pixels))
  local labels = write(dir .. "/train-labels-idx1-ubyte", "\0\0\8\1" .. (">I4"):pack(3) .. "\0\9\4")
  os.execute("gzip -f " .. check.quote(labels))
  local set = data.mnist(dir)
  check.equal(#set, 3)
  check.equal(set.labels, {1, 10, 5})
  check.equal(set.classes[10], "9")
  local x, y = table.unpack(set:get(2))
  check.close(x, {{{100 / 255, 120 / 255}, {140 / 255, 160 / 255}}})
  check.equal(y:item(), 10)
  local bytes = data.mnist(dir, {dtype = "uint8"})
  check.dtype(bytes.tensors[1], "uint8")
  set = data.mnist(dir, {transform = data.transforms.Resize(4), target_transform = function(label) return label * 2 end})
  for pictures, twice in data.DataLoader(set, {batch_size = 3})() do
    check.shape(pictures, {3, 1, 4, 4})
    check.dtype(pictures, "uint8")
    check.equal(twice, {2, 20, 10})
  end
  local err = check.raises("io", "no t10k-images-idx3-ubyte", data.mnist, dir, {train = false})
  check.contains(err.message, "curl -LO https://")
  check.contains(err.message, "1648877 bytes")
  check.raises("io", "train-images-idx3-ubyte.gz  # 26421880 bytes", data.fashion_mnist, "/nowhere")
  check.raises("argument", "must be a string", data.mnist, 3)
  write(dir .. "/train-labels-idx1-ubyte", "\0\0\8\1" .. (">I4"):pack(2) .. "\0\9")
  check.raises("io", "a label for each of 3 pictures", data.mnist, dir)
  write(dir .. "/train-labels-idx1-ubyte", "\0\0\8\1" .. (">I4"):pack(3) .. "\0\9\77")
  check.raises("io", "labels from 0 to 9, not 77", data.mnist, dir)
end)

test("cifar10 reads the binary batches", function()
  local dir = check.temp "cifar"
  for i = 1, 5 do
    local record = string.char(i - 1) .. ("\0"):rep(1024) .. ("\255"):rep(1024) .. ("\51"):rep(1024)
    write(("%s/cifar-10-batches-bin/data_batch_%d.bin"):format(dir, i), record:rep(2))
  end
  local set = data.cifar10(dir)
  check.equal(#set, 10)
  check.equal(set.labels, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5})
  local x, y = table.unpack(set:get(10))
  check.shape(x, {3, 32, 32})
  check.close(x[{{}, 7, 9}], {0, 1, 0.2})
  check.equal(set.classes[y:item()], "deer")
  check.raises("io", "no test_batch.bin", data.cifar10, dir, {train = false})
  local path = write(dir .. "/test_batch.bin", ("x"):rep(3073))
  check.raises("io", "a label is 120, above 9", data.cifar10, dir, {train = false})
  write(path, "short")
  check.raises("io", "records of 3073 bytes, but has 5", data.cifar10, dir, {train = false})
end)

test("digits come with the program, wherever it is started", function()
  local set = data.digits()
  check.equal(#set, 1797)
  check.shape(set.images, {1797, 1, 8, 8})
  check.equal(set.labels[{{1, 4}}], {1, 2, 3, 4})
  check.equal(set.images:max():item(), 1)
  local r = check.tycho({"-e", "print(#torch.utils.data.digits())"}, {before = "TYCHO_DATA=$PWD/scripts/data && export TYCHO_DATA"})
  check.equal(r.out, "1797\n", r.err)
  check.raises("io", "TYCHO_DATA", data.digits, "/nowhere")
end)

local function folder()
  local root = check.temp "pets"
  os.execute("rm -rf " .. check.quote(root))
  for class, count in pairs {cat = 3, dog = 2} do
    os.execute("mkdir -p " .. check.quote(root .. "/" .. class .. "/more"))
    for i = 1, count do
      data.write_image(torch.full({3, 4, 6}, (class == "cat" and 10 or 200) + i, {dtype = "uint8"}),
        ("%s/%s/%s%d.%s"):format(root, class, i == 2 and "more/" or "", i, i == 1 and "PNG" or i == 2 and "jpg" or "ppm"))
    end
    write(root .. "/" .. class .. "/notes.txt", "no picture")
  end
  write(root .. "/.hidden/x.png", "")
  return root
end

test("ImageFolder takes classes from the folders' names and reads pictures when asked", function()
  local root = folder()
  local set = data.ImageFolder(root .. "/")
  check.equal(set.classes, {"cat", "dog"})
  check.equal(set.class_to_idx.dog, 2)
  check.equal(set.targets, {1, 1, 1, 2, 2})
  check.equal(#set, 5)
  check.equal(set.samples[1][1], root .. "/cat/1.PNG")
  check.equal(set.samples[3][1], root .. "/cat/more/2.jpg")
  local x, y = table.unpack(set:get(4))
  check.equal(x[{{}, 2, 2}], {201, 201, 201})
  check.equal(y, 2)
  check.contains(tostring(set), "5 files of 2 classes")
  check.raises("index", "item 6 of 5", set.get, set, 6)
  local T = data.transforms
  set = data.ImageFolder(root, {transform = T.Compose {T.Resize {2, 2}, T.ToTensor()}, target_transform = function(k) return k * 10 end})
  local seen = 0
  for pictures, labels in data.DataLoader(set, {batch_size = 5})() do
    check.shape(pictures, {5, 3, 2, 2})
    check.close(pictures[{1, 1, 1, 1}]:item(), 11 / 255, 1e-6)
    check.equal(labels, {10, 10, 10, 20, 20})
    seen = seen + 1
  end
  check.equal(seen, 1)
  check.equal(#data.ImageFolder(root, {extensions = {".ppm"}, allow_empty = true}), 1)
  check.equal(#data.ImageFolder(root, {is_valid_file = function(path) return path:find "1%.PNG$" ~= nil end}), 2)
  set = data.DatasetFolder(root, {loader = function(path) return path:match "[^/]*$" end, extensions = {"txt"}})
  check.equal(set:get(2), {"notes.txt", 2})
  check.equal(#(set + set), 4)
end)

test("folders without pictures, and damaged pictures, are named", function()
  local root = folder()
  check.raises("io", "no folder /nowhere", data.ImageFolder, "/nowhere")
  check.raises("io", "holds no folders", data.ImageFolder, root .. "/cat/more")
  os.execute("mkdir " .. check.quote(root .. "/owl"))
  check.raises("io", "no files for class owl", data.ImageFolder, root)
  check.equal(#data.ImageFolder(root, {allow_empty = true}).classes, 3)
  check.raises("argument", "transform must be a function, not a number", data.ImageFolder, root, {transform = 3})
  check.raises("argument", 'did you mean "transform"?', data.ImageFolder, root, {transfrom = print})
  write(root .. "/cat/1.PNG", "broken")
  check.raises("io", "cat/1.PNG is no PNG", function() data.ImageFolder(root, {allow_empty = true}):get(1) end)
  os.execute(("ln -s . %s/loop"):format(check.quote(root .. "/cat")))
  os.execute(("ln -s .. %s/again"):format(check.quote(root .. "/cat/more")))
  check.equal(#data.ImageFolder(root, {allow_empty = true}), 5)
end)

test("workers read folders, known data and tables, and share the pieces of a table", function()
  local T = data.transforms
  local set = data.ImageFolder(folder(), {transform = T.Compose {T.RandomCrop(4, {pad_if_needed = true}), T.ColorJitter(0.2), T.ToTensor(), function(x) return x + 1 end}})
  local count, sum = 0, 0
  for pictures, classes in data.DataLoader(set, {batch_size = 2, num_workers = 2})() do
    check.shape(pictures, {#classes, 3, 4, 4})
    check.yes(pictures:min():item() >= 1)
    count, sum = count + #classes, sum + classes:sum():item()
  end
  check.equal({count, sum}, {5, 7})
  local rows = {"x,y"}
  for i = 1, 100 do rows[i + 1] = i .. "," .. i % 3 end
  local table_set = data.CsvDataset(write(check.temp "folder/t.csv", table.concat(rows, "\n")), {target = "y", chunk = 7})
  for workers = 0, 3 do
    local seen, total = 0, 0
    for x in data.DataLoader(table_set, {batch_size = 8, num_workers = workers})() do
      seen, total = seen + #x, total + x:sum():item()
    end
    check.equal({seen, total}, {100, 5050}, workers)
  end
end)

-- A folder with files and folders in it, empty ones.
local function tree(name, ...)
  local root = check.temp(name)
  for _, path in ipairs {...} do
    local folder = (root .. "/" .. path):match "^(.*)/"
    os.execute("mkdir -p " .. check.quote(folder))
    local file = assert(io.open(root .. "/" .. path, "wb"))
    file:close()
  end
  return root
end
local function below(root, list)
  local out = {}
  for i, path in ipairs(list) do
    check.equal(path:sub(1, #root + 1), root .. "/")
    out[i] = path:sub(#root + 2)
  end
  return table.concat(out, " ")
end

test("list gives the files of a folder, of folders below, and the folders", function()
  local root = tree("listed", "b.png", "a.txt", ".hidden.png", "sub/c.PNG", "sub/deep/d.jpg", "other/e.txt")
  check.equal(below(root, data.list(root)), "a.txt b.png")
  check.equal(below(root, data.list(root .. "/")), "a.txt b.png")
  check.equal(below(root, data.list(root, {extensions = {"png", ".jpg"}, recursive = true})), "b.png sub/c.PNG sub/deep/d.jpg")
  check.equal(below(root, data.list(root, {folders = true})), "other sub")
  check.equal(below(root, data.list(root, {folders = true, recursive = true})), "other sub sub/deep")
  check.raises("io", "there is no folder /nowhere", data.list, "/nowhere")
  check.raises("io", "data.glob finds files by a pattern", data.list, root .. "/*.png")
  check.raises("argument", "must be a string, not a number", data.list, 3)
  check.raises("argument", "recursive is true or false, not 1", data.list, root, {recursive = 1})
end)

test("glob finds paths by the shell's patterns", function()
  local root = tree("globbed", "b.png", "c.png", ".h.png", "é.png", "[1].png", "sub/1.png", "sub/deep/2.png", "sub/deep/3.jpg", "50%.txt")
  for pattern, found in pairs {["*.png"] = "[1].png b.png c.png é.png", ["?.png"] = "b.png c.png é.png", ["[ab].png"] = "b.png", ["[!b-z].png"] = "",
    ["[[]1].png"] = "[1].png", ["**/*.png"] = "[1].png b.png c.png sub/1.png sub/deep/2.png é.png", ["**/deep/*"] = "sub/deep/2.png sub/deep/3.jpg",
    ["*/*"] = "sub/1.png sub/deep", ["50%.*"] = "50%.txt", ["sub"] = "sub", ["{b,c}.{png,jpg}"] = "b.png c.png", ["nothing/*"] = "", ["sub/1.png"] = "sub/1.png"} do
    check.equal(below(root, data.glob(root .. "/" .. pattern)), found, pattern)
  end
  check.contains(table.concat(data.glob "/us*", " "), "/usr")
  os.execute("ln -s .. " .. check.quote(root .. "/sub/back"))
  check.equal(#data.glob(root .. "/**/1.png"), 1)
  check.raises("argument", "must be a string", data.glob)
end)

test("a flat ImageFolder takes the pictures of one folder, with their paths", function()
  local root = check.temp "flat"
  os.execute("mkdir -p " .. check.quote(root .. "/more"))
  for i = 1, 3 do data.write_image(torch.rand(3, 4, 5), ("%s/%d_cat.png"):format(root, i)) end
  local set = data.ImageFolder(root, {flat = true})
  check.equal({#set, #set.classes, set:get(2)[2]}, {3, 0, root .. "/2_cat.png"})
  check.contains(tostring(set), "3 files in")
  local labelled = data.ImageFolder(root, {flat = true, target_transform = function(path) return tonumber(path:match "(%d+)_cat") end})
  for x, y in data.DataLoader(labelled, {batch_size = 3})() do
    check.shape(x, {3, 3, 4, 5})
    check.equal(y:tolist(), {1, 2, 3})
  end
  for _, paths in data.DataLoader(set, {batch_size = 3})() do check.equal(paths[3], root .. "/3_cat.png") end
  check.raises("io", "flat = true takes the pictures as they lie there", data.ImageFolder, tree("only_files", "a.png"))
  check.raises("io", "flat = true takes the pictures beside", data.ImageFolder, root)
  check.raises("io", "no pictures in", data.ImageFolder, root .. "/more", {flat = true})
  check.raises("io", "there is no folder", data.ImageFolder, root .. "/none", {flat = true})
  check.raises("argument", "flat is true or false, not 1", data.ImageFolder, root, {flat = 1})
end)
