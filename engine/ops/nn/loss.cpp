// Losses of class scores: cross_entropy and nll_loss. Class labels are positions: 1 is the first
// class. cross_entropy of labels is one fused kernel forward and one backward; where the gradient
// itself needs a graph, it is composed of plain operations instead.
#include "engine/ops/nn/loss.h"

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {

Reduction parse_reduction(const char* text) {
  const std::string_view s = text;
  if (s == "mean") return Reduction::Mean;
  if (s == "sum") return Reduction::Sum;
  if (s == "none") return Reduction::None;
  fail(Kind::Argument, format("reduction is \"mean\", \"sum\" or \"none\", not \"%.40s\"", text));
}

Tensor reduce_loss(const Tensor& each, Reduction r) {
  return r == Reduction::None ? each : r == Reduction::Sum ? op<"sum">(each) : op<"mean">(each);
}
Tensor reduce_loss(const Tensor& each, const char* reduction) {
  return reduce_loss(each, parse_reduction(reduction));
}

Classes classes_of(const Tensor& x) {
  if (x.rank() == 1) return {1, x.size(0), 1};
  int64_t places = 1;
  for (int d = 2; d < x.rank(); ++d) places *= x.size(d);
  return {x.size(0), x.size(1), places};
}

Labels labels_of(const Tensor& target, const Sizes& each, int64_t ignored) {
  const Tensor labels = op<"reshape">(op<"to.dtype">(target, DType::Int64), each);
  const Tensor keep = fn::ne(labels, ignored);
  return {keep, op<"where">(keep, labels, 1)};
}

namespace {

std::string public_name(const Op& op) {
  const std::string_view name = op.name;
  return std::string(name.starts_with("nll") ? "nll_loss" : "cross_entropy");
}

// The shape of the labels that fit scores x: without the dimension of the classes.
Sizes label_shape(const Tensor& x) {
  Sizes shape = x.shape();
  shape.erase(x.rank() == 1 ? 0 : 1);
  return shape;
}

// Labels and weights fit the scores; their values are checked by the kernel.
void check_labels(const Call& c, const Tensor& x, const Tensor& target, const Tensor& weight) {
  const std::string name = public_name(*c.op);
  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()),
              "%s: the scores must be floating point numbers, not %s", name.c_str(),
              dtype_name(x.dtype()));
  TYCHO_CHECK(Kind::Shape, x.rank() >= 1,
              "%s: the scores need a dimension of classes, got a 0-d tensor", name.c_str());
  if (target.dtype() != DType::Int64 && target.dtype() != DType::UInt8)
    fail(
        Kind::DType,
        format("%s: targets must be class numbers (int64), got %s %s", name.c_str(),
               dtype_name(target.dtype()), to_string(target.shape()).c_str()),
        is_floating(target.dtype()) && name[0] == 'c'
            ? "y:long()  -- for probabilities give the shape of the logits, " + to_string(x.shape())
            : std::string("y:long()"));
  if (!(target.shape() == label_shape(x)))
    fail(Kind::Shape, format("%s: scores of shape %s need targets of shape %s, got %s",
                             name.c_str(), to_string(x.shape()).c_str(),
                             to_string(label_shape(x)).c_str(), to_string(target.shape()).c_str()));
  const int64_t classes = classes_of(x).classes;
  if (!weight) return;
  TYCHO_CHECK(Kind::Shape, weight.rank() == 1 && weight.size(0) == classes,
              "%s: weight needs one number for each of the %lld classes, got shape %s",
              name.c_str(), static_cast<long long>(classes), to_string(weight.shape()).c_str());
  TYCHO_CHECK(Kind::DType, is_floating(weight.dtype()), "%s: weight must be floating point, not %s",
              name.c_str(), dtype_name(weight.dtype()));
}

// The type that totals and log-sums are kept in.
DType wide(DType t) { return t == DType::Float64 ? t : DType::Float32; }

// What each sample's terms are multiplied with, [N, 1, S] or a number. Where no sample counts the
// mean is nan, but ignored ones have no part in it.
Tensor scaled_gradient(const Tensor& g, Reduction r, const Tensor& total, const Tensor& target,
                       int64_t ignore, const Classes& k) {
  if (r == Reduction::None) return op<"reshape">(g, Sizes{k.samples, 1, k.places});
  if (r == Reduction::Sum) return g;
  const Tensor ignored = fn::eq(op<"reshape">(target, Sizes{k.samples, 1, k.places}), ignore);
  return fn::where(ignored, 0, g / total);
}

