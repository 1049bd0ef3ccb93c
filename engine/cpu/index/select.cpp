// Selecting from lines without sorting all of them: the k best, the k-th, the median, the most
// frequent. What can be among them is collected, by a limit that comes closer while the line is
// read, that a sample tells, or by counting first digits.
#include <algorithm>
#include <bit>

#include "engine/cpu/index/lines.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// Many keys counted by their upper bits, which gives those that the k-th (from 0) begins with: `at`, and how many
// keys are `below` that.
template <class Key>
struct Digits {
  static constexpr int kBits = 11, kValues = 1 << kBits;
  static constexpr int64_t kMany = 2048;  // keys that make up for the table
  const Key* keys;
  int64_t n, below = 0;
  int shift, at = 0;

  Digits(const Key* of, int64_t count, int64_t k) : keys(of), n(count) {
    Key differ = 0;
    for (int64_t i = 0; i < n; ++i) differ |= keys[i] ^ keys[0];
    shift = std::max(0, static_cast<int>(std::bit_width(differ)) - kBits);
    int64_t table[2][kValues] = {};  // two, since equal digits that follow each other would wait
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) ++table[0][digit(keys[i])], ++table[1][digit(keys[i + 1])];
    if (i < n) ++table[0][digit(keys[i])];
    for (;; ++at) {
      const int64_t here = table[0][at] + table[1][at];
      if (k < below + here) break;
      below += here;
    }
  }
  int digit(Key key) const { return static_cast<int>(key >> shift) & (kValues - 1); }
  // Those that begin so become items, or with `lesser` also those below; how many.
  int64_t collect(Packed<Key>* items, bool lesser) const {
    const int first = lesser ? 0 : at;
    int64_t have = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int d = digit(keys[i]);
      items[have] = pack<Key>(keys[i], i);
      have += d >= first && d <= at;
    }
    return have;
  }
};

// Sorts few items: all compared with all, where they are that few.
void sort_few(Packed<uint32_t>* items, Packed<uint32_t>* spare, int64_t n) {
  if (n > ranked()) return sort_packed<uint32_t>(items, spare, n);
  uint32_t keys[kRanked];
  int32_t place[kRanked];
  for (int64_t i = 0; i < n; ++i) keys[i] = key_of<uint32_t>(items[i]);
  level_of::rank_keys(static_cast<const uint32_t*>(keys), static_cast<int>(n),
                      static_cast<int32_t*>(place));
  for (int64_t i = 0; i < n; ++i) spare[place[i]] = items[i];
  std::copy(spare, spare + n, items);
}

// find_least where some keys of the line tell about where the k-th is: only what is not greater than a
// limit a little beyond that is looked at. False where that fails, as in lines of a few values.
bool find_by_sample(const uint32_t* keys, Packed<uint32_t>* items, Packed<uint32_t>* spare,
                    int64_t n, int64_t k) {
  constexpr int kMost = 128;
  const int count = n < 512 ? 32 : kMost, margin = n < 512 ? 3 : 5;
  uint32_t sample[kMost], sorted[kMost];
  int32_t place[kMost];
  for (int i = 0; i < count; ++i) sample[i] = keys[i * n / count];
  level_of::rank_keys(static_cast<const uint32_t*>(sample), count, static_cast<int32_t*>(place));
  for (int i = 0; i < count; ++i) sorted[place[i]] = sample[i];
  for (int64_t rank = k * count / n + margin; rank < count; rank += 2 * margin) {
    const uint32_t limit = sorted[rank];
    if (limit == kNanKey<uint32_t>) return false;
    int64_t i = 0;
    const int64_t have =
        level_of::collect_below_u32(keys, &i, n, limit + 1, items, int64_t{0}, n + kCollect);
    if (have < k) continue;
    if (2 * have > n + k) return false;
    sort_few(items, spare, have);
    return true;
  }
  return false;
}

