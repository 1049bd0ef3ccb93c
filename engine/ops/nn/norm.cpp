// Normalisations. Each is a fused kernel that also keeps its statistics, and a fused backward;
// where the gradient itself needs a graph, the backward pass is composed of plain operations
// instead.

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

DType wide(DType t) { return t == DType::Float64 ? t : DType::Float32; }

void check_floating(const Tensor& x, const char* name) {
  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()), "%s: takes floating point numbers, not %s", name,
              dtype_name(x.dtype()));
}

void check_samples(const Tensor& x, const char* name) {
  check_floating(x, name);
  TYCHO_CHECK(Kind::Dim, x.rank() >= 2,
              "%s: the input has at least 2 dimensions (samples and channels), not %d", name,
              x.rank());
}

// A forward pass: y, and the mean and 1 / deviation of what is normalised. A backward pass: the
// gradients of input, weight and bias. The two are kept in the type that is computed in.
void result_and_two(Call& c, const Tensor& result, const Sizes& each) {
  c.out.push_back(result);
  for (int i = 0; i < 2; ++i) c.out.push_back(empty(each, wide(result.dtype()), result.device()));
}

// --- Gradients in plain operations ---

// y = (x - mean) * rstd * w + b with statistics over the dims `dims` of x seen in a shape where w
// is [.., 1, ..]: the gradients of x, w and b.
struct Plain {
  Sizes shape, weight, dims;  // of the view
  double eps;
  bool centred;
  Tensor x, w, b;

  Plain(const Tensor& self, const Tensor& g, const Tensor& gain, const Sizes& shape_,
        const Sizes& weight_, const Sizes& dims_, double eps_, bool centred_, const Sizes& w_shape)
      : shape(shape_), weight(weight_), dims(dims_), eps(eps_), centred(centred_) {
    const Tensor v = op<"reshape">(self, shape), gv = op<"reshape">(g, shape);
    double n = 1;
    for (int64_t d : dims) n *= static_cast<double>(shape[static_cast<int>(d)]);
    const auto mean = [&](const Tensor& t) { return op<"sum">(t, dims, true) / n; };
    const Tensor middle = centred ? v - mean(v) : v;
    const Tensor rstd = fn::pow(mean(middle * middle) + eps, -0.5);
    const Tensor unit = middle * rstd;
    const Tensor h = gain ? gv * op<"reshape">(gain, weight) : gv;
    const Tensor inner = h - unit * mean(h * unit);
    x = op<"reshape">(rstd * (centred ? inner - mean(h) : inner), self.shape());
    w = op<"reshape">(op<"sum_to_size">(gv * unit, weight), w_shape);
    b = op<"reshape">(op<"sum_to_size">(gv, weight), w_shape);
  }
};

void set(Backward& b, const Plain& p, int weight, int bias) {
  if (b.needs(0)) b.set(0, p.x);
  if (b.needs(weight)) b.set(weight, p.w);
  if (bias >= 0 && b.needs(bias)) b.set(bias, p.b);
}
void set(Backward& b, const SmallVec<Tensor, 2>& grads, int weight, int bias) {
  if (b.needs(0)) b.set(0, grads[0]);
  if (b.needs(weight)) b.set(weight, grads[1]);
  if (bias >= 0 && b.needs(bias)) b.set(bias, grads[2]);
}

Tensor constant(const Tensor& t) {  // a saved result, without its graph
  NoGrad quiet;
  return op<"clone">(t);
}

// --- batch_norm ---

Tensor product_of(const Tensor& x) {  // [1, C, 1]: the shape of weights against [N, C, S]
  return op<"reshape">(x, Sizes{1, x.numel(), 1});
}

