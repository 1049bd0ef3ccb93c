// Whole lanes of memory, from any place to any, or to one that a lane fits, past the caches or not: whoever stores past
// them calls end_stream (cpu/cache.h) after the last one.
#pragma once
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

#if defined(TYCHO_LEVEL_v4)
using Bytes = __m512i;
TYCHO_INLINE Bytes take(const char* p) { return _mm512_loadu_si512(p); }
TYCHO_INLINE void put(char* p, Bytes v) { _mm512_store_si512(p, v); }
TYCHO_INLINE void put_anywhere(char* p, Bytes v) { _mm512_storeu_si512(p, v); }
TYCHO_INLINE void pass(char* p, Bytes v) { _mm512_stream_si512(reinterpret_cast<Bytes*>(p), v); }
#elif defined(TYCHO_LEVEL_v3)
using Bytes = __m256i;
TYCHO_INLINE Bytes take(const char* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p));
}
TYCHO_INLINE void put(char* p, Bytes v) { _mm256_store_si256(reinterpret_cast<Bytes*>(p), v); }
TYCHO_INLINE void put_anywhere(char* p, Bytes v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p), v);
}
TYCHO_INLINE void pass(char* p, Bytes v) { _mm256_stream_si256(reinterpret_cast<Bytes*>(p), v); }
#else
using Bytes = __m128i;
TYCHO_INLINE Bytes take(const char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p));
}
TYCHO_INLINE void put(char* p, Bytes v) { _mm_store_si128(reinterpret_cast<Bytes*>(p), v); }
TYCHO_INLINE void put_anywhere(char* p, Bytes v) {
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(p), v);
}
TYCHO_INLINE void pass(char* p, Bytes v) { _mm_stream_si128(reinterpret_cast<Bytes*>(p), v); }
#endif
template <class L>
TYCHO_INLINE Bytes as_bytes(L lane) {
  Bytes v;
  static_assert(sizeof v == sizeof lane);
  memcpy(&v, &lane, sizeof v);
  return v;
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
