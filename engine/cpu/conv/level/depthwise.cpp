// Convolutions of every channel by itself: lanes over channels. Pixels of a line whose taps all lie
// inside the image are summed eight at a time, so that a weight is read once for all of them; the
// gradient of the input is the same sum read backwards, that of the weight has taps for pixels.
#include "engine/cpu/conv/conv.h"
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Where products of a sum are read: in elements from the first pixel, and in the weight.
struct TapList {
  int count = 0;
  int64_t at[kDepthwiseTaps], weight[kDepthwiseTaps];
  void add(int64_t a, int64_t w) { at[count] = a, weight[count++] = w; }
};

// `pixels` sums of the same taps: the p-th reads from `from + p * from_step`, and is written to
// `to + p * to_step`.
template <class T>
struct Run {
  const T *from, *weight;
  T* to;
  int64_t from_step, to_step, pixels;
  int begin;  // as products of matrices
  const T* bias;
};

template <class T, int X, bool Part>
void sum_pixels(const Run<T>& r, const TapList& taps, int64_t p, int64_t c, int m) {
  const auto get = [m](const T* at) { return Part ? load_part(at, m) : Lane<T>::load(at); };
  const int64_t step = r.from_step;
  T* const to = r.to + p * r.to_step + c;
  const T *const from = r.from + p * step + c, *const w = r.weight + c;
  Lane<T> sum[X];
#pragma GCC unroll 8
  for (int x = 0; x < X; ++x)
    sum[x] = r.begin == kBias  ? get(r.bias + c)
             : r.begin == kAdd ? get(to + x * r.to_step)
                               : Lane<T>(0);
  for (int t = 0; t < taps.count; ++t) {
    const Lane<T> by = get(w + taps.weight[t]);
    const T *const near = from + taps.at[t], *const far = near + (X > 4 ? 4 : 0) * step;
#pragma GCC unroll 8
    for (int x = 0; x < X; ++x)
      sum[x] = muladd(get(x < 4 ? near + x * step : far + (x - 4) * step), by, sum[x]);
  }
#pragma GCC unroll 8
  for (int x = 0; x < X; ++x) {
    if constexpr (Part)
      store_part(sum[x], to + x * r.to_step, m);
    else
      sum[x].store(to + x * r.to_step);
  }
}

// The lane at channel c of all pixels, in blocks of eight, four, two and one.
template <class T, bool Part>
void sum_lane(const Run<T>& r, const TapList& taps, int64_t c, int m) {
  int64_t p = 0;
  for (; p + 8 <= r.pixels && kManyBlocks; p += 8) sum_pixels<T, 8, Part>(r, taps, p, c, m);
  for (; p + 4 <= r.pixels; p += 4) sum_pixels<T, 4, Part>(r, taps, p, c, m);
  if (kManyBlocks && p + 3 == r.pixels) return sum_pixels<T, 3, Part>(r, taps, p, c, m);
  if (kManyBlocks && p + 2 == r.pixels) return sum_pixels<T, 2, Part>(r, taps, p, c, m);
  for (; p < r.pixels; ++p) sum_pixels<T, 1, Part>(r, taps, p, c, m);
}
// One pixel: several lanes of channels side by side, or each product would wait for the one before.
template <class T, int L>
void sum_one(const Run<T>& r, const TapList& taps, int64_t c) {
  constexpr int size = Lane<T>::size;
  Lane<T> sum[L];
#pragma GCC unroll 8
  for (int l = 0; l < L; ++l)
    sum[l] = r.begin == kBias  ? Lane<T>::load(r.bias + c + l * size)
             : r.begin == kAdd ? Lane<T>::load(r.to + c + l * size)
                               : Lane<T>(0);
  for (int t = 0; t < taps.count; ++t) {
    const T *const w = r.weight + taps.weight[t] + c, *const x = r.from + taps.at[t] + c;
#pragma GCC unroll 8
    for (int l = 0; l < L; ++l)
      sum[l] = muladd(Lane<T>::load(x + l * size), Lane<T>::load(w + l * size), sum[l]);
  }
#pragma GCC unroll 8
  for (int l = 0; l < L; ++l) sum[l].store(r.to + c + l * size);
}

template <class T>
void sum_run(const Run<T>& r, const TapList& taps, int64_t channels) {
  constexpr int size = Lane<T>::size, some = kManyBlocks ? 6 : 3;
  int64_t c = 0;
  if (r.pixels == 1)
    for (; c + some * size <= channels; c += some * size) sum_one<T, some>(r, taps, c);
  for (; c + size <= channels; c += size) sum_lane<T, false>(r, taps, c, size);
  if (c < channels) sum_lane<T, true>(r, taps, c, static_cast<int>(channels - c));
}

// What a sum sees of the images: forward, windows of the input; backward, for a pixel of the input
// the results that it went to.
struct Sight {
  const Window& w;
  bool back;
  const int64_t* to() const { return back ? w.in : w.out; }
  const int64_t* from() const { return back ? w.out : w.in; }
  // Of tap k seen from place i along a dimension; where there is none, far outside.
  int64_t place(int d, int64_t i, int64_t k) const {
    if (!back) return i * w.stride[d] - w.pad[d] + k * w.dilation[d];
    const int64_t at = i + w.pad[d] - k * w.dilation[d];
    return at % w.stride[d] ? INT64_MIN : at / w.stride[d];
  }
  bool inside(int d, int64_t place) const { return place >= 0 && place < from()[d]; }
  // Pixels so far apart in a line see the same taps; what these see is `step` apart.
  int64_t phases() const { return back ? w.stride[2] : 1; }
  int64_t step() const { return back ? 1 : w.stride[2]; }

