// What reductions share, and their kernels, defined in cpu/.
#pragma once
#include "engine/grad/node.h"
#include "engine/ops/table/op.h"

namespace tycho {

// The shape left when the dims in `bits` are reduced.
Sizes reduced_shape(const Sizes& shape, uint32_t bits, bool keepdim);
// Makes a result with that shape for the call's first argument and the dims of argument `dims`.
Tensor& add_reduced(Call& c, int dims, bool keepdim, DType dtype);
// A result's tensor (or gradient) with the reduced dims put back as size 1.
Tensor unreduce(const Tensor& t, const Sizes& shape, uint32_t bits);
// Argument `dims` of a recorded call as bits, and bits as a list.
uint32_t dims_of(const Backward& b, int dims, int rank);
Sizes dim_list(uint32_t bits, int rank);
// One dim as bits; none for a 0-d tensor, where -1 and the first stand for the only element.
uint32_t one_dim(int64_t dim, int rank);
// Raises unless every dim in `bits` has elements: there is no largest of nothing.
void check_not_empty(const char* name, const Tensor& x, uint32_t bits);
// The gradient of a largest or smallest value: to all elements that equal it, in equal parts.
// `whole`: the value is a number, and when nan, equals those that are nan.
Tensor share_among_equal(const Tensor& g, const Tensor& x, const Tensor& value, uint32_t bits,
                         bool whole);

}  // namespace tycho

namespace tycho::cpu {

// self, dims, ...: dims as argument 1 (all when none); results as the shape rules made them.
void sum(Call& c);
void nansum(Call& c);
void count_numbers(Call& c);
void mean(Call& c);
void prod(Call& c);
void prod_of_others(Call& c);
void amax(Call& c);
void amin(Call& c);
void any(Call& c);
void all(Call& c);
void count_nonzero(Call& c);
// self, dim: values and 1-based positions.
void max_with_index(Call& c);
void min_with_index(Call& c);
// self, dim?: 1-based positions, flat without a dim.
void argmax(Call& c);
void argmin(Call& c);
// Results: the variance (or its root), and the mean where a second result is made.
void moments(Call& c, const Value& dims, double correction, bool root);
// self, ord, dims.
void vector_norm(Call& c);

}  // namespace tycho::cpu
