// Dropout and its relatives, and the leaky relu with random slopes. The masks are drawn as PyTorch
// draws them: one number per element in memory order (channel dropout: one per sample and channel);
// nothing is drawn in evaluation, or for p = 0 or 1.
#include <cmath>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/half.h"

namespace tycho {
namespace {

const Op& dropout_mask =
    add_op({.name = "dropout_mask",
            .args = "self, keep: float",
            .doc = "True with probability `keep`, in the shape and layout of a tensor.",
            .where = kHidden,
            .random = true,
            .differentiable = false,
            .shape = [](Call& c) { c.out.push_back(empty_like(c.tensor(0), DType::Bool)); }});

const Op& masked_scale =
    add_op({.name = "masked_scale",
            .args = "self, mask, scale: float",
            .doc = "x * scale where the mask is true, 0 elsewhere.",
            .where = kHidden,
            .saves = "mask",
            .again = true,
            .shape = [](Call& c) { c.out.push_back(empty_like(c.tensor(0))); },
            .grad = [](Backward& b) { b.set(0, op<"masked_scale">(b.g(), b.in(1), b.number(2))); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.mask({3, 4}), 2.0});
                }});

const Op& rrelu_slopes =
    add_op({.name = "rrelu_slopes",
            .args = "self, lower: float, upper: float, training: bool",
            .doc = "1 where the tensor is positive, elsewhere a slope: drawn from [lower, upper) "
                   "in training, else the middle.",
            .where = kHidden,
            .random = true,
            .differentiable = false,
            .shape = [](Call& c) {  // drawn row by row, whatever the layout
              const Tensor& x = c.tensor(0);
              c.out.push_back(c.flag(3) ? empty(x.shape(), x.dtype(), x.device()) : empty_like(x));
            }});

// 1 / keep, rounded as a tensor of type t would round it.
double inverse(double keep, DType t) {
  if (t == DType::Float64) return 1 / keep;
  const double scale = static_cast<double>(1.0f / static_cast<float>(keep));
  if (t == DType::Float32) return scale;
  return t == DType::Float16 ? from_float16(to_float16(static_cast<float>(scale)))
                             : from_bfloat16(to_bfloat16(static_cast<float>(scale)));
}

void check_p(double p) {
  TYCHO_CHECK(Kind::Value, p >= 0 && p <= 1, "dropout: p is a probability in [0, 1], not %g", p);
}

// Where the flag at argument i asks for it, runs the same call in place; true when it has.
bool in_place(Call& c, int i) {
  if (!c.flag(i)) return false;
  Call again(*c.op);
  again.n = c.n;
  for (int k = 0; k < c.n; ++k) again.arg[k] = c.arg[k];
  again.arg[i] = Value(false);
  again.inplace = true;
  apply(again);
  c.out.push_back(again.out[0]);
  return true;
}

void refuse_whole_numbers(const Tensor& x, const char* name) {
  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()), "%s: takes floating point numbers, not %s", name,
              dtype_name(x.dtype()));
}

Tensor apply_mask(const Tensor& x, const Tensor& mask, double p) {
  return op<"masked_scale">(x, mask, inverse(1 - p, x.dtype()));
}

const Op& dropout = add_op(
    {.name = "dropout",
     .args = "self, p: float = 0.5, training: bool = true, inplace: bool = false",
     .doc = "Sets each element to 0 with probability p and scales the others by 1 / (1 - p); in "
            "evaluation the input itself.",
     .where = kFunction | kFunctional,
     .inplace = Inplace::Copy,
     .random = true,
     .see = "alpha_dropout, nn.Dropout",
     .rule = "any shape -> the same shape",
     .example = "F.dropout(torch.ones(3), 0.5, false) --> f32 [3]  1 1 1\n"
                "torch.manual_seed(0);\n"
                "F.dropout(torch.ones(6), 0.5) --> f32 [6]  0 0 2 0 0 0",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const double p = c.number(1);
           check_p(p);
           if (in_place(c, 3)) return;
           if (p == 0 || !c.flag(2) || x.numel() == 0) return c.out.push_back(x);
           refuse_whole_numbers(x, "dropout");
           if (p == 1) return c.out.push_back(x * 0.0);
           c.out.push_back(apply_mask(x, op<"dropout_mask">(x, 1 - p), p));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), 0.3}, false);
           s.add({s.normal({3, 4}), 0.3, false});
           s.add({s.normal({3, 4}), 1.0});
         }});

