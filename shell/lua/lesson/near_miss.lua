-- Remarks on answers that are nearly right: each row knows one well-known slip, and says it in a
-- sentence when the answer is what that slip gives. Used by tasks and by predictions of values.
local reserve = require "shell.lesson.reserve"
local scalings = require "shell.lesson.scalings"
local values = require "shell.lesson.values"
local language = require "torch.language"
local T, N = language.text, language.noted

local is_tensor, close, sizes = values.is_tensor, values.close, values.same_sizes

local near_miss = {}

-- Every row: f(c) -> remark or nil. c.got and c.wanted are tensors, c.g and c.w the same as float64,
-- c.same whether their shapes agree, c.inputs the tensors that the task was tried on.
local rows = {}
local function row(name, f) rows[#rows + 1] = {name = name, find = f} end

local function positions(n) return n == 1 and T"one position" or T("%d positions"):format(n) end

-- More than one value, and not all equal: else most of the rows below would fit by chance.
local function varied(x) return x:numel() > 1 and not close(x, x:flatten()[1]:expand(x.shape)) end

row("unchanged", function(c)
  for _, x in ipairs(c.inputs) do
    if close(c.g, x:double()) and not close(c.w, x:double()) then return T"that is what was given, unchanged" end
  end
end)

row("dtype", function(c)
  if c.same and close(c.g, c.w) and c.got.dtype ~= c.wanted.dtype then
    return T("the values are right, but the dtype is %s and should be %s"):format(
      values.dtype_text(c.got.dtype), values.dtype_text(c.wanted.dtype))
  end
end)

row("diagonal", function(c)
  if c.w.ndim == 2 and c.w:size(1) == c.w:size(2) and c.g.ndim == 1 and c.w:size(1) > 1 and
     close(c.g, c.w:diagonal()) then
    local n = c.w:size(1)
    return T("%d lines up with %d, so nothing stretched"):format(n, n), T"is the diagonal of the result"
  end
end)

row("transposed", function(c)
  if c.g.ndim == 2 and c.w.ndim == 2 and math.min(c.w:size(1), c.w:size(2)) > 1 and varied(c.w) and close(c.g:t(), c.w) then
    return T"rows and columns are exchanged: that is the transpose"
  end
end)

row("extra size 1", function(c)
  if not c.same and c.g.ndim > c.w.ndim and close(c.g:squeeze(), c.w:squeeze()) then
    return T"the values are right, but a dimension of size 1 is left over (keepdim, or a range {k, k} in place of k)"
  end
end)

row("missing size 1", function(c)
  if not c.same and c.g.ndim < c.w.ndim and close(c.g:squeeze(), c.w:squeeze()) then
    return T"the values are right, but a dimension of size 1 is missing (keepdim = true keeps it)"
  end
end)

-- Which columns of x those of y are, as a list of positions; nil when one of them is none.
local function columns_of(x, y)
  if x.ndim ~= 2 or y.ndim ~= 2 or x:size(1) ~= y:size(1) or x:size(2) > 64 or y:size(2) > 64 then return nil end
  local list, used = {}, {}
  for j = 1, y:size(2) do
    for k = 1, x:size(2) do
      if not used[k] and not list[j] and close(y:select(2, j), x:select(2, k)) then
        list[j], used[k] = k, true
      end
    end
    if not list[j] then return nil end
  end
  return list
end

local function list_text(word, list)
  local column = word == "column"
  if #list == 0 then return column and T"no columns" or T"no rows" end
  if #list == 1 then return (column and T"column %d" or T"row %d"):format(list[1]) end
  return (column and T"columns %s" or T"rows %s"):format(table.concat(list, ", "))
end

row("other rows or columns", function(c)
  for _, input in ipairs(c.inputs) do
    local x = input:double()
    for _, way in ipairs {{"column", function(t) return t end}, {"row", function(t) return t.ndim == 2 and t:t() or t end}} do
      local wanted = columns_of(way[2](x), way[2](c.w))
      local got = wanted and columns_of(way[2](x), way[2](c.g))
      if got and not sizes(got, wanted) then
        return T("that is %s of what was given"):format(list_text(way[1], got))
      end
    end
  end
end)

-- The first and last row and column of x that the block y is; nil when it is none.
local function block_of(x, y)
  if x.ndim ~= 2 or y.ndim ~= 2 or y:numel() == 0 or x:numel() > 4096 then return nil end
  for r = 1, x:size(1) - y:size(1) + 1 do
    for k = 1, x:size(2) - y:size(2) + 1 do
      if close(x:narrow(1, r, y:size(1)):narrow(2, k, y:size(2)), y) then
        return {r, r + y:size(1) - 1, k, k + y:size(2) - 1}
      end
    end
  end
end

row("another block", function(c)
  for _, input in ipairs(c.inputs) do
    local x = input:double()
    local wanted = block_of(x, c.w)
    local got = wanted and block_of(x, c.g)
    if got and not sizes(got, wanted) then
      return T("that is rows %d to %d, columns %d to %d of what was given"):format(table.unpack(got))
    end
  end
end)

row("a column for a row", function(c)
  if not c.same and c.g.ndim == c.w.ndim and close(c.g:squeeze(), c.w:squeeze()) then
    return T"the values are right, but they stand in the other direction"
  end
end)

row("other shape", function(c)
  if not c.same and c.g:numel() == c.w:numel() and c.w:numel() > 1 and close(c.g:flatten(), c.w:flatten()) then
    return T"the same values in the same order, but in another shape"
  end
end)

-- Reductions along a dimension, by what they are called.
local REDUCE = {
  {N"summed", function(x, d) return x:sum(d) end}, {N"averaged", function(x, d) return x:mean(d) end},
  {N"searched", function(x, d) return (x:max(d)) end}, {N"searched", function(x, d) return (x:min(d)) end},
  {N"searched", function(x, d) return x:argmax(d):double() end},
  {N"searched", function(x, d) return x:argmin(d):double() end},
}
row("the wrong dimension", function(c)
  for _, input in ipairs(c.inputs) do
    if input.ndim >= 2 and input:numel() > 0 then
      local x = input:double()
      for _, r in ipairs(REDUCE) do
        local done, over = {}, nil
        for d = 1, x.ndim do
          done[d] = r[2](x, d)
          if close(done[d]:squeeze(), c.w:squeeze()) then over = d end
        end
        for d = 1, over and x.ndim or 0 do
          if d ~= over and close(done[d]:squeeze(), c.g:squeeze()) then
            return T("%s over dimension %d; it should be dimension %d"):format(T(r[1]), d, over)
          end
        end
      end
    end
  end
end)

row("everything reduced", function(c)
  if c.g:numel() == 1 and c.w:numel() > 1 then
    if close(c.g:reshape({}), c.w:sum()) then return T"everything was added up; one dimension should remain" end
    if close(c.g:reshape({}), c.w:mean()) then return T"everything was averaged; one dimension should remain" end
  end
end)

row("not reduced yet", function(c)
  if c.w.ndim == 0 and c.g:numel() > 1 then
    if close(c.g:sum(), c.w) then return T"those are the parts; their sum is still missing" end
    if close(c.g:mean(), c.w) then return T"those are the parts; their mean is still missing" end
  end
end)

row("a range too short or too long", function(c)
  if c.same or c.g.ndim ~= c.w.ndim then return nil end
  local off
  for d = 1, c.w.ndim do
    if c.g:size(d) ~= c.w:size(d) then
      if off then return nil end
      off = d
    end
  end
  if not off then return nil end
  local a, b = c.g:size(off), c.w:size(off)
  local short, long = a < b and c.g or c.w, a < b and c.w or c.g
  local n, extra = short:size(off), long:size(off) - short:size(off)
  if n == 0 or extra > 2 then return nil end
  local word = a < b and T"missing at" or T"too many at"
  if close(short, long:narrow(off, 1, n)) then
    return T("%s %s the end of dimension %d: both ends of a range count"):format(positions(extra), word, off)
  elseif close(short, long:narrow(off, extra + 1, n)) then
    return T("%s %s the start of dimension %d: positions count from 1"):format(positions(extra), word, off)
  end
end)

row("sign", function(c)
  if c.same and close(-c.g, c.w) and not close(c.g, c.w) then return T"the sign is the other one everywhere" end
end)

row("inverted mask", function(c)
  if c.same and c.got.dtype == torch.bool and c.wanted.dtype == torch.bool and close(1 - c.g, c.w) then
    return T"true and false are exchanged"
  end
end)

row("absolute", function(c)
  if c.same and varied(c.w) and close(c.g:abs(), c.w:abs()) and not close(c.g, c.w) then
    return T"the sizes are right, but some signs are wrong"
  end
end)

row("off by one", function(c)
  if not c.same then return nil end
  local single = c.w:numel() == 1
  if close(c.g + 1, c.w) then return single and T"it is one too small: do you count from 1?" or T"every value is one too small: do you count from 1?" end
  if close(c.g - 1, c.w) then return single and T"it is one too large" or T"every value is one too large" end
end)

-- Sizes that a forgotten or doubled division would be by.
local function counts(c)
  local list, seen = {}, {}
  local function add(n, what)
    if n > 1 and not seen[n] then
      seen[n] = true
      list[#list + 1] = {n = n, what = what}
    end
  end
  for _, x in ipairs(c.inputs) do
    for d = 1, x.ndim do add(x:size(d), T("the size of dimension %d"):format(d)) end
    add(x:numel(), T"the number of elements")
  end
  return list
end

row("a mean not taken", function(c)
  if not c.same or not c.w:any():item() then return nil end
  for _, k in ipairs(counts(c)) do
    if close(c.g, c.w * k.n) then
      return T("that is %d times what is wanted, and %d is %s: a sum where a mean belongs?"):format(k.n, k.n, k.what)
    elseif close(c.g * k.n, c.w) then
      return T("what is wanted is %d times that, and %d is %s: a mean where a sum belongs?"):format(k.n, k.n, k.what)
    end
    local off = k.n > 2 and k.n / (k.n - 1)  -- of 2, the half and the double look like other slips
    if off and (close(c.g, c.w * math.sqrt(off)) or close(c.g, c.w * off)) then
      return T("it divides by %d; here by %d is meant"):format(k.n - 1, k.n)
    elseif off and (close(c.w, c.g * math.sqrt(off)) or close(c.w, c.g * off)) then
      return T("it divides by %d; here by %d is meant"):format(k.n, k.n - 1)
    end
  end
end)

row("squares and roots", function(c)
  if not c.same or close(c.w, c.w * c.w) then return nil end
  if close(c.g, c.w * c.w) then return T"that is the square of it: a root is missing, or one squaring too many" end
  if close(c.g * c.g, c.w) and (c.g:numel() > 1 or c.inputs[1]) then
    return T"that is the square root of it: one root too many, or a square is missing"
  end
end)

row("factors", function(c)
  if not c.same or not c.w:any():item() then return nil end
  local FACTORS = {{2, T"twice what is wanted"}, {0.5, T"half of what is wanted"},
                   {100, T"a hundred times what is wanted: per cent?"}, {0.01, T"a hundredth of what is wanted"}}
  for _, f in ipairs(FACTORS) do
    if close(c.g, c.w * f[1]) then return (c.w:numel() == 1 and T"that is %s" or T"every value is %s"):format(f[2]) end
  end
end)

row("scaled otherwise", function(c)
  if not c.same or c.w.ndim ~= 2 then return nil end
  for _, input in ipairs(c.inputs) do
    if sizes(input.shape, c.w.shape) then
      local goals, found = {}, nil
      local list = scalings(input:double())
      for _, s in ipairs(list) do
        if close(s[3], c.w) then goals[s[1]] = true end
      end
      for _, s in ipairs(list) do
        if goals[s[1]] and not found and close(s[3], c.g) then found = s[2] end
      end
      if found then return found end
    end
  end
end)

row("reversed", function(c)
  if not c.same or not varied(c.w) then return nil end
  for d = 1, c.w.ndim do
    if c.w:size(d) > 1 and close(c.g:flip(d), c.w) then return T("dimension %d runs backwards"):format(d) end
  end
end)

row("shifted", function(c)
  if not c.same or not varied(c.w) then return nil end
  for d = 1, c.w.ndim do
    if c.w:size(d) > 2 and (close(c.g:roll(1, d), c.w) or close(c.g:roll(-1, d), c.w)) then
      return T("the values are right, but stand one place off along dimension %d"):format(d)
    end
  end
end)

row("one over", function(c)
  if c.same and not c.w:eq(0):any():item() and not close(c.w, c.w:reciprocal()) and close(c.g, c.w:reciprocal()) then
    return T"that is one over it: what is divided by what?"
  end
end)

row("a constant off", function(c)
  if not c.same or not varied(c.w) then return nil end
  local gap = c.g - c.w
  if not varied(gap) and gap:numel() > 1 then
    return T("every value is off by the same number, %.4g"):format(gap:flatten()[1]:item())
  end
end)

row("sorted differently", function(c)
  if c.w:numel() == c.g:numel() and varied(c.w) and c.w:numel() <= 4096 and
     close((c.g:flatten():sort()), (c.w:flatten():sort())) then
    return T"the right values, but not in the right places"
  end
end)

row("not a number", function(c)
  local n = c.g:isnan():sum():item()
  if n > 0 and not c.w:isnan():any():item() then
    return T("%s not a number (nan): a division of 0 by 0, or a root of a negative number"):format(
      n == 1 and T"one value is" or T("%d values are"):format(n))
  end
end)

row("some entries", function(c)
  if not c.same or c.w:numel() < 2 then return nil end
  local wrong = c.g:ne(c.w):logical_and((c.g - c.w):abs():gt(1e-6 + c.w:abs() * 1e-4))
  local n = wrong:sum():item()
  if n == 0 or n == c.w:numel() then return nil end
  local at = wrong:nonzero()[1]:tolist()
  local place = #at == 1 and tostring(at[1]) or "{" .. table.concat(at, ", ") .. "}"
  local got, want = c.got[at], c.wanted[at]
  local told = c.closed and "" or T(" is %.5g, wanted %.5g"):format(got:double():item(), want:double():item())
  return T("%d of %d values differ; the first at [%s]"):format(n, c.w:numel(), place) .. told
end)

local function of_tensors(got, wanted, inputs, how)
  local c = {got = got:detach(), wanted = wanted:detach(), inputs = {}, closed = how == "closed"}
  for _, x in ipairs(inputs or {}) do
    if is_tensor(x) then c.inputs[#c.inputs + 1] = x:detach() end
  end
  c.same = sizes(c.got.shape, c.wanted.shape)
  c.g, c.w = c.got:double(), c.wanted:double()
  for _, r in ipairs(rows) do
    -- A row that cannot be applied to these shapes has nothing to say.
    local ok, remark, caption = pcall(r.find, c)
    remark = ok and remark and reserve(remark, r.name, how, c.w:numel() == 1)
    if remark then return remark, r.name, caption end
  end
end

--- A sentence on how `got` misses `wanted`, the row that knew it, and perhaps a caption for the value.
---@param got any
---@param wanted any
---@param inputs? any[] what the task was tried on
---@param how? string "plain": only what no accident of sizes can look like; "closed": nothing that tells the value
---@return string|nil remark
---@return string|nil name
---@return string|nil caption
function near_miss.find(got, wanted, inputs, how)
  local a, b = values.kind(got), values.kind(wanted)
  if a == "tensor" and b == "tensor" then return of_tensors(got, wanted, inputs, how) end
  if a == "nil" then return T"there is no value; does it end in return?", "nothing" end
  if b == "tensor" and a == "number" then
    if wanted.ndim > 0 then return T"that is one Lua number; a tensor is wanted", "number" end
    return of_tensors(torch.tensor(got + 0.0), wanted, inputs, how)
  elseif b == "number" and a == "number" then
    return of_tensors(torch.tensor(got + 0.0), torch.tensor(wanted + 0.0), inputs, how)
  elseif b == "number" and a == "tensor" then
    if got:numel() == 1 and got:double():item() == wanted then
      return T"the value is right; :item() makes it a number", "item"
    end
    return of_tensors(got, torch.tensor(wanted + 0.0), inputs, how)
  elseif b == "tensor" and a == "table" then
    return T"that is a Lua table; torch.tensor makes a tensor of it", "table"
  elseif a == "function" then
    return T"that is a function, not yet called: are its brackets () missing?", "function"
  elseif a ~= b then
    return T("that is %s; %s is wanted"):format(values.what(got), values.what(wanted)), "kind"
  end
end

--- The names of all rows, for the tests.
function near_miss.names()
  local list = {}
  for i, r in ipairs(rows) do list[i] = r.name end
  return list
end

return near_miss
