// The lines of a tensor that are sorted or selected from, each with keys and items to work with.
#pragma once
#include <algorithm>
#include <bit>
#include <mutex>

#include "engine/cpu/along.h"
#include "engine/cpu/index/sort.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

constexpr int64_t kLinePart = 1 << 14;  // elements of a long line that are worth a task

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

inline const char* element(const Tensor& t, int64_t i) {
  return t.data() + i * dtype_size(t.dtype());
}

template <class Key>
void load_line(const Tensor& x, const Cut& cut, int64_t first, Line<Key>& scratch, bool flip) {
  parallel_for(cut.n, kLinePart, [&](int64_t begin, int64_t end) {
    load_keys<Key>(x.dtype(), element(x, first + begin * cut.inner), cut.inner,
                   scratch.keys + begin, end - begin, flip ? static_cast<Key>(-1) : Key{0});
  });
}

// Writes the elements of items[0..n) and their positions along the result's line.
template <class Key>
void write_line(const Tensor& x, const Cut& cut, int64_t first, const Packed<Key>* items, Call& c,
                const Cut& out, int64_t line, int64_t n) {
  const int64_t at = out.first(line);
  char* values = c.out[0].data() + at * dtype_size(x.dtype());
  int64_t* positions = c.out[1].data<int64_t>() + at;
  parallel_for(n, kLinePart, [&](int64_t begin, int64_t end) {
    take_elements(x.dtype(), element(x, first), cut.inner,
                  values + begin * out.inner * dtype_size(x.dtype()), out.inner, end - begin,
                  [&](int64_t i) { return number_of<Key>(items[begin + i]); });
    for (int64_t i = begin; i < end; ++i) positions[i * out.inner] = number_of<Key>(items[i]) + 1;
  });
}

// Calls f(keys, items, spare, bits cut off, what keys are less than whole ones) with keys that lie close together as
// short ones, whose items are cheaper to move; others may be `cut` to their highest bits.
template <class Key, class F>
void with_least_keys(Line<Key>& scratch, int64_t n, bool cut, F&& f) {
  if constexpr (sizeof(Key) == 8) {
    Key low = scratch.keys[0], high = low;
    std::mutex mutex;
    parallel_for(n, kLinePart, [&](int64_t begin, int64_t end) {
      const auto [least, most] = std::minmax_element(scratch.keys + begin, scratch.keys + end);
      const std::lock_guard lock(mutex);
      low = std::min(low, *least);
      high = std::max(high, *most);
    });
    const int bits = std::max(0, static_cast<int>(std::bit_width(high - low)) - 32);
    if ((bits == 0 || cut) && n <= INT32_MAX) {
      // They wait where items are moved to, once keys have become items.
      auto* const keys = reinterpret_cast<uint32_t*>(scratch.spare);
      parallel_for(n, kLinePart, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          keys[i] = static_cast<uint32_t>((scratch.keys[i] - low) >> bits);
      });
      return f(static_cast<const uint32_t*>(keys),
               reinterpret_cast<Packed<uint32_t>*>(scratch.items),
               reinterpret_cast<Packed<uint32_t>*>(scratch.spare), bits, low);
    }
  }
  f(static_cast<const Key*>(scratch.keys), scratch.items, scratch.spare, 0, Key{0});
}

}  // namespace tycho::cpu
