// Transposed copies of whole matrices.
#include "engine/cpu/elementwise/transpose.h"

#include "engine/cpu/lanes/transpose.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Tiles of 16 x 16: 16 lines of each side at a time.
template <class T>
void transpose_one(int64_t rows, int64_t cols, const T* from, T* to) {
  constexpr int64_t tile = 16;
  for (int64_t j0 = 0; j0 < cols; j0 += tile) {
    const int64_t j1 = j0 + tile < cols ? j0 + tile : cols;
    for (int64_t i0 = 0; i0 < rows; i0 += tile) {
      const int64_t i1 = i0 + tile < rows ? i0 + tile : rows;
      int64_t i = i0;
      for (; i + 4 <= i1; i += 4) {
        int64_t j = j0;
        for (; j + 4 <= j1; j += 4) turn4(from + i * cols + j, cols, to + j * rows + i, rows);
        for (; j < j1; ++j)
          for (int q = 0; q < 4; ++q) to[j * rows + i + q] = from[(i + q) * cols + j];
      }
      for (; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) to[j * rows + i] = from[i * cols + j];
    }
  }
}

template <class T>
void transpose_all(int64_t count, int64_t rows, int64_t cols, const void* from, void* to) {
  const T* f = static_cast<const T*>(from);
  T* t = static_cast<T*>(to);
  for (int64_t k = 0; k < count; ++k)
    transpose_one(rows, cols, f + k * rows * cols, t + k * rows * cols);
}

}  // namespace

void transpose(int size, int64_t count, int64_t rows, int64_t cols, const void* from, void* to) {
  if (size == 4)
    transpose_all<float>(count, rows, cols, from, to);
  else
    transpose_all<double>(count, rows, cols, from, to);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
