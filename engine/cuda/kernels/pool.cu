// Pooling in one to three dimensions, forward and backward. A thread makes one element; backward it
// looks at the windows that its element lies in, in their order, so every run gives the same bits.
#include "engine/cuda/kernels/pool.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

__device__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
// Most steps are 1, and all threads have the same.
__device__ inline int64_t steps(int64_t a, int64_t by) { return by == 1 ? a : over(a, by); }

struct Place {
  int64_t n, c, z, y, x;
};
__device__ inline Place place_of(const Pooling& p, int64_t i, int64_t z, int64_t y, int64_t x) {
  Place at{};
  if (p.channels_last) at.c = take_last(i, p.channels);
  at.x = take_last(i, x);
  at.y = take_last(i, y);
  at.z = take_last(i, z);
  if (!p.channels_last) at.c = take_last(i, p.channels);
  at.n = i;
  return at;
}
__device__ inline Place pooled_place(const Pooling& p, int64_t i) {
  return place_of(p, i, p.axis[0].out, p.axis[1].out, p.axis[2].out);
}
__device__ inline Place image_place(const Pooling& p, int64_t i) {
  return place_of(p, i, p.axis[0].in, p.axis[1].in, p.axis[2].in);
}
__device__ inline int64_t element_of(const PoolTensor& t, const Place& at) {
  return at.n * t.stride[0] + at.c * t.stride[1] + at.z * t.stride[2] + at.y * t.stride[3] +
         at.x * t.stride[4];
}
__device__ inline int64_t pooled_count(const Pooling& p) {
  return p.batch * p.channels * p.axis[0].out * p.axis[1].out * p.axis[2].out;
}
__device__ inline int64_t image_count(const Pooling& p) {
  return p.batch * p.channels * p.axis[0].in * p.axis[1].in * p.axis[2].in;
}

// Where window o begins, which of its taps lie inside, and how many an average counts.
struct Window {
  int64_t start, first, last, count;
  __device__ Window(const PoolAxis& a, int64_t o, bool padded) {
    int64_t taps = a.kernel;
    if (a.stride == 0) {
      start = over(o * a.in, a.out);
      taps = over((o + 1) * a.in + a.out - 1, a.out) - start;
    } else {
      start = o * a.stride - a.pad;
    }
    first = start < 0 ? steps(-start + a.dilation - 1, a.dilation) : 0;
    last = a.in > start ? least(taps, steps(a.in - start + a.dilation - 1, a.dilation)) : 0;
    if (last < first) last = first;
    count = padded ? least(start + taps, a.in + a.pad) - start : last - first;
    if (count < 1) count = 1;
  }
};
// The windows [first, last) that may have element i of an axis.
struct Covering {
  int64_t first, last;
  __device__ Covering(const PoolAxis& a, int64_t i) {
    if (a.stride == 0) {
      first = over(i * a.out, a.in);
      last = over((i + 1) * a.out + a.in - 1, a.in);
    } else {
      const int64_t at = i + a.pad, before = at - (a.kernel - 1) * a.dilation;
      first = before > 0 ? steps(before + a.stride - 1, a.stride) : 0;
      last = steps(at, a.stride) + 1;
    }
    last = least(last, a.out);
  }
};
// The tap of window o, one of those that cover element i, that lies there, or -1.
__device__ inline int64_t tap_at(const PoolAxis& a, int64_t o, int64_t i) {
  if (a.stride) {
    const int64_t off = i + a.pad - o * a.stride, tap = steps(off, a.dilation);
    return tap * a.dilation == off ? tap : -1;
  }
  const Window w(a, o, false);
  const int64_t off = i - w.start, tap = steps(off, a.dilation);
  return tap * a.dilation == off && tap < w.last ? tap : -1;
}

// Calls f(element of the image, tap) for a window's taps inside.
template <class F>
__device__ inline void each_tap(const Pooling& p, const Place& at, F&& f) {
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const Window wz(az, at.z, false), wy(ay, at.y, false), wx(ax, at.x, false);
  const int64_t* const step = p.image.stride;
  const int64_t image = at.n * step[0] + at.c * step[1];
  TYCHO_ROLLED
  for (int64_t z = wz.first; z < wz.last; ++z) TYCHO_ROLLED
  for (int64_t y = wy.first; y < wy.last; ++y) {
    const int64_t line =
        image + (wz.start + z * az.dilation) * step[2] + (wy.start + y * ay.dilation) * step[3];
    const int64_t tap = (z * ay.kernel + y) * ax.kernel;
    TYCHO_ROLLED
    for (int64_t x = wx.first; x < wx.last; ++x)
      f(line + (wx.start + x * ax.dilation) * step[4], tap + x);
  }
}

