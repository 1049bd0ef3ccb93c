// max_pool, avg_pool and their adaptive forms, in one to three dimensions: arguments checked and
// spread over the spatial dimensions, single images given a batch; pool_windows.cpp does the rest.
#include <cmath>

#include "engine/grad/record.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/spatial.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// The input with a batch: [batch, channels, spatial...], none of them empty.
Images images(const char* name, const Tensor& x, int spatial) {
  check_images(name, x, spatial);
  for (int d = x.rank() - spatial; d < x.rank(); ++d)
    TYCHO_CHECK(Kind::Shape, x.size(d) > 0, "%s: dimension %d of the input is empty: %s", name,
                d + 1, to_string(x.shape()).c_str());
  return with_batch(x, spatial);
}

// Windows that slide over the input, as a call's arguments say from `first` on: kernel_size and
// stride (the kernel's unless given), and where the op has it, padding.
struct Windows {
  Sizes kernel, stride, padding, dilation;

  Windows(const Call& c, int first, int spatial, bool padded)
      : kernel(spread(c.op->name, "kernel_size", c.ints(first), spatial, 1,
                      padded ? Kind::Shape : Kind::Value)),
        stride(c.has(first + 1) && c.count(first + 1)
                   ? spread(c.op->name, "stride", c.ints(first + 1), spatial, 1)
                   : kernel),
        padding(padded ? spread(c.op->name, "padding", c.ints(first + 2), spatial, 0, Kind::Shape)
                       : repeated(spatial, 0)),
        dilation(repeated(spatial, 1)) {}
  Windows() = default;  // of adaptive pools: as many as the result is to have
};

// Spatial sizes of the result; with `ceil`, a last window may begin inside and end beyond.
Sizes pooled_sizes(const char* name, const Tensor& x, const Windows& w, bool ceil) {
  const auto& [kernel, stride, padding, dilation] = w;
  Sizes out;
  for (int d = 0; d < kernel.n; ++d) {
    const int64_t in = x.size(d + 2), reach = dilation[d] * (kernel[d] - 1) + 1;
    TYCHO_CHECK(Kind::Shape, 2 * padding[d] <= reach,
                "%s: padding (%lld) can be at most half of the kernel (%lld), in spatial dimension "
                "%d",
                name, static_cast<long long>(padding[d]), static_cast<long long>(reach), d + 1);
    const int64_t room = in + 2 * padding[d] - reach + (ceil ? stride[d] - 1 : 0);
    int64_t n = room < 0 ? 0 : room / stride[d] + 1;
    if (ceil && (n - 1) * stride[d] >= in + padding[d]) --n;
    TYCHO_CHECK(Kind::Shape, n > 0,
                "%s: the kernel covers %lld positions, spatial dimension %d of the input has %lld "
                "with padding",
                name, static_cast<long long>(reach), d + 1,
                static_cast<long long>(in + 2 * padding[d]));
    out.push_back(n);
  }
  return out;
}

void refuse_bool(const char* name, const Tensor& x) {
  TYCHO_CHECK(Kind::DType, x.dtype() != DType::Bool, "%s: takes numbers, not bool", name);
}

void max_of(Call& c, const Images& in, const Sizes& size, const Windows& w, bool positions) {
  const auto& [kernel, stride, padding, dilation] = w;
  refuse_bool(c.op->name, in.x);
  const bool taps = positions || (mode.grad && grad::requires_grad(in.x.get()));
  auto both = ops<"max_pool">(in.x, size, taps, kernel, stride, padding, dilation);
  c.out.push_back(in.back(both[0]));
  if (!positions) return;
  const Sizes plane(in.x->shape + 2, in.x.rank() - 2);
  c.out.push_back(in.back(op<"pool_positions">(both[1], plane, kernel, stride, padding, dilation)));
}

