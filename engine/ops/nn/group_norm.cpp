// group_norm, instance_norm and local_response_norm; like those of norm.cpp, fused both ways, and
// plain operations where the gradient itself needs a graph.
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/norms.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

using namespace norms;

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
            .shape = [](Call& c) {
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
Tensor repeat_samples(const Tensor& t, int64_t samples) {
  if (!t) return t;
  return op<"reshape">(op<"expand">(t, Sizes{samples, t.size(0)}), Sizes{samples * t.size(0)});
}

// Of few places a channel: rows of layer_norm, a lane's worth of which meet at once. Nothing then may depend on
// how often a result is rounded, so the types are those that lanes have.
bool few_places(Call& c, int64_t places) {
  constexpr int64_t kFewPlaces = 16;
  const Tensor& x = c.tensor(0);
  if (places > kFewPlaces || x.numel() == 0 ||
      (x.dtype() != DType::Float32 && x.dtype() != DType::Float64))
    return false;
  for (int i = 3; i <= 4; ++i)
    if (c.tensor(i) && c.tensor(i).dtype() != x.dtype()) return false;
  return !c.tensor(1) && !c.tensor(2);
}
Tensor norm_of_places(Call& c) {
  const Tensor& x = c.tensor(0);
  Sizes places, each{x.size(1)};
  for (int d = 2; d < x.rank(); ++d) places.push_back(x.size(d)), each.push_back(1);
  const auto of_channel = [&](int i) { return op<"reshape">(c.tensor(i), each); };
  const Tensor y = op<"layer_norm">(x, places, Tensor(), Tensor(), c.number(7));
  if (!c.tensor(3)) return c.tensor(4) ? y + of_channel(4) : y;
  if (!c.tensor(4)) return y * of_channel(3);
  return op<"addcmul">(of_channel(4), y, of_channel(3), 1.0);
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
           if (few_places(c, places)) return c.out.push_back(norm_of_places(c));
           Tensor means, variances;
           {
             NoGrad quiet;
             means = repeat_samples(c.tensor(1), n);
             variances = repeat_samples(c.tensor(2), n);
             if (means) means = op<"clone">(means);
             if (variances) variances = op<"clone">(variances);
           }
           Sizes one = x.shape();
           one[0] = 1;
           one[1] = n * channels;
           const Tensor y = ops<"batch_norm_forward">(
               op<"reshape">(x, one), repeat_samples(c.tensor(3), n),
               repeat_samples(c.tensor(4), n), means, variances, true, c.number(6), c.number(7))[0];
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
