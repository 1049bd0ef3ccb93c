// Losses about sides and margins: of labels 1 and -1, of classes, of distances. Composed of plain
// operations, so their gradients are of any order.
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/loss.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& cosine_embedding_loss = add_op(
    {.name = "cosine_embedding_loss",
     .args = "input1, input2, target, margin: float = 0.0, reduction: string = mean",
     .doc = "1 - cos where the target is 1, max(0, cos - margin) where it is -1.",
     .where = kFunction | kFunctional,
     .amp = Amp::F32,
     .see = "cosine_similarity",
     .rule = "[N, d], [N, d], target [N] -> [] (reduction \"none\": [N])",
     .example = "F.cosine_embedding_loss(torch.tensor{{1.0, 0.0}}, torch.tensor{{0.0, 1.0}}, "
                "torch.tensor{1}) --> f32 []  1",
     .compose =
         [](Call& c) {
           const Tensor &a = c.tensor(0), &b = c.tensor(1), &t = c.tensor(2);
           const Reduction r = parse_reduction(c.string(4));
           TYCHO_CHECK(Kind::Shape,
                       t.rank() <= 1 && a.rank() == t.rank() + 1 && b.rank() == a.rank(),
                       "cosine_embedding_loss: wants vectors with a 0-d target or rows with a 1-d "
                       "target, got shapes %s, %s and %s",
                       to_string(a.shape()).c_str(), to_string(b.shape()).c_str(),
                       to_string(t.shape()).c_str());
           const Sizes dims{t.rank()};
           constexpr double eps = 1e-12;
           const Tensor cosine =
               op<"sum">(a * b, dims, false) / fn::sqrt((op<"sum">(a * a, dims, false) + eps) *
                                                        (op<"sum">(b * b, dims, false) + eps));
           const Tensor apart = op<"clamp_min">(cosine - c.number(3), 0);
           const Tensor each =
               fn::where(fn::eq(t, 1), 1 - cosine, 0) + fn::where(fn::eq(t, -1), apart, 0);
           c.out.push_back(reduce_loss(each, r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({3, 4}), s.of({3}, {1, -1, 1}, DType::Int64)});
           s.add({s.normal({4}), s.normal({4}), s.of({}, {-1}, DType::Int64), 0.2, "sum"});
         }});

const Op& triplet_margin_loss = add_op(
    {.name = "triplet_margin_loss",
     .args = "anchor, positive, negative, margin: float = 1.0, p: number = 2, eps: float = 1e-6, "
             "swap: bool = false, reduction: string = mean",
     .doc = "max(0, |anchor - positive| - |anchor - negative| + margin), with the p-norm.",
     .where = kFunction | kFunctional,
     .amp = Amp::F32,
     .see = "pairwise_distance",
     .rule = "[N, d] three times -> [] (reduction \"none\": [N])",
     .example = "F.triplet_margin_loss(torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor{{3.0, "
                "4.0}}) --> f32 []  0",
     .compose =
         [](Call& c) {
           const Tensor &a = c.tensor(0), &p = c.tensor(1), &n = c.tensor(2);
           const Reduction r = parse_reduction(c.string(7));
           TYCHO_CHECK(Kind::Value, c.number(3) > 0,
                       "triplet_margin_loss: margin must be above 0, got %g", c.number(3));
           TYCHO_CHECK(Kind::Shape, a.rank() == p.rank() && a.rank() == n.rank(),
                       "triplet_margin_loss: anchor, positive and negative need the same number of "
                       "dimensions, got shapes %s, %s and %s",
                       to_string(a.shape()).c_str(), to_string(p.shape()).c_str(),
                       to_string(n.shape()).c_str());
           const auto apart = [&](const Tensor& x, const Tensor& y) {
             return op<"pairwise_distance">(x, y, c.arg[4], c.number(5));
           };
           Tensor far = apart(a, n);
           if (c.flag(6)) far = fn::minimum(far, apart(p, n));
           c.out.push_back(reduce_loss(op<"clamp_min">(apart(a, p) - far + c.number(3), 0), r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({3, 4}), s.normal({3, 4})});
           s.add(
               {s.normal({3, 4}), s.normal({3, 4}), s.normal({3, 4}), 2.0, 3, 1e-6, true, "none"});
         }});

