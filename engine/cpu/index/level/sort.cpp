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

template <class Key>
TYCHO_INLINE void key_range(const Key* keys, int64_t n, Key* least, Key* most) {
  Key low = keys[0], high = keys[0];
  for (int64_t i = 1; i < n; ++i) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  *least = low;
  *most = high;
}

// Lanes of keys that are compared, and what of either is taken.
template <class Key>
struct Keys {
  typedef Key V __attribute__((vector_size(TYCHO_LANE_BYTES)));
#if defined(TYCHO_LEVEL_v4)
  static TYCHO_INLINE auto less(V a, V b) {
    if constexpr (sizeof(Key) == 4)
      return _mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b);
    else
      return _mm512_cmplt_epu64_mask((__m512i)a, (__m512i)b);
  }
  template <class M>
  static TYCHO_INLINE V choose(M mask, V yes, V no) {
    if constexpr (sizeof(Key) == 4)
      return (V)_mm512_mask_blend_epi32(mask, (__m512i)no, (__m512i)yes);
    else
      return (V)_mm512_mask_blend_epi64(mask, (__m512i)no, (__m512i)yes);
  }
#else
  static TYCHO_INLINE auto less(V a, V b) { return a < b; }
  template <class M>
  static TYCHO_INLINE V choose(M mask, V yes, V no) {
    return mask ? yes : no;
  }
#endif
};

// Each key goes in front of those that are greater: equal ones never pass each other.
template <class Key>
void sort_columns(Key* keys, Key* numbers, int64_t rows, int64_t keep, int64_t columns) {
  using K = Keys<Key>;
  using V = typename K::V;
  constexpr int kLane = TYCHO_LANE_BYTES / sizeof(Key);
  for (int64_t c = 0; c < columns; c += kLane) {
    V key[kSortShort], number[kSortShort];
    for (int64_t i = 0; i < rows; ++i) {
      V k, at = V{} + static_cast<Key>(i);
      memcpy(&k, keys + i * kSortColumns + c, sizeof(V));
      for (int64_t j = i < keep ? i : keep; j > 0;
           --j) {  // what falls behind the last one kept is gone
        const auto less = K::less(k, key[j - 1]);
        if (j < keep) {
          key[j] = K::choose(less, key[j - 1], k);
          number[j] = K::choose(less, number[j - 1], at);
        }
        k = K::choose(less, k, key[j - 1]);
        at = K::choose(less, at, number[j - 1]);
      }
      key[0] = k;
      number[0] = at;
    }
    for (int64_t i = 0; i < keep; ++i) {
      memcpy(keys + i * kSortColumns + c, &key[i], sizeof(V));
      memcpy(numbers + i * kSortColumns + c, &number[i], sizeof(V));
    }
  }
}

// Puts the smaller of two in the first one's place. (Comparisons of 64 bits are signed where there is no instruction
// for the minimum.)
template <class Key>
TYCHO_INLINE void in_order(typename Keys<Key>::V* a, typename Keys<Key>::V* b) {
  using V = typename Keys<Key>::V;
  const V x = *a, y = *b;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(Key) == 4) {
    *a = (V)_mm512_maskz_min_epu32(-1, (__m512i)x, (__m512i)y);
    *b = (V)_mm512_maskz_max_epu32(-1, (__m512i)x, (__m512i)y);
  } else {
    *a = (V)_mm512_maskz_min_epu64(-1, (__m512i)x, (__m512i)y);
    *b = (V)_mm512_maskz_max_epu64(-1, (__m512i)x, (__m512i)y);
  }
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(Key) == 4) {
    *a = (V)_mm256_min_epu32((__m256i)x, (__m256i)y);
    *b = (V)_mm256_max_epu32((__m256i)x, (__m256i)y);
  } else {
    const __m256i above = _mm256_cmpgt_epi64((__m256i)x, (__m256i)y);
    *a = (V)_mm256_blendv_epi8((__m256i)x, (__m256i)y, above);
    *b = (V)_mm256_blendv_epi8((__m256i)y, (__m256i)x, above);
  }
