--# title   Pipelines: nobody waits
--# see     cuda nn

--# say     A network cut by layer over cards is like one pizza that goes through a kitchen: while it is in the
--#         oven, the one who makes the dough waits. The cure is as in the kitchen: several pizzas. The batch
--#         is cut into parts, and while the second card has part 1, the first has part 2.
--#           time     1  2  3  4  5
--#           cuda:0   1  2  3  4  .
--#           cuda:1   .  1  2  3  4
--#         Four parts over two cards, each part a tick on each card. How many ticks?
--# predict 4 + 2 - 1 --> 5
--# wrong   8: The cards work at the same time.
--# wrong   4: The second card begins a tick later.
--# hint    Count the columns.

--# say     And without pipelining: the whole batch, as four ticks of work, on cuda:0, then four on cuda:1?
--# predict 4 + 4 --> 8
--# wrong   5: That is the pipeline.
--# hint    Four ticks, then four ticks.

--# say     In general?
--# task    Write ticks(parts, cards): in how many ticks so many parts go through so many cards.
--# spec    ticks(parts, cards)
--#         local free = {}
--#         local last = 0
--#         for c = 1, cards do free[c] = 0 end
--#         for p = 1, parts do
--#           local t = 0
--#           for c = 1, cards do
--#             t = math.max(t, free[c]) + 1
--#             free[c] = t
--#           end
--#           last = t
--#         end
--#         return last
--# try     parts in 1..9
--# try     cards in 1..5
--# wrong   function ticks(parts, cards) return parts * cards end: They work at the same time.
--# wrong   function ticks(parts, cards) return parts + cards end: With one card and one part it is one tick.
--# wrong   function ticks(parts, cards) return math.max(parts, cards) end: The last card begins cards - 1
--#         ticks late.
--# hint    The last card begins cards - 1 ticks late, and then has a part in each tick.
--# answer
function ticks(parts, cards) return parts + cards - 1 end

--# say     The corners of the table are idle: the bubble. Two cards and four parts: of 10 places 8 are used.
--# predict 2 / 10 --> 0.2
--# ask     What share of the places is idle?
--# wrong   0.8: That is the share that is used.
--# wrong   2: As a share of all 10.
--# hint    The two dots of ten places.

--# say     Four cards, four parts?
--# predict 1 - 4 * 4 / (4 * ticks(4, 4)) --> 0.4286
--# ask     7 ticks, 4 cards: 28 places, of which 16 are used. What share is idle? (12 / 28)
--# wrong   0.4: 12 of 28.
--# wrong   0.5714: That is the share that is used.
--# hint    12 / 28.

--# say     So there must be many more parts than cards.
--# task    Write parts_for(cards, share): the smallest number of parts with which at most this share of the
--#         places is idle (0 < share < 1).
--# spec    parts_for(cards, share)
--#         local n = 1
--#         while (cards - 1) / (n + cards - 1) > share + 1e-9 do n = n + 1 end
--#         return n
--# try     cards in 2..8
--# try     k in 1..4
--# try     share = k / 10
--# wrong   function parts_for(cards, share) return math.ceil(cards / share) end: Idle is (cards - 1) / ticks.
--# wrong   function parts_for(cards, share) return 4 * cards end: A rule of thumb; how many for this share?
--# hint    Of `ticks` columns each card is idle in cards - 1: the share is (cards - 1) / ticks(parts, cards).
--# hint    Count parts up from 1 until that is at most `share` (add 1e-9 to it, for rounding).
--# answer
function parts_for(cards, share)
  local parts = 1
  while (cards - 1) / ticks(parts, cards) > share + 1e-9 do parts = parts + 1 end
  return parts
end
print(parts_for(2, 0.1), parts_for(4, 0.1), parts_for(8, 0.1))

--# say     Too many parts are no good either: a small part does not keep a card busy. Each part costs a tick of
--#         work / parts, and 0.2 ms for its start. 8 ms of work on each of 4 cards:
function time_of(parts) return ticks(parts, 4) * (8 / parts + 0.2) end
for _, n in ipairs{1, 4, 10, 32, 100} do print(n, time_of(n)) end
--# predict time_of(1) --> 32.8
--# ask     With one part: 4 ticks, each of 8 + 0.2 ms. How many ms?
--# wrong   8.2: One after the other: 4 ticks.
--# hint    4 * 8.2.
--# why     With 10 parts it takes 13 ms; with 100 it is slower again.

--# say     Now with a network. Two layers, on two cards, and a batch of 8 in parts.
--# new     cuda nn manual_seed to randn chunk
if torch.cuda.device_count() < 4 then torch.cuda.simulate(4) end
torch.manual_seed(0)
front = torch.nn.Linear(6, 5):to("cuda:0")
back = torch.nn.Linear(5, 3):to("cuda:1")
batch = torch.randn(8, 6)
--# predict (batch:chunk(4)).shape --> [2, 6]
--# ask     `batch:chunk(4)` gives four parts, as four values. What shape has the first?
--# wrong   4 6: That is how many parts there are. 8 / 4.
--# wrong   8 2: The rows are cut, dimension 1.
--# hint    8 rows, cut into four.

