// What rows of elementwise.def need beside their value and gradients: checks of arguments, rows
// that stand in for others, samples for the table tests.
#pragma once
#include "engine/ops/elementwise/elementwise.h"

namespace tycho {

void check_alpha(Call& c, DType compute);      // no fractions of integers; no bool differences
void no_bool(Call& c, DType compute);          // no differences of bool
void no_zero(Call& c, DType compute);          // no integer division by zero
void check_power(Call& c, DType compute);      // no negative powers of integers
void same_types(Call& c, DType compute);       // tensors of one type
void same_floats(Call& c, DType compute);      // tensors of one floating type
void check_condition(Call& c, DType compute);  // operand 0 is a bool tensor
void check_fill(Call& c, DType compute);       // a bool mask and one value that fits
void check_limits(Call& c, DType compute);     // b <= c
void round_lambd(Call& c, DType compute);      // b rounded as a
void check_lambd(Call& c, DType compute);      // b >= 0, rounded as a
void check_celu(Call& c, DType compute);       // b != 0

Row simple_power(const Call& c, DType compute);
Row not_of_bool(const Call& c, DType compute);
// Of booleans, a logical row is the bitwise one.
template <Row bits>
Row of_bools(const Call&, DType compute) {
  return compute == DType::Bool ? bits : Row::Count;
}

// Samples of row `op`: tensors, broadcast tensors, numbers; integers and bool where it takes them.
void row_samples(Samples& s, const Op& op, const RowInfo& info, const RowMore& more);
void samples_of_where(Samples& s);
void samples_of_fill(Samples& s);
void samples_of_slopes(Samples& s);
void samples_of_shares(Samples& s);

}  // namespace tycho
