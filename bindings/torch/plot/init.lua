-- torch.plot and torch.hist: curves and histograms in the terminal (braille dots), as SVG or as PNG.
local torch = torch
local error = torch._raise
local data = require "torch.plot.data"
local plot = {}

-- What both know, by name: the values that are allowed.
local options = {
  title = "string", xlabel = "string", ylabel = "string", file = "string", labels = "table", width = "integer",
  height = "integer", xlog = "boolean", ylog = "boolean", log = "boolean", points = "boolean", bins = "integer",
  range = "table", colour = "boolean", colours = "table", colors = "table", font = "string", fontsize = "number", linewidth = "number",
}
local of_file = {"file", "width", "height", "colour", "font", "fontsize", "linewidth"}
local function known(...) return table.move(of_file, 1, #of_file, select("#", ...) + 1, {...}) end
local of_plot = known("title", "xlabel", "ylabel", "labels", "colours", "colors", "xlog", "ylog", "points")
local of_hist = known("bins", "range", "title", "xlabel", "ylabel", "log")
local of_figure = known("title")

local function is_plain(t) return type(t) == "table" and getmetatable(t) == nil end

-- Numbers to draw: a tensor, or a list of numbers or of tensors.
local function is_curve(v)
  if torch.is_tensor(v) then return true end
  return is_plain(v) and (v[1] == nil and next(v) == nil or type(v[1]) == "number" or type(v[1]) == "boolean" or torch.is_tensor(v[1]) or is_plain(v[1]))
end

-- Splits the arguments into positional ones and checked options: a last table whose string keys are
-- options; its list part is positional.
local function split(name, known, ...)
  local args = table.pack(...)
  local allowed = {}
  for _, k in ipairs(known) do allowed[k] = true end
  local last = args[args.n]
  local found = {}
  if is_plain(last) then
    local named, foreign, curves = false, nil, {}
    for k, v in pairs(last) do
      if type(k) == "string" then
        if allowed[k] then named = true elseif is_curve(v) then curves[k] = v else foreign = foreign or k end
      end
    end
    -- {train = a, test = b} are curves with names, not options.
    if foreign or next(curves) and args.n > 1 and not is_curve(args[1]) then
      error(('%s: no option "%s" (it has: %s)'):format(name, foreign or next(curves), table.concat(known, ", ")), 3)
    end
    if named and next(curves) then
      for i, v in ipairs(last) do curves[i] = v end
      for k, v in pairs(last) do
        if type(k) == "string" and not curves[k] then found[k] = v end
      end
      if #curves > 0 then error(("%s: curves with names and without stand in two tables"):format(name), 3) end
      args[args.n], last = curves, found
      found = {}
      args.n = args.n + 1
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
          if want == "number" and ok then ok = v > 0 and v <= 200 end
          if not ok then error(('%s: %s must be a %s, not %s'):format(name, k, want == "integer" and "positive integer" or want == "number" and "number above 0, at most 200" or want, tostring(v)), 3) end
          found[k] = want == "integer" and math.tointeger(v) or v
        end
      end
    end
  end
  if (found.font or found.fontsize or found.linewidth) and not found.file then
    error(('%s: %s is for a file; give file = "figure.svg" too'):format(name, found.font and "font" or found.fontsize and "fontsize" or "linewidth"), 3)
  end
  if found.width and (found.width < 20 or found.width > 10000) then error(name .. ": width must be between 20 and 10000", 3, "value") end
  if found.height and (found.height < 3 or found.height > 10000) then error(name .. ": height must be between 3 and 10000", 3, "value") end
  return args, found
end

-- Draws a figure where it belongs: a file by its ending, else standard output.
local function draw(name, figure, o)
  if not o.file then
    -- Where pictures are shown as such (a notebook, a session's record); it says whether characters are wanted as well.
    if torch._display and not figure.empty then
      local function text() return require("torch.plot.braille").text(figure, {colour = false, width = o.width, height = o.height}) end
      local function svg() return require("torch.plot.svg").text(figure, {}) end
      if torch._display {svg = svg, text = figure.panels and function() return figure.title or "figure" end or text} then return end
    end
    if figure.panels and figure.title then io.stdout:write(figure.title, "\n") end
    for _, panel in ipairs(figure.panels or {figure}) do
      if panel.panels or panel.cells then panel.show() else io.stdout:write(require("torch.plot.braille").text(panel, o), "\n") end
    end
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

plot._draw = draw

---Curves: plot(y), plot(x, y), plot(x, y1, y2), plot{train = a, test = b}; a 2-d y has a curve per
---column. x counts from 1 unless given. Options: title, xlabel, ylabel, labels, colours, xlog, ylog, points,
---file ("p.svg" or "p.png"), width, height, and for files font, fontsize, linewidth.
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

---Several plots in one figure, one below the other: each a list of what plot takes, its options included; or a matrix
---or a picture. figure{{loss, title = "loss"}, {accuracy, title = "accuracy"}, file = "run.svg"}. Options: title,
---file, width, height, font, fontsize, linewidth.
function plot.figure(...)
  local args, o = split("figure", of_figure, ...)
  if args.n == 1 and next(o) == nil and is_plain(args[1]) and (is_plain(args[1][1]) or torch.is_tensor(args[1][1])) then
    args = table.move(args[1], 1, #args[1], 1, {n = #args[1]})
  end
  local figure = {title = o.title, panels = {}}
  for i = 1, args.n do
    local one = args[i]
    if torch.is_tensor(one) and one.ndim == 1 then one = {one} end
    if torch.is_tensor(one) and one.ndim >= 2 then
      figure.panels[i] = require("torch.plot.heat").figure(one, {})
    elseif is_plain(one) and torch.is_tensor(one[1]) and one[1].ndim >= 2 and #one == 1 and not one.labels then
      local options = {}
      for k, v in pairs(one) do
        if type(k) == "string" then options[k] = v end
      end
      figure.panels[i] = require("torch.plot.heat").figure(one[1], options)
    elseif is_plain(one) then
      local own, options = split("figure", of_plot, one)
      if own.n == 1 and is_plain(own[1]) and (is_plain(own[1][1]) or torch.is_tensor(own[1][1])) and next(own[1], #own[1]) == nil then
        own = table.move(own[1], 1, #own[1], 1, {n = #own[1]})
      end
      if options.file then error("figure: the file is the whole figure's: figure{.., .., file = \"figure.svg\"}", 2) end
      figure.panels[i] = data.curves(own, options)
    else
      error(("figure: wants plots as lists of what plot takes, as in figure{{loss, title = \"loss\"}, {accuracy}}; item %d is a %s"):format(i, type(one)), 2)
    end
  end
  if #figure.panels == 0 then error("figure: wants plots, as in figure{{loss, title = \"loss\"}, {accuracy}}", 2) end
  draw("figure", figure, o)
end

---The text that hist would print.
function plot.hist_text(...)
  local args, o = split("hist", of_hist, ...)
  return require("torch.plot.braille").text(data.histogram(args, o), o)
end

return plot