// The sizes asked of an adaptive pool; those left out (torch.none) stay as they are.
Sizes output_sizes(const char* name, const Tensor& x, Sizes given, int spatial) {
  TYCHO_CHECK(spatial == 1 ? Kind::Argument : Kind::Shape, given.n == 1 || given.n == spatial,
              "%s: output_size takes one number or %d, not %d", name, spatial, given.n);
  Sizes out;
  for (int d = 0; d < spatial; ++d) {
    const int64_t n = given[given.n == 1 ? 0 : d];
    TYCHO_CHECK(Kind::Shape, n == kNone || (n >= 0 && n < int64_t{1} << 30),
                "%s: output_size must be at least 0, not %lld", name, static_cast<long long>(n));
    out.push_back(n == kNone ? x.size(x.rank() - spatial + d) : n);
  }
  return out;
}

template <int spatial>
void max_pool(Call& c) {
  const char* name = c.op->name;
  const Images in = images(name, c.tensor(0), spatial);
  TYCHO_CHECK(Kind::Shape, in.x.size(1) > 0, "%s: the input has no channels: %s", name,
              to_string(c.tensor(0).shape()).c_str());
  Windows w(c, 1, spatial, true);
  w.dilation = spread(name, "dilation", c.ints(4), spatial, 1);
  max_of(c, in, pooled_sizes(name, in.x, w, c.flag(5)), w, c.flag(6));
}

template <int spatial>
void adaptive_max_pool(Call& c) {
  const char* name = c.op->name;
  const Images in = images(name, c.tensor(0), spatial);
  max_of(c, in, output_sizes(name, in.x, c.ints(1), spatial), {}, c.flag(2));
}

void refuse_integers(const char* name, const Tensor& x) {
  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()) || x.dtype() == DType::Int64,
              "%s: takes floating point numbers, not %s", name, dtype_name(x.dtype()));
}

void mean_of(Call& c, const Images& in, const Sizes& size, int64_t divisor, bool padded,
             const Windows& w) {
  refuse_integers(c.op->name, in.x);
  c.out.push_back(
      in.back(op<"avg_pool">(in.x, size, divisor, padded, w.kernel, w.stride, w.padding)));
}

template <int spatial>
void avg_pool(Call& c) {
  const char* name = c.op->name;
  const Images in = images(name, c.tensor(0), spatial);
  const Windows w(c, 1, spatial, true);
  int64_t divisor = 0;
  if (spatial > 1 && c.has(6)) {
    divisor = c.integer(6);
    TYCHO_CHECK(Kind::Value, divisor != 0, "%s: divisor_override cannot be 0", name);
  }
  mean_of(c, in, pooled_sizes(name, in.x, w, c.flag(4)), divisor, c.flag(5), w);
}

template <int spatial>
void adaptive_avg_pool(Call& c) {
  const char* name = c.op->name;
  const Images in = images(name, c.tensor(0), spatial);
  mean_of(c, in, output_sizes(name, in.x, c.ints(1), spatial), 0, false, {});
}

// (sum of x^p over the window)^(1/p).
template <int spatial>
void lp_pool(Call& c) {
  const char* name = c.op->name;
  const Images in = images(name, c.tensor(0), spatial);
  const double p = c.number(1);
  TYCHO_CHECK(Kind::Value, p != 0, "%s: norm_type cannot be 0", name);
  const Windows w(c, 2, spatial, false);
  const Sizes size = pooled_sizes(name, in.x, w, c.flag(4));
  refuse_integers(name, in.x);
  if (std::isinf(p)) {  // the largest size, or the smallest
    Images sizes = in;
    sizes.x = op<"abs">(in.x);
    if (p < 0) sizes.x = op<"neg">(sizes.x);
    max_of(c, sizes, size, w, false);
    if (p < 0) c.out[0] = op<"neg">(c.out[0]);
    return;
  }
  // As PyTorch: the mean of each window, which may reach past the end, times the kernel's size.
  int64_t count = 1;
  for (int d = 0; d < spatial; ++d) count *= w.kernel[d];
  const Tensor mean =
      op<"avg_pool">(fn::pow(in.x, p), size, 0, true, w.kernel, w.stride, w.padding);
  const Tensor sums = op<"sgn">(mean) * op<"relu">(op<"abs">(mean)) * count;
  c.out.push_back(in.back(fn::pow(sums, 1 / p)));
}

