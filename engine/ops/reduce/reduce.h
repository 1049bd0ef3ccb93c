// What reductions share.
#pragma once
#include "engine/grad/node.h"
#include "engine/ops/table/op.h"

namespace tycho {

// The type of a reduction's result (reduce.def).
enum class Result : uint8_t {
  Sum,      // the dtype argument, else the element's; integers and bool give int64
  Mean,     // the dtype argument, else the element's; floats only
  Count,    // int64
  Element,  // the element's; there must be one
  Truth,    // bool; uint8 of uint8
};
DType sum_type(const Tensor& x);
// The result type of a mean, which is of floating point numbers.
DType mean_type(const Call& c, const char* name, int dtype_arg);

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
// The gradient of the p-norm y for the differences x that it is made of, g being that of y.
Tensor distance_slope(const Tensor& g, const Tensor& x, const Tensor& y, double p);
// For each element the product of all others that meet in its result.
Tensor product_of_others(const Tensor& x, uint32_t bits);

// What the divisor of a variance is less than n, by arguments 2 (unbiased) and 4 (correction).
template <class C>  // Call or Backward
double correction_of(const C& c) {
  if (c.has(4)) {
    TYCHO_CHECK(Kind::Argument, !c.has(2), "unbiased and correction say the same: give one");
    return c.number(4);
  }
  return !c.has(2) || c.flag(2) ? 1 : 0;
}

}  // namespace tycho
