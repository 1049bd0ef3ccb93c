--# title   What is wrong here? Labels and batches

--# say     Scores of 3 classes for two pictures, and the true classes. Labels from another program count from 0.
--# new     nn tensor zeros
F = torch.nn.functional
scores = torch.zeros(2, 3)
--# predict F.cross_entropy(scores, torch.tensor{0, 2}) --> error
--# wrong   1.0986: Classes count from 1 here, as positions do: there is no class 0.
--# hint    Classes count from 1 here.
--# why     "target[1] = 0 but the logits have 3 classes (valid 1..3; labels start at 1)". That one is found. But a
--#         batch without any 0, such as {1, 2}, runs, and teaches each picture the class before its own.

--# say     Equal scores: each of the three classes has the probability 1 / 3. The loss is -log(1 / 3) for each
--#         picture, whatever its class.
--# predict F.cross_entropy(scores, torch.tensor{1, 3}) --> 1.0986
--# wrong   0.3333: The loss is minus the logarithm of it.
--# hint    log(3).
--# why     A loss near log(classes) means: it knows nothing yet. Look whether a training begins there.

--# say     Repair the labels where they are read, once, not in each loss.
--# new     max item long
--# new     randint float
--# task    Repair labels(y): from 0, as floats (a CSV file gives such), to class numbers from 1, int64.
--# spec    labels(y)
--#         local list = {}
--#         for i = 1, #y do list[i] = math.tointeger(y[i]:item()) + 1 end
--#         return torch.tensor(list)
--# try     n in 2..6
--# try     y = torch.randint(0, 9, {n}):float()
--# starter function labels(y) return y end
--# wrong   function labels(y) return y + 1 end: Class numbers are whole numbers, int64: `:long()`.
--# wrong   function labels(y) return y:long() end: These count from 0 still.
--# hint    `:long()` makes int64 of it.
--# answer
function labels(y) return y:long() + 1 end

--# say     And a loss that wants probabilities wants floats: binary_cross_entropy, with whole numbers as truth?
--# new     sigmoid
chance = torch.sigmoid(torch.zeros(3))
--# predict F.binary_cross_entropy(chance, torch.tensor{1, 0, 1}) --> error
--# wrong   0.6931: With `torch.tensor{1.0, 0.0, 1.0}` it is.
--# hint    A truth of 0.3 would make sense here; what dtype is that?
--# why     There the truth is a number between 0 and 1; class numbers are names. The error says `:float()`.

--# say     The next one runs, and learns badly. cross_entropy makes probabilities of scores by itself; here it gets
--#         probabilities already. A network that is very sure, and right:
--# new     notes softmax
function quietly(code, f)
  local was = torch.notes()[code]
  torch.notes(code, "off")
  local result = f()
  torch.notes(code, was)
  return result
end
sure = torch.tensor{{100.0, 0.0}}
--# predict F.cross_entropy(sure, torch.tensor{1}) --> 0
--# wrong   1: The probability is 1, and -log(1) = 0.
--# hint    -log of the probability of class 1, which is nearly 1.

--# say     And with softmax before it? The scores are 1 and 0 then, and their probabilities e / (e + 1) = 0.731 and
--#         0.269.
function twice() return F.cross_entropy(F.softmax(sure, 2), torch.tensor{1}) end
--# predict quietly("SOFT", twice) --> 0.313
--# wrong   0: The second softmax makes 0.731 of 1.
--# hint    -log(0.731).
--# why     It can never go below 0.313, however sure the network is, and the slope is small everywhere. Note SOFT
--#         says so, once.

--# say     Repair it. (The first function makes scores, and is right.)
--# new     matmul randn softmax
--# new     exp sum log
--# task    Repair loss(x, w, y): cross_entropy of the scores x:matmul(w), for classes y.
--# spec    loss(x, w, y)
--#         local total = 0
--#         for i = 1, #x do
--#           local s = x[i]:matmul(w)
--#           total = total + (s:exp():sum():log() - s[y[i]:item()]):item()
--#         end
--#         return torch.tensor(total / #x)
--# try     n in 2..4
--# try     x = torch.randn(n, 3)
--# try     w = torch.randn(3, 5)
--# try     y = torch.randint(1, 6, {n})
--# starter function loss(x, w, y) return F.cross_entropy(x:matmul(w):softmax(2), y) end
--# wrong   function loss(x, w, y) return F.cross_entropy(x:matmul(w):log_softmax(2), y, {reduction = "sum"}) end: The
--#         mean over the batch is wanted. (log_softmax twice does no harm; softmax does.)
--# wrong   function loss(x, w, y) return F.nll_loss(x:matmul(w), y) end: nll_loss wants log_softmax before it;
--#         cross_entropy does both.
--# hint    Raw scores.
--# answer
function loss(x, w, y) return F.cross_entropy(x:matmul(w), y) end

