-- torch.plot and torch.hist: curves and histograms in the terminal (braille dots), as SVG or as PNG.
local torch = torch
local error = torch._raise
local data = require "torch.plot.data"
local plot = {}

-- What both know, by name: the values that are allowed.
local options = {
  title = "string", xlabel = "string", ylabel = "string", file = "string", labels = "table", width = "integer",
  height = "integer", xlog = "boolean", ylog = "boolean", log = "boolean", points = "boolean", bins = "integer",
  range = "table", colour = "boolean",
}
local of_plot = {"title", "xlabel", "ylabel", "labels", "xlog", "ylog", "points", "file", "width", "height", "colour"}
local of_hist = {"bins", "range", "title", "xlabel", "ylabel", "log", "file", "width", "height", "colour"}

local function is_plain(t) return type(t) == "table" and getmetatable(t) == nil end

-- Splits the arguments into positional ones and checked options: a last table whose string keys are
-- options; its list part is positional.
local function split(name, known, ...)
  local args = table.pack(...)
  local allowed = {}
  for _, k in ipairs(known) do allowed[k] = true end
  local last = args[args.n]
  local found = {}
  if is_plain(last) then
    local named, foreign = false, nil
    for k in pairs(last) do
      if type(k) == "string" then
        if allowed[k] then named = true else foreign = foreign or k end
      end
    end
    -- {train = a, test = b} are curves with names, not options.
    if foreign and (named or args.n > 1 or not (torch.is_tensor(last[foreign]) or type(last[foreign]) == "table")) then
      error(('%s: no option "%s" (it has: %s)'):format(name, foreign, table.concat(known, ", ")), 3)
    end
    if named then
      args[args.n], args.n = nil, args.n - 1
      if type(last[1]) == "number" or type(last[1]) == "boolean" then
        args.n = args.n + 1
        args[args.n] = table.move(last, 1, #last, 1, {})
      else
        for i, v in ipairs(last) do args[args.n + i] = v end
        args.n = args.n + #last
      end
      for k, v in pairs(last) do
        if type(k) == "string" then
          local want = options[k]
          local ok = type(v) == want or (want == "integer" and math.tointeger(v) and math.tointeger(v) > 0)
          if want == "table" and torch.is_tensor(v) then v, ok = v:tolist(), true end
          if not ok then error(('%s: %s must be a %s, not %s'):format(name, k, want == "integer" and "positive integer" or want, tostring(v)), 3) end
          found[k] = want == "integer" and math.tointeger(v) or v
        end
      end
    end
  end
  if found.width and (found.width < 20 or found.width > 10000) then error(name .. ": width must be between 20 and 10000", 3, "value") end
  if found.height and (found.height < 3 or found.height > 10000) then error(name .. ": height must be between 3 and 10000", 3, "value") end
  return args, found
end

-- Draws a figure where it belongs: a file by its ending, else standard output.
local function draw(name, figure, o)
  if not o.file then
    local text = require("torch.plot.braille").text(figure, o)
    io.stdout:write(text, "\n")
    return
  end
  local ending = o.file:match "%.(%a+)$"
  ending = ending and ending:lower()
  if ending == "svg" then
    torch._write_text(o.file, require("torch.plot.svg").text(figure, o))
  elseif ending == "png" then
    require("torch.plot.png").write(figure, o)
  else
    error(('%s: file must end in .svg or .png, not "%s"'):format(name, o.file), 3)
  end
end

---Curves: plot(y), plot(x, y), plot(x, y1, y2), plot{train = a, test = b}; a 2-d y has a curve per
---column. x counts from 1 unless given. Options: title, xlabel, ylabel, labels, xlog, ylog, points,
---file ("p.svg" or "p.png"), width, height.
function plot.plot(...)
  local args, o = split("plot", of_plot, ...)
  local figure = data.curves(args, o)
  draw("plot", figure, o)
end

---The text that plot would print.
function plot.text(...)
  local args, o = split("plot", of_plot, ...)
  return require("torch.plot.braille").text(data.curves(args, o), o)
end

---How often values fall into equal bins: hist(x), hist(x, 20). Options: bins, range, log, title,
---xlabel, ylabel, file, width, height.
function plot.hist(...)
  local args, o = split("hist", of_hist, ...)
  draw("hist", data.histogram(args, o), o)
end

---The text that hist would print.
function plot.hist_text(...)
  local args, o = split("hist", of_hist, ...)
  return require("torch.plot.braille").text(data.histogram(args, o), o)
end

return plot
