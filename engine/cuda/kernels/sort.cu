// Sorting rows: tiles of 1024 items in shared memory, by a bitonic network; runs are then merged two by
// two, each thread eight of the outcome, whose beginning it finds in both runs. Items have their number
// as the second key, so equal elements keep their order.
#include "engine/cuda/kernels/sort.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

__device__ inline bool before(ShortItem a, ShortItem b) { return a < b; }
__device__ inline bool before(const LongItem& a, const LongItem& b) {
  return a.key < b.key || (a.key == b.key && a.at < b.at);
}
__device__ inline int64_t number_of(ShortItem a) { return static_cast<uint32_t>(a); }
__device__ inline int64_t number_of(const LongItem& a) { return a.at; }

// Behind all others.
template <class I>
__device__ inline I no_item() {
  constexpr uint64_t kLast = ~uint64_t(0);
  if constexpr (same_type<I, ShortItem>)
    return kLast;
  else
    return {kLast, static_cast<int64_t>(kLast >> 1)};
}

// nan is the largest key, and -0 has the key of 0.
__device__ inline uint32_t float_key(float x) {
  if (x != x) return ~0u;
  const uint32_t bits = x == 0 ? 0 : float_to_bits(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ inline uint64_t double_key(double x) {
  if (x != x) return ~uint64_t(0);
  uint64_t bits = 0;
  if (x != 0) memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | uint64_t(1) << 63;
}

__device__ inline int64_t row_start(const Sort& s, int64_t row, int64_t n) {
  const int64_t outer = row / s.inner;
  return outer * n * s.inner + (row - outer * s.inner);
}

template <class I>
__device__ inline I made_item(const Sort& s, int64_t row, int64_t i) {
  const int64_t at = row_start(s, row, s.length) + i * s.inner;
  if constexpr (same_type<I, ShortItem>) {
    const bool floats = s.dtype >= kF16;
    uint32_t key = floats ? float_key(load<float>(s.in, s.dtype, at))
                          : static_cast<uint32_t>(load<int64_t>(s.in, s.dtype, at)) ^ 0x80000000u;
    if (s.descending) key = ~key;
    return uint64_t(key) << 32 | static_cast<uint32_t>(i);
  } else {
    uint64_t key = s.dtype >= kF16 ? double_key(load<double>(s.in, s.dtype, at))
                                   : static_cast<uint64_t>(load<int64_t>(s.in, s.dtype, at)) ^
                                         uint64_t(1) << 63;
    if (s.descending) key = ~key;
    return {key, i};
  }
}

template <class S>
__device__ inline void move(const Sort& s, int64_t to, int64_t from) {
  put<S>(s.values, to, element<S>(s.in, from));
}
template <class I>
__device__ inline void leave(const Sort& s, int64_t row, int64_t i, const I& item) {
  const int64_t number = number_of(item);
  const int64_t from = row_start(s, row, s.length) + number * s.inner;
  const int64_t to = row_start(s, row, s.kept) + i * s.inner;
  if (s.bytes == 1) move<uint8_t>(s, to, from);
  if (s.bytes == 2) move<uint16_t>(s, to, from);
  if (s.bytes == 4) move<uint32_t>(s, to, from);
  if (s.bytes == 8) move<uint64_t>(s, to, from);
  s.positions[to] = number + 1;
}

template <class I>
__device__ inline void sort_tiles(const Sort& s) {
  TYCHO_SHARED(I, tile, kSortTile);
  const int first = static_cast<int>(threadIdx.x);
  // Segments of the tile are parts of rows.
  const int64_t part = static_cast<int64_t>(blockIdx.x) * (kSortTile / s.segment);
  for (int slot = first; slot < kSortTile; slot += kSortThreads) {
    const int64_t segment = part + slot / s.segment, row = segment / s.tiles;
    const int64_t i = (segment - row * s.tiles) * s.segment + slot % s.segment;
    I item = no_item<I>();
    if (row < s.rows && i < s.n)
      item = s.from ? static_cast<const I*>(s.from)[row * s.n + i] : made_item<I>(s, row, i);
    tile[slot] = item;
  }
  for (int size = 2; size <= s.segment; size <<= 1)
    for (int apart = size >> 1; apart; apart >>= 1) {
      __syncthreads();
      for (int pair = first; pair < kSortTile / 2; pair += kSortThreads) {
        const int low = (pair & ~(apart - 1)) << 1 | (pair & (apart - 1)), high = low | apart;
        const bool rises = (low & (s.segment - 1) & size) == 0;
        const I a = tile[low], b = tile[high];
        if (before(b, a) != rises) continue;
        tile[low] = b;
        tile[high] = a;
      }
    }
  __syncthreads();
  for (int slot = first; slot < kSortTile; slot += kSortThreads) {
    const int64_t segment = part + slot / s.segment, row = segment / s.tiles;
    const int64_t i = slot % s.segment, to = (segment - row * s.tiles) * s.kept + i;
    if (row >= s.rows || i >= s.kept || to >= s.out_n) continue;
    if (s.to)
      static_cast<I*>(s.to)[row * s.out_n + to] = tile[slot];
    else
      leave<I>(s, row, i, tile[slot]);
  }
}

template <class I>
__device__ inline void merge(const Sort& s) {
  constexpr int64_t kEach = 8;
  const int64_t parts = (s.n + kEach - 1) / kEach;
  for (int64_t k = first_element(); k < s.rows * parts; k += all_threads()) {
    const int64_t row = k / parts, begin = (k - row * parts) * kEach;
    const I* const line = static_cast<const I*>(s.from) + row * s.n;
    const auto inside = [&](int64_t i) { return i < s.n ? i : s.n; };
    const int64_t start = begin / (2 * s.run) * 2 * s.run;
    const int64_t a_end = inside(start + s.run), b_end = inside(start + 2 * s.run);
    // How many of the elements before come from the first run.
    const int64_t taken = begin - start, b_count = b_end - a_end;
    int64_t low = taken > b_count ? taken - b_count : 0;
    int64_t high = taken < a_end - start ? taken : a_end - start;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (before(line[start + middle], line[a_end + taken - 1 - middle]))
        low = middle + 1;
      else
        high = middle;
    }
    int64_t a = start + low, b = a_end + taken - low;
    I* const to = static_cast<I*>(s.to) + row * s.n;
    for (int64_t i = begin; i < begin + kEach && i < b_end; ++i) {
      const bool first = b >= b_end || (a < a_end && before(line[a], line[b]));
      to[i] = line[first ? a : b];
      (first ? a : b) += 1;
    }
  }
}

template <class I>
__device__ inline void leave_all(const Sort& s) {
  for (int64_t k = first_element(); k < s.rows * s.kept; k += all_threads()) {
    const int64_t row = k / s.kept, i = k - row * s.kept;
    leave<I>(s, row, i, static_cast<const I*>(s.from)[row * s.n + i]);
  }
}

}  // namespace

#define KERNELS(suffix, I)                                                     \
  extern "C" __global__ void sort_tiles_##suffix(Sort s) { sort_tiles<I>(s); } \
  extern "C" __global__ void sort_merge_##suffix(Sort s) { merge<I>(s); }      \
  extern "C" __global__ void sort_leave_##suffix(Sort s) { leave_all<I>(s); }  \
  TYCHO_KERNEL(sort_tiles_##suffix)                                            \
  TYCHO_KERNEL(sort_merge_##suffix)                                            \
  TYCHO_KERNEL(sort_leave_##suffix)
KERNELS(short, ShortItem)
KERNELS(long, LongItem)
