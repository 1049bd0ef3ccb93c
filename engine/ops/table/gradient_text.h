// The gradients of rows as they stand in the tables (elementwise.def, reduce.def), for help: in a, b and
// c, or x (the operands), y (the result) and g (its gradient); "none" where there is none.
#pragma once

namespace tycho {

const char* const* row_gradients(int row);  // of an elementwise row: one for each of three operands
const char* hidden_row_value(
    const char* name);  // of a row that gradients call and nobody else; or null
const char* reduction_gradient(const char* op);  // null where it is no row of reduce.def

}  // namespace tycho
