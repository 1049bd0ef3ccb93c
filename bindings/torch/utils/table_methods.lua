-- What the tables of data.read_csv can do besides giving columns: a look at them, parts of them, numbers for classes. And
-- what reading a name that a table has not says.
local torch = torch
local error = torch._raise

-- What pandas calls otherwise.
local instead = {
  isna = "t.column:isnan() of a column of numbers", isnull = "t.column:isnan() of a column of numbers", values = "t:tensor()", to_numpy = "t:tensor()",
  iloc = "t:part{first, last}", loc = 't["column"], t:part(mask)', drop = 't:tensor{except = {"column"}}', fillna = "torch.where(x:isnan(), value, x)",
  get_dummies = 't:one_hot "column"', groupby = "t:part(t.column:eq(value))", sample = "t:part(torch.randperm(#t))", sort_values = "t:part(t.column:argsort())",
  corr = "torch.corrcoef(t:tensor().T)", mean = "t.column:mean()", std = "t.column:std()", info = "print(t)", dtypes = "print(t)", index = "positions count from 1 to #t",
  plot = "torch.plot(t.column)", hist = "torch.hist(t.column)", unique = "t.column:unique()", nunique = "t.column:unique()", apply = "operations on t.column, or a loop",
  to_csv = 'torch.save(t:tensor(), "file.npy")', T = "t:tensor().T", rows_ = "#t",
}

