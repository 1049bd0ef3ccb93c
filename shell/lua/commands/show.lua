-- Commands about showing: %full and %print.
local torch = torch

local function print_options()
  local o = torch.get_printoptions()
  return ("digits=%d edge=%d sci=%s threshold=%s width=%s style=%s"):format(
    o.precision, o.edgeitems, o.sci_mode == "auto" and "auto" or o.sci_mode and "on" or "off",
    o.threshold == math.huge and "all" or ("%.0f"):format(o.threshold),
    o.linewidth and tostring(o.linewidth) or "window", o.style)
end

local function number(name, least)
  return function(v)
    local n = math.tointeger(tonumber(v))
    if not n or n < least then error(("%%print: %s wants an integer from %d, not %s"):format(name, least, v), 0) end
    return n
  end
end

-- What %print's words set: the option of torch.set_printoptions and its value.
local words = {
  digits = {"precision", number("digits", 1)},
  edge = {"edgeitems", number("edge", 1)},
  threshold = {"threshold", function(v) return v == "all" and math.huge or number("threshold", 0)(v) end},
  width = {"linewidth", function(v) return number("width", 10)(v) end},
  sci = {"sci_mode", function(v)
    local value = ({on = true, off = false, auto = "auto"})[v]
    if value == nil then error("%print: sci wants on, off or auto, not " .. v, 0) end
    return value
  end},
  style = {"style", function(v)
    if v ~= "tycho" and v ~= "pytorch" then error("%print: style wants tycho or pytorch, not " .. v, 0) end
    return v
  end},
}

return {
  {
    name = "%full",
    usage = "%full EXPRESSION",
    doc = "Every value of a tensor, or all of a table, however long.",
    example = "%full x",
    run = function(args, session)
      if args == "" then return "wants an expression, as in %full x" end
      local ok, results = session.eval(args)
      if not ok then error(results, 0) end
      session.say(require("shell.show").values(results, {full = true}))
    end,
  },
  {
    name = "%print",
    usage = "%print [digits=3] [edge=3] [sci=auto|on|off] [threshold=1000] [width=N|window] [style=tycho|pytorch]",
    doc = "How tensors are shown; alone, it says how. %print default goes back.",
    example = "%print digits=5",
    run = function(args, session)
      local set = {}
      for word in args:gmatch "%S+" do
        local name, value = word:match "^(%a+)=(%S+)$"
        if word == "default" then
          set = {profile = "default", sci_mode = "auto", style = "tycho"}
        elseif name == "width" and value == "window" then
          torch._print_options {linewidth = 0}
        elseif name and words[name] then
          set[words[name][1]] = words[name][2](value)
        else
          return ("knows digits=, edge=, sci=, threshold=, width= and style=, not %s"):format(word)
        end
      end
      torch.set_printoptions(set)
      session.say(print_options())
    end,
  },
}