// --- cross_entropy of labels ---

// Gradient in plain operations: scale * (softmax * sum of the terms - terms), where the terms say
// how much each class counts in each sample's loss.
Tensor softmax_nll_composed(const Backward& b) {
  const Tensor x = b.in(0);
  const Classes k = classes_of(x);
  const Sizes flat{k.samples, k.classes, k.places};
  // The kept log-sums only shift the exponents: as constants, they change no derivative.
  Tensor shift, total;
  {
    NoGrad quiet;
    shift = op<"reshape">(b.out(1), Sizes{k.samples, 1, k.places});
    total = b.out(2);
    shift = op<"clone">(shift);
    total = op<"clone">(total);
  }
  const auto terms = ops<"nll_terms">(x, b.in(1), b.in(2), b.integer(3), b.number(4));
  const Tensor e = fn::exp(op<"reshape">(x, flat) - shift);
  const Tensor p = e / op<"sum">(e, Sizes{1}, true);
  const Tensor scale =
      scaled_gradient(b.g(), parse_reduction(b.string(5)), total, b.in(1), b.integer(3), k);
  return op<"reshape">(scale * (p * terms[1] - terms[0]), x.shape());
}

const Op& softmax_nll = add_op(
    {.name = "softmax_nll",
     .args = "self, target, weight: tensor?, ignore_index: int, label_smoothing: float, reduction: "
             "string",
     .doc = "Cross entropy of labels; also each place's log of the sum of exponentials, and what a "
            "mean divides by.",
     .where = kHidden,
     .saves = "self, target, weight, out2, out3",
     .shape =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &target = c.tensor(1);
           check_labels(c, x, target, c.tensor(2));
           const Classes k = classes_of(x);
           const Reduction r = parse_reduction(c.string(5));
           c.out.push_back(
               empty(r == Reduction::None ? target.shape() : Sizes(), x.dtype(), x.device()));
           c.out.push_back(empty(Sizes{k.samples, k.places}, wide(x.dtype()), x.device()));
           c.out.push_back(empty({}, wide(x.dtype()), x.device()));
         },
     .grad =
         [](Backward& b) {
           b.set(0, mode.grad ? softmax_nll_composed(b)
                              : op<"softmax_nll_backward">(b.g(), b.in(0), b.in(1), b.in(2),
                                                           b.out(1), b.out(2), b.integer(3),
                                                           b.number(4), b.string(5)));
         }});

const Op& softmax_nll_backward =
    add_op({.name = "softmax_nll_backward",
            .args = "grad, self, target, weight: tensor?, log_sums, total, ignore_index: int, "
                    "label_smoothing: float, reduction: string",
            .doc = "The gradient of cross entropy of labels.",
            .where = kHidden,
            .differentiable = false,
            .shape = [](Call& c) { c.out.push_back(empty_like(c.tensor(1))); }});

const Op& nll_terms = add_op(
    {.name = "nll_terms",
     .args = "self, target, weight: tensor?, ignore_index: int, label_smoothing: float, name: "
             "string = nll_loss",
     .doc = "How much each class counts in each sample's loss [N, C, S], and the sum over classes "
            "[N, 1, S].",
     .where = kHidden,
     .differentiable = false,
     .shape = [](Call& c) {
       const Tensor& x = c.tensor(0);
       const Classes k = classes_of(x);
       c.out.push_back(
           filled(Sizes{k.samples, k.classes, k.places}, 0, wide(x.dtype()), x.device()));
       c.out.push_back(filled(Sizes{k.samples, 1, k.places}, 0, wide(x.dtype()), x.device()));
     }});

