// Filling tensors with numbers: what factories and other kernels share.
#pragma once
#include "engine/ops/table/apply.h"
#include "engine/tensor/layout.h"

namespace tycho {

// Raises Kind::Value when a plain number does not fit into a type.
void check_number(const char* op, const Value& v, DType to);
// The result of a factory; its arguments are dtype at `at`, then device, then requires_grad. Raises
// Kind::Shape on a negative size.
Tensor make(const Call& c, const Sizes& shape, int at, DType otherwise);
// Argument i, a memory_format; Preserve where there is none. Raises as parse_format.
Format format_of(const Call& c, int i, int rank);
// The result of a *_like: as the first argument but for what the arguments from `at` on say, which are
// dtype and device; and memory_format at `format`.
Tensor make_like(const Call& c, int at, int format);
// Every element becomes one number (converted); no graph, no version.
void fill_raw(const Tensor& to, const Value& number);

constexpr int64_t kMostRepeated = int64_t{1} << 48;  // more elements are refused by name

}  // namespace tycho
