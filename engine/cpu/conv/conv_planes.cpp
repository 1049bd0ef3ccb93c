// Planes of sums for each tap (see conv_planes.h).
#include "engine/cpu/conv/conv_planes.h"

#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kMostPlanes = 16, kDepth = 4;  // channels of the result for each of them
constexpr double kWork = 1e6;                    // multiply-adds

}  // namespace

bool conv_planes_input(Call& c) {
  const Tensor &g = c.tensor(0), &w = c.tensor(1), &out = c.out[0];
  const int spatial = w.rank() - 2;
  const DType type = g.dtype();
  if ((type != DType::Float32 && type != DType::Float64) || spatial > 2 || c.integer(6) != 1)
    return false;
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
  const Tensor columns = op<"reshape">(packed(w), Sizes{depth, planes}),
               sums = op<"matmul">(op<"transpose">(columns, 0, 1),
                                   op<"reshape">(packed(g), Sizes{images, depth, pixels}));
  // A line is an image of one.
  const auto pair = [spatial](const Sizes& s, int64_t one, int first = 0) {
    return spatial == 1 ? Sizes{one, s[first]} : Sizes{s[first], s[first + 1]};
  };
  const Tensor image = op<"fold">(sums, pair(out.shape(), 1, 2), pair(w.shape(), 1, 2),
                                  pair(dilation, 1), pair(padding, 0), pair(stride, 1));
  copy_raw(out, op<"reshape">(image, out.shape()));
  return true;
}

}  // namespace tycho::cpu
