// Elementwise rows on a device: operands of any type and layout become a walk (kernels/walk.cuh), and
// the row's kernel is compiled for these types when it is first used.
#pragma once
#include <string>

#include "engine/cuda/walk.h"
#include "engine/ops/table/op.h"

namespace tycho::cuda {

void run_row(int row, DType compute, const Value* args, int n, Impl* out);
// Its kernel, on the current stream; w.rank changes.
void launch_row(Device device, int row, DType compute, Operands& w);
// As Backend's functions of these names.
void copy(const Tensor& to, const Tensor& from);
void fill(const Tensor& to, const void* element);

// What NVRTC gets for a row in lanes "f32", "f64" or "i64", when its tensors have these types.
// `packed`: for tensors that are contiguous and begin at whole 16 bytes (kernels/rows.cuh).
std::string row_source(int row, const char* lanes, const int32_t* dtypes, int count, bool packed);
const char* row_name(int row);

}  // namespace tycho::cuda
