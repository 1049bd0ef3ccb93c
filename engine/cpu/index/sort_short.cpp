// Sorting many short lines: so many of them side by side, as the columns of a tile, that every step of a simple sort
// is made for all in full registers.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/along.h"
#include "engine/cpu/index/sort.h"

namespace tycho::cpu {
namespace {

template <class Key>
void sort_tile(Key* keys, Key* numbers, int64_t rows, int64_t keep, int64_t columns) {
  if constexpr (sizeof(Key) == 4)
    level_of::sort_columns_u32(keys, numbers, rows, keep, columns);
  else
    level_of::sort_columns_u64(keys, numbers, rows, keep, columns);
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
  parallel_for(blocks, std::max<int64_t>(1, 64 / cut.n), [&](int64_t begin, int64_t end) {
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
      sort_tile(keys, numbers, cut.n, keep, lines);
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
        for (int64_t r = 0; r < out.n; ++r)
          for (int64_t j = 0; j < lines; ++j) {
            const int64_t number = static_cast<int64_t>(numbers[r * kSortColumns + j]);
            const int64_t place = result[j] + r * out.inner;
            to[place] = elements[number * kSortColumns + j];
            at[place] = number + 1;
          }
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
bool are_short(const Cut& cut) { return cut.n <= kSortShort && cut.rows >= 8; }

}  // namespace

bool sort_short_lines(const Tensor& x, int64_t dim, bool descending, const Tensor& values,
                      const Tensor& positions) {
  const Cut cut(x, dim), out(values, dim);
  if (!are_short(cut)) return false;
  with_keys(x.dtype(), [&]<class Key, class T>(Key, T) {
    sort_lines<Key, T>(x, cut, descending, values, positions, out);
  });
  return true;
}

bool pick_short_lines(const Tensor& x, int64_t dim, int64_t k, Nans nans, const Tensor& values,
                      const Tensor& positions) {
  const Cut cut(x, dim);
  if (!are_short(cut)) return false;
  with_keys(x.dtype(), [&]<class Key, class T>(Key, T) {
    pick_lines<Key, T>(x, cut, k, nans, values, positions);
  });
  return true;
}

}  // namespace tycho::cpu