// Scores [N, C] or [C] and one label each: the shapes that the margin losses take.
Classes margin_classes(const Call& c) {
  const Tensor& x = c.tensor(0);
  const bool single = x.rank() <= 1;
  TYCHO_CHECK(Kind::Shape, x.rank() <= 2 && (single ? x.numel() : x.size(1)) > 0,
              "%s: the input has shape [samples, classes] or [classes], not %s", c.op->name,
              to_string(x.shape()).c_str());
  return single ? Classes{1, x.numel(), 1} : Classes{x.size(0), x.size(1), 1};
}

void check_margin_types(const Call& c) {
  const Tensor &x = c.tensor(0), &t = c.tensor(1);
  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()) && t.dtype() == DType::Int64,
              "%s: takes floating point scores and int64 labels, not %s and %s", c.op->name,
              dtype_name(x.dtype()), dtype_name(t.dtype()));
}

const Op& multi_margin_loss = add_op(
    {.name = "multi_margin_loss",
     .args = "self, target, p: int = 1, margin: float = 1.0, weight: tensor?, reduction: string = "
             "mean",
     .doc = "The mean over the other classes of max(0, margin - score of the target (from 1) + "
            "score)^p.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "cross_entropy",
     .rule = "[N, C], target [N] -> [] (reduction \"none\": [N])",
     .example = "F.multi_margin_loss(torch.tensor{{0.0, 0.5}}, torch.tensor{2}) --> f32 []  0.25",
     .compose =
         [](Call& c) {
           const Reduction r = parse_reduction(c.string(5));
           const Classes k = margin_classes(c);
           const Tensor &target = c.tensor(1), &weight = c.tensor(4);
           TYCHO_CHECK(Kind::Value, c.integer(2) == 1 || c.integer(2) == 2,
                       "multi_margin_loss: p is 1 or 2, not %lld",
                       static_cast<long long>(c.integer(2)));
           TYCHO_CHECK(Kind::Shape, target.rank() <= 1 && target.numel() == k.samples,
                       "multi_margin_loss: %lld samples need as many labels, got shape %s",
                       static_cast<long long>(k.samples), to_string(target.shape()).c_str());
           TYCHO_CHECK(Kind::Shape, !weight || (weight.rank() == 1 && weight.size(0) == k.classes),
                       "multi_margin_loss: weight needs one number for each of the %lld classes, "
                       "got shape %s",
                       static_cast<long long>(k.classes), to_string(weight.shape()).c_str());
           check_margin_types(c);
           const Sizes flat{k.samples, k.classes}, over{1};
           const Tensor x = op<"reshape">(c.tensor(0), flat);
           const Tensor hot =
               op<"reshape">(ops<"nll_terms">(x, op<"reshape">(target, Sizes{k.samples}), Tensor(),
                                              INT64_MIN, 0.0, "multi_margin_loss")[0],
                             flat);
           const Tensor score = op<"sum">(hot * x, over, true);
           Tensor z = fn::relu(c.number(3) - score + x);
           if (c.integer(2) == 2) z = z * z;
           z = z * (1 - hot);
           if (weight) z = z * op<"sum">(hot * weight, over, true);
           const Tensor each = op<"mean">(z, over, false);
           c.out.push_back(
               reduce_loss(r == Reduction::None ? op<"reshape">(each, target.shape()) : each, r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.integers({3}, 1, 4)});
           s.add({s.normal({3, 4}), s.integers({3}, 1, 4), 2, 0.5, s.uniform({4}, 0.5, 2), "none"});
         }});