// The k least of n keys, in order, into items[0..k).
template <class Key>
void find_least(const Key* keys, Packed<Key>* items, Packed<Key>* spare, int64_t n, int64_t k) {
  if (16 * k >= n && 2 * k < n && n >= Digits<Key>::kMany) {
    // They stand in the order of their numbers, as sorting by digits leaves equal keys.
    const int64_t have = Digits<Key>(keys, n, k - 1).collect(items, true);
    if (have <= 2 * k) return sort_packed<Key>(items, spare, have);
    std::nth_element(items, items + (k - 1), items + have);
    std::sort(items, items + k);
    return;
  }
  if constexpr (sizeof(Key) == 4)
    if (16 * k >= n && 3 * k < 2 * n && n > ranked() && find_by_sample(keys, items, spare, n, k))
      return;
  // Sorting by digits, of short keys, costs little more than finding the k-th.
  const bool many = (sizeof(Key) == 4 && n >= kByDigits<Key> ? 8 : 2) * k >= n;
  const int64_t room = many ? n : 4 * k + kCollect;
  int64_t have = 0, i = 0;
  for (; i < std::min(n, room); ++i) items[have++] = pack<Key>(keys[i], i);
  if (many) return sort_packed<Key>(items, spare, n);
  // Few stand in order at all times, and what is less than the last of them is put in its place; unless
  // most is, as in lines that fall.
  constexpr int64_t kFew = 16;
  bool in_order = k <= kFew;
  for (int64_t sorted = 0;;) {
    if (in_order) {
      int64_t put = 0;
      const int64_t came = have - sorted;
      for (; sorted < have; ++sorted) {
        const Packed<Key> one = items[sorted];
        int64_t at = std::min(sorted, k);
        if (at == k && !(one < items[--at])) continue;
        ++put;
        for (; at > 0 && one < items[at - 1]; --at) items[at] = items[at - 1];
        items[at] = one;
      }
      in_order = put <= k || 2 * put <= came;
      sorted = k;
    } else {
      std::nth_element(items, items + (k - 1), items + have);
    }
    have = k;
    if (i == n) break;
    const Key limit = key_of<Key>(items[k - 1]);  // later elements must be less to enter
    if constexpr (sizeof(Key) == 4)
      have = level_of::collect_below_u32(keys, &i, n, limit, items, have, room);
    else
      have = level_of::collect_below_u64(keys, &i, n, limit, items, have, room);
  }
  if (!in_order) std::sort(items, items + k);
}

template <class Key>
int64_t nth(Line<Key>& scratch, int64_t n, int64_t k) {
  Packed<Key>* const items = scratch.items;
  if (16 * (k + 1) < n) {
    find_least<Key>(scratch.keys, items, scratch.spare, n, k + 1);
  } else if (n >= Digits<Key>::kMany) {
    const Digits<Key> digits(scratch.keys, n, k);
    const int64_t have = digits.collect(items, false);
    k -= digits.below;
    std::nth_element(items, items + k, items + have);
  } else {
    for (int64_t i = 0; i < n; ++i) items[i] = pack<Key>(scratch.keys[i], i);
    std::nth_element(items, items + k, items + n);
  }
  return number_of<Key>(items[k]);
}

// Picks one element per line: pick(scratch, n) returns its number. Short lines are sorted up to number k.
template <class Pick>
void pick_one(Call& c, int64_t dim, int64_t k, Nans nans, Pick&& pick) {
  const Tensor x = packed(c.tensor(0));
  if (k >= 0 && pick_short_lines(x, dim, k, nans, c.out[0], c.out[1])) return;
  const Cut cut(x, dim);
  const bool floats = is_floating(x.dtype());
  each_line(x, cut, [&]<class Key>(Key, Line<Key>& scratch, int64_t first, int64_t line) {
    load_line(x, cut, first, scratch, false);
    const int64_t number = pick(scratch, cut.n, floats);
    take_elements(x.dtype(), element(x, first + number * cut.inner), 0,
                  c.out[0].data() + line * dtype_size(x.dtype()), 1, 1,
                  [](int64_t) { return int64_t{0}; });
    c.out[1].data<int64_t>()[line] = number + 1;
  });
}

}  // namespace

