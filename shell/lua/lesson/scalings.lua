-- What tables are usually scaled by, and what becomes of it along the wrong dimension, without keepdim,
-- or without brackets: the slips behind one row of the near misses.
local sizes = require("shell.lesson.values").same_sizes
local T = require("torch.language").text

--- A list of {family, remark, value}. A remark is due when the answer and what was wanted are two of one
--- family.
---@param x any a tensor of floating point numbers
---@return table[]
local function scalings(x)
  local list = {}
  local function add(family, remark, f)
    local ok, value = pcall(f)
    if ok and sizes(value.shape, x.shape) then list[#list + 1] = {family, remark, value} end
  end
  local by = {sum = function(...) return x:sum(...) end, mean = function(...) return x:mean(...) end,
              max = function(...) return x:amax(...) end, std = function(...) return x:std(...) end}
  for name, f in pairs(by) do
    for d = 1, x.ndim do
      local kept = f{dim = d, keepdim = true}
      local along = T("the %s along dimension %d"):format(name, d)
      add(name .. "/", T("divided by %s"):format(along), function() return x / kept end)
      add(name .. "-", T("%s was subtracted"):format(along), function() return x - kept end)
      local bare = f(d)
      if bare.ndim == 1 and x.ndim == 2 and d == 2 and x:size(1) == x:size(2) then
        local lost = T("%s lost its dimension and lined up with the columns: keepdim"):format(along)
        add(name .. "/", lost, function() return x / bare end)
        add(name .. "-", lost, function() return x - bare end)
      end
    end
    local all = f()
    add(name .. "/", T("divided by the %s of everything"):format(name), function() return x / all end)
    add(name .. "-", T("the %s of everything was subtracted"):format(name), function() return x - all end)
  end
  for d = 1, x.ndim do
    local mean = x:mean{dim = d, keepdim = true}
    local std = x:std{dim = d, keepdim = true}
    local flat = x:std{dim = d, keepdim = true, correction = 0}
    local standard = function(remark, f) add("standard", remark, f) end
    standard(T("standardised along dimension %d"):format(d), function() return (x - mean) / std end)
    standard(T"divided by the variance, the square of std", function() return (x - mean) / (std * std) end)
    standard(T"the division was done before the subtraction: brackets", function() return x - mean / std end)
    standard(T"the mean was not divided: brackets", function() return x / std - mean end)
    standard(T"the mean is subtracted, the division by std is missing", function() return x - mean end)
    standard(T"divided by std, but the mean was not subtracted", function() return x / std end)
    standard(T"multiplied by std, not divided", function() return (x - mean) * std end)
    standard(T"the spread was taken with n, not with n - 1", function() return (x - mean) / flat end)
  end
  return list
end

return scalings