// Weights that require grad, which the fused kernels take as constants: the loss of
// log-probabilities in plain operations.
Tensor weighted_nll(const Tensor& logp, const Tensor& target, const Tensor& weight, int64_t ignore,
                    double smoothing, Reduction r) {
  const Classes k = classes_of(logp);
  const Sizes flat{k.samples, k.classes, k.places};
  const Tensor hot = ops<"nll_terms">(logp, target, Tensor(), ignore, 0.0)[0];
  const Tensor w = op<"reshape">(weight, Sizes{1, k.classes, 1});
  const Tensor terms = w * op<"reshape">(logp, flat);
  Tensor each = op<"sum">(hot * terms, Sizes{1}, false) * (smoothing - 1);
  if (smoothing > 0)
    each = each - op<"sum">(terms, Sizes{1}, false) * op<"sum">(hot, Sizes{1}, false) *
                      (smoothing / static_cast<double>(k.classes));
  if (r == Reduction::None) return op<"reshape">(each, target.shape());
  const Tensor sum = op<"sum">(each);
  return r == Reduction::Sum ? sum : sum / op<"sum">(hot * w);
}

bool wants_weight_gradient(const Tensor& weight) {
  return weight && mode.grad && weight.requires_grad();
}

// cross_entropy of a probability for every class.
Tensor soft_cross_entropy(const Call& c, double smoothing, Reduction r) {
  const Tensor &x = c.tensor(0), &weight = c.tensor(2);
  Tensor target = c.tensor(1);
  const Classes k = classes_of(x);
  const int dim = x.rank() == 1 ? 0 : 1;
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / static_cast<double>(k.classes);
  Tensor terms = op<"log_softmax">(x, static_cast<int64_t>(dim)) * target;
  if (weight) {
    TYCHO_CHECK(Kind::Shape, weight.rank() == 1 && weight.size(0) == k.classes,
                "cross_entropy: weight needs one number for each of the %lld classes, got shape %s",
                static_cast<long long>(k.classes), to_string(weight.shape()).c_str());
    Sizes along{k.classes};
    for (int d = dim + 1; d < x.rank(); ++d) along.push_back(1);
    terms = terms * op<"reshape">(weight, along);
  }
  if (r == Reduction::None) return -op<"sum">(terms, Sizes{dim}, false);
  const Tensor sum = -op<"sum">(terms);
  return r == Reduction::Sum ? sum : sum / static_cast<double>(k.samples * k.places);
}

const Op& cross_entropy = add_op(
    {.name = "cross_entropy",
     .args = "self, target, weight: tensor?, ignore_index: int = -100, reduction: string = mean, "
             "label_smoothing: float = 0.0",
     .doc = "-log softmax(self) at the target class (labels from 1), or against a probability for "
            "every class.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "nll_loss, log_softmax",
     .rule = "[N, C, ..], target [N, ..] -> [] (reduction \"none\": [N, ..])",
     .example = "F.cross_entropy(torch.tensor{{2.0, 0.0}, {0.0, 2.0}}, torch.tensor{1, 2}) --> f32 "
                "[]  0.12693\n"
                "F.cross_entropy(torch.zeros(1, 4), torch.tensor{3}) --> f32 []  1.3863",
     .compose =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &target = c.tensor(1);
           const Reduction r = parse_reduction(c.string(4));
           const double smoothing = c.number(5);
           TYCHO_CHECK(Kind::Value, smoothing >= 0 && smoothing <= 1,
                       "cross_entropy: label_smoothing lies in [0, 1], not %g", smoothing);
           if (x->node) standing_observer->scored(x);
           if (is_floating(target.dtype()) && is_floating(x.dtype()) && x.rank() > 0 &&
               target.shape() == x.shape())
             return c.out.push_back(soft_cross_entropy(c, smoothing, r));
           if (wants_weight_gradient(c.tensor(2))) {
             check_labels(c, x, target, c.tensor(2));
             const Tensor logp = op<"log_softmax">(x, static_cast<int64_t>(x.rank() == 1 ? 0 : 1));
             return c.out.push_back(
                 weighted_nll(logp, target, c.tensor(2), c.integer(3), smoothing, r));
           }
           c.out.push_back(
               ops<"softmax_nll">(x, target, c.tensor(2), c.integer(3), smoothing, c.string(4))[0]);
         },
     .samples =
         [](Samples& s) {
           Impl* labels = s.integers({4}, 1, 5);
           s.add({s.normal({4, 5}), labels});
           s.add({s.normal({4, 5}), labels, nullptr, 2, "sum"});
           s.add({s.normal({4, 5}), labels, s.uniform({5}, 0.5, 2), -100, "none", 0.1});
           s.add({s.normal({4, 5}), labels, s.uniform({5}, 0.5, 2), -100, "mean", 0.2});
           s.add({s.normal({2, 3, 4}), s.integers({2, 4}, 1, 3), nullptr, 1, "mean"});
           s.add({s.normal({5}), s.of({}, {3}, DType::Int64)});
           s.add({s.normal({4, 3}), s.uniform({4, 3}, 0, 1), s.uniform({3}, 0.5, 2), -100, "mean",
                  0.1});
         }});