void check_channels(const Tensor& t, const char* op_name, const char* name, int64_t channels) {
  if (!t) return;
  TYCHO_CHECK(Kind::Shape, t.rank() == 1 && t.size(0) == channels,
              "%s: %s needs one number for each of the %lld channels, got shape %s", op_name, name,
              static_cast<long long>(channels), to_string(t.shape()).c_str());
  check_floating(t, op_name);
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
            .shape =
                [](Call& c) {
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
     .shape =
         [](Call& c) {
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

// --- group_norm and instance_norm ---

const Op& group_norm_forward = add_op(
    {.name = "group_norm_forward",
     .args = "self, num_groups: int, weight: tensor?, bias: tensor?, eps: float",
     .doc = "group_norm, and the mean and 1 / deviation of every sample's groups.",
     .where = kHidden,
     .saves = "self, weight, out2, out3",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const Sizes per{x.size(0), c.integer(1)};
           result_and_two(c, empty_like(x), per);
         },
     .grad =
         [](Backward& b) {
           if (!mode.grad)
             return set(b,
                        ops<"group_norm_backward">(b.g(), b.in(0), b.integer(1), b.in(2), b.out(1),
                                                   b.out(2)),
                        2, 3);
           const Tensor x = b.in(0);
           const int64_t n = x.size(0), groups = b.integer(1), inside = x.size(1) / groups;
           const int64_t places = x.numel() / std::max<int64_t>(1, n * x.size(1));
           set(b,
               Plain(x, b.g(), b.in(2), Sizes{n, groups, inside, places},
                     Sizes{1, groups, inside, 1}, Sizes{2, 3}, b.number(4), true, Sizes{x.size(1)}),
               2, 3);
         }});

const Op& group_norm_backward =
    add_op({.name = "group_norm_backward",
            .args = "grad, self, num_groups: int, weight: tensor?, mean, rstd",
            .doc = "The gradients of group_norm's input, weight and bias.",
            .where = kHidden,
            .differentiable = false,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(1);
                  result_and_two(c, empty_like(x), {x.size(1)});
                }});

const Op& group_norm = add_op(
    {.name = "group_norm",
     .args = "self, num_groups: int, weight: tensor?, bias: tensor?, eps: float = 1e-5",
     .doc = "Brings groups of channels (dimension 2) of every sample to mean 0 and variance 1.",
     .where = kFunction | kFunctional,
     .amp = Amp::F32Cuda,
     .see = "batch_norm, layer_norm",
     .rule = "[N, C, ..] -> [N, C, ..]; weight and bias [C]",
     .example = "F.group_norm(torch.tensor{{1.0, 3.0, 10.0, 30.0}}, 2) --> f32 [1, 4]\n"
                " -1  1  -1  1",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           check_samples(x, "group_norm");
           const int64_t groups = c.integer(1);
           TYCHO_CHECK(Kind::Value, groups > 0,
                       "group_norm: num_groups must be 1 or more, not %lld",
                       static_cast<long long>(groups));
           TYCHO_CHECK(Kind::Shape, x.size(1) % groups == 0,
                       "group_norm: %lld channels (shape %s) do not divide into %lld groups",
                       static_cast<long long>(x.size(1)), to_string(x.shape()).c_str(),
                       static_cast<long long>(groups));
           for (int d = 1; d < x.rank(); ++d)
             TYCHO_CHECK(Kind::Value, x.size(d) > 0,
                         "group_norm: a group of shape %s has no elements",
                         to_string(x.shape()).c_str());
           check_channels(c.tensor(2), "group_norm", "weight", x.size(1));
           check_channels(c.tensor(3), "group_norm", "bias", x.size(1));
           c.out.push_back(
               ops<"group_norm_forward">(x, groups, c.tensor(2), c.tensor(3), c.number(4))[0]);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 6, 3}), 3, s.normal({6}), s.normal({6})});
           s.add({s.normal({2, 4}), 2});
           s.add({s.normal({1, 4, 2, 2}), 1, s.normal({4})});
         }});

// Every sample's channels as channels of one sample: batch_norm then is instance_norm.
Tensor repeated(const Tensor& t, int64_t samples) {
  if (!t) return t;
  return op<"reshape">(op<"expand">(t, Sizes{samples, t.size(0)}), Sizes{samples * t.size(0)});
}

