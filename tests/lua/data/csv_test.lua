-- Tables as text: types, quotes, missing values, errors with line and column, pieces, damaged files.
local data = torch.utils.data

local function file(name, text)
  local path = check.temp(name)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
  return path
end
local function csv(text, options) return data.read_csv(file("t.csv", text), options) end

test("numbers become tensors, texts lists, true and false bool, and the header names them", function()
  local t = csv("id,height,name,male\n1,1.5,Ann,false\n2,-2e3,\"Bob, Jr.\",true\n")
  check.equal(t.names, {"id", "height", "name", "male"})
  check.equal(#t, 2)
  check.dtype(t.id, "int64")
  check.dtype(t.height, "float32")
  check.dtype(t.columns.male, "bool")
  check.equal(t.height, {1.5, -2000})
  check.equal(t.name, {"Ann", "Bob, Jr."})
  check.equal(t["male"], {false, true})
  check.contains(tostring(t), "table of 2 rows, 4 columns")
  check.contains(tostring(t), "height  float32  1.5 -2000")
end)

test("a first line with numbers is a row, unless told otherwise", function()
  check.equal(csv("1,2\n3,4\n").column1, {1, 3})
  check.equal(csv("1,2\n3,4\n", {header = true})["1"], {3})
  check.equal(csv("a,b\nc,d\n", {header = false}).column2, {"b", "d"})
  check.equal(csv("1,2\n3,4", {names = {"x", "y"}}).y, {2, 4})
  check.raises("value", "has 2 columns, but names has 1", csv, "1,2\n", {names = {"x"}})
  check.equal(csv("a,a,\n1,2,3\n").names, {"a", "a_2", "column3"})
end)

test("quoted fields hold delimiters, quotes and line ends", function()
  local t = csv('a,b\n"x ""y"" z",1\n"two\nlines, here","2"\r\n  "spaced"  ,3\n"",4\n')
  check.equal(t.a, {'x "y" z', "two\nlines, here", "spaced", ""})
  check.equal(t.b, {1, 2, 3, 4})
  check.equal(csv("a\nit's \"so\"\n").a, {'it\'s "so"'})
  check.equal(csv("a;b\n'1;2';3\n", {quote = "'"}).a, {"1;2"})
  check.equal(csv('a,b\n"x,1\n', {quote = ""}).a, {'"x'})
end)

test("delimiters are guessed or given; empty lines, comments, a byte order mark and Windows' line ends pass", function()
  check.equal(csv("a\tb\n1\t2\n").b, {2})
  check.equal(csv("a;b\n1,5;2\n").names, {"a", "b"})
  check.equal(csv("a|b\n1|2\n").b, {2})
  check.equal(csv("a b\n1 2\n", {delimiter = " "}).b, {2})
  check.equal(csv("\xef\xbb\xbfa,b\r\n\r\n1,2\r\n\n3,4").b, {2, 4})
  check.equal(csv("# about\na,b\n#no\n1,2\n", {comment = "#"}).a, {1})
  check.equal(csv("title\nmore\na,b\n1,2\n", {skip_rows = 2}).b, {2})
  check.equal(csv("a\n1\n2\n3\n", {max_rows = 2}).a, {1, 2})
end)

test("types are guessed from all rows", function()
  local t = csv("a,b,c,d,e,f\n1,1,1,,x,\n2,2.5,,3,1,\n3,7,zz,NA,2,\n")
  check.dtype(t.a, "int64")
  check.equal(t.b, {1, 2.5, 7})
  check.equal(t.c, {"1", "", "zz"})
  check.dtype(t.d, "float32")
  check.equal(t.d:isnan(), {true, false, true})
  check.equal(t.e, {"x", "1", "2"})
  check.equal(t.f:isnan():all():item(), true)
  check.dtype(csv("a\n1\n\n99999999999999999999\n").a, "float32")
  check.equal(csv("a,b\ntrue,1\nyes,2\n").a, {"true", "yes"})
  -- The text of what looked like numbers in a million rows is kept.
  local rows = {"a,b"}
  for i = 1, 3000 do rows[#rows + 1] = ("%04d,%d"):format(i, i) end
  rows[#rows + 1] = "end,1"
  t = csv(table.concat(rows, "\n"))
  check.equal(t.a[7], "0007")
  check.equal(t.a[3001], "end")
  check.equal(t.b[3000]:item(), 3000)
end)

test("numbers are read to the last bit", function()
  local texts, values = {"x"}, {}
  math.randomseed(4)
  for i = 1, 3000 do
    local v = (math.random() - 0.5) * 10.0 ^ math.random(-30, 30)
    texts[i + 1], values[i] = (i % 3 == 0 and "%.17g" or i % 3 == 1 and "%.6f" or "%.9e"):format(v), 0
    values[i] = tonumber(texts[i + 1])
  end
  local t = csv(table.concat(texts, "\n"), {dtype = "float64"})
  check.equal(torch.equal(t.x, torch.tensor(values, {dtype = "float64"})), true)
  check.equal(csv("a,b,c,d,e\n9223372036854775807,-9223372036854775808,+5,1e999,-1e-999\n"):tensor({1, 2, 3}, {dtype = "int64"}),
    {{9223372036854775807, math.mininteger, 5}})
  check.equal(csv("a\n 1 \n2.\n.5\n", nil).a, {1, 2, 0.5})
  check.equal(csv("a,b,c,d\n1.5e999,-2e999,0.5e-999,-1e-999\n"):tensor(), {{math.huge, -math.huge, 0, 0}})
end)

test("types can be given: one for all, by column, classes found or listed", function()
  local text = "kind,size\nb,3\na,4\nb,5\n"
  local t = csv(text, {dtype = {kind = "class", size = torch.uint8}})
  check.equal(t.kind, {2, 1, 2})
  check.equal(t.classes.kind, {"a", "b"})
  check.dtype(t.size, "uint8")
  t = csv(text, {dtype = {kind = {"b", "a", "c"}}})
  check.equal(t.kind, {1, 2, 1})
  check.equal(t.classes.kind, {"b", "a", "c"})
  check.raises("io", 't.csv, line 3, column 1 (kind): "a" is not one of the classes', csv, text, {dtype = {kind = {"b"}}})
  check.equal(csv("y\n10\n9\n10\n", {dtype = {y = "class"}}).classes.y, {"9", "10"})
  check.dtype(csv("1,2\n", {dtype = "float64"}).column1, "float64")
  check.equal(csv("1,2\n", {dtype = "text"}).column2, {"2"})
  check.raises("io", 'line 3, column 2 (size): "4.5" is not a whole number', csv, "k,size\nb,3\na,4.5\n", {dtype = {size = "int32"}})
  check.raises("value", "300", csv, "a\n300\n", {dtype = {a = "uint8"}})
  check.raises("dtype", "no type of a column", csv, "a\n1\n", {dtype = {a = "complex"}})
end)

test("columns are picked by name or position, and put side by side", function()
  local text = "a,b,c\n1,x,2.5\n3,y,4.5\n"
  local t = csv(text, {columns = {"c", 1}})
  check.equal(t.names, {"c", "a"})
  check.equal(t:tensor(), {{2.5, 1}, {4.5, 3}})
  t = csv(text)
  check.equal(t:tensor {"a", -1}, {{1, 2.5}, {3, 4.5}})
  check.equal(t:tensor {except = {"b", "c"}}, {{1}, {3}})
  check.dtype(t:tensor {"a"}, "int64")
  check.raises("dtype", 'column "b" holds text', function() t:tensor() end)
  check.raises("index", "has no column z (it has: a, b, c)", csv, text, {columns = {"z"}})
  check.raises("index", "no column z", function() t:column "z" end)
  check.equal(t[1], {1, 3})
  check.equal(csv("a,b\n1,-999\n2,3\n", {na_values = {-999}}).b:isnan(), {true, false})
end)

test("gzip files are read as they are", function()
  local path = file("z.csv", "a,b\n1,2\n3,4\n")
  os.execute("gzip -kf " .. check.quote(path))
  check.equal(data.read_csv(path .. ".gz").b, {2, 4})
  local t = data.read_csv("scripts/data/digits.csv.gz", {dtype = {[-1] = "class"}})
  check.equal({#t, #t.names, #t.classes.column65}, {1797, 65, 10})
  check.shape(t:tensor {except = {-1}}, {1797, 64})
end)

test("what is wrong is said with line and column", function()
  for _, row in ipairs {
    {"a,b\n1,2\n3\n", "line 3 has 1 column, the first line 2"},
    {"a,b\n1,2\n3,4,5\n", "line 3 has more than 2 columns, the first line 2"},
    {'a,b\n1,"2\n3,4\n', "line 2, column 2 (b): a quote is never closed"},
    {'a,b\n"x"y,2\n', "line 2, column 1 (a): 'y' follows a closing quote"},
    {"", "holds no rows"}, {"\n\n", "holds no rows"},
    {"a\0b\n", "is no text"},
  } do
    local err = check.raises("io", row[2], csv, row[1])
    check.contains(err.message, "t.csv")
  end
  check.raises("io", "No such file", data.read_csv, "/nowhere/t.csv")
  check.raises("io", "s a directory", data.read_csv, "/tmp")
  check.raises("argument", 'no argument "delimeter"; did you mean "delimiter"?', csv, "a\n", {delimeter = ","})
  check.raises("argument", "path must be a string", data.read_csv, 3)
  check.raises("value", "one character", csv, "a\n1\n", {delimiter = ";;"})
end)

test("rows longer than the reader's piece, and quotes across pieces, are whole", function()
  local long = ("x"):rep(3 << 20)
  local t = csv(('a,b\n"%s\n%s",7\nz,8\n'):format(long, long))
  check.equal(#t.a[1], 2 * #long + 1)
  check.equal(t.b, {7, 8})
  -- Row ends fall on every place of a piece's end.
  local rows, sum = {"n,text"}, 0
  for i = 1, 60000 do
    rows[#rows + 1] = ('%d,"%s"'):format(i, ("q,\n"):rep(i % 9))
    sum = sum + i
  end
  t = csv(table.concat(rows, "\r\n"))
  check.equal(t.n:sum():item(), sum)
  check.equal(t.text[59999], ("q,\n"):rep(59999 % 9))
end)

test("a file is read in pieces, with types from the first", function()
  local rows = {"x,y,kind"}
  for i = 1, 1000 do rows[#rows + 1] = ("%d,%g,%s"):format(i, i / 2, i % 2 == 0 and "even" or "odd") end
  local path = file("pieces.csv", table.concat(rows, "\n"))
  local set = data.CsvDataset(path, {target = "kind", chunk = 64, dtype = {kind = {"odd", "even"}}})
  local pieces, n = 0, 0
  for piece in set:chunks() do
    pieces, n = pieces + 1, n + #piece
  end
  check.equal({pieces, n}, {16, 1000})
  local count = 0
  for x, kind in data.DataLoader(set, {batch_size = 300})() do
    check.equal(x:size(2), 2)
    check.equal(kind[1]:item(), (x[{1, 1}]:item() - 1) % 2 + 1)
    count = count + #x
  end
  check.equal(count, 1000)
  local x = data.CsvDataset(path, {features = {"y"}}):iter()()
  check.equal(x, {0.5})
  check.raises("value", "must be listed", data.CsvDataset, path, {dtype = {kind = "class"}})
  check.raises("index", "no column size", data.CsvDataset, path, {target = "size"})
  rows[900] = "a,b,c"
  local broken = data.CsvDataset(file("broken.csv", table.concat(rows, "\n")), {chunk = 64})
  check.raises("io", 'line 900, column 1 (x): "a" is not a whole number', function()
    for _ in broken:chunks() do end
  end)
end)

test("a large file is read in bounded memory", function()
  local r = check.tycho({"-e", [[
    local data = torch.utils.data
    local path = os.tmpname()
    local f = io.open(path, "w")
    local line = ("0.125,1.5,2.25,abc\n"):rep(10000)
    f:write("a,b,c,d\n")
    for i = 1, 200 do f:write(line) end
    f:close()
    local rows, sum = 0, 0
    for piece in data.CsvDataset(path, {columns = {"a", "b", "c"}}):chunks() do
      rows, sum = rows + #piece, sum + piece.a:sum():item()
    end
    print(rows, sum)
    os.remove(path)]]}, {limit_kb = 600000})
  check.equal(r.out, "2000000\t250000.0\n", r.err)
end)

test("mutated tables are read or refused with an io error, 3,000 ways", function()
  math.randomseed(11)
  local whole = 'id,height,name,male\n1,1.5,Ann,false\n2,-2e3,"Bob, ""Jr.""",true\n3,,"x\ny",true\r\n4,7,z,\n'
  local bytes = {",", '"', "\n", "\r", "\0", ";", "-", ".", "e", "9", " ", "\255"}
  for _ = 1, 3000 do
    local s = whole
    for _ = 1, math.random(4) do
      local at = math.random(#s)
      s = s:sub(1, at - 1) .. bytes[math.random(#bytes)] .. s:sub(at + math.random(0, 2))
    end
    local path = file("mutated.csv", s)
    local ok, err = pcall(data.read_csv, path)
    if not ok and (type(err) ~= "table" and type(err) ~= "userdata" or err.kind ~= "io") then error(err, 0) end
  end
  local packed = file("mutated.csv", whole:rep(20))
  os.execute("gzip -kf " .. check.quote(packed))
  local f = io.open(packed .. ".gz", "rb")
  local gz = f:read("a")
  f:close()
  for i = 1, 600 do
    local at = math.random(#gz)
    local s = i % 2 == 0 and gz:sub(1, at - 1) or gz:sub(1, at - 1) .. string.char(math.random(0, 255)) .. gz:sub(at + 1)
    local ok, err = pcall(data.read_csv, file("mutated.gz", s))
    if not ok and err.kind ~= "io" then error(err, 0) end
  end
end)

test("a table shows its rows, gives parts and numbers for classes, and names what it has not", function()
  local path = check.temp "houses.csv"
  local f = assert(io.open(path, "w"))
  f:write "area,rooms,city,price\n70.5,1,Oslo,131.4\n41,3,Bergen,88\n,4,Oslo,465.8\n55.6,1,,93.5\n"
  f:close()
  local t = data.read_csv(path)
  check.equal(tostring(t:head(2)), [[
table of 2 rows, 4 columns
   area  rooms    city  price
1  70.5      1    Oslo  131.4
2    41      3  Bergen     88]])
  check.contains(tostring(t:tail(1)), "1  55.6      1")
  check.contains(tostring(t:describe()), "area +3 +1 +55.7")
  check.equal(t:describe().max:tolist(), {70.5, 4.0, t.price:max():item()})
  check.equal(t.shape, {4, 4})
  check.equal(t[{"price", "area"}].names, {"price", "area"})
  check.equal(t:dropna().rows, 2)
  check.equal(t:dropna({"area"}).price:tolist(), data.read_csv(path, {columns = {"price"}}).price[torch.tensor {1, 2, 4}]:tolist())
  check.equal(t:part {2, -1}.city, {"Bergen", "Oslo", ""})
  check.equal(t:part(t.price:gt(100)).rooms, {1, 4})
  check.equal(t:part(torch.tensor {3, 1}).rooms, {4, 1})
  local named = t:part {1, 4}
  named.columns.part, named.columns.text = named.columns.price, named.columns.city  -- a column's name comes first
  check.equal(named.part:tolist(), t.price:tolist())
  check.equal(#named:head(2), 2)
  local x, names = t:one_hot "city"
  check.equal(names, {"", "Bergen", "Oslo"})
  check.equal(x[1], {0, 0, 1})
  check.equal((select(2, t:one_hot "rooms")), {1, 3, 4})
  check.equal(t[-1]:tolist(), t.price:tolist())
  for _, row in ipairs {{"prise", "did you mean price?"}, {"isna", "t.column:isnan()"}, {"hed", "did you mean head?"}, {"get_dummies", "t:one_hot"}} do
    check.raises("index", row[2], function() return t[row[1]] end)
  end
  check.raises("index", "rows 0 to 3 of 4", t.part, t, {0, 3})
  check.raises("shape", "the mask has shape [2]", t.part, t, torch.tensor {true, false})
  check.raises("argument", "wants rows as {first, last}", t.part, t, "all")
  check.raises("index", "row 9 of 4", t.part, t, torch.tensor {9})
  check.raises("index", "no column aera", function() return t[{"aera"}] end)
  check.raises("dtype", "not classes", t.one_hot, t, "area")
  check.raises("argument", "a number of rows", t.head, t, -1)
end)

-- 姓名,分数 / 张三,90.5 / 李四,85 as Chinese programs write them.
local in_gbk = "\xD0\xD5\xC3\xFB,\xB7\xD6\xCA\xFD\n\xD5\xC5\xC8\xFD,90.5\n\xC0\xEE\xCB\xC4,85\n"

test("files in GBK are named as such, and read with their encoding", function()
  local path = file("gbk.csv", in_gbk)
  local err = check.raises("io", "reads as GBK", data.read_csv, path)
  check.contains(err.hint, 'encoding = "gbk"')
  local t = data.read_csv(path, {encoding = "gbk"})
  check.equal(t.names, {"姓名", "分数"})
  check.equal(t["姓名"], {"张三", "李四"})
  check.equal(t["分数"], {90.5, 85})
  check.equal(data.read_csv(path, {encoding = "GB18030"}).names, t.names)
  local set = data.CsvDataset(path, {encoding = "gbk", features = {"分数"}})
  for piece in set:chunks() do check.equal(piece["分数"], {90.5, 85}) end
  check.equal(csv("n\xE4me,x\nr\xE9sum\xE9,3\n").x, {3})  -- Latin letters with accents are no GBK
  check.equal(csv("n\xE4me,x\nr\xE9sum\xE9,3\n", {encoding = "latin1"}).names, {"näme", "x"})
  check.equal(csv("\xFF\xFEa\0,\0b\0\n\0" .. "1\0,\0" .. "2\0\n\0", {encoding = "utf-16"}).b, {2})
  check.raises("io", "holds zero bytes", csv, "\xFF\xFEa\0,\0b\0\n\0")
  check.raises("io", "byte 3 is no text in gbk", csv, "ab\xFF\xFF", {encoding = "gbk"})
  check.raises("io", "byte 3 is no text in gbk", csv, "ab\xD0", {encoding = "gbk"})
  check.raises("value", "no encoding \"klingon\"", data.read_csv, path, {encoding = "klingon"})
  check.raises("value", 'encoding is a name such as "gbk", not 3', data.read_csv, path, {encoding = 3})
end)

test("a text longer than what is decoded at a time is whole", function()
  local t = csv(("\xD5\xC5,1\n"):rep(500000), {encoding = "gbk", header = false, names = {"name", "x"}})
  check.equal(#t, 500000)
  check.equal(t.x:sum():item(), 500000)
  check.equal(t.name[500000], "张")
end)

test("text.read gives texts of any encoding as UTF-8", function()
  local read = data.text.read
  local path = file("gbk.txt", in_gbk)
  check.equal(read(path, {encoding = "gbk"}), "姓名,分数\n张三,90.5\n李四,85\n")
  check.raises("io", "reads as GBK", read, path)
  check.equal(read(file("utf8.txt", "\xEF\xBB\xBF张三")), "张三")
  check.equal(read(file("empty.txt", "")), "")
  check.raises("io", "is no UTF-8 text", read, file("latin.txt", "caf\xE9 r\xE9sum\xE9"))
  check.raises("value", "it reads as GBK: data.text.read", data.text.CharTokenizer, in_gbk)
  check.raises("argument", "wants the path of a file", read, 5)
  check.raises("value", "encoding is a name", read, path, {encoding = {}})
end)
