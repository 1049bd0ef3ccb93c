--# title   Embedding and attention: looking things up
--# see     nn

--# say     Words are no numbers, but a network wants numbers. So each word of a list gets a row of its own,
--#         which is learned: an embedding. `nn.Embedding(5, 3)` has 5 rows of 3. Here they are set.
--# new     nn no_grad copy_ tensor
words = torch.nn.Embedding(5, 3)
torch.no_grad(function()
  words.weight:copy_(torch.tensor{{0, 0, 1}, {0, 2, 0}, {3, 0, 0}, {4, 4, 0}, {5, 5, 5}}:float())
end)
--# predict words(torch.tensor{3, 3, 1}).shape --> [3, 3]
--# wrong   5 3: That is the whole list. Three words were asked for.
--# wrong   3: Each word becomes a row of 3.
--# hint    Three words, a row of 3 for each.
print(words(torch.tensor{3, 3, 1}))

--# say     A batch of 10 sentences, 7 words each, and rows of 64?
--# new     ones
--# predict torch.nn.Embedding(1000, 64)(torch.ones(10, 7, {dtype = "int64"})).shape --> [10, 7, 64]
--# wrong   10 64: Each of the 7 words has its row.
--# wrong   1000 64: That is the list. 10 times 7 words were looked up.
--# hint    10 times 7 words, a row of 64 for each.

--# say     Looking up is a product, too: a row that is 1 at the word and 0 elsewhere ("one hot"), times the
--#         table.
--# new     matmul flatten
--# predict torch.tensor{{0.0, 0.0, 0.0, 1.0, 0.0}}:matmul(words.weight):flatten() --> 4 4 0
--# wrong   3 0 0: The 1 stands at place 4.
--# wrong   12 11 6: Only the row with the 1 counts, the others are times 0.
--# hint    1 at place 4: the fourth row.
--# why     So an embedding is a Linear layer that saves the multiplications with 0, and it learns in the
--#         same way: only the rows that were looked up move.

--# say     Now the other direction. A table of keys and a table of values, as in a telephone list; and a
--#         question. How well does the question fit each key? A dot product says it.
--# new     t
keys = torch.tensor{{1.0, 0.0}, {0.0, 1.0}, {1.0, 1.0}}
values = torch.tensor{{10.0}, {20.0}, {30.0}}
question = torch.tensor{{4.0, 0.0}}
--# predict question:matmul(keys:t()):flatten() --> 4 0 4
--# wrong   4 4 4: The second key is 0 1: 4 * 0 + 0 * 1.
--# wrong   4 0 8: The third: 4 * 1 + 0 * 1.
--# hint    4 * 1 + 0 * 0, and so on for each key.

--# say     `softmax` makes shares of it, and the answer is the mixture of the values. With shares of 1/2, 0
--#         and 1/2, the answer would be
--# predict torch.tensor{{0.5, 0.0, 0.5}}:matmul(values):item() --> 20
--# wrong   40: Half of each.
--# wrong   10: 10 and 30, half each.
--# hint    Half of 10, half of 30.
--# why     This is attention: a look-up that is not sure, and can learn, for everything in it is smooth.

--# say     Write it. Many questions at once: q [n, d], keys k [m, d], values v [m, e]. So that large d do
--#         not make the shares too sharp, the products are divided by the root of d.
--# new     softmax size transpose
--# task    Write attention(q, k, v): softmax along each row of (q times k turned) / root of d, times v: [n,
--#         e]. Leading dimensions (a batch) may come before.
--# spec    attention(q, k, v) return torch.nn.functional.scaled_dot_product_attention(q, k, v)
--# try     n in 2..3
--# try     m in 4..5
--# try     q = torch.randn(2, n, 6)
--# try     k = torch.randn(2, m, 6)
--# try     v = torch.randn(2, m, 7)
--# forbid  scaled_dot_product_attention for
--# wrong   function attention(q, k, v) return (q:matmul(k:transpose(-1, -2)) / q:size(-1) ^
--#         0.5):softmax(-2):matmul(v) end: Each question divides its shares over the keys: along the last
--#         dimension.
--# wrong   function attention(q, k, v) return q:matmul(k:transpose(-1, -2)):softmax(-1):matmul(v) end: The
--#         root of d is missing.
--# wrong   function attention(q, k, v) return (q:matmul(k:transpose(-1, -2)) / q:size(-1)):softmax(-1):matmul(v)
--#         end: Divided by the root of d, not by d.
--# hint    `k:transpose(-1, -2)` is k turned, whatever comes before. d is `q:size(-1)`.
--# hint    `(..):softmax(-1):matmul(v)`.
--# answer
function attention(q, k, v)
  local fit = q:matmul(k:transpose(-1, -2)) / q:size(-1) ^ 0.5
  return fit:softmax(-1):matmul(v)
