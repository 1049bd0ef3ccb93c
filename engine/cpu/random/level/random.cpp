// The inner loops of engine/cpu/random/random.cpp: outputs of the generator to numbers, a tile at a
// time. Logarithm, sine and cosine are needed on short ranges only, (0, 1] and [0, 2 pi), so they
// are written out here: no special values, and no reduction of large angles.
#include "engine/cpu/lanes/convert.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// What differs between float and double.
template <class T>
struct Real;

template <>
struct Real<float> {
  using Bits = Raw<float>::Bits;
  static constexpr int mantissa = 23;
  static constexpr uint32_t half_root = 0x3f3504f3;  // the bits of sqrt(1/2)
  static constexpr float round = 0x1.8p23f;          // adding and subtracting it rounds
  static constexpr float ln2_high = 0x1.62ep-1f, ln2_low = 0x1.0bfbe8p-15f;
  // pi / 2 in three parts; a part times a number below 8 is exact.
  static constexpr float pio2[] = {0x1.92p0f, 0x1.fb4p-12f, 0x1.4442d2p-24f};
  static constexpr float two_pi = 6.28318530717958647692;
  // log(1 + f) = 2 atanh(s) with s = f / (2 + f), as s * (2 + z * (c[0] + z * (...))), z = s * s.
  static constexpr float atanh[] = {2.f / 3, 2.f / 5, 2.f / 7, 2.f / 9};
  static constexpr float sine[] = {-1.f / 6, 1.f / 120, -1.f / 5040, 1.f / 362880};
  static constexpr float cosine[] = {1.f / 24, -1.f / 720, 1.f / 40320, -1.f / 3628800};
};

template <>
struct Real<double> {
  using Bits = Raw<double>::Bits;
  static constexpr int mantissa = 52;
  static constexpr uint64_t half_root = 0x3fe6a09e667f3bcd;
  static constexpr double round = 0x1.8p52;
  static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
  static constexpr double pio2[] = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
  static constexpr double two_pi = 6.28318530717958647692;
  static constexpr double atanh[] = {2. / 3,  2. / 5,  2. / 7,  2. / 9,  2. / 11,
                                     2. / 13, 2. / 15, 2. / 17, 2. / 19, 2. / 21};
  static constexpr double sine[] = {
      -1. / 6,        1. / 120,        -1. / 5040,         1. / 362880,
      -1. / 39916800, 1. / 6227020800, -1. / 1307674368000};
  static constexpr double cosine[] = {
      1. / 24,        -1. / 720,         1. / 40320,         -1. / 3628800,
      1. / 479001600, -1. / 87178291200, 1. / 20922789888000};
};

// c[0] + x * (c[1] + x * (...))
template <class T, int n>
TYCHO_INLINE Lane<T> polynomial(Lane<T> x, const T (&c)[n]) {
  Lane<T> y = c[n - 1];
#pragma GCC unroll 16
  for (int i = n - 2; i >= 0; --i) y = fma(y, x, c[i]);
  return y;
}

template <class T>
TYCHO_INLINE Lane<T> square_root(Lane<T> x) {
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4)
    return Lane<T>((typename Raw<T>::V)_mm512_maskz_sqrt_ps(-1, (__m512)x.v));
  else
    return Lane<T>((typename Raw<T>::V)_mm512_maskz_sqrt_pd(-1, (__m512d)x.v));
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) == 4)
    return Lane<T>((typename Raw<T>::V)_mm256_sqrt_ps((__m256)x.v));
  else
    return Lane<T>((typename Raw<T>::V)_mm256_sqrt_pd((__m256d)x.v));
#else
  if constexpr (sizeof(T) == 4)
    return Lane<T>((typename Raw<T>::V)_mm_sqrt_ps((__m128)x.v));
  else
    return Lane<T>((typename Raw<T>::V)_mm_sqrt_pd((__m128d)x.v));
#endif
}

// Natural logarithm of x in (0, 1], x not subnormal.
template <class T>
TYCHO_INLINE Lane<T> log_unit(Lane<T> x) {
  using R = Real<T>;
  using Bits = typename R::Bits;
  using Ints = typename Raw<T>::Ints;
  // x = 2^e * m with m in [sqrt(1/2), sqrt(2)).
  const Bits b = bits_of(x) - R::half_root;
  const Ints e = (Ints)b >> R::mantissa;
  const Lane<T> m = from_bits<T>(bits_of(x) - ((Bits)e << R::mantissa));
  // e as a number: placed in the low bits of the rounding constant.
  const Lane<T> round = R::round;
  const Lane<T> k = from_bits<T>(bits_of(round) + (Bits)e) - round;
  const Lane<T> f = m - 1, s = f / (f + 2), z = s * s;
  // log(1 + f) = f - s * (f - z * ...), which loses nothing near 1.
  const Lane<T> tail = s * (f - z * polynomial(z, R::atanh)) - k * R::ln2_low;
  return k * R::ln2_high - (tail - f);
}

