// Running sums, products and extremes on a device: who scans a row, and how it is cut.
#include "engine/cuda/kernels/scan.cuh"

#include <algorithm>

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

struct Kernels {
  const char *f32, *f64, *i64;
};
#define KERNELS(name) \
  { "scan_" name "_f32", "scan_" name "_f64", "scan_" name "_i64" }
constexpr Kernels kSum KERNELS("sum"), kProd KERNELS("prod"),
    kLogSumExp KERNELS("logsumexp"), kMax KERNELS("max"), kMin KERNELS("min");

void run(const Tensor& given, int64_t dim, const Kernels& kernels, bool reverse, const Tensor& out,
         int64_t* positions) {
  Tensor x = packed(given);
  if (is_floating(out.dtype()) && x.dtype() != out.dtype()) x = op<"to.dtype">(x, out.dtype());
  const Cut cut(x.shape(), dim);
  if (x.numel() == 0) return;
  const Written y(out);
  Scan s{};
  s.reverse = reverse;
  s.in = x.data<void>();
  s.in_dtype = number_of(x);
  s.out = y.data();
  s.out_dtype = number_of(out);
  s.positions = positions;
  s.rows = cut.rows();
  s.n = cut.n;
  s.inner = cut.inner;
  // From the shape alone, so that every chip gives the same bits.
  constexpr int64_t kBlocks = 512, kPart = 8192, kParts = 1024;
  s.by_block = cut.inner == 1 && cut.n >= 64;
  const int64_t blocks = s.by_block ? s.rows : (s.rows + 255) / 256;
  const int64_t wanted = std::clamp<int64_t>(kBlocks / blocks, 1, kParts);
  s.part = std::max(kPart, (s.n + wanted - 1) / wanted);
  s.parts = (s.n + s.part - 1) / s.part;
  const Scratch partial(x.device(), s.parts > 1 ? static_cast<size_t>(s.rows * s.parts) * 16 : 0);
  s.partial = partial.as();
  const KernelRef kernel{"scan", out.dtype() == DType::Float64 ? kernels.f64
                                 : is_floating(out.dtype())    ? kernels.f32
                                                               : kernels.i64};
  const Grid grid{static_cast<unsigned>(blocks), static_cast<unsigned>(s.parts)};
  if (s.parts > 1) {
    s.pass = ScanPass::Totals;
    launch(x.device(), kernel, grid, {256}, 0, s);
    Scan carries = s;
    carries.pass = ScanPass::Carries;
    carries.by_block = false;
    launch(x.device(), kernel, {blocks_for(s.rows, 256)}, {256}, 0, carries);
  } else {
    s.partial = nullptr;
  }
  s.pass = ScanPass::Results;
  launch(x.device(), kernel, grid, {256}, 0, s);
  y.finish();
}

void numbers(Call& c, const Kernels& kernels, bool reverse) {
  run(c.tensor(0), c.integer(1), kernels, reverse, c.out[0], nullptr);
}

void extremes(Call& c, const Kernels& kernels) {
  const Written positions(c.out[1]);
  run(c.tensor(0), c.integer(1), kernels, false, c.out[0], positions.data<int64_t>());
  positions.finish();
}

BIND_KERNEL(Cuda, "cumsum", [](Call& c) { numbers(c, kSum, false); });
BIND_KERNEL(Cuda, "cumsum_from_end", [](Call& c) { numbers(c, kSum, true); });
BIND_KERNEL(Cuda, "cumprod", [](Call& c) { numbers(c, kProd, false); });
BIND_KERNEL(Cuda, "logcumsumexp", [](Call& c) { numbers(c, kLogSumExp, false); });
BIND_KERNEL(Cuda, "logcumsumexp_from_end", [](Call& c) { numbers(c, kLogSumExp, true); });
BIND_KERNEL(Cuda, "cummax", [](Call& c) { extremes(c, kMax); });
BIND_KERNEL(Cuda, "cummin", [](Call& c) { extremes(c, kMin); });

}  // namespace
}  // namespace tycho::cuda
