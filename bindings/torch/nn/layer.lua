-- What the rows of layers are made with: the arguments of a constructor from its signature as text, and the text in
-- the brackets of a printed layer, in Lua's spelling or in PyTorch's.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local Parameter = nn.Parameter
local layer = {}

-- Arguments that may be a list; a table given alone for one of these is that list.
local lists = {kernel_size = true, normalized_shape = true, padding = true, output_size = true, modules = true,
  parameters = true, size = true, weight = true}

-- Arguments that count something: whole numbers.
local counts = {}
for name in ([[in_features out_features in1_features in2_features in_channels out_channels groups num_features num_groups
  num_channels num_embeddings embedding_dim input_size hidden_size num_layers proj_size embed_dim num_heads kdim vdim d_model
  nhead dim_feedforward num_encoder_layers num_decoder_layers num_parameters upscale_factor downscale_factor]]):gmatch "%S+" do
  counts[name] = true
end
local least = {groups = 1, num_groups = 1, num_heads = 1, nhead = 1, num_layers = 1, hidden_size = 1, upscale_factor = 1, downscale_factor = 1}
local function whole(class, name, v)
  local n = type(v) == "number" and math.tointeger(v)
  if not n or n < (least[name] or 0) then
    error(("%s: %s must be a whole number from %d, not %s"):format(class, name, least[name] or 0,
      type(v) == "string" and ("%q"):format(v) or tostring(v)), 4, type(v) == "number" and "value" or "argument")
  end
  return n
end

