// batch_norm, layer_norm and rms_norm. Each is a fused kernel that also keeps its statistics, and a
// fused backward; where the gradient itself needs a graph, the backward pass is composed of plain
// operations instead.
#include "engine/grad/record.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/norms.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/defer.h"

namespace tycho {
namespace {

using namespace norms;

// --- batch_norm ---

Tensor product_of(const Tensor& x) {  // [1, C, 1]: the shape of weights against [N, C, S]
  return op<"reshape">(x, Sizes{1, x.numel(), 1});
}

void batch_norm_grad(Backward& b) {
  const bool training = b.flag(5);
  if (!mode.grad && b.g().numel() > 0)
    return set(b, ops<"batch_norm_backward">(b.g(), b.in(0), b.in(1), b.out(1), b.out(2), training),
               1, 2);
  const Tensor x = b.in(0), w = b.in(1), g = b.g();
  const int64_t channels = x.size(1),
                places = x.numel() / std::max<int64_t>(1, x.size(0) * channels);
  const Sizes shape{x.size(0), channels, places}, weight{1, channels, 1}, per{channels};
  if (training)
    return set(b, Plain(x, g, w, shape, weight, Sizes{0, 2}, b.number(7), true, per), 1, 2);
  const Tensor mean = product_of(constant(b.out(1))), rstd = product_of(constant(b.out(2)));
  const Tensor gv = op<"reshape">(g, shape);
  if (b.needs(0)) b.set(0, op<"reshape">(gv * (w ? product_of(w) * rstd : rstd), x.shape()));
  if (b.needs(1)) {
    const Tensor unit = (op<"reshape">(x, shape) - mean) * rstd;
    b.set(1, op<"reshape">(op<"sum">(gv * unit, Sizes{0, 2}, false), per));
  }
  if (b.needs(2)) b.set(2, op<"reshape">(op<"sum">(gv, Sizes{0, 2}, false), per));
}

const Op& batch_norm_forward = add_op(
    {.name = "batch_norm_forward",
     .args = "self, weight: tensor?, bias: tensor?, running_mean: tensor?, running_var: tensor?, "
             "training: bool, momentum: float, eps: float",
     .doc = "Batch norm, and the mean and 1 / deviation of every channel.",
     .where = kHidden,
     .saves = "self, weight, out2, out3",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const Sizes per{x.size(1)};
           result_and_two(c, empty_like(x), per);
         },
     .grad = batch_norm_grad});

const Op& batch_norm_backward =
    add_op({.name = "batch_norm_backward",
            .args = "grad, self, weight: tensor?, mean, rstd, training: bool",
            .doc = "The gradients of batch norm's input, weight and bias.",
            .where = kHidden,
            .differentiable = false,
            .shape = [](Call& c) {
              const Tensor& x = c.tensor(1);
              result_and_two(c, empty_like(x), {x.size(1)});
            }});

// Evaluation in plain operations, where the running statistics themselves want a gradient.
Tensor plain_evaluation(const Call& c) {
  const Tensor& x = c.tensor(0);
  Sizes along{1, x.size(1)};
  while (along.n < x.rank()) along.push_back(1);
  const auto wide = [&](const Tensor& t) { return op<"reshape">(t, along); };
  Tensor y = (x - wide(c.tensor(1))) * fn::pow(wide(c.tensor(2)) + c.number(7), -0.5);
  if (c.tensor(3)) y = y * wide(c.tensor(3));
  return c.tensor(4) ? y + wide(c.tensor(4)) : y;
}

// Evaluation without a graph may be a row like others, which runs together with what follows: the
// activation, what is added. Its bits are those of the kernel, which takes less time by itself: of what
// a cache holds, also with the rows that follow it (Zen 4: 0.8 MB and relu_ 29 us by the kernel and 38
// as rows, 6 MB 0.21 ms and 0.28; 26 MB with a sum and relu_ 4.4 ms and 3.5).
bool evaluated_by_row(const Call& c) {
  constexpr int64_t kFarBytes = int64_t{16} << 20;  // or all that may be held: TYCHO_FUSE=1
  const Tensor& x = c.tensor(0);
  const int64_t numel = x.numel();
  if (!x.device().is_cpu() || (numel * dtype_size(x.dtype()) < kFarBytes && deferred_from > 1) ||
      !may_be_deferred(numel, x.device()) || !deferral->takes(x.dtype(), x.dtype(), x.get()) ||
      has_batches(c))
    return false;
  if (!mode.grad) return true;
  for (int i = 0; i < 5; ++i)
    if (c.tensor(i) && grad::requires_grad(c.tensor(i).get())) return false;
  return true;
}
Tensor row_of_evaluation(const Call& c) {
  const Tensor &x = c.tensor(0), &weight = c.tensor(3), &bias = c.tensor(4);
  const DType type = x.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  Sizes along{1, x.size(1)};
  while (along.n < x.rank()) along.push_back(1);
  const auto wide = [&](const Tensor& t) { return op<"reshape">(t, along); };
  const auto as = [](const Tensor& t, DType to) {
    return t.dtype() == to ? t : op<"to.dtype">(t, to);
  };
  Tensor scale = as(1 / fn::sqrt(as(c.tensor(2), DType::Float64) + c.number(7)), type);
  if (weight) scale = as(weight, type) * scale;
  return fn::normalised(x, wide(c.tensor(1)), wide(scale), bias ? Operand(wide(bias)) : 0.0);
}

const Op& batch_norm = add_op(
    {.name = "batch_norm",
     .args = "self, running_mean: tensor?, running_var: tensor?, weight: tensor?, bias: "
             "tensor?, training: bool = false, momentum: float = 0.1, eps: float = 1e-5",
     .doc =
         "Brings every channel (dimension 2) to mean 0 and variance 1, by the batch's statistics "
         "in training (the running ones are updated), else by the running ones.",
     .where = kFunctional,
     .see = "layer_norm, group_norm, instance_norm",
     .rule = "[N, C, ..] -> [N, C, ..]; statistics, weight and bias [C]",
     .example =
         "F.batch_norm(torch.tensor{{1.0, 10.0}, {3.0, 30.0}}, {training=true}) --> f32 [2, 2]\n"
         " -1  -1\n"
         "  1   1",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           check_samples(x, "batch_norm");
           const int64_t channels = x.size(1);
           check_channels(c.tensor(1), "batch_norm", "running_mean", channels);
           check_channels(c.tensor(2), "batch_norm", "running_var", channels);
           check_channels(c.tensor(3), "batch_norm", "weight", channels);
           check_channels(c.tensor(4), "batch_norm", "bias", channels);
           const bool training = c.flag(5);
           int64_t each = 1;
           for (int d = 0; d < x.rank(); ++d)
             if (d != 1) each *= x.size(d);
           if (training && each == 1)
             fail(Kind::Shape,
                  format("batch_norm: training needs at least 2 values per channel, this batch has "
                         "1 sample of shape %s",
                         to_string(x.shape()).c_str()),
                  "model:eval()  -- or leave out a last batch of 1: DataLoader{drop_last=true}");
           TYCHO_CHECK(Kind::Argument, training || (c.tensor(1) && c.tensor(2)),
                       "batch_norm: evaluation needs running_mean and running_var");
           for (int i = 1; i <= 2; ++i)
             TYCHO_CHECK(
                 Kind::Autograd,
                 !training || !mode.grad || !c.tensor(i) || !c.tensor(i)->requires_grad,
                 "batch_norm: the running statistics are updated in place, so they must not "
                 "require grad");
           if (!training && mode.grad && (c.tensor(1)->requires_grad || c.tensor(2)->requires_grad))
             return c.out.push_back(plain_evaluation(c));
           if (!training && evaluated_by_row(c)) return c.out.push_back(row_of_evaluation(c));
           c.out.push_back(ops<"batch_norm_forward">(x, c.tensor(3), c.tensor(4), c.tensor(1),
                                                     c.tensor(2), training, c.number(6),
                                                     c.number(7))[0]);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), nullptr, nullptr, s.normal({3}), s.normal({3}), true});
           s.add({s.normal({2, 3, 4}), nullptr, nullptr, s.normal({3}), nullptr, true});
           s.add({s.normal({2, 3, 2, 3}), s.normal({3}), s.uniform({3}, 0.5, 2), s.normal({3}),
                  s.normal({3}), false});
           s.add({s.normal({5, 2}), s.normal({2}), s.uniform({2}, 0.5, 2)});
         }});

