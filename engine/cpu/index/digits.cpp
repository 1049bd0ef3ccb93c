// Sorting keys by their digits, least significant first (LSD radix sort, stable): a pass that finds
// how far the keys reach, one that counts, and one per digit that moves. A long line is cut into a
// part for each thread, which count for themselves and move to places of their own.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/index/sort.h"

namespace tycho::cpu {
namespace {

constexpr int kDigitBits = 8, kDigitValues = 1 << kDigitBits;
constexpr int64_t kPartKeys = 1 << 15;  // keys that are worth a part of their own

template <class Key>
Key key_at(const Key* keys, int64_t i) {
  return keys[i];
}
template <class Key>
Packed<Key> item_at(const Key* keys, int64_t i) {
  return pack<Key>(keys[i], i);
}
template <class Key>
Key key_at(const Packed<Key>* items, int64_t i) {
  return key_of<Key>(items[i]);
}
template <class Key>
Packed<Key> item_at(const Packed<Key>* items, int64_t i) {
  return items[i];
}

// The keys of n items or keys cut into digits, and where those of each value begin.
template <class Key>
class DigitOrder {
 public:
  template <class From>
  DigitOrder(const From* from, int64_t size, int threads)
      : n_(size), parts_(static_cast<int>(std::clamp<int64_t>(size / kPartKeys, 1, threads))) {
    std::vector<Key> lows(parts_), highs(parts_);
    each_part([&](int64_t p, int64_t i, int64_t end) {
      Key low = key_at<Key>(from, i), high = low;
      for (; i < end; ++i) {
        low = std::min(low, key_at<Key>(from, i));
        high = std::max(high, key_at<Key>(from, i));
      }
      lows[p] = low;
      highs[p] = high;
    });
    low_ = *std::min_element(lows.begin(), lows.end());
    const Key range = *std::max_element(highs.begin(), highs.end()) - low_;
    const int width = std::bit_width(range);
    count_ = (width + kDigitBits - 1) / kDigitBits;
    bits_ = count_ ? (width + count_ - 1) / count_ : 0;
    places_.resize(static_cast<size_t>(parts_ > 1 ? parts_ : count_) * kDigitValues);
    if (parts_ == 1)  // what is not moved by others can be counted for all digits at once
      for (int64_t i = 0; i < n_; ++i)
        for (int d = 0; d < count_; ++d) ++table(d)[digit(key_at<Key>(from, i), d)];
  }
  int count() const { return count_; }

  // Moves all into the order of digit d; false, and nothing moved, where they have the same.
  template <class From>
  bool move(const From* from, Packed<Key>* to, int d) {
    if (parts_ > 1)
      each_part([&](int64_t p, int64_t i, int64_t end) {
        int64_t* const here = table(p);
        std::fill_n(here, kDigitValues, 0);
        for (; i < end; ++i) ++here[digit(key_at<Key>(from, i), d)];
      });
    const int first = parts_ > 1 ? 0 : d;
    int64_t before = 0;
    for (int v = 0; v < kDigitValues; ++v) {
      const int64_t start = before;
      for (int p = 0; p < parts_; ++p) before += std::exchange(table(first + p)[v], before);
      if (before - start == n_) return false;
    }
    each_part([&](int64_t p, int64_t i, int64_t end) {
      int64_t* const place = table(first + p);
      for (; i < end; ++i) to[place[digit(key_at<Key>(from, i), d)]++] = item_at<Key>(from, i);
    });
    return true;
  }

 private:
  template <class F>
  void each_part(F&& f) const {
    parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) f(p, n_ * p / parts_, n_ * (p + 1) / parts_);
    });
  }
  int digit(Key key, int d) const {
    return static_cast<int>((key - low_) >> d * bits_) & ((1 << bits_) - 1);
  }
  int64_t* table(int64_t which) { return places_.data() + which * kDigitValues; }

  int64_t n_;
  int parts_, count_, bits_;
  Key low_;
  std::vector<int64_t> places_;  // a table for each digit, or of one digit for each part
};

// Where the sorted ones are: in `a` or `b`. Items stand in `a` at first.
template <class Key, class From>
Packed<Key>* sort_from(const From* from, Packed<Key>* a, Packed<Key>* b, int64_t n, int threads) {
  DigitOrder<Key> order(from, n, threads);
  constexpr bool keys = sizeof(From) == sizeof(Key);
  Packed<Key>*now = nullptr, *to = a, *spare = b;
  if constexpr (!keys) now = a, to = b, spare = a;
  for (int d = 0; d < order.count(); ++d)
    if (now ? order.move(now, to, d) : order.move(from, to, d)) {
      now = to;
      std::swap(to, spare);
    }
  if (now) return now;
  for (int64_t i = 0; i < n; ++i) a[i] = item_at<Key>(from, i);
  return a;
}

}  // namespace

template <class Key>
void sort_packed(Packed<Key>* items, Packed<Key>* spare, int64_t n) {
  if (n < kByDigits<Key>) return std::sort(items, items + n);
  const Packed<Key>* const sorted = sort_from<Key>(items, items, spare, n, 1);
  if (sorted != items) std::copy(sorted, sorted + n, items);
}
template void sort_packed<uint32_t>(Packed<uint32_t>*, Packed<uint32_t>*, int64_t);
template void sort_packed<uint64_t>(Packed<uint64_t>*, Packed<uint64_t>*, int64_t);

template <class Key>
Packed<Key>* sort_keys(const Key* keys, Packed<Key>* items, Packed<Key>* spare, int64_t n,
                       int threads) {
  if constexpr (sizeof(Key) == 4)
    if (n <= kRanked) {
      int32_t place[kRanked];
      level_of::rank_keys(keys, static_cast<int>(n), static_cast<int32_t*>(place));
      for (int64_t i = 0; i < n; ++i) items[place[i]] = pack<Key>(keys[i], i);
      return items;
    }
  if (n >= kByDigits<Key>) return sort_from<Key>(keys, items, spare, n, threads);
  for (int64_t i = 0; i < n; ++i) items[i] = pack<Key>(keys[i], i);
  std::sort(items, items + n);
  return items;
}
template Packed<uint32_t>* sort_keys(const uint32_t*, Packed<uint32_t>*, Packed<uint32_t>*, int64_t,
                                     int);
template Packed<uint64_t>* sort_keys(const uint64_t*, Packed<uint64_t>*, Packed<uint64_t>*, int64_t,
                                     int);

}  // namespace tycho::cpu
