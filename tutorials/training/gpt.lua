--# title   A tiny GPT that speaks
--# see     nn

--# say     A program that chats does one thing: it looks at a text, and says how likely each letter (or piece
--#         of a word) is to come next. It draws one, puts it behind the text, and looks again. Here you
--#         build a small one. It will know a single story.
story = [[the fox ran to the hill and the fox saw the moon. the moon saw the fox run down the hill.
the owl sat by the moon and the owl saw the fox. the fox ran home and the owl flew to the hill.
]]
--# predict #story > 100 --> true
--# ask     Is it longer than 100 letters? (true or false)
--# wrong   false: It has two lines of more than 80 letters.
--# hint    Two long lines.

--# say     Each letter that occurs gets a number, from 1, in the order in which they are met first.
letters, number = {}, {}
for c in string.gmatch(story, ".") do
  if not number[c] then
    letters[#letters + 1] = c
    number[c] = #letters
  end
end
print(table.concat(letters))
--# predict number.e --> 3
--# ask     The story begins with "the fox". What is the number of e?
--# wrong   2: t is 1, h is 2.
--# wrong   5: That is its place in the alphabet.
--# hint    t, h, e.

--# say     Text to numbers, and back.
--# new     tensor tolist
--# task    Write encode(text), an int64 tensor of the numbers of its letters, by the table `number`; all
--#         letters of text occur in the story.
--# spec    encode(text)
--#         local out = torch.zeros(#text, {dtype = "int64"})
--#         for i = 1, #text do out[i] = number[string.sub(text, i, i)] end
--#         return out
--# try     a in 1..20
--# try     b in 21..40
--# try     text = string.sub(story, a, b)
--# wrong   function encode(text) return torch.tensor{string.byte(text, 1, -1)} end: These are the computer's
--#         numbers of letters. Ours are in `number`.
--# wrong   function encode(text) local out = {} for i = 1, #text do out[i] = string.sub(text, i, i) end return
--#         torch.tensor(out) end: Letters are no numbers yet: number[letter].
--# hint    `string.sub(text, i, i)` is the i-th letter.
--# hint    A table of `number[..]` for i from 1 to #text, then torch.tensor of it.
--# answer
function encode(text)
  local out = {}
  for i = 1, #text do out[i] = number[string.sub(text, i, i)] end
  return torch.tensor(out)
end
print(encode("the fox"))

--# say     And back: `decode` gives the text of a tensor of numbers.
function decode(ids)
  local out = {}
  for i, n in ipairs(ids:tolist()) do out[i] = letters[n] end
  return table.concat(out)
end
ids = encode(story)
--# predict decode(ids) == story --> true
--# wrong   false: To numbers and back is where it began.
--# hint    There and back.

--# say     What is an example? A piece of the story, and at each of its places the letter that comes next:
--#         the same piece, one further. From "the fox" come the inputs "the fo" and the answers "he fox".
--#         Six questions from seven letters.
seven = encode("the fox")
--# predict decode(seven["2:"]["3:3"]) == " " --> true
--# ask     The third input is "e". Is its answer the blank? (true or false)
--# wrong   false: Behind "the" comes a blank.
--# hint    What comes behind "the"?

--# say     A batch of pieces at random places.
--# new     arange view unsqueeze
--# task    Write pieces(starts, t): for places `starts` [n], two tensors [n, t]: the pieces of t letters of
--#         `ids` that begin there, and the pieces that begin one later.
--# spec    pieces(starts, t)
--#         local x, y = {}, {}
--#         for i, s in ipairs(starts:tolist()) do x[i], y[i] = ids[{{s, s + t - 1}}], ids[{{s + 1, s + t}}] end
--#         return torch.stack(x), torch.stack(y)
--# try     n in 2..4
--# try     t in 5..9
--# try     starts = torch.randint(1, 100, {n})
--# forbid  for while repeat
--# wrong   function pieces(starts, t) local at = starts:unsqueeze(2) + torch.arange(t) return ids[at], ids[at]
--#         end: The answers are one further: at + 1.
--# wrong   function pieces(starts, t) local at = starts:unsqueeze(2) + torch.arange(t) + 1 return ids[at],
--#         ids[at + 1] end: torch.arange begins with 0: the first letter is at `starts` itself.
--# wrong   function pieces(starts, t) local at = starts + torch.arange(t):unsqueeze(2) return ids[at], ids[at
--#         + 1] end: That is [t, n]: each piece is a row. The starts are the column.
--# hint    A column of starts plus a row 0, 1, .. t - 1 gives all places: [n, t].
--# hint    `local at = starts:unsqueeze(2) + torch.arange(t)`, then `ids[at]`.
--# answer
function pieces(starts, t)
  local at = starts:unsqueeze(2) + torch.arange(t)
  return ids[at], ids[at + 1]
end
x, y = pieces(torch.tensor{1, 5}, 6)
print(decode(x[1]), decode(y[1]), decode(x[2]), decode(y[2]))

--# say     The network: an embedding for letters and one for places, then blocks of causal attention and
--#         small Linear networks, then a score for each letter. `torch.models.GPT` has just these parts; you
--#         know them all. How many scores for a batch of 2 pieces of 6 letters, with 21 letters in all?
--# new     models manual_seed
function make()
  torch.manual_seed(0)
  return torch.models.GPT{vocab_size = #letters, block_size = 24, n_layer = 1, n_head = 2, n_embd = 32}
end
net = make()
--# predict net(x).shape --> [2, 6, 21]
--# wrong   2 21: At each of the 6 places it guesses the next letter.
--# wrong   2 6: For each of them, 21 scores.
--# hint    2 pieces, 6 places, 21 scores.

--# say     It knows nothing yet. Its loss is about log(21). Which of 0.05, 3.04 and 21?
--# new     nn flatten
F = torch.nn.functional
function loss_of(net, x, y) return F.cross_entropy(net(x):flatten(1, 2), y:flatten()) end
print(loss_of(net, x, y))
--# predict math.floor(math.log(21) * 100) / 100 --> 3.04
--# ask     Which one is log(21)?
--# wrong   21: Its log.
--# wrong   0.05: That is 1/21; its surprise is log(21).
--# hint    exp(3) is 20.

--# say     Does it peep? If the last letter of a piece is changed, the scores at the places before must stay
--#         as they are.
--# new     clone allclose
other = x:clone()
other[{{}, 6}] = 1
--# predict torch.allclose(net(x)["1:2, 1:5"], net(other)["1:2, 1:5"]) --> true
--# ask     Do the first five places stay the same? (true or false)
--# wrong   false: Causal attention: a place sees itself and what is before it.
--# hint    Attention is causal here.

--# say     Train it. The network is made outside, so that you can go on with it.
--# new     optim randint mean
--# task    Write train(net, steps): torch.manual_seed(1); AdamW over net's parameters with lr 0.01; in each step 16 random starts,
--#         torch.randint(1, #ids - 24, {16}), their pieces of 24, loss_of, and the usual three lines.
--#         Return the losses of all steps as a tensor [steps].
--# spec    train(net, steps)
--#         local out = {}
--#         net = make()
--#         torch.manual_seed(1)
--#         local o = torch.optim.AdamW(net:parameters(), {lr = 0.01})
--#         for i = 1, steps do
--#           local at = torch.randint(1, #ids - 24, {16}):view(16, 1) + torch.arange(24)
--#           for _, p in ipairs(net:parameters()) do p.grad = nil end
--#           local loss = F.cross_entropy(net(ids[at]):flatten(1, 2), ids[at + 1]:flatten())
--#           loss:backward()
--#           o:step()
--#           out[i] = loss:item()
--#         end
--#         return torch.tensor(out)
--# try     steps in 2..4
--# try     net = make()
--# wrong   function train(net, steps) torch.manual_seed(1) local out, opt = {}, torch.optim.AdamW(net:parameters(), {lr = 0.01}) for
--#         i = 1, steps do local x, y = pieces(torch.randint(1, #ids - 24, {16}), 24) local loss =
--#         loss_of(net, x, y) loss:backward() opt:step() out[i] = loss:item() end return torch.tensor(out)
--#         end: zero_grad is missing.
--# wrong   function train(net, steps) torch.manual_seed(1) local out, opt = {}, torch.optim.AdamW(net:parameters(), {lr = 0.01})
--#         local x, y = pieces(torch.randint(1, #ids - 24, {16}), 24) for i = 1, steps do opt:zero_grad()
--#         local loss = loss_of(net, x, y) loss:backward() opt:step() out[i] = loss:item() end return
--#         torch.tensor(out) end: New pieces in each step.
--# hint    In each step: `local x, y = pieces(torch.randint(1, #ids - 24, {16}), 24)`, then zero_grad.
--# hint    `local loss = loss_of(net, x, y)`, backward, step, `out[i] = loss:item()`.
--# answer
function train(net, steps)
  torch.manual_seed(1)
  local opt = torch.optim.AdamW(net:parameters(), {lr = 0.01})
  local losses = {}
  for i = 1, steps do
    local x, y = pieces(torch.randint(1, #ids - 24, {16}), 24)
    opt:zero_grad()
    local loss = loss_of(net, x, y)
    loss:backward()
    opt:step()
    losses[i] = loss:item()
  end
  return torch.tensor(losses)
end

--# say     120 steps.
--# new     plot
net = make()
losses = train(net, 120)
torch.plot(losses, {width = 60, height = 8})
--# predict losses[120]:item() < 1.5 --> true
--# ask     It began at 3. Is it below 1.5 now? (true or false)
--# wrong   false: Look at the curve's end.
--# hint    Look at the curve's end.

--# say     To speak, it must draw. Shares are sharpened or flattened first: scores are divided by a
--#         temperature. Near 0 only the best letter is left; far above 1 all are alike. Two scores, 2 and
--#         0, at temperature 0.01: what is the share of the first, rounded?
--# new     round softmax
--# predict (torch.tensor{2.0, 0.0} / 0.01):softmax(1):round()[1]:item() --> 1
--# wrong   0.5: That is at a very high temperature.
--# wrong   0: The larger score wins.
--# hint    softmax of 200 and 0.

--# say     Let it speak.
--# new     no_grad multinomial argmax cat
--# task    Write speak(text, n, heat): n times: the scores of `net` for the last place of the text's last 24
--#         letters (all of them where there are fewer); divided by heat, softmax, and a letter drawn by
--#         `torch.multinomial(shares, 1)`, a tensor [1]; it is put behind the text. Return the text.
--# spec    speak(text, n, heat)
--#         for i = 1, n do
--#           local last = encode(string.sub(text, -24))
--#           local z = net(last:view(1, -1)):detach()[{1, -1}]
--#           text = text .. letters[torch.multinomial((z / heat):softmax(1), 1):item()]
--#         end
--#         return text
--# try     n in 2..5
--# try     heat = 0.001
--# try     k in 3..30
--# try     text = string.sub(story, 1, k)
--# wrong   function speak(text, n, heat) for i = 1, n do local z = net(encode(string.sub(text,
--#         -24)):view(1, -1)):detach()[{1, 1}] text = text .. letters[torch.multinomial((z /
--#         heat):softmax(1), 1):item()] end return text end: The last place says what comes behind the
--#         text: [{1, -1}].
--# wrong   function speak(text, n, heat) for i = 1, n do local z = net(encode(string.sub(text, 1,
--#         24)):view(1, -1)):detach()[{1, -1}] text = text .. letters[torch.multinomial((z /
--#         heat):softmax(1), 1):item()] end return text end: The last 24 letters: `string.sub(text, -24)`.
--# hint    `local scores = net(encode(string.sub(text, -24)):unsqueeze(1)):detach()[{1, -1}]`.
--# hint    `local n = torch.multinomial((scores / heat):softmax(1), 1):item()`, and `text .. letters[n]`.
--# answer
function speak(text, n, heat)
  for i = 1, n do
    local scores = net(encode(string.sub(text, -24)):unsqueeze(1)):detach()[{1, -1}]
    local drawn = torch.multinomial((scores / heat):softmax(1), 1)
    text = text .. letters[drawn:item()]
  end
  return text
end

--# say     Cold, warm and hot:
torch.manual_seed(1)
print(speak("the owl ", 50, 0.1))
print(speak("the owl ", 50, 0.7))
print(speak("the owl ", 50, 3))
--# predict string.find(speak("the owl ", 50, 0.1), "the ", 2, true) ~= nil --> true
--# ask     Does the cold one say "the" once more? (true or false)
--# wrong   false: Look at what it said.
--# hint    The story is full of it.
--# why     Cold it repeats what it has read; warm it makes sentences that never stood in the story; hot it
--#         stammers. A large chat program is this, with billions of knobs in place of 15,000, and all that
--#         people have written in place of a fox and an owl.
--# play    `speak("the fox ", 80, 0.5)` is at hand; `scripts/train_chargpt.lua` learns from
--#         Shakespeare's sonnets. Enter ends the lesson.
