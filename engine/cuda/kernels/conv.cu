// Convolutions in one to three dimensions. Windows of the image become rows of a matrix that a matrix
// product takes, and are added up again; few channels in a group, and integers, are summed directly.
// A thread makes one element and sums in a fixed order, so every run gives the same bits.
#include "engine/cuda/kernels/conv.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

struct Spot {
  int64_t n, at[3];
};
__device__ inline Spot spot_of_row(const ConvShape& s, int64_t row) {
  Spot p{};
  for (int d = 2; d >= 0; --d) p.at[d] = take_last(row, s.axis[d].out);
  p.n = row;
  return p;
}
__device__ inline Spot spot_of_pixel(const ConvShape& s, int64_t pixel) {
  Spot p{};
  for (int d = 2; d >= 0; --d) p.at[d] = take_last(pixel, s.axis[d].in);
  p.n = pixel;
  return p;
}
__device__ inline int64_t rows_of(const ConvShape& s) {
  return s.images * s.axis[0].out * s.axis[1].out * s.axis[2].out;
}
__device__ inline int64_t taps_of(const ConvShape& s) {
  return s.axis[0].kernel * s.axis[1].kernel * s.axis[2].kernel;
}
__device__ inline void next_row(const ConvShape& s, Spot& p) {
  for (int d = 2; d >= 0; --d) {
    if (++p.at[d] < s.axis[d].out) return;
    p.at[d] = 0;
  }
  ++p.n;
}
// Where a tap lies from its window's first pixel on; negative in the padding in front.
__device__ inline Spot offset_of(const ConvShape& s, int64_t tap) {
  Spot p{};
  for (int d = 2; d >= 0; --d)
    p.at[d] = take_last(tap, s.axis[d].kernel) * s.axis[d].dilation - s.axis[d].front;
  return p;
}
// The pixel below a tap; -1 in the padding.
__device__ inline int64_t pixel_at(const ConvShape& s, const Spot& row, const Spot& offset) {
  int64_t pixel = row.n;
  bool inside = true;
  for (int d = 0; d < 3; ++d) {
    const ConvAxis& a = s.axis[d];
    const int64_t at = row.at[d] * a.stride + offset.at[d];
    inside = inside && at >= 0 && at < a.in;
    pixel = pixel * a.in + at;
  }
  return inside ? pixel : -1;
}

// The taps [first, last) of a window that lie inside.
struct Inside {
  int64_t start, first, last;
  __device__ Inside(const ConvAxis& a, int64_t o) : start(o * a.stride - a.front) {
    first = start < 0 ? over(-start + a.dilation - 1, a.dilation) : 0;
    const int64_t room = a.in - start;
    last = room > 0 ? over(room + a.dilation - 1, a.dilation) : 0;
    if (last > a.kernel) last = a.kernel;
  }
};
// Calls f(pixel, tap) for a window's taps inside.
template <class F>
__device__ inline void each_tap(const ConvShape& s, const Spot& row, F&& f) {
  const ConvAxis &az = s.axis[0], &ay = s.axis[1], &ax = s.axis[2];
  const Inside wz(az, row.at[0]), wy(ay, row.at[1]), wx(ax, row.at[2]);
  TYCHO_ROLLED
  for (int64_t z = wz.first; z < wz.last; ++z) TYCHO_ROLLED
  for (int64_t y = wy.first; y < wy.last; ++y) {
    const int64_t line =
        ((row.n * az.in + wz.start + z * az.dilation) * ay.in + wy.start + y * ay.dilation) * ax.in;
    const int64_t tap = (z * ay.kernel + y) * ax.kernel;
    TYCHO_ROLLED
    for (int64_t x = wx.first; x < wx.last; ++x) f(line + wx.start + x * ax.dilation, tap + x);
  }
}

// The window that has a pixel below its tap; -1 where none has.
__device__ inline int64_t window_at(const ConvAxis& a, int64_t i, int64_t tap) {
  const int64_t from = i + a.front - tap * a.dilation;
  if (from < 0) return -1;
  const int64_t o = over(from, a.stride);
  return o * a.stride == from && o < a.out ? o : -1;
}
// Calls f(row, tap) for the windows that have a pixel.
template <class F>
__device__ inline void each_window(const ConvShape& s, const Spot& pixel, F&& f) {
  const ConvAxis &az = s.axis[0], &ay = s.axis[1], &ax = s.axis[2];
  TYCHO_ROLLED
  for (int64_t z = 0; z < az.kernel; ++z) {
    const int64_t oz = window_at(az, pixel.at[0], z);
    if (oz < 0) continue;
    TYCHO_ROLLED
    for (int64_t y = 0; y < ay.kernel; ++y) {
      const int64_t oy = window_at(ay, pixel.at[1], y);
      if (oy < 0) continue;
      const int64_t line = ((pixel.n * az.out + oz) * ay.out + oy) * ax.out;
      TYCHO_ROLLED
      for (int64_t x = 0; x < ax.kernel; ++x) {
        const int64_t ox = window_at(ax, pixel.at[2], x);
        if (ox >= 0) f(line + ox, (z * ay.kernel + y) * ax.kernel + x);
      }
    }
  }
}

