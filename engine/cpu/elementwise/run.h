// What the CPU's backend and the simulated devices' share: values from tensor to tensor, and rows.
#pragma once
#include "engine/ops/elementwise/row_program.h"

namespace tycho::cpu {

// As Backend's functions of these names, on memory that may be touched.
void copy(const Tensor& to, const Tensor& from);
void run_row(int row, DType compute, const Value* args, int n, Impl* out);
void run_few(int row, DType type, void* const* p, int64_t n);
void run_rows(const RowProgram& program);
bool has_zero(const Impl* t);
// `element` has the tensor's type.
void fill(const Tensor& to, const void* element);

}  // namespace tycho::cpu
