-- torch.metrics: values against counting by hand, batches against the whole, forms of predictions, the confusion
-- matrix as text and picture, ranks, and wrong arguments.
local M = torch.metrics
local here = debug.getinfo(1, "S").source:match("^@(.*)/")

-- Right answers, what was predicted and what is true of each class, counted one by one.
local function counted(p, t, n)
  local right, said, is = {}, {}, {}
  for c = 1, n do right[c], said[c], is[c] = 0, 0, 0 end
  for i = 1, #p do
    said[p[i]], is[t[i]] = said[p[i]] + 1, is[t[i]] + 1
    if p[i] == t[i] then right[p[i]] = right[p[i]] + 1 end
  end
  return right, said, is
end
local function share(a, b) return b > 0 and a / b or 0 end

test("accuracy, precision, recall and F1 are what counting one by one gives, in every average", function()
  torch.manual_seed(1)
  local n = 5
  for _ = 1, 5 do
    local p, t = torch.randint(1, n, {60}), torch.randint(1, n + 1, {60})  -- class 5 is never predicted
    local right, said, is = counted(p:tolist(), t:tolist(), n)
    local each = {accuracy = {}, precision = {}, recall = {}, f1_score = {}}
    local all = 0
    for c = 1, n do
      each.precision[c], each.recall[c] = share(right[c], said[c]), share(right[c], is[c])
      each.accuracy[c], each.f1_score[c] = each.recall[c], share(2 * right[c], said[c] + is[c])
      all = all + right[c]
    end
    for name, list in pairs(each) do
      local function got(average) return M[name](p, t, {average = average, num_classes = n}) end
      check.close(got "none", torch.tensor(list), 1e-6)
      check.close(got("micro"):item(), all / 60, 1e-6)
      local macro, weighted = 0, 0
      for c = 1, n do macro, weighted = macro + list[c] / n, weighted + list[c] * is[c] / 60 end
      check.close(got("macro"):item(), macro, 1e-6)
      check.close(got("weighted"):item(), weighted, 1e-6)
    end
    check.close(M.accuracy(p, t):item(), all / 60, 1e-6)
  end
end)

test("a class that occurs nowhere counts in no mean", function()
  check.equal(M.f1_score(torch.tensor {1, 2}, torch.tensor {1, 2}, {num_classes = 10}):item(), 1.0)
end)

test("scores, classes, images of classes and probabilities of two classes are understood", function()
  local scores = torch.tensor {{0.1, 2, 0}, {3, 1, 0}, {0, 0.5, 1}}
  local labels = torch.tensor {2, 1, 1}
  check.close(M.accuracy(scores, labels):item(), 2 / 3, 1e-6)
  check.close(M.accuracy(scores, labels, {top_k = 2}):item(), 2 / 3, 1e-6)
  check.close(M.accuracy(scores, labels, {top_k = 3}):item(), 1, 1e-6)
  check.close(M.accuracy(scores:argmax(2), labels):item(), 2 / 3, 1e-6)
  local images = torch.randn(2, 4, 5, 6)
  check.equal(M.accuracy(images, images:argmax(2)):item(), 1.0)
  local p, t = torch.tensor {0.9, 0.2, 0.6, 0.4}, torch.tensor {1, 0, 0, 1}
  check.equal(M.confusion_matrix(p, t):tolist(), {{1, 1}, {1, 1}})
  check.equal(M.precision(p, t):item(), 0.5)
  check.equal(M.recall(p, t, {threshold = 0.1}):item(), 1.0)
  check.equal(M.accuracy(p:logit(), t:bool()):item(), 0.5)
  check.equal(M.accuracy(torch.tensor {1, 0, 1}, torch.tensor {1, 0, 0}, {task = "binary"}):item(), M.accuracy(torch.tensor {true, false, true}, torch.tensor {true, false, false}):item())
  check.equal(M.accuracy(torch.tensor {1, 2, 3}, torch.tensor {1, 2, -100}, {ignore_index = -100}):item(), 1.0)
end)

