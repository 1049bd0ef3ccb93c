// What positions of grid_sample read, and with which weights (see grid_sample.h): a lane of them at a time.
#pragma once
#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/nn/grid_sample.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

using Mode = GridSampler::Mode;
template <int n>
struct Count {
  static constexpr int value = n;
};

// What some positions read: tap k of point i. There are whole lanes of points; what those beyond the last one read is
// dropped.
template <class T>
struct Taps {
  alignas(64) int32_t place[kGridTaps][kGridPoints];  // -1: outside, where zeros are
  alignas(64) T weight[kGridTaps][kGridPoints];
  alignas(64)
      T slope[3][kGridTaps][kGridPoints];  // of the weight, by the grid's number of each dimension
};

// Back into the image: at its border, or folded like a ball between walls. `slope` is multiplied by what this
// does to a small step (as PyTorch, none at the border itself).
template <class T>
TYCHO_INLINE void fold_in(const GridSampler& s, int d, Lane<T>& x, Lane<T>& slope) {
  using L = Lane<T>;
  const T last = static_cast<T>(s.size[d] - 1);
  if (s.padding == GridSampler::Zeros) return;
  if (s.padding == GridSampler::Reflection) {
    const T low = s.corners ? T(0) : T(-0.5), span = s.corners ? last : last + 1;
    if (span == 0) {
      x *= L(0), slope *= L(0);
    } else {
      const L from = x - L(low), away = abs(from), flips = floor(away / L(span)),
              extra = away - flips * L(span), odd = flips - L(2) * floor(flips * L(T(0.5)));
      x = select(odd == L(0), extra + L(low), L(span) - extra + L(low));
      slope = select((odd == L(0)) ^ (from < L(0)), slope, -slope);
    }
  }
  slope = select((x <= L(0)) | (x >= L(last)), L(0), slope);
  x = select(x < L(0), L(0), x);
  x = select(x > L(last), L(last), x);
}

// Keys' convolution, a = -0.75: the weights of four neighbours, the second of which is t below, and their slopes.
template <class L>
TYCHO_INLINE void cubic_parts(L t, L* part, L* step) {
  const L a(-0.75);
  const auto near = [&](L v) __attribute__((always_inline)) {
    return (v * (a + 2) - (a + 3)) * v * v + 1;
  };
  const auto far = [&](L v) __attribute__((always_inline)) {
    return ((v * a - a * 5) * v + a * 8) * v - a * 4;
  };
  const auto near_step = [&](L v) __attribute__((always_inline)) {
    return ((a + 2) * v * 3 - (a + 3) * 2) * v;
  };
  const auto far_step = [&](L v) __attribute__((always_inline)) {
    return (a * v * 3 - a * 10) * v + a * 8;
  };
  part[0] = far(t + 1), part[1] = near(t), part[2] = near(L(1) - t), part[3] = far(L(2) - t);
  step[0] = far_step(t + 1), step[1] = near_step(t);
  step[2] = -near_step(L(1) - t), step[3] = -far_step(L(2) - t);
}

