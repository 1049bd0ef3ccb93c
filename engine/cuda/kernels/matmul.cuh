// Integer matrices, as the host hands them to matmul.cu.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

// Row-major; steps between the matrices of a stack, 0 where all are one. Threads 16 x 16.
struct IntegerProduct {
  const int64_t *a, *b;
  int64_t* out;
  int64_t batch, m, n, k, a_step, b_step;
};

}  // namespace tycho::cuda
