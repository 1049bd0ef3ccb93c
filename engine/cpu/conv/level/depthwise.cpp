// Convolutions of every channel by itself: lanes over channels. Up to eight pixels of a line are summed
// at a time, so that a weight is read once for all of them; at the ends of a line a tap lies inside
// the image for some of them. The gradient of the input is the same sum read backwards, that of the
// weight has taps for pixels.
#include "engine/cpu/conv/conv.h"
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Where products of a sum are read: in elements from the first pixel, and in the weight.
struct TapList {
  int count = 0;
  int64_t at[kDepthwiseTaps], weight[kDepthwiseTaps];
  int8_t first[kDepthwiseTaps], last[kDepthwiseTaps];  // the block's pixels [first, last) see it
  void add(int64_t a, int64_t w) { at[count] = a, weight[count++] = w; }
  void add(int64_t a, int64_t w, int64_t from, int64_t to) {
    first[count] = static_cast<int8_t>(from), last[count] = static_cast<int8_t>(to);
    add(a, w);
  }
};
constexpr int kPixels = 8;  // of a block

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

// Calls f(x) for x in [first, last), each a constant where it stands.
template <int X, class F>
TYCHO_INLINE void each_between(int first, int last, F&& f) {
  if (last == X) {
    switch (first) {
      case 0:
        f(0);
        [[fallthrough]];
      case 1:
        if (X > 1) f(1);
        [[fallthrough]];
      case 2:
        if (X > 2) f(2);
        [[fallthrough]];
      case 3:
        if (X > 3) f(3);
        [[fallthrough]];
      case 4:
        if (X > 4) f(4);
        [[fallthrough]];
      case 5:
        if (X > 5) f(5);
        [[fallthrough]];
      case 6:
        if (X > 6) f(6);
        [[fallthrough]];
      case 7:
        if (X > 7) f(7);
    }
    return;
  }
#pragma GCC unroll 8
  for (int x = 0; x < X; ++x)
    if (x >= first && x < last) f(x);
}

// X pixels by L lanes; Some: taps are seen by some of the pixels only.
template <class T, int X, int L, bool Part, bool Some>
TYCHO_INLINE void sum_block(const Run<T>& r, const TapList& taps, int64_t p, int64_t c, int m) {
  constexpr int size = Lane<T>::size;
  const auto get = [m](const T* at) { return Part ? load_part(at, m) : Lane<T>::load(at); };
  const int64_t step = r.from_step;
  T* const to = r.to + p * r.to_step + c;
  const T *const from = r.from + p * step + c, *const w = r.weight + c;
  Lane<T> sum[X][L];
#pragma GCC unroll 8
  for (int x = 0; x < X; ++x)
#pragma GCC unroll 8
    for (int l = 0; l < L; ++l)
      sum[x][l] = r.begin == kBias  ? get(r.bias + c + l * size)
                  : r.begin == kAdd ? get(to + x * r.to_step + l * size)
                                    : Lane<T>(0);
  for (int t = 0; t < taps.count; ++t) {
    Lane<T> by[L];
#pragma GCC unroll 8
    for (int l = 0; l < L; ++l) by[l] = get(w + taps.weight[t] + l * size);
    const T *const near = from + taps.at[t], *const far = near + (X > 4 ? 4 : 0) * step;
    const auto add = [&](int x) __attribute__((always_inline)) {
      const T* const at = x < 4 ? near + x * step : far + (x - 4) * step;
#pragma GCC unroll 8
      for (int l = 0; l < L; ++l) sum[x][l] = muladd(get(at + l * size), by[l], sum[x][l]);
    };
    if constexpr (Some) {
      each_between<X>(taps.first[t], taps.last[t], add);
    } else {
#pragma GCC unroll 8
      for (int x = 0; x < X; ++x) add(x);
    }
  }
#pragma GCC unroll 8
  for (int x = 0; x < X; ++x)
#pragma GCC unroll 8
    for (int l = 0; l < L; ++l) {
      if constexpr (Part)
        store_part(sum[x][l], to + x * r.to_step, m);
      else
        sum[x][l].store(to + x * r.to_step + l * size);
    }
}

