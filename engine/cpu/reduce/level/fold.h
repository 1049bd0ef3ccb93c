// The loops that drive the folds of fold_ops.h: over a run, and over rows.
#pragma once
#include "engine/cpu/reduce/level/fold_ops.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// At most this many elements go through the registers before the state moves to its slot.
template <class T>
constexpr int64_t run_block = 8 * Lane<T>::size * 32;
template <class Op>
concept IsExact = requires {
  Op::kExact;
};
template <class Op>
concept SumsFloats = requires {
  Op::kSumsOfFloats;
};
template <class Op>
constexpr int64_t block_of = IsExact<Op> ? INT64_MAX : run_block<typename Op::T>;

template <class Op>
TYCHO_INLINE typename Op::A accumulate(const typename Op::T* x, int64_t n) {
  using T = typename Op::T;
  if constexpr (HasQuick<Op>) {
    typename Op::A a = Op::start();
    for (int64_t m; n > 0; x += m, n -= m) {
      m = n < Op::steps * Lane<T>::size ? n : Op::steps * Lane<T>::size;
      const F32 fast = accumulate<typename Op::Quick>(x, m);
      if (m >= Lane<T>::size && Op::sound(fast)) [[likely]]
        Op::take(a, fast);
      else
        Op::join(a, accumulate<typename Op::Exact>(x, m));
    }
    return a;
  } else {
    constexpr int w = Lane<T>::size;
    // Extremes are two registers each, of which there are sixteen before AVX-512.
    constexpr int beside = IsExact<Op> && TYCHO_LANE_BYTES < 64 ? 4 : 8;
    typename Op::A all = Op::start();
    int64_t i = 0;
    if (n >= beside * w) {
      typename Op::A a[beside];
      for (int u = 0; u < beside; ++u) a[u] = Op::start();
      for (; i + beside * w <= n; i += beside * w)
#pragma GCC unroll 8
        for (int u = 0; u < beside; ++u) Op::step(a[u], Lane<T>::load(x + i + u * w));
      for (int u = beside / 2; u; u /= 2)
        for (int k = 0; k < u; ++k) Op::join(a[k], a[k + u]);
      all = a[0];
    }
    for (; i + w <= n; i += w) Op::step(all, Lane<T>::load(x + i));
    if (i < n) {
      const int count = static_cast<int>(n - i);
      Op::part(all, load_part<T>(x + i, count, 0), count);
    }
    return all;
  }
}

// Whole blocks of floats, of which load(i) reads a lane: how many they were. A block takes 16 steps, and then goes
// on in double: even equal addends, whose rounding errors add up, lose little.
template <class Op, class F>
TYCHO_INLINE int64_t sum_blocks(int64_t n, Slot* s, F load) {
  constexpr int w = F32::size, block = 8 * w * 16;
  static_assert(kHalves % block == 0);
  int64_t at = 0;
  for (; at + block <= n; at += block) {
    typename Op::A a[8];
    for (int u = 0; u < 8; ++u) a[u] = Op::start();
    for (int64_t i = at; i < at + block; i += 8 * w)
#pragma GCC unroll 8
      for (int u = 0; u < 8; ++u) Op::step(a[u], load(i + u * w));
    F64 sum(0);
    for (int u = 0; u < 8; ++u) sum += low_half(a[u]) + high_half(a[u]);
    Add<double, Itself>::fold(sum, s);
  }
  return at;
}
// Of two bytes each: as a widened tile of them would be summed.
template <class Op>
int64_t sum_halves([[maybe_unused]] bool bfloat16, [[maybe_unused]] const void* px,
                   [[maybe_unused]] int64_t n, [[maybe_unused]] Slot* s) {
#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
  const auto* const x = static_cast<const uint16_t*>(px);
  using V = typename Raw<float>::V;
  n -= n % kHalves;
#if defined(TYCHO_LEVEL_v4)
  const auto bits = [&](int64_t i) __attribute__((always_inline)) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
  };
  if (!bfloat16)
    return sum_blocks<Op>(
        n, s, [&](int64_t i) { return F32((V)_mm512_maskz_cvtph_ps(0xffff, bits(i))); });
  return sum_blocks<Op>(n, s, [&](int64_t i) {
    return F32(
        (V)_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits(i)), 16));
  });
#else
  const auto bits = [&](int64_t i) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
  };
  if (!bfloat16)
    return sum_blocks<Op>(n, s, [&](int64_t i) { return F32((V)_mm256_cvtph_ps(bits(i))); });
  return sum_blocks<Op>(n, s, [&](int64_t i) {
    return F32((V)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits(i)), 16));
  });
#endif
#else
  return 0;
#endif
}