const Op& add_pool(const char* name, const char* args, const char* doc, const Help& help,
                   void (*compose)(Call&), void (*samples)(Samples&)) {
  return add_spatial(name, args, doc, help, Amp::Keep, compose, samples);
}

#define POOL_ARGS(rest) "input, kernel_size: ints, stride: ints?, padding: ints = 0, " rest
constexpr const char kMaxArgs[] =
    POOL_ARGS("dilation: ints = 1, ceil_mode: bool = false, return_indices: bool = false");
constexpr const char kMaxDoc[] =
    "The largest element of each window; with return_indices also its position in the plane.";
#define AVG_ARGS POOL_ARGS("ceil_mode: bool = false, count_include_pad: bool = true")
constexpr const char kAvgArgs1[] = AVG_ARGS;
constexpr const char kAvgArgs[] = AVG_ARGS ", divisor_override: int?";
constexpr const char kAvgDoc[] = "The mean of each window.";
#define ADAPTIVE_ARGS "input, output_size: ints_or_none"
constexpr const char kAdaptiveArgs[] = ADAPTIVE_ARGS;
constexpr const char kAdaptiveMaxArgs[] = ADAPTIVE_ARGS ", return_indices: bool = false";
constexpr const char kAdaptiveMaxDoc[] =
    "The largest elements of as many windows as the result is to have.";
constexpr const char kAdaptiveAvgDoc[] = "The means of as many windows as the result is to have.";
constexpr const char kLpArgs[] =
    "input, norm_type: float, kernel_size: ints, stride: ints?, ceil_mode: bool = false";
constexpr const char kLpDoc[] = "(Sum of x^p)^(1/p) over each window.";

const Op& max_pool1d = add_pool(
    "max_pool1d", kMaxArgs, kMaxDoc,
    {.see = "avg_pool1d, adaptive_max_pool1d",
     .rule = "[.., C, L] -> [.., C, (L + 2 padding - dilation (kernel - 1) - 1) // stride + 1]",
     .example =
         "F.max_pool1d(torch.tensor{{1.0, 3.0, 7.0, 5.0}}, 2) --> f32 [1, 2]  view\n"
         " 3  7\n"
         "y, where = F.max_pool1d(torch.tensor{{1.0, 3.0, 7.0, 5.0}}, 2, {return_indices=true})\n"
         "where --> i64 [1, 2]  view\n"
         " 2  3"},
    max_pool<1>, [](Samples& s) {
      s.add({s.normal({2, 3, 8}), s.ints({3}), s.ints({2}), s.ints({1})});
      s.add({s.normal({3, 8}), s.ints({2}), nullptr, s.ints({0}), s.ints({2})});
    });
const Op& max_pool2d = add_pool(
    "max_pool2d", kMaxArgs, kMaxDoc,
    {.see = "avg_pool2d, adaptive_max_pool2d",
     .rule = "[.., C, H, W] -> [.., C, (H + 2 padding - dilation (kernel - 1) - 1) // "
             "stride + 1, the same of W]",
     .example = "F.max_pool2d(torch.arange(16.0):view(1, 4, 4), 2)[1] --> f32 [2, 2]  view\n"
                "  5   7\n"
                " 13  15"},
    max_pool<2>, [](Samples& s) {
      s.add({s.normal({2, 3, 6, 8}), s.ints({2})});
      s.add(
          {s.normal({1, 2, 7, 6}), s.ints({3, 2}), s.ints({2, 1}), s.ints({1}), s.ints({1}), true});
      s.add({s.normal({2, 9, 9}), s.ints({2}), s.ints({3}), s.ints({1}), s.ints({2, 1})});
    });
const Op& max_pool3d = add_pool(
    "max_pool3d", kMaxArgs, kMaxDoc,
    {.see = "avg_pool3d, adaptive_max_pool3d",
     .rule = "[.., C, D, H, W] -> [.., C, and each size (n + 2 padding - kernel) // stride + 1]",
     .example =
         "F.max_pool3d(torch.arange(8.0):view(1, 2, 2, 2), 2):flatten() --> f32 [1]  view  7"},
    max_pool<3>, [](Samples& s) {
      s.add({s.normal({1, 2, 4, 4, 4}), s.ints({2})});
    });