// --- layer_norm and rms_norm: one kernel, with and without the mean ---

void row_norm_grad(Backward& b) {
  const bool centred = b.flag(5);
  const Sizes normalized = b.ints(1);
  if (!mode.grad)
    return set(
        b,
        ops<"row_norm_backward">(b.g(), b.in(0), normalized, b.in(2), b.out(1), b.out(2), centred),
        2, 3);
  const Tensor x = b.in(0);
  const int64_t n = product(normalized), rows = n ? x.numel() / n : 0;
  set(b,
      Plain(x, b.g(), b.in(2), Sizes{rows, n}, Sizes{1, n}, Sizes{1}, b.number(4), centred,
            normalized),
      2, 3);
}

const Op& row_norm = add_op(
    {.name = "row_norm",
     .args = "self, normalized_shape: ints, weight: tensor?, bias: tensor?, eps: float, centred: "
             "bool",
     .doc = "layer_norm (centred) or rms_norm, and each row's mean and 1 / deviation.",
     .where = kHidden,
     .saves = "self, weight, out2, out3",
     .again = true,
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           Sizes rows;
           for (int d = 0; d < x.rank() - c.count(1); ++d) rows.push_back(x.size(d));
           result_and_two(c, empty(x.shape(), x.dtype(), x.device()), rows);
         },
     .grad = row_norm_grad});

