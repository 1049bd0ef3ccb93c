// Resizing along one dimension, forward and backward, and the weights it takes (cpu/nn/resample.cpp
// says where they come from). A thread makes one element; backward it finds the outputs that took its
// input, so every run gives the same bits.
#include "engine/cuda/kernels/resample.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

template <class L>
__device__ inline L product(const Resample& r, int64_t i, int64_t k, int64_t from) {
  const L weight = load<L>(r.weight, r.weight_dtype, i * r.taps + k);
  if (weight == L(0)) return L(0);  // fills up where there are fewer neighbours, of which none may be inf
  return weight * load<L>(r.in, r.in_dtype, from);
}

template <class L>
__device__ inline void resample(const Resample& r) {
  for (int64_t e = first_element(); e < r.numel; e += all_threads()) {
    const int64_t line = e / r.inner, j = e - line * r.inner;
    L sum = L(0);
    if (!r.back) {
      const int64_t o = line / r.outputs, i = line - o * r.outputs;
      const int64_t from = (o * r.inputs + r.first[i]) * r.inner + j;
      TYCHO_ROLLED
      for (int64_t k = 0; k < r.taps; ++k) sum += product<L>(r, i, k, from + k * r.inner);
    } else {
      const int64_t o = line / r.inputs, p = line - o * r.inputs;
      int64_t i = 0;
      for (int64_t end = r.outputs; i < end;) {  // the first output that reaches so far
        const int64_t middle = i + (end - i) / 2;
        if (r.first[middle] + r.taps > p)
          end = middle;
        else
          i = middle + 1;
      }
      TYCHO_ROLLED
      for (; i < r.outputs && r.first[i] <= p; ++i)
        sum += product<L>(r, i, p - r.first[i], (o * r.outputs + i) * r.inner + j);
    }
    if (r.out_dtype == kUInt8) sum = sum < 0 ? L(0) : sum > 255 ? L(255) : L(int(sum + L(0.5)));
    store<L>(r.out, r.out_dtype, e, sum);
  }
}

__device__ inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
__device__ inline int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

// Keys' cubic convolution with the given A.
__device__ inline double near_part(double a, double x) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
__device__ inline double cubic_weight(double t, int k) {
  constexpr double kA = -0.75;
  const double x = k == 0 ? t + 1 : k == 1 ? t : k == 2 ? 1 - t : 2 - t;
  return k == 0 || k == 3 ? ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA : near_part(kA, x);
}
__device__ inline double wide_weight(double x, bool cubic) {
  constexpr double kA = -0.5;
  x = x < 0 ? -x : x;
  if (!cubic) return x < 1 ? 1 - x : 0;
  if (x < 1) return near_part(kA, x);
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

__device__ inline void wide_taps(const ResampleTaps& t, int64_t i, double* weight) {
  const double stretch = t.scale > 1 ? t.scale : 1, support = (t.cubic ? 2 : 1) * stretch;
  const double center = t.scale * (static_cast<double>(i) + 0.5);
  const int64_t first = at_least(static_cast<int64_t>(center - support + 0.5), 0);
  const int64_t end =
      at_most(at_most(static_cast<int64_t>(center + support + 0.5), t.inputs), first + t.taps);
  const auto at = [&](int64_t p) {
    return wide_weight((static_cast<double>(p) - center + 0.5) / stretch, t.cubic);
  };
  double total = 0;
  for (int64_t p = first; p < end; ++p) total += at(p);
  const int64_t from = t.first[i] = at_most(first, t.inputs - t.taps);
  for (int64_t p = first; p < end; ++p) weight[p - from] += total != 0 ? at(p) / total : 0;
}

__device__ inline void near_taps(const ResampleTaps& t, int64_t i, double* weight) {
  double x = t.scale * static_cast<double>(i);
  if (!t.corners) {
    x = t.scale * (static_cast<double>(i) + 0.5) - 0.5;
    if (!t.cubic && x < 0) x = 0;
  }
  const double whole = floor(x), off = x - whole;
  const int64_t p = static_cast<int64_t>(whole) - (t.cubic ? 1 : 0), last = t.inputs - 1;
  const int64_t from = t.first[i] = at_least(at_most(p, t.inputs - t.taps), 0);
  for (int k = 0; k < (t.cubic ? 4 : 2); ++k) {
    const double w = t.cubic ? cubic_weight(off, k) : k == 0 ? 1 - off : off;
    weight[at_least(at_most(p + k, last), 0) - from] += w;
  }
}

}  // namespace

extern "C" __global__ void resample_f32(Resample r) { resample<float>(r); }
extern "C" __global__ void resample_f64(Resample r) { resample<double>(r); }
TYCHO_KERNEL(resample_f32)
TYCHO_KERNEL(resample_f64)

extern "C" __global__ void resample_weights(ResampleTaps t) {
  for (int64_t i = first_element(); i < t.outputs; i += all_threads()) {
    double* const weight = t.weight + i * t.taps;
    for (int64_t k = 0; k < t.taps; ++k) weight[k] = 0;
    if (t.antialias)
      wide_taps(t, i, weight);
    else
      near_taps(t, i, weight);
  }
}
TYCHO_KERNEL(resample_weights)
