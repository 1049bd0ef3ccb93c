// Max pooling. With several channels, lanes run over channels; a plane is reduced over the rows of
// its windows first, along whole lines, and then across. The first of equal maxima is taken, in
// the order rows, columns; nan wins over numbers, a later nan over an earlier one (as PyTorch).
#include "engine/cpu/pool/level/max_pool_few.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class S, bool taps_wanted>
void lines_of_channels(const Pool& p, const S* x, S* y, TapNumbers taps, int64_t begin,
                       int64_t end) {
  const int64_t width = p.axis[2].out, image = pixels_of(p) * p.channels;
  const Taps window(p);
  each_line(p, begin, end, [&](int64_t line, int64_t n, int64_t z, int64_t row) {
    for (int64_t ox = 0; ox < width; ++ox)
      channels_of<S, taps_wanted>(p, window, {z, row, ox}, x + n * image, y, taps,
                                  (line * width + ox) * p.channels);
  });
}

// The maximum of a window, whose columns hold maxima `from` of rows that begin with the taps `row` (null:
// there is one row, and taps rise along it).
template <class T, bool taps_wanted>
struct Across {
  using L = Lane<T>;
  L best, at{0};  // in every element

  static void take(L v, L tap, bool rising, L& best, L& at) {
    if (rising || !taps_wanted) {
      const auto wins = (v > best) | (v != v);
      best = select(wins, v, best);
      if (taps_wanted) at = select(wins, tap, at);
    } else {
      const auto wins = comes_first(v, tap, best, at);
      best = select(wins, v, best);
      at = select(wins, tap, at);
    }
  }
  Across(const T* from, const T* row, int64_t n, int64_t step, int64_t first) {
    constexpr int size = L::size;
    const bool rising = row == nullptr;
    if (step == 1 && n >= size) {
      T places[size];
      for (int i = 0; i < size; ++i) places[i] = static_cast<T>(first + i);
      const L place = L::load(places);
      const auto tap = [&](int64_t t) __attribute__((always_inline)) {
        const L along = place + L(static_cast<T>(t));
        return !taps_wanted ? L(0) : rising ? along : L::load(row + t) + along;
      };
      best = L::load(from);
      at = tap(0);
      int64_t t = size;
      if (rising) {  // two at a time, or each would wait for the one before
        L other = best, other_at = at;
        for (; t + 2 * size <= n; t += 2 * size) {
          take(L::load(from + t), tap(t), true, best, at);
          take(L::load(from + t + size), tap(t + size), true, other, other_at);
        }
        if (t > size) take(other, other_at, false, best, at);
      }
      for (; t + size <= n; t += size) take(L::load(from + t), tap(t), rising, best, at);
      if (t < n)  // some of them again
        take(L::load(from + n - size), tap(n - size), false, best, at);
      T values[2 * size], taps[2 * size];
      for (int half = size / 2; half > 0; half /= 2) {  // each element meets the one `half` on
        best.store(values);
        best.store(values + size);
        at.store(taps);
        at.store(taps + size);
        take(L::load(values + half), L::load(taps + half), false, best, at);
      }
      return;
    }
    const auto tap = [&](int64_t t) __attribute__((always_inline)) {
      const L along(static_cast<T>(first + t));
      return !taps_wanted ? L(0) : rising ? along : L(row[t * step]) + along;
    };
    best = L(from[0]);
    at = tap(0);
    for (int64_t t = 1; t < n; ++t) take(L(from[t * step]), tap(t), rising, best, at);
  }
};

// The largest of some numbers, none of them nan; of equal ones the first. In a register: a comparison would
// become a jump, or go by way of others.
template <class T>
struct Largest {
  T v;
  TYCHO_INLINE explicit Largest(const T* p) : v(*p) {}
  TYCHO_INLINE void take(const T* p) { v = *p > v ? *p : v; }
  TYCHO_INLINE T value() const { return v; }
};
template <>
struct Largest<float> {
  __m128 v;
  TYCHO_INLINE explicit Largest(const float* p) : v(_mm_load_ss(p)) {}
  TYCHO_INLINE void take(const float* p) { v = _mm_max_ss(_mm_load_ss(p), v); }
  TYCHO_INLINE float value() const { return _mm_cvtss_f32(v); }
};
template <>
struct Largest<double> {
  __m128d v;
  TYCHO_INLINE explicit Largest(const double* p) : v(_mm_load_sd(p)) {}
  TYCHO_INLINE void take(const double* p) { v = _mm_max_sd(_mm_load_sd(p), v); }
  TYCHO_INLINE double value() const { return _mm_cvtsd_f64(v); }
};
template <class T>
bool has_nan(const T* p, int64_t n) {
  using L = Lane<T>;
  L nan(0);
  each_lane<T>(n, [&](int64_t i, int m) {
    const L v = load_n(p + i, m);
    nan = select(v != v, v, nan);
  });
  for (int i = 0; i < L::size; ++i)
    if (nan.v[i] != nan.v[i]) return true;
  return false;
}

