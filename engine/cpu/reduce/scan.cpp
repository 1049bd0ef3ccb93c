// Scans along a dimension.
#include "engine/cpu/reduce/scan.h"

#include <vector>

#include "engine/cpu/along.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

Lanes lanes_of(DType t) {
  return t == DType::Float64 ? Lanes::F64 : is_floating(t) ? Lanes::F32 : Lanes::I64;
}

// The same elements with dimension d last.
Tensor moved_last(const Tensor& t, int d) {
  Sizes shape, stride;
  for (int k = 0; k < t.rank(); ++k)
    if (k != d) shape.push_back(t.size(k)), stride.push_back(t.stride(k));
  shape.push_back(t.size(d)), stride.push_back(t.stride(d));
  return alias(t, shape, stride, t->offset);
}

void scan_into(const Tensor& out, const Tensor& input, int dim, ScanOp what, bool reverse) {
  constexpr int64_t kLong = 256;  // shorter runs are slower than lanes over copied columns
  int64_t inner = 1;
  for (int d = dim + 1; d < input.rank(); ++d) inner *= input.size(d);
  const bool along = input.rank() && input.stride(dim) == 1 && !input.contiguous(),
             few = inner < 8 && what != ScanOp::LogSumExp && input.numel() >= 4 * kLong;
  if (inner > 1 && input.size(dim) >= kLong && (along || few)) {
    // It lies along the dimension, or too few lines do side by side.
    const Tensor turned = packed(moved_last(input, dim)),
                 result = empty(turned.shape(), out.dtype());
    scan_into(result, turned, turned.rank() - 1, what, reverse);
    return copy_raw(moved_last(out, dim), result);
  }
  Tensor x = packed(input);
  if (is_floating(out.dtype()) && x.dtype() != out.dtype()) x = op<"to.dtype">(x, out.dtype());
  const Lanes lanes = lanes_of(out.dtype());
  const int l = static_cast<int>(lanes), o = static_cast<int>(what);
  const Cut cut(x, dim);
  const DType type = lane_type_of(lanes);
  if (cut.rows >= 4 && cut.inner == 1 && cut.n > 1 && x.dtype() == type && out.dtype() == type &&
      what != ScanOp::LogSumExp) {
    const int64_t bytes = cut.n * dtype_size(type);
    return parallel_for(
        cut.rows, std::max<int64_t>(4, kAlongWork / cut.n), [&](int64_t begin, int64_t end) {
          level_of::scan_rows(l, o, reverse, static_cast<const void*>(x.data() + begin * bytes),
                              static_cast<void*>(out.data() + begin * bytes), cut.n, end - begin);
        });
  }
  const Tensor* t[] = {&out, &x};
  over_rows(
      t, 2, cut, lanes,
      [&](char* const* p, int64_t n) { level_of::scan_run(l, o, reverse, p[1], p[0], n); },
      [&](char* const* p, int64_t n, int64_t cols, int64_t step) {
        level_of::scan_columns(l, o, reverse, p[1], p[0], n, cols, step);
      },
      2048);
}

void scan(Call& c, ScanOp what, bool reverse) {
  scan_into(c.out[0], c.tensor(0), static_cast<int>(c.integer(1)), what, reverse);
}

void scan_with_index(Call& c, ScanOp what) {
  const Lanes lanes = lanes_of(c.tensor(0).dtype());
  const DType type = lane_type_of(lanes);
  const Tensor x = packed(op<"to.dtype">(c.tensor(0), type));
  Tensor y = c.out[0].dtype() == type ? c.out[0] : empty(x.shape(), type);
  const Cut cut(x, c.integer(1));
  if (cut.rows == 0) return;
  const int64_t bytes = dtype_size(type);
  if (cut.inner > 1) {
    constexpr int64_t kBlock = 256;
    const int64_t blocks = (cut.inner + kBlock - 1) / kBlock;
    parallel_for(
        cut.rows / cut.inner * blocks,
        std::max<int64_t>(1, kAlongWork / (cut.n * std::min(kBlock, cut.inner))),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t j = i % blocks * kBlock, from = i / blocks * cut.n * cut.inner + j;
            level_of::scan_extreme_columns(static_cast<int>(lanes), static_cast<int>(what),
                                           static_cast<const void*>(x.data() + from * bytes),
                                           static_cast<void*>(y.data() + from * bytes),
                                           c.out[1].data<int64_t>() + from, cut.n,
                                           std::min(kBlock, cut.inner - j), cut.inner);
          }
        });
    if (y.get() != c.out[0].get()) copy_raw(c.out[0], y);
    return;
  }
  parallel_for(cut.rows, std::max<int64_t>(1, kAlongWork / cut.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = cut.first(row);
      level_of::scan_extreme(static_cast<int>(lanes), static_cast<int>(what),
                             x.data() + from * bytes, cut.inner, y.data() + from * bytes,
                             c.out[1].data<int64_t>() + from, cut.inner, cut.n);
    }
  });
  if (y.get() != c.out[0].get()) copy_raw(c.out[0], y);
}

// dx[k] = (product of x before k) * s[k], where s[k] = g[k] + x[k+1] s[k+1]: no division, so zeros
// need no special care.
void products_back(const double* g, const double* x, double* out, int64_t n, int64_t step) {
  double s = 0;
  for (int64_t k = n - 1; k >= 0; --k) {
    s = g[k * step] + (k + 1 < n ? x[(k + 1) * step] * s : 0);
    out[k * step] = s;
  }
  double before = 1;
  for (int64_t k = 0; k < n; ++k) {
    out[k * step] *= before;
    before *= x[k * step];
  }
}

}  // namespace

void cumsum(Call& c, bool reverse) { scan(c, ScanOp::Sum, reverse); }
void cumprod(Call& c) { scan(c, ScanOp::Prod, false); }
void logcumsumexp(Call& c, bool reverse) { scan(c, ScanOp::LogSumExp, reverse); }
void cummax(Call& c) { scan_with_index(c, ScanOp::Max); }
void cummin(Call& c) { scan_with_index(c, ScanOp::Min); }

void cumprod_backward(Call& c) {
  const Tensor g = packed(c.tensor(0)), x = packed(c.tensor(1));
  const Tensor* t[] = {&c.out[0], &g, &x};
  const auto d = [](char* p) { return reinterpret_cast<double*>(p); };
  over_rows(
      t, 3, Cut(x, c.integer(2)), Lanes::F64,
      [&](char* const* p, int64_t n) { products_back(d(p[1]), d(p[2]), d(p[0]), n, 1); },
      [&](char* const* p, int64_t n, int64_t cols, int64_t step) {
        for (int64_t j = 0; j < cols; ++j)
          products_back(d(p[1]) + j, d(p[2]) + j, d(p[0]) + j, n, step);
      });
}

BIND_KERNEL(Cpu, "cumsum", [](Call& c) { cumsum(c, false); });
BIND_KERNEL(Cpu, "cumsum_from_end", [](Call& c) { cumsum(c, true); });
BIND_KERNEL(Cpu, "cumprod", cumprod);
BIND_KERNEL(Cpu, "cumprod_backward", cumprod_backward);
BIND_KERNEL(Cpu, "logcumsumexp", [](Call& c) { logcumsumexp(c, false); });
BIND_KERNEL(Cpu, "logcumsumexp_from_end", [](Call& c) { logcumsumexp(c, true); });
BIND_KERNEL(Cpu, "cummax", cummax);
BIND_KERNEL(Cpu, "cummin", cummin);

}  // namespace tycho::cpu
