// Where quantiles lie in sorted lines, on a device: a few numbers for each, by operations on them.
#include <string_view>

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

void quantile_ranks(Call& c) {
  const Tensor& sorted = c.tensor(0);
  const std::string_view between = c.string(3);
  const bool skip_nan = c.flag(4);
  const int64_t n = sorted.size(-1), wanted = c.tensor(2).numel(), lines = c.tensor(1).numel();
  const Tensor given = fetch(op<"to.dtype">(c.tensor(2), DType::Float64));
  for (int64_t k = 0; k < wanted; ++k) {
    const double q = number_at(given, k);
    TYCHO_CHECK(Kind::Value, q >= 0 && q <= 1, "%s: q must lie between 0 and 1, not %g",
                skip_nan ? "nanquantile" : "quantile", q);
  }
  const Sizes all{lines, wanted};
  // The rank is a number of the data's type.
  const DType type = sorted.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  const auto column = [&](const Tensor& t, DType as) {
    return op<"expand">(op<"reshape">(op<"to.dtype">(t, as), Sizes{lines, 1}), all);
  };
  const Tensor count = column(c.tensor(1), type), complete = fn::eq(count, n);
  const Tensor parts = sent(op<"to.dtype">(given, type), sorted.device());
  const Tensor q = op<"expand">(op<"reshape">(parts, Sizes{1, wanted}), all);
  Tensor rank = skip_nan ? q * (count - 1) : q * static_cast<double>(n - 1);
  rank = op<"to.dtype">(rank, DType::Float64);
  if (!skip_nan) rank = op<"where">(complete, rank, static_cast<double>(n - 1));  // nan stands last
  rank = op<"clamp">(rank, 0.0);                                                  // nothing but nan
  if (between == "lower") rank = fn::floor(rank);
  if (between == "higher") rank = fn::ceil(rank);
  if (between == "nearest") rank = op<"round">(rank);
  const Tensor low = fn::floor(rank);
  const auto store = [&](int i, const Tensor& x) {
    copy_raw(c.out[i], op<"reshape">(x, c.out[i].shape()));
  };
  store(0, low + 1);
  store(1, fn::ceil(rank) + 1);
  const Tensor part = rank - low, none = op<"zeros_like">(rank);
  store(2, between == "midpoint" ? op<"where">(fn::gt(part, 0), none + 0.5, none) : part);
  const Tensor spread = op<"to.dtype">(op<"clamp">(count, 1) - 1, DType::Float64);
  store(3, between != "linear" ? none : skip_nan ? spread : op<"where">(complete, spread, none));
}

BIND_KERNEL(Cuda, "quantile_ranks", quantile_ranks);

}  // namespace
}  // namespace tycho::cuda
