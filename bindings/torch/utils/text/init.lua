-- torch.utils.data.text: texts as numbers. Tokenizers by characters and by pairs of bytes, and corpora to learn from.
local torch = torch
local error = torch._raise
local json = require "torch.json"
local text = {
  CharTokenizer = require "torch.utils.text.characters", BPETokenizer = require "torch.utils.text.bpe",
  Corpus = require "torch.utils.text.corpus",
}

---A whole file as text, plain or packed by gzip. It must be UTF-8 unless `encoding` says another: "gbk", "gb18030", "big5",
---"utf-16", "latin1" and what else the machine's iconv knows.
---@param path string
---@param options? {encoding?: string}
---@return string
function text.read(path, options)
  local o = require("torch.func.derivatives").options("text.read", options, {"encoding"})
  if type(path) ~= "string" then error("text.read: wants the path of a file, not " .. (torch.is_tensor(path) and "a tensor" or "a " .. type(path)), 2) end
  if o.encoding ~= nil and type(o.encoding) ~= "string" then error(('text.read: encoding is a name such as "gbk", not %s'):format(tostring(o.encoding)), 2, "value") end
  return torch._read_text(path, o.encoding)
end

---Reads a tokenizer that its save wrote, or a tokenizer.json of Hugging Face's with byte-level pairs (as GPT-2's).
---@param path string
---@return table
function text.load(path)
  if type(path) ~= "string" then error("text.load: wants the path of a file, not " .. (torch.is_tensor(path) and "a tensor" or "a " .. type(path)), 2) end
  local content
  do
    local file <close> = io.open(path, "rb") or error(("text.load: there is no file %s"):format(path), 2, "io")
    content = file:read "a"
  end
  local t = json.read(content, path)
  if type(t) ~= "table" then error(("%s: this is no tokenizer"):format(path), 2, "io") end
  if t.type == "characters" and type(t.characters) == "table" then return text.CharTokenizer(t.characters) end
  return text.BPETokenizer._from_json(t, path)
end

---The tokenizer whose state_dict this is: what a checkpoint kept.
---@param state table
---@return table
function text.from_state(state)
  if type(state) ~= "table" or (state.kind ~= "characters" and state.kind ~= "bpe") then error("text.from_state: this is no state of a tokenizer", 2) end
  if state.kind == "bpe" then return text.BPETokenizer._from_state(state) end
  return text.CharTokenizer(state.characters)
end

return torch._strict(text, "torch.utils.data.text")
