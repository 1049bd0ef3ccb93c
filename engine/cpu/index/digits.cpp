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

// Wide digits take fewer passes, but their places are more than the second cache's pages.
constexpr int kDigitBits = 8, kWideDigitBits = 11;
constexpr int64_t kLeastWide = 2048, kMostWide = int64_t{4} << 20;  // items, bytes
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

void range_of(const uint32_t* keys, int64_t n, uint32_t* low, uint32_t* high) {
  level_of::key_range_u32(keys, n, low, high);
}
void range_of(const uint64_t* keys, int64_t n, uint64_t* low, uint64_t* high) {
  level_of::key_range_u64(keys, n, low, high);
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
      find_range(from + i, end - i, &lows[p], &highs[p]);
    });
    low_ = *std::min_element(lows.begin(), lows.end());
    range_ = *std::max_element(highs.begin(), highs.end()) - low_;
    const int width = std::bit_width(range_);
    const bool wide = n_ >= kLeastWide && n_ * int64_t{sizeof(Packed<Key>)} <= kMostWide;
    const int most = wide && width > kDigitBits ? kWideDigitBits : kDigitBits;
    count_ = (width + most - 1) / most;
    bits_ = count_ ? (width + count_ - 1) / count_ : 0;
    values_ = int64_t{1} << bits_;
    places_.resize(static_cast<size_t>((parts_ > 1 ? parts_ : count_) * values_));
    if (parts_ == 1) count_all(from);  // what is not moved by others
  }
  int count() const { return count_; }

  // Where the keys stand in the order of the only digit, from 1, and the runs of each value.
  std::vector<Run<Key>> positions(const Key* keys, int64_t* to, int64_t step) {
    count_parts(keys, 0);
    begin_places(0);
    std::vector<Run<Key>> runs;
    for (int64_t v = 0; v <= static_cast<int64_t>(range_); ++v)
      runs.push_back({static_cast<Key>(low_ + static_cast<Key>(v)), table(0)[v]});
    each_part([&](int64_t p, int64_t i, int64_t end) {
      int64_t* const place = table(parts_ > 1 ? p : 0);
      if (step == 1)
        for (; i < end; ++i) to[place[keys[i] - low_]++] = i + 1;
      else
        for (; i < end; ++i) to[place[keys[i] - low_]++ * step] = i + 1;
    });
    return runs;
  }

  // Moves all into the order of digit d; false, and nothing moved, where they have the same.
  template <class From>
  bool move(const From* from, Packed<Key>* to, int d) {
    count_parts(from, d);
    if (!begin_places(d)) return false;
    each_part([&](int64_t p, int64_t i, int64_t end) {
      int64_t* const place = table(parts_ > 1 ? p : d);
      for (; i < end; ++i) to[place[digit(key_at<Key>(from, i), d)]++] = item_at<Key>(from, i);
    });
    return true;
  }

 private:
  static void find_range(const Key* keys, int64_t n, Key* low, Key* high) {
    range_of(keys, n, low, high);
  }
  static void find_range(const Packed<Key>* items, int64_t n, Key* low, Key* high) {
    *low = *high = key_of<Key>(items[0]);
    for (int64_t i = 1; i < n; ++i) {
      *low = std::min(*low, key_of<Key>(items[i]));
      *high = std::max(*high, key_of<Key>(items[i]));
    }
  }

  // Of all digits in one pass.
  template <class From>
  void count_all(const From* from) {
    switch (count_) {
      case 0:
        return;
      case 1:
        return count_one(from);
      case 2:
        return count_digits<2>(from);
      case 3:
        return count_digits<3>(from);
      case 4:
        return count_digits<4>(from);
      default:
        for (int d = 0; d < count_; d += 2)
          d + 1 < count_ ? count_digits<2>(from, d) : count_digits<1>(from, d);
    }
  }
  template <int D, class From>
  void count_digits(const From* from, int first = 0) {
    int64_t* tables[D];
    for (int d = 0; d < D; ++d) tables[d] = table(first + d);
    for (int64_t i = 0; i < n_; ++i) {
      const Key key = key_at<Key>(from, i);
#pragma GCC unroll 4
      for (int d = 0; d < D; ++d) ++tables[d][digit(key, first + d)];
    }
  }
  // Keys of few values in tables of their own, for equal ones would wait for each other.
  template <class From>
  void count_one(const From* from) {
    constexpr int kTables = 4;
    std::vector<int32_t> counts(static_cast<size_t>(kTables * values_));
    int32_t* const tables = counts.data();
    for (int64_t i = 0, end; i < n_; i = end) {
      end = std::min(n_, i + (int64_t{1} << 30));
      for (; i + kTables <= end; i += kTables)
#pragma GCC unroll 4
        for (int k = 0; k < kTables; ++k)
          ++tables[k * values_ + digit(key_at<Key>(from, i + k), 0)];
      for (; i < end; ++i) ++tables[digit(key_at<Key>(from, i), 0)];
      for (int64_t v = 0; v < values_; ++v)
        for (int k = 0; k < kTables; ++k) table(0)[v] += std::exchange(tables[k * values_ + v], 0);
    }
  }
  // Of several parts, before each move.
  template <class From>
  void count_parts(const From* from, int d) {
    if (parts_ == 1) return;
    each_part([&](int64_t p, int64_t i, int64_t end) {
      int64_t* const here = table(p);
      std::fill_n(here, values_, 0);
      for (; i < end; ++i) ++here[digit(key_at<Key>(from, i), d)];
    });
  }
  // Counts become places; false where all have the same digit.
  bool begin_places(int d) {
    const int first = parts_ > 1 ? 0 : d;
    int64_t before = 0;
    for (int64_t v = 0; v < values_; ++v) {
      const int64_t start = before;
      for (int p = 0; p < parts_; ++p) before += std::exchange(table(first + p)[v], before);
      if (before - start == n_) return false;
    }
    return true;
  }
  template <class F>
  void each_part(F&& f) const {
    parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) f(p, n_ * p / parts_, n_ * (p + 1) / parts_);
    });
  }
  int digit(Key key, int d) const {
    return static_cast<int>((key - low_) >> d * bits_) & ((1 << bits_) - 1);
  }
  int64_t* table(int64_t which) { return places_.data() + which * values_; }

  int64_t n_, values_;
  int parts_, count_, bits_;
  Key low_, range_;
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
    if (n <= ranked()) {
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

template <class Key>
std::vector<Run<Key>> order_few_values(const Key* keys, int64_t n, int threads, int64_t* positions,
                                       int64_t step) {
  // A few of the keys mostly tell that there are more values.
  Key low, high;
  range_of(keys, std::min<int64_t>(n, 256), &low, &high);
  if ((high - low) >> kDigitBits) return {};
  DigitOrder<Key> order(keys, n, threads);
  if (order.count() != 1) return {};
  return order.positions(keys, positions, step);
}
template std::vector<Run<uint32_t>> order_few_values(const uint32_t*, int64_t, int, int64_t*,
                                                     int64_t);
template std::vector<Run<uint64_t>> order_few_values(const uint64_t*, int64_t, int, int64_t*,
                                                     int64_t);

}  // namespace tycho::cpu
