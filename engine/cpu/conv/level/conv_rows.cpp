// Sums of windows where they lie: a block of windows by two lanes of the result's channels is held in
// registers while all taps run; what a tap sees is read from the images, each number once for both
// lanes.
#include "engine/cpu/conv/conv_rows.h"

#include "engine/cpu/lanes/storage.h"
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int kWindows = 6;  // as many addresses as general registers hold

// Whether a tap's pair is one, or a number alone.
template <bool both>
struct Fellows {};

// What a tap sees of a window, in all lanes, how it is added times `by`, and what results are.
template <class T>
struct Number {
  using X = T;
  using Y = T;
  static TYCHO_INLINE void put(Lane<T> sum, T* to) { sum.store(to); }
  static TYCHO_INLINE void put_some(Lane<T> sum, T* to, int n) { store_part(sum, to, n); }
  static TYCHO_INLINE bool whole(int64_t) { return true; }
  template <class F>
  static TYCHO_INLINE Lane<T> seen(const T* at, int64_t tap, F) {
    return Lane<T>(at[tap]);
  }
  static TYCHO_INLINE Lane<T> add(Lane<T> seen, Lane<T> by, Lane<T> sum) {
    return muladd(seen, by, sum);
  }
};
#ifdef TYCHO_LEVEL_v4
struct Pair : Number<float> {
  using X = uint16_t;
  static TYCHO_INLINE bool whole(int64_t tap) { return tap >= 0; }
  template <bool both>
  static TYCHO_INLINE F32 seen(const uint16_t* at, int64_t tap, Fellows<both>) {
    uint32_t bits;
    if constexpr (both)
      memcpy(&bits, at + tap, sizeof bits);
    else
      bits = at[~tap];
    return F32(__builtin_bit_cast(float, bits));
  }
  // In assembly: not every processor of the level has it.
  static TYCHO_INLINE F32 add(F32 seen, F32 by, F32 sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(seen.v), "v"(by.v));
    return sum;
  }
};
struct RoundedPair : Pair {
  using Y = uint16_t;
  static TYCHO_INLINE void put(F32 sum, uint16_t* to) { v4::put(sum, to); }
  static TYCHO_INLINE void put_some(F32 sum, uint16_t* to, int n) { v4::put_some(sum, to, n); }
};
#endif

template <class T, class Seen>
struct Sums {
  const ConvRows& r;
  const typename Seen::X* x;
  const T *panel, *bias;
  typename Seen::Y* y;
  int last;  // numbers of the last lane

  template <int M, int N>
  void block(const int64_t* from, const int64_t* to) const {
    using L = Lane<T>;
    constexpr int size = L::size;
    const auto get = [this](const T* at, int j) {
      return j == N - 1 && last < size ? load_part(at + j * size, last) : L::load(at + j * size);
    };
    const auto begin = [&](int i, int j) {
      if (r.begin == kZero) return L(0);
      if constexpr (sizeof(typename Seen::Y) == sizeof(T))
        if (r.begin == kAdd) return get(y + to[i], j);
      return get(bias, j);
    };
    const typename Seen::X* at[M];
    L sum[M][N];
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      at[i] = x + from[i];
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j) sum[i][j] = begin(i, j);
    }
    const T* b = panel;
    const int64_t* tap = r.tap;
    const int64_t* const end = tap + r.taps;
    const auto add = [&](auto whole) __attribute__((always_inline)) {
      L by = L::load(b), by_next = L::load(b + (N - 1) * size);  // an array would be stored
      stay(by), stay(by_next);
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        const L seen = Seen::seen(at[i], *tap, whole);
        sum[i][0] = Seen::add(seen, by, sum[i][0]);
        if constexpr (N > 1) sum[i][1] = Seen::add(seen, by_next, sum[i][1]);
      }
      ++tap, b += kBlockLanes * size;
    };
    while (tap < end) {  // the few taps of one number have a loop of their own
      while (tap < end && Seen::whole(*tap)) add(Fellows<true>());
      if (tap < end) add(Fellows<false>());
    }
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j)
        if (j == N - 1 && last < size)
          Seen::put_some(sum[i][j], y + to[i] + j * size, last);
        else
          Seen::put(sum[i][j], y + to[i] + j * size);
  }
  template <int M>
  void windows(int64_t i, int lanes) const {
    lanes == 1 ? block<M, 1>(r.from + i, r.to + i) : block<M, 2>(r.from + i, r.to + i);
  }
  template <int M = kWindows>
  void rest(int64_t i, int64_t n, int lanes) const {
    if constexpr (M > 1)
      if (n < M) return rest<M - 1>(i, n, lanes);
    windows<M>(i, lanes);
  }
};

template <class T, class Seen = Number<T>>
void sums_of(const ConvRows& r, const typename Seen::X* x, const T* panels, const T* bias,
             typename Seen::Y* y) {
  constexpr int size = Lane<T>::size, width = kBlockLanes * size;
  // Wide results are written from left to right where all panels stay near: long columns would write a
  // little to each of many lines, again and again.
  constexpr int64_t kNear = (256 << 10) / sizeof(T);
  const bool wide = r.windows * r.columns > kNear && r.columns * r.taps <= kNear;
  const int64_t each = wide ? 4 * kWindows : r.windows;
  for (int64_t begin = 0; begin < r.windows; begin += each) {
    const int64_t end = r.windows - begin < each ? r.windows : begin + each;
    for (int64_t j = 0; j < r.columns; j += width) {
      const int n = static_cast<int>(r.columns - j < width ? r.columns - j : width);
      const int lanes = n > size ? 2 : 1;
      const Sums<T, Seen> s{
          r, x, panels + j * r.depth, bias ? bias + j : nullptr, y + j, n - (lanes - 1) * size};
      int64_t i = begin;
      // What is left of less than two blocks is cut evenly.
      for (; i + 2 * kWindows <= end || i + kWindows == end; i += kWindows)
        s.template windows<kWindows>(i, lanes);
      if (end - i > kWindows) {
        const int64_t half = (end - i + 1) / 2;
        s.rest(i, half, lanes);
        i += half;
      }
      if (i < end) s.rest(i, end - i, lanes);
    }
  }
}

}  // namespace

void conv_rows(int type, const ConvRows* r, const void* x, const void* panels, const void* bias,
               void* y) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    sums_of(*r, static_cast<const T*>(x), static_cast<const T*>(panels),
            static_cast<const T*>(bias), static_cast<T*>(y));
  };
#ifdef TYCHO_LEVEL_v4
  const auto pairs = [&](auto seen) {
    using Seen = decltype(seen);
    sums_of<float, Seen>(*r, static_cast<const uint16_t*>(x), static_cast<const float*>(panels),
                         static_cast<const float*>(bias), static_cast<typename Seen::Y*>(y));
  };
  if (type == 3) return pairs(Pair());
  if (type == 4) return pairs(RoundedPair());
#endif
  type == 0 ? run(0.f) : type == 1 ? run(0.0) : run(int64_t{0});
}

}  // namespace tycho::cpu::TYCHO_LEVEL
