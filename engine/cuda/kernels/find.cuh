// What is found among elements, as the host hands it to the kernels of find.cu: those that a mask
// names, and the places of values in sorted lines.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

constexpr int kFoundDims = 8;

struct Found {
  const uint8_t* mask;
  const int64_t* upto;  // how many are true up to each element, itself included
  int64_t numel;
  const void* from;  // elements that are moved
  void* to;
  int32_t rank;
  int64_t size[kFoundDims];
  int64_t* places[kFoundDims];  // positions from 1 along each dimension, `step` apart
  int64_t step;
};

struct Search {
  const void *sorted, *values;  // values null: the number
  const int64_t* order;         // of the sorted elements, from 1, or null
  void* out;                    // positions from 1
  int32_t sorted_dtype, values_dtype, out_dtype;
  int32_t right;
  int64_t numel, per_line, n;
  double number;
  int64_t integer;
};

// Of running products: the gradient of their inputs, a row of n elements `inner` apart.
struct ProductsBack {
  const double *grad, *in;
  double* out;
  int64_t rows, n, inner;
};

}  // namespace tycho::cuda