#else
  const auto above = x > y;
  *a = above ? y : x;
  *b = above ? x : y;
#endif
}

// The same comparisons whatever the items are: Batcher's merge exchange (Knuth, The Art of Computer Programming 3,
// algorithm 5.2.2M).
template <class Key>
void sort_items(Key* items, int64_t rows) {
  using V = typename Keys<Key>::V;
  constexpr int kLane = TYCHO_LANE_BYTES / sizeof(Key);
  int64_t top = 1;
  while (2 * top < rows) top *= 2;
  V v[kSortShort];
  for (int c = 0; c < kSortColumns; c += kLane) {
    for (int64_t i = 0; i < rows; ++i) memcpy(&v[i], items + i * kSortColumns + c, sizeof(V));
    for (int64_t p = top; p > 0; p /= 2)
      for (int64_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
        for (int64_t first = r; first + d < rows; first += 2 * p) {
          const int64_t last = first + p < rows - d ? first + p : rows - d;
          for (int64_t i = first; i < last; ++i) in_order<Key>(&v[i], &v[i + d]);
        }
        if (q == p) break;
      }
    for (int64_t i = 0; i < rows; ++i) memcpy(items + i * kSortColumns + c, &v[i], sizeof(V));
  }
}

// A bit for each of kCollect keys that is below the limit.
TYCHO_INLINE uint32_t below(const uint32_t* keys, uint32_t limit) {
#if defined(TYCHO_LEVEL_v4)
  return _mm512_cmplt_epu32_mask(_mm512_loadu_si512(keys),
                                 _mm512_set1_epi32(static_cast<int>(limit)));
#else
  uint32_t bits = 0;
  for (int k = 0; k < kCollect; k += 4) {
    const __m128i sign = _mm_set1_epi32(INT32_MIN),
                  key = _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys + k)),
                  less = _mm_cmplt_epi32(_mm_xor_si128(key, sign),
                                         _mm_set1_epi32(static_cast<int>(limit ^ 0x80000000u)));
    bits |= static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(less))) << k;
  }
  return bits;
#endif
}
TYCHO_INLINE uint32_t below(const uint64_t* keys, uint64_t limit) {
  uint32_t bits = 0;
#if defined(TYCHO_LEVEL_v4)
  const __m512i most = _mm512_set1_epi64(static_cast<long long>(limit));
  for (int k = 0; k < kCollect; k += 8)
    bits |= static_cast<uint32_t>(_mm512_cmplt_epu64_mask(_mm512_loadu_si512(keys + k), most)) << k;
#else
  for (int k = 0; k < kCollect; ++k) bits |= static_cast<uint32_t>(keys[k] < limit) << k;
#endif
  return bits;
}

template <class Key, class Item>
int64_t collect_below(const Key* keys, int64_t* at, int64_t n, Key limit, Item* items, int64_t have,
                      int64_t room) {
  const auto item = [&](int64_t k) {
    return static_cast<Item>(keys[k]) << (8 * sizeof(Key)) | static_cast<Key>(k);
  };
  int64_t i = *at;
  for (; i + kCollect <= n && have + kCollect <= room; i += kCollect)
    for (uint32_t bits = below(keys + i, limit); bits; bits &= bits - 1)
      items[have++] = item(i + __builtin_ctz(bits));
  for (; i < n && have < room && i + kCollect > n;
       ++i) {  // the next one is written over what is not below
    items[have] = item(i);
    have += keys[i] < limit;
  }
  *at = i;
  return have;
}

}  // namespace

