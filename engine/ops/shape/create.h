// Filling tensors with numbers: what factories and other kernels share.
#pragma once
#include "engine/ops/table/apply.h"

namespace tycho {

// Raises Kind::Value when a plain number does not fit into a type.
void check_number(const char* op, const Value& v, DType to);
// The result of a factory; its arguments are dtype at `at`, then device, then requires_grad. Raises
// Kind::Shape on a negative size.
Tensor make(const Call& c, const Sizes& shape, int at, DType otherwise);
// Every element becomes one number (converted); no graph, no version.
void fill_raw(const Tensor& to, const Value& number);

constexpr int64_t kMostRepeated = int64_t{1} << 48;  // more elements are refused by name

}  // namespace tycho