const Op& avg_pool1d = add_pool(
    "avg_pool1d", kAvgArgs1, kAvgDoc,
    {.see = "max_pool1d, adaptive_avg_pool1d",
     .rule = "[.., C, L] -> [.., C, (L + 2 padding - kernel) // stride + 1]",
     .example = "F.avg_pool1d(torch.tensor{{1.0, 3.0, 5.0, 7.0}}, 2) --> f32 [1, 2]  view\n"
                " 2  6"},
    avg_pool<1>, [](Samples& s) {
      s.add({s.normal({2, 3, 8}), s.ints({3}), s.ints({2}), s.ints({1})});
    });
const Op& avg_pool2d = add_pool(
    "avg_pool2d", kAvgArgs, kAvgDoc,
    {.see = "max_pool2d, adaptive_avg_pool2d",
     .rule = "[.., C, H, W] -> [.., C, (H + 2 padding - kernel) // stride + 1, the same of W]",
     .example = "F.avg_pool2d(torch.arange(16.0):view(1, 4, 4), 2)[1] --> f32 [2, 2]  view\n"
                "  2.5   4.5\n"
                " 10.5  12.5"},
    avg_pool<2>, [](Samples& s) {
      s.add({s.normal({2, 3, 6, 8}), s.ints({2})});
      s.add({s.normal({1, 2, 7, 6}), s.ints({3, 2}), s.ints({2, 1}), s.ints({1}), true, false});
      s.add({s.normal({2, 9, 9}), s.ints({2}), s.ints({3}), s.ints({1}), false, true, 3});
    });
const Op& avg_pool3d = add_pool(
    "avg_pool3d", kAvgArgs, kAvgDoc,
    {.see = "max_pool3d, adaptive_avg_pool3d",
     .rule = "[.., C, D, H, W] -> [.., C, and each size (n + 2 padding - kernel) // stride + 1]",
     .example =
         "F.avg_pool3d(torch.arange(8.0):view(1, 2, 2, 2), 2):flatten() --> f32 [1]  view   3.5"},
    avg_pool<3>, [](Samples& s) {
      s.add({s.normal({1, 2, 4, 4, 4}), s.ints({2})});
    });
const Op& adaptive_max_pool1d = add_pool(
    "adaptive_max_pool1d", kAdaptiveMaxArgs, kAdaptiveMaxDoc,
    {.see = "max_pool1d",
     .rule = "[.., C, L] -> [.., C, output_size]",
     .example =
         "F.adaptive_max_pool1d(torch.tensor{{1.0, 3.0, 5.0, 7.0}}, 2) --> f32 [1, 2]  view\n"
         " 3  7"},
    adaptive_max_pool<1>, [](Samples& s) {
      s.add({s.normal({2, 3, 8}), s.ints({3})});
    });
const Op& adaptive_max_pool2d = add_pool(
    "adaptive_max_pool2d", kAdaptiveMaxArgs, kAdaptiveMaxDoc,
    {.see = "max_pool2d",
     .rule = "[.., C, H, W] -> [.., C, out_h, out_w]",
     .example =
         "F.adaptive_max_pool2d(torch.arange(16.0):view(1, 4, 4), {1, 2})[1] --> f32 [1, 2]  view\n"
         " 13  15"},
    adaptive_max_pool<2>, [](Samples& s) {
      s.add({s.normal({2, 3, 7, 5}), s.ints({3, 2})});
    });
const Op& adaptive_max_pool3d =
    add_pool("adaptive_max_pool3d", kAdaptiveMaxArgs, kAdaptiveMaxDoc,
             {.see = "max_pool3d",
              .rule = "[.., C, D, H, W] -> [.., C, out_d, out_h, out_w]",
              .example = "F.adaptive_max_pool3d(torch.arange(8.0):view(1, 2, 2, 2), 1):flatten() "
                         "--> f32 [1]  view  7"},
             adaptive_max_pool<3>, [](Samples& s) {
               s.add({s.normal({1, 2, 4, 5, 3}), s.ints({2, 3, 2})});
             });
