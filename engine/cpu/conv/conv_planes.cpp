// Planes of sums for each tap (see conv_planes.h).
#include "engine/cpu/conv/conv_planes.h"

#include <algorithm>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/layout.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kMostPlanes = 16, kDepth = 4;  // channels of the result for each of them
constexpr double kWork = 1e6;                    // multiply-adds

struct Tap {
  int64_t first, count, at;  // places of the result, and where the first of them has its own
};
// Where places 0 to n - 1 of the result, `step` apart and beginning at `begin`, lie within `size`.
Tap within(int64_t n, int64_t step, int64_t begin, int64_t size) {
  const int64_t first = begin < 0 ? (-begin + step - 1) / step : 0,
                end = size > begin ? std::min(n, (size - begin + step - 1) / step) : 0;
  return {first, std::max<int64_t>(0, end - first), begin + first * step};
}

}  // namespace

bool conv_planes_input(Call& c) {
  const Tensor &g = c.tensor(0), &w = c.tensor(1), &out = c.out[0];
  const int spatial = w.rank() - 2;
  const DType type = g.dtype();
  if ((type != DType::Float32 && type != DType::Float64) || c.integer(6) != 1) return false;
  const Sizes stride = c.ints(3), padding = c.ints(4), dilation = c.ints(5);
  const int64_t depth = g.size(1), channels = out.size(1), images = g.size(0);
  int64_t taps = 1, pixels = 1;
  bool steps = false;
  for (int d = 0; d < spatial; ++d) {
    taps *= w.size(d + 2), pixels *= g.size(d + 2);
    steps = steps || stride[d] > 1;
  }
  const int64_t planes = channels * taps;
  if (!steps || planes > kMostPlanes || depth < kDepth * planes ||
      static_cast<double>(g.numel()) * static_cast<double>(planes) < kWork)
    return false;
  const Tensor columns = op<"reshape">(packed(w), Sizes{depth, planes});
  const Tensor sums = op<"matmul">(op<"transpose">(columns, 0, 1),
                                   op<"reshape">(packed(g), Sizes{images, depth, pixels}));
  fill_raw(out, Value(int64_t{0}));
  Sizes at{0, 0, 0};
  for (int64_t tap = 0; tap < taps; ++tap) {
    Sizes shape = out.shape(), to_step = out.strides(), from_step = to_step;
    int64_t to = out->offset, from = sums->offset + tap * pixels;
    from_step[0] = planes * pixels, from_step[1] = taps * pixels;
    int64_t line = 1, rest = tap;
    for (int d = spatial - 1; d >= 0; --d) {
      const int64_t k = w.size(d + 2);
      at[d] = rest % k, rest /= k;
      const Tap t =
          within(g.size(d + 2), stride[d], at[d] * dilation[d] - padding[d], out.size(d + 2));
      shape[d + 2] = t.count;
      to += t.at * out.stride(d + 2), to_step[d + 2] = out.stride(d + 2) * stride[d];
      from += t.first * line, from_step[d + 2] = line;
      line *= g.size(d + 2);
    }
    if (product(shape) > 0)
      op_<"add">(alias(out, shape, to_step, to), alias(sums, shape, from_step, from));
  }
  return true;
}

}  // namespace tycho::cpu
