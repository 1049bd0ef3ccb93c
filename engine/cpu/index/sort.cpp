// Sorting and selecting along a dimension, by ordered keys (sort.h): small lines by comparison,
// long ones by radix passes; the k best of a line by a limit that comes closer while the line is read.
#include "engine/cpu/index/sort.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "engine/cpu/along.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

template <class Key>
void load_keys(DType dtype, const char* from, int64_t step, Key* keys, int64_t n, Key flip) {
  if constexpr (sizeof(Key) == 4) {
    if (dtype == DType::Float32 && step == 1)
      return level_of::float_keys(reinterpret_cast<const float*>(from), keys, n, flip);
  } else if (dtype == DType::Int64 && step == 1) {
    return level_of::int_keys(reinterpret_cast<const int64_t*>(from), keys, n, flip);
  } else if (dtype == DType::Float64 && step == 1) {
    return level_of::double_keys(reinterpret_cast<const double*>(from), keys, n, flip);
  }
  constexpr int64_t kTile = 512;
  alignas(64) char tile[kTile * 8];
  const Lanes lanes = !is_floating(dtype) ? Lanes::I64 : sizeof(Key) == 8 ? Lanes::F64 : Lanes::F32;
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t m = std::min(kTile, n - i);
    level_of::load_tile(static_cast<int>(lanes), static_cast<int>(dtype), tile,
                        from + i * step * dtype_size(dtype), step, m);
    if constexpr (sizeof(Key) == 4) {
      if (lanes == Lanes::F32) {
        level_of::float_keys(reinterpret_cast<const float*>(tile), keys + i, m, flip);
        continue;
      }
    } else if (lanes == Lanes::F64) {
      level_of::double_keys(reinterpret_cast<const double*>(tile), keys + i, m, flip);
      continue;
    }
    const int64_t* v = reinterpret_cast<const int64_t*>(tile);
    for (int64_t k = 0; k < m; ++k)
      keys[i + k] = static_cast<Key>(v[k]) ^ flip ^ Key { 1 } << (kKeyBits<Key> - 1);
  }
}
template void load_keys(DType, const char*, int64_t, uint32_t*, int64_t, uint32_t);
template void load_keys(DType, const char*, int64_t, uint64_t*, int64_t, uint64_t);

// From how many on items are sorted by digits, not by comparing them.
template <class Key>
constexpr int64_t kByDigits = sizeof(Key) == 4 ? 64 : 256;