const Op& instance_norm = add_op(
    {.name = "instance_norm",
     .args = "self, running_mean: tensor?, running_var: tensor?, weight: tensor?, bias: tensor?, "
             "use_input_stats: bool = true, momentum: float = 0.1, eps: float = 1e-5",
     .doc = "Brings every channel of every sample to mean 0 and variance 1.",
     .where = kFunctional,
     .see = "batch_norm, group_norm",
     .rule = "[N, C, ..] -> [N, C, ..]",
     .example = "F.instance_norm(torch.tensor{{{1.0, 3.0}, {10.0, 30.0}}}):flatten() --> f32 [4]  "
                "view  -1 1 -1 1",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           check_samples(x, "instance_norm");
           const int64_t n = x.size(0), channels = x.size(1);
           int64_t places = 1;
           for (int d = 2; d < x.rank(); ++d) places *= x.size(d);
           if (c.flag(5) && places == 1)
             fail(Kind::Shape,
                  format("instance_norm: needs at least 2 values per channel, the input has shape "
                         "%s",
                         to_string(x.shape()).c_str()));
           for (int i = 1; i <= 4; ++i)
             check_channels(c.tensor(i), "instance_norm", c.op->params[i].name.c_str(), channels);
           const bool stats = c.flag(5);
           TYCHO_CHECK(Kind::Argument, stats || (c.tensor(1) && c.tensor(2)),
                       "instance_norm: without use_input_stats it needs running_mean and "
                       "running_var");
           if (!stats)
             return c.out.push_back(op<"batch_norm">(x, c.tensor(1), c.tensor(2), c.tensor(3),
                                                     c.tensor(4), false, c.number(6), c.number(7)));
           Tensor means, variances;
           {
             NoGrad quiet;
             means = repeated(c.tensor(1), n);
             variances = repeated(c.tensor(2), n);
             if (means) means = op<"clone">(means);
             if (variances) variances = op<"clone">(variances);
           }
           Sizes one = x.shape();
           one[0] = 1;
           one[1] = n * channels;
           const Tensor y = ops<"batch_norm_forward">(
               op<"reshape">(x, one), repeated(c.tensor(3), n), repeated(c.tensor(4), n), means,
               variances, true, c.number(6), c.number(7))[0];
           c.out.push_back(op<"reshape">(y, x.shape()));
           if (n == 0) return;
           NoGrad quiet;
           for (int i = 1; i <= 2; ++i)
             if (c.tensor(i)) {
               const Tensor& many = i == 1 ? means : variances;
               const Tensor sum = op<"sum">(op<"reshape">(many, Sizes{n, channels}), Sizes{0});
               op_<"copy">(c.tensor(i), sum / static_cast<double>(n));
             }
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), nullptr, nullptr, s.normal({3}), s.normal({3})});
           s.add({s.normal({2, 2, 2, 3})});
           s.add({s.normal({2, 3, 4}), s.normal({3}), s.uniform({3}, 0.5, 2), nullptr, nullptr,
                  false});
         }});

// --- local_response_norm ---

const Op& window_sum = add_op(
    {.name = "window_sum",
     .args = "self, before: int, after: int",
     .doc =
         "Each channel (dimension 2) summed with `before` channels before and `after` behind it.",
     .where = kHidden,
     .shape = [](Call& c) { c.out.push_back(empty_like(c.tensor(0))); },
     .grad = [](Backward& b) { b.set(0, op<"window_sum">(b.g(), b.integer(2), b.integer(1))); }});

const Op& local_response_norm =
    add_op({.name = "local_response_norm",
            .args = "self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0",
            .doc = "Divides by (k + alpha * mean square of `size` neighbouring channels) ^ beta.",
            .where = kFunctional,
            .see = "group_norm, batch_norm",
            .rule = "[N, C, ..] -> the same shape",
            .example = "F.local_response_norm(torch.ones(1, 3, 1), 3):flatten() --> f32 [3]  view  "
                       " 0.99995  0.999925  0.99995",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, x.rank() >= 3,
                              "local_response_norm: the input has at least 3 dimensions, not %d",
                              x.rank());
                  if (x.numel() == 0) {
                    c.out.push_back(op<"clone">(x));
                    return;
                  }
                  const int64_t size = c.integer(1);
                  TYCHO_CHECK(Kind::Value, size >= 1,
                              "local_response_norm: size must be 1 or more, not %lld",
                              static_cast<long long>(size));
                  const Tensor sums = op<"window_sum">(x * x, size / 2, (size - 1) / 2);
                  // Integers have an integer mean, as in PyTorch.
                  const Tensor base =
                      is_floating(x.dtype())
                          ? sums * (c.number(2) / static_cast<double>(size)) + c.number(4)
                          : op<"floor_divide">(sums, size) * c.number(2) + c.number(4);
                  c.out.push_back(x / fn::pow(base, c.number(3)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 4, 3}), 3, 0.5});
                  s.add({s.normal({1, 5, 2, 2}), 2, 0.1, 0.5, 2.0});
                }});

}  // namespace
}  // namespace tycho
