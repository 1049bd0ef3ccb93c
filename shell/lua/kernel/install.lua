-- `tycho kernel --install`: a kernel's specification, where Jupyter looks for them.
local json = require "torch.json"
local native = require "shell.native"

local function quoted(path) return "'" .. path:gsub("'", "'\\''") .. "'" end

local logo = [[
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="12" fill="#1b3a5c"/>
<path d="M14 18h36v8H36v24h-8V26H14z" fill="#fff"/><circle cx="49" cy="46" r="5" fill="#e8a33d"/></svg>
]]

---@param o {prefix?: string, name?: string}
---@return integer status
return function(o)
  local able, why = native.kernel.available()
  if not able then
    io.stderr:write("tycho: ", why, "\n")
    return 1
  end
  local name = o.name or "tycho"
  if not name:find "^[%w._-]+$" then
    io.stderr:write(('tycho: "%s" is no name for a kernel: letters, digits, "-", "_" and "."\n'):format(name))
    return 1
  end
  local home, base = os.getenv "HOME", os.getenv "JUPYTER_DATA_DIR"
  if o.prefix then
    base = o.prefix .. "/share/jupyter"
  elseif not base or base == "" then
    local data = os.getenv "XDG_DATA_HOME"
    if (not data or data == "") and (not home or home == "") then
      io.stderr:write "tycho: there is no HOME to install in; say where: --prefix DIR\n"
      return 1
    end
    base = (data and data ~= "" and data or home .. "/.local/share") .. "/jupyter"
  end
  local directory = base .. "/kernels/" .. name
  local spec = json.write {pairs = {{"argv", {native.program() or "tycho", "kernel", "-f", "{connection_file}"}}, {"display_name", "Tycho"},
    {"language", "lua"}, {"interrupt_mode", "message"}}}
  local ok, message = os.execute("mkdir -p " .. quoted(directory)), nil
  if ok then
    ok, message = pcall(function()
      torch._write_text(directory .. "/logo-svg.svg", logo)
      torch._write_text(directory .. "/kernel.json", spec .. "\n")
    end)
  end
  if not ok then
    io.stderr:write(("tycho: the kernel cannot be written to %s%s\n"):format(directory, message and ": " .. tostring(message) or ""))
    return 1
  end
  print(("the kernel \"%s\" is in %s; jupyter lab offers it now\n(rm -r %s takes it back)"):format(name, directory, quoted(directory)))
  return 0
end
