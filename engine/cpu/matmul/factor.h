// LU and Cholesky factors and triangular solves of matrices that lie in rows. They split a matrix
// in two until a block is small, so that nearly all of the work is products, which gemm does
// (Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997).
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

constexpr int64_t kSmallSystem = 8, kSmallSides = 8;  // the most that are solved many at once
// Columns that are factored, and rows that are solved, at once.
constexpr int64_t kFactorBlock = 16;

// What the loops of a level call a type.
template <class T>
constexpr int kReal = sizeof(T) == 4 ? 0 : 1;

// A matrix that is read: element (i, j) lies at data[i * row + j * col].
template <class T>
struct Strided {
  const T* data;
  int64_t row, col;
};

// A triangle: element (i, j) lies at data[i * row + j * col]; with `unit` its diagonal is taken for
// 1.
template <class T>
struct Triangle {
  bool upper, unit;
  int64_t n;
  const T* data;
  int64_t row, col;
};

// a[n, n] becomes L below the diagonal, whose own diagonal is 1, and U, where L U is `a` with row k
// exchanged for row swaps[k] (from 0), k = 0, 1, .. Returns 0, or the first column without a pivot
// (from 1). `alone`: on this thread only.
template <class T>
int64_t factor_lu(T* a, int64_t n, int64_t row, int* swaps, bool alone);

// The upper triangle of a[n, n] becomes U with U^T U = a; what is below it is not read. Returns 0,
// or the size of the first leading part that is not positive definite.
template <class T>
int64_t factor_cholesky(T* a, int64_t n, int64_t row, bool alone);

// a[n, n] becomes its inverse; x[n, n] and swaps[n] are room for that. Returns as factor_lu.
template <class T>
int64_t invert_matrix(T* a, int64_t n, int* swaps, T* x, bool alone);

// b[n, width] becomes X with `t` X = b.
template <class T>
void solve_triangle(const Triangle<T>& t, T* b, int64_t b_row, int64_t width, bool alone);

}  // namespace tycho::cpu

// The blocks; type 0 is float, 1 double.
// LU of m rows of 16 numbers, of which the first w (at most m and 16) are columns; as factor_lu.
TYCHO_LEVELS(int64_t, factor_panel, (int type, void* panel, int64_t m, int64_t w, int* swaps))
// `count` systems of at most 8 rows, side by side in lanes: b[count, n, sides] becomes X with A X =
// B (at most 8 sides, or none and null); diagonal[count, n] is that of U, and signs[count] the sign
// of the exchanges of rows.
TYCHO_LEVELS(void, small_systems,
             (int type, int64_t n, int64_t sides, int64_t count, const void* a, void* b,
              void* diagonal, void* signs))
// Solves with a triangle of at most 16 rows.
TYCHO_LEVELS(void, solve_block,
             (int type, bool upper, bool unit, int64_t n, const void* t, int64_t row, int64_t col,
              void* b, int64_t b_row, int64_t width))
// to[i][j] = -from(i, j), rows side by side
TYCHO_LEVELS(void, negate_into,
             (int type, const void* from, int64_t row, int64_t col, void* to, int64_t m, int64_t n))