const Op& row_norm_backward = add_op(
    {.name = "row_norm_backward",
     .args = "grad, self, normalized_shape: ints, weight: tensor?, mean, rstd, centred: bool",
     .doc = "The gradients of row_norm's input, weight and bias.",
     .where = kHidden,
     .differentiable = false,
     .shape = [](Call& c) {
       const Tensor& x = c.tensor(1);
       result_and_two(c, empty(x.shape(), x.dtype(), x.device()), c.ints(2));
     }});

void check_rows(const Call& c, const char* name) {
  const Tensor& x = c.tensor(0);
  check_floating(x, name);
  const Sizes shape = c.ints(1);
  TYCHO_CHECK(Kind::Shape, shape.n >= 1, "%s: normalized_shape names at least one dimension", name);
  bool fits = x.rank() >= shape.n;
  for (int d = 0; fits && d < shape.n; ++d) fits = x.size(x.rank() - shape.n + d) == shape[d];
  TYCHO_CHECK(Kind::Shape, fits, "%s: the input's shape %s does not end in normalized_shape %s",
              name, to_string(x.shape()).c_str(), to_string(shape).c_str());
  for (int i = 2; i <= 3; ++i) {
    const Tensor& t = c.tensor(i);
    if (!t) continue;
    check_floating(t, name);
    TYCHO_CHECK(Kind::Shape, t.shape() == shape, "%s: %s has shape %s, normalized_shape is %s",
                name, i == 2 ? "weight" : "bias", to_string(t.shape()).c_str(),
                to_string(shape).c_str());
  }
}

const Op& layer_norm = add_op(
    {.name = "layer_norm",
     .args = "self, normalized_shape: ints, weight: tensor?, bias: tensor?, eps: float = 1e-5",
     .doc = "Brings every sample's last dimensions to mean 0 and variance 1.",
     .where = kFunction | kFunctional,
     .amp = Amp::F32Cuda,
     .see = "rms_norm, batch_norm",
     .rule = "[.., sizes of normalized_shape] -> the same shape",
     .example = "F.layer_norm(torch.tensor{{1.0, 3.0}, {10.0, 30.0}}, {2}) --> f32 [2, 2]\n"
                " -1  1\n"
                " -1  1",
     .compose =
         [](Call& c) {
           check_rows(c, "layer_norm");
           c.out.push_back(ops<"row_norm">(c.tensor(0), c.ints(1), c.tensor(2), c.tensor(3),
                                           c.number(4), true)[0]);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.ints({4}), s.normal({4}), s.normal({4})});
           s.add({s.normal({2, 3, 4}), s.ints({3, 4})});
           s.add({s.normal({2, 5}), s.ints({5}), s.normal({5})});
         }});

const Op& rms_norm =
    add_op({.name = "rms_norm",
            .args = "self, normalized_shape: ints, weight: tensor?, eps: float?",
            .doc = "Divides every sample's last dimensions by their root mean square.",
            .where = kFunction | kFunctional,
            .amp = Amp::F32Cuda,
            .see = "layer_norm",
            .rule = "[.., sizes of normalized_shape] -> the same shape",
            .example = "F.rms_norm(torch.tensor{3.0, 4.0}, {2}) --> f32 [2]   0.85  1.13",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  Call check(*c.op);
                  check.arg[0] = c.arg[0];
                  check.arg[1] = c.arg[1];
                  check.arg[2] = c.arg[2];
                  check_rows(check, "rms_norm");
                  // The distance from 1 to the next number of the type computed in.
                  const double standard = x.dtype() == DType::Float64 ? 0x1p-52 : 0x1p-23;
                  c.out.push_back(ops<"row_norm">(x, c.ints(1), c.tensor(2), Tensor(),
                                                  c.has(3) ? c.number(3) : standard, false)[0]);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.ints({4}), s.normal({4})});
                  s.add({s.normal({2, 3, 4}), s.ints({3, 4}), nullptr, 1e-3});
                }});

BATCH("row_norm", [](Spread& s) {
  return s.batched(2) || s.batched(3) || !s.batched(0) ? BatchResults() : by_leading(s);
});

}  // namespace
}  // namespace tycho
