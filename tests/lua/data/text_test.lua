-- data.text: tokenizers and corpora. Tokens of the byte-pair tokenizer are those of Hugging Face's tokenizers (0.23).
local text, json = torch.utils.data.text, require "torch.json"
local poem = "the cat sat on the mat, the rat sat on the cat; that's that.\n\n  the  end 2024\n"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end
local function write(path, content)
  local file <close> = assert(io.open(path, "wb"))
  file:write(content)
  return path
end

test("characters are tokens from 1 in their order, whatever their length in bytes", function()
  local tok = text.CharTokenizer "hé日h\u{1F600}"
  check.equal(tok.characters, {"h", "é", "日", "\u{1F600}"})
  check.equal(#tok, 4)
  local ids = tok:encode "日hé"
  check.equal(ids, {3, 1, 2})
  check.dtype(ids, "int64")
  check.equal(tok:decode(ids), "日hé")
  check.equal(tok:decode {4, 4}, "\u{1F600}\u{1F600}")
  check.equal(tok:decode(2), "é")
  check.equal(tok:encode "":numel(), 0)
  check.equal(tok:decode(tok:encode ""), "")
end)

test("a character tokenizer is kept in a file or a checkpoint", function()
  local tok = text.CharTokenizer 'a"\\\n\té\0'
  tok:save(check.temp "chars.json")
  check.equal(text.load(check.temp "chars.json").characters, tok.characters)
  torch.save({tok = tok:state_dict()}, check.temp "chars.pt")
  check.equal(text.from_state(torch.load(check.temp "chars.pt").tok).characters, tok.characters)
end)

test("misuse of tokenizers is named", function()
  local tok = text.CharTokenizer "abc"
  check.raises("value", '"d" at byte 3', function() tok:encode "abd" end)
  check.raises("value", "byte 2", function() text.CharTokenizer "a\xff" end)
  check.raises("index", "no token 4 (1 to 3)", function() tok:decode {1, 4} end)
  check.raises("index", "no token 0", function() tok:decode(torch.tensor {0}) end)
  check.raises("shape", "row by row", function() tok:decode(torch.tensor {{1, 2}}) end)
  check.raises("dtype", "integers", function() tok:decode(torch.tensor {1.0}) end)
  check.raises(nil, "wants a string", function() tok:encode(3) end)
  check.raises(nil, "twice", function() text.CharTokenizer {"a", "a"} end)
  local pairs_tok = text.BPETokenizer
  check.raises("value", "at least 257", function() pairs_tok.train("a", {vocab_size = 256, special_tokens = {"<e>"}}) end)
  check.raises("argument", "vocab_size", function() pairs_tok.train("a", {vocab = 300}) end)
  check.raises(nil, "wants a text", function() pairs_tok.train(torch.ones(1)) end)
  check.raises("index", "no token 999", function() pairs_tok.train("a"):decode {999} end)
  check.raises("io", "no file", function() text.load(check.temp "nothing.json") end)
end)

test("pairs are learnt in Hugging Face's order", function()
  local tok = text.BPETokenizer.train(poem, {vocab_size = 270})
  local learnt = {}
  for i = 257, #tok do learnt[#learnt + 1] = tok:decode(i) end
  check.equal(learnt, {"at", "th", " th", " the", "cat", "on", "sat", " cat", " on", " sat", " that"})
end)

test("text is cut as GPT-2's pattern cuts it", function()
  local tok = text.BPETokenizer.train ""  -- nothing is merged
  check.equal(#tok, 256)
  check.equal(tok:encode("! a"), {1, 221, 65})  -- GPT-2's numbers of bytes, from 1
  tok = text.BPETokenizer.train(("don't we'll 'tis it’s x1 22 ?! é日\t\n  b  \n"):rep(40), {vocab_size = 400})
  check.equal(tok:tokenize "don't we'll 'tis it’s x1 22 ?! é日\t\n  b  \n", {"don", "'t", " we", "'ll", " '", "tis", " it", "’", "s", " x", "1",
    " 22", " ?!", " é日", "\t\n ", " b", "  ", "\n"})
end)

test("any bytes come back the same", function()
  local tok = text.BPETokenizer.train(poem:rep(3), {vocab_size = 300, special_tokens = {"<|end|>"}})
  local words = {"the", " cat", "\n", "  ", "é", "’", "<|end|>", "\xe2\x82", "'re", "\u{1F600}"}
  math.randomseed(3)
  for _ = 1, 300 do
    local parts = {}
    for i = 1, math.random(0, 40) do parts[i] = math.random() < 0.5 and words[math.random(#words)] or string.char(math.random(0, 255)) end
    local s = table.concat(parts)
    check.equal(tok:decode(tok:encode(s)), s)
    check.equal(tok:decode(tok:encode(s, {special = false})), s)
  end
  local long = ("that"):rep(5000)  -- one word: merged with a heap
  check.equal(tok:decode(tok:encode(long)), long)
  check.yes(#tok:encode(long) < 5010 * 2)
  check.equal(tok:encode "":numel(), 0)
end)

test("a long word is merged as a short one is", function()
  local tok = text.BPETokenizer.train((" banana bandana anna"):rep(5), {vocab_size = 280})
  local long = ("bananabandanaanna"):rep(12)  -- over the length from which the heap is used
  local ids = tok:encode(long):tolist()
  local merges, tokens = tok:state_dict().merges, {}
  for c in long:gmatch "." do tokens[#tokens + 1] = tok:id(c) end
  for m = 1, #merges, 2 do  -- in rank order, each from left to right
    local out, i = {}, 1
    local merged = tok:id(tok:decode {merges[m], merges[m + 1]})
    while i <= #tokens do
      local pair = tokens[i] == merges[m] and tokens[i + 1] == merges[m + 1]
      out[#out + 1] = pair and merged or tokens[i]
      i = i + (pair and 2 or 1)
    end
    tokens = out
  end
  check.equal(ids, tokens)
end)

test("special tokens are one id each and never come out of a merge", function()
  local tok = text.BPETokenizer.train(poem, {vocab_size = 280, special_tokens = {"<|a|>", "<|a|><|b|>"}})
  check.equal(tok.special_tokens, {"<|a|>", "<|a|><|b|>"})
  local a, ab = #tok - 1, #tok
  check.equal(tok:encode "<|a|>", {a})
  check.equal(tok:encode "<|a|><|b|>", {ab})
  check.equal(tok:encode("<|a|>the<|a|>"), torch.cat {torch.tensor {a}, tok:encode "the", torch.tensor {a}})
  check.yes(#tok:encode("<|a|>", {special = false}) > 1)
  check.equal(tok:id "<|a|>", a)
  check.equal(tok:id "no such token", nil)
end)

test("tokenizers are kept in tokenizer.json, in checkpoints and in GPT-2's two files", function()
  local tok = text.BPETokenizer.train(poem:rep(2), {vocab_size = 290, special_tokens = {"<|endoftext|>"}})
  local sample = poem .. "<|endoftext|> é\xff\n"
  local ids = tok:encode(sample)
  tok:save(check.temp "tokenizer.json")
  check.equal(text.load(check.temp "tokenizer.json"):encode(sample), ids)
  torch.save(tok:state_dict(), check.temp "tokenizer.pt")
  check.equal(text.from_state(torch.load(check.temp "tokenizer.pt")):encode(sample), ids)
  local t = json.read(read(check.temp "tokenizer.json"), "tokenizer.json")
  t.model.vocab["<|endoftext|>"] = #tok - 1
  local vocab = {}
  for token, id in pairs(t.model.vocab) do vocab[#vocab + 1] = {token, id} end
  write(check.temp "vocab.json", json.write {pairs = vocab})
  write(check.temp "merges.txt", "#version: 0.2\n" .. table.concat(t.model.merges, "\n") .. "\n")
  local gpt2 = text.BPETokenizer.from_gpt2(check.temp "vocab.json", check.temp "merges.txt")
  check.equal(gpt2:encode(sample), ids)
  check.equal(#gpt2, #tok)
end)

test("damaged tokenizer files are errors that name the file", function()
  local tok = text.BPETokenizer.train(poem, {vocab_size = 260})
  tok:save(check.temp "good.json")
  local good, bad = read(check.temp "good.json"), check.temp "bad.json"
  local function fails(with, content)
    write(bad, content)
    check.raises("io", with, function() text.load(bad) end)
  end
  fails("bad.json", "")
  fails("no valid JSON", good:sub(1, 500))
  fails("no model", "{}")
  fails("Unigram", (good:gsub('"type": "BPE"', '"type": "Unigram"')))
  fails("cuts by Split", (good:gsub('"type": "ByteLevel"', '"type": "Split"', 1)))
  fails("merge 1 is of a token", (good:gsub('"merges": %[', '%0"zz zz", ')))
  fails("same number", (good:gsub('"vocab": {', '%0"nn": 5, ')))
  fails("larger ones", (good:gsub('"vocab": {', '%0"nn": 5000, ')))
  fails("nested too deep", ("["):rep(5000))
  math.randomseed(5)
  for _ = 1, 200 do
    local at = math.random(#good)
    write(bad, good:sub(1, at - 1) .. string.char(math.random(0, 255)) .. good:sub(at + math.random(0, 3)))
    local ok, err = pcall(text.load, bad)
    check.yes(ok or type(err) == "userdata" or type(err) == "table", tostring(err))
  end
end)

test("JSON is read as written", function()
  local value = json.read('{"a": [1, -2.5e3, true, null, "\\u00e9\\ud83d\\ude00\\n\\"\\\\"], "b": {}, "c": []}', "here")
  check.equal(value.a[1], 1)
  check.equal(value.a[2], -2500.0)
  check.equal(value.a[3], true)
  check.yes(rawequal(value.a[4], json.null))
  check.equal(value.a[5], 'é\u{1F600}\n"\\')
  check.equal(json.read(json.write {pairs = {{'x"\n\\\1', {1, "é", false}}}}, "here"), {['x"\n\\\1'] = {1, "é", false}})
  for _, wrong in ipairs {"{", "[1,]", '{"a" 1}', "tru", "1 2", '"a', '"\\x"', "{1: 2}", "-"} do
    check.raises("io", "no valid JSON", function() json.read(wrong, "here") end)
  end
end)

test("a corpus gives batches of pieces and of the same one token later", function()
  local corpus = text.Corpus(poem)
  check.equal(corpus.vocab_size, #corpus.tokenizer)
  check.equal(#corpus.train + #corpus.test, #poem)
  check.equal(#corpus.test, #poem // 10)
  check.equal(corpus:decode(torch.cat {corpus.train, corpus.test}), poem)
  torch.manual_seed(1)
  local x, y = corpus:batch(64, 8)
  check.equal(x.shape, {64, 8})
  check.equal(x[{{}, {2, 8}}], y[{{}, {1, 7}}])
  local learnt = corpus:decode(corpus.train)
  for i = 1, 64 do check.yes(learnt:find(corpus:decode(x[i]) .. corpus:decode(y[i][-1]), 1, true)) end
  local a, b = corpus:blocks(5)
  check.equal(a.shape, {(#corpus.train - 1) // 5, 5})
  check.equal(corpus:decode(a:reshape(-1)), learnt:sub(1, a:numel()))
  check.equal(b:reshape(-1), corpus.train[{{2, a:numel() + 1}}])
  check.equal(corpus:blocks(3, {split = "test"}).shape[2], 3)
  local all = text.Corpus(poem, {test = 0, tokenizer = text.BPETokenizer.train(poem, {vocab_size = 270})})
  check.equal(#all.test, 0)
  check.equal(all:decode(all.train), poem)
  check.equal(all:batch(1, #all.train - 1)[1], all.train[{{1, -2}}])
  check.raises("value", "do not fit", function() corpus:batch(2, #corpus.train) end)
  check.raises("value", "split", function() corpus:batch(2, 3, {split = "valid"}) end)
  check.raises("value", "share", function() text.Corpus(poem, {test = 1}) end)
end)