// X pixels, channels from c on. Few of them take several lanes side by side, or each product would wait
// for the one before.
template <class T, int X, bool Some>
void sum_channels(const Run<T>& r, const TapList& taps, int64_t p, int64_t c, int64_t channels) {
  constexpr int size = Lane<T>::size, most = kManyBlocks ? 8 : 6;
  constexpr int some = X > most / 2 ? (!kManyBlocks && X == 4 ? 2 : 1) : most / X;
  for (; c + some * size <= channels; c += some * size)
    sum_block<T, X, some, false, Some>(r, taps, p, c, size);
  for (; c + size <= channels; c += size) sum_block<T, X, 1, false, Some>(r, taps, p, c, size);
  if (c < channels) sum_block<T, X, 1, true, Some>(r, taps, p, c, static_cast<int>(channels - c));
}

template <class T, bool Some, int X = kPixels>
void sum_some(const Run<T>& r, const TapList& taps, int64_t p, int64_t pixels, int64_t channels) {
  if constexpr (X > 1)
    if (pixels < X) return sum_some<T, Some, X - 1>(r, taps, p, pixels, channels);
  sum_channels<T, X, Some>(r, taps, p, 0, channels);
}

template <class T>
void sum_run(const Run<T>& r, const TapList& taps, int64_t channels) {
  int64_t p = 0;
  // All pixels of a cache line's channels at a time: it stays near, and so do their weights.
  constexpr int size = Lane<T>::size, some = kManyBlocks ? 1 : 2, X = kPixels / some;
  if (r.pixels > kPixels) {
    const int64_t end = r.pixels / X * X;
    int64_t c = 0;
    for (; c + some * size <= channels; c += some * size)
      for (p = 0; p < end; p += X) sum_block<T, X, some, false, false>(r, taps, p, c, size);
    if (c < channels)
      for (p = 0; p < end; p += X) sum_channels<T, X, false>(r, taps, p, c, channels);
  }
  if (p < r.pixels) sum_some<T, false>(r, taps, p, r.pixels - p, channels);
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
    if (w.stride[d] == 1) return at;
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
  // The taps of a row that some of `count` pixels of a phase see, from pixel `i` on.
  void columns(int64_t i, int64_t count, TapList* to) const {
    to->count = 0;
    const int64_t by = step();
    const auto ceil = [by](int64_t n) { return by == 1 ? n : (n + by - 1) / by; };
    for (int64_t k = 0; k < w.kernel[2]; ++k) {
      const int64_t at = place(2, i, k);
      if (at == INT64_MIN || at >= from()[2]) continue;
      const int64_t first = at < 0 ? ceil(-at) : 0, end = ceil(from()[2] - at);
      if (first < count && first < end) to->add(at, k, first, end < count ? end : count);
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
  TapList taps, columns;
  Run<T> r{from, weight, nullptr, step * channels, phases * channels, 1, bias ? kBias : kZero,
           bias};
  for (int64_t line = begin; line < end; ++line)
    for (int64_t phase = 0; phase < phases && phase < width; ++phase) {
      const int64_t count = (width - phase + phases - 1) / phases;
      int64_t lo, hi;
      s.inner(phase, count, &lo, &hi);
      for (int64_t p = 0; p < count; p += r.pixels) {
        // Short lines are one block.
        const int64_t left = count - p, end = count <= kPixels ? left : (p < lo ? lo : count) - p;
        const bool inside = p == lo && hi > lo && (count > kPixels || hi == count);
        r.pixels = inside ? hi - lo : end < kPixels ? end : kPixels;
        r.to = to + (line * width + phase + p * phases) * channels;
        s.columns(phase + p * phases, r.pixels, &columns);
        taps.count = 0;
        s.each_row(line, [&](int64_t row, int64_t tap) {
          for (int k = 0; k < columns.count; ++k)
            taps.add((row + columns.at[k]) * channels, (tap + columns.weight[k]) * channels,
                     columns.first[k], columns.last[k]);
        });
        if (inside || r.pixels == 1)
          sum_run(r, taps, channels);
        else
          sum_some<T, true>(r, taps, 0, r.pixels, channels);
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