--# say     The loop tells the cards what to do, part after part. A real card works on while the program goes
--#         to the next line: cuda:0 gets part 2 while cuda:1 still has part 1. The program needs no more than
--#         the order; the pipeline makes itself.
--# new     cat relu cpu detach
--# task    Write piped(x, parts): x [n, 6] on the CPU goes in `parts` chunks, each to cuda:0, through front
--#         and relu, to cuda:1, through back. Return the joined answers, detached, on the CPU.
--# spec    piped(x, parts)
--#         local y = front(x:to("cuda:0")):relu():to("cuda:1")
--#         return back(y):detach():cpu()
--# try     n in 6..9
--# try     parts in 2..4
--# try     x = torch.randn(n, 6)
--# wrong   function piped(x, parts) local out = {} for i, part in ipairs{x:chunk(parts)} do out[i] =
--#         back(front(part:to("cuda:0")):to("cuda:1")) end return torch.cat(out):detach():cpu() end: The relu
--#         is missing.
--# wrong   function piped(x, parts) local part = x:chunk(parts) return
--#         back(front(part:to("cuda:0")):relu():to("cuda:1")):detach():cpu() end: chunk gives several values;
--#         here all but the first are dropped: {x:chunk(parts)}.
--# hint    `for i, part in ipairs{x:chunk(parts)} do .. end`, with a table of answers.
--# hint    `back(front(part:to("cuda:0")):relu():to("cuda:1"))`, at the end torch.cat.
--# answer
function piped(x, parts)
  local out = {}
  for i, part in ipairs{x:chunk(parts)} do
    local middle = front(part:to("cuda:0")):relu()
    out[i] = back(middle:to("cuda:1"))
  end
  return torch.cat(out):detach():cpu()
end
print(piped(batch, 4).shape)

--# say     One thing in the loop would spoil it all: a line that waits. After `item()` the program goes on only
--#         when cuda:1 has finished the part, and cuda:0 has nothing to do meanwhile. With an `item()` in
--#         each turn, how many ticks take four parts on two cards?
--# predict 4 * 2 --> 8
--# wrong   5: Each part must be through before the next begins.
--# hint    Two ticks for each part, and nothing at the same time.

--# say     Backward goes through the pipeline as well, from its end. All parts' gradients add up in the
--#         weights, as with small batches before one step. If each part's loss is a mean over its 2
--#         examples, and there are 4 parts, the sum of the four losses is larger than the mean over all 8 by
--# predict 4 --> 4
--# ask     .. which factor?
--# wrong   8: Each of the 4 losses is a mean already.
--# wrong   2: 4 means are added, where their mean is wanted.
--# hint    4 means are added.

--# say     What must be kept until backward comes? In the plain order, all parts go forward first: card 1 of 4
--#         cards holds the results of all parts. If each part goes backward as early as it can (one forward,
--#         one backward), card 1 never holds more than as many parts as there are cards. 16 parts, 4 cards:
--# predict math.min(16, 4) --> 4
--# ask     How many parts' results does card 1 hold then at most, instead of 16?
--# wrong   16: That is the plain order.
--# wrong   1: A part comes back only after it has been on all 4 cards.
--# hint    As many as there are cards.
--# why     The same bubble, a quarter of the memory: so large networks are trained ("1F1B").

--# say     Something real: the timetable of a kitchen, or of cards of different speed. The slowest card sets
--#         the pace.
--# task    Write timetable(times, parts): times[c] is how long card c works on a part. Parts go through the
--#         cards in order; a card does one at a time. Return when the last part leaves the last card.
--# spec    timetable(times, parts)
--#         local sum, most = 0, 0
--#         for _, t in ipairs(times) do sum, most = sum + t, math.max(most, t) end
--#         return sum + (parts - 1) * most
--# try     a in 1..9
--# try     b in 1..9
--# try     c in 1..9
--# try     times = {a, b, c}
--# try     parts in 1..6
--# wrong   function timetable(times, parts) local most = 0 for _, t in ipairs(times) do most = math.max(most,
--#         t) end return (parts + #times - 1) * most end: Not every card is as slow as the slowest.
--# wrong   function timetable(times, parts) local sum = 0 for _, t in ipairs(times) do sum = sum + t end return
--#         sum * parts end: That is without a pipeline.
--# wrong   function timetable(times, parts) local sum = 0 for _, t in ipairs(times) do sum = sum + t end return
--#         sum + (parts - 1) * times[#times] end: Only if the last card is the slowest.
--# hint    Keep for each card when it is free again. A part begins on a card when both are ready.
--# hint    `t = math.max(t, free[c]) + times[c]`, then `free[c] = t`, for each part over all cards.
--# answer
function timetable(times, parts)
  local free, last = {}, 0
  for c = 1, #times do free[c] = 0 end
  for p = 1, parts do
    local t = 0
    for c = 1, #times do
      t = math.max(t, free[c]) + times[c]
      free[c] = t
    end
    last = t
  end
  return last
end
print(timetable({5, 5, 5, 5}, 8), timetable({2, 2, 14, 2}, 8))

--# say     Both of these networks have 20 ms of work for a part. Eight parts take 55 ms where it is cut evenly,
--#         and 118 where it is not. And on one card alone?
--# predict 20 * 8 --> 160
--# hint    20 ms for each of the 8 parts.
--# why     Four cards, cut evenly: 160 to 55, nearly three times as fast; badly cut, 1.4 times. Where one cuts
--#         decides. `scripts/model_parallel.lua --parts 4` is such a pipeline.
