// Matrices condensed to bands of two or three diagonals by Householder's reflections from both
// sides, as LAPACK's sytrd and gebrd do. Each step passes once over what is left: it makes what
// the step before changes, and meanwhile multiplies by the next vector (Howell et al., "Cache
// efficient bidiagonalization using BLAS 2.5 operators", 2008). While the matrix stays in the
// second-level cache that is faster than blocks.
//
// A matrix lies in rows of `row` numbers, a multiple of 16 that is four more than its columns or
// longer, from a multiple of 64 bytes on; there are four more rows than it has, and all that is not
// the matrix is 0.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

constexpr int64_t kBandRows = 4;  // more than the matrix has
inline int64_t band_row(int64_t columns) { return (columns + kBandRows + 15) / 16 * 16; }

}  // namespace tycho::cpu

// Type 0 is float, 1 double. The upper triangle of a[n, n] becomes Q T Q': T's diagonal d[n] and
// e[n - 1] beside it; vector k of Q lies in row k behind the diagonal, where it acts. `room`: 3
// rows.
TYCHO_LEVELS(void, tridiagonal,
             (int type, int64_t n, void* a, int64_t row, void* d, void* e, void* tau, void* room))
// a[m, n], m >= n, becomes Q B P': B's diagonal d[n], e[n - 1] above it. Vector k of P lies in row
// k behind the diagonal; that of Q in row k of v[n, v_row], which is 0. `room`: 3 rows of a, and
// one of v.
TYCHO_LEVELS(void, bidiagonal,
             (int type, int64_t m, int64_t n, void* a, int64_t row, void* v, int64_t v_row, void* d,
              void* e, void* tau_q, void* tau_p, void* room))
