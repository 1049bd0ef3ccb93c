-- Tables as text: data.read_csv reads one whole, data.CsvDataset row by row or piece by piece.
local torch = torch
local error = torch._raise
local arguments = require "torch.utils.arguments"

local missing_words = {"", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "?"}
local kinds = {bool = "bool", float32 = "float32", float64 = "float64", float16 = "float32", bfloat16 = "float32",
  int64 = "int", int32 = "int", int16 = "int", int8 = "int", uint8 = "int", text = "text", class = "class"}
local other_names = {float = "float32", double = "float64", half = "float16", long = "int64", int = "int64", short = "int16",
  string = "text", str = "text", category = "class", boolean = "bool"}
local ranges = {int32 = {-2147483648, 2147483647}, int16 = {-32768, 32767}, int8 = {-128, 127}, uint8 = {0, 255}}

local names_of_options = {"path", "header", "names", "columns", "dtype", "delimiter", "quote", "comment", "decimal", "encoding", "na_values", "skip_rows",
  "max_rows", needed = 1}

return function(data)
  local class = data._class

  -- --- a table that was read ---

  ---What data.read_csv gives: named columns of one length. `t.names` are the names in order, `t.columns[name]` (for short
  ---t[name] and t.name) a tensor or a list of texts, `t.classes[name]` the classes of a column of classes, #t the rows.
  local Table = class("Table")
  data._Table = Table
  Table.__len = function(self) return rawget(self, "rows") end
  Table.__index = function(self, key)
    local method = rawget(Table, key)
    if method ~= nil and (key == "column" or key == "tensor" or rawget(self, "columns")[key] == nil) then return method end
    if type(key) == "number" then key = rawget(self, "names")[key < 0 and #rawget(self, "names") + 1 + key or key] end
    if type(key) == "table" and type(key[1]) == "string" and getmetatable(key) == nil then return self:select(key) end
    local column = key ~= nil and rawget(self, "columns")[key]
    if column then return column end
    if key == "shape" then return torch.empty(1):expand(rawget(self, "rows"), #rawget(self, "names")).shape end
    local value = Table._missing(self, key)  -- no tail call: the reader's frame is looked for from there
    return value
  end
  require "torch.utils.table_methods"(Table)
  Table.__tostring = function(self)
    local lines = {("table of %d rows, %d columns"):format(self.rows, #self.names)}
    if rawget(self, "small") and self.rows > 0 then return lines[1] .. "\n" .. Table._text(self) end
    local function line(name)
      local column, classes, about = self.columns[name], self.classes[name], nil
      if classes then
        about = ("%d classes: %s"):format(#classes, table.concat(classes, " ", 1, math.min(6, #classes))) .. (#classes > 6 and " .." or "")
      elseif torch.is_tensor(column) then
        local shown = {}
        for i = 1, math.min(4, self.rows) do shown[i] = column:is_floating_point() and ("%.6g"):format(column[i]:item()) or tostring(column[i]:item()) end
        about = ("%s  %s%s"):format((tostring(column.dtype):gsub("^torch%.", "")), table.concat(shown, " "), self.rows > 4 and " .." or "")
      else
        about = "text  " .. table.concat(column, ", ", 1, math.min(4, self.rows)):sub(1, 60) .. (self.rows > 4 and " .." or "")
      end
      lines[#lines + 1] = ("  %s  %s"):format(name, about)
    end
    for i, name in ipairs(self.names) do
      if i <= 20 or i == #self.names then line(name) elseif i == 21 then lines[#lines + 1] = "  .." end
    end
    return table.concat(lines, "\n")
  end

  ---One column by its name or position: a tensor, or a list of texts.
  function Table:column(name)
    local key = math.type(name) == "integer" and self.names[name < 0 and #self.names + 1 + name or name] or name
    local column = self.columns[key]
    if column == nil then
      error(("the table has no column %s (it has: %s)"):format(tostring(name), table.concat(self.names, ", ", 1, math.min(20, #self.names))), 2, "index")
    end
    return column, self.classes[key], key
  end

  ---The number columns side by side, [rows, columns]: all of them, or those of a list of names.
  ---@param names? string[]|string|integer names or positions; one alone gives [rows, 1]
  ---@param o? {dtype: string, except: string[]} float32 unless all columns are whole numbers; columns to leave out
  function Table:tensor(names, o)
    if type(names) == "string" or math.type(names) == "integer" then names = {names} end
    if type(names) == "table" and o == nil and (names.except or names.dtype) then
      names, o = #names > 0 and names or nil, names
    end
    local left_out, list = {}, {}
    for _, name in ipairs(o and o.except or {}) do
      local _, _, key = self:column(name)
      left_out[key] = true
    end
    for _, name in ipairs(names or self.names) do
      local column, _, key = self:column(name)
      if not torch.is_tensor(column) and not left_out[key] then
        if (column[1] or ""):find "^%s*[+-]?%d+,%d+%s*$" then
          error(('column "%s" holds "%s", text; decimal = "," reads such numbers'):format(key, column[1]), 2, "dtype")
        end
        error(('column "%s" holds text; read it as classes (dtype = {["%s"] = "class"}) or leave it out (except = {"%s"})'):format(key, key, key), 2, "dtype")
      end
      if not left_out[key] then list[#list + 1] = column end
    end
    if #list == 0 then error("the table has no columns of numbers", 2, "value") end
    local dtype = o and o.dtype
    if not dtype then  -- the widest of the columns'; truth values become numbers
      local wide, real
      for _, column in ipairs(list) do
        wide = wide or column.dtype == torch.float64
        real = real or column:is_floating_point() or column.dtype == torch.bool
      end
      dtype = wide and torch.float64 or real and torch.float32 or torch.int64
    end
    local out = torch.empty({self.rows, #list}, {dtype = dtype})
    for i, column in ipairs(list) do out[{{}, i}] = column end
    return out
  end

  -- --- opening ---

  local function one_byte(who, name, value)
    if value ~= nil and value ~= false and (type(value) ~= "string" or #value > 1) then
      error(("%s: %s is one character, not %s"):format(who, name, tostring(value)), 4, "value")
    end
    return value == false and "" or value
  end

  local function count(who, name, value, least)
    if value ~= nil and (math.type(value) ~= "integer" or value < least) then
      error(("%s: %s must be a whole number from %d, not %s"):format(who, name, least, tostring(value)), 4, "value")
    end
    return value
  end

  -- The engine's kind, the tensor's dtype (or nil) and the list of classes for a dtype of the user's.
  local function kind_of(who, wanted, column)
    if type(wanted) == "table" and getmetatable(wanted) == nil then
      local texts = {}
      for i, v in ipairs(wanted) do texts[i] = tostring(v) end
      return "class", nil, texts
    end
    local name = tostring(wanted):gsub("^torch%.", "")
    name = other_names[name] or name
    if not kinds[name] then
      error(('%s: %s is no type of a column%s; types are "text", "class", a list of classes, or a dtype'):format(who, name,
        column and (' ("%s")'):format(column) or ""), 4, "dtype")
    end
    return kinds[name], rawget(torch, name), nil
  end

  -- Opens the file and tells the reader what each column is to be. `a`: the arguments. Returns the reader, the list of
  -- columns that are wanted, {at =, name =, dtype =}, and whether classes may still be found in the rows.
  local function open(who, a)
    if type(a.path) ~= "string" then error(("%s: the path must be a string, not a %s"):format(who, type(a.path)), 4) end
    for _, name in ipairs {"columns", "names", "features"} do
      if a[name] ~= nil and type(a[name]) ~= "table" then
        error(("%s: %s is a list, as in {\"a\", \"b\"}, not %s"):format(who, name, tostring(a[name])), 4)
      end
    end
    local words = {table.unpack(missing_words)}
    if a.na_values ~= nil then
      for _, v in ipairs(type(a.na_values) == "table" and a.na_values or {a.na_values}) do words[#words + 1] = tostring(v) end
    end
    if a.encoding ~= nil and type(a.encoding) ~= "string" then
      error(('%s: encoding is a name such as "gbk", not %s'):format(who, tostring(a.encoding)), 4, "value")
    end
    local header = a.header
    if header == nil and a.names then header = false end
    local reader = torch._csv_open(a.path, {delimiter = one_byte(who, "delimiter", a.delimiter), quote = one_byte(who, "quote", a.quote),
      comment = one_byte(who, "comment", a.comment), decimal = one_byte(who, "decimal", a.decimal), header = header, encoding = a.encoding, skip_rows = count(who, "skip_rows", a.skip_rows, 0), missing = words})
    local names = reader:columns()
    if a.names then
      if #a.names ~= #names then
        error(("%s: %s has %d columns, but names has %d"):format(who, a.path, #names, #a.names), 4, "value")
      end
      names = a.names
    end
    local at = {}
    for i, name in ipairs(names) do at[name] = i end
    local function place(key)
      local i = at[key]
      if not i and math.type(key) == "integer" then i = names[key < 0 and #names + 1 + key or key] and (key < 0 and #names + 1 + key or key) end
      if not i then
        error(("%s: %s has no column %s (it has: %s%s)"):format(who, a.path, tostring(key), table.concat(names, ", ", 1, math.min(20, #names)),
          #names > 20 and ", .." or ""), 5, "index")
      end
      return i
    end
    local wanted, chosen = {}, {}
    for i = 1, #names do chosen[i] = not a.columns end
    for _, key in ipairs(a.columns or {}) do chosen[place(key)] = true end
    local all_short = torch.get_default_dtype() ~= torch.float64
    local kind, dtype, classes = {}, {}, {}
    for i = 1, #names do kind[i] = all_short and "guess" or "guess64" end
    if type(a.dtype) == "table" and getmetatable(a.dtype) == nil then
      for key, value in next, a.dtype do
        local i = place(key)
        kind[i], dtype[i], classes[i] = kind_of(who, value, names[i])
      end
    elseif a.dtype ~= nil then
      local k, d = kind_of(who, a.dtype)
      for i = 1, #names do kind[i], dtype[i] = k, d end
    end
    for i, name in ipairs(names) do
      reader:set(i, chosen[i] and kind[i] or "skip", name, classes[i])
      if chosen[i] then wanted[#wanted + 1] = {at = i, name = name, dtype = dtype[i], found = kind[i] == "class" and not classes[i]} end
    end
    if a.columns then  -- in the order that was asked for
      for i, key in ipairs(a.columns) do
        local p = place(key)
        for _, w in ipairs(wanted) do
          if w.at == p then w.order = w.order or i end
        end
      end
      table.sort(wanted, function(x, y) return x.order < y.order end)
    end
    return reader, wanted
  end

  -- Classes in order of numbers or of the alphabet, and the codes that go with it.
  local function sorted_classes(codes, classes)
    local numbers, order = true, {}
    for i, s in ipairs(classes) do
      order[i] = i
      numbers = numbers and tonumber(s) ~= nil
    end
    table.sort(order, function(i, j)
      if numbers and tonumber(classes[i]) ~= tonumber(classes[j]) then return tonumber(classes[i]) < tonumber(classes[j]) end
      return classes[i] < classes[j]
    end)
    local sorted, new = {}, {}
    for place, i in ipairs(order) do sorted[place], new[i] = classes[i], place end
    return #new > 0 and torch.tensor(new):index_select(1, codes) or codes, sorted
  end

  local function make_table(who, path, wanted, rows, values)
    local out = setmetatable({names = {}, columns = {}, classes = {}, rows = rows}, Table)
    for i, w in ipairs(wanted) do
      local value = values[w.at]
      if type(value) == "table" and torch.is_tensor(value[1]) then
        if w.found then value[1], value[2] = sorted_classes(value[1], value[2]) end
        value, out.classes[w.name] = value[1], value[2]
      elseif w.dtype and torch.is_tensor(value) and value.dtype ~= w.dtype then
        local range = ranges[tostring(w.dtype):gsub("^torch%.", "")]
        if range and rows > 0 and (value:min():item() < range[1] or value:max():item() > range[2]) then
          error(("%s: %s, column %s holds %d to %d, which %s cannot"):format(who, path, w.name, value:min():item(), value:max():item(), tostring(w.dtype)), 3, "value")
        end
        value = value:to(w.dtype)
      end
      out.names[i], out.columns[w.name] = w.name, value
    end
    return out
  end

  ---Reads a table of text (CSV, TSV, .gz too) whole: numbers become tensors, other columns lists of texts. Types are guessed
  ---from all rows (bool, int64, float32; a field without a value is nan) unless `dtype` says them: one for all columns, or a table
  ---by name: a dtype, "text", "class" (codes from 1, in sorted order) or a list of classes. The first line is taken for names when
  ---it holds no number; header = true or false says so. `columns` picks columns by name or position; `names` gives names to a file
  ---without; `delimiter` is guessed among , ; | and tab; `quote` is " ; `comment` begins lines to leave out; `decimal`: "," where
  ---numbers are written 1,5; `encoding`: "gbk" and others where the file is not UTF-8; `na_values`: more texts that stand for no value; `skip_rows`, `max_rows` count lines and rows. The result: t.names, t.columns.name or t.name, t.classes, #t,
  ---t:tensor() for the columns side by side, t:tensor{except = {"name"}}; t:head(), t:describe(), t:dropna(), t[{"a", "b"}],
  ---t:part{1, 10} or t:part(t.price:gt(100)) for some rows, t:one_hot "city" for classes as numbers.
  ---@param path string
  ---@param options? {header: boolean, names: string[], columns: table, dtype: any, delimiter: string, quote: string, comment: string, decimal: string, encoding: string, na_values: string[], skip_rows: integer, max_rows: integer}
  ---@return table
  function data.read_csv(path, options)
    local a = arguments("read_csv", names_of_options, {}, path, options)
    local most = count("read_csv", "max_rows", a.max_rows, 1)
    local reader, wanted = open("read_csv", a)
    local rows, values = reader:read(most)
    reader:close()
    return make_table("read_csv", a.path, wanted, rows, values)
  end

  -- --- in pieces ---

  local dataset_options = {"path", "target", "features", "chunk", "header", "names", "columns", "dtype", "delimiter", "quote", "comment",
    "decimal", "encoding", "na_values", "skip_rows", "max_rows", needed = 1}

  ---A table of text that is read while it is used, in pieces of `chunk` rows, so that a file larger than memory will do. Its items are
  ---rows: the features (every column but the target unless a list says which) as a float32 tensor; with a `target`, a table {row, target}.
  ---set:chunks() iterates over the pieces as tables of data.read_csv. Types are guessed from the first piece; classes must be listed: dtype =
  ---{species = {"setosa", "virginica"}}. Other options are read_csv's. With workers each reads its own pieces.
  data.CsvDataset = class("CsvDataset", data.IterableDataset)
  function data.CsvDataset:init(...)
    local a = arguments("CsvDataset", dataset_options, {chunk = 8192}, ...)
    count("CsvDataset", "chunk", a.chunk, 1)
    count("CsvDataset", "max_rows", a.max_rows, 1)
    for key, value in next, a do self[key] = value end
    local reader, wanted = open("CsvDataset", self)  -- errors come now, not in the first loop
    reader:close()
    for _, w in ipairs(wanted) do
      if w.found then
        error(('CsvDataset: the classes of column "%s" must be listed, for its first rows may not hold them all: dtype = {["%s"] = {"a", "b"}}'):format(w.name, w.name), 3, "value")
      end
    end
    self.column_names = {}
    local known = {}
    for i, w in ipairs(wanted) do self.column_names[i], known[w.name] = w.name, true end
    local function name_of(key)
      local name = math.type(key) == "integer" and self.column_names[key < 0 and #self.column_names + 1 + key or key] or key
      if not known[name] then error(("CsvDataset: %s has no column %s (it has: %s)"):format(self.path, tostring(key), table.concat(self.column_names, ", ")), 4, "index") end
      return name
    end
    if self.target ~= nil then self.target = name_of(self.target) end
    if self.features then
      local list = {}
      for i, key in ipairs(self.features) do list[i] = name_of(key) end
      self.features = list
    else
      self.features = {}
      for _, name in ipairs(self.column_names) do
        if name ~= self.target then table.insert(self.features, name) end
      end
    end
  end

  ---An iterator over pieces of the file: tables as data.read_csv gives.
  function data.CsvDataset:chunks()
    local reader, wanted = open("CsvDataset", self)
    local worker, index, left = data.get_worker_info(), -1, self.max_rows or math.maxinteger
    return function()
      while reader do
        index = index + 1
        local mine = not worker or index % worker.num_workers == worker.id - 1
        local rows, values = reader:read(math.min(self.chunk, left), not mine)
        left = left - rows
        if rows == 0 then
          reader:close()
          reader = nil
        elseif mine then
          return make_table("CsvDataset", self.path, wanted, rows, values)
        end
      end
    end
  end

  function data.CsvDataset:iter()
    local next_chunk, rows, targets, at, n = self:chunks(), nil, nil, 0, 0
    return function()
      if at == n then
        local piece = next_chunk()
        if not piece then return nil end
        rows = #self.features > 0 and piece:tensor(self.features, {dtype = torch.float32}) or nil
        targets = self.target and piece:column(self.target)
        at, n = 0, #piece
      end
      at = at + 1
      local row = rows and rows[at]
      if not targets then return row end
      local target = targets[at]
      return row and {row, target} or target
    end
  end
end
