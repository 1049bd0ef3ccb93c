-- torch.set_printoptions: how tensors become text.
local torch = torch
local error = torch._raise

local profiles = {
  default = {precision = -1, threshold = 1000, edgeitems = 3, linewidth = 0},
  short = {precision = 2, threshold = 1000, edgeitems = 2, linewidth = 0},
  full = {precision = -1, threshold = math.huge, edgeitems = 3, linewidth = 0},
}

local function whole(name, v, least, most)
  local n = math.tointeger(v)
  if not n or n < least or n > most then
    error(("set_printoptions: %s must be an integer from %d to %d, not %s"):format(name, least, most, tostring(v)), 3, "value")
  end
  return n
end

local checks = {
  precision = function(v) return whole("precision", v, 0, 17) end,
  edgeitems = function(v) return whole("edgeitems", v, 0, 1000) end,
  linewidth = function(v) return whole("linewidth", v, 10, 100000) end,
  threshold = function(v)
    if type(v) ~= "number" or v ~= v or v < 0 then
      error(("set_printoptions: threshold must be a number of elements, not %s"):format(tostring(v)), 3, "value")
    end
    return v
  end,
  sci_mode = function(v)
    if v == torch.none or v == "auto" then return -1 end
    if type(v) ~= "boolean" then
      error(('set_printoptions: sci_mode must be true, false or "auto", not %s'):format(tostring(v)), 3, "value")
    end
    return v and 1 or 0
  end,
  style = function(v)
    if v ~= "pytorch" and v ~= "tycho" then
      error(('set_printoptions: style must be "tycho" or "pytorch", not %s'):format(tostring(v)), 3, "value")
    end
    return v == "pytorch"
  end,
}

local order = {"precision", "threshold", "edgeitems", "linewidth", "profile", "sci_mode"}

---Sets how tensors are shown. Options: precision (digits), threshold (more elements are summarised),
---edgeitems, linewidth, sci_mode (true, false, "auto"), profile ("default", "short", "full"), style
---("tycho", or "pytorch" for PyTorch's own text).
---@param options table
function torch.set_printoptions(options, ...)
  if type(options) ~= "table" then
    local given = table.pack(options, ...)
    options = {}
    for i = 1, given.n do options[order[i] or "#" .. i] = given[i] end
  else
    local named = {}
    for k, v in pairs(options) do
      if math.type(k) == "integer" and order[k] then k = order[k] end
      named[k] = v
    end
    options = named
  end
  local set = {}
  local profile = options.profile
  if profile ~= nil and profile ~= torch.none then
    if not profiles[profile] then
      error(('set_printoptions: profile must be "default", "short" or "full", not %s'):format(tostring(profile)), 2, "value")
    end
    for k, v in pairs(profiles[profile]) do set[k] = v end
  end
  for k, v in pairs(options) do
    if k ~= "profile" then
      local check = checks[k]
      if not check then
        error(('set_printoptions: no argument "%s" (it has: precision, threshold, edgeitems, linewidth, profile, sci_mode, style)'):format(
          tostring(k)), 2)
      end
      set[k == "style" and "pytorch" or k] = check(v)
    end
  end
  torch._print_options(set)
end

---The options of set_printoptions as they are now; what is nil is chosen by the tensor or the window.
function torch.get_printoptions()
  local o = torch._print_options()
  return {
    precision = o.precision >= 0 and o.precision or (o.pytorch and 4 or 3),
    threshold = o.threshold,
    edgeitems = o.edgeitems,
    linewidth = o.linewidth > 0 and o.linewidth or nil,
    sci_mode = o.sci_mode < 0 and "auto" or o.sci_mode == 1,
    style = o.pytorch and "pytorch" or "tycho",
  }
end

-- Pictures and progress are loaded when the first one is shown.
for name, file in pairs {plot = "torch.plot", hist = "torch.plot", figure = "torch.plot", progress = "torch.progress"} do
  torch[name] = function(...) return require(file)[name](...) end
end
