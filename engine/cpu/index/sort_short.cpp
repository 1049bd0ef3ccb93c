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

template <class Key, class T>
void sort_lines(const Tensor& x, const Cut& cut, bool descending, const Tensor& values,
                const Tensor& positions, const Cut& out) {
  const T* const from = reinterpret_cast<const T*>(x.data());
  T* const to = reinterpret_cast<T*>(values.data());
  int64_t* const at = positions.data<int64_t>();
  const int64_t blocks = (cut.rows + kSortColumns - 1) / kSortColumns;
  parallel_for(blocks, std::max<int64_t>(1, 512 / cut.n), [&](int64_t begin, int64_t end) {
    alignas(64) T elements[kSortShort * kSortColumns];
    alignas(64) Key keys[kSortShort * kSortColumns], numbers[kSortShort * kSortColumns];
    std::fill_n(elements, cut.n * kSortColumns, T(0));
    for (int64_t b = begin; b < end; ++b) {
      int64_t first[kSortColumns], result[kSortColumns];
      const int64_t lines = std::min<int64_t>(kSortColumns, cut.rows - b * kSortColumns);
      for (int64_t j = 0; j < lines; ++j) {
        first[j] = cut.first(b * kSortColumns + j);
        result[j] = out.first(b * kSortColumns + j);
      }
      for (int64_t r = 0; r < cut.n; ++r)
        for (int64_t j = 0; j < lines; ++j)
          elements[r * kSortColumns + j] = from[first[j] + r * cut.inner];
      load_keys<Key>(x.dtype(), reinterpret_cast<const char*>(elements), 1, keys,
                     cut.n * kSortColumns, descending ? static_cast<Key>(-1) : Key{0});
      sort_tile(keys, numbers, cut.n, out.n, lines);
      for (int64_t r = 0; r < out.n; ++r)
        for (int64_t j = 0; j < lines; ++j) {
          const int64_t number = static_cast<int64_t>(numbers[r * kSortColumns + j]);
          const int64_t place = result[j] + r * out.inner;
          to[place] = elements[number * kSortColumns + j];
          at[place] = number + 1;
        }
    }
  });
}

}  // namespace

bool sort_short_lines(const Tensor& x, int64_t dim, bool descending, const Tensor& values,
                      const Tensor& positions) {
  const Cut cut(x, dim), out(values, dim);
  // Every element is compared with those kept before it.
  const int64_t steps = cut.n * out.n - out.n * out.n / 2;
  if (cut.n > kSortShort || cut.rows < 8 || steps > (wide_keys(x.dtype()) ? 512 : 1024))
    return false;
  switch (dtype_size(x.dtype())) {
    case 1:
      sort_lines<uint32_t, uint8_t>(x, cut, descending, values, positions, out);
      break;
    case 2:
      sort_lines<uint32_t, uint16_t>(x, cut, descending, values, positions, out);
      break;
    case 4:
      sort_lines<uint32_t, uint32_t>(x, cut, descending, values, positions, out);
      break;
    default:
      sort_lines<uint64_t, uint64_t>(x, cut, descending, values, positions, out);
  }
  return true;
}

}  // namespace tycho::cpu
