// Short rows of elementwise.def over bfloat16 and float16 as they lie in memory: they are widened,
// computed in lanes of float32 and rounded in registers, where a tile between would take longer than
// the row. Other rows, and the baseline level, have none.
#include "engine/cpu/elementwise/level/rows.h"
#include "engine/cpu/lanes/half.h"
#include "engine/cpu/lanes/narrow_parts.h"

namespace tycho::cpu::TYCHO_LEVEL {

#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
namespace {

typedef uint32_t FloatBits __attribute__((vector_size(TYCHO_LANE_BYTES)));
typedef uint16_t HalfBits __attribute__((vector_size(TYCHO_LANE_BYTES)));

// A register of halves as two lanes, in an order that split and join know alone.
struct Widened {
  F32 first, second;
};

// bfloat16 are the upper halves of floats: every second one lies where it belongs.
TYCHO_INLINE FloatBits rounded(F32 x) {
  const FloatBits b = (FloatBits)x.v;
#if defined(TYCHO_LEVEL_v4)
  const __m512i v = (__m512i)b, up = _mm512_add_epi32(v, _mm512_set1_epi32(0x7fff));
  const __m512i even = _mm512_mask_add_epi32(
      up, _mm512_test_epi32_mask(v, _mm512_set1_epi32(0x10000)), up, _mm512_set1_epi32(1));
  const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x.v, (__m512)x.v, _CMP_UNORD_Q);
  return (FloatBits)_mm512_mask_or_epi32(even, nan, v, _mm512_set1_epi32(0x400000));
#else
  const FloatBits up = b + 0x7fff + (b >> 16 & 1);
  const __m256i nan = (__m256i)_mm256_cmp_ps((__m256)x.v, (__m256)x.v, _CMP_UNORD_Q);
  return (FloatBits)_mm256_blendv_epi8((__m256i)up, (__m256i)(b | 0x400000), nan);
#endif
}
TYCHO_INLINE Widened split(BFloat16, HalfBits h) {
  const FloatBits w = (FloatBits)h;
  return {from_bits<float>(w << 16), from_bits<float>(w & 0xffff0000u)};
}
TYCHO_INLINE HalfBits join(BFloat16, Widened p) {
  return (HalfBits)(rounded(p.first) >> 16 | (rounded(p.second) & 0xffff0000u));
}

#if defined(TYCHO_LEVEL_v4)
TYCHO_INLINE Widened split(Half, HalfBits h) {
  const __m512i v = (__m512i)h;
  return {F32((F32::V)_mm512_maskz_cvtph_ps(0xffff, _mm512_castsi512_si256(v))),
          F32((F32::V)_mm512_maskz_cvtph_ps(0xffff, _mm512_maskz_extracti64x4_epi64(0xf, v, 1)))};
}
TYCHO_INLINE HalfBits join(Half, Widened p) {
  const auto cut = [](F32 x) __attribute__((always_inline)) {
    return _mm512_maskz_cvtps_ph(0xffff, (__m512)x.v, _MM_FROUND_TO_NEAREST_INT);
  };
  return (HalfBits)_mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(cut(p.first)),
                                            cut(p.second), 1);
}
#else
TYCHO_INLINE Widened split(Half, HalfBits h) {
  const __m256i v = (__m256i)h;
  return {F32((F32::V)_mm256_cvtph_ps(_mm256_castsi256_si128(v))),
          F32((F32::V)_mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)))};
}
TYCHO_INLINE HalfBits join(Half, Widened p) {
  return (HalfBits)_mm256_set_m128i(_mm256_cvtps_ph((__m256)p.second.v, _MM_FROUND_TO_NEAREST_INT),
                                    _mm256_cvtps_ph((__m256)p.first.v, _MM_FROUND_TO_NEAREST_INT));
}
#endif

constexpr int64_t kHalves = 2 * F32::size;

// Rows that, beside the short ones, take no longer than loading and storing tiles, or not much.
template <class Value>
constexpr bool suits_halves =
    is_one_of<Value, Value_sign, Value_sgn, Value_floor, Value_ceil, Value_trunc, Value_round,
              Value_frac, Value_sqrt, Value_rsqrt, Value_reciprocal, Value_inverse_square,
              Value_fmax, Value_fmin, Value_copysign, Value_clamp_tensors, Value_addcdiv,
              Value_heaviside, Value_finite_or, Value_rad2deg, Value_relu6, Value_hardsigmoid,
              Value_hardswish, Value_hardshrink, Value_softshrink, Value_softsign, Value_between,
              Value_elu_grad, Value_hardswish_grad, Value_hardsigmoid_grad, Value_shrink_grad,
              Value_leaky_relu_grad, Value_exp, Value_sigmoid, Value_tanh, Value_silu,
              Value_silu_grad, Value_gelu_erf, Value_gelu_erf_grad, Value_gelu_tanh,
              Value_gelu_tanh_grad>;

