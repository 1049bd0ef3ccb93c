-- Everything that help knows by name, as one list of entries: operations of the op table, rows of
-- torch/help_pages.lua, functions written in Lua, topics, Lua's keywords and library. An entry is
--   {path="torch.topk", name="topk", kind="op"|"row"|"lua"|"space"|"topic"|"library",
--    doc=one sentence, record= or row= or f= or space= or text=}
local torch = torch
local comments = require "shell.help.comments"
local catalog = {}

local entries, by_path, by_name

---The public tables by the names that help uses for them: a list of {prefix, table}.
function catalog.spaces()
  local nn, optim, data = torch.nn, torch.optim, torch.utils.data
  local Module = nn.Module  -- loads torch.nn
  local _ = torch.cuda.device  -- and all of torch.cuda
  _ = {torch.fork, torch.gradient}  -- and what stands with them
  local spaces = {
    {"torch", torch}, {"Tensor", torch._tensor_methods()}, {"nn", nn}, {"nn.init", rawget(nn, "init")}, {"F", nn.functional},
    {"optim", optim}, {"optim.lr_scheduler", optim.lr_scheduler}, {"optim.swa_utils", optim.swa_utils}, {"data", data}, {"data.transforms", data.transforms},
    {"data.transforms.functional", data.transforms.functional}, {"torch.linalg", rawget(torch, "linalg")}, {"torch.autograd", torch.autograd},
    {"torch.autograd.functional", torch.autograd.functional}, {"torch.func", torch.func}, {"torch.autograd.graph", torch.autograd.graph},
    {"torch.utils.checkpoint", torch.utils.checkpoint}, {"data.text", data.text}, {"data.text.BPETokenizer", data.text.BPETokenizer},
    {"torch.cuda", torch.cuda}, {"torch.cuda.comm", torch.cuda.comm}, {"torch.cuda.nvtx", torch.cuda.nvtx}, {"torch.io", rawget(torch, "io")}, {"torch.jit", torch.jit},
    {"nn.Module", rawget(Module, "_base")}, {"nn.utils", rawget(nn, "utils")}, {"nn.utils.rnn", rawget(nn, "utils").rnn},
    {"nn.parallel", rawget(nn, "parallel")}, {"nn.parallel.DistributedDataParallel", rawget(nn, "parallel").DistributedDataParallel},
    {"data.distributed", data.distributed},
  }
  for _, more in ipairs {"distributed", "amp", "multiprocessing", "models", "metrics"} do
    local value = torch[more]
    if type(value) == "table" then spaces[#spaces + 1] = {"torch." .. more, value} end
  end
  -- What all optimisers share.
  local meta = debug.getmetatable(optim.SGD)
  if meta and type(rawget(meta, "__index")) == "table" then
    spaces[#spaces + 1] = {"optim.Optimizer", rawget(meta, "__index")}
  end
  return spaces
end

-- One spelling of a path: "torch.nn.functional.relu" and "nn.functional.relu" are "F.relu".
function catalog.normal(path)
  path = path:gsub(":", ".")
  local whole = {["torch.nn"] = "nn", ["torch.nn.functional"] = "F", ["nn.functional"] = "F", ["torch.optim"] = "optim",
    ["torch.utils.data"] = "data", linalg = "torch.linalg", autograd = "torch.autograd"}
  if whole[path] then return whole[path] end
  local spelled = {
    {"torch.nn.functional.", "F."}, {"nn.functional.", "F."}, {"torch.nn.", "nn."}, {"torch.optim.", "optim."},
    {"torch.utils.data.", "data."}, {"torch.Tensor.", "Tensor."}, {"linalg.", "torch.linalg."}, {"autograd.", "torch.autograd."},
    {"np.", "numpy."},
  }
  for _, pair in ipairs(spelled) do
    if path:sub(1, #pair[1]) == pair[1] then return pair[2] .. path:sub(#pair[1] + 1) end
  end
  return path
end

local function add(entry, ...)
  entry.name = entry.path:match "[^.]*$"
  entries[#entries + 1] = entry
  for _, path in ipairs {entry.path, ...} do
    if not by_path[path] then by_path[path] = entry end
    local name = path:match "[^.]*$"
    local list = by_name[name] or {}
    by_name[name] = list
    if list[#list] ~= entry then list[#list + 1] = entry end
  end
end

local function add_ops()
  for _, record in ipairs(torch._ops()) do
    if not record.name:find "^_" then
      local paths = {}
      for _, place in ipairs(record.places) do paths[#paths + 1] = place .. "." .. record.name end
      for _, place in ipairs(record.inplace) do paths[#paths + 1] = place .. "." .. record.name .. "_" end
      local path = table.remove(paths, 1)
      if path == "torch." .. record.name and paths[1] == "Tensor." .. record.name then
        paths[1], path = path, paths[1]
      end
      if path then
        add({path = path, kind = "op", doc = record.signatures[1].doc, record = record}, table.unpack(paths))
      end
    end
  end
end

local function add_rows()
  for _, row in ipairs(require "torch.help_pages.all") do
    if not by_path[row[1]] then add {path = row[1], kind = "row", doc = row[3], row = row} end
  end
end

-- Comments are read when somebody asks for them.
local lazily = {__index = function(entry, key)
  if key ~= "found" and key ~= "doc" then return nil end
  local found = comments.of(entry.f)
  rawset(entry, "found", found)
  rawset(entry, "doc", found.doc)
  return rawget(entry, key)
end}

local function add_functions()
  local seen = {}
  for _, space in ipairs(catalog.spaces()) do
    local names = {}
    for name, value in next, space[2] or {} do
      if type(name) == "string" and not name:find "^_" and type(value) == "function" then names[#names + 1] = name end
    end
    table.sort(names)
    for _, name in ipairs(names) do
      local f, path = space[2][name], space[1] .. "." .. name
      if not by_path[path] and debug.getinfo(f, "S").what ~= "C" then
        if seen[f] then
          by_path[path] = seen[f]
        else
          seen[f] = setmetatable({path = path, kind = "lua", f = f}, lazily)
          add(seen[f])
        end
      end
    end
  end
end

local space_docs = {
  torch = "The module of tensors: operations as functions, and everything else.",
  Tensor = "The methods and fields of tensors: x:name(..), x.name.",
  nn = "Layers and losses for networks.", ["nn.init"] = "Fills parameters in place.",
  F = "Layers as functions: torch.nn.functional.", optim = "Optimisers: what trains parameters.",
  ["optim.lr_scheduler"] = "Schedules: rates that change as training goes on.",
  ["optim.swa_utils"] = "Averages of a model's weights: SWA and EMA.",
  data = "Datasets, samplers, loaders and readers: torch.utils.data.",
  ["data.transforms"] = "Changes of pictures on their way into training, as torchvision.transforms.v2.",
  ["data.transforms.functional"] = "The changes of data.transforms as plain functions.", ["torch.linalg"] = "Linear algebra.",
  ["torch.autograd"] = "Gradients beyond backward.", ["torch.autograd.functional"] = "Jacobians, Hessians and products with them.",
  ["torch.autograd.graph"] = "What the graph keeps for backward.", ["torch.utils.checkpoint"] = "Less memory for more time: values computed again.",
  ["data.text"] = "Texts as numbers: tokenizers and corpora.", ["data.text.BPETokenizer"] = "Byte-pair encoding of bytes, as GPT-2 has it: train, from_gpt2; its objects encode, decode, save.",
  ["torch.func"] = "Functions that turn functions into their derivatives, or into functions of many examples.",
  ["torch.jit"] = "PyTorch's names for torch.fork and torch.wait; nothing is compiled here.",
  ["torch.cuda"] = "CUDA devices, real or simulated.", ["torch.io"] = "Readers of further file formats.",
  ["torch.metrics"] = "How good predictions are: accuracy, confusion matrix, precision, recall, F1, running means; update, compute and reset as in torchmetrics.",
  ["torch.models"] = "Known networks, ready to train or to load weights into.",
  ["nn.utils"] = "Gradients held in bounds, parameters as one vector, reparametrised weights.",
  ["nn.parallel"] = "Networks on several processes or devices.", ["data.distributed"] = "PyTorch's place for DistributedSampler.",
  ["nn.utils.rnn"] = "Sequences of different lengths, padded or packed.", ["nn.Module"] = "What all layers and networks share.", ["optim.Optimizer"] = "What all optimisers share.",
}

local function add_spaces()
  for _, space in ipairs(catalog.spaces()) do
    if not by_path[space[1]] then
      add {path = space[1], kind = "space", doc = space_docs[space[1]] or "A part of torch.", space = space[2]}
    end
  end
end

-- "split.sizes", an operation's signature, is found under "split".
---@param word string of a see-also list
---@return table|nil entry
function catalog.see(word)
  return catalog.find(word)[1] or catalog.find(word:match "^[^.]*")[1]
end

local function build()
  entries, by_path, by_name = {}, {}, {}
  add_ops()
  add_rows()
  add_functions()
  add_spaces()
  local topics = require "shell.help.topics"
  for _, topic in ipairs(topics.topics) do
    local others = {}
    for name in (topic[5] or ""):gmatch "%S+" do others[#others + 1] = name end
    add({path = topic[1], kind = "topic", doc = topic[2], text = topic[3], see = topic[4]}, table.unpack(others))
  end
  for _, row in ipairs(topics.lua) do
    add {path = row[1], kind = "library", doc = row[3], arguments = row[2], keyword = row[2] == nil}
  end
end

---All entries, in the order ops, other names, functions, topics, Lua.
function catalog.entries()
  if not entries then build() end
  return entries
end

---The entries of a path ("torch.topk", "x:view", "nn.Linear") or of a bare name, best first.
---@param path string
---@return table[] entries
function catalog.find(path)
  catalog.entries()
  local normal = catalog.normal(path)
  local found = {}
  local exact = by_path[normal] or by_path[path]
  local named = by_path[path]
  if named and named.kind == "topic" then exact = named end  -- before a part of torch of the same name
  if exact then found[1] = exact end
  if not exact and not normal:find("[.]") then
    for _, entry in ipairs(by_name[normal] or {}) do found[#found + 1] = entry end
    -- A plain name means the operation or the topic before a method of a class.
    local rank = {op = 1, topic = 2, library = 3, row = 4, lua = 5, space = 6}
    table.sort(found, function(a, b)
      if rank[a.kind] ~= rank[b.kind] then return rank[a.kind] < rank[b.kind] end
      return #a.path == #b.path and a.path < b.path or #a.path < #b.path
    end)
  end
  return found
end

---The entry of a path, or nil.
function catalog.at(path)
  catalog.entries()
  return by_path[catalog.normal(path)]
end

return catalog