// One number per sample and channel, as a tensor [N, C, 1, ...] that multiplies x.
Tensor channel_shape(const Tensor& x) {
  Sizes shape{x.size(0), x.size(1)};
  while (shape.n < x.rank()) shape.push_back(1);
  return empty(shape, x.dtype(), x.device());
}
Tensor channel_noise(const Tensor& x, double keep) {
  const Tensor like = channel_shape(x);
  return op<"masked_scale">(filled(like.shape(), 1, x.dtype(), x.device()),
                            op<"dropout_mask">(like, keep), inverse(keep, x.dtype()));
}

// Channel dropout for inputs with `spatial` dims after the channels; one without the batch
// dimension is accepted, as in PyTorch (dropout2d takes three dims for a batch of sequences).
void channel_dropout(Call& c, int spatial) {
  const Tensor& x = c.tensor(0);
  const double p = c.number(1);
  check_p(p);
  const int low = spatial == 2 ? 3 : spatial + 1;
  TYCHO_CHECK(Kind::Dim, x.rank() == low || x.rank() == spatial + 2,
              "%s: the input has %d or %d dimensions, not %d", c.op->name, low, spatial + 2,
              x.rank());
  if (in_place(c, 3)) return;
  if (p == 0 || !c.flag(2) || x.numel() == 0) return c.out.push_back(x);
  refuse_whole_numbers(x, c.op->name);
  if (p == 1) return c.out.push_back(x * 0.0);
  if (x.rank() == low && spatial != 2) {
    Sizes batched = x.shape();
    batched.insert(0, 1);
    const Tensor y = op<"reshape">(x, batched);
    const Tensor noisy = y * channel_noise(y, 1 - p);
    return c.out.push_back(op<"reshape">(noisy, x.shape()));
  }
  c.out.push_back(x * channel_noise(x, 1 - p));
}

#define TYCHO_CHANNEL_DROPOUT(name_, spatial, shape, rule_, example_)                              \
  const Op& name_ = add_op(                                                                        \
      {.name = #name_,                                                                             \
       .args = "self, p: float = 0.5, training: bool = true, inplace: bool = false",               \
       .doc = "Sets whole channels to 0 with probability p and scales the others by 1 / (1 - p).", \
       .where = kFunctional,                                                                       \
       .inplace = Inplace::Copy,                                                                   \
       .random = true,                                                                             \
       .see = "dropout",                                                                           \
       .rule = rule_,                                                                              \
       .example = example_,                                                                        \
       .compose = [](Call& c) { channel_dropout(c, spatial); },                                    \
       .samples =                                                                                  \
           [](Samples& s) {                                                                        \
             s.add({s.normal(Sizes shape), 0.4}, false);                                           \
             s.add({s.normal(Sizes shape), 0.4, false});                                           \
           }})
TYCHO_CHANNEL_DROPOUT(dropout1d, 1, ({2, 3, 4}), "[N, C, L] or [C, L] -> the same shape",
                      /* .example = */
                      "F.dropout1d(torch.ones(2, 3), 0.5, false) --> f32 [2, 3]\n"
                      " 1  1  1\n"
                      " 1  1  1");
TYCHO_CHANNEL_DROPOUT(
    dropout2d, 2, ({2, 3, 4, 2}), "[N, C, H, W] or [C, H, W] -> the same shape",
    /* .example = */
    "F.dropout2d(torch.ones(1, 2, 2), 0.5, false):flatten() --> f32 [4]  view  1 1 1 1");
TYCHO_CHANNEL_DROPOUT(
    dropout3d, 3, ({2, 3, 2, 2, 2}), "[N, C, D, H, W] or [C, D, H, W] -> the same shape",
    /* .example = */
    "F.dropout3d(torch.ones(1, 1, 2, 2), 0.5, false):flatten() --> f32 [4]  view  1 1 1 1");

// Dropout that keeps mean and variance of what selu makes (Klambauer and others, 2017): dropped
// elements become selu's lower limit, then an affine map restores both.
void alpha(Call& c, bool channels) {
  const Tensor& x = c.tensor(0);
  const double p = c.number(1);
  check_p(p);
  if (in_place(c, 3)) return;
  if (p == 0 || !c.flag(2) || x.numel() == 0) return c.out.push_back(x);
  refuse_whole_numbers(x, c.op->name);
  if (p == 1) return c.out.push_back(x * 0.0);
  TYCHO_CHECK(Kind::Dim, !channels || x.rank() >= 2,
              "%s: the input has at least 2 dimensions (samples and channels), not %d", c.op->name,
              x.rank());
  constexpr double lowest = 1.7580993408473766;  // -selu(-inf)
  const double a = 1 / std::sqrt((lowest * lowest * p + 1) * (1 - p));
  const Tensor mask = op<"dropout_mask">(channels ? channel_shape(x) : x, 1 - p);
  const Tensor noise = op<"to.dtype">(mask, x.dtype());
  const Tensor shift = (noise - 1) * (lowest * a) + lowest * a * p;
  c.out.push_back(x * (noise * a) + shift);
}

