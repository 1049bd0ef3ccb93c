// Sorting along a dimension, by ordered keys (sort.h): short lines many at a time, long ones by
// digits.
#include "engine/cpu/index/sort.h"

#include <algorithm>

#include "engine/cpu/index/lines.h"
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
  const bool wide = sizeof(Key) == 8;
  const Lanes lanes = is_floating(dtype) ? wide ? Lanes::F64 : Lanes::F32
                      : wide             ? Lanes::I64
                                         : Lanes::I32;
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
    const Key* const v = reinterpret_cast<const Key*>(tile);
    for (int64_t k = 0; k < m; ++k) keys[i + k] = v[k] ^ flip ^ Key { 1 } << (kKeyBits<Key> - 1);
  }
}
template void load_keys(DType, const char*, int64_t, uint32_t*, int64_t, uint32_t);
template void load_keys(DType, const char*, int64_t, uint64_t*, int64_t, uint64_t);

namespace {

// The elements that ordered keys stand for; false for types whose keys do not tell them.
template <class Key, class At>
bool store_values(DType dtype, char* to, int64_t step, int64_t begin, int64_t end, At&& key) {
  constexpr Key sign = Key{1} << (kKeyBits<Key> - 1);
  const auto store = [&]<class T>(T* v, auto&& value) {
    for (int64_t i = begin; i < end; ++i) v[i * step] = static_cast<T>(value(key(i)));
    return true;
  };
  const auto integer = [](Key k) { return k ^ sign; };
  if constexpr (sizeof(Key) == 4) {
    const auto bits = [](Key k) { return k & sign ? k ^ sign : ~k; };
    switch (dtype) {
      case DType::Float32:
        return store(reinterpret_cast<uint32_t*>(to), bits);
      case DType::BFloat16:
        return store(reinterpret_cast<uint16_t*>(to), [&](Key k) { return bits(k) >> 16; });
      case DType::Int32:
        return store(reinterpret_cast<uint32_t*>(to), integer);
      case DType::Int16:
        return store(reinterpret_cast<uint16_t*>(to), integer);
      case DType::Int8:
      case DType::UInt8:
      case DType::Bool:
        return store(reinterpret_cast<uint8_t*>(to), integer);
      default:
        return false;
    }
  }
  return dtype == DType::Int64 && store(reinterpret_cast<uint64_t*>(to), integer);
}

// write_line for many sorted items, whose elements lie far from each other: they come from the keys, which are
// `low` less and with `flip` turned over. Zeros and nans, whose keys are one, stand side by side and are fetched.
template <class Key, class K>
void write_sorted(const Tensor& x, const Cut& cut, int64_t first, const Packed<K>* items, Call& c,
                  int64_t line, Key low, Key flip) {
  const DType dtype = x.dtype();
  const int64_t n = cut.n, inner = cut.inner, at = cut.first(line), size = dtype_size(dtype);
  char* const values = c.out[0].data() + at * size;
  int64_t* const positions = c.out[1].data<int64_t>() + at;
  parallel_for(n, kLinePart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) positions[i * inner] = number_of<K>(items[i]) + 1;
    const auto fetch = [&](int64_t from, int64_t to) {
      if (from < to)
        take_elements(dtype, element(x, first), inner, values + from * inner * size, inner,
                      to - from, [&](int64_t i) { return number_of<K>(items[from + i]); });
    };
    const auto key = [&](int64_t i) { return (low + key_of<K>(items[i])) ^ flip; };
    if (!store_values<Key>(dtype, values, inner, begin, end, key)) return fetch(begin, end);
    if (!is_floating(dtype)) return;
    for (const Key alike : {Key{1} << (kKeyBits<Key> - 1), kNanKey<Key>}) {
      const auto place = [&](bool past) {
        return std::partition_point(items + begin, items + end,
                                    [&](Packed<K> p) {
                                      const Key k = low + key_of<K>(p), limit = alike ^ flip;
                                      return k < limit || (past && k == limit);
                                    }) -
               items;
      };
      fetch(place(false), place(true));
    }
  });
}

// Many integers of few values, which need not be moved to be sorted; false where they are not.
template <class Key, class K>
bool sort_few_values(const Tensor& x, const Cut& cut, const K* keys, int threads, Call& c,
                     int64_t line, Key low, Key flip) {
  if (is_floating(x.dtype())) return false;
  const int64_t at = cut.first(line);
  char* const values = c.out[0].data() + at * dtype_size(x.dtype());
  const auto runs =
      order_few_values<K>(keys, cut.n, threads, c.out[1].data<int64_t>() + at, cut.inner);
  for (size_t i = 0; i < runs.size(); ++i) {
    const Key key = (low + runs[i].key) ^ flip;
    store_values<Key>(x.dtype(), values, cut.inner, runs[i].begin,
                      i + 1 < runs.size() ? runs[i + 1].begin : cut.n,
                      [&](int64_t) { return key; });
  }
  return !runs.empty();
}

// Sorted items whose keys were cut: those that are alike are sorted by their whole keys.
template <class K, class Key>
void settle(Packed<K>* items, int64_t n, const Key* whole) {
  const auto less = [=](Packed<K> a, Packed<K> b) {
    const int64_t i = number_of<K>(a), j = number_of<K>(b);
    return whole[i] < whole[j] || (whole[i] == whole[j] && i < j);
  };
  const auto alike = [=](int64_t i) { return key_of<K>(items[i]) == key_of<K>(items[i - 1]); };
  // Those that are alike belong to the part in which the first of them is.
  parallel_for(n, kLinePart, [&](int64_t begin, int64_t stop) {
    while (begin > 0 && begin < stop && alike(begin)) ++begin;
    for (int64_t i = begin, end; i < stop; i = end) {
      for (end = i + 1; end < n && alike(end); ++end) {
      }
      if (end - i > 1) std::sort(items + i, items + end, less);
    }
  });
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

}  // namespace

void sort(Call& c) {
  if (sort_repeated(c)) return;
  const Tensor x = packed(c.tensor(0));
  const bool descending = c.flag(2);
  if (sort_short_lines(x, c.integer(1), descending, c.out[0], c.out[1])) return;
  const Cut cut(x, c.integer(1));
  constexpr int64_t kMany = 4096;  // elements that do not stay close to the processor
  const int threads = cut.rows == 1 ? get_num_threads() : 1;
  each_line(x, cut, [&]<class Key>(Key, Line<Key>& scratch, int64_t first, int64_t line) {
    load_line(x, cut, first, scratch, descending);
    with_least_keys(
        scratch, cut.n, true,
        [&]<class K>(const K* keys, Packed<K>* items, Packed<K>* spare, int bits, Key low) {
          const Key flip = descending ? static_cast<Key>(-1) : Key{0};
          if (cut.n >= kMany && !bits &&
              sort_few_values<Key, K>(x, cut, keys, threads, c, line, low, flip))
            return;
          Packed<K>* const sorted = sort_keys<K>(keys, items, spare, cut.n, threads);
          if (bits) settle<K>(sorted, cut.n, scratch.keys);
          if (cut.n < kMany || bits)
            write_line<K>(x, cut, first, sorted, c, cut, line, cut.n);
          else
            write_sorted<Key, K>(x, cut, first, sorted, c, line, low, flip);
        });
  });
}

BIND_KERNEL(Cpu, "sort", sort);

}  // namespace tycho::cpu
