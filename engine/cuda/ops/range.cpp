// Numbers that follow from their positions, made on a device.
#include "engine/cuda/kernels/range.cuh"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

// A one-dimensional result.
void fill(const Tensor& out, Range r) {
  r.out = out.data<void>();
  r.dtype = number_of(out);
  r.n = out.numel();
  r.stride = out.stride(0);
  const bool real =
      r.kind == RangeKind::Step || r.kind == RangeKind::Spaced || r.kind == RangeKind::Power;
  if (r.n == 0) return;
  launch(out.device(), {"range", real ? "range_real" : "range_whole"}, grid_for(out.device(), r.n),
         {256}, 0, r);
}
Range range(RangeKind kind) {
  Range r{};
  r.kind = kind;
  return r;
}

void arange(const Tensor& out, const Value& start, const Value& step) {
  const auto whole = [](const Value& v) { return v.tag != Tag::Float; };
  const auto integer = [](const Value& v) { return v.tag == Tag::Int ? v.i : int64_t{v.b}; };
  Range r = range(RangeKind::Step);
  if (whole(start) && whole(step) && !is_floating(out.dtype())) {
    r.kind = RangeKind::Whole;
    r.from = integer(start);
    r.by = integer(step);
    return fill(out, r);
  }
  r.a = start.number();
  r.step = step.number();
  if (!is_floating(out.dtype())) {
    r.a = std::trunc(r.a);
    r.step = std::trunc(r.step);
  }
  fill(out, r);
}

// Between two ends, each a number or a 0-d tensor.
void spaced(Call& c, RangeKind kind) {
  const auto end = [&](int i) {
    const double x = c.arg[i].tag == Tag::Tensor ? item(c.tensor(i)) : c.number(i);
    return is_floating(c.out[0].dtype()) ? x : std::trunc(x);
  };
  Range r = range(kind);
  const int64_t n = c.integer(2);
  r.a = end(0);
  r.b = end(1);
  r.step = n > 1 ? (r.b - r.a) / static_cast<double>(n - 1) : 0;
  if (kind == RangeKind::Power) r.base = c.number(3);
  fill(c.out[0], r);
}

void nearest_positions(Call& c) {
  Range r = range(RangeKind::Nearest);
  r.size = c.integer(0);
  r.step = c.number(2);
  r.a = c.number(3);
  fill(c.out[0], r);
}

void pad_positions(Call& c) {
  const std::string_view mode = c.string(3);
  Range r = range(mode == "reflect"     ? RangeKind::Reflect
                  : mode == "replicate" ? RangeKind::Replicate
                                        : RangeKind::Circular);
  r.size = c.integer(0);
  r.from = c.integer(1);
  r.first = std::max<int64_t>(-r.from, 0);  // what is cropped does not come around
  r.by = r.size - r.first + std::min<int64_t>(c.integer(2), 0);
  fill(c.out[0], r);
}

void triangle(Call& c, bool lower) {
  const Tensor x = packed(c.tensor(0));
  if (x.numel() == 0) return;
  const Written out(c.out[0]);
  Triangle t{};
  t.in = x.data<void>();
  t.out = out.data();
  t.numel = x.numel();
  t.rows = x.size(-2);
  t.cols = x.size(-1);
  t.diagonal = c.integer(1);
  t.lower = lower;
  constexpr const char* kNames[] = {"triangle_1", "triangle_2", "triangle_4", "triangle_8"};
  launch(x.device(), {"range", by_size(kNames, x.dtype())}, grid_for(x.device(), t.numel), {256}, 0,
         t);
  out.finish();
}

// The places of a triangle, row by row.
void triangle_places(Call& c, bool lower) {
  const Tensor& out = c.out[0];
  const Tensor all = filled({c.integer(0), c.integer(1)}, 1, DType::Bool, out.device());
  const Tensor kept = lower ? op<"tril">(all, c.integer(2)) : op<"triu">(all, c.integer(2));
  copy_raw(out, op<"transpose">(ops<"nonzero">(kept, false)[0], 0, 1));
}

BIND_KERNEL(Cuda, "arange",
            [](Call& c) { arange(c.out[0], Value(int64_t{0}), Value(int64_t{1})); });
BIND_KERNEL(Cuda, "arange.start", [](Call& c) { arange(c.out[0], c.arg[0], c.arg[2]); });
BIND_KERNEL(Cuda, "linspace", [](Call& c) { spaced(c, RangeKind::Spaced); });
BIND_KERNEL(Cuda, "logspace", [](Call& c) { spaced(c, RangeKind::Power); });
BIND_KERNEL(Cuda, "nearest_positions", nearest_positions);
BIND_KERNEL(Cuda, "pad_positions", pad_positions);
BIND_KERNEL(Cuda, "tril", [](Call& c) { triangle(c, true); });
BIND_KERNEL(Cuda, "triu", [](Call& c) { triangle(c, false); });
BIND_KERNEL(Cuda, "tril_indices", [](Call& c) { triangle_places(c, true); });
BIND_KERNEL(Cuda, "triu_indices", [](Call& c) { triangle_places(c, false); });

}  // namespace
}  // namespace tycho::cuda
