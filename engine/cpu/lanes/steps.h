// Every second element written by whole vectors: a register's elements spread over twice as many lanes,
// of which only those are stored. What lies between is not touched.
#pragma once
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// to[i * step] = from[i]; returns for how many elements that is done. Eight bytes are as well stored one
// by one.
template <class T>
TYCHO_INLINE int64_t spread([[maybe_unused]] T* to, [[maybe_unused]] int64_t step,
                            [[maybe_unused]] const T* from, [[maybe_unused]] int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) <= 4) {
    if (step != 2) return 0;
    constexpr int64_t width = 32 / static_cast<int64_t>(sizeof(T));
    for (; n - i >= width; i += width) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
      if constexpr (sizeof(T) == 4)
        _mm512_mask_storeu_epi32(to + 2 * i, 0x5555, _mm512_maskz_cvtepu32_epi64(0xff, v));
      else if constexpr (sizeof(T) == 2)
        _mm512_mask_storeu_epi16(to + 2 * i, 0x55555555, _mm512_maskz_cvtepu16_epi32(0xffff, v));
      else
        _mm512_mask_storeu_epi8(to + 2 * i, 0x5555555555555555, _mm512_maskz_cvtepu8_epi16(-1u, v));
    }
  }
#endif
  return i;
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
