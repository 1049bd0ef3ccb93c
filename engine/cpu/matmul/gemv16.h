// Matrices of bfloat16 or float16 times vectors, up to four at once: the matrix is read as it lies, once, and summed in
// float32; so are the vectors.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

// y[i] = sum over j of a[i * row + j * col] * x[j], where row or col is 1; vector v at x + v * k, its results at
// y + v * m.
struct VectorProduct16 {
  int64_t m, k;
  const uint16_t* a;
  int64_t row, col;
  const uint16_t* x;
  float* y;
  bool half;           // float16
  bool alone = false;  // inside a region already: use this thread only
  int vectors = 1;     // more than one where rows are contiguous (col == 1)
};
constexpr int kMostVectors16 = 4;
void gemv16(const VectorProduct16& p);

}  // namespace tycho::cpu

// Rows are contiguous and `lda` apart. Sums of four rows at a time have an order of their own. Vectors lie k
// apart, and their results ldy.
TYCHO_LEVELS(void, gemv16_rows,
             (bool half, int vectors, int64_t m, int64_t k, const uint16_t* a, int64_t lda,
              const uint16_t* x, float* y, int64_t ldy))
// Columns are contiguous and `lda` apart.
TYCHO_LEVELS(void, gemv16_cols,
             (bool half, int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x,
              float* y))
// Of two vectors, as dot_part.
TYCHO_LEVELS(float, dot16_part, (bool half, int64_t n, const uint16_t* x, const uint16_t* y))