// --- nll_loss ---

const Op& nll =
    add_op({.name = "nll_forward",
            .args = "self, target, weight: tensor?, ignore_index: int, reduction: string",
            .doc = "nll_loss, and what a mean divides by.",
            .where = kHidden,
            .saves = "target, weight, out2",
            .shape =
                [](Call& c) {
                  const Tensor &x = c.tensor(0), &target = c.tensor(1);
                  check_labels(c, x, target, c.tensor(2));
                  const Reduction r = parse_reduction(c.string(4));
                  c.out.push_back(empty(r == Reduction::None ? target.shape() : Sizes(), x.dtype(),
                                        x.device()));
                  c.out.push_back(empty({}, wide(x.dtype()), x.device()));
                },
            .grad =
                [](Backward& b) {
                  Tensor total;
                  {
                    NoGrad quiet;
                    total = op<"clone">(b.out(1));
                  }
                  const Reduction r = parse_reduction(b.string(4));
                  const Tensor scale = r == Reduction::Mean ? b.g() / total : b.g();
                  b.set(0, op<"nll_backward">(op<"expand">(scale, b.in(1).shape()), b.in(1),
                                              b.in(2), b.integer(3), b.shape(0)));
                }});

const Op& nll_backward =
    add_op({.name = "nll_backward",
            .args = "grad, target, weight: tensor?, ignore_index: int, shape: ints",
            .doc = "Minus the weighted gradient of each sample at its label, 0 elsewhere.",
            .where = kHidden,
            .saves = "target, weight",
            .shape =
                [](Call& c) {
                  c.out.push_back(filled(c.ints(4), 0, c.tensor(0).dtype(), c.tensor(0).device()));
                },
            .grad =
                [](Backward& b) {
                  b.set(0, ops<"nll_forward">(b.g(), b.in(1), b.in(2), b.integer(3), "none")[0]);
                }});

const Op& nll_loss = add_op(
    {.name = "nll_loss",
     .args = "self, target, weight: tensor?, ignore_index: int = -100, reduction: string = mean",
     .doc = "Minus the log-probability at the target class (labels from 1).",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "cross_entropy, log_softmax",
     .rule = "[N, C, ..], target [N, ..] -> [] (reduction \"none\": [N, ..])",
     .example = "F.nll_loss(torch.tensor{{-0.5, -2.0}}, torch.tensor{1}) --> f32 []  0.5",
     .compose =
         [](Call& c) {
           if (c.tensor(0)->node) standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
           if (wants_weight_gradient(c.tensor(2))) {
             check_labels(c, c.tensor(0), c.tensor(1), c.tensor(2));
             return c.out.push_back(weighted_nll(c.tensor(0), c.tensor(1), c.tensor(2),
                                                 c.integer(3), 0, parse_reduction(c.string(4))));
           }
           c.out.push_back(ops<"nll_forward">(c.tensor(0), c.tensor(1), c.tensor(2), c.integer(3),
                                              c.string(4))[0]);
         },
     .samples =
         [](Samples& s) {
           Impl* labels = s.integers({4}, 1, 5);
           s.add({s.normal({4, 5}), labels});
           s.add({s.normal({4, 5}), labels, s.uniform({5}, 0.5, 2), 3, "mean"});
           s.add({s.normal({4, 5}), labels, s.uniform({5}, 0.5, 2), -100, "none"});
           s.add({s.normal({2, 3, 2, 2}), s.integers({2, 2, 2}, 1, 3), nullptr, -100, "sum"});
         }});

}  // namespace
}  // namespace tycho