template <class T>
struct SineCosine {
  Lane<T> sine, cosine;
};

// Sine and cosine of an angle in [0, 2 pi].
template <class T>
TYCHO_INLINE SineCosine<T> turn(Lane<T> angle) {
  using R = Real<T>;
  using Bits = typename R::Bits;
  constexpr int top = sizeof(T) * 8 - 1;
  const Lane<T> round = R::round;
  const Lane<T> shifted = angle * T(0.63661977236758134308) + round;
  const Bits quarter = bits_of(shifted);  // its low bits count quarter turns
  const Lane<T> q = shifted - round;
  const Lane<T> r = ((angle - q * R::pio2[0]) - q * R::pio2[1]) - q * R::pio2[2];
  const Lane<T> z = r * r;
  const Lane<T> s = fma(r * z, polynomial(z, R::sine), r);
  const Lane<T> c = fma(z * z, polynomial(z, R::cosine), 1 - z * T(0.5));
  const Bits odd = -(quarter & 1);  // all ones where sine and cosine change places
  const Bits sb = bits_of(s), cb = bits_of(c);
  const Bits sign_s = (quarter >> 1) << top, sign_c = ((quarter + 1) >> 1) << top;
  return {from_bits<T>(((sb & ~odd) | (cb & odd)) ^ sign_s),
          from_bits<T>(((cb & ~odd) | (sb & odd)) ^ sign_c)};
}

// x holds blocks of 16 uniform numbers; the first and the last 8 of a block make 16 normal ones.
template <class T>
TYCHO_INLINE void box_muller(T* x, int64_t n, T mean, T deviation) {
  constexpr int group = 16;  // blocks handled at once
  T u1[8 * group], u2[8 * group];
  for (int64_t start = 0; start < n; start += 16 * group) {
    T* const p = x + start;
    const int blocks = static_cast<int>((n - start < 16 * group ? n - start : 16 * group) / 16);
    for (int i = 0; i < 8 * group; ++i) u1[i] = u2[i] = 0;
    for (int b = 0; b < blocks; ++b) {
      memcpy(u1 + 8 * b, p + 16 * b, 8 * sizeof(T));
      memcpy(u2 + 8 * b, p + 16 * b + 8, 8 * sizeof(T));
    }
    for (int i = 0; i < 8 * blocks; i += Lane<T>::size) {
      const Lane<T> radius = square_root(-2 * log_unit(1 - Lane<T>::load(u1 + i)));
      const SineCosine<T> t = turn(Lane<T>::load(u2 + i) * Real<T>::two_pi);
      fma(radius * t.cosine, deviation, mean).store(u1 + i);
      fma(radius * t.sine, deviation, mean).store(u2 + i);
    }
    for (int b = 0; b < blocks; ++b) {
      memcpy(p + 16 * b, u1 + 8 * b, 8 * sizeof(T));
      memcpy(p + 16 * b + 8, u2 + 8 * b, 8 * sizeof(T));
    }
  }
}

template <class T>
TYCHO_INLINE void see_weights(const T* w, int64_t n, bool* wrong, bool* some) {
  using L = Lane<T>;
  auto bad = L(0) != L(0), above = bad;
  const auto look = [&](L x) __attribute__((always_inline)) {
    bad = bad | ~((x >= L(0)) & (x - x == L(0)));  // infinity less itself is nan
    above = above | (x > L(0));
  };
  int64_t i = 0;
  for (; i + L::size <= n; i += L::size) look(L::load(w + i));
  if (i < n) {
    T rest[L::size] = {};
    memcpy(rest, w + i, static_cast<size_t>(n - i) * sizeof(T));
    look(L::load(rest));
  }
  *wrong = any(bad), *some = any(above);
}

}  // namespace

void random_weights_f32(const float* w, int64_t n, bool* wrong, bool* some) {
  see_weights(w, n, wrong, some);
}
void random_weights_f64(const double* w, int64_t n, bool* wrong, bool* some) {
  see_weights(w, n, wrong, some);
}

void random_box_muller_f32(float* x, int64_t n, float mean, float deviation) {
  box_muller(x, n, mean, deviation);
}
void random_box_muller_f64(double* x, int64_t n, double mean, double deviation) {
  box_muller(x, n, mean, deviation);
}

