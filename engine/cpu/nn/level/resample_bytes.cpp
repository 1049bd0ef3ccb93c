// Resizing of bytes: sums of bytes times 16-bit weights, two neighbours in one multiplication; see
// engine/cpu/nn/resample.h.
#include "engine/cpu/lanes/vec.h"
#include "engine/cpu/nn/resample.h"

#if defined(TYCHO_LEVEL_v4)
#define TYCHO_WIDE(f) _mm512_##f
#define TYCHO_BITS(f) _mm512_##f##_si512
#elif defined(TYCHO_LEVEL_v3)
#define TYCHO_WIDE(f) _mm256_##f
#define TYCHO_BITS(f) _mm256_##f##_si256
#else
#define TYCHO_WIDE(f) _mm_##f
#define TYCHO_BITS(f) _mm_##f##_si128
#endif

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

using Wide = decltype(TYCHO_BITS(setzero)());

[[gnu::always_inline]] inline uint8_t mix_one(const uint8_t* x, int64_t stride, const int32_t* w,
                                              int64_t taps, int shift) {
  int32_t sum = 1 << shift >> 1;
  for (int64_t k = 0; k < taps; ++k)
    sum += static_cast<int16_t>(k % 2 ? w[k / 2] >> 16 : w[k / 2]) * x[k * stride];
  sum >>= shift;
  return static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

// The bytes of the lanes: their halves are unpacked into pairs of a neighbour and the next one, and
// packed again at the end, which is also what keeps the sums within 0 and 255.
[[gnu::always_inline]] inline void mix_lanes(const uint8_t* x, int64_t stride, uint8_t* y,
                                             const int32_t* w, int64_t taps, int shift) {
  const Wide zero = TYCHO_BITS(setzero)(), half = TYCHO_WIDE(set1_epi32)(1 << shift >> 1);
  const __m128i places = _mm_cvtsi32_si128(shift);
  Wide sum[4] = {half, half, half, half};
  for (int64_t k = 0; k < taps; k += 2, ++w) {
    const uint8_t *const p = x + k * stride, *const next = k + 1 < taps ? p + stride : p;
    const Wide a = TYCHO_BITS(loadu)(reinterpret_cast<const Wide*>(p)),
               b = TYCHO_BITS(loadu)(reinterpret_cast<const Wide*>(next)),
               low = TYCHO_WIDE(unpacklo_epi8)(a, b), high = TYCHO_WIDE(unpackhi_epi8)(a, b),
               weight = TYCHO_WIDE(set1_epi32)(*w);
    const auto add = [&](Wide& to, Wide pairs) {
      to = TYCHO_WIDE(add_epi32)(to, TYCHO_WIDE(madd_epi16)(pairs, weight));
    };
    add(sum[0], TYCHO_WIDE(unpacklo_epi8)(low, zero));
    add(sum[1], TYCHO_WIDE(unpackhi_epi8)(low, zero));
    add(sum[2], TYCHO_WIDE(unpacklo_epi8)(high, zero));
    add(sum[3], TYCHO_WIDE(unpackhi_epi8)(high, zero));
  }
  for (Wide& s : sum) s = TYCHO_WIDE(sra_epi32)(s, places);
  TYCHO_BITS(storeu)
  (reinterpret_cast<Wide*>(y), TYCHO_WIDE(packus_epi16)(TYCHO_WIDE(packs_epi32)(sum[0], sum[1]),
                                                        TYCHO_WIDE(packs_epi32)(sum[2], sum[3])));
}

// Bytes p[c] and p[C + c] as pairs of 16 bits, for four c; 8 bytes are read.
template <int C>
[[gnu::always_inline]] inline __m128i pairs_at(const uint8_t* p) {
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
#ifdef __SSSE3__
  return _mm_shuffle_epi8(
      x, _mm_setr_epi8(0, -1, C, -1, 1, -1, C + 1, -1, 2, -1, C + 2, -1, 3, -1, C + 3, -1));
#else
  return _mm_unpacklo_epi8(_mm_unpacklo_epi8(x, _mm_srli_si128(x, C)), _mm_setzero_si128());
#endif
}

// Four pixels of four lanes each, of which C go to y.
template <int C>
[[gnu::always_inline]] inline void write_pixels(__m128i pixels, uint8_t* y) {
#ifdef __SSSE3__
  const auto from = [](int i) { return static_cast<char>(i < 4 * C ? i / C * 4 + i % C : -1); };
  pixels =
      _mm_shuffle_epi8(pixels, _mm_setr_epi8(from(0), from(1), from(2), from(3), from(4), from(5),
                                             from(6), from(7), from(8), from(9), from(10), from(11),
                                             from(12), from(13), from(14), from(15)));
  __builtin_memcpy(y, &pixels, 4 * C);
#else
  for (int i = 0; i < 4; ++i, pixels = _mm_srli_si128(pixels, 4))
    __builtin_memcpy(y + i * C, &pixels, C);
#endif
}

template <int C>
[[gnu::always_inline]] inline void mix_pixels(const uint8_t* x, const uint8_t* end, uint8_t* y,
                                              int64_t out, const int64_t* first, const int32_t* w,
                                              int64_t taps, int shift) {
  const __m128i half = _mm_set1_epi32(1 << shift >> 1), places = _mm_cvtsi32_si128(shift);
  const int64_t pairs = (taps + 1) / 2, fit = outputs_that_fit(end - x - 8, out, first, taps, C);
  int64_t i = 0;
  for (; i + 4 <= fit; i += 4, w += 4 * pairs) {
    __m128i sum[4] = {half, half, half, half};
    const uint8_t* const p[4] = {x + first[i] * C, x + first[i + 1] * C, x + first[i + 2] * C,
                                 x + first[i + 3] * C};
    for (int64_t k = 0; k < pairs; ++k)
      for (int q = 0; q < 4; ++q)
        sum[q] = _mm_add_epi32(sum[q], _mm_madd_epi16(pairs_at<C>(p[q] + 2 * k * C),
                                                      _mm_set1_epi32(w[q * pairs + k])));
    for (__m128i& s : sum) s = _mm_sra_epi32(s, places);
    write_pixels<C>(
        _mm_packus_epi16(_mm_packs_epi32(sum[0], sum[1]), _mm_packs_epi32(sum[2], sum[3])),
        y + i * C);
  }
  for (; i < out; ++i, w += pairs)
    for (int c = 0; c < C; ++c) y[i * C + c] = mix_one(x + first[i] * C + c, C, w, taps, shift);
}

}  // namespace