// Calls f(place of a result, tap) for the windows that have an element of the image.
template <class F>
__device__ inline void each_window(const Pooling& p, const Place& at, F&& f) {
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const Covering cz(az, at.z), cy(ay, at.y), cx(ax, at.x);
  Place to = at;
  TYCHO_ROLLED
  for (to.z = cz.first; to.z < cz.last; ++to.z) {
    const int64_t z = tap_at(az, to.z, at.z);
    if (z < 0) continue;
    TYCHO_ROLLED
    for (to.y = cy.first; to.y < cy.last; ++to.y) {
      const int64_t y = tap_at(ay, to.y, at.y);
      if (y < 0) continue;
      TYCHO_ROLLED
      for (to.x = cx.first; to.x < cx.last; ++to.x) {
        const int64_t x = tap_at(ax, to.x, at.x);
        if (x >= 0) f(to, (z * ay.kernel + y) * ax.kernel + x);
      }
    }
  }
}

template <class L>
__device__ inline L divisor_at(const Pooling& p, const Place& at) {
  if (p.divisor) return static_cast<L>(p.divisor);
  return static_cast<L>(Window(p.axis[0], at.z, p.padded).count *
                        Window(p.axis[1], at.y, p.padded).count *
                        Window(p.axis[2], at.x, p.padded).count);
}

// Of equal elements the first is taken, and of nans the last.
template <class L>
__device__ inline void largest(const Pooling& p) {
  for (int64_t i = first_element(); i < pooled_count(p); i += all_threads()) {
    const Place at = pooled_place(p, i);
    L best = L(0);
    int64_t best_tap = -1;
    each_tap(p, at, [&](int64_t element, int64_t tap) {
      const L x = load<L>(p.image.data, p.image.dtype, element);
      if (best_tap >= 0 && !(x > best || x != x)) return;
      best = x;
      best_tap = tap;
    });
    store<L>(p.pooled.data, p.pooled.dtype, element_of(p.pooled, at), best);
    if (p.taps.data) store<int64_t>(p.taps.data, p.taps.dtype, element_of(p.taps, at), best_tap);
  }
}

template <class L>
__device__ inline void mean(const Pooling& p) {
  for (int64_t i = first_element(); i < pooled_count(p); i += all_threads()) {
    const Place at = pooled_place(p, i);
    L sum = L(0);
    each_tap(p, at, [&](int64_t element, int64_t) {
      sum += load<L>(p.image.data, p.image.dtype, element);
    });
    store<L>(p.pooled.data, p.pooled.dtype, element_of(p.pooled, at), sum / divisor_at<L>(p, at));
  }
}

// Where a tap lies in its image.
__device__ inline Place tap_place(const Pooling& p, const Place& at, int64_t tap) {
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t rest = over(tap, ax.kernel), z = over(rest, ay.kernel);
  return {at.n, at.c, Window(az, at.z, false).start + z * az.dilation,
          Window(ay, at.y, false).start + (rest - z * ay.kernel) * ay.dilation,
          Window(ax, at.x, false).start + (tap - rest * ax.kernel) * ax.dilation};
}

template <class L>
__device__ inline void chosen(const Pooling& p) {
  for (int64_t i = first_element(); i < pooled_count(p); i += all_threads()) {
    const Place at = pooled_place(p, i);
    const int64_t tap = load<int64_t>(p.taps.data, p.taps.dtype, element_of(p.taps, at));
    const Place from = tap_place(p, at, tap);
    const L x = p.image.data ? load<L>(p.image.data, p.image.dtype, element_of(p.image, from))
                             : L((from.z * p.axis[1].in + from.y) * p.axis[2].in + from.x + 1);
    store<L>(p.pooled.data, p.pooled.dtype, element_of(p.pooled, at), x);
  }
}

template <class L>
__device__ inline void largest_back(const Pooling& p) {
  for (int64_t i = first_element(); i < image_count(p); i += all_threads()) {
    const Place at = image_place(p, i);
    L sum = L(0);
    each_window(p, at, [&](const Place& from, int64_t tap) {
      if (load<int64_t>(p.taps.data, p.taps.dtype, element_of(p.taps, from)) == tap)
        sum += load<L>(p.pooled.data, p.pooled.dtype, element_of(p.pooled, from));
    });
    store<L>(p.image.data, p.image.dtype, element_of(p.image, at), sum);
  }
}

template <class L>
__device__ inline void mean_back(const Pooling& p) {
  for (int64_t i = first_element(); i < image_count(p); i += all_threads()) {
    const Place at = image_place(p, i);
    L sum = L(0);
    each_window(p, at, [&](const Place& from, int64_t) {
      sum += load<L>(p.pooled.data, p.pooled.dtype, element_of(p.pooled, from)) /
             divisor_at<L>(p, from);
    });
    store<L>(p.image.data, p.image.dtype, element_of(p.image, at), sum);
  }
}

}  // namespace

#define KERNEL(name, suffix, L)                                                \
  extern "C" __global__ void pool_##name##_##suffix(Pooling p) { name<L>(p); } \
  TYCHO_KERNEL(pool_##name##_##suffix)
#define KERNELS(name) KERNEL(name, f32, float) KERNEL(name, f64, double) KERNEL(name, i64, int64_t)
KERNELS(largest)
KERNELS(largest_back)
KERNELS(chosen)
KERNELS(mean)
KERNELS(mean_back)
