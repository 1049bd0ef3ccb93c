// Categories that are drawn by weights, on a device.
#include <cmath>

#include "engine/cuda/ops/index_walk.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

// Raises where a weight is wrong, or a row has none.
void check_weights(const Tensor& w) {
  const Tensor good = op<"logical_and">(op<"ge">(w, 0), op<"lt">(w, HUGE_VAL));
  const Tensor some = op<"any">(op<"gt">(w, 0), Sizes{1});
  if (item<bool>(op<"logical_and">(op<"all">(good), op<"all">(some)))) return;
  const Tensor all = fetch(as(w, DType::Float64));
  const int64_t n = all.size(1);
  for (int64_t i = 0; i < all.numel(); ++i) {
    const double x = all.data<double>()[i];
    if (!(x >= 0 && std::isfinite(x)))
      fail(Kind::Value,
           format("multinomial needs finite weights of 0 or more; row %lld has %g at position %lld",
                  static_cast<long long>(i / n + 1), x, static_cast<long long>(i % n + 1)));
  }
  const int64_t row = item<int64_t>(op<"argmin">(as(some, DType::Float32)));
  fail(Kind::Value, format("multinomial needs a weight above 0; row %lld has none",
                           static_cast<long long>(row)));
}

void multinomial(Call& c) {
  const Tensor& given = c.tensor(0);
  const int64_t draws = c.integer(1);
  TYCHO_CHECK(Kind::DType, is_floating(given.dtype()),
              "multinomial needs floating-point weights, not %s", dtype_name(given.dtype()));
  const int64_t categories = given.size(-1);
  TYCHO_CHECK(Kind::Value, categories > 0, "multinomial has no category to draw from");
  const Tensor w = op<"reshape">(packed(given), Sizes{-1, categories});
  const int64_t rows = w.size(0);
  if (rows == 0) return;
  check_weights(w);
  Tensor chosen;
  if (c.flag(2) && draws > 1) {
    const DType type = w.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
    Tensor sums = op<"cumsum">(as(w, type), 1);
    sums = op<"div">(sums, op<"narrow">(sums, 1, categories - 1, 1));
    const Tensor unit = empty({rows, draws}, DType::Float64, w.device());
    op_<"uniform">(unit, 0.0, 1.0, c.arg[3]);
    chosen = op<"clamp">(op<"searchsorted">(sums, unit), Value(), categories);
  } else {
    // The largest weight / q for exponential q, which is a race: a category arrives after q / weight.
    const Tensor noise = empty_like(given);
    op_<"exponential">(noise, 1.0, c.arg[3]);
    const Tensor race = op<"div">(w, op<"reshape">(noise, w.shape()));
    chosen = ops<"topk">(race, draws, 1)[1];
  }
  copy_raw(c.out[0], op<"reshape">(chosen, c.out[0].shape()));
}

BIND_KERNEL(Cuda, "multinomial", multinomial);

}  // namespace
}  // namespace tycho::cuda
