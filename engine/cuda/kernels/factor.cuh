// Small matrices, one block for each, as the host hands them to the kernels of factor.cu: row-major, one
// after the other, in float or double.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

constexpr int kSmallMatrix = 64;   // the most rows
constexpr int kSmallColumns = 16;  // right hand sides of a block
constexpr unsigned kSmallThreads = 128;

// P A = L U in place of A: L below a diagonal of ones that is not there. Row k was exchanged with row
// pivots[k] - 1; `info` (may be null): the first pivot of 0, from 1 on, or 0.
struct Factors {
  void* a;
  int32_t* pivots;  // n of each matrix
  int32_t* info;
  int64_t count;
  int32_t n;
};

// B, n x sides, becomes the solution X of A X = B, or of A^T X = B where `transposed`. With pivots A is
// what Factors left; without it is one triangle, whose diagonal is of ones where `unit`.
struct Substitution {
  const void* a;
  const int32_t* pivots;
  void* b;
  int64_t count, sides;
  int32_t n;
  bool transposed, upper, unit;
};

}  // namespace tycho::cuda