test("batches make the value of the whole, a call gives the batch's own, reset begins again", function()
  torch.manual_seed(2)
  local scores, labels = torch.randn(30, 4), torch.randint(1, 5, {30})
  local values, targets = torch.randn(30), torch.randn(30)
  for _, row in ipairs {{"Accuracy", "accuracy", scores, labels}, {"F1Score", "f1_score", scores, labels}, {"ConfusionMatrix", "confusion_matrix", scores, labels},
    {"MeanSquaredError", "mean_squared_error", values, targets}, {"R2Score", "r2_score", values, targets}} do
    local metric = M[row[1]]()
    for _ = 1, 2 do
      for first = 1, 30, 7 do
        local last = math.min(30, first + 6)
        local p, t = row[3][{{first, last}}], row[4][{{first, last}}]
        check.close(metric(p, t):double(), M[row[2]](p, t, row[1] == "R2Score" and {} or nil):double(), 1e-6)
      end
      check.close(metric:compute():double(), M[row[2]](row[3], row[4]):double(), 1e-5)
      metric:reset()
    end
    check.raises("value", "nothing was counted since reset", metric.compute, metric)
  end
end)

test("classes may appear later, and a collection counts the same batches", function()
  local both = M.MetricCollection {acc = M.Accuracy(), matrix = M.ConfusionMatrix()}
  both:update(torch.tensor {1, 2}, torch.tensor {1, 1})
  both:update(torch.tensor {4}, torch.tensor {4})
  local got = both:compute()
  check.close(got.acc:item(), 2 / 3, 1e-6)
  check.equal(got.matrix:tolist(), {{1, 1, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 1}})
  check.contains(tostring(both), "acc: Accuracy: 0.6667 over 3 items")
end)

test("a running mean weighs its values", function()
  local mean = M.MeanMetric()
  mean:update(torch.tensor(2.0, {requires_grad = true}), 3)
  mean:update(torch.tensor {6.0, 10.0}, torch.tensor {1, 0})
  check.equal(mean:compute():item(), 3.0)
  check.no(mean:compute().requires_grad)
  check.equal(tostring(mean), "MeanMetric: 3 over 4")
end)

test("errors of numbers: squared, its root, absolute, and the share explained", function()
  local p, t = torch.tensor {1, 2, 4.0}, torch.tensor {1, 4, 4.0}
  check.close(M.mean_squared_error(p, t):item(), 4 / 3, 1e-6)
  check.close(M.mean_squared_error(p, t, {squared = false}):item(), math.sqrt(4 / 3), 1e-6)
  check.close(M.mean_absolute_error(p, t):item(), 2 / 3, 1e-6)
  check.close(M.r2_score(p, t):item(), 1 - 4 / 6, 1e-6)
end)