void mix_rows_u8(const uint8_t* x, int64_t stride, uint8_t* y, const int32_t* w, int64_t taps,
                 int64_t n, int shift) {
  constexpr int64_t kLanes = sizeof(Wide);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) mix_lanes(x + j, stride, y + j, w, taps, shift);
  if (j < n && n >= kLanes) {  // once more, up to the last byte
    j = n - kLanes;
    mix_lanes(x + j, stride, y + j, w, taps, shift);
    return;
  }
  for (; j < n; ++j) y[j] = mix_one(x + j, stride, w, taps, shift);
}

void mix_pixels_u8(const uint8_t* x, const uint8_t* end, uint8_t* y, int64_t out,
                   const int64_t* first, const int32_t* w, int64_t taps, int64_t channels,
                   int shift) {
  switch (channels) {
    case 2:
      return mix_pixels<2>(x, end, y, out, first, w, taps, shift);
    case 3:
      return mix_pixels<3>(x, end, y, out, first, w, taps, shift);
    case 4:
      return mix_pixels<4>(x, end, y, out, first, w, taps, shift);
    default:
      for (int64_t i = 0; i < out; ++i)
        mix_rows_u8(x + first[i] * channels, channels, y + i * channels, w + i * ((taps + 1) / 2),
                    taps, channels, shift);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