-- "a, b=1, c=nil" -> names, defaults; an argument without `=` must be given.
local function parse(signature)
  local spec = {names = {}, default = {}, optional = {}, known = {}}
  for part in signature:gmatch "[^,]+" do
    local name, value = part:match "^%s*([%w_]+)%s*=?%s*(.-)%s*$"
    if not name then break end  -- "...": anything
    spec.names[#spec.names + 1] = name
    spec.known[name] = true
    if value ~= "" then
      spec.optional[name] = true
      spec.default[name] = load("return " .. value)()
    end
  end
  return spec
end

local function has_names(t)
  for k in pairs(t) do
    if type(k) == "string" then return true end
  end
  return false
end
local function plain(t) return type(t) == "table" and getmetatable(t) == nil end

-- What torch.none means for an argument: no, where the default is yes or no; nil where nil can be its value.
local function without(name, n, default)
  if type(default) == "boolean" then return false end
  if default == nil or n == "momentum" then return nil end
  error(('%s: argument "%s" cannot be torch.none; leave it out for %s'):format(name, n, tostring(default)), 4)
end

---The arguments of a constructor as a table: positional ones, and named ones in a last table. What is not given has
---its default; torch.none counts as given and gives nil.
function layer.args(name, spec, ...)
  local given, out, set = table.pack(...), {}, {}
  local last, named = given[given.n], nil
  local empty = plain(last) and next(last) == nil and not lists[spec.names[given.n]]  -- {}: no names
  if plain(last) and (has_names(last) or empty or (given.n == 1 and #spec.names > 1 and not lists[spec.names[1]])) then
    named = last
    given.n = given.n - 1
    for _, v in ipairs(named) do
      given.n = given.n + 1
      given[given.n] = v
    end
  end
  local names = spec.names
  if given.n > #names then
    error(("%s: takes at most %d arguments (%s), not %d"):format(name, #names, table.concat(names, ", "), given.n), 3)
  end
  for i = 1, given.n do
    if given[i] ~= nil then out[names[i]], set[names[i]] = given[i], true end
  end
  if torch.is_tensor(given[1]) and not names[1]:find "weight" then
    error(("%s: %s is a tensor; make the layer first, then call it: nn.%s(..)(x)"):format(name, names[1], name), 3)
  end
  for k, v in pairs(named or {}) do
    if type(k) == "string" then
      if not spec.known[k] then
        error(('%s: no argument "%s" (it has: %s)'):format(name, k, table.concat(names, ", ")), 3)
      end
      if set[k] then error(('%s: argument "%s" is given twice'):format(name, k), 3) end
      out[k], set[k] = v, true
    end
  end
  for _, n in ipairs(names) do
    if not set[n] then
      if not spec.optional[n] then error(('%s: argument "%s" is missing'):format(name, n), 3) end
      out[n] = spec.default[n]
    elseif out[n] == torch.none then
      out[n] = without(name, n, spec.default[n])
    elseif counts[n] then
      out[n] = whole(name, n, out[n])
    end
  end
  if spec.known.device and out.device == nil then out.device = torch._default_device() end
  return out
end

---Raises unless an argument is a tensor.
function layer.tensor(class, what, x)
  if torch.is_tensor(x) then return x end
  error(("%s: %s must be a tensor, not a %s"):format(class, what, type(x)), 3)
end

---One whole number for each of n dimensions: a list of them, or one for all.
function layer.sizes(class, what, v, n)
  local given = type(v) == "table" and v or nil
  if given and #given ~= n then
    error(("%s: %s must be one number or a list of %d, not of %d"):format(class, what, n, #given), 4)
  end
  local out = {}
  for i = 1, n do
    local one = given and given[i] or v
    out[i] = type(one) == "number" and math.tointeger(one)
      or error(("%s: %s must be one whole number or a list of %d, not %s"):format(class, what, n, tostring(one)), 4)
  end
  return out
end

---A list of n values: the list itself, or one value n times.
function layer.list(v, n)
  if type(v) == "table" then return v end
  local out = {}
  for i = 1, n do out[i] = v end
  return out
end

-- --- text ---

-- A float as Python writes it: the shortest that reads back the same.
local function float_text(x)
  if x ~= x then return "nan" end
  if x == math.huge or x == -math.huge then return x > 0 and "inf" or "-inf" end
  for digits = 1, 17 do
    local s = ("%." .. digits .. "g"):format(x)
    if tonumber(s) == x then
      if s:find "e" and math.abs(x) >= 1 and math.abs(x) < 1e16 then s = ("%.0f"):format(x) end
      return s:find "[.e]" and s or s .. ".0"
    end
  end
end

local function value_text(v, python)
  local kind = type(v)
  if kind == "number" then return math.type(v) == "integer" and v or float_text(v) end
  if kind == "boolean" then
    if v then return python and "True" or "true" end
    return python and "False" or "false"
  end
  if kind == "string" then return python and "'" .. v .. "'" or '"' .. v .. '"' end
  if v == nil or v == torch.none then return python and "None" or "nil" end
  if kind == "table" and getmetatable(v) == nil then
    local parts = {}
    for i, one in ipairs(v) do parts[i] = value_text(one, python) end
    local inside = table.concat(parts, ", ")
    if python then return "(" .. inside .. (#parts == 1 and "," or "") .. ")" end
    return "{" .. inside .. "}"
  end
  return tostring(v)
end

function layer.python() return torch._print_options "pytorch" end

local function same(v, default)
  if type(v) ~= "table" then return v == default end
  for _, one in ipairs(v) do
    if one ~= default then return false end
  end
  return true
end

-- The text of a pattern: words "name" (name=value), "name!" (the value alone), either with "?" (only where it differs
-- from the default), "@" (a position, which PyTorch counts from 0), "$" (a word that PyTorch shows without quotes).
local words_of = setmetatable({}, {__index = function(known, pattern)
  local words = {}
  for word in pattern:gmatch "[^%s,]+" do
    local name, marks = word:match "^([%w_]+)(.*)$"
    local has = function(mark) return marks:find(mark, 1, true) ~= nil end
    words[#words + 1] = {name = name, label = has "!" and "" or name .. "=", where_other = has "?", position = has "@",
      bare = has "$"}
  end
  known[pattern] = words
  return words
end})

local function describe(self, pattern, spec)
  local python, text, words = torch._print_options "pytorch", "", words_of[pattern]
  for i = 1, #words do
    local word = words[i]
    local name = word.name
    local v = self[name]
    if name == "bias" then
      v = rawget(self, "bias") ~= nil or rawget(self, "bias_ih") ~= nil or rawget(self, "bias_ih_l0") ~= nil
    end
    if not (word.where_other and same(v, spec.default[name])) then
      if word.position and python and math.type(v) == "integer" and v > 0 then v = v - 1 end
      if not (word.bare and python and type(v) == "string") then v = value_text(v, python) end
      text = text == "" and word.label .. v or text .. ", " .. word.label .. v
    end
  end
  return text
end

-- --- classes ---

-- Arguments that do not become fields: tensors and switches for them.
local no_fields = {bias = true, device = true, dtype = true, weight = true, pos_weight = true}

---Makes the class nn[name]. `signature`: arguments with defaults, as help shows them; `doc`: one sentence;
---`def`: forward, init(self, args) (called after the arguments became fields), repr (a pattern, or nil for none),
---base, rule, see, example (for help).
function layer.define(name, signature, doc, def)
  local Layer = nn.class(name, def.base)
  local spec = parse(signature)
  nn[name] = Layer
  Layer._signature, Layer._doc, Layer._spec = signature, doc, spec
  Layer._rule, Layer._see, Layer._example = def.rule, def.see, def.example
  local init, repr = def.init, def.repr
  function Layer:init(...)
    local a = layer.args(name, spec, ...)
    for k, v in pairs(a) do
      if not no_fields[k] then rawset(self, k, v) end
    end
    if init then init(self, a) end
  end
  if def.forward then Layer.forward = def.forward end
  if repr then
    function Layer:extra_repr() return describe(self, repr, spec) end
  end
  return Layer
end

---A new parameter of a layer, not filled, of the type and device in its arguments.
function layer.empty(shape, a) return Parameter(torch.empty(shape, {dtype = a.dtype, device = a.device})) end
---A new parameter filled with one value.
function layer.full(shape, value, a)
  return Parameter(torch.full(shape, value, {dtype = a.dtype or torch.get_default_dtype(), device = a.device}))
end

---Constructor arguments by hand-written signature, for classes that are no rows.
function nn._args(name, signature, ...) return layer.args(name, type(signature) == "string" and parse(signature) or signature, ...) end

return layer