// The maxima of a line without nan, of windows of K numbers, or of any.
template <int K, class T>
void line_of_numbers(const PoolAxis& ax, const Inside& inside, const T* row, T* to) {
  const auto maximum = [&](int64_t ox, int64_t first, int64_t last) {
    const T* const from = row + ax.start[ox];
    Largest<T> most(from + first * ax.dilation);
    for (int64_t t = first + 1; t < last; ++t) most.take(from + t * ax.dilation);
    to[ox] = most.value();
  };
  int64_t ox = 0;
  for (; ox < inside.begin; ++ox) maximum(ox, ax.first[ox], ax.last[ox]);
  for (; ox + 4 <= inside.end; ox += 4) {  // or each number would wait for the one before
    const T *const a = row + ax.start[ox], *const b = a + ax.stride, *const c = b + ax.stride,
                   *const d = c + ax.stride;
    Largest<T> of_a(a), of_b(b), of_c(c), of_d(d);
    const int64_t kernel = K ? K : ax.kernel;
#pragma GCC unroll 4
    for (int64_t t = 1, i = ax.dilation; t < kernel; ++t, i += ax.dilation)
      of_a.take(a + i), of_b.take(b + i), of_c.take(c + i), of_d.take(d + i);
    to[ox] = of_a.value(), to[ox + 1] = of_b.value();
    to[ox + 2] = of_c.value(), to[ox + 3] = of_d.value();
  }
  for (; ox < ax.out; ++ox) maximum(ox, ax.first[ox], ax.last[ox]);
}

template <class T, bool taps_wanted>
void lines_of_planes(const Pool& p, const T* x, T* y, TapNumbers taps, int64_t begin, int64_t end,
                     T* scratch) {
  using L = Lane<T>;
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t plane = pixels_of(p);
  const int64_t room = ax.in + kPoolRoom;
  Inside inside(ax);
  const bool one_row = az.kernel * ay.kernel == 1 && az.in == 1 && ay.in == 1;
  // To bring maxima alone of numbers far apart into lanes would take longer than a load and an instruction for
  // each of them.
  constexpr int64_t kLong = 64;
  const bool by_numbers = one_row && !taps_wanted && ax.stride > (sizeof(T) == 4 ? 2 : 1) &&
                          (ax.kernel < kLong || ax.dilation > 1);
  const Inside whole = inside;
  // Lanes along a long window are quicker than one window a lane, whose elements lie far apart.
  if (ax.stride > 1 && ax.dilation == 1 && ax.kernel >= 4 * L::size) inside.end = inside.begin;
  if (by_numbers || (one_row && !any_lanes<T>(ax, inside))) {  // nothing is to be reduced over rows
    each_line(p, begin, end, [&](int64_t line, int64_t n, int64_t, int64_t) {
      const T* const row = x + n * plane;
      if (by_numbers && !has_nan(row, ax.in))
        return (ax.kernel == 2   ? line_of_numbers<2, T>
                : ax.kernel == 3 ? line_of_numbers<3, T>
                                 : line_of_numbers<0, T>)(ax, whole, row, y + line * ax.out);
      for (int64_t ox = 0; ox < ax.out; ++ox) {
        const int64_t t = ax.first[ox], i = ax.start[ox] + t * ax.dilation;
        const Across<T, taps_wanted> a(row + i, nullptr, ax.last[ox] - t, ax.dilation, t);
        y[line * ax.out + ox] = a.best.v[0];
        if (taps_wanted) taps.set(line * ax.out + ox, static_cast<int32_t>(a.at.v[0]));
      }
    });
    return;
  }
  const auto reduce_rows = [&](int64_t k, int64_t n, int64_t oz, int64_t oy) {
    T *best = scratch + 2 * k * room, *at = best + room;
    bool begun = false;
    for (int64_t tz = az.first[oz]; tz < az.last[oz]; ++tz)
      for (int64_t ty = ay.first[oy]; ty < ay.last[oy]; ++ty) {
        const T* row =
            x + n * plane +
            ((az.start[oz] + tz * az.dilation) * ay.in + ay.start[oy] + ty * ay.dilation) * ax.in;
        const L tap(static_cast<T>((tz * ay.kernel + ty) * ax.kernel));
        each_lane<T>(ax.in, [&](int64_t i, int m) {
          const L v = load_n(row + i, m);
          if (!begun) {
            v.store(best + i);
            if (taps_wanted) tap.store(at + i);
            return;
          }
          const L b = L::load(best + i);
          const auto wins = (v > b) | (v != v);
          select(wins, v, b).store(best + i);
          if (taps_wanted) select(wins, tap, L::load(at + i)).store(at + i);
        });
        begun = true;
      }
  };
  each_line_twice(p, begin, end, reduce_rows, [&](int64_t k, int64_t line, int64_t, int64_t) {
    const T *best = scratch + 2 * k * room, *at = best + room;
    const auto single = [&](int64_t ox) {
      const int64_t t = ax.first[ox], i = ax.start[ox] + t * ax.dilation;
      const Across<T, taps_wanted> a(best + i, at + i, ax.last[ox] - t, ax.dilation, t);
      y[line * ax.out + ox] = a.best.v[0];
      if (taps_wanted) taps.set(line * ax.out + ox, static_cast<int32_t>(a.at.v[0]));
    };
    const auto lanes = [&](int64_t ox, int m) {
      const int64_t from = ax.start[ox];
      L b(0), row(0), column(0);
      for (int64_t t = 0; t < ax.kernel; ++t) {
        const L v = spaced(best + from + t * ax.dilation, ax.stride);
        if (!taps_wanted) {
          b = t == 0 ? v : select((v > b) | (v != v), v, b);
          continue;
        }
        const L r = spaced(at + from + t * ax.dilation, ax.stride);
        if (t == 0) {
          b = v, row = r;
          continue;
        }
        const auto nan = v != v, old_nan = b != b;
        const auto wins =
            (nan & (~old_nan | (r >= row))) | (~old_nan & ((v > b) | ((v == b) & (r < row))));
        b = select(wins, v, b);
        row = select(wins, r, row);
        column = select(wins, L(t), column);
      }
      store_n(y + line * ax.out + ox, b, m);
      if (taps_wanted) store_taps(taps, line * ax.out + ox, row + column, m);
    };
    each_result<T>(ax, inside, lanes, single);
  });
}