const Op& label_counts = add_op(
    {.name = "label_counts",
     .args = "self, target",
     .doc = "How often each class stands in a list of labels that a negative number ends.",
     .where = kHidden,
     .differentiable = false,
     .shape = [](Call& c) {
       const DType t = c.tensor(0).dtype();
       c.out.push_back(filled(c.tensor(1).shape(), 0, t == DType::Float64 ? t : DType::Float32,
                              c.tensor(0).device()));
     }});

const Op& multilabel_margin_loss = add_op(
    {.name = "multilabel_margin_loss",
     .args = "self, target, reduction: string = mean",
     .doc = "Hinge loss between the classes listed in target (from 1, ended by -1) and all others.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "multi_margin_loss",
     .rule = "[N, C], target [N, C] -> [] (reduction \"none\": [N])",
     .example = "F.multilabel_margin_loss(torch.tensor{{0.0, 0.5}}, torch.tensor{{2, -1}}) --> f32 "
                "[]  0.25",
     .compose =
         [](Call& c) {
           const Reduction r = parse_reduction(c.string(2));
           const Classes k = margin_classes(c);
           const Tensor& target = c.tensor(1);
           TYCHO_CHECK(Kind::Shape, target.shape() == c.tensor(0).shape(),
                       "multilabel_margin_loss: target has shape %s, the input %s",
                       to_string(target.shape()).c_str(), to_string(c.tensor(0).shape()).c_str());
           check_margin_types(c);
           const Tensor counts = op<"label_counts">(c.tensor(0), target);
           const Sizes rows{k.samples, k.classes, 1}, columns{k.samples, 1, k.classes};
           const Tensor x = c.tensor(0);
           const Tensor z = fn::relu(1 - op<"reshape">(x, rows) + op<"reshape">(x, columns));
           const Tensor pairs =
               op<"reshape">(counts, rows) *
               op<"to.dtype">(fn::eq(op<"reshape">(counts, columns), 0), counts.dtype());
           Tensor each = op<"sum">(z * pairs, Sizes{1, 2}, false) / static_cast<double>(k.classes);
           if (r == Reduction::None && x.rank() <= 1) each = op<"reshape">(each, Sizes());
           c.out.push_back(reduce_loss(each, r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 4}), s.of({2, 4}, {4, 1, -1, 2, 3, -1, 1, 1}, DType::Int64)});
           s.add({s.normal({3}), s.of({3}, {2, -1, 1}, DType::Int64), "none"});
         }});

const Op& multilabel_soft_margin_loss = add_op(
    {.name = "multilabel_soft_margin_loss",
     .args = "self, target, weight: tensor?, reduction: string = mean",
     .doc = "Binary cross entropy with logits, averaged over the classes of each sample.",
     .where = kFunctional,
     .amp = Amp::F32Cuda,
     .see = "binary_cross_entropy_with_logits",
     .rule = "[N, C], target [N, C] -> [] (reduction \"none\": [N])",
     .example = "F.multilabel_soft_margin_loss(torch.zeros(1, 2), torch.tensor{{1.0, 0.0}}) --> "
                "f32 []  0.69315",
     .compose =
         [](Call& c) {
           const Reduction r = parse_reduction(c.string(3));
           const Tensor &x = c.tensor(0), &t = c.tensor(1);
           TYCHO_CHECK(Kind::Shape, x.rank() >= 1,
                       "multilabel_soft_margin_loss: the input needs a dimension of classes");
           Tensor each = -(t * op<"logsigmoid">(x) + (1 - t) * op<"logsigmoid">(-x));
           if (c.tensor(2)) each = each * c.tensor(2);
           c.out.push_back(reduce_loss(op<"mean">(each, Sizes{-1}, false), r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1)});
           s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1), s.uniform({4}, 0.5, 2), "none"});
         }});

void check_reduction(const Call& c, int i) { parse_reduction(c.string(i)); }