void topk(Call& c) {
  const Tensor x = packed(c.tensor(0));
  const int64_t k = c.integer(1);
  const Cut cut(x, c.integer(2)), out(c.out[0], c.integer(2));
  if (k == 0) return;
  const bool largest = c.flag(3);
  if (sort_short_lines(x, c.integer(2), largest, c.out[0], c.out[1])) return;
  each_line(x, cut, [&]<class Key>(Key, Line<Key>& scratch, int64_t first, int64_t line) {
    load_line(x, cut, first, scratch, largest);
    const auto find = [&]<class K>(const K* keys, Packed<K>* items, Packed<K>* spare, int, auto) {
      find_least<K>(keys, items, spare, cut.n, k);
      write_line<K>(x, cut, first, items, c, out, line, k);
    };
    if (16 * k < cut.n)  // few become items
      find(static_cast<const Key*>(scratch.keys), scratch.items, scratch.spare, 0, Key{0});
    else
      with_least_keys(scratch, cut.n, false, find);
  });
}

void kthvalue(Call& c) {
  const int64_t k = c.integer(1) - 1;
  pick_one(c, c.integer(2), k, Nans::Last,
           [&]<class Key>(Line<Key>& scratch, int64_t n, bool) { return nth(scratch, n, k); });
}

void median(Call& c, bool skip_nan) {
  const Tensor& all = c.tensor(0);
  const int64_t middle = (Cut(all, c.integer(1)).n - 1) / 2;
  const Nans nans = skip_nan ? Nans::Skip : Nans::Win;
  pick_one(c, c.integer(1), middle, nans,
           [&]<class Key>(Line<Key>& scratch, int64_t n, bool floats) {
             int64_t numbers = n;
             if (floats) {
               const Key* end = scratch.keys + n;
               const Key* nan = std::find(scratch.keys, scratch.keys + n, kNanKey<Key>);
               if (nan != end) {
                 if (!skip_nan) return static_cast<int64_t>(nan - scratch.keys);
                 numbers = n - std::count(nan, end, kNanKey<Key>);
               }
             }
             return nth(scratch, n, numbers > 0 ? (numbers - 1) / 2 : 0);
           });
}

void mode(Call& c) {
  constexpr int64_t kFew = 24;  // that are counted one by one
  pick_one(c, c.integer(1), -1, Nans::Last, [&]<class Key>(Line<Key>& scratch, int64_t n, bool) {
    if (n <= kFew) {
      const Key* const keys = scratch.keys;
      int64_t best = 0, most = 0;
      for (int64_t i = 0; i < n; ++i) {
        int64_t count = 0;
        for (int64_t j = 0; j < n; ++j) count += keys[j] == keys[i];
        // Of those that are as frequent the least, and of that the last.
        if (count > most || (count == most && keys[i] <= keys[best])) best = i, most = count;
      }
      return best;
    }
    for (int64_t i = 0; i < n; ++i) scratch.items[i] = pack<Key>(scratch.keys[i], i);
    sort_packed<Key>(scratch.items, scratch.spare, n);
    int64_t best = 0, most = 0;
    for (int64_t i = 0; i < n;) {
      int64_t end = i + 1;
      while (end < n && key_of<Key>(scratch.items[end]) == key_of<Key>(scratch.items[i])) ++end;
      if (end - i > most) {
        most = end - i;
        best = end - 1;
      }
      i = end;
    }
    return number_of<Key>(scratch.items[best]);
  });
}

BIND_KERNEL(Cpu, "topk", topk);
BIND_KERNEL(Cpu, "kthvalue", kthvalue);
BIND_KERNEL(Cpu, "median.dim", [](Call& c) { median(c, false); });
BIND_KERNEL(Cpu, "nanmedian.dim", [](Call& c) { median(c, true); });
BIND_KERNEL(Cpu, "mode", mode);

}  // namespace tycho::cpu
