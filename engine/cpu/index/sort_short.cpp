// Sorting many short lines: so many of them side by side, as the columns of a tile, that every step of a simple sort
// is made for all in full registers.
#include <algorithm>
#include <type_traits>

#include "engine/base/parallel.h"
#include "engine/cpu/along.h"
#include "engine/cpu/index/sort.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kInserted = 64;  // elements of a line that may be put in front of each other

// Bits at the end of a type's keys that are the same in all but nan's, which are the largest either way.
int idle_bits(DType t) { return t == DType::BFloat16 ? 16 : t == DType::Float16 ? 13 : 0; }

// Would a network sort this sooner than putting each in front of those that are greater? Its comparisons are of two
// instructions, the others of some eight; but before it there are items to be made. `wide`: of 64 bits.
bool network_pays(int64_t rows, int64_t keep, bool wide) {
  constexpr int64_t kFew = 8, kFewWide = 28;
  if (rows < (wide ? kFewWide : kFew)) return false;
  int64_t levels = 1;
  while (int64_t{1} << levels < rows) ++levels;
  const int64_t network = rows * levels * (levels - 1) / 4 + rows,
                moves = keep * rows - keep * keep / 2;
  return network < 2 * moves;
}

// Numbers become the rows in which the `keep` least keys of each column stood, in order.
template <class Key>
void sort_tile(Key* keys, Key* numbers, int64_t rows, int64_t keep, int64_t columns, DType type) {
  const auto insert = [&] {
    if constexpr (sizeof(Key) == 4)
      level_of::sort_columns_u32(keys, numbers, rows, keep, columns);
    else
      level_of::sort_columns_u64(keys, numbers, rows, keep, columns);
  };
  const bool all_bits = type == DType::Float32 || type == DType::Float64;
  if (!network_pays(rows, keep, all_bits)) return insert();
  const int idle = idle_bits(type);
  const int64_t n = rows * kSortColumns;
  for (int64_t r = 0; columns < kSortColumns && r < rows; ++r)  // others are nothing of their own
    std::fill_n(keys + r * kSortColumns + columns, kSortColumns - columns, keys[0]);
  Key least, most;
  if constexpr (sizeof(Key) == 4)
    level_of::key_range_u32(keys, n, &least, &most);
  else
    level_of::key_range_u64(keys, n, &least, &most);
  const auto numbered = [&](auto* items, int shift) {
    using Item = std::remove_reference_t<decltype(*items)>;
    for (int64_t r = 0; r < rows; ++r)
      for (int j = 0; j < kSortColumns; ++j) {
        const Key key = (keys[r * kSortColumns + j] >> idle) - (least >> idle);
        items[r * kSortColumns + j] =
            static_cast<Item>(key >> shift) << kSortBits | static_cast<Item>(r);
      }
  };
  const auto finish = [&](const auto* items) {
    for (int64_t i = 0; i < n; ++i)
      numbers[i] = static_cast<Key>(items[i] & ((1 << kSortBits) - 1));
  };
  const uint64_t width = (most >> idle) - (least >> idle);
  if (width < uint64_t{1} << (32 - kSortBits)) {
    alignas(64) uint32_t items[kSortShort * kSortColumns];
    numbered(items, 0);
    level_of::sort_items_u32(items, rows);
    return finish(items);
  }
  // The baseline has no comparisons of 64 bits.
  if (rows <= kInserted && (level() == Level::x86_64 || !network_pays(rows, keep, true)))
    return insert();
  // Of wide keys the last bits may make room for the number: those that then are alike are put in order by all of them.
  int cut = 0;
  while (width >> cut >> (63 - kSortBits)) ++cut;
  alignas(64) uint64_t items[kSortShort * kSortColumns];
  numbered(items, cut);
  level_of::sort_items_u64(static_cast<uint64_t*>(items), rows);
  finish(items);
  for (int64_t i = kSortColumns; cut && i < n; ++i)
    for (int64_t k = i;
         k >= kSortColumns && items[k] >> kSortBits == items[k - kSortColumns] >> kSortBits;
         k -= kSortColumns) {
      const auto key = [&](int64_t at) {
        return keys[numbers[at] * kSortColumns + i % kSortColumns];
      };
      if (!(key(k) < key(k - kSortColumns))) break;
      std::swap(numbers[k], numbers[k - kSortColumns]);
    }
}

struct Found {  // in each line of a tile
  int32_t nans[kSortColumns], first[kSortColumns];
};

// Tiles of lines side by side: look(keys, found) before they are sorted, and then take(the tile's first line, lines,
// elements, numbers, found), with `keep` sorted ones of each.
template <class Key, class T, class Look, class Take>
void each_tile(const Tensor& x, const Cut& cut, bool descending, int64_t keep, Look&& look,
               Take&& take) {
  const T* const from = reinterpret_cast<const T*>(x.data());
  const int64_t blocks = (cut.rows + kSortColumns - 1) / kSortColumns;
  parallel_for(blocks, std::max<int64_t>(1, 256 / cut.n), [&](int64_t begin, int64_t end) {
    alignas(64) T elements[kSortShort * kSortColumns];
    alignas(64) Key keys[kSortShort * kSortColumns], numbers[kSortShort * kSortColumns];
    Found found = {};
    std::fill_n(elements, cut.n * kSortColumns, T(0));
    for (int64_t b = begin; b < end; ++b) {
      const int64_t line = b * kSortColumns,
                    lines = std::min<int64_t>(kSortColumns, cut.rows - line);
      for (int64_t j = 0; j < lines; ++j) {
        const T* const first = from + cut.first(line + j);
        for (int64_t r = 0; r < cut.n; ++r) elements[r * kSortColumns + j] = first[r * cut.inner];
      }
      load_keys<Key>(x.dtype(), reinterpret_cast<const char*>(elements), 1, keys,
                     cut.n * kSortColumns, descending ? static_cast<Key>(-1) : Key{0});
      look(keys, found);
      sort_tile(keys, numbers, cut.n, keep, lines, x.dtype());
      take(line, lines, elements, numbers, found);
    }
  });
}

