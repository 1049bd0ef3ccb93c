// The cross entropy of labels for many examples at once (ops/table/batch.h): a mean is of each example's own samples.
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/loss.h"
#include "engine/ops/table/batch.h"

namespace tycho {
namespace {

// Scores as [examples, samples, classes, places], and what their labels say.
struct Labelled {
  Sizes flat, each;
  Tensor scores, keep, at;  // as Labels
  Labelled(const Spread& s, int x, int target, int64_t ignored) {
    const Classes k = classes_of(s.one.tensor(x));
    flat = Sizes{s.examples, k.samples, k.classes, k.places};
    each = Sizes{s.examples, k.samples, 1, k.places};
    scores = op<"reshape">(s.repeated(s.one.tensor(x)), flat);
    const Labels labels = labels_of(s.repeated(s.one.tensor(target)), each, ignored);
    keep = labels.keep;
    at = labels.at;
  }
};

// Weighted and smoothed ones, and 16-bit scores, which are summed in float32, go by example.
bool plain(const Spread& s, int x, int weight, int smoothing) {
  const DType t = s.one.tensor(x).dtype();
  return !s.one.has(weight) && s.one.number(smoothing) == 0 &&
         (t == DType::Float32 || t == DType::Float64);
}

const Sizes kOfAnExample{1, 2, 3};

BATCH("softmax_nll", [](Spread& s) -> BatchResults {
  if (!plain(s, 0, 2, 4)) return {};
  const Labelled l(s, 0, 1, s.one.integer(3));
  const Tensor sums = op<"logsumexp">(l.scores, Sizes{2}, true);
  const Tensor terms = op<"where">(l.keep, sums - op<"gather">(l.scores, 2, l.at), 0.0);
  const Tensor total = op<"sum">(op<"to.dtype">(l.keep, l.scores.dtype()), kOfAnExample);
  Sizes shape = s.one.tensor(1).shape();
  shape.insert(0, s.examples);
  const Reduction r = parse_reduction(s.one.string(5));
  Tensor loss = r == Reduction::None ? op<"reshape">(terms, shape) : op<"sum">(terms, kOfAnExample);
  if (r == Reduction::Mean) loss = loss / total;
  return {loss, op<"squeeze">(sums, Sizes{2}), total};
});

BATCH("softmax_nll_backward", [](Spread& s) -> BatchResults {
  if (!plain(s, 1, 3, 7)) return {};
  const Labelled l(s, 1, 2, s.one.integer(6));
  const Sizes one{s.examples, 1, 1, 1};
  const Tensor sums = op<"unsqueeze">(s.repeated(s.one.tensor(4)), 2);
  const Tensor classes =
      op<"reshape">(op<"arange.start">(1, l.flat[2] + 1, 1, DType::Int64, l.scores.device()),
                    Sizes{1, 1, l.flat[2], 1});
  const Tensor hot = op<"to.dtype">(fn::eq(l.at, classes), l.scores.dtype());
  const Reduction r = parse_reduction(s.one.string(8));
  Tensor g = op<"reshape">(s.repeated(s.one.tensor(0)), r == Reduction::None ? l.each : one);
  if (r == Reduction::Mean) g = g / op<"reshape">(s.repeated(s.one.tensor(5)), one);
  const Tensor d = (fn::exp(l.scores - sums) - hot) * op<"where">(l.keep, g, 0.0);
  Sizes shape = s.one.tensor(1).shape();
  shape.insert(0, s.examples);
  return {op<"reshape">(d, shape)};
});

}  // namespace
}  // namespace tycho