void check_floating_argument(const Call& c, int i) {
  const Tensor& t = c.tensor(i);
  TYCHO_CHECK(Kind::DType, is_floating(t.dtype()), "%s: %s must be floating point, not %s",
              c.op->name, c.op->params[i].name.c_str(), dtype_name(t.dtype()));
}

const Op& soft_margin_loss = add_op(
    {.name = "soft_margin_loss",
     .args = "self, target, reduction: string = mean",
     .doc = "log(1 + exp(-target * self)) for targets 1 and -1.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "hinge_embedding_loss, binary_cross_entropy_with_logits",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example = "F.soft_margin_loss(torch.tensor{0.0}, torch.tensor{1.0}) --> f32 []  0.69315",
     .compose =
         [](Call& c) {
           standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
           check_reduction(c, 2);
           check_floating_argument(c, 0);
           c.out.push_back(reduce_loss(-op<"logsigmoid">(c.tensor(0) * c.tensor(1)), c.string(2)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.of({3, 4}, {1, -1, -1})});
           s.add({s.normal({3, 4}), s.of({3, 4}, {1, -1, -1}), "none"});
         }});

const Op& hinge_embedding_loss = add_op(
    {.name = "hinge_embedding_loss",
     .args = "self, target, margin: float = 1.0, reduction: string = mean",
     .doc = "self where the target is 1, max(0, margin - self) where it is -1.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "margin_ranking_loss, soft_margin_loss",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example =
         "F.hinge_embedding_loss(torch.tensor{0.5, 0.25}, torch.tensor{1, -1}) --> f32 []  0.625",
     .compose =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &t = c.tensor(1);
           check_reduction(c, 3);
           const Tensor below = op<"clamp_min">(c.number(2) - x, 0);
           const Tensor each = op<"masked_fill">(below, fn::eq(t, 1), 0) +
                               op<"masked_fill">(x + op<"zeros_like">(t), fn::eq(t, -1), 0);
           c.out.push_back(reduce_loss(each, c.string(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.of({3, 4}, {1, -1, -1})}, false);
           s.add({s.normal({3, 4}), s.integers({3, 4}, 1, 1), 0.5, "sum"});
           s.add({s.normal({3, 4}), s.integers({3, 4}, -1, -1), 0.5, "none"});
         }});

const Op& margin_ranking_loss = add_op(
    {.name = "margin_ranking_loss",
     .args = "input1, input2, target, margin: float = 0.0, reduction: string = mean",
     .doc = "max(0, -target * (input1 - input2) + margin): target 1 asks for a larger input1.",
     .where = kFunction | kFunctional,
     .amp = Amp::F32,
     .see = "hinge_embedding_loss, triplet_margin_loss",
     .rule = "[..], [..], target [..] -> [] (reduction \"none\": [..])",
     .example = "F.margin_ranking_loss(torch.tensor{1.0}, torch.tensor{3.0}, torch.tensor{1}) --> "
                "f32 []  2",
     .compose =
         [](Call& c) {
           const Tensor &a = c.tensor(0), &b = c.tensor(1), &t = c.tensor(2);
           check_reduction(c, 4);
           TYCHO_CHECK(Kind::Shape, a.rank() == b.rank() && a.rank() == t.rank(),
                       "margin_ranking_loss: all tensors need the same number of dimensions, got "
                       "shapes %s, %s and %s",
                       to_string(a.shape()).c_str(), to_string(b.shape()).c_str(),
                       to_string(t.shape()).c_str());
           c.out.push_back(
               reduce_loss(op<"clamp_min">(-t * (a - b) + c.number(3), 0), c.string(4)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5}), s.normal({5}), s.of({5}, {1, -1, -1})});
           s.add({s.normal({5}), s.normal({5}), s.of({5}, {1, -1, -1}), 0.5, "none"});
         }});

}  // namespace
}  // namespace tycho
