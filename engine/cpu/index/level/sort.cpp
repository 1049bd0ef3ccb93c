// Keys of floats, and the search for the next key above a limit.
#include "engine/cpu/index/sort_level.h"

#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {

void float_keys(const float* x, uint32_t* keys, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t b;
    memcpy(&b, x + i, 4);
    const uint32_t rest = b & 0x7fffffffu;
    uint32_t key = b & 0x80000000u ? ~b : b | 0x80000000u;
    key = rest == 0 ? 0x80000000u : key;
    keys[i] = rest > 0x7f800000u ? 0xffffffffu : key;
  }
}

void double_keys(const double* x, uint64_t* keys, int64_t n) {
  constexpr uint64_t sign = uint64_t{1} << 63;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t b;
    memcpy(&b, x + i, 8);
    const uint64_t rest = b & ~sign;
    uint64_t key = b & sign ? ~b : b | sign;
    key = rest == 0 ? sign : key;
    keys[i] = rest > 0x7ff0000000000000u ? ~uint64_t{0} : key;
  }
}

int64_t first_above(const uint32_t* keys, int64_t begin, int64_t n, uint32_t limit) {
  int64_t i = begin;
  for (; i + 64 <= n; i += 64) {
    uint32_t hit = 0;
    for (int k = 0; k < 64; ++k) hit |= keys[i + k] > limit;
    if (hit) break;
  }
  while (i < n && keys[i] <= limit) ++i;
  return i;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
