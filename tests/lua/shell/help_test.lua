-- Help: every operation has a rule, examples that are true, and every public name has a page.
local help = require "shell.help"
local catalog = require "shell.help.catalog"
local comments = require "shell.help.comments"
local examples = require "shell.help.examples"
local globals = load "return _G"()  -- tests run in a table of their own

local function run_examples(name, text)
  local environment = examples.environment()
  for _, step in ipairs(examples.parse(text)) do
    local ok, shown = pcall(examples.run, step.code, environment)
    if not ok then return ("%s: %s raised %s"):format(name, step.code, tostring(shown)) end
    if shown ~= step.shown then
      return ("%s: %s shows\n%s\nbut its page says\n%s"):format(name, step.code, tostring(shown), tostring(step.shown))
    end
  end
end

test("every operation has a shape rule, an example and see-also names that exist", function()
  for _, record in ipairs(torch._ops()) do
    if not record.name:find "^_" then
      for _, s in ipairs(record.signatures) do
        check.yes(s.doc ~= "", s.id .. " has a sentence")
        check.yes(s.rule ~= "", s.id .. " has a shape rule")
        check.yes(s.example:find("-->", 1, true), s.id .. " has an example")
        for word in s.see:gmatch "[^,]+" do check.yes(catalog.see(word:match "^%s*(.-)%s*$"), s.id .. " names " .. word) end
      end
    end
  end
end)

