// Spectra and QR of many small matrices, side by side in lanes: LAPACK's calls cost more than their
// work there. Singular values by rotations of pairs of columns (Hestenes, 1958), eigenvalues of
// symmetric matrices by Jacobi's rotations, QR by Householder's reflections with LAPACK's signs.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

constexpr int64_t kSmallSide = 16;  // the most rows and columns
constexpr int64_t kSmallBatch = 4;  // the fewest matrices that are worth it

// The same at every level, since the sign of an eigenvector is free and should not depend on it.
inline bool many_small_matrices(int64_t count, int64_t rows, int64_t columns) {
  return count >= kSmallBatch && rows >= 1 && columns >= 1 && rows <= kSmallSide &&
         columns <= kSmallSide;
}

}  // namespace tycho::cpu

// All: type 0 is float, 1 double; matrices are rows by columns, one after another, and finite.
// values[count, min(rows, columns)], falling, and, if not null, u[count, u_columns, rows] and
// vh[count, columns, vh_rows]: both column by column.
TYCHO_LEVELS(void, small_singular,
             (int type, int64_t rows, int64_t columns, int64_t u_columns, int64_t vh_rows,
              int64_t count, const void* a, void* values, void* u, void* vh))
// Of the upper (or lower) triangles of a[count, n, n]: values[count, n], rising, and vectors, one
// after another, if not null.
TYCHO_LEVELS(void, small_eigen,
             (int type, int64_t n, bool upper, int64_t count, const void* a, void* values,
              void* vectors))
// r[count, columns, r_rows] and, if not null, q[count, q_columns, rows]: both column by column.
TYCHO_LEVELS(void, small_qr,
             (int type, int64_t rows, int64_t columns, int64_t q_columns, int64_t r_rows,
              int64_t count, const void* a, void* q, void* r))