// Least significant digit first. All digits are counted in one pass over the data; digits that are
// the same everywhere are skipped.
template <class Key>
void sort_packed(Packed<Key>* items, Packed<Key>* spare, int64_t n) {
  if (n < kByDigits<Key>) {
    std::sort(items, items + n);
    return;
  }
  constexpr int kBits = 8, kDigits = kKeyBits<Key> / kBits, kValues = 1 << kBits;
  std::vector<int64_t> count(kDigits * kValues);
  for (int64_t i = 0; i < n; ++i) {
    const Key key = key_of<Key>(items[i]);
    for (int d = 0; d < kDigits; ++d) ++count[d * kValues + (key >> d * kBits & (kValues - 1))];
  }
  Packed<Key>*from = items, *to = spare;
  for (int d = 0; d < kDigits; ++d) {
    int64_t* place = count.data() + d * kValues;
    const int shift = kKeyBits<Key> + d * kBits;
    const auto digit = [&](Packed<Key> p) { return static_cast<int>(p >> shift) & (kValues - 1); };
    if (place[digit(from[0])] == n) continue;
    int64_t before = 0;
    for (int v = 0; v < kValues; ++v) before += std::exchange(place[v], before);
    for (int64_t i = 0; i < n; ++i) to[place[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + n, items);
}
template void sort_packed<uint32_t>(Packed<uint32_t>*, Packed<uint32_t>*, int64_t);
template void sort_packed<uint64_t>(Packed<uint64_t>*, Packed<uint64_t>*, int64_t);

namespace {

// What each line of a thread works with.
template <class Key>
struct Line {
  Scratch of_keys, of_items, of_spare;
  Key* keys;
  Packed<Key>*items, *spare;
  explicit Line(int64_t n)
      : of_keys(static_cast<size_t>(n) * sizeof(Key)),
        of_items(static_cast<size_t>(n) * sizeof(Packed<Key>)),
        of_spare(static_cast<size_t>(n) * sizeof(Packed<Key>)),
        keys(reinterpret_cast<Key*>(of_keys.data())),
        items(reinterpret_cast<Packed<Key>*>(of_items.data())),
        spare(reinterpret_cast<Packed<Key>*>(of_spare.data())) {}
};

// Calls f(key type, scratch, line's first element in x, line) for every line along dim.
template <class F>
void each_line(const Tensor& x, const Cut& cut, F&& f) {
  const auto run = [&](auto key) {
    using Key = decltype(key);
    parallel_for(cut.rows, std::max<int64_t>(1, 2048 / cut.n), [&](int64_t begin, int64_t end) {
      Line<Key> scratch(cut.n);
      for (int64_t line = begin; line < end; ++line) f(key, scratch, cut.first(line), line);
    });
  };
  if (cut.rows == 0) return;
  if (wide_keys(x.dtype()) || cut.n > INT32_MAX)
    run(uint64_t{});
  else
    run(uint32_t{});
}

const char* element(const Tensor& t, int64_t i) { return t.data() + i * dtype_size(t.dtype()); }

template <class Key>
void load_line(const Tensor& x, const Cut& cut, int64_t first, Line<Key>& scratch, bool flip) {
  load_keys<Key>(x.dtype(), element(x, first), cut.inner, scratch.keys, cut.n,
                 flip ? static_cast<Key>(-1) : Key{0});
}
// Writes the elements of items[0..n) and their positions along the result's line.
template <class Key>
void write_line(const Tensor& x, const Cut& cut, int64_t first, const Packed<Key>* items, Call& c,
                const Cut& out, int64_t line, int64_t n) {
  const int64_t at = out.first(line);
  char* values = c.out[0].data() + at * dtype_size(x.dtype());
  int64_t* positions = c.out[1].data<int64_t>() + at;
  take_elements(x.dtype(), element(x, first), cut.inner, values, out.inner, n,
                [&](int64_t i) { return number_of<Key>(items[i]); });
  for (int64_t i = 0; i < n; ++i) positions[i * out.inner] = number_of<Key>(items[i]) + 1;
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

// Calls f(keys, items, spare, bits cut off) with keys that lie close together as short ones, whose items are cheaper
// to move; others may be `cut` to their highest bits.
template <class Key, class F>
void with_least_keys(Line<Key>& scratch, int64_t n, bool cut, F&& f) {
  if constexpr (sizeof(Key) == 8) {
    Key low = scratch.keys[0], high = low;
    for (int64_t i = 1; i < n; ++i) {
      low = std::min(low, scratch.keys[i]);
      high = std::max(high, scratch.keys[i]);
    }
    const int bits = std::max(0, static_cast<int>(std::bit_width(high - low)) - 32);
    if ((bits == 0 || cut) && n <= INT32_MAX) {
      // They wait where items are moved to, once keys have become items.
      auto* const keys = reinterpret_cast<uint32_t*>(scratch.spare);
      for (int64_t i = 0; i < n; ++i)
        keys[i] = static_cast<uint32_t>((scratch.keys[i] - low) >> bits);
      return f(static_cast<const uint32_t*>(keys),
               reinterpret_cast<Packed<uint32_t>*>(scratch.items),
               reinterpret_cast<Packed<uint32_t>*>(scratch.spare), bits);
    }
  }
  f(static_cast<const Key*>(scratch.keys), scratch.items, scratch.spare, 0);
}

// Sorted items whose keys were cut: those that are alike are sorted by their whole keys.
template <class K, class Key>
void settle(Packed<K>* items, int64_t n, const Key* whole) {
  const auto less = [=](Packed<K> a, Packed<K> b) {
    const int64_t i = number_of<K>(a), j = number_of<K>(b);
    return whole[i] < whole[j] || (whole[i] == whole[j] && i < j);
  };
  for (int64_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && key_of<K>(items[end]) == key_of<K>(items[i]); ++end) {
    }
    if (end - i > 1) std::sort(items + i, items + end, less);
  }
}

// The items of keys, sorted.
template <class K>
void sort_keys(const K* keys, Packed<K>* items, Packed<K>* spare, int64_t n) {
  if constexpr (sizeof(K) == 4)
    if (n <= kRanked) {
      int32_t place[kRanked];
      level_of::rank_keys(keys, static_cast<int>(n), static_cast<int32_t*>(place));
      for (int64_t i = 0; i < n; ++i) items[place[i]] = pack<K>(keys[i], i);
      return;
    }
  for (int64_t i = 0; i < n; ++i) items[i] = pack<K>(keys[i], i);
  sort_packed<K>(items, spare, n);
}

// Along a dimension without steps all elements are one: they stand in order.
bool sort_repeated(Call& c) {
  const Tensor& x = c.tensor(0);
  const int d = wrap_dim(c.integer(1), x.rank());
  if (x.rank() == 0 || x.size(d) < 2 || shown_strides(x.get())[d] != 0) return false;
  copy_raw(c.out[0], x);
  const Tensor numbers = op<"arange.start">(1, x.size(d) + 1);
  Sizes strides;
  for (int k = 0; k < x.rank(); ++k) strides.push_back(k == d ? 1 : 0);
  copy_raw(c.out[1], alias(numbers, x.shape(), strides, 0));
  return true;
}

void sort(Call& c) {
  if (sort_repeated(c)) return;
  const Tensor x = packed(c.tensor(0));
  const bool descending = c.flag(2);
  if (sort_short_lines(x, c.integer(1), descending, c.out[0], c.out[1])) return;
  const Cut cut(x, c.integer(1));
  each_line(x, cut, [&]<class Key>(Key, Line<Key>& scratch, int64_t first, int64_t line) {
    load_line(x, cut, first, scratch, descending);
    with_least_keys(scratch, cut.n, true,
                    [&]<class K>(const K* keys, Packed<K>* items, Packed<K>* spare, int bits) {
                      sort_keys<K>(keys, items, spare, cut.n);
                      if (bits) settle<K>(items, cut.n, scratch.keys);
                      write_line<K>(x, cut, first, items, c, cut, line, cut.n);
                    });
  });
}

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

void topk(Call& c) {
  const Tensor x = packed(c.tensor(0));
  const int64_t k = c.integer(1);
  const Cut cut(x, c.integer(2)), out(c.out[0], c.integer(2));
  if (k == 0) return;
  const bool largest = c.flag(3);
  if (sort_short_lines(x, c.integer(2), largest, c.out[0], c.out[1])) return;
  each_line(x, cut, [&]<class Key>(Key, Line<Key>& scratch, int64_t first, int64_t line) {
    load_line(x, cut, first, scratch, largest);
    const auto find = [&]<class K>(const K* keys, Packed<K>* items, Packed<K>* spare, int) {
      find_least<K>(keys, items, spare, cut.n, k);
      write_line<K>(x, cut, first, items, c, out, line, k);
    };
    if (16 * k < cut.n)  // few become items
      find(static_cast<const Key*>(scratch.keys), scratch.items, scratch.spare, 0);
    else
      with_least_keys(scratch, cut.n, false, find);
  });
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

BIND_KERNEL(Cpu, "sort", sort);
BIND_KERNEL(Cpu, "topk", topk);
BIND_KERNEL(Cpu, "kthvalue", kthvalue);
BIND_KERNEL(Cpu, "median.dim", [](Call& c) { median(c, false); });
BIND_KERNEL(Cpu, "nanmedian.dim", [](Call& c) { median(c, true); });
BIND_KERNEL(Cpu, "mode", mode);

}  // namespace tycho::cpu