template <class Op>
void run(const void* px, int64_t n, int64_t, Slot* s, int64_t) {
  using T = typename Op::T;
  const T* x = static_cast<const T*>(px);
  if constexpr (SumsFloats<Op>) {
    const int64_t done = sum_blocks<Op>(n, s, [&](int64_t i) { return F32::load(x + i); });
    x += done, n -= done;
  }
  while (n > 0) {
    const int64_t m = n < block_of<Op> ? n : block_of<Op>;
    Op::fold(accumulate<Op>(x, m), s);
    x += m;
    n -= m;
  }
}

// `count` rows into n registers of columns, of which the last may be a part.
template <class Op, int n>
TYCHO_INLINE void take_rows(typename Op::A* a, const typename Op::T* x, int64_t step, int64_t count,
                            int rest) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  for (int64_t r = 0; r < count; ++r, x += step)
#pragma GCC unroll 4
    for (int k = 0; k < n; ++k)
      Op::step(a[k], rest ? load_part<T>(x, rest, 0) : Lane<T>::load(x + k * w));
}
// What those rows have come to as floats, in double; what is not there is dropped at last.
template <class Op>
TYCHO_INLINE void take_fast(typename Op::A& a, F32 fast, const float* x, int64_t step,
                            int64_t count, int rest) {
  if (rest) fast = select(first<float>(rest), fast, F32(1));
  if (Op::sound(fast)) [[likely]]
    Op::take(a, fast);
  else
    take_rows<typename Op::Exact, 1>(&a, x, step, count, rest);
}

template <class Op>
void rows(const void* px, int64_t step, int64_t count, int64_t cols, int64_t, Slot* s, int64_t) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  using Fast = typename RowsOf<Op>::Fast;
  const int64_t full = cols / w;
  const int rest = static_cast<int>(cols % w);
  typename Fast::A tile[kFoldCols / w + 1];
  const T* x = static_cast<const T*>(px);
  while (count > 0) {
    const int64_t m = count < RowsOf<Op>::steps ? count : RowsOf<Op>::steps;
    for (int64_t j = 0; j < full + (rest != 0); ++j) tile[j] = Fast::start();
    int64_t r = 0;
    for (; r + 4 <= m; r += 4) {
      const T *p = x + r * step, *q = p + step, *u = q + step, *v = u + step;
      for (int64_t j = 0; j < full; ++j) {
        typename Fast::A a = tile[j];
        Fast::step(a, Lane<T>::load(p + j * w));
        Fast::step(a, Lane<T>::load(q + j * w));
        Fast::step(a, Lane<T>::load(u + j * w));
        Fast::step(a, Lane<T>::load(v + j * w));
        tile[j] = a;
      }
      if (rest)
        for (int k = 0; k < 4; ++k)
          Fast::step(tile[full], load_part<T>(p + k * step + full * w, rest, 0));
    }
    for (; r < m; ++r) {
      const T* p = x + r * step;
      for (int64_t j = 0; j < full; ++j) Fast::step(tile[j], Lane<T>::load(p + j * w));
      if (rest) Fast::step(tile[full], load_part<T>(p + full * w, rest, 0));
    }
    for (int64_t j = 0; j < full + (rest != 0); ++j) {
      const int part = j < full ? 0 : rest;
      if constexpr (HasQuick<Op>) {
        typename Op::A a = Op::start();
        take_fast<Op>(a, tile[j], x + j * w, step, m, part);
        Op::flush(a, s + j * w, part ? part : w);
      } else {
        Op::flush(tile[j], s + j * w, part ? part : w);
      }
    }
    x += m * step;
    count -= m;
  }
}

// n registers of columns.
template <class Op, int n>
TYCHO_INLINE void shallow_at(const typename Op::T* x, int64_t step, int64_t count, double by,
                             typename Op::T* to, int rest) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  if constexpr (HasQuick<Op>) {  // what one quick result is all of needs no doubles
    if (count <= Op::steps && by == 1 && !rest) {
      F32 fast[n];
      for (int k = 0; k < n; ++k) fast[k] = Op::Quick::start();
      take_rows<typename Op::Quick, n>(fast, x, step, count, 0);
      bool sound = true;
      for (int k = 0; k < n; ++k) sound &= Op::sound(fast[k]);
      if (sound) [[likely]] {
        for (int k = 0; k < n; ++k) fast[k].store(to + k * w);
        return;
      }
    }
  }
  typename Op::A a[n];
  for (int k = 0; k < n; ++k) a[k] = Op::start();
  if constexpr (HasQuick<Op>) {
    for (int64_t m; count > 0; x += m * step, count -= m) {
      m = count < Op::steps ? count : Op::steps;
      F32 fast[n];
      for (int k = 0; k < n; ++k) fast[k] = Op::Quick::start();
      take_rows<typename Op::Quick, n>(fast, x, step, m, rest);
      for (int k = 0; k < n; ++k) take_fast<Op>(a[k], fast[k], x + k * w, step, m, rest);
    }
  } else {
    take_rows<Op, n>(a, x, step, count, rest);
  }
