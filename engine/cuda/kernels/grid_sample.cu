// grid_sample where no gradient is wanted (ops/nn/grid_sample.cpp says what it computes): a thread finds
// the taps of its element and adds them up.
#include "engine/cuda/kernels/grid_sample.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

__device__ inline float floor_of(float x) { return floorf(x); }
__device__ inline double floor_of(double x) { return floor(x); }
__device__ inline float nearest(float x) { return rintf(x); }
__device__ inline double nearest(double x) { return rint(x); }
template <class T>
__device__ inline T size_of(T x) {
  return x < 0 ? -x : x;
}

// Back into the image: at its border, or folded like a ball between walls.
template <class T>
__device__ inline T folded(const GridSample& s, int64_t n, T x) {
  if (s.padding == GridPadding::Zeros) return x;
  const T last = static_cast<T>(n - 1);
  if (s.padding == GridPadding::Reflection) {
    const T low = s.corners ? T(0) : T(-0.5), span = s.corners ? last : last + 1;
    if (span == 0) {
      x *= 0;
    } else {
      const T away = size_of(x - low), flips = floor_of(away / span), extra = away - flips * span;
      x = flips - 2 * floor_of(flips / 2) == 0 ? extra + low : span - extra + low;
    }
  }
  const T v = x < 0 ? T(0) : x;
  return v > last ? last : v;
}

// Keys' convolution, a = -0.75.
template <class T>
__device__ inline T near_part(T v) {
  constexpr T a = T(-0.75);
  return (v * (a + 2) - (a + 3)) * v * v + 1;
}
template <class T>
__device__ inline T far_part(T v) {
  constexpr T a = T(-0.75);
  return ((v * a - 5 * a) * v + 8 * a) * v - 4 * a;
}

// Tap j along a dimension of n elements for the number g of the grid. What lies outside is read at 0 and
// weighs nothing (nan stays nan).
template <class T>
struct Tap {
  int64_t line;
  T weight;
  __device__ Tap(const GridSample& s, int64_t n, T g, int j) {
    const T size = static_cast<T>(n), x = g + 1;
    T at = s.corners ? x * ((size - 1) / 2) : (x * size - 1) * T(0.5);
    if (s.mode != GridMode::Cubic) at = folded(s, n, at);
    const T low = s.mode == GridMode::Nearest ? nearest(at) : floor_of(at), t = at - low;
    weight = s.mode == GridMode::Nearest  ? T(1)
             : s.mode == GridMode::Linear ? (j ? t : 1 - t)
             : j == 0                     ? far_part(t + 1)
             : j == 1                     ? near_part(t)
             : j == 2                     ? near_part(1 - t)
                                          : far_part(2 - t);
    T place = low + static_cast<T>(s.mode == GridMode::Cubic ? j - 1 : j);
    if (s.mode == GridMode::Cubic) place = folded(s, n, place);
    const bool has = place >= 0 && place < size;
    weight *= has ? T(1) : T(0);
    line = has ? static_cast<int64_t>(place) : 0;
  }
};

template <class T>
__device__ inline void sample(const GridSample& s) {
  const int shift = static_cast<int>(s.mode), taps = 1 << shift * s.dims;
  for (int64_t i = first_element(); i < s.numel; i += all_threads()) {
    const int64_t plane = i / s.points, point = i - plane * s.points, image = plane / s.channels;
    const int64_t grid = (image * s.points + point) * s.dims;
    T sum = 0;
    TYCHO_ROLLED
    for (int k = 0; k < taps; ++k) {
      int64_t place = 0;
      T weight = 1;
      TYCHO_ROLLED
      for (int d = 0, rest = k; d < s.dims; ++d, rest >>= shift) {
        const T g = load<T>(s.grid, s.dtype, grid + s.dims - 1 - d);
        const int64_t n = d == 0 ? s.size[0] : d == 1 ? s.size[1] : s.size[2];
        const Tap<T> tap(s, n, g, rest & ((1 << shift) - 1));
        place = place * n + tap.line;
        weight = d ? weight * tap.weight : tap.weight;
      }
      sum += load<T>(s.x, s.dtype, plane * s.places + place) * weight;
    }
    store<T>(s.out, s.dtype, i, sum);
  }
}

}  // namespace

extern "C" __global__ void grid_sample_f32(GridSample s) { sample<float>(s); }
extern "C" __global__ void grid_sample_f64(GridSample s) { sample<double>(s); }
TYCHO_KERNEL(grid_sample_f32)
TYCHO_KERNEL(grid_sample_f64)