// What the row gives for a register of halves, as it lies in memory.
template <class S>
TYCHO_INLINE HalfBits results(S format, F32 first, F32 second) {
  return join(format, {first, second});
}
typedef uint8_t Truths __attribute__((vector_size(kHalves)));
template <class S>
TYCHO_INLINE Truths results(S, Mask<float> first, Mask<float> second) {
#if defined(TYCHO_LEVEL_v4)
  const FloatBits a = (FloatBits)_mm512_maskz_set1_epi32(first.m, -1),
                  b = (FloatBits)_mm512_maskz_set1_epi32(second.m, -1);
#else
  const FloatBits a = (FloatBits)first.m, b = (FloatBits)second.m;
#endif
#if defined(TYCHO_LEVEL_v3)
  const __m256i x = (__m256i)a, y = (__m256i)b;
  const __m256i both = __is_same(S, BFloat16)
                           ? _mm256_blend_epi16(x, y, 0xaa)
                           : _mm256_permute4x64_epi64(_mm256_packs_epi32(x, y), 0xd8);
  return (Truths)truth_bytes<2>(both);
#else
  if constexpr (__is_same(S, BFloat16)) {
    return __builtin_convertvector((HalfBits)((a >> 16) | (b & 0xffff0000u)), Truths) & 1;
  } else {
    typedef uint8_t Part __attribute__((vector_size(F32::size)));
    const Part parts[] = {__builtin_convertvector(a, Part), __builtin_convertvector(b, Part)};
    Truths all;
    memcpy(&all, parts, sizeof all);
    return all & 1;
  }
#endif
}

// HalfBits, or one float that all elements are.
template <class S>
struct HalfOperand {
  const char* p;
  bool one;
  TYCHO_INLINE Widened get(int64_t i) const {
    if (one) {
      const F32 x = *reinterpret_cast<const float*>(p);
      return {x, x};
    }
    HalfBits h;
    memcpy(&h, p + 2 * i, sizeof h);
    return split(S{}, h);
  }
  // All of n elements, which are fewer than a register's, in `room`.
  TYCHO_INLINE HalfOperand few(int64_t n, char* room) const {
    if (one) return *this;
    memset(room, 0, TYCHO_LANE_BYTES);
    memcpy(room, p, static_cast<size_t>(2 * n));
    return {room, one};
  }
};

// A whole register that ends with the row is computed before anything is written; rows shorter than that
// pass through buffers.
template <LevelType type, class Value, int operands, class S>
void run_half(void* const* p, int64_t n, unsigned repeated, const Times& times) {
  using X = HalfOperand<S>;
  const auto operand = [&](int k) __attribute__((always_inline)) {
    const int at = k < operands ? k + 1 : 1;
    return X{static_cast<const char*>(p[at]), (repeated >> at & 1) != 0};
  };
  X a = operand(0), b = operand(1), c = operand(2), d = operand(3);
  constexpr int64_t kBytes = type == LevelType::Test ? 1 : 2;
  const auto value_of = [](X xa, X xb, X xc, X xd, int64_t i) __attribute__((always_inline)) {
    const Widened va = xa.get(i), vb = operands > 1 ? xb.get(i) : va,
                  vc = operands > 2 ? xc.get(i) : va, vd = operands > 3 ? xd.get(i) : va;
    return results(S{}, Value::value(va.first, vb.first, vc.first, vd.first),
                   Value::value(va.second, vb.second, vc.second, vd.second));
  };
  const auto value = [&](int64_t i) __attribute__((always_inline)) {
    return value_of(a, b, c, d, i);
  };
  char* to = static_cast<char*>(p[0]);
  const auto put = [&](int64_t i, decltype(value(0)) r) __attribute__((always_inline)) {
    memcpy(to + i * kBytes, &r, sizeof r);
  };
  for (int64_t left = times.count;;) {
    if (n < kHalves) {
      char part[4][TYCHO_LANE_BYTES];
      const auto r =
          value_of(a.few(n, part[0]), operands > 1 ? b.few(n, part[1]) : a,
                   operands > 2 ? c.few(n, part[2]) : a, operands > 3 ? d.few(n, part[3]) : a, 0);
      memcpy(to, &r, static_cast<size_t>(n * kBytes));
    } else {
      decltype(value(0)) last;
      if (n % kHalves) last = value(n - kHalves);
      for (int64_t i = 0; i + kHalves <= n; i += kHalves) put(i, value(i));
      if (n % kHalves) put(n - kHalves, last);
    }
    if (!--left) return;
    to += times.step[0], a.p += times.step[1], b.p += times.step[2], c.p += times.step[3],
        d.p += times.step[4];
  }
}

template <LevelType type, class Value, int operands, class S>
constexpr RowFn pick_half() {
  if constexpr (has_floats(type) &&
                (is_short<Value> || type == LevelType::Test || suits_halves<Value>))
    return run_half<type, Value, operands, S>;
  else
    return nullptr;
}
template <class S>
RowFn half_row(int row) {
  static constexpr RowFn table[] = {
#define ROW(name, operands, args, type, ...) \
  pick_half<LevelType::type, Value_##name, operands, S>(),
#include "engine/ops/elementwise/elementwise.def"
  };
  return table[row];
}

}  // namespace

RowFn row_half(int lanes, int row) {
  return static_cast<Lanes>(lanes) == Lanes::BF16 ? half_row<BFloat16>(row) : half_row<Half>(row);
}
#else
RowFn row_half(int, int) { return nullptr; }
#endif

}  // namespace tycho::cpu::TYCHO_LEVEL