end
print(attention(question, keys, values))

--# say     A question that fits no key better than another, zeros?
--# new     zeros
--# predict attention(torch.zeros(1, 2), keys, values):item() --> 20
--# wrong   0: The shares add up to 1, also when nothing fits: a third each.
--# wrong   60: A third of each.
--# hint    All fit alike: the mean of 10, 20 and 30.

--# say     How many numbers does the table of shares have, when a text of 1,000 words asks itself: each word
--#         looks at each?
--# predict 1000 * 1000 --> 1000000
--# wrong   1000: Each word has 1,000 shares.
--# hint    1,000 questions, 1,000 keys.
--# why     Twice as long a text costs four times as much. That is what limits the length of what a chat
--#         remembers.

--# say     Who writes a text must not look at words that come later. Their fits are set to minus infinity
--#         before the softmax: exp of it is 0. Word 1 sees itself alone, word 2 the first two. For a text
--#         of 3 words that are all alike, the shares of the third are 1/3 1/3 1/3, and of the second?
--# new     triu masked_fill
same = torch.zeros(3, 3)
later = torch.ones(3, 3):triu(1):bool()
shares = same:masked_fill(later, -math.huge):softmax(2)
--# predict shares[2] --> 0.5 0.5 0
--# wrong   0.333 0.333 0.333: It must not see the third.
--# wrong   0 0.5 0.5: It sees the first and itself.
--# hint    It sees two words.
print(shares)

--# say     Put it in.
--# task    Write causal(q, k, v): as `attention`, for a text that asks itself: q, k [t, d], v [t, e]; word i
--#         sees the words 1 to i only.
--# spec    causal(q, k, v)
--#         local rows = {}
--#         for i = 1, q:size(1) do
--#           rows[i] = attention(q[{{i, i}}], k[{{1, i}}], v[{{1, i}}])
--#         end
--#         return torch.cat(rows)
--# try     t in 3..5
--# try     q = torch.randn(t, 6)
--# try     k = torch.randn(t, 6)
--# try     v = torch.randn(t, 7)
--# forbid  scaled_dot_product_attention for
--# wrong   function causal(q, k, v) local fit = q:matmul(k:t()) / q:size(2) ^ 0.5 return
--#         fit:masked_fill(torch.ones_like(fit):tril():bool(), -math.huge):softmax(2):matmul(v) end: That
--#         hides the past and the word itself. What lies above the diagonal is the future: triu(1).
--# wrong   function causal(q, k, v) local fit = q:matmul(k:t()) / q:size(2) ^ 0.5 return
--#         fit:softmax(2):masked_fill(torch.ones_like(fit):triu(1):bool(), 0):matmul(v) end: Hidden after the
--#         softmax, the shares do not add up to 1. Hide before it, with -math.huge.
--# hint    `torch.ones(t, t):triu(1):bool()` is true where a word is later; t is q:size(1).
--# hint    `fit:masked_fill(later, -math.huge)`, then softmax and the values.
--# answer
function causal(q, k, v)
  local t, d = q:size(1), q:size(2)
  local later = torch.ones(t, t):triu(1):bool()
  local fit = (q:matmul(k:t()) / d ^ 0.5):masked_fill(later, -math.huge)
  return fit:softmax(2):matmul(v)
end

--# say     Attention does not know order: it sees a heap of words. Turned round, the keys with their values:
--# new     allclose
turned = torch.tensor{3, 2, 1}
a = attention(question, keys, values)
b = attention(question, keys[turned], values[turned])
--# predict torch.allclose(a, b) --> true
--# ask     Is the answer the same when keys and values stand in another order? (true or false)
--# wrong   false: Each share goes with its value, wherever they stand; a sum has no order.
--# hint    A sum has no order.
--# why     "Dog bites man" and "man bites dog" would be one text. So a row for the place is added to the
--#         row of each word: a second embedding.