test("the confusion matrix is a table with names, recall and precision", function()
  local matrix = M.ConfusionMatrix {labels = {"cat", "dog"}}
  matrix:update(torch.tensor {1, 1, 2, 2, 1}, torch.tensor {1, 1, 2, 1, 2})
  check.equal(matrix:text {width = 80}, [[
confusion matrix of 2 classes, 5 items, accuracy 60.0 %
           predicted
truth      cat  dog     recall
cat          2    1     66.7 %
dog          1    1     50.0 %
precision  67%  50%]])
  local large = M.ConfusionMatrix {num_classes = 40}
  large:update(torch.arange(1, 41), torch.arange(1, 41):flip(1))
  check.contains(large:text {width = 80}, "1 x 1 taken for 40\n")
  for line in large:text({width = 300}):gmatch "[^\n]+" do check.yes(#line <= 300) end
  check.close(M.ConfusionMatrix({normalize = "true"})(torch.tensor {1, 2}, torch.tensor {1, 1}), torch.tensor {{0.5, 0.5}, {0, 0}}, 1e-6)
end)

test("the confusion matrix is drawn as SVG and PNG with its counts", function()
  local matrix = M.ConfusionMatrix {labels = {"cat", "dog & co"}}
  matrix:update(torch.tensor {1, 1, 2}, torch.tensor {1, 1, 2})
  local path = check.temp "confusion.svg"
  matrix:plot {file = path, title = "animals"}
  local file <close> = assert(io.open(path))
  local s = file:read "a"
  for _, part in ipairs {"dog &amp; co", "animals", "predicted", "truth", ">2</text>"} do check.contains(s, part) end
  matrix:plot {file = check.temp "confusion.png"}
  check.raises("argument", "options in a table", matrix.plot, matrix, "x.svg")
end)

test("in a process group every rank gets the value over all of them", function()
  local ranks = assert(loadfile(here .. "/../dist/ranks.lua", "t", _ENV))()
  ranks.run(2, [==[
    local M = torch.metrics
    torch.manual_seed(5)
    local scores, labels = torch.randn(9, 3), torch.randint(1, 4, {9})
    local mine = R == 0 and {1, 2} or {3, 9}
    local acc, mean, matrix = M.Accuracy(), M.MeanMetric(), M.ConfusionMatrix()
    if R == 1 then mean:update(4, 2) else mean:update(1) end
    for _, m in ipairs {acc, matrix} do m:update(scores[{mine}]:argmax(2), labels[{mine}]) end
    if R == 0 then  -- one rank may show what it has
      local text = tostring(matrix)
      assert(text:find("2 items", 1, true) and text:find("of this rank alone", 1, true), text)
    end
    for _ = 1, 2 do  -- what a rank has counted stays its own
      near(acc:compute():item(), M.accuracy(scores, labels):item())
      assert(torch.equal(matrix:compute(), M.confusion_matrix(scores, labels)))
      near(mean:compute():item(), 3)
    end
    if R == 1 then assert(matrix:text():find("9 items.*over all ranks"), matrix:text()) end
  ]==])
end)

test("wrong arguments of metrics are answered", function()
  check.raises("value", "classes count from 1, but the target holds the class 0; + 1", M.accuracy, torch.tensor {1, 2}, torch.tensor {0, 1})
  check.raises("value", "the target holds class 5, but there are 4 classes", M.accuracy, torch.randn(2, 4), torch.tensor {5, 1})
  check.raises("shape", "preds:squeeze(2)", M.accuracy, torch.randn(2, 1), torch.tensor {0, 1})
  check.raises("shape", "want a target of shape [2]", M.accuracy, torch.randn(2, 4), torch.tensor {1, 2, 3})
  check.raises("shape", "preds:view_as(target)", M.mean_squared_error, torch.randn(2, 1), torch.randn(2))
  check.raises("value", "the target is 0 or 1", M.accuracy, torch.rand(2), torch.tensor {1, 2})
  check.raises("dtype", "with fractions", M.accuracy, torch.tensor {1, 2}, torch.tensor {1.5, 2})
  check.raises("argument", 'no option "num_clases"', M.Accuracy, {num_clases = 3})
  check.raises("value", "average must be one of", M.Accuracy, {average = "mean"})
  check.raises("value", "num_classes must be integer of at least 1", M.Accuracy, {num_classes = 0})
  check.raises("value", "labels has 2 names for num_classes = 3", M.ConfusionMatrix, {labels = {"a", "b"}, num_classes = 3})
  check.raises("argument", "predictions go to update", M.Accuracy, torch.ones(2))
  check.raises("argument", "wants a metric before the colon", M.Accuracy.update, M.Accuracy, torch.ones(2))
  check.raises("argument", "predictions and what is true", function() M.Accuracy():update(torch.ones(2)) end)
  check.raises("argument", "call the class: Accuracy()", M.MetricCollection, {M.Accuracy})
  check.raises("value", "the value is nan", function() M.MeanMetric():update(0 / 0) end)
  check.raises("shape", "of at least 3 classes", M.accuracy, torch.randn(2, 2), torch.tensor {1, 2}, {top_k = 3})
end)
