// When images are turned. oneDNN's kernels and the lanes of conv_few take up to some ten pixels of
// a line for every number of the weight that they load; lines of three leave them waiting for it.
#include "engine/cpu/conv/conv_turn.h"

#include <utility>

#include "engine/cpu/conv/conv_few.h"
#include "engine/cpu/conv/conv_seen.h"

namespace tycho::cpu {

// Measured on 200 random convolutions with lines of 1 to 12 pixels, both ways: what is turned takes
// 0.8 times as long in the mean, 0.2 at best, and a few of them a tenth longer.
int turned_dimension(Pass pass, DType type, const Sizes& x, const Sizes& kernel, const Sizes& y,
                     int64_t groups) {
  constexpr int64_t kShort = 7, kShortOfFew = 9, kTimes = 2, kLong = 12;
  constexpr int64_t kWindows = 128;  // of which there are that many weights are worth turning
  constexpr double kWork = 1e5;      // multiply-adds
  if (type != DType::Float32 && type != DType::BFloat16) return -1;
  const int spatial = kernel.n;
  if (spatial < 2 || product(kernel) == 1) return -1;
  const Sizes& size = pass == Pass::Input ? x : y;
  int d = 0;
  for (int i = 1; i < spatial; ++i)
    if (size[i + 2] > size[d + 2]) d = i;
  const int64_t line = size[spatial + 1], in = x[1] / groups, out = y[1] / groups;
  const bool few = (pass == Pass::Input ? in : out) <= FewChannels::kMost && pass != Pass::Weight;
  if (line > (few ? kShortOfFew : kShort) || size[d + 2] < std::max(kLong, kTimes * line))
    return -1;
  // Channels by themselves fill lanes already, where there are enough of them.
  if (in == 1 && out == 1 && groups > FewChannels::kMost) return -1;
  const int64_t windows = product(y) / y[1];
  // Taps change their order, which costs a copy of the weight.
  constexpr int64_t kLargeWeight = 1 << 18, kManyWindows = 1024;
  const bool copies = kernel[d] > 1 && kernel[spatial - 1] > 1;
  const bool large = copies && y[1] * in * product(kernel) >= kLargeWeight;
  if (windows < (large ? kManyWindows : kWindows)) return -1;
  const auto work = static_cast<double>(product(y)) * static_cast<double>(in * product(kernel));
  if (work < kWork) return -1;
  // Results are copied to their places; few of them, or those of many sums, are worth it.
  constexpr double kSums = 128;  // multiply-adds for each number that is copied
  const int64_t moved = pass == Pass::Forward ? product(y)
                        : pass == Pass::Input ? product(x)
                                              : (product(x) + product(y)) / 2;
  if (!few && work < kSums * static_cast<double>(moved)) return -1;
  // Our own products take a line of taps at a time: few windows of them stay near where it is wide.
  constexpr int64_t kWide = 1024;  // numbers
  if (level() != Level::v4 && kernel[d] * in > std::max(kWide, kernel[spatial - 1] * in) && !few)
    return -1;
  return d;
}

Sizes turned(Sizes sizes, int spatial, int d) {
  for (int i = 0; i + spatial <= sizes.n; i += spatial)
    std::swap(sizes[i + d], sizes[i + spatial - 1]);
  return sizes;
}

Tensor turned(const Tensor& t, int d) {
  return op<"transpose">(as_it_lies(t), d + 2, t.rank() - 1);
}

}  // namespace tycho::cpu