test("every example of the op table shows what its page says", function()
  local wrong = {}
  for _, record in ipairs(torch._ops()) do
    for _, s in ipairs(record.signatures) do wrong[#wrong + 1] = run_examples(s.id, s.example) end
  end
  check.equal(table.concat(wrong, "\n"), "")
end)

test("every example of the help pages shows what its page says", function()
  local wrong = {}
  for _, row in ipairs(require "torch.help_pages.all") do
    if row.example then wrong[#wrong + 1] = run_examples(row[1], row.example) end
  end
  check.equal(table.concat(wrong, "\n"), "")
end)

test("every public name has a page with a sentence", function()
  local missing = {}
  for _, space in ipairs(catalog.spaces()) do
    for name, value in next, space[2] do
      local path = type(name) == "string" and space[1] .. "." .. name
      if path and not name:find "^_" and type(value) ~= "table" then
        local entry = catalog.at(path)
        if not entry or entry.doc == "" then missing[#missing + 1] = path end
      end
    end
  end
  table.sort(missing)
  check.equal(table.concat(missing, " "), "")
end)

test("help pages speak of names that exist", function()
  local pages = require "shell.help.pages"
  for _, row in ipairs(require "torch.help_pages.all") do
    check.yes(pages.value_at(row[1]) ~= nil or row[1]:find "^Tensor%.", row[1])
    for word in (row.see or ""):gmatch "[^,]+" do
      word = word:match "^%s*(.-)%s*$"
      check.yes(word:find "^%%" or catalog.see(word), row[1] .. " names " .. word)
    end
  end
end)

test("topics have pages that come before parts of torch of the same name", function()
  check.contains(help.page "autograd", "loss:backward()")
  for _, topic in ipairs {"tutorial", "lesson", "lessons", "cheatsheet", "gradient", "gradients", "accuracy", "progress", "quit", "exit"} do
    local entry = catalog.find(topic)[1]
    check.equal(entry and entry.kind, "topic", topic)
    for word in entry.see:gmatch "[^,]+" do
      word = word:match "^%s*(.-)%s*$"
      check.yes(word:find "^%%" or catalog.see(word), topic .. " names " .. word)
    end
    for line in (help.page(topic) .. "\n"):gmatch "(.-)\n" do check.yes(utf8.len(line) <= 80, line) end
  end
  check.contains(help.page "quit", "Ctrl-D")
end)

test("names of other libraries lead to pages that exist", function()
  for _, row in ipairs(require "shell.help.aliases") do check.yes(row[4] and catalog.find(row[4])[1], row[1]) end
  check.contains(help.page "cmul", "here a * b")
  check.contains(help.page "np.expand_dims", "x:unsqueeze(dim)")
end)

test("?name gives call, sentence, shape, examples and see-also", function()
  local page = help.page "topk"
  for _, part in ipairs {"x:topk(k, dim=-1", "The k largest", "[.., n, ..], k -> values", "> v, i = torch.tensor{3, 1, 4, 1, 5}:topk(2)", "5 4", "sort"} do
    check.contains(page, part)
  end
  check.contains(help.page "torch.topk", "torch.topk(x, k")
  check.contains(help.page "F.relu", "F.relu(x)")
  check.contains(help.page "nn.Linear", "in_features, out_features")
  check.contains(help.page "x:view", "x:view(size..)")
  check.contains(help.page "no_grad", "No gradients are recorded")
  check.contains(help.page "nn.Module.parameters", "All parameters")
  check.contains(help.page "indexing", "both ends included")
  check.contains(help.page "for", "both ends included")
  check.contains(help.page "", "??name")
end)

test("?x tells what a value is without running its code", function()
  local env = {ran = false}
  globals.help_value = setmetatable({}, {__index = function() env.ran = true end, __tostring = function() env.ran = true return "" end})
  globals.help_tensor = torch.zeros(4, 3)
  globals.help_net = torch.nn.Linear(3, 2)
  check.contains(help.page "help_tensor", "f32 [4, 3] cpu contiguous 48 B")
  check.contains(help.page "help_tensor:view", "x:view(size..)")
  check.contains(help.page "help_net", "Linear, 8 parameters")
  check.contains(help.page "help_net:parameters", "All parameters")
  help.page "help_value"
  help.page "help_value.x.y"
  help.page "?help_value:z"
  check.no(env.ran)
  globals.help_value, globals.help_tensor, globals.help_net = nil, nil, nil
end)

test("??name gives the source, or an operation's place", function()
  check.contains(help.page "?nn.class", "bindings/torch/nn/module.lua")
  check.contains(help.page "?nn.class", "local function class(name, base)")
  check.contains(help.page "?matmul", "engine/ops/linear/matmul.cpp")
  check.contains(help.page "?add", "engine/ops/elementwise/elementwise.def")
  check.contains(help.page "?print", "built in")
end)

test("?/text searches all texts, and an unknown name gets near names", function()
  check.contains(help.page "/running average", "nn.BatchNorm2d")
  check.contains(help.page "/matrix product", "matmul")
  check.contains(help.page "/zzzzqqq", "nothing holds")
  check.contains(help.page "tpok", "topk")
  check.contains(help.page "zzzzqqq", "no help for")
end)

test("comments of Lua functions are read with their annotations", function()
  local found = comments.of(torch.nn.class)
  check.contains(found.doc, "Makes a class of modules")
  check.equal(found.params[2].name, "base")
  check.yes(found.params[2].optional)
  check.equal(found.params[1].type, "string")
end)

test("operators have their page", function()
  local help = require "shell.help"
  for _, topic in ipairs {"//", "#", "^", "==", "@"} do check.contains(help.page(topic), "operators", topic) end
end)

test("a page never fails, whatever is asked", function()
  for _, text in ipairs {"?", "???", "/", "%", "%%", "[", "x[", "x:", ":x", ".", "a.b.c.d", "1", "\1\2", "é", "nn.", "torch..x", "(", "''", "_", "_99", "err"} do
    check.equal(type(help.page(text)), "string", text)
  end
end)

test("torch's parts keep their pages under names of the user's own", function()
  local session = {origin = function() return 1 end, entries = {{text = "data = torch.utils.data"}}}
  globals.data, globals.T, globals.nn = torch.utils.data, torch.utils.data.transforms, torch.nn
  globals.tok, globals.Mine = torch.utils.data.text.CharTokenizer "abc", torch.utils.data.class "Mine"
  local ok, err = pcall(function()
    for asked, known in pairs {["data.DataLoader"] = "data.DataLoader", ["T.Compose"] = "data.transforms.Compose", ["nn.Linear"] = "nn.Linear",
      data = "data", T = "data.transforms"} do
      local page = help.page(asked, session)
      check.contains(page, known)
      check.lacks(page, "is also")
      check.lacks(page, "__index")
    end
    check.contains(help.page("tok", session), "CharTokenizer, from [1]")
    check.contains(help.page("tok", session), "?data.text.CharTokenizer tells more")
    check.contains(help.page("Mine", session), "class Mine, from [1]")
  end)
  globals.data, globals.T, globals.nn, globals.tok, globals.Mine = nil, nil, nil, nil, nil
  if not ok then error(err, 0) end
end)