--# say     Sentences have different lengths. A loader that makes batches of two:
--# new     utils ones
data = torch.utils.data
Sentences = data.class("Sentences")
function Sentences:__len() return 4 end
function Sentences:get(i) return torch.ones(i) end
function first_batch(options)
  for batch in data.DataLoader(Sentences(), options)() do return batch end
end
--# predict first_batch({batch_size = 2}).shape --> error
--# wrong   2 2: What would the last number of the shorter one be? Nobody said that.
--# wrong   2 1: They are of lengths 1 and 2.
--# hint    Rows of different lengths are no table.
--# why     "item 2 has shape [2], item 1 has [1]; give the loader a collate_fn, or pad". Which padding is right, only
--#         you know.

--# say     Padding: shorter ones are filled up with 0 at the end.
--# new     stack
--# task    Repair pad(list): a table [number of sentences, longest] from a list of tensors [n1], [n2], ..
--# spec    pad(list)
--#         local longest = 0
--#         for _, x in ipairs(list) do longest = math.max(longest, #x) end
--#         local out = torch.zeros(#list, longest)
--#         for i, x in ipairs(list) do for j = 1, #x do out[{i, j}] = x[j] end end
--#         return out
--# try     n in 1..4
--# try     m in 1..4
--# try     list = {torch.randn(n), torch.randn(m), torch.randn(2)}
--# starter function pad(list) return torch.stack(list) end
--# wrong   function pad(list) local out = torch.zeros(#list, #list[1]) for i, x in ipairs(list) do out[{i, {1, #x}}] = x
--#         end return out end: The first one need not be the longest.
--# wrong   function pad(list) local n = 0 for _, x in ipairs(list) do n = math.max(n, #x) end local out =
--#         torch.zeros(#list, n) for i, x in ipairs(list) do out[{i, {n - #x + 1, n}}] = x end return out end: The zeros
--#         belong at the end.
--# hint    First the longest; then `torch.zeros(#list, longest)`.
--# hint    Row i from 1 to #x: `out[{i, {1, #x}}] = x`.
--# answer
function pad(list)
  local longest = 0
  for _, x in ipairs(list) do longest = math.max(longest, #x) end
  local out = torch.zeros(#list, longest)
  for i, x in ipairs(list) do out[{i, {1, #x}}] = x end
  return out
end

--# say     With it the loader works:
--# predict first_batch({batch_size = 2, collate_fn = pad}).shape --> [2, 2]
--# wrong   2 1: The longest of the two has 2.
--# wrong   4 4: A batch has two sentences.
--# hint    Sentences of lengths 1 and 2.
print(first_batch({batch_size = 4, collate_fn = pad}))

--# say     Something real: accuracy, with two mistakes. It is the share of pictures whose highest score stands at the
--#         true class; labels y count from 1.
--# new     argmax eq mean
--# new     size
--# task    Repair accuracy(s, y): s is [n, k], y is [n]; a number from 0 to 1.
--# spec    accuracy(s, y)
--#         local right = 0
--#         for i = 1, #s do
--#           local best = 1
--#           for j = 2, s:size(2) do if s[{i, j}]:item() > s[{i, best}]:item() then best = j end end
--#           if best == y[i]:item() then right = right + 1 end
--#         end
--#         return right / #s
--# try     n in 4..6
--# try     s = torch.randn(n, 2)
--# try     y = torch.randint(1, 3, {n})
--# starter function accuracy(s, y) return (s:argmax(1) + 1):eq(y):float():mean():item() end
--# wrong   function accuracy(s, y) return (s:argmax(2) + 1):eq(y):float():mean():item() end: argmax counts from 1
--#         already.
--# wrong   function accuracy(s, y) return s:argmax(2):eq(y):float():sum():item() end: That is how many; the share is
--#         wanted.
--# hint    For each row the best column: dimension 2.
--# hint    argmax counts from 1, as the labels do.
--# answer
function accuracy(s, y) return s:argmax(2):eq(y):float():mean():item() end
print(accuracy(torch.tensor{{0.1, 0.9}, {0.8, 0.2}}, torch.tensor{2, 2}))
