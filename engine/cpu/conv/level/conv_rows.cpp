// Sums of windows where they lie: a block of windows by two lanes of the result's channels is held in
// registers while all taps run; what a tap sees is read from the images, each number once for both
// lanes.
#include "engine/cpu/conv/conv_rows.h"

#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int kWindows = 6;  // as many addresses as general registers hold

// What a tap sees of a window, in all lanes, and how it is added times `by`.
template <class T>
struct Number {
  using X = T;
  static TYCHO_INLINE Lane<T> seen(const T* at, int64_t tap) { return Lane<T>(at[tap]); }
  static TYCHO_INLINE Lane<T> add(Lane<T> seen, Lane<T> by, Lane<T> sum) {
    return muladd(seen, by, sum);
  }
};
#ifdef TYCHO_LEVEL_v4
struct Pair {
  using X = uint16_t;
  static TYCHO_INLINE F32 seen(const uint16_t* at, int64_t tap) {
    uint32_t bits;
    if (tap >= 0)
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
#endif

template <class T, class Seen>
struct Sums {
  const ConvRows& r;
  const typename Seen::X* x;
  const T *panel, *bias;
  T* y;
  int last;  // numbers of the last lane

  template <int M, int N>
  void block(const int64_t* from, const int64_t* to) const {
    using L = Lane<T>;
    constexpr int size = L::size;
    const auto get = [this](const T* at, int j) {
      return j == N - 1 && last < size ? load_part(at + j * size, last) : L::load(at + j * size);
    };
    const typename Seen::X* at[M];
    L sum[M][N];
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      at[i] = x + from[i];
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j)
        sum[i][j] = r.begin == kZero ? L(0) : get(r.begin == kAdd ? y + to[i] : bias, j);
    }
    const T* b = panel;
    for (int64_t k = 0; k < r.taps; ++k, b += kBlockLanes * size) {
      const int64_t tap = r.tap[k];
      L by[N];
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j) {
        by[j] = L::load(b + j * size);
        stay(by[j]);
      }
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        const L seen = Seen::seen(at[i], tap);
#pragma GCC unroll 2
        for (int j = 0; j < N; ++j) sum[i][j] = Seen::add(seen, by[j], sum[i][j]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < N; ++j)
        if (j == N - 1 && last < size)
          store_part(sum[i][j], y + to[i] + j * size, last);
        else
          sum[i][j].store(y + to[i] + j * size);
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
void sums_of(const ConvRows& r, const typename Seen::X* x, const T* panels, const T* bias, T* y) {
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
  if (type == 3)
    return sums_of<float, Pair>(*r, static_cast<const uint16_t*>(x),
                                static_cast<const float*>(panels), static_cast<const float*>(bias),
                                static_cast<float*>(y));
#endif
  type == 0 ? run(0.f) : type == 1 ? run(0.0) : run(int64_t{0});
}

}  // namespace tycho::cpu::TYCHO_LEVEL