// The taps of a lane of points, whose numbers are in g, one lane for each dimension.
template <Mode mode, bool slopes, int dims, class T>
TYCHO_INLINE void find_lane(const GridSampler& s, const Lane<T>* g, int i, Taps<T>& taps) {
  using L = Lane<T>;
  using I = typename Raw<T>::Ints;
  constexpr int shift = mode == Mode::Nearest ? 0 : mode == Mode::Linear ? 1 : 2;
  constexpr int each = 1 << shift;
  L chain[dims], part[dims][each], step[dims][each];
  I line[dims][each];
  for (int d = 0; d < dims; ++d) {
    const T n = static_cast<T>(s.size[d]);
    const L x = g[d] + 1;
    L at = s.corners ? x * L((n - 1) / 2) : (x * L(n) - 1) * L(T(0.5));
    chain[d] = L((s.corners ? n - 1 : n) / 2);
    if (mode != Mode::Cubic) fold_in(s, d, at, chain[d]);
    const L low = mode == Mode::Nearest ? round(at) : floor(at), t = at - low;
    if constexpr (mode == Mode::Nearest) part[d][0] = L(1), step[d][0] = L(0);
    if constexpr (mode == Mode::Linear) {
      part[d][0] = L(1) - t, part[d][1] = t;
      step[d][0] = L(-1), step[d][1] = L(1);
    }
    if constexpr (mode == Mode::Cubic) cubic_parts(t, part[d], step[d]);
    for (int j = 0; j < each; ++j) {
      L place = low + L(T(mode == Mode::Cubic ? j - 1 : j)), ignored(0);
      if (mode == Mode::Cubic) fold_in(s, d, place, ignored);
      place = select((place >= L(0)) & (place < L(n)), place, L(-1));
      line[d][j] = __builtin_convertvector(place.v, I);
    }
  }
  for (int k = 0; k < 1 << (shift * dims); ++k) {
    const int first = k & (each - 1);
    I place = line[0][first], outside = place;
    L weight = part[0][first];
    for (int d = 1; d < dims; ++d) {
      const int j = k >> (d * shift) & (each - 1);
      place = place * static_cast<typename Raw<T>::Int>(s.size[d]) + line[d][j];
      outside |= line[d][j];
      weight *= part[d][j];
    }
    place |= outside >> (8 * sizeof(T) - 1);  // all bits where one is negative
    typedef int32_t Places __attribute__((vector_size(L::size * 4)));
    const Places narrow = __builtin_convertvector(place, Places);
    memcpy(taps.place[k] + i, &narrow, sizeof(narrow));
    weight.store(taps.weight[k] + i);
    for (int by = 0; slopes && by < dims; ++by) {
      L slope = chain[by];
      for (int d = 0; d < dims; ++d) {
        const int j = k >> (d * shift) & (each - 1);
        slope *= d == by ? step[d][j] : part[d][j];
      }
      slope.store(taps.slope[by][k] + i);
    }
  }
}

// The first and the second of each pair of numbers at g.
template <class T>
TYCHO_INLINE void pairs_apart(const T* g, Lane<T>* first, Lane<T>* second) {
  using I = typename Raw<T>::Ints;
  constexpr int size = Lane<T>::size;
  const auto low = Lane<T>::load(g).v, high = Lane<T>::load(g + size).v;
  I at;
  for (int j = 0; j < size; ++j) at[j] = 2 * j;
  first->v = __builtin_shuffle(low, high, at);
  second->v = __builtin_shuffle(low, high, at + 1);
}

// g: `dims` numbers for each of m positions, the last dimension first.
template <Mode mode, bool slopes, int dims, class T>
void find_taps_of(const GridSampler& s, const T* g, int m, Taps<T>& taps) {
  using L = Lane<T>;
  for (int i = 0; i < m; i += L::size, g += L::size * dims) {
    L lanes[dims];
    if (i + L::size <= m && dims == 2) {
      pairs_apart(g, &lanes[dims - 1], &lanes[0]);
    } else {
      T apart[dims][L::size];
      for (int d = 0; d < dims; ++d)
        for (int j = 0; j < L::size; ++j)
          apart[d][j] = i + j < m ? g[j * dims + dims - 1 - d] : T(-1e6);
      for (int d = 0; d < dims; ++d) lanes[d] = L::load(apart[d]);
    }
    find_lane<mode, slopes, dims>(s, lanes, i, taps);
  }
}
template <bool slopes, class T>
void find_taps(const GridSampler& s, const T* g, int m, Taps<T>& taps) {
  const auto in = [&](auto dims) {
    constexpr int n = decltype(dims)::value;
    if (s.mode == Mode::Nearest)
      find_taps_of<Mode::Nearest, slopes, n>(s, g, m, taps);
    else if (s.mode == Mode::Linear)
      find_taps_of<Mode::Linear, slopes, n>(s, g, m, taps);
    else if constexpr (n == 2)
      find_taps_of<Mode::Cubic, slopes, n>(s, g, m, taps);
  };
  s.dims == 2 ? in(Count<2>()) : in(Count<3>());
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
