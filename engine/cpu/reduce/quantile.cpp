// Where quantiles lie in sorted lines.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/base/parallel.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

void quantile_ranks(Call& c) {
  const Tensor &sorted = c.tensor(0), numbers = packed(c.tensor(1));
  const std::string_view between = c.string(3);
  const bool lower = between == "lower", higher = between == "higher",
             nearest = between == "nearest", linear = between == "linear",
             midpoint = between == "midpoint", floats = sorted.dtype() == DType::Float32;
  const bool skip_nan = c.flag(4);
  const int64_t n = sorted.size(-1), wanted = c.tensor(2).numel(), lines = numbers.numel();
  const Tensor q = empty({wanted}, DType::Float64),
               weight = empty(c.out[2].shape(), DType::Float64),
               scale = filled(c.out[3].shape(), 0, DType::Float64);
  copy_raw(alias(q, c.tensor(2).shape(), row_major(c.tensor(2).shape()), 0), c.tensor(2));
  const double* part = q.data<double>();
  for (int64_t k = 0; k < wanted; ++k)
    TYCHO_CHECK(Kind::Value, part[k] >= 0 && part[k] <= 1, "%s: q must lie between 0 and 1, not %g",
                skip_nan ? "nanquantile" : "quantile", part[k]);
  // Lines with as many numbers as the one before have their ranks in the same places.
  parallel_for(
      lines, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, wanted)),
      [&](int64_t begin, int64_t end) {
        int64_t *const below = c.out[0].data<int64_t>(), *const above = c.out[1].data<int64_t>();
        double *const between_them = weight.data<double>(), *const each = scale.data<double>();
        for (int64_t line = begin; line < end; ++line) {
          const int64_t count = numbers.data<int64_t>()[line], first = line * wanted;
          if (line > begin && count == numbers.data<int64_t>()[line - 1]) {
            for (int64_t k = first; k < first + wanted; ++k) {
              below[k] = below[k - wanted];
              above[k] = above[k - wanted];
              each[k] = each[k - wanted];
              between_them[k] = between_them[k - wanted];
            }
            continue;
          }
          for (int64_t k = 0; k < wanted; ++k) {
            double rank = part[k] * static_cast<double>((skip_nan ? count : n) - 1);
            if (floats)  // the rank is a number of the data's type
              rank = static_cast<float>(part[k]) * static_cast<float>((skip_nan ? count : n) - 1);
            if (count < n && !skip_nan) rank = static_cast<double>(n - 1);  // nan stands last
            if (rank < 0) rank = 0;                                         // nothing but nan
            if (lower) rank = std::floor(rank);
            if (higher) rank = std::ceil(rank);
            if (nearest) rank = std::nearbyint(rank);
            const double low = std::floor(rank);
            const int64_t at = first + k;
            below[at] = static_cast<int64_t>(low) + 1;
            above[at] = static_cast<int64_t>(std::ceil(rank)) + 1;
            if (linear && (skip_nan || count == n))
              each[at] = static_cast<double>(std::max<int64_t>(count, 1) - 1);
            between_them[at] = midpoint && rank > low ? 0.5 : rank - low;
          }
        }
      });
  copy_raw(c.out[2], weight);
  copy_raw(c.out[3], scale);
}

BIND_KERNEL(Cpu, "quantile_ranks", quantile_ranks);

}  // namespace tycho::cpu