const Op& adaptive_avg_pool1d = add_pool(
    "adaptive_avg_pool1d", kAdaptiveArgs, kAdaptiveAvgDoc,
    {.see = "avg_pool1d",
     .rule = "[.., C, L] -> [.., C, output_size]",
     .example =
         "F.adaptive_avg_pool1d(torch.tensor{{1.0, 3.0, 5.0, 7.0}}, 2) --> f32 [1, 2]  view\n"
         " 2  6"},
    adaptive_avg_pool<1>, [](Samples& s) {
      s.add({s.normal({2, 3, 8}), s.ints({3})});
    });
const Op& adaptive_avg_pool2d = add_pool(
    "adaptive_avg_pool2d", kAdaptiveArgs, kAdaptiveAvgDoc,
    {.see = "avg_pool2d",
     .rule = "[.., C, H, W] -> [.., C, out_h, out_w]",
     .example =
         "F.adaptive_avg_pool2d(torch.arange(16.0):view(1, 4, 4), {1, 2})[1] --> f32 [1, 2]  view\n"
         " 6.5  8.5"},
    adaptive_avg_pool<2>, [](Samples& s) {
      s.add({s.normal({2, 3, 7, 5}), s.ints({3, 2})});
      s.add({s.normal({2, 3, 4, 4}), s.ints({1})});
    });
const Op& adaptive_avg_pool3d =
    add_pool("adaptive_avg_pool3d", kAdaptiveArgs, kAdaptiveAvgDoc,
             {.see = "avg_pool3d",
              .rule = "[.., C, D, H, W] -> [.., C, out_d, out_h, out_w]",
              .example = "F.adaptive_avg_pool3d(torch.arange(8.0):view(1, 2, 2, 2), 1):flatten() "
                         "--> f32 [1]  view   3.5"},
             adaptive_avg_pool<3>, [](Samples& s) {
               s.add({s.normal({1, 2, 4, 5, 3}), s.ints({2, 3, 2})});
             });
const Op& lp_pool1d = add_pool(
    "lp_pool1d", kLpArgs, kLpDoc,
    {.see = "avg_pool1d, max_pool1d",
     .rule = "[.., C, L] -> [.., C, (L - kernel) // stride + 1]",
     .example = "F.lp_pool1d(torch.tensor{{3.0, 4.0, 6.0, 8.0}}, 2, 2) --> f32 [1, 2]  view\n"
                " 5  10"},
    lp_pool<1>, [](Samples& s) {
      s.add({s.uniform({2, 3, 8}, 0.5, 2), 2.0, s.ints({3}), s.ints({2})});
    });
const Op& lp_pool2d =
    add_pool("lp_pool2d", kLpArgs, kLpDoc,
             {.see = "avg_pool2d, max_pool2d",
              .rule = "[.., C, H, W] -> [.., C, (H - kernel) // stride + 1, the same of W]",
              .example = "F.lp_pool2d(torch.ones(1, 2, 2), 2, 2):flatten() --> f32 [1]  view  2"},
             lp_pool<2>, [](Samples& s) {
               s.add({s.uniform({2, 3, 6, 4}, 0.5, 2), 2.0, s.ints({2})});
             });
const Op& lp_pool3d = add_pool(
    "lp_pool3d", kLpArgs, kLpDoc,
    {.see = "avg_pool3d, max_pool3d",
     .rule = "[.., C, D, H, W] -> [.., C, (D - kernel) // stride + 1, the same of H and W]",
     .example = "F.lp_pool3d(torch.ones(1, 4, 2, 2), 2, {4, 2, 1}):flatten() --> f32 [2]  view   "
                "2.83  2.83"},
    lp_pool<3>, [](Samples& s) {
      s.add({s.uniform({2, 3, 4, 5, 3}, 0.5, 2), 2.0, s.ints({2}), s.ints({1, 2, 1})});
    });

}  // namespace
}  // namespace tycho