const Op& alpha_dropout =
    add_op({.name = "alpha_dropout",
            .args = "self, p: float = 0.5, training: bool = false, inplace: bool = false",
            .doc = "Dropout that keeps the mean and variance of selu's results.",
            .where = kFunction | kFunctional,
            .inplace = Inplace::Copy,
            .random = true,
            .see = "dropout, selu",
            .rule = "any shape -> the same shape",
            .example = "F.alpha_dropout(torch.tensor{1.0, 2.0}, 0.5, false) --> f32 [2]  1 2",
            .compose = [](Call& c) { alpha(c, false); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), 0.4, true}, false);
                  s.add({s.normal({3, 4}), 0.4});
                }});

const Op& gumbel_softmax = add_op(
    {.name = "gumbel_softmax",
     .args = "self, tau: float = 1.0, hard: bool = false, eps: float = 1e-10, dim: dim = -1",
     .doc = "A random choice along a dimension that has a gradient (Jang et al., 2017): softmax of "
            "the scores with Gumbel noise; hard gives one-hot rows with the soft gradient.",
     .where = kFunctional,
     .random = true,
     .see = "nn.functional.softmax, multinomial",
     .rule = "any shape -> the same shape",
     .example = "F.gumbel_softmax(torch.zeros(2, 3)):ge(0):all() --> bool []  true",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::DType, is_floating(x.dtype()),
                       "gumbel_softmax: takes floating point scores, not %s",
                       dtype_name(x.dtype()));
           TYCHO_CHECK(Kind::Value, c.number(1) > 0, "gumbel_softmax: tau must be above 0, not %g",
                       c.number(1));
           const int dim = wrap_dim(c.integer(4), x.rank());
           Tensor noise;
           {
             NoGrad quiet;
             noise = empty(x.shape(), x.dtype(), x.device());
             op_<"exponential">(noise);
             noise = -fn::log(noise);
           }
           const Tensor soft = op<"softmax">((x + noise) / c.number(1), dim);
           if (!c.flag(2)) {
             c.out.push_back(soft);
             return;
           }
           Tensor step;
           {
             NoGrad quiet;
             const Tensor at = op<"argmax">(soft, dim, true);
             const Tensor ones = filled(at.shape(), 1, x.dtype(), x.device());
             step = op<"scatter">(op<"zeros_like">(soft), dim, at, ones) - soft;
           }
           c.out.push_back(step + soft);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})}, false);
         }});

const Op& feature_alpha_dropout =
    add_op({.name = "feature_alpha_dropout",
            .args = "self, p: float = 0.5, training: bool = false, inplace: bool = false",
            .doc = "alpha_dropout of whole channels.",
            .where = kFunction | kFunctional,
            .inplace = Inplace::Copy,
            .random = true,
            .see = "alpha_dropout",
            .rule = "any shape -> the same shape",
            .example = "F.feature_alpha_dropout(torch.ones(1, 2), 0.5, false) --> f32 [1, 2]\n"
                       " 1  1",
            .compose = [](Call& c) { alpha(c, true); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 4}), 0.4, true}, false);
                  s.add({s.normal({2, 3, 4}), 0.4});
                }});

const Op& rrelu = add_op(
    {.name = "rrelu",
     .args = "self, lower: float = 0.125, upper: float = 0.333333333333333333, training: bool = "
             "false, inplace: bool = false",
     .doc = "Negative elements times a slope: random in [lower, upper) in training, else the "
            "middle.",
     .where = kFunction | kFunctional,
     .inplace = Inplace::Copy,
     .random = true,
     .see = "leaky_relu",
     .rule = "any shape -> the same shape",
     .example = "F.rrelu(torch.tensor{2.0, 0.0}) --> f32 [2]  2 0",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const double lower = c.number(1), upper = c.number(2);
           TYCHO_CHECK(Kind::Value, lower <= upper,
                       "rrelu: lower = %g must not be larger than upper = %g", lower, upper);
           if (in_place(c, 4)) return;
           refuse_whole_numbers(x, "rrelu");
           c.out.push_back(op<"rrelu_slopes">(x, lower, upper, c.flag(3)) * x);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})});
           s.add({s.normal({3, 4}), 0.1, 0.5, true}, false);
         }});

}  // namespace
}  // namespace tycho
