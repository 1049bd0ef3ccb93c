// What rows of elementwise.def need beside their value and gradients: checks of arguments, rows
// that stand in for others, samples for the table tests.
#pragma once
#include "engine/ops/elementwise/elementwise.h"

namespace tycho {

void check_alpha(const Call& c, DType compute);  // no fractions of integers; no bool differences
void no_bool(const Call& c, DType compute);      // no differences of bool
void no_zero(const Call& c, DType compute);      // no integer division by zero
void check_power(const Call& c, DType compute);  // no negative powers of integers
void same_types(const Call& c, DType compute);   // tensors of one type
void same_floats(const Call& c, DType compute);  // tensors of one floating type
void check_condition(const Call& c, DType compute);  // operand 0 is a bool tensor
void check_fill(const Call& c, DType compute);       // a bool mask and one value that fits
void check_limits(const Call& c, DType compute);     // b <= c
void check_lambd(const Call& c, DType compute);      // b >= 0
void check_celu(const Call& c, DType compute);       // b != 0

Row simple_power(const Call& c, DType compute);
Row not_of_bool(const Call& c, DType compute);

// Samples of row `op`: tensors, broadcast tensors, numbers; integers and bool where it takes them.
void row_samples(Samples& s, const Op& op, const RowInfo& info, const RowMore& more);
void samples_of_where(Samples& s);
void samples_of_fill(Samples& s);

}  // namespace tycho
