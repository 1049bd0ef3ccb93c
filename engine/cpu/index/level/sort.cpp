// Keys of floats, sorting short columns side by side, and searches.
#include "engine/cpu/index/sort_level.h"
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {

void float_keys(const float* x, uint32_t* keys, int64_t n, uint32_t flip) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t b;
    memcpy(&b, x + i, 4);
    const uint32_t rest = b & 0x7fffffffu;
    uint32_t key = b & 0x80000000u ? ~b : b | 0x80000000u;
    key = rest == 0 ? 0x80000000u : key;
    keys[i] = (rest > 0x7f800000u ? 0xffffffffu : key) ^ flip;
  }
}

void double_keys(const double* x, uint64_t* keys, int64_t n, uint64_t flip) {
  constexpr uint64_t sign = uint64_t{1} << 63;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t b;
    memcpy(&b, x + i, 8);
    const uint64_t rest = b & ~sign;
    uint64_t key = b & sign ? ~b : b | sign;
    key = rest == 0 ? sign : key;
    keys[i] = (rest > 0x7ff0000000000000u ? ~uint64_t{0} : key) ^ flip;
  }
}

namespace {

// Neighbours change places where the second is less: equal ones never pass each other.
template <class Key>
void sort_columns(Key* keys, Key* numbers, int64_t rows) {
  typedef Key V __attribute__((vector_size(TYCHO_LANE_BYTES)));
  constexpr int kLane = TYCHO_LANE_BYTES / sizeof(Key);
  for (int c = 0; c < kSortColumns; c += kLane) {
    V key[kSortShort], number[kSortShort];
    for (int64_t i = 0; i < rows; ++i) {
      V k, at = V{} + static_cast<Key>(i);
      memcpy(&k, keys + i * kSortColumns + c, sizeof(V));
      for (int64_t j = i; j > 0; --j) {
        const auto less = k < key[j - 1];
        const V low = less ? k : key[j - 1], low_at = less ? at : number[j - 1];
        key[j] = less ? key[j - 1] : k;
        number[j] = less ? number[j - 1] : at;
        k = low;
        at = low_at;
      }
      key[0] = k;
      number[0] = at;
    }
    for (int64_t i = 0; i < rows; ++i) {
      memcpy(keys + i * kSortColumns + c, &key[i], sizeof(V));
      memcpy(numbers + i * kSortColumns + c, &number[i], sizeof(V));
    }
  }
}

}  // namespace

void sort_columns_u32(uint32_t* keys, uint32_t* numbers, int64_t rows) {
  sort_columns(keys, numbers, rows);
}
void sort_columns_u64(uint64_t* keys, uint64_t* numbers, int64_t rows) {
  sort_columns(keys, numbers, rows);
}

void bit_ranks(const int64_t* v, int64_t n, int64_t least, const uint64_t* bits,
               const int64_t* before, int64_t* ranks) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t d = static_cast<uint64_t>(v[i]) - static_cast<uint64_t>(least);
    const uint64_t below = bits[d / 64] & ((uint64_t{1} << d % 64) - 1);
    ranks[i] = before[d / 64] + __builtin_popcountll(below) + 1;
  }
}

int64_t collect_below(const uint32_t* keys, int64_t* at, int64_t n, uint32_t limit, uint64_t* items,
                      int64_t have, int64_t room) {
  int64_t i = *at;
  for (; i + kCollect <= n && have + kCollect <= room; i += kCollect) {
    uint32_t below = 0;  // a bit for each key
#if defined(TYCHO_LEVEL_v4)
    below = _mm512_cmplt_epu32_mask(_mm512_loadu_si512(keys + i),
                                    _mm512_set1_epi32(static_cast<int>(limit)));
#else
    for (int k = 0; k < kCollect; k += 4) {
      const __m128i sign = _mm_set1_epi32(INT32_MIN),
                    key = _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys + i + k)),
                    less = _mm_cmplt_epi32(_mm_xor_si128(key, sign),
                                           _mm_set1_epi32(static_cast<int>(limit ^ 0x80000000u)));
      below |= static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(less))) << k;
    }
#endif
    for (; below; below &= below - 1) {
      const int64_t k = i + __builtin_ctz(below);
      items[have++] = uint64_t{keys[k]} << 32 | static_cast<uint32_t>(k);
    }
  }
  for (; i < n && have < room && i + kCollect > n;
       ++i) {  // the next one is written over what is not below
    items[have] = uint64_t{keys[i]} << 32 | static_cast<uint32_t>(i);
    have += keys[i] < limit;
  }
  *at = i;
  return have;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
