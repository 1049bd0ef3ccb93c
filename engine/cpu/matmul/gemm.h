// Matrix products of plain memory: c = a * b (+ c, or + a row of biases), any strides in a and b.
// The kernels in level/ are declared here too.
#pragma once
#include "engine/cpu/level.h"
#include "engine/tensor/dtype.h"

namespace tycho::cpu {

// Element (i, j) of a matrix lies at [i * row + j * col], counted in elements.
struct Product {
  DType dtype;  // of all of them; Float32, Float64, Int64, BFloat16 or Float16
  int64_t m, n, k;
  const void *a, *b;
  void* c;
  int64_t a_row, a_col, b_row, b_col;
  int64_t c_row;               // c's columns are contiguous
  bool add = false;            // add to c
  const void* bias = nullptr;  // or begin every row of c with these n numbers
  bool alone = false;          // inside a region already: use this thread only
  bool far = false;            // c will not stay in a cache
};
void gemm(const Product& p);

// y[i] = sum over j of a(i, j) * x[j * x_step], any strides in a; Float32, Float64 or Int64.
struct VectorProduct {
  DType dtype;
  int64_t m, k;
  const void *a, *x;
  void* y;
  int64_t a_row, a_col, x_step, y_step;
  bool alone = false;
  const void* begin = nullptr;  // one number that is added to every y
};
void gemv(const VectorProduct& p);

// Products of many small matrices of Float32 or Float64: matrix q of a begins at element a_at[q], of
// b at b_at[q], and those of c lie row by row, one after another.
struct TinyProducts {
  DType dtype;
  int64_t count, m, n, k;
  const void *a, *b;
  void* c;
  const int64_t *a_at, *b_at;
  int64_t a_row, a_col, b_row, b_col;
  const void* bias;  // as Product's
};

// Lines of n numbers of two bytes, side by side, the lines `step` apart.
struct Lines16 {
  const uint16_t* from;
  int64_t step, lines, n;
};
// Sums of float32 (+ bias) (+ to) into such lines.
struct Rounded16 {
  int64_t lines, n;
  const float* sums;
  int64_t ld;
  const uint16_t* bias;
  bool add;
  uint16_t* to;
  int64_t step;
};

}  // namespace tycho::cpu

// False, with nothing done, where a row of c does not fit a lane.
TYCHO_LEVELS(bool, tiny_products, (const ::tycho::cpu::TinyProducts* p))
// T is 0 for float, 1 for double, 2 for int64. `begin`: 0 zero, 1 add to c, 2 begin with bias.
// What a register block covers: rows, and columns. `padded`: b's rows may be read to the end of
// such a block.
TYCHO_LEVELS(void, gemm_unit, (int type, int* rows, int* cols))
TYCHO_LEVELS(void, gemm_direct,
             (int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t rs, int64_t cs,
              const void* b, int64_t ldb, void* c, int64_t ldc, int begin, const void* bias,
              bool padded))
// Rows of a (or columns of b, with the strides exchanged) into panels as gemm_packed reads them.
TYCHO_LEVELS(void, gemm_pack_a,
             (int type, const void* a, int64_t rs, int64_t cs, int64_t rows, int64_t k, void* to))
TYCHO_LEVELS(void, gemm_pack_b,
             (int type, const void* b, int64_t rs, int64_t cs, int64_t cols, int64_t k, void* to))
// b packed; a packed too (rs 0), or in place with contiguous rows, rs apart.
TYCHO_LEVELS(void, gemm_packed,
             (int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t rs, const void* b,
              void* c, int64_t ldc, int begin, const void* bias))
// Of bfloat16, or of float16 (half): lines widened, as they lie or into panels as gemm_pack_b's; and
// sums rounded.
TYCHO_LEVELS(void, gemm16_widen, (bool half, const ::tycho::cpu::Lines16* l, float* to, int64_t ld))
TYCHO_LEVELS(void, gemm16_panels, (bool half, const ::tycho::cpu::Lines16* l, float* to))
TYCHO_LEVELS(void, gemm16_few_rows,
             (bool half, int64_t m, int64_t n, int64_t k, const float* a, int64_t rs,
              const uint16_t* b, int64_t ldb, float* c, int64_t ldc))
TYCHO_LEVELS(void, gemm16_round, (bool half, const ::tycho::cpu::Rounded16* r))
// y[i * ys] = row i of a times x (contiguous), rows contiguous and `lda` apart.
TYCHO_LEVELS(void, gemv_rows,
             (int type, int64_t m, int64_t k, const void* a, int64_t lda, const void* x, void* y,
              int64_t ys))
// y[i * ys] += *number
TYCHO_LEVELS(void, gemv_add, (int type, int64_t m, const void* number, void* y, int64_t ys))
// y (contiguous) = sum over j of column j times x[j * xs], columns contiguous and `lda` apart.
// `whole`: these are all rows there are, so that the order of the sums may depend on their number.
TYCHO_LEVELS(void, gemv_cols,
             (int type, int64_t m, int64_t k, const void* a, int64_t lda, const void* x, int64_t xs,
              void* y, bool whole))
// The dot products of m rows, lda apart, with n vectors, ldx apart, all contiguous: of row i and vector
// j to y[i * ys + j * yc]. Float32 and Float64 only.
TYCHO_LEVELS(void, gemm_dots,
             (int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, const void* x,
              int64_t ldx, void* y, int64_t ys, int64_t yc))
// c += a b, for few rows of a; b's and c's columns are contiguous.
TYCHO_LEVELS(void, gemm_few_rows,
             (int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t rs, int64_t cs,
              const void* b, int64_t ldb, void* c, int64_t ldc))
// sum of x[i] * y[i]: partial sums of several lanes, so the order differs from a plain loop's.
TYCHO_LEVELS(void, dot_part, (int type, int64_t n, const void* x, const void* y, void* result))