template <class L>
__device__ inline L add_product(L sum, L a, L b) {
  if constexpr (same_type<L, int64_t>) {  // wraps around
    return static_cast<int64_t>(static_cast<uint64_t>(sum) +
                                static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return sum + a * b;
  }
}

// made [groups, count, taps, in] = the windows, zeros outside the image.
template <class U>
__device__ inline void windows(const ConvCall& c) {
  const ConvShape& s = c.shape;
  const int64_t taps = taps_of(s), n = s.groups * c.count * taps * s.in;
  for (int64_t i = first_element(); i < n; i += all_threads()) {
    int64_t group = i;
    const int64_t channel = take_last(group, s.in), tap = take_last(group, taps),
                  row = take_last(group, c.count);
    const int64_t pixel = pixel_at(s, spot_of_row(s, c.first + row), offset_of(s, tap));
    put<U>(c.made, i,
           pixel < 0 ? U(0) : element<U>(c.x, (pixel * s.groups + group) * s.in + channel));
  }
}

// x = the windows added up: made as above, of lanes, with the rows of all images.
template <class L>
__device__ inline void fold(const ConvCall& c) {
  const ConvShape& s = c.shape;
  const int64_t taps = taps_of(s), rows = rows_of(s), channels = s.groups * s.in;
  const int64_t n = s.images * s.axis[0].in * s.axis[1].in * s.axis[2].in * channels;
  for (int64_t i = first_element(); i < n; i += all_threads()) {
    int64_t group = i;
    const int64_t channel = take_last(group, s.in);
    const int64_t pixel = over(group, s.groups);
    group -= pixel * s.groups;
    L sum = L(0);
    each_window(s, spot_of_pixel(s, pixel), [&](int64_t row, int64_t tap) {
      sum += element<L>(c.made, ((group * rows + row) * taps + tap) * s.in + channel);
    });
    store<L>(c.x, c.dtype, i, sum);
  }
}

template <class L>
__device__ inline void forward(const ConvCall& c) {
  const ConvShape& s = c.shape;
  const int64_t taps = taps_of(s), channels = s.groups * s.out;
  for (int64_t i = first_element(); i < rows_of(s) * channels; i += all_threads()) {
    const int64_t row = over(i, channels), o = i - row * channels, group = over(o, s.out);
    L sum = L(0);
    each_tap(s, spot_of_row(s, row), [&](int64_t pixel, int64_t tap) {
      const int64_t x = (pixel * s.groups + group) * s.in, w = (o * taps + tap) * s.in;
      TYCHO_ROLLED
      for (int64_t k = 0; k < s.in; ++k)
        sum = add_product(sum, load<L>(c.x, c.dtype, x + k), load<L>(c.w, c.dtype, w + k));
    });
    store<L>(c.y, c.dtype, i, sum);
  }
}

template <class L>
__device__ inline void input(const ConvCall& c) {
  const ConvShape& s = c.shape;
  const int64_t taps = taps_of(s), channels = s.groups * s.in;
  const int64_t n = s.images * s.axis[0].in * s.axis[1].in * s.axis[2].in * channels;
  for (int64_t i = first_element(); i < n; i += all_threads()) {
    const int64_t pixel = over(i, channels), rest = i - pixel * channels, group = over(rest, s.in),
                  channel = rest - group * s.in;
    L sum = L(0);
    each_window(s, spot_of_pixel(s, pixel), [&](int64_t row, int64_t tap) {
      TYCHO_ROLLED
      for (int64_t k = group * s.out; k < (group + 1) * s.out; ++k)
        sum = add_product(sum, load<L>(c.y, c.dtype, row * s.groups * s.out + k),
                          load<L>(c.w, c.dtype, (k * taps + tap) * s.in + channel));
    });
    store<L>(c.x, c.dtype, i, sum);
  }
}

// made [parts, taps, in, channels of the result]: sums over a part of the rows each, in lanes.
template <class L>
__device__ inline void weight(const ConvCall& c) {
  const ConvShape& s = c.shape;
  const int64_t taps = taps_of(s), channels = s.groups * s.out, rows = rows_of(s);
  const int64_t each = over(rows + c.count - 1, c.count), n = c.count * taps * s.in * channels;
  for (int64_t i = first_element(); i < n; i += all_threads()) {
    int64_t part = i;
    const int64_t o = take_last(part, channels), channel = take_last(part, s.in),
                  tap = take_last(part, taps);
    const int64_t begin = part * each, end = begin + each < rows ? begin + each : rows;
    const int64_t group = over(o, s.out);
    L sum = L(0);
    const Spot offset = offset_of(s, tap);
    Spot at = spot_of_row(s, begin);
    TYCHO_ROLLED
    for (int64_t row = begin; row < end; ++row, next_row(s, at)) {
      const int64_t pixel = pixel_at(s, at, offset);
      if (pixel < 0) continue;
      sum = add_product(sum, load<L>(c.y, c.dtype, row * channels + o),
                        load<L>(c.x, c.dtype, (pixel * s.groups + group) * s.in + channel));
    }
    put<L>(c.made, i, sum);
  }
}

}  // namespace

#define KERNEL(name, suffix, L)                                                 \
  extern "C" __global__ void conv_##name##_##suffix(ConvCall c) { name<L>(c); } \
  TYCHO_KERNEL(conv_##name##_##suffix)
KERNEL(windows, 16, uint16_t)
KERNEL(windows, 32, uint32_t)
KERNEL(windows, 64, uint64_t)
KERNEL(fold, f32, float)
KERNEL(fold, f64, double)
#define KERNELS(name) KERNEL(name, f32, float) KERNEL(name, f64, double) KERNEL(name, i64, int64_t)
KERNELS(forward)
KERNELS(input)
KERNELS(weight)