template <class S>
void forward(const Pool& p, const S* x, S* y, void* taps, int64_t begin, int64_t end,
             void* scratch) {
  const TapNumbers t{taps, p.wide};
  if constexpr (sizeof(S) > 2)
    if (p.channels == 1) {
      taps ? lines_of_planes<S, true>(p, x, y, t, begin, end, static_cast<S*>(scratch))
           : lines_of_planes<S, false>(p, x, y, t, begin, end, static_cast<S*>(scratch));
      return;
    }
  if (few_channels<In<S>>(p) && p.axis[2].stride > 0) {
    In<S>* const room = static_cast<In<S>*>(scratch);
    taps ? lines_of_few_channels<S, true>(p, x, y, t, begin, end, room)
         : lines_of_few_channels<S, false>(p, x, y, t, begin, end, room);
    return;
  }
  taps ? lines_of_channels<S, true>(p, x, y, t, begin, end)
       : lines_of_channels<S, false>(p, x, y, t, begin, end);
}

// Where a tap of a window lies in the image, in pixels.
TYCHO_INLINE int64_t tap_pixel(const Pool& p, const Place& o, int64_t tap) {
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t tx = tap % ax.kernel, rest = tap / ax.kernel;
  const int64_t ty = rest % ay.kernel, tz = rest / ay.kernel;
  return ((az.start[o.z] + tz * az.dilation) * ay.in + ay.start[o.y] + ty * ay.dilation) * ax.in +
         ax.start[o.x] + tx * ax.dilation;
}

