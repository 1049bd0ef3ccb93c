// CRC-32 by folding (see crc32.h): a polynomial of 512 bits is carried along in four registers,
// each multiplied by x^512 modulo the polynomial before the next 64 bytes are added. The method and
// the constants are those of V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction" (Intel, 2009), for the reflected polynomial 0x104c11db7.
#include "engine/io/crc32.h"

#include <immintrin.h>
#include <zlib.h>

namespace tycho::io {
namespace {

#define TYCHO_CRC __attribute__((target("pclmul,sse4.1")))
#define TYCHO_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))

TYCHO_CRC inline __m128i load(const char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

// x times the two constants, added to y.
TYCHO_CRC inline __m128i fold(__m128i x, __m128i constants, __m128i y) {
  const __m128i low = _mm_clmulepi64_si128(x, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(x, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), y);
}

struct State {
  __m128i a, b, c, d;
};

TYCHO_CRC State first(const char* p, uint32_t crc) {
  return {_mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(crc))), load(p + 16),
          load(p + 32), load(p + 48)};
}

// Adds `n` bytes, a multiple of 16, and divides; the sum is not inverted at either end.
TYCHO_CRC uint32_t folded(State s, const char* p, size_t n) {
  const __m128i by512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const __m128i by64 = _mm_set_epi64x(0, 0x163cd6124);
  const __m128i poly = _mm_set_epi64x(0x1f7011641, 0x1db710641);  // and its inverse
  const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
  for (; n >= 64; p += 64, n -= 64) {
    s.a = fold(s.a, by512, load(p));
    s.b = fold(s.b, by512, load(p + 16));
    s.c = fold(s.c, by512, load(p + 32));
    s.d = fold(s.d, by512, load(p + 48));
  }
  __m128i a = fold(fold(fold(s.a, by128, s.b), by128, s.c), by128, s.d);
  for (; n >= 16; p += 16, n -= 16) a = fold(a, by128, load(p));
  // 128 bits to 96, to 64, and the rest of the division (Barrett's).
  a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by128, 0x10));
  a = _mm_xor_si128(_mm_srli_si128(a, 4),
                    _mm_clmulepi64_si128(_mm_and_si128(a, low32), by64, 0x00));
  __m128i q = _mm_clmulepi64_si128(_mm_and_si128(a, low32), poly, 0x10);
  q = _mm_clmulepi64_si128(_mm_and_si128(q, low32), poly, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(a, q), 1));
}

// The same with four registers of 512 bits, which are 64 bytes each.
TYCHO_WIDE inline __m512i wide_fold(__m512i x, __m512i constants, __m512i y) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, constants, 0x00),
                                   _mm512_clmulepi64_epi128(x, constants, 0x11), y, 0x96);
}

TYCHO_WIDE inline __m512i wide(int64_t high, int64_t low) {
  return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

// The state after `n` bytes, a multiple of 256 and at least that.
TYCHO_WIDE State wide_folded(const char* p, size_t n, uint32_t crc) {
  const __m512i by2048 = wide(0x1322d1430, 0x11542778a), by512 = wide(0x1c6e41596, 0x154442bd4);
  __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p),
                               _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  __m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128);
  __m512i d = _mm512_loadu_si512(p + 192);
  for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
    a = wide_fold(a, by2048, _mm512_loadu_si512(p));
    b = wide_fold(b, by2048, _mm512_loadu_si512(p + 64));
    c = wide_fold(c, by2048, _mm512_loadu_si512(p + 128));
    d = wide_fold(d, by2048, _mm512_loadu_si512(p + 192));
  }
  a = wide_fold(wide_fold(wide_fold(a, by512, b), by512, c), by512, d);
  char lanes[64];
  _mm512_storeu_si512(lanes, a);
  return {load(lanes), load(lanes + 16), load(lanes + 32), load(lanes + 48)};
}

}  // namespace

uint32_t crc32(std::string_view bytes, uint32_t before) {
  static const bool fast = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  static const bool wide =
      fast && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  if (fast && bytes.size() >= 64) {
    const size_t n = bytes.size() / 16 * 16;
    const size_t begun = wide && n >= 256 ? n / 256 * 256 : 64;
    const char* const p = bytes.data();
    const State s = begun >= 256 ? wide_folded(p, begun, ~before) : first(p, ~before);
    before = ~folded(s, p + begun, n - begun);
    bytes.remove_prefix(n);
  }
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t crc32_joined(uint32_t first, uint32_t second, size_t second_bytes) {
  return static_cast<uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
}

}  // namespace tycho::io