return function(Table)
  local function number(v)
    return math.type(v) == "integer" and tostring(v) or v == v and ("%.5g"):format(v) or "nan"
  end

  -- Rows of texts as columns, numbers to the right.
  local function aligned(rows)
    local widths = {}
    for _, row in ipairs(rows) do
      for i, text in ipairs(row) do widths[i] = math.max(widths[i] or 0, utf8.len(text) or #text) end
    end
    local lines = {}
    for k, row in ipairs(rows) do
      local parts = {}
      for i, text in ipairs(row) do parts[i] = (" "):rep(widths[i] - (utf8.len(text) or #text)) .. text end
      lines[k] = table.concat(parts, "  ")
    end
    return table.concat(lines, "\n")
  end

  -- All rows as a text, the first twelve columns of them: what print shows of the parts of a table.
  function Table:_text()
    local rows = {{"", table.unpack(self.names, 1, 12)}}
    if #self.names > 12 then rows[1][14] = ".." end
    for i = 1, #self do
      local row = {tostring(i)}
      for k = 1, math.min(12, #self.names) do
        local name = self.names[k]
        local column, classes = self.columns[name], self.classes[name]
        local v = column[i]
        if torch.is_tensor(v) then v = v:item() end
        row[k + 1] = classes and (classes[v] or "nan") or type(v) == "number" and number(v) or tostring(v):sub(1, 24)
      end
      if #self.names > 12 then row[14] = ".." end
      rows[#rows + 1] = row
    end
    return aligned(rows)
  end

  local function count(who, n)
    if n == nil then return 5 end
    if math.type(n) ~= "integer" or n < 0 then error(("%s: wants a number of rows, not %s"):format(who, tostring(n)), 3) end
    return n
  end

  ---The first rows, as a table of their own.
  ---@param n? integer 5 unless given
  ---@return table
  function Table:head(n)
    n = math.min(count("head", n), #self)
    return Table.part(self, {1, n})
  end

  ---The last rows, as a table of their own.
  ---@param n? integer 5 unless given
  ---@return table
  function Table:tail(n)
    n = math.min(count("tail", n), #self)
    return Table.part(self, torch.arange(#self - n + 1, #self + 1))
  end

  ---What the columns of numbers hold, as a table: how many values, how many are missing, mean, deviation, least, median, most.
  ---@return table
  function Table:describe()
    local names = {"column", "count", "missing", "mean", "std", "min", "median", "max"}
    local out = setmetatable({names = names, columns = {}, classes = {}, rows = 0, small = true}, Table)
    local columns = {}
    for _, name in ipairs(names) do columns[name] = {} end
    for _, name in ipairs(self.names) do
      local x = self.columns[name]
      if torch.is_tensor(x) and not self.classes[name] then
        out.rows = out.rows + 1
        x = x:double()
        local there = x[~x:isnan()]
        columns.column[out.rows], columns.count[out.rows], columns.missing[out.rows] = name, #there, #x - #there
        for _, what in ipairs {"mean", "std", "min", "median", "max"} do
          columns[what][out.rows] = #there > (what == "std" and 1 or 0) and there[what](there):item() or 0 / 0
        end
      end
    end
    for name, list in pairs(columns) do
      out.columns[name] = name == "column" and list or torch.tensor(list, {dtype = (name == "count" or name == "missing") and "int64" or "float64"})
    end
    return out
  end

  -- A table with other columns, each made of the one that was.
  local function made(self, names, rows, f)
    local out = setmetatable({names = names, columns = {}, classes = {}, rows = rows, small = rows <= 20}, Table)
    for _, name in ipairs(names) do out.columns[name], out.classes[name] = f(self.columns[name]), self.classes[name] end
    return out
  end

  ---Some of the columns as a table of their own: t{"a", "b"} or t[{"a", "b"}].
  ---@param names string[]
  ---@return table
  function Table:select(names)
    local keys = {}
    for i, name in ipairs(type(names) == "table" and names or {names}) do
      local _, _, key = self:column(name)
      keys[i] = key
    end
    return made(self, keys, self.rows, function(column) return column end)
  end

  ---Some of the rows as a table of their own: {first, last}, a tensor of positions, or a mask.
  ---@param which table|torch.Tensor
  ---@return table
  function Table:part(which)
    if torch.is_tensor(which) and which.dtype == torch.bool then
      if which.ndim ~= 1 or #which ~= self.rows then
        error(("part: the mask has shape %s, the table %d rows"):format(tostring(which.shape), self.rows), 2, "shape")
      end
      which = which:nonzero():flatten()
    elseif type(which) == "table" and #which == 2 and math.type(which[1]) == "integer" and math.type(which[2]) == "integer" then
      local first, last = which[1], which[2] < 0 and self.rows + 1 + which[2] or which[2]
      if first < 1 or last > self.rows or first > last + 1 then
        error(("part: rows %d to %d of %d (both are in it; positions count from 1)"):format(first, last, self.rows), 2, "index")
      end
      which = torch.arange(first, last + 1)
    end
    if not torch.is_tensor(which) or which.ndim ~= 1 or which:is_floating_point() then
      error("part: wants rows as {first, last}, a tensor of positions, or a mask such as t.column:gt(3)", 2)
    end
    local list = which:tolist()
    for _, i in ipairs(list) do
      if i < 1 or i > self.rows then error(("part: row %d of %d (positions count from 1)"):format(i, self.rows), 2, "index") end
    end
    return made(self, {table.unpack(self.names)}, #list, function(column)
      if torch.is_tensor(column) then return column[which] end
      local out = {}
      for k, i in ipairs(list) do out[k] = column[i] end
      return out
    end)
  end

  ---The table without the rows that lack a value, in any column or in those named.
  ---@param names? string[]
  ---@return table
  function Table:dropna(names)
    local kept = torch.ones(self.rows, {dtype = "bool"})
    for _, name in ipairs(names or self.names) do
      local column = self:column(name)
      if torch.is_tensor(column) then
        if column:is_floating_point() then kept = kept & ~column:isnan() end
      else
        local there = {}
        for i, v in ipairs(column) do there[i] = v ~= "" end
        if #there > 0 then kept = kept & torch.tensor(there) end
      end
    end
    return Table.part(self, kept)
  end

  ---A column of texts or classes as numbers, 1 in the place of the class and 0 elsewhere: float32 [rows, classes]; and the
  ---classes' names.
  ---@param name string
  ---@return torch.Tensor, string[]
  function Table:one_hot(name)
    local column, classes = self:column(name)
    if torch.is_tensor(column) and not classes then
      if column:is_floating_point() then error(("one_hot: column %s holds numbers with fractions, not classes"):format(tostring(name)), 2, "dtype") end
      local values, places = column:unique {return_inverse = true}
      return torch.nn.functional.one_hot(places, math.max(1, #values)):float(), values:tolist()
    elseif not classes then
      local at = {}
      classes = {}
      for _, v in ipairs(column) do
        if not at[v] then at[v], classes[#classes + 1] = true, v end
      end
      table.sort(classes)
      for i, v in ipairs(classes) do at[v] = i end
      local codes = {}
      for i, v in ipairs(column) do codes[i] = at[v] end
      column = torch.tensor(codes)
    end
    return torch.nn.functional.one_hot(column:long(), #classes):float(), classes
  end

  ---Raises for a name that is neither a column nor a method, where a script reads it; nil for torch's own reads.
  ---@param self table
  ---@param key any
  function Table._missing(self, key)
    local caller = debug.getinfo(3, "S")
    if type(key) ~= "string" or key:sub(1, 1) == "_" or not caller or caller.what == "C" or caller.source:find "^=torch/" or caller.source:find "^=shell/" then return nil end
    local known = {}
    for _, name in ipairs(rawget(self, "names")) do known[name] = true end
    for name, f in next, Table do
      if type(f) == "function" and not name:find "^_" and name ~= "init" then known[name] = true end
    end
    local hint = instead[key] and ("; here: " .. instead[key])
    if not hint then
      local near = require("torch.explain.names").nearest(key, known)[1]
      hint = near and ("; did you mean %s?"):format(near) or ""
    end
    local names = rawget(self, "names")
    error(('the table has no "%s"%s (columns: %s%s; methods: column, describe, dropna, head, one_hot, part, select, tail, tensor)'):format(key, hint,
      table.concat(names, ", ", 1, math.min(12, #names)), #names > 12 and ", .." or ""), 3, "index")
  end
end