void random_exponential_f64(double* x, int64_t n, double factor) {
  int64_t i = 0;
  for (; i + F64::size <= n; i += F64::size) (log_unit(1 - F64::load(x + i)) * factor).store(x + i);
  if (i < n) {
    double rest[F64::size] = {};
    memcpy(rest, x + i, (n - i) * sizeof(double));
    (log_unit(1 - F64::load(rest)) * factor).store(rest);
    memcpy(x + i, rest, (n - i) * sizeof(double));
  }
}

void random_unit_f32(const uint32_t* u, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<int32_t>(u[i] & 0xffffff)) * 0x1p-24f;
}

void random_unit_f64(const uint32_t* u, double* y, int64_t n) {
  // Both parts are exact: 2^52 + low and 2^84 + high * 2^32 are written as bits.
  for (int64_t i = 0; i < n; ++i) {
    uint64_t w;
    memcpy(&w, u + 2 * i, sizeof w);  // the first output, which is the high half, lies low
    const double low = __builtin_bit_cast(double, w >> 32 | 0x4330000000000000) - 0x1p52;
    const double high = __builtin_bit_cast(double, (w & 0x1fffff) | 0x4530000000000000) - 0x1p84;
    y[i] = (high + low) * 0x1p-53;
  }
}

void random_scale_f32(float* x, int64_t n, float from, float to) {
  const float range = to - from;
  for (int64_t i = 0; i < n; ++i) {
    const float y = __builtin_fmaf(x[i], range, from);
    x[i] = y == to ? from : y;
  }
}
void random_scale_f64(double* x, int64_t n, double from, double to) {
  const double range = to - from;
  for (int64_t i = 0; i < n; ++i) {
    const double y = __builtin_fma(x[i], range, from);
    x[i] = y == to ? from : y;
  }
}

void random_below(const uint32_t* u, uint8_t* y, int64_t n, uint64_t limit) {
  const int64_t below = static_cast<int64_t>(limit);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t w;
    memcpy(&w, u + 2 * i, sizeof w);
    y[i] = static_cast<int64_t>((w & 0x1fffff) << 32 | w >> 32) < below;
  }
}

void random_less_f32(float* x, const float* limit, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] < limit[i] ? 1.0f : 0.0f;
}
void random_less_f64(double* x, const double* limit, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] < limit[i] ? 1.0 : 0.0;
}

void random_remainder(const uint32_t* u, int64_t* y, int64_t n, uint32_t range, int64_t low) {
  // u - q * range with q = u / range rounded: q may be one too large, never more.
  const double inverse = 1 / static_cast<double>(range), d = range;
  for (int64_t i = 0; i < n; ++i) {
    const double x = __builtin_bit_cast(double, u[i] | 0x4330000000000000) - 0x1p52;
    const double q = (x * inverse + 0x1.8p52) - 0x1.8p52;
    double r = x - q * d;
    r = r < 0 ? r + d : r;
    const uint64_t bits = __builtin_bit_cast(uint64_t, r + 0x1p52) & 0xfffffffffffff;
    y[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + bits);
  }
}

void random_replace_16(uint16_t* x, int64_t n, uint16_t old, uint16_t other) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t v = x[i] == 0x8000 ? 0 : x[i];
    x[i] = v == old ? other : x[i];
  }
}

// Tiles to any dtype, each number rounded to nearest even; `dtype` is the code of DType. As PyTorch
// does, doubles go to float16 (6) and bfloat16 (7) by way of float.
void random_put_f32(void* y, const float* x, int64_t n, int dtype) { store_f32[dtype](y, x, 1, n); }
void random_put_f64(void* y, const double* x, int64_t n, int dtype) {
  if (dtype != 6 && dtype != 7) return store_f64[dtype](y, x, 1, n);
  float part[256];
  for (int64_t i = 0; i < n; i += 256) {
    const int64_t m = n - i < 256 ? n - i : 256;
    for (int64_t k = 0; k < m; ++k) part[k] = static_cast<float>(x[i + k]);
    store_f32[dtype](static_cast<uint16_t*>(y) + i, part, 1, m);
  }
}
void random_put_i64(void* y, const int64_t* x, int64_t n, int dtype) {
  store_i64[dtype](y, x, 1, n);
}
void random_get_f32(float* y, const void* x, int64_t n, int dtype) { load_f32[dtype](y, x, 1, n); }
void random_get_f64(double* y, const void* x, int64_t n, int dtype) { load_f64[dtype](y, x, 1, n); }

}  // namespace tycho::cpu::TYCHO_LEVEL
