-- data.text.BPETokenizer: byte-pair encoding of bytes, as GPT-2 has it. Any bytes can be encoded and come back the same.
-- In files ids count from 0 and bytes are written as visible characters, as Hugging Face's and GPT-2's files have them.
local torch = torch
local error = torch._raise
local json = require "torch.json"
local learn, new, encode = torch._bpe_learn, torch._bpe_new, torch._bpe_encode
torch._bpe_learn, torch._bpe_new, torch._bpe_encode = nil, nil, nil

local BPETokenizer = {}
local Tokenizer = {__name = "BPETokenizer"}
Tokenizer.__index = Tokenizer
Tokenizer.__len = function(self) return self.vocab_size end
Tokenizer.__tostring = function(self)
  return ("BPETokenizer(%d tokens, %d merges%s)"):format(self.vocab_size, #self._merges // 2,
    #self.special_tokens > 0 and ", special: " .. table.concat(self.special_tokens, " ") or "")
end

-- GPT-2's visible characters for bytes: those that are visible stand for themselves, the others follow from 256 on.
local char_of, byte_of = {}, {}
do
  local next_code = 256
  for b = 0, 255 do
    local code = b
    if not ((b >= 33 and b <= 126) or (b >= 161 and b <= 172) or b >= 174) then
      code, next_code = next_code, next_code + 1
    end
    char_of[string.char(b)] = utf8.char(code)
    byte_of[utf8.char(code)] = string.char(b)
  end
end
local function visible(bytes) return (bytes:gsub(".", char_of)) end
local function to_bytes(text) return (text:gsub(utf8.charpattern, byte_of)) end

-- tokens: list of bytes; merges: flat list of pairs of ids; special: token -> id, in the table of tokens too.
local function made(tokens, merges, special, prefix)
  local names = {}
  for name in pairs(special) do names[#names + 1] = name end
  table.sort(names, function(a, b) return special[a] < special[b] end)
  local plain = tokens
  if #names > 0 then  -- text can never become a special token by merging
    plain = table.move(tokens, 1, #tokens, 1, {})
    for _, name in ipairs(names) do plain[special[name]] = "" end
  end
  return setmetatable({vocab_size = #tokens, special_tokens = names, _tokens = tokens, _merges = merges, _special = special,
    _prefix = prefix, _plain = plain}, Tokenizer)
end

-- What encodes, made when it is first needed: it cannot be copied to the workers of a loader, which make their own.
local matchers = setmetatable({}, {__mode = "k"})
local function matcher(self)
  local m = matchers[self]
  if not m then
    m = new(self._plain, self._merges)
    matchers[self] = m
  end
  return m
end

local function check_special(list)
  for i, name in ipairs(list) do
    if type(name) ~= "string" or name == "" then error(("BPETokenizer.train: special token %d is no text"):format(i), 3) end
  end
end

---Learns a tokenizer from a text: pairs of neighbouring tokens that occur most become one token, until there are
---vocab_size (256 bytes, the merged ones, the special ones). Words, numbers and marks are kept apart as in GPT-2.
---@param text string|table a text, or a list of texts
---@param options? {vocab_size?: integer, special_tokens?: table, min_frequency?: integer} vocab_size=1000, min_frequency=2
---@return table
function BPETokenizer.train(text, options)
  if type(text) == "table" and getmetatable(text) == nil then
    for i, part in ipairs(text) do
      if type(part) ~= "string" then error(("BPETokenizer.train: item %d of the list is no text"):format(i), 2) end
    end
    text = table.concat(text, "\n")
  end
  if type(text) ~= "string" then error("BPETokenizer.train: wants a text first, not " .. (torch.is_tensor(text) and "a tensor" or "a " .. type(text)), 2) end
  local o = require("torch.func.derivatives").options("BPETokenizer.train", options, {"vocab_size", "special_tokens", "min_frequency"})
  local names, size, least = o.special_tokens or {}, o.vocab_size or 1000, o.min_frequency or 2
  if type(names) ~= "table" then error("BPETokenizer.train: special_tokens is a list of texts", 2) end
  check_special(names)
  if math.type(size) ~= "integer" or size < 256 + #names then
    error(("BPETokenizer.train: vocab_size is at least %d (256 bytes and the special tokens), not %s"):format(256 + #names, tostring(size)), 2, "value")
  end
  if math.type(least) ~= "integer" then error("BPETokenizer.train: min_frequency is an integer, not " .. tostring(least), 2) end
  local tokens, merges = learn(text, size - #names, least)
  local special = {}
  for _, name in ipairs(names) do
    tokens[#tokens + 1] = name
    special[name] = #tokens
  end
  return made(tokens, merges, special, false)
end

-- The first special token in a text from `at` on; of those at one place the longest.
local function find_special(self, text, at)
  local first, last, which
  for _, name in ipairs(self.special_tokens) do
    local i, j = text:find(name, at, true)
    if i and (not first or i < first or (i == first and j > last)) then first, last, which = i, j, name end
  end
  return first, last, which
end

---The ids of a text, int64 from 1. Special tokens in the text become their ids, unless special = false says that they are
---text like any other.
---@param text string
---@param options? {special?: boolean}
function Tokenizer:encode(text, options)
  if type(text) ~= "string" then error("encode: wants a string, not " .. (torch.is_tensor(text) and "a tensor" or "a " .. type(text)), 2) end
  if options ~= nil and type(options) ~= "table" then error("encode: the options are a table {special=..}", 2) end
  if self._prefix and text:find "^%S" then text = " " .. text end
  if #self.special_tokens == 0 or (options and options.special == false) then return encode(matcher(self), text) end
  local parts, at = {}, 1
  repeat
    local first, last, which = find_special(self, text, at)
    if not first then break end
    if first > at then parts[#parts + 1] = encode(matcher(self), text:sub(at, first - 1)) end
    parts[#parts + 1] = torch.tensor({self._special[which]}, {dtype = torch.int64})
    at = last + 1
  until false
  if #parts == 0 then return encode(matcher(self), text) end
  if at <= #text then parts[#parts + 1] = encode(matcher(self), text:sub(at)) end
  return torch.cat(parts)
end

---The text of ids: a tensor, a list or one id. It may hold bytes that are no UTF-8 where the ids end within a character.
---@param ids any
function Tokenizer:decode(ids)
  local list, out, tokens = require "torch.utils.text.ids"(ids, "decode"), {}, self._tokens
  for i, id in ipairs(list) do
    out[i] = tokens[id] or error(("decode: there is no token %s (1 to %d)"):format(tostring(id), self.vocab_size), 2, "index")
  end
  return table.concat(out)
end

---The text of each token of a text, as a list.
---@param text string
function Tokenizer:tokenize(text)
  local out = self:encode(text):tolist()
  for i, id in ipairs(out) do out[i] = self._tokens[id] end
  return out
end

---The id of a token by its bytes (special ones by their name); nil when there is none.
---@param token string
function Tokenizer:id(token)
  if not self._ids then
    self._ids = {}
    for i, bytes in ipairs(self._tokens) do self._ids[bytes] = self._ids[bytes] or i end
  end
  return self._special[token] or self._ids[token]
end

---What torch.save can keep and data.text.from_state makes into the tokenizer again.
function Tokenizer:state_dict()
  return {kind = "bpe", tokens = self._tokens, merges = self._merges, special = self._special, prefix = self._prefix or false}
end

---Writes the tokenizer to a file that data.text.load and Hugging Face's Tokenizer.from_file read (tokenizer.json).
---@param path string
function Tokenizer:save(path)
  local vocab, merges, added = {}, {}, {}
  for i, bytes in ipairs(self._tokens) do
    local special = self._special[bytes] == i
    vocab[#vocab + 1] = not special and {visible(bytes), i - 1} or nil
    if special then
      added[#added + 1] = {pairs = {{"id", i - 1}, {"content", bytes}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", true}}}
    end
  end
  for i = 1, #self._merges, 2 do
    merges[#merges + 1] = visible(self._tokens[self._merges[i]]) .. " " .. visible(self._tokens[self._merges[i + 1]])
  end
  local level = {pairs = {{"type", "ByteLevel"}, {"add_prefix_space", self._prefix or false}, {"trim_offsets", true}, {"use_regex", true}}}
  torch._write_text(path, json.write {pairs = {
    {"version", "1.0"}, {"truncation", json.null}, {"padding", json.null}, {"added_tokens", added}, {"normalizer", json.null},
    {"pre_tokenizer", level}, {"post_processor", json.null}, {"decoder", level},
    {"model", {pairs = {{"type", "BPE"}, {"dropout", json.null}, {"unk_token", json.null}, {"continuing_subword_prefix", json.null},
      {"end_of_word_suffix", json.null}, {"fuse_unk", false}, {"byte_fallback", false}, {"vocab", {pairs = vocab}}, {"merges", merges}}}},
  }} .. "\n")
end

-- --- reading ---

-- vocab: visible text -> number from 0; merges: list of "left right" or {left, right}; added: name -> number.
local function from_parts(vocab, merges, added, prefix, name)
  local function damaged(...) error(("%s: %s"):format(name, (...):format(select(2, ...))), 3, "io") end
  local tokens, ids, count = {}, {}, 0
  local function put(token, bytes, id)
    if math.type(id) ~= "integer" or id < 0 then damaged("token %q has the number %s", token, tostring(id)) end
    if tokens[id + 1] and tokens[id + 1] ~= bytes then damaged("tokens %q and %q have the same number", tokens[id + 1], token) end
    if not tokens[id + 1] then count = count + 1 end
    tokens[id + 1] = bytes
  end
  for token, id in pairs(vocab) do
    local bytes = added[token] and token or to_bytes(token)
    put(token, bytes, id)
    ids[token] = id + 1
  end
  local special = {}
  for token, id in pairs(added) do
    put(token, token, id)
    special[token] = id + 1
  end
  for i = 1, count do
    if not tokens[i] then damaged("no token has the number %d, and others have larger ones", i - 1) end
  end
  local flat = {}
  for i, merge in ipairs(merges) do
    local left, right
    if type(merge) == "table" then left, right = merge[1], merge[2] else left, right = tostring(merge):match "^(%S+) (%S+)$" end
    if not ids[left] or not ids[right] then damaged("merge %d is of a token that the vocabulary lacks", i) end
    flat[#flat + 1], flat[#flat + 2] = ids[left], ids[right]
  end
  local ok, tokenizer = pcall(made, tokens, flat, special, prefix)
  if not ok then damaged("%s", tostring(tokenizer):gsub("^BPETokenizer: ", "")) end
  return tokenizer
end

---The tokenizer of a parsed tokenizer.json.
function BPETokenizer._from_json(t, name)
  local function damaged(what) error(("%s: %s"):format(name, what), 3, "io") end
  local model = type(t.model) == "table" and t.model or damaged "it has no model"
  if model.type ~= "BPE" or type(model.vocab) ~= "table" or type(model.merges) ~= "table" then
    damaged(("only byte-pair encoders of bytes are read, and this is %s"):format(tostring(model.type)))
  end
  local before = type(t.pre_tokenizer) == "table" and t.pre_tokenizer or {}
  if before.type ~= "ByteLevel" or before.use_regex == false then
    damaged(("only GPT-2's way to cut text (ByteLevel) is known, and this file cuts by %s"):format(tostring(before.type)))
  end
  local added = {}
  for _, a in ipairs(type(t.added_tokens) == "table" and t.added_tokens or {}) do
    if type(a) ~= "table" or type(a.content) ~= "string" then damaged "one of its added tokens has no content" end
    added[a.content] = a.id
  end
  return from_parts(model.vocab, model.merges, added, before.add_prefix_space == true, name)
end

---Reads GPT-2's two files, vocab.json (or encoder.json) and merges.txt (or vocab.bpe). <|endoftext|> is a special token.
---@param vocab string path of the vocabulary
---@param merges string path of the merges
---@return table
function BPETokenizer.from_gpt2(vocab, merges)
  local function read(path, which)
    if type(path) ~= "string" then error(("BPETokenizer.from_gpt2: the path of the %s must be a string"):format(which), 3) end
    local file <close> = io.open(path, "rb") or error(("BPETokenizer.from_gpt2: there is no file %s"):format(path), 3, "io")
    return file:read "a"
  end
  local text = read(vocab, "vocabulary")
  local table_of, list = json.read(text, vocab), {}
  for line in read(merges, "merges"):gmatch "[^\r\n]+" do
    if not (#list == 0 and line:find "^#version") then list[#list + 1] = line end
  end
  local name = "<|endoftext|>"
  return from_parts(table_of, list, {[name] = table_of[name]}, false, vocab)
end

---The tokenizer of a state_dict.
function BPETokenizer._from_state(state) return made(state.tokens, state.merges, state.special, state.prefix or false) end

return BPETokenizer