--# say     Something real: a network that learns to look up. It is shown four names, each with a number from
--#         1 to 5, and asked for one of them. In each example the numbers are others: there is nothing to
--#         learn by heart, only how to look up.
--# new     manual_seed rand argsort randint gather squeeze unsqueeze optim
function examples(n)
  local names = torch.rand(n, 8):argsort(2)[{{}, {1, 4}}]   -- 4 different ones of 8
  local numbers = torch.randint(1, 6, {n, 4})
  local place = torch.randint(1, 5, {n, 1})
  return names, numbers, names:gather(2, place):squeeze(2), numbers:gather(2, place):squeeze(2)
end
torch.manual_seed(1)
names, numbers, asked, answer = examples(2)
print(names, numbers)
print(asked, answer)
--# predict names.shape --> [2, 4]
--# hint    Two examples of four names.

--# say     Names become keys, numbers values, the question is a name, too. What comes out goes through a
--#         Linear to 5 scores.
Lookup = torch.nn.class("Lookup")
function Lookup:init()
  self.key = torch.nn.Embedding(8, 16)
  self.ask = torch.nn.Embedding(8, 16)
  self.value = torch.nn.Embedding(5, 16)
  self.out = torch.nn.Linear(16, 5)
end
function Lookup:forward(names, numbers, asked)
  local q = self.ask(asked):unsqueeze(2)
  local y = attention(q, self.key(names), self.value(numbers))
  return self.out(y:squeeze(2))
end
--# predict Lookup()(names, numbers, asked).shape --> [2, 5]
--# wrong   2 16: The Linear makes 5 of 16.
--# hint    Two examples, 5 scores each.

--# say     Train it, on new examples in each step.
--# task    Write learn(steps): torch.manual_seed(0); net = Lookup(), a local one; Adam with lr 0.02; in each
--#         step `examples(32)`, and the cross_entropy of net(names, numbers, asked) and the answers. Return
--#         the scores for a last `examples(100)` [100, 5], detached, and its answers.
--# spec    learn(steps)
--#         torch.manual_seed(0)
--#         local n = Lookup()
--#         local o = torch.optim.Adam(n:parameters(), {lr = 0.02})
--#         local a, b, c, d
--#         for i = 0, steps do
--#           a, b, c, d = examples(i < steps and 32 or 100)
--#           if i < steps then
--#             for _, p in ipairs(n:parameters()) do p.grad = nil end
--#             torch.nn.functional.cross_entropy(n(a, b, c), d):backward()
--#             o:step()
--#           end
--#         end
--#         return n(a, b, c):detach(), d
--# try     steps in 1..3
--# wrong   function learn(steps) torch.manual_seed(0) local net = Lookup() local opt =
--#         torch.optim.Adam(net:parameters(), {lr = 0.02}) local n, m, q, a = examples(32) for i = 1, steps
--#         do opt:zero_grad() torch.nn.functional.cross_entropy(net(n, m, q), a):backward() opt:step() end n,
--#         m, q, a = examples(100) return net(n, m, q):detach(), a end: These are the same 32 in every step:
--#         it would learn them by heart.
--# wrong   function learn(steps) torch.manual_seed(0) local net = Lookup() local opt =
--#         torch.optim.Adam(net:parameters(), {lr = 0.02}) for i = 1, steps do local n, m, q, a =
--#         examples(32) torch.nn.functional.cross_entropy(net(n, m, q), a):backward() opt:step() end local n,
--#         m, q, a = examples(100) return net(n, m, q):detach(), a end: zero_grad is missing.
--# hint    In the loop: `local names, numbers, asked, answer = examples(32)`, then the four usual lines.
--# hint    At the end `local names, numbers, asked, answer = examples(100)`, and `return net(names, numbers,
--#         asked):detach(), answer`.
--# answer
function learn(steps)
  torch.manual_seed(0)
  local net = Lookup()
  local opt = torch.optim.Adam(net:parameters(), {lr = 0.02})
  for i = 1, steps do
    local names, numbers, asked, answer = examples(32)
    opt:zero_grad()
    local loss = torch.nn.functional.cross_entropy(net(names, numbers, asked), answer)
    loss:backward()
    opt:step()
  end
  local names, numbers, asked, answer = examples(100)
  return net(names, numbers, asked):detach(), answer
end
--# why     After 300 steps, the share of right answers for 100 lists that it has never seen (guessing: 0.2):
scores, answer = learn(300)
print(scores:argmax(2):eq(answer):float():mean())
