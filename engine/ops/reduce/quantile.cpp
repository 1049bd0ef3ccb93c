// Quantiles: the elements sorted along a dimension, and between two of them a straight line.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

constexpr std::string_view kBetween[] = {"linear", "lower", "higher", "nearest", "midpoint"};

// Of each line and each q: the 1-based positions below and above the wanted rank, how far between
// them it lies, and the ranks per unit of q.
const Op& quantile_ranks =
    add_op({.name = "quantile_ranks",
            .args = "sorted, numbers, q, interpolation: string, skip_nan: bool",
            .doc = "Where quantiles lie in sorted lines, of which `numbers` elements are not nan.",
            .where = kHidden,
            .differentiable = false,
            .shape =
                [](Call& c) {
                  const Tensor& sorted = c.tensor(0);
                  Sizes shape = sorted.shape();
                  shape[shape.n - 1] = c.tensor(2).numel();
                  for (DType t : {DType::Int64, DType::Int64, sorted.dtype(), sorted.dtype()})
                    c.out.push_back(empty(shape, t, sorted.device()));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({2, 3}, {1, 2, 5, 0, 1, 4}), s.of({2}, {3, 3}, DType::Int64),
                         s.of({2}, {0.1, 0.8}), "linear", false});
                }});

// Arguments after q: dim, keepdim, interpolation.
Tensor quantile(const Call& c, const Tensor& q, bool skip_nan) {
  const char* name = skip_nan ? "nanquantile" : "quantile";
  Tensor x = c.tensor(0);
  if (x.dtype() != DType::Float32 && x.dtype() != DType::Float64)
    fail(Kind::DType, format("%s: takes float32 or float64, not %s", name, dtype_name(x.dtype())),
         "x:float()");
  TYCHO_CHECK(Kind::Value, x.numel() > 0, "%s: an empty tensor has no quantiles", name);
  TYCHO_CHECK(Kind::Shape, q.rank() < 2, "%s: q must be a number or have one dimension, not %s",
              name, to_string(q.shape()).c_str());
  const std::string_view between = c.string(4);
  bool known = false;
  for (std::string_view b : kBetween) known = known || between == b;
  TYCHO_CHECK(
      Kind::Value, known,
      "%s: interpolation is \"linear\", \"lower\", \"higher\", \"nearest\" or \"midpoint\", "
      "not \"%s\"",
      name, c.string(4));

  Sizes kept = x.shape();
  int d = 0;
  if (c.has(2)) {
    d = wrap_dim(c.integer(2), x.rank());
    if (kept.n) kept[d] = 1;
  } else {
    for (int64_t& size : kept) size = 1;
    x = op<"reshape">(x, Sizes{-1});
  }
  if (x.rank() == 0) x = op<"reshape">(x, Sizes{1});
  const Tensor sorted = ops<"sort">(op<"transpose">(x, d, -1))[0];
  const auto ranks = ops<"quantile_ranks">(sorted, op<"count_numbers">(sorted, Sizes{-1}), q,
                                           c.string(4), skip_nan);
  const Tensor low = op<"gather">(sorted, -1, ranks[0]), high = op<"gather">(sorted, -1, ranks[1]);
  Tensor weight = ranks[2];
  if (q.requires_grad()) weight = weight + (q - alias(q)) * ranks[3];      // adds 0 and a gradient
  const Tensor y = op<"transpose">(op<"lerp">(low, high, weight), d, -1);  // q along dim d
  Sizes shape = kept;
  if (!c.flag(3)) {
    if (c.has(2) && kept.n)
      shape.erase(d);
    else
      shape = {};
  }
  if (q.rank() == 0) return op<"reshape">(y, shape);
  shape.insert(0, q.numel());
  return op<"reshape">(op<"transpose">(op<"unsqueeze">(y, 0), 0, d + 1), shape);
}

template <bool SkipNan>
void of_number(Call& c) {
  c.out.push_back(quantile(c, number_tensor(c.number(1)), SkipNan));
}
template <bool SkipNan>
void of_tensor(Call& c) {
  c.out.push_back(quantile(c, c.tensor(1), SkipNan));
}

constexpr const char* kQuantileArgs =
    "self, q: number, dim: dim?, keepdim: bool = false, interpolation: string = linear";
constexpr const char* kTensorArgs =
    "self, q, dim: dim?, keepdim: bool = false, interpolation: string = linear";

void number_samples(Samples& s) {
  s.add({s.normal({9}), 0.3});
  s.add({s.normal({3, 5}), 0.6, 1, true});
  s.add({s.normal({3, 5}), 0.4, 0, false, "midpoint"});
}
void tensor_samples(Samples& s) {
  const auto q = [&] { return s.of({3}, {0.1, 0.5, 0.8}); };
  s.add({s.normal({9}), q()}, false);
  s.add({s.normal({3, 5}), q(), 0, true, "nearest"}, false);
}

const Op& quantile_number =
    add_op({.name = "quantile",
            .args = kQuantileArgs,
            .doc = "The value below which a fraction q of the elements lies, overall or along a "
                   "dimension.",
            .amp = Amp::F32,
            .see = "nanquantile, median, kthvalue",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..]",
            .example = "torch.tensor{1.0, 2.0, 4.0}:quantile(0.75) --> f32 []  3",
            .compose = of_number<false>,
            .samples = number_samples});
const Op& quantile_tensor =
    add_op({.name = "quantile.tensor",
            .args = kTensorArgs,
            .doc = "Several quantiles at once, along a new first dimension.",
            .amp = Amp::F32,
            .see = "nanquantile, median",
            .rule = "any shape, q [k] -> [k]; with dim [.., n, ..] -> [k, .., ..]",
            .example = "torch.tensor{1.0, 2.0, 4.0}:quantile(torch.tensor{0.0, 0.5, 1.0}) --> f32 "
                       "[3]  view  1 2 4",
            .compose = of_tensor<false>,
            .samples = tensor_samples});
const Op& nanquantile_number =
    add_op({.name = "nanquantile",
            .args = kQuantileArgs,
            .doc = "The quantile of the elements that are not nan.",
            .amp = Amp::F32,
            .see = "quantile, nanmedian",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..]",
            .example = "torch.tensor{1.0, 0/0, 3.0}:nanquantile(0.5) --> f32 []  2",
            .compose = of_number<true>,
            .samples = number_samples});
const Op& nanquantile_tensor = add_op(
    {.name = "nanquantile.tensor",
     .args = kTensorArgs,
     .doc = "Several quantiles of the elements that are not nan, along a new first dimension.",
     .amp = Amp::F32,
     .see = "quantile, nanmedian",
     .rule = "any shape, q [k] -> [k]; with dim [.., n, ..] -> [k, .., ..]",
     .example =
         "torch.tensor{1.0, 0/0, 3.0}:nanquantile(torch.tensor{0.0, 1.0}) --> f32 [2]  view  1 3",
     .compose = of_tensor<true>,
     .samples = tensor_samples});

}  // namespace
}  // namespace tycho
