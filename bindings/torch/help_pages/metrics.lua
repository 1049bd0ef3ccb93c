-- What help knows of torch.metrics.
local M = "torch.metrics."
local counting = "{num_classes=nil, average=%s, task=nil, threshold=0.5, ignore_index=nil, sync_on_compute=true}"
local classes = " Predictions are classes from 1 or scores [n, classes]; of two classes also probabilities with a target of 0 and 1."
local about = " Counted batch by batch: update(predictions, target), compute(), reset(); metric(predictions, target) counts a batch and gives its own value. In a process group compute gives the value over all ranks, which all call it, unless sync_on_compute = false."
local rows = {
  {"torch.metrics.Accuracy", (counting:format('"micro"'):gsub("}", ", top_k=1}")), "The share of predictions that are right; average = \"macro\", \"weighted\" or \"none\": of each class." .. classes .. about,
    see = M .. "ConfusionMatrix, " .. M .. "F1Score, " .. M .. "MeanMetric",
    example = "acc = torch.metrics.Accuracy()\nacc:update(torch.tensor{1, 2, 3}, torch.tensor{1, 2, 2})\nacc:compute() --> f32 []  0.66667"},
  {"torch.metrics.ConfusionMatrix", "{num_classes=nil, labels=nil, normalize=nil, task=nil, threshold=0.5, ignore_index=nil, sync_on_compute=true}",
    "How often each class (a row) was predicted as each (a column). print(matrix) shows a table with recall and precision, matrix:text() gives it, matrix:plot{file = \"confusion.svg\"} draws it. labels names the classes; normalize = \"true\", \"pred\" or \"all\" gives shares." .. classes .. about,
    see = M .. "Accuracy, " .. M .. "Precision, " .. M .. "Recall",
    example = "matrix = torch.metrics.ConfusionMatrix{num_classes = 2}\nmatrix:update(torch.tensor{1, 2, 2}, torch.tensor{1, 2, 1})\nmatrix:compute() --> i64 [2, 2]\n 1  1\n 0  1"},
  {"torch.metrics.Precision", counting:format('"macro"'), "Of what was predicted as a class, the share that is in it; the mean over classes unless average says otherwise, of two classes told by probabilities that of class 1." .. classes .. about, see = M .. "Recall, " .. M .. "F1Score"},
  {"torch.metrics.Recall", counting:format('"macro"'), "Of what is in a class, the share that was predicted so; the mean over classes unless average says otherwise, of two classes told by probabilities that of class 1." .. classes .. about, see = M .. "Precision, " .. M .. "F1Score"},
  {"torch.metrics.F1Score", counting:format('"macro"'), "The harmonic mean of precision and recall; the mean over classes unless average says otherwise, of two classes told by probabilities that of class 1." .. classes .. about, see = M .. "Precision, " .. M .. "Recall",
    example = "f1 = torch.metrics.F1Score()\nf1(torch.tensor{0.9, 0.2, 0.8}, torch.tensor{1, 0, 0}) --> f32 []  0.66667"},
  {"torch.metrics.MeanMetric", "", "A running mean: update(value, weight), the weight being 1 or how many the value stands for." .. about, see = M .. "Accuracy",
    example = "mean = torch.metrics.MeanMetric()\nmean:update(2, 3)\nmean:update(6, 1)\nmean:compute() --> f32 []  3"},
  {"torch.metrics.MeanSquaredError", "{squared=true, sync_on_compute=true}", "The mean of (prediction - target) ^ 2; squared = false: its root." .. about, see = M .. "MeanAbsoluteError, " .. M .. "R2Score"},
  {"torch.metrics.MeanAbsoluteError", "", "The mean distance of predictions from the target." .. about, see = M .. "MeanSquaredError"},
  {"torch.metrics.R2Score", "", "The share of the target's variance that predictions explain: 1 at best." .. about, see = M .. "MeanSquaredError"},
  {"torch.metrics.MetricCollection", "metrics", "Several metrics that count the same batches: update, compute (a table by name), reset.", see = M .. "Accuracy",
    example = "both = torch.metrics.MetricCollection{acc = torch.metrics.Accuracy(), f1 = torch.metrics.F1Score()}\nboth:update(torch.tensor{1, 2}, torch.tensor{1, 2})\nboth:compute().acc --> f32 []  1"},
}
for name, class in pairs {accuracy = "Accuracy", precision = "Precision", recall = "Recall", f1_score = "F1Score", confusion_matrix = "ConfusionMatrix",
  mean_squared_error = "MeanSquaredError", mean_absolute_error = "MeanAbsoluteError", r2_score = "R2Score"} do
  rows[#rows + 1] = {M .. name, "preds, target, options=nil", ("%s of all predictions at once."):format(class), see = M .. class}
end
return rows