void sort_columns_u32(uint32_t* keys, uint32_t* numbers, int64_t rows, int64_t keep,
                      int64_t columns) {
  sort_columns(keys, numbers, rows, keep, columns);
}
void sort_columns_u64(uint64_t* keys, uint64_t* numbers, int64_t rows, int64_t keep,
                      int64_t columns) {
  sort_columns(keys, numbers, rows, keep, columns);
}
void sort_items_u32(uint32_t* items, int64_t rows) { sort_items(items, rows); }
void sort_items_u64(uint64_t* items, int64_t rows) { sort_items(items, rows); }
int64_t collect_below_u32(const uint32_t* keys, int64_t* at, int64_t n, uint32_t limit,
                          uint64_t* items, int64_t have, int64_t room) {
  return collect_below(keys, at, n, limit, items, have, room);
}
int64_t collect_below_u64(const uint64_t* keys, int64_t* at, int64_t n, uint64_t limit,
                          WideItem* items, int64_t have, int64_t room) {
  return collect_below(keys, at, n, limit, items, have, room);
}

void int_keys(const int64_t* x, uint64_t* keys, int64_t n, uint64_t flip) {
  flip ^= uint64_t{1} << 63;
  for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<uint64_t>(x[i]) ^ flip;
}

void bit_ranks(const int64_t* v, int64_t n, int64_t least, const uint64_t* bits,
               const int64_t* before, int64_t* ranks) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t d = static_cast<uint64_t>(v[i]) - static_cast<uint64_t>(least);
    const uint64_t below = bits[d / 64] & ((uint64_t{1} << d % 64) - 1);
    ranks[i] = before[d / 64] + __builtin_popcountll(below) + 1;
  }
}

namespace {

// Not wider: comparisons of 64 bytes give masks, of which a processor makes fewer at a time.
constexpr int kSignedBytes = TYCHO_LANE_BYTES < 32 ? TYCHO_LANE_BYTES : 32;
typedef int32_t Signed __attribute__((vector_size(kSignedBytes)));
constexpr int kSigned = kSignedBytes / sizeof(int32_t);

// -1 where a > b.
TYCHO_INLINE Signed greater(Signed a, Signed b) {
#if defined(TYCHO_LEVEL_v4)
  return (Signed)_mm256_cmpgt_epi32((__m256i)a, (__m256i)b);
#else
  return a > b;
#endif
}

}  // namespace

void rank_keys(const uint32_t* keys, int n, int32_t* places) {
  constexpr int kBeside = 4, kStep = kBeside * kSigned;
  alignas(64) int32_t k[kRanked + kStep], place[kRanked + kStep];
  Signed lanes;
  for (int i = 0; i < kSigned; ++i) lanes[i] = i;
  for (int i = 0; i < n; ++i) k[i] = static_cast<int32_t>(keys[i] ^ 0x80000000u);
  for (int i = n; i < n + kStep; ++i) k[i] = INT32_MAX;
  for (int b = 0; b < n; b += kStep) {
    Signed a[kBeside], c[kBeside];
    for (int u = 0; u < kBeside; ++u) {
      memcpy(&a[u], k + b + u * kSigned, sizeof a[u]);
      c[u] = Signed{} + b;  // all before, but for those that are greater
    }
    for (int j = 0; j < b; ++j)
      for (int u = 0; u < kBeside; ++u) c[u] += greater(Signed{} + k[j], a[u]);
    const int stop = b + kStep < n ? b + kStep : n;
    for (int j = b; j < stop; ++j)  // equal ones count where they stand before
      for (int u = 0; u < kBeside; ++u) {
        const Signed key = Signed{} + k[j], at = lanes + (b + u * kSigned - j);
        c[u] -= (a[u] > key) | ((a[u] == key) & (at > 0));
      }
    for (int j = stop; j < n; ++j)
      for (int u = 0; u < kBeside; ++u) c[u] -= greater(a[u], Signed{} + k[j]);
    memcpy(place + b, c, sizeof c);
  }
  memcpy(places, place, static_cast<size_t>(n) * sizeof(int32_t));
}

void key_range_u32(const uint32_t* keys, int64_t n, uint32_t* least, uint32_t* most) {
  key_range(keys, n, least, most);
}
void key_range_u64(const uint64_t* keys, int64_t n, uint64_t* least, uint64_t* most) {
  key_range(keys, n, least, most);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