#pragma GCC unroll 4
  for (int k = 0; k < n; ++k) {
    Lane<T> y = Op::value(a[k]);
    if constexpr (sizeof(T) == 4) {
      if (by != 1) y = join(low_half(y) / F64(by), high_half(y) / F64(by));
    } else if constexpr (!is_int<T>) {
      if (by != 1) y = y / Lane<T>(by);
    }
    if (rest)
      store_part(y, to, rest);
    else
      y.store(to + k * w);
  }
}
template <class Op>
void shallow(const void* px, int64_t step, int64_t count, int64_t cols, double by, void* to) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  const T* x = static_cast<const T*>(px);
  T* y = static_cast<T*>(to);
  int64_t j = 0;
  for (; j + 4 * w <= cols; j += 4 * w) shallow_at<Op, 4>(x + j, step, count, by, y + j, 0);
  for (; j + w <= cols; j += w) shallow_at<Op, 1>(x + j, step, count, by, y + j, 0);
  if (j < cols) shallow_at<Op, 1>(x + j, step, count, by, y + j, static_cast<int>(cols - j));
}

template <class T, auto run>
void each(const void* px, int64_t step, int64_t count, int64_t n, Slot* s, int64_t cap) {
  const T* x = static_cast<const T*>(px);
  for (int64_t k = 0; k < count; ++k) run(x + k * step, n, 0, s + k, cap);
}

// The most elements of a run that meet its slot once.
template <class Op>
constexpr int64_t kOneBlock =
    SumsFloats<Op> ? 8 * Lane<typename Op::T>::size * 16 - 1 : block_of<Op>;

// Runs beside each other: of short ones, what their registers hold meets for a lane's worth of runs at once.
template <class Op>
void each_run(const void* px, int64_t step, int64_t count, int64_t n, Slot* s, int64_t cap) {
  using T = typename Op::T;
  using W = decltype(Op::ends(Op::start()));
  using S = typename SlotOf<T>::S;
  const T* x = static_cast<const T*>(px);
  int64_t k = 0;
  for (; n > 0 && n <= kOneBlock<Op> && k + W::size <= count; k += W::size) {
    W ends[W::size];
    bool odd = false;
    for (int u = 0; u < W::size; ++u) {
      const typename Op::A a = accumulate<Op>(x + (k + u) * step, n);
      odd |= Op::odd(a);
      ends[u] = Op::ends(a);
    }
    if (odd) {
      each<T, run<Op>>(x + k * step, step, W::size, n, s + k, cap);
      continue;
    }
    const W met = each_across<S>([&](int u) { return ends[u]; }, typename Op::Meet());
    W slots;
    memcpy(&slots, s + k, sizeof slots);
    slots = typename Op::Meet()(met, slots);
    memcpy(s + k, &slots, sizeof slots);
  }
  if (k < count) each<T, run<Op>>(x + k * step, step, count - k, n, s + k, cap);
}

template <class Op>
constexpr Fold make_fold() {
  Fold f = {1, Op::init, run<Op>, each_run<Op>, rows<Op>, Op::merge, shallow<Op>};
  if constexpr (SumsFloats<Op>) f.halves = sum_halves<Op>;
  return f;
}

// The op of a row in lanes of T.
template <Combine combine, class T, class Map>
struct OpOf {
  using Op = Add<T, Map>;
};
template <class Map>
struct OpOf<Combine::Sum, float, Map> {
  using Op = AddFloats<Map>;
};
template <class Map>
struct OpOf<Combine::WideSum, float, Map> {
  using Op = AddWide<Map>;
};
template <class T, class Map>
struct OpOf<Combine::Product, T, Map> {
  using Op = Multiply<T, Map>;
};
template <class Map>
struct OpOf<Combine::Product, float, Map> {
  using Op = MultiplyFloats<Map>;
};
template <class T, class Map>
struct OpOf<Combine::Largest, T, Map> {
  using Op = Extreme<T, Map, true>;
};
template <class T, class Map>
struct OpOf<Combine::Smallest, T, Map> {
  using Op = Extreme<T, Map, false>;
};
template <class T, FoldOp op, class Map>
constexpr Fold row_fold() {
  constexpr FoldRow row = fold_rows[static_cast<int>(op)];
  if constexpr (shared_fold(op) != op || (is_int<T> && row.lanes == FoldLanes::Floats))
    return {};
  else
    return make_fold<typename OpOf<row.combine, T, Map>::Op>();
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