  // Calls f(pixel of `from` where the row of taps reads, its first weight) for rows of taps inside.
  template <class F>
  void each_row(int64_t line, F&& f) const {
    const int64_t y = line % to()[1], rest = line / to()[1], z = rest % to()[0], n = rest / to()[0];
    for (int64_t kz = 0; kz < w.kernel[0]; ++kz) {
      const int64_t pz = place(0, z, kz);
      if (!inside(0, pz)) continue;
      for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
        const int64_t py = place(1, y, ky);
        if (inside(1, py))
          f(((n * from()[0] + pz) * from()[1] + py) * from()[2],
            (kz * w.kernel[1] + ky) * w.kernel[2]);
      }
    }
  }
  // Pixels [lo, hi) of a phase, counted in it, of which every tap that there is lies inside.
  void inner(int64_t phase, int64_t count, int64_t* lo, int64_t* hi) const {
    *lo = 0, *hi = count;
    for (int64_t k = 0; k < w.kernel[2]; ++k) {
      const int64_t at = place(2, phase, k);
      if (at == INT64_MIN) continue;
      const int64_t first = at < 0 ? (step() - 1 - at) / step() : 0;
      const int64_t end = at < from()[2] ? (from()[2] - 1 - at) / step() + 1 : 0;
      if (first > *lo) *lo = first;
      if (end < *hi) *hi = end;
    }
    if (*hi < *lo) *hi = *lo;
    if (*lo > count) *lo = *hi = count;
  }
};

// The results of lines [begin, end), or the gradient of the input's.
template <class T>
void lines_of(const Sight& s, const T* from, const T* weight, const T* bias, T* to, int64_t begin,
              int64_t end) {
  const Window& w = s.w;
  const int64_t channels = w.channels, phases = s.phases(), step = s.step(), width = s.to()[2];
  TapList taps;
  Run<T> r{from, weight, nullptr, step * channels, phases * channels, 1, bias ? kBias : kZero,
           bias};
  for (int64_t line = begin; line < end; ++line)
    for (int64_t phase = 0; phase < phases && phase < width; ++phase) {
      const int64_t count = (width - phase + phases - 1) / phases;
      int64_t lo, hi;
      s.inner(phase, count, &lo, &hi);
      for (int64_t p = 0; p < count; p += r.pixels) {
        r.pixels = p == lo && hi > lo ? hi - lo : 1;
        taps.count = 0;
        s.each_row(line, [&](int64_t row, int64_t tap) {
          for (int64_t k = 0; k < w.kernel[2]; ++k) {
            const int64_t at = s.place(2, phase + p * phases, k);
            if (s.inside(2, at)) taps.add((row + at) * channels, (tap + k) * channels);
          }
        });
        r.to = to + (line * width + phase + p * phases) * channels;
        sum_run(r, taps, channels);
      }
    }
}

// A row of taps is a run: what it sums are the pixels of a line of the result.
template <class T>
void weight_of(const Window& w, const T* g, const T* x, T* sums, int64_t begin, int64_t end) {
  const Sight s{w, false};
  const int64_t channels = w.channels, width = w.out[2];
  TapList pixels;
  int64_t lo, hi;
  s.inner(0, width, &lo, &hi);
  for (int64_t line = begin; line < end; ++line)
    s.each_row(line, [&](int64_t row, int64_t tap) {
      Run<T> r{x + row * channels,
               g + line * width * channels,
               nullptr,
               w.dilation[2] * channels,
               channels,
               0,
               kAdd,
               nullptr};
      for (int64_t p = 0; p < width;) {
        pixels.count = 0;
        int64_t first = 0, last = w.kernel[2];
        if (p >= lo && p < hi) {
          for (; p < hi && pixels.count < kDepthwiseTaps; ++p)
            pixels.add(s.place(2, p, 0) * channels, p * channels);
        } else {
          while (first < last && s.place(2, p, first) < 0) ++first;
          while (first < last && s.place(2, p, last - 1) >= w.in[2]) --last;
          pixels.add(s.place(2, p, first) * channels, p * channels);
          ++p;
        }
        r.pixels = last - first;
        r.to = sums + (tap + first) * channels;
        if (r.pixels > 0) sum_run(r, pixels, channels);
      }
    });
}

template <class F>
TYCHO_INLINE void by_type(int type, F&& f) {
  type == 0 ? f(0.f) : type == 1 ? f(0.0) : f(int64_t{0});
}

}  // namespace

void depthwise_lines(int type, const Window* w, bool back, const void* from, const void* weight,
                     const void* bias, void* to, int64_t begin, int64_t end) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    lines_of(Sight{*w, back}, static_cast<const T*>(from), static_cast<const T*>(weight),
             static_cast<const T*>(bias), static_cast<T*>(to), begin, end);
  });
}

void depthwise_weight(int type, const Window* w, const void* g, const void* x, void* weight,
                      int64_t begin, int64_t end) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    weight_of(*w, static_cast<const T*>(g), static_cast<const T*>(x), static_cast<T*>(weight),
              begin, end);
  });
}

}  // namespace tycho::cpu::TYCHO_LEVEL
