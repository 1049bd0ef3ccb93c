// Householder's reflections in blocks, with LAPACK's signs: I - V T V', where V holds a block's
// vectors (Schreiber and Van Loan, 1989), so that nearly all of the work is products, which gemm
// does.
#pragma once
#include "engine/cpu/level.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {

constexpr int64_t kPanel = 16;  // columns that are reflected at once
// Columns of a long matrix that are reflected one after another, as they lie: blocks would not pay.
constexpr int64_t kFewColumns = 20;

// Q = H1 H2 .. Hk of rows by rows, and what it does to matrices that lie in rows.
template <class T>
class Reflections {
 public:
  // `alone`: on this thread only.
  Reflections(int64_t rows, int64_t k, bool alone);

  // Those of the QR of a[rows, columns], k the smaller: its upper triangle becomes R, the rest is
  // lost.
  void factor(T* a, int64_t a_row, int64_t columns);
  // Those whose vectors lie in rows `row` apart, each from its own place on, with 1 there.
  void take(const T* vectors, int64_t row, const T* taus);
  // b[rows, width] becomes Q b, or Q' b.
  void apply(bool transposed, T* b, int64_t b_row, int64_t width) const;
  // x[count, rows] becomes x Q'. `identity`: x was the first rows of that.
  void apply_right(T* x, int64_t x_row, int64_t count, bool identity) const;

 private:
  struct Block {
    int64_t from, rows;  // where it reflects
    T *t, *v;  // -T'; and v[rows, 16], with the zeros and ones that R lies in the place of
  };
  Block block(int64_t number) const;
  void reflect(const Block& b, bool transposed, T* x, int64_t x_row, int64_t width) const;

  int64_t rows_, k_;
  bool alone_;
  Scratch memory_;
};

// Whether a QR is of those few columns.
inline bool few_columns(int64_t rows, int64_t columns, int64_t q_columns) {
  return columns >= 1 && columns <= rows && columns <= kFewColumns && q_columns <= kFewColumns;
}
// QR of m[rows, columns], which lies column by column where those are few, else row by row: its
// upper triangle becomes R; q[q_columns, rows], if not null, is written column by column. False,
// with nothing done, where squares of numbers would leave the type's range, or some are nan.
template <class T>
bool factor_qr(int64_t rows, int64_t columns, int64_t q_columns, T* m, T* q, bool alone);

// Whether the smallest singular value of the triangle r[n, n], with zeros below it, is certainly
// more than `least` times the largest: both are estimated.
template <class T>
bool well_conditioned(int64_t n, const T* r, double least);

}  // namespace tycho::cpu

// Type 0 is float, 1 double. Whether squares of all of n numbers stay in the type's range, and none
// is nan.
TYCHO_LEVELS(bool, squares_in_range, (int type, int64_t n, const void* a))
// QR of a[m, 16] by `steps` reflections, at most m: R, with their vectors below it. The upper
// triangle of u[16, 16] becomes T's inverse; its diagonal is 0 for what leaves everything as it is.
TYCHO_LEVELS(void, reflect_panel, (int type, int64_t m, int64_t steps, void* a, void* u))
// QR of a[columns, rows], which lies column by column, of at most 20 columns and as many rows or
// more, by `steps` reflections: it becomes R with their vectors below it; q[q_columns, rows], if
// not null, is their product.
TYCHO_LEVELS(void, reflect_few,
             (int type, int64_t rows, int64_t columns, int64_t steps, int64_t q_columns, void* a,
              void* q))
