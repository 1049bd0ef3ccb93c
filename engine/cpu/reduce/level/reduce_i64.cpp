// Folds of int64, and of smaller integers and masks as they lie: widening them first would take longer
// than folding.
#include "engine/cpu/reduce/level/fold_states.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Rows of small integers: A takes up to `block` elements, and then meets the slot.
template <class T_, class A_, int64_t kBlock>
struct SmallSum {
  using T = T_;
  using A = A_;
  static constexpr int64_t block = kBlock, begin = 0;
  static constexpr A start = 0;
  static TYCHO_INLINE A take(A a, T x) { return static_cast<A>(a + static_cast<A>(x)); }
  static TYCHO_INLINE int64_t join(int64_t s, int64_t a) { return plus(s, a); }
};
struct NonZero : SmallSum<uint8_t, uint8_t, 255> {
  static TYCHO_INLINE A take(A a, T x) { return static_cast<A>(a + (x != 0)); }
};
template <class T_, bool Largest>
struct SmallExtreme {
  using T = T_;
  using A = T_;
  static constexpr int64_t block = INT64_MAX, begin = Largest ? INT64_MIN : INT64_MAX;
  static constexpr bool sign = static_cast<T>(-1) < 0;
  static constexpr T low = sign ? static_cast<T>(T(1) << (8 * sizeof(T) - 1)) : T(0);
  static constexpr A start = Largest ? low : static_cast<T>(~low);
  static TYCHO_INLINE A take(A a, T x) { return (Largest ? x > a : x < a) ? x : a; }
  static TYCHO_INLINE int64_t join(int64_t s, int64_t a) {
    return (Largest ? a > s : a < s) ? a : s;
  }
};

// Rows of 8 to kShortRow bytes: a loop would cost more before and after than in itself. The last 16 (or 8)
// bytes are taken whole; what they share with those before counts once.
constexpr int64_t kShortRow = 256;

alignas(32) constexpr uint8_t kLastBytes[32] = {
    0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

TYCHO_INLINE __m128i bytes_at(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
// Eight bytes and, behind them, eight others.
TYCHO_INLINE __m128i eights(const void* a, const void* b) {
  return _mm_unpacklo_epi64(_mm_loadl_epi64(static_cast<const __m128i*>(a)),
                            _mm_loadl_epi64(static_cast<const __m128i*>(b)));
}

// `flip`: signed bytes, counted from -128. `truths`: what is not 0 counts as 1.
template <bool flip, bool truths>
TYCHO_INLINE int64_t sum_of_row(const uint8_t* x, int64_t n) {
  const __m128i sign = _mm_set1_epi8(flip ? -128 : 0), zero = _mm_setzero_si128();
  const auto counted = [&](__m128i bytes) __attribute__((always_inline)) {
    const __m128i v = _mm_xor_si128(bytes, sign);
    return truths ? _mm_min_epu8(v, _mm_set1_epi8(1)) : v;
  };
  __m128i sum = zero;
  if (n < 16) {
    const __m128i whole = _mm_set1_epi8(-1), last = bytes_at(kLastBytes + n - 8);
    const __m128i once = _mm_unpacklo_epi64(whole, _mm_srli_si128(last, 8));
    sum = _mm_sad_epu8(_mm_and_si128(counted(eights(x, x + n - 8)), once), zero);
  } else {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
      sum = _mm_add_epi64(sum, _mm_sad_epu8(counted(bytes_at(x + i)), zero));
    const __m128i once = bytes_at(kLastBytes + n - i);
    sum =
        _mm_add_epi64(sum, _mm_sad_epu8(_mm_and_si128(counted(bytes_at(x + n - 16)), once), zero));
  }
  const int64_t all = _mm_cvtsi128_si64(sum) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum));
  return flip ? all - 128 * n : all;
}

template <bool flip, bool largest>
TYCHO_INLINE int64_t extreme_of_row(const uint8_t* x, int64_t n) {
  const __m128i sign = _mm_set1_epi8(flip ? -128 : 0);
  const auto meet = [](__m128i a, __m128i b) __attribute__((always_inline)) {
    return largest ? _mm_max_epu8(a, b) : _mm_min_epu8(a, b);
  };
  __m128i m = _mm_xor_si128(n < 16 ? eights(x, x + n - 8) : bytes_at(x + n - 16), sign);
  for (int64_t i = 0; i + 16 <= n; i += 16) m = meet(m, _mm_xor_si128(bytes_at(x + i), sign));
  m = meet(m, _mm_srli_si128(m, 8));
  m = meet(m, _mm_srli_si128(m, 4));
  m = meet(m, _mm_srli_si128(m, 2));
  m = meet(m, _mm_srli_si128(m, 1));
  const int64_t all = _mm_cvtsi128_si32(m) & 255;
  return flip ? all - 128 : all;
}

