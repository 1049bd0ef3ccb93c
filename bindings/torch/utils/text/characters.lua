-- data.text.CharTokenizer: every character (code point) is a token.
local torch = torch
local error = torch._raise
local json = require "torch.json"

local Tokenizer = {__name = "CharTokenizer"}
Tokenizer.__index = Tokenizer
Tokenizer.__len = function(self) return self.vocab_size end
Tokenizer.__tostring = function(self) return ("CharTokenizer(%d characters)"):format(self.vocab_size) end

local function want_text(text, who, level)
  if type(text) ~= "string" then
    error(("%s: wants a string, not %s"):format(who, torch.is_tensor(text) and "a tensor" or "a " .. type(text)), level + 1)
  end
  local ok, bad = utf8.len(text)
  if not ok then
    if torch._looks_like_gbk(text) then
      error(("%s: the text is no UTF-8; it reads as GBK: data.text.read(path, {encoding = \"gbk\"}) gives it as UTF-8"):format(who), level + 1, "value")
    end
    error(("%s: byte %d of the text belongs to no UTF-8 character; data.text.BPETokenizer takes any bytes"):format(who, bad), level + 1, "value")
  end
end

local function made(characters)
  local id_of = {}
  for i, c in ipairs(characters) do id_of[utf8.codepoint(c)] = i end
  return setmetatable({characters = characters, vocab_size = #characters, _id_of = id_of}, Tokenizer)
end

---A tokenizer whose tokens are the characters of a text, sorted; ids count from 1.
---@param text string|table a text, or the list of characters
---@return table
local function CharTokenizer(text)
  local seen, list = {}, {}
  if type(text) == "table" and getmetatable(text) == nil then
    for i, c in ipairs(text) do
      if type(c) ~= "string" or utf8.len(c) ~= 1 then error(("CharTokenizer: item %d of the list is no character"):format(i), 2) end
      if seen[c] then error(("CharTokenizer: %q is twice in the list"):format(c), 2) end
      seen[c], list[i] = true, c
    end
    return made(list)
  end
  want_text(text, "CharTokenizer", 2)
  for _, code in utf8.codes(text) do
    if not seen[code] then
      seen[code] = true
      list[#list + 1] = code
    end
  end
  table.sort(list)
  for i, code in ipairs(list) do list[i] = utf8.char(code) end
  return made(list)
end

---The ids of a text's characters, int64 from 1; a character that the tokenizer does not have is an error.
---@param text string
function Tokenizer:encode(text)
  want_text(text, "encode", 2)
  local ids, n, id_of = {}, 0, self._id_of
  for at, code in utf8.codes(text) do
    n = n + 1
    ids[n] = id_of[code] or error(("encode: the character %q at byte %d is none of the %d that the tokenizer has"):format(utf8.char(code), at, self.vocab_size), 2, "value")
  end
  return torch.tensor(ids, {dtype = torch.int64})
end

---The text of ids: a tensor, a list or one id.
---@param ids any
function Tokenizer:decode(ids)
  local list, out = require "torch.utils.text.ids"(ids, "decode"), {}
  for i, id in ipairs(list) do
    out[i] = self.characters[id] or error(("decode: there is no token %s (1 to %d)"):format(tostring(id), self.vocab_size), 2, "index")
  end
  return table.concat(out)
end

---What torch.save can keep and data.text.from_state makes into the tokenizer again.
function Tokenizer:state_dict() return {kind = "characters", characters = self.characters} end

---Writes the tokenizer to a JSON file, which data.text.load reads.
---@param path string
function Tokenizer:save(path)
  torch._write_text(path, json.write {pairs = {{"type", "characters"}, {"characters", self.characters}}} .. "\n")
end

return CharTokenizer
