-- The rows of torch.help_pages and one for each other class of torch.nn, which knows its own arguments. Apart from the
-- rows, since it loads all layers.
local torch = torch
local classes, known, pages, names = torch.nn.Module and torch.nn, {}, {}, {}
for i, row in ipairs(require "torch.help_pages") do
  pages[i] = row
  known[row[1]] = true
  local class = row[1]:match "^nn%.%u" and rawget(classes, row[1]:sub(4))
  if type(class) == "table" and rawget(class, "_signature") then row[2] = class._signature end
end
for name, class in next, classes do
  if type(class) == "table" and rawget(class, "_signature") and not known["nn." .. name] then names[#names + 1] = name end
end
table.sort(names)
for _, name in ipairs(names) do
  local class = classes[name]
  pages[#pages + 1] = {"nn." .. name, class._signature, class._doc, rule = class._rule, see = class._see, example = class._example}
end

return pages