template <class Key, class T>
void sort_lines(const Tensor& x, const Cut& cut, bool descending, const Tensor& values,
                const Tensor& positions, const Cut& out) {
  T* const to = reinterpret_cast<T*>(values.data());
  int64_t* const at = positions.data<int64_t>();
  each_tile<Key, T>(
      x, cut, descending, out.n, [](const Key*, Found&) {},
      [&](int64_t line, int64_t lines, const T* elements, const Key* numbers, const Found&) {
        int64_t result[kSortColumns];
        for (int64_t j = 0; j < lines; ++j) result[j] = out.first(line + j);
        const auto put = [&](int64_t r, int64_t j) {
          const int64_t number = static_cast<int64_t>(numbers[r * kSortColumns + j]);
          const int64_t place = result[j] + r * out.inner;
          to[place] = elements[number * kSortColumns + j];
          at[place] = number + 1;
        };
        if (out.inner == 1)
          for (int64_t j = 0; j < lines; ++j)
            for (int64_t r = 0; r < out.n; ++r) put(r, j);
        else
          for (int64_t r = 0; r < out.n; ++r)
            for (int64_t j = 0; j < lines; ++j) put(r, j);
      });
}

template <class Key, class T>
void pick_lines(const Tensor& x, const Cut& cut, int64_t k, Nans nans, const Tensor& values,
                const Tensor& positions) {
  T* const to = reinterpret_cast<T*>(values.data());
  int64_t* const at = positions.data<int64_t>();
  const bool looks = nans != Nans::Last && is_floating(x.dtype());
  each_tile<Key, T>(
      x, cut, false, k + 1,
      [&](const Key* keys, Found& found) {
        std::fill_n(found.nans, kSortColumns, 0);
        for (int64_t r = cut.n - 1; looks && r >= 0; --r)
          for (int j = 0; j < kSortColumns; ++j) {
            const bool nan = keys[r * kSortColumns + j] == kNanKey<Key>;
            found.nans[j] += nan;
            found.first[j] = nan ? static_cast<int32_t>(r) : found.first[j];
          }
      },
      [&](int64_t line, int64_t lines, const T* elements, const Key* numbers, const Found& found) {
        for (int64_t j = 0; j < lines; ++j) {
          const int64_t there = cut.n - found.nans[j];
          const int64_t row = found.nans[j] == 0 ? k : there > 0 ? (there - 1) / 2 : 0;
          const int64_t number = found.nans[j] > 0 && nans == Nans::Win
                                     ? found.first[j]
                                     : static_cast<int64_t>(numbers[row * kSortColumns + j]);
          to[line + j] = elements[number * kSortColumns + j];
          at[line + j] = number + 1;
        }
      });
}

// Calls f with a key and an element of the type.
template <class F>
void with_keys(DType dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1:
      return f(uint32_t{}, uint8_t{});
    case 2:
      return f(uint32_t{}, uint16_t{});
    case 4:
      return f(uint32_t{}, uint32_t{});
    default:
      return f(uint64_t{}, uint64_t{});
  }
}
// Lines of one element.
void take_only(const Tensor& x, const Tensor& values, const Tensor& positions) {
  copy_raw(values, alias(x, values.shape(), row_major(values.shape()), x->offset));
  fill_raw(positions, int64_t{1});
}
bool are_short(const Cut& cut) {
  constexpr int64_t kFewest = 8;
  if (cut.n <= kInserted) return cut.rows >= kFewest;
  return cut.n <= kSortShort && cut.rows >= kSortColumns && level() != Level::x86_64;
}

}  // namespace

bool sort_short_lines(const Tensor& x, int64_t dim, bool descending, const Tensor& values,
                      const Tensor& positions) {
  const Cut cut(x, dim), out(values, dim);
  if (cut.n == 1 && out.n == 1) return take_only(x, values, positions), true;
  if (!are_short(cut)) return false;
  with_keys(x.dtype(), [&]<class Key, class T>(Key, T) {
    sort_lines<Key, T>(x, cut, descending, values, positions, out);
  });
  return true;
}

bool pick_short_lines(const Tensor& x, int64_t dim, int64_t k, Nans nans, const Tensor& values,
                      const Tensor& positions) {
  const Cut cut(x, dim);
  if (cut.n == 1) return take_only(x, values, positions), true;
  if (!are_short(cut)) return false;
  with_keys(x.dtype(), [&]<class Key, class T>(Key, T) {
    pick_lines<Key, T>(x, cut, k, nans, values, positions);
  });
  return true;
}

}  // namespace tycho::cpu
