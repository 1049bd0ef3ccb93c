// Pooling on a device: the windows of a call as the kernels of pool.cu read them.
#include "engine/cuda/kernels/pool.cuh"

#include <algorithm>

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

PoolTensor as_images(const Tensor& t) {
  PoolTensor p{t.data<void>(), number_of(t), {t.stride(0), t.stride(1)}};
  const int absent = 5 - t.rank();
  for (int d = 2; d < t.rank(); ++d) p.stride[d + absent] = t.stride(d);
  return p;
}

// Argument `at` holds the kernel; stride, padding and, for maxima, dilation follow.
Pooling windows(const Call& c, int at, bool dilated, const Sizes& image, const Sizes& pooled) {
  const Sizes kernel = c.ints(at), stride = c.ints(at + 1), padding = c.ints(at + 2);
  const Sizes dilation = dilated ? c.ints(at + 3) : Sizes();
  Pooling p{};
  p.batch = image[0];
  p.channels = image[1];
  const int absent = 5 - image.n;
  for (int k = 0; k < 3; ++k) {
    const int s = k - absent;
    PoolAxis& a = p.axis[k];
    a = {1, 1, 1, 1, 0, 1};
    if (s < 0) continue;
    a.in = image[s + 2];
    a.out = pooled[s + 2];
    if (dilation.n) a.dilation = dilation[s];
    if (kernel.n == 0) {
      a.stride = 0;
      a.kernel = 0;
      for (int64_t o = 0; o < a.out; ++o)
        a.kernel = std::max(a.kernel, ((o + 1) * a.in + a.out - 1) / a.out - o * a.in / a.out);
      continue;
    }
    a.stride = stride[s];
    a.kernel = kernel[s];
    a.pad = padding[s];
    for (int64_t o = 0; dilated && o < a.out; ++o) {
      const int64_t start = o * a.stride - a.pad,
                    first = start < 0 ? (-start + a.dilation - 1) / a.dilation : 0;
      TYCHO_CHECK(Kind::Shape, first < a.kernel && start + first * a.dilation < a.in,
                  "max pooling: window %lld along spatial dimension %d holds padding only",
                  static_cast<long long>(o + 1), s + 1);
    }
  }
  return p;
}

// A thread for each element of `made`.
void run(const char* const (&kernels)[3], Pooling& p, const Tensor& made) {
  if (made.numel() == 0) return;
  p.channels_last = !made.contiguous() && is_channels_last(made);
  const char* kernel = kernels[wants_double(made) ? 1 : is_floating(made.dtype()) ? 0 : 2];
  launch(made.device(), {"pool", kernel}, grid_for(made.device(), made.numel()), {256}, 0, p);
}
#define KERNELS(name) \
  { "pool_" name "_f32", "pool_" name "_f64", "pool_" name "_i64" }
constexpr const char* kLargest[] = KERNELS("largest");
constexpr const char* kLargestBack[] = KERNELS("largest_back");
constexpr const char* kChosen[] = KERNELS("chosen");
constexpr const char* kMean[] = KERNELS("mean");
constexpr const char* kMeanBack[] = KERNELS("mean_back");

void max_pool(Call& c) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  if (out.numel() == 0) return;
  Pooling p = windows(c, 3, true, x.shape(), out.shape());
  p.image = as_images(x);
  p.pooled = as_images(out);
  if (c.flag(2)) p.taps = as_images(c.out[1]);
  run(kLargest, p, out);
}

void max_pool_scatter(Call& c) {
  const Tensor &g = c.tensor(0), &taps = c.tensor(1), &out = c.out[0];
  if (out.numel() == 0) return;
  Pooling p = windows(c, 3, true, out.shape(), taps.shape());
  p.image = as_images(out);
  p.pooled = as_images(g);
  p.taps = as_images(taps);
  run(kLargestBack, p, out);
}

void max_pool_gather(Call& c) {
  const Tensor &x = c.tensor(0), &taps = c.tensor(1), &out = c.out[0];
  if (out.numel() == 0) return;
  Pooling p = windows(c, 2, true, x.shape(), taps.shape());
  p.image = as_images(x);
  p.pooled = as_images(out);
  p.taps = as_images(taps);
  run(kChosen, p, out);
}

void pool_positions(Call& c) {
  const Tensor &taps = c.tensor(0), &out = c.out[0];
  if (out.numel() == 0) return;
  Sizes image{taps.size(0), taps.size(1)};
  for (const int64_t s : c.ints(1)) image.push_back(s);
  Pooling p = windows(c, 2, true, image, taps.shape());
  p.pooled = as_images(out);
  p.taps = as_images(taps);
  run(kChosen, p, out);
}

void avg_pool(Call& c) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  if (out.numel() == 0) return;
  Sizes spatial;
  int64_t taps = 1;
  bool one = c.count(4) == 0 && is_floating(out.dtype());
  for (int d = 2; d < x.rank(); ++d) {
    spatial.push_back(d);
    taps *= x.size(d);
    one = one && out.size(d) == 1;
  }
  if (one && taps > 256) return copy_raw(out, op<"mean">(x, spatial, true));
  Pooling p = windows(c, 4, false, x.shape(), out.shape());
  p.image = as_images(x);
  p.pooled = as_images(out);
  p.divisor = c.integer(2);
  p.padded = c.flag(3);
  run(kMean, p, out);
}

void avg_pool_spread(Call& c) {
  const Tensor &g = c.tensor(0), &out = c.out[0];
  if (out.numel() == 0) return;
  Pooling p = windows(c, 4, false, out.shape(), g.shape());
  p.image = as_images(out);
  p.pooled = as_images(g);
  p.divisor = c.integer(2);
  p.padded = c.flag(3);
  run(kMeanBack, p, out);
}

BIND_KERNEL(Cuda, "max_pool", max_pool);
BIND_KERNEL(Cuda, "max_pool_scatter", max_pool_scatter);
BIND_KERNEL(Cuda, "max_pool_gather", max_pool_gather);
BIND_KERNEL(Cuda, "pool_positions", pool_positions);
BIND_KERNEL(Cuda, "avg_pool", avg_pool);
BIND_KERNEL(Cuda, "avg_pool_spread", avg_pool_spread);

}  // namespace
}  // namespace tycho::cuda
