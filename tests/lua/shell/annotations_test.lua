-- Definition files for editors.
local annotations = require "shell.annotations"

test("definition files are Lua and speak of every operation", function()
  local files = annotations.files()
  local all = ""
  for name, text in next, files do
    local chunk, why = load(text, "=" .. name)
    check.yes(chunk, why)
    check.contains(text, "---@meta")
    all = all .. text
  end
  for _, record in ipairs(torch._ops()) do
    local name = record.name
    if not name:find "^_" and #record.places > 0 then
      check.yes(all:find("[.:]" .. name .. "%(") or all:find('["' .. name .. '"]', 1, true), name)
    end
  end
  for _, part in ipairs {"---@class Tensor", "function Tensor:topk(k, dim, largest, sorted) end", "---@param k integer", "---@operator add(Tensor|number): Tensor",
    "---@field shape integer[]", "---@class nn.Linear : nn.Module", "function Module:parameters(recurse) end", "---@class optim.SGD : optim.Optimizer", "function Optimizer:step(closure) end", "---@class data.DataLoader",
    "function torch.no_grad(f) end", "function F.cross_entropy(", "---@overload fun(self: Tensor, dim: integer, keepdim?: boolean): Tensor, Tensor"} do
    check.contains(all, part)
  end
end)

test("tycho --lua-annotations writes them into a directory", function()
  local directory = check.temp "definitions/here"
  local r = check.tycho {"--lua-annotations", directory}
  check.equal(r.status, 0, r.err)
  local file = assert(io.open(directory .. "/torch.lua"))
  check.contains(file:read "a", "function torch.zeros(")
  file:close()
  check.equal(check.tycho({"--lua-annotations"}).status, 1)
  check.equal(check.tycho({"--lua-annotations", "/proc/nowhere"}).status, 1)
end)

test("the man page and the completions of bash and zsh know every option of --help", function()
  local here = arg[0]:match "^(.*)/" or "."
  local usage = check.tycho({"--help"}).out
  for _, path in ipairs {"tycho.1", "completion.bash", "_tycho"} do
    local file = assert(io.open(here .. "/../../shell/" .. path))
    local text = file:read("a"):gsub("\\%-", "-")
    file:close()
    for option in usage:gmatch "\n  (%-%-?[%a-]+)" do check.contains(text, option, path) end
  end
end)

test("bash completes the names of lessons, and an unknown one ends with status 1", function()
  local here = arg[0]:match "^(.*)/" or "."
  local script = check.temp("complete.bash")
  local file = assert(io.open(script, "w"))
  file:write(("compopt() { :; }\nsource %s/../../shell/completion.bash\nCOMP_WORDS=(%s learn sh)\nCOMP_CWORD=2\n_tycho\necho \"${COMPREPLY[@]}\"\n"):format(here, check.program))
  file:close()
  local pipe = assert(io.popen("bash " .. check.quote(script)))
  local names = pipe:read "a"
  pipe:close()
  check.equal(names, "shapes\n")
  local r = check.tycho({"learn", "nosuch"}, {stdin = ""})
  check.equal(r.status, 1)
  check.contains(r.err, 'tycho: no lesson "nosuch"')
end)
