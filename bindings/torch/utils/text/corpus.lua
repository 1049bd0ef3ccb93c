-- data.text.Corpus: a text as one long row of tokens, for networks that learn what comes next.
local torch = torch
local error = torch._raise

local Corpus = {__name = "Corpus"}
Corpus.__index = Corpus
Corpus.__tostring = function(self)
  return ("Corpus(%d tokens to learn, %d to test, %s)"):format(#self.train, #self.test, tostring(self.tokenizer))
end

---A text as tokens: `corpus.train` and `corpus.test` are rows of ids (int64 from 1), the test is the last part.
---@param text string
---@param options? {tokenizer?: table, test?: number, device?: any} tokenizer: CharTokenizer(text); test=0.1, its share
---@return table
local function new(text, options)
  if type(text) ~= "string" then error("Corpus: wants a text first, not " .. (torch.is_tensor(text) and "a tensor" or "a " .. type(text)), 2) end
  local o = require("torch.func.derivatives").options("Corpus", options, {"tokenizer", "test", "device"})
  local tokenizer, share = o.tokenizer or require "torch.utils.text.characters"(text), o.test or 0.1
  if type(tokenizer) ~= "table" or type(tokenizer.encode) ~= "function" then error("Corpus: the tokenizer has no encode(text)", 2) end
  if type(share) ~= "number" or share < 0 or share >= 1 then error(("Corpus: test is the share of the text kept for testing, from 0 to below 1, not %s"):format(tostring(share)), 2, "value") end
  local ids = tokenizer:encode(text)
  if o.device then ids = ids:to(o.device) end
  local cut = #ids - math.floor(#ids * share)
  return setmetatable({tokenizer = tokenizer, vocab_size = tokenizer.vocab_size, train = ids:narrow(1, 1, cut),
    test = ids:narrow(1, cut + 1, #ids - cut)}, Corpus)
end

local function part(self, split, who)
  split = split or "train"
  if split ~= "train" and split ~= "test" then error(('%s: split is "train" or "test", not %s'):format(who, tostring(split)), 3, "value") end
  return self[split]
end

local function count(n, what, who)
  if math.type(n) ~= "integer" or n < 1 then error(("%s: %s must be a positive integer, not %s"):format(who, what, tostring(n)), 3, "value") end
end

---Pieces from random places: x [batch_size, block_size], and y, the same one token later.
---@param batch_size integer
---@param block_size integer
---@param options? {split?: string, generator?: userdata} split="train"
function Corpus:batch(batch_size, block_size, options)
  local o = require("torch.func.derivatives").options("batch", options, {"split", "generator"})
  count(batch_size, "batch_size", "batch")
  count(block_size, "block_size", "batch")
  local ids = part(self, o.split, "batch")
  local last = #ids - block_size
  if last < 1 then error(("batch: the text has %d tokens; block_size %d and one more do not fit"):format(#ids, block_size), 2, "value") end
  local first = torch.randint(1, last + 1, {batch_size, 1}, {generator = o.generator}):to(ids.device)
  local places = first + torch.arange(0, block_size, {device = ids.device})
  return ids[places], ids[places + 1]
end

---The whole part, piece by piece in order: x [n, block_size] and y, the same one token later. What is left at the end and
---fills no piece is left out.
---@param block_size integer
---@param options? {split?: string} split="train"
function Corpus:blocks(block_size, options)
  local o = require("torch.func.derivatives").options("blocks", options, {"split"})
  count(block_size, "block_size", "blocks")
  local ids = part(self, o.split, "blocks")
  local n = (#ids - 1) // block_size
  if n < 1 then error(("blocks: the text has %d tokens; block_size %d and one more do not fit"):format(#ids, block_size), 2, "value") end
  return ids:narrow(1, 1, n * block_size):reshape(n, block_size), ids:narrow(1, 2, n * block_size):reshape(n, block_size)
end

---The ids of a text.
---@param text string
function Corpus:encode(text) return self.tokenizer:encode(text):to(self.train.device) end

---The text of ids.
---@param ids any
function Corpus:decode(ids) return self.tokenizer:decode(ids) end

return new