template <class Row>
struct Small {
  using T = typename Row::T;
  using A = typename Row::A;
  static void init(Slot* s, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) s[j].i = Row::begin;
  }
  static void merge(Slot* to, int64_t, const Slot* from, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) to[j].i = Row::join(to[j].i, from[j].i);
  }
  static void run(const void* px, int64_t n, int64_t, Slot* s, int64_t) {
    const T* x = static_cast<const T*>(px);
    constexpr int64_t w = 4 * TYCHO_LANE_BYTES / sizeof(A);
    while (n >= 4 * w) {  // side by side, in registers
      const int64_t lines = n / w, m = lines < Row::block ? lines : Row::block;
      A a[w];
      for (int64_t k = 0; k < w; ++k) a[k] = Row::start;
      for (int64_t r = 0; r < m; ++r, x += w)
        for (int64_t k = 0; k < w; ++k) a[k] = Row::take(a[k], x[k]);
      for (int64_t k = 0; k < w; ++k) s->i = Row::join(s->i, a[k]);
      n -= m * w;
    }
    while (n > 0) {
      const int64_t m = n < Row::block ? n : Row::block;
      A a = Row::start;
      for (int64_t i = 0; i < m; ++i) a = Row::take(a, x[i]);
      s->i = Row::join(s->i, a);
      x += m;
      n -= m;
    }
  }
  static void rows(const void* px, int64_t step, int64_t count, int64_t cols, int64_t, Slot* s,
                   int64_t) {
    const T* x = static_cast<const T*>(px);
    A a[kFoldCols];
    while (count > 0) {
      const int64_t m = count < Row::block ? count : Row::block;
      for (int64_t j = 0; j < cols; ++j) a[j] = Row::start;
      for (int64_t r = 0; r < m; ++r, x += step)
        for (int64_t j = 0; j < cols; ++j) a[j] = Row::take(a[j], x[j]);
      for (int64_t j = 0; j < cols; ++j) s[j].i = Row::join(s[j].i, a[j]);
      count -= m;
    }
  }
  static void shallow(const void* px, int64_t step, int64_t count, int64_t cols, double, void* to) {
    constexpr int64_t w = 4 * TYCHO_LANE_BYTES / sizeof(T);
    const T* x = static_cast<const T*>(px);
    T* y = static_cast<T*>(to);
    T a[w];
    for (int64_t j = 0; j < cols; j += w) {
      if (j + w <= cols) {
        for (int64_t k = 0; k < w; ++k) a[k] = x[j + k];
        for (int64_t r = 1; r < count; ++r)
          for (int64_t k = 0; k < w; ++k) a[k] = Row::take(a[k], x[r * step + j + k]);
        for (int64_t k = 0; k < w; ++k) y[j + k] = a[k];
        continue;
      }
      for (; j < cols; ++j) {
        T one = x[j];
        for (int64_t r = 1; r < count; ++r) one = Row::take(one, x[r * step + j]);
        y[j] = one;
      }
    }
  }
  static constexpr bool is_extreme = __is_same(T, A) && Row::begin != 0;
  static void short_rows(const void* px, int64_t step, int64_t count, int64_t n, Slot* s,
                         int64_t cap) {
    if constexpr (sizeof(T) == 1) {
      constexpr bool flip = static_cast<T>(-1) < 0;
      if (n >= 8 && n < kShortRow) {
        const uint8_t* x = static_cast<const uint8_t*>(px);
        for (int64_t k = 0; k < count; ++k, x += step) {
          if constexpr (is_extreme)
            s[k].i = Row::join(s[k].i, extreme_of_row<flip, (Row::begin < 0)>(x, n));
          else
            s[k].i += sum_of_row<flip, __is_same(Row, NonZero)>(x, n);
        }
        return;
      }
    }
    each<T, run>(px, step, count, n, s, cap);
  }
  static constexpr Fold make() {
    if constexpr (is_extreme)
      return {1, init, run, short_rows, rows, merge, shallow};
    else
      return {1, init, run, short_rows, rows, merge, nullptr};
  }
  static constexpr Fold fold = make();
};

template <class T>
const Fold* extreme(FoldOp op) {
  return op == shared_fold(FoldOp::amax)   ? &Small<SmallExtreme<T, true>>::fold
         : op == shared_fold(FoldOp::amin) ? &Small<SmallExtreme<T, false>>::fold
                                           : nullptr;
}

}  // namespace

const Fold* fold_i64(int op) { return folds<int64_t> + op; }

const Fold* fold_small(int kind, int op) {
  const FoldOp o = static_cast<FoldOp>(op);
  const bool sum = o == shared_fold(FoldOp::sum);
  switch (static_cast<SmallKind>(kind)) {
    case SmallKind::U8:
      return sum ? &Small<SmallSum<uint8_t, uint16_t, 257>>::fold
             : o == shared_fold(FoldOp::count_nonzero) ? &Small<NonZero>::fold
                                                       : extreme<uint8_t>(o);
    case SmallKind::I8:
      return sum ? &Small<SmallSum<int8_t, int16_t, 255>>::fold : extreme<int8_t>(o);
    case SmallKind::I16:
      return sum ? &Small<SmallSum<int16_t, int32_t, 1 << 15>>::fold : extreme<int16_t>(o);
    default:
      return sum ? &Small<SmallSum<int32_t, int64_t, INT64_MAX>>::fold : extreme<int32_t>(o);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
