// QR by Householder's reflections one after another, for so few of them that blocks would not pay; with
// LAPACK's signs, and its way to keep them.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

// Reflections, and bytes of a matrix beyond the first-level caches of which blocks pay for many.
inline bool few_reflections(int64_t rows, int64_t columns, int64_t q_columns, int64_t bytes) {
  const int64_t k = rows < columns ? rows : columns;
  return k > 0 && k <= 64 && q_columns <= 128 && (k <= 32 || rows * columns * bytes <= 128 << 10);
}

}  // namespace tycho::cpu

// Type 0 is float, 1 double. a[columns, rows] lies column by column and becomes R with the reflections
// below it; q[q_columns, rows], if not null, is their product. False, with nothing done, where squares
// of numbers would leave the type's range, or some are nan.
TYCHO_LEVELS(bool, reflect_qr,
             (int type, int64_t rows, int64_t columns, int64_t q_columns, void* a, void* q))