// Calls f(result element, input element) for every result of images [begin, end).
template <class F>
TYCHO_INLINE void each_chosen(const Pool& p, TapNumbers taps, int64_t begin, int64_t end, F&& f) {
  const int64_t lines = p.axis[0].out * p.axis[1].out, width = p.axis[2].out;
  const int64_t image = pixels_of(p) * p.channels;
  // Tap numbers are small: their rows and columns by table, without divisions.
  int64_t offset[256];
  const int64_t kinds = p.axis[0].kernel * p.axis[1].kernel * p.axis[2].kernel;
  const bool table = kinds <= 256;
  for (int64_t t = 0; table && t < kinds; ++t) {
    const int64_t tx = t % p.axis[2].kernel, rest = t / p.axis[2].kernel;
    offset[t] = (rest / p.axis[1].kernel * p.axis[0].dilation * p.axis[1].in +
                 rest % p.axis[1].kernel * p.axis[1].dilation) *
                    p.axis[2].in +
                tx * p.axis[2].dilation;
  }
  each_line(p, begin * lines, end * lines, [&](int64_t line, int64_t n, int64_t z, int64_t row) {
    const int64_t corner =
        (p.axis[0].start[z] * p.axis[1].in + p.axis[1].start[row]) * p.axis[2].in;
    for (int64_t ox = 0; ox < width; ++ox) {
      const int64_t out = (line * width + ox) * p.channels;
      const int64_t first = corner + p.axis[2].start[ox];
      for (int64_t c = 0; c < p.channels; ++c) {
        const int64_t tap = taps.at(out + c);
        const int64_t pixel = table ? first + offset[tap] : tap_pixel(p, {z, row, ox}, tap);
        f(out + c, n * image + pixel * p.channels + c);
      }
    }
  });
}

template <class S>
void scatter(const Pool& p, const S* g, TapNumbers taps, S* x, int64_t begin, int64_t end) {
  using T = In<S>;
  using L = Lane<T>;
  const int64_t lines = p.axis[0].out * p.axis[1].out, width = p.axis[2].out;
  const int64_t image = pixels_of(p) * p.channels;
  const Taps window(p);
  bool tiled = p.apart;  // every pixel lies in one window
  for (const PoolAxis& a : p.axis) tiled = tiled && a.start[0] == 0 && a.out * a.kernel == a.in;
  if (tiled && p.channels > 1 && few_channels<T>(p))
    return spread_few_channels(p, g, taps, x, begin, end);
  const bool lanes = p.channels >= kScatterChannels && window.count <= kScatterTaps;
  if (!lanes || !tiled) memset(x + begin * image, 0, (end - begin) * image * sizeof(S));
  if (!lanes) {
    if constexpr (sizeof(S) > 2)
      each_chosen(p, taps, begin, end,
                  [&](int64_t out, int64_t in) { x[in] = (L(x[in]) + L(g[out])).v[0]; });
    return;
  }
  each_line(p, begin * lines, end * lines, [&](int64_t line, int64_t n, int64_t z, int64_t row) {
    for (int64_t ox = 0; ox < width; ++ox) {
      const int64_t out = (line * width + ox) * p.channels;
      each_lane<T>(p.channels, [&](int64_t c, int m) {
        const L v = take_n(g + out + c, m), at = load_taps<T>(taps, out + c, m);
        S* to = x + n * image + c;
        window.each(p, {z, row, ox}, [&](int64_t pixel, int64_t tap) {
          S* place = to + pixel * p.channels;
          const L part = select(at == L(static_cast<T>(tap)), v, L(0));
          give_n(place, p.apart ? part : part + take_n(place, m), m);
        });
      });
    }
  });
}

TYCHO_INLINE TapNumbers numbers(const Pool* p, const void* taps) {
  return {const_cast<void*>(taps), p->wide};
}

template <class F>
TYCHO_INLINE void by_type(int type, F&& f) {
  type == 0 ? f(0.f) : type == 1 ? f(0.0) : f(int64_t{0});
}
// With bfloat16, by its bits.
template <class F>
TYCHO_INLINE void by_storage(int type, F&& f) {
  type == 3 ? f(uint16_t{0}) : by_type(type, f);
}

}  // namespace

void max_pool_lines(int type, const Pool* p, const void* x, void* y, void* taps, int64_t begin,
                    int64_t end, void* scratch) {
  by_storage(type, [&](auto zero) {
    using S = decltype(zero);
    forward(*p, static_cast<const S*>(x), static_cast<S*>(y), taps, begin, end, scratch);
  });
}

void max_pool_scatter(int type, const Pool* p, const void* g, const void* taps, void* x,
                      int64_t begin, int64_t end) {
  by_storage(type, [&](auto zero) {
    using S = decltype(zero);
    scatter(*p, static_cast<const S*>(g), numbers(p, taps), static_cast<S*>(x), begin, end);
  });
}

void max_pool_gather(int type, const Pool* p, const void* x, const void* taps, void* y,
                     int64_t begin, int64_t end) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    each_chosen(*p, numbers(p, taps), begin, end,
                [&](int64_t out, int64_t in) { to[out] = from[in]; });
  });
}

}  // namespace tycho::cpu::TYCHO_LEVEL
