// Scans along a dimension.
#include "engine/cpu/reduce/scan.h"

#include <cstring>
#include <vector>

#include "engine/cpu/along.h"
#include "engine/cpu/elementwise/move.h"
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

// The lines along a dimension as rows of `run` columns that lie at one step behind it, and how the
// rows lie in the operand and in its row-major result.
struct ScanRows {
  int64_t run = 1, run_step = 1, rows = 1, n, x_step, y_step;
  int others = 0;
  int64_t size[kMaxDims], x_other[kMaxDims], y_other[kMaxDims];
  ScanRows(const Tensor& x, int dim) : n(x.size(dim)), x_step(x.stride(dim)) {
    int64_t inner = 1;  // elements behind d
    bool joining = true;
    for (int d = x.rank() - 1; d >= 0; inner *= x.size(d), --d) {
      if (d == dim) y_step = inner;
      joining = joining && d != dim;
      if (d == dim || x.size(d) == 1) continue;
      if (joining && run == 1) run_step = x.stride(d);
      joining = joining && x.stride(d) == run * run_step;
      if (joining) {
        run *= x.size(d);
        continue;
      }
      size[others] = x.size(d);
      x_other[others] = x.stride(d);
      y_other[others++] = inner;
      rows *= x.size(d);
    }
  }
  void place(int64_t row, int64_t* x, int64_t* y) const {
    for (int k = 0; k < others; row /= size[k], ++k) {
      *x += row % size[k] * x_other[k];
      *y += row % size[k] * y_other[k];
    }
  }
};

// Such rows from where they lie into the result; of other types or steps than the lanes' by way of a
// piece that stays in the cache.
void scan_columns_of(const Tensor& out, const Tensor& x, const ScanRows& r, Lanes lanes,
                     ScanOp what, bool reverse) {
  const DType type = lane_type_of(lanes);
  const bool lies = r.run_step == 1, from_x = x.dtype() == type && lies,
             to_out = out.dtype() == type;
  const int l = static_cast<int>(lanes), of_x = static_cast<int>(x.dtype()),
            of_out = static_cast<int>(out.dtype());
  constexpr int64_t kColumns = 2048;  // whose carries stay in the first-level cache
  const int64_t bytes = dtype_size(type), x_bytes = dtype_size(x.dtype()),
                out_bytes = dtype_size(out.dtype()),
                most = from_x && to_out ? kColumns : std::clamp<int64_t>(16384 / r.n, 16, kColumns),
                cols = std::min(most, r.run), parts = (r.run + cols - 1) / cols;
  parallel_for(
      r.rows * parts, std::max<int64_t>(1, kAlongWork / (r.n * cols)),
      [&](int64_t begin, int64_t end) {
        const int64_t piece = r.n * cols;
        const Scratch scratch(
            static_cast<size_t>(piece * ((!from_x + !to_out) * bytes + (lies ? 0 : x_bytes))));
        char *const in = scratch.data(), *const result = in + (from_x ? 0 : piece * bytes),
                    *const near = result + (to_out ? 0 : piece * bytes);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t j = i % parts * cols, m = std::min(cols, r.run - j);
          int64_t x_at = j * r.run_step, y_at = j;
          r.place(i / parts, &x_at, &y_at);
          const char* const from = x.data() + x_at * x_bytes;
          char* const to = out.data() + y_at * out_bytes;
          if (!lies)  // a run's elements are laid side by side first
            level_of::copy_plane(static_cast<int>(x_bytes), near, m, int64_t{1}, from, r.x_step,
                                 r.run_step, r.n, m);
          if (!from_x)
            level_of::load_rows(l, of_x, in, m * bytes,
                                static_cast<const char*>(lies ? from : near),
                                (lies ? r.x_step : m) * x_bytes, r.n, m);
          level_of::scan_columns(l, static_cast<int>(what), reverse,
                                 static_cast<const void*>(from_x ? from : in),
                                 from_x ? r.x_step : m, static_cast<void*>(to_out ? to : result),
                                 to_out ? r.y_step : m, r.n, m);
          if (!to_out)
            level_of::store_rows(l, of_out, to, r.y_step * out_bytes,
                                 static_cast<const char*>(result), m * bytes, r.n, m);
        }
      });
}

// Lines that lie along the dimension, into a result in which they lie across: some at a time are laid
// side by side, scanned and turned while they are near.
constexpr int64_t kMostTurned = 1 << 14;  // elements of a line
void scan_turned(const Tensor& out, const Tensor& x, int dim, Lanes lanes, ScanOp what,
                 bool reverse) {
  constexpr int64_t kNear = 1 << 17, kFewest = 16, kMost = 64;
  const Cut cut(x, dim);
  const ScanRows lines(x, dim);
  const int size = dtype_size(lane_type_of(lanes));
  const int64_t n = cut.n, bytes = n * size,
                some = std::clamp(kNear / bytes / kFewest * kFewest, kFewest, kMost),
                parts = (cut.inner + some - 1) / some;
  parallel_for(
      cut.rows / cut.inner * parts, std::max<int64_t>(1, kAlongWork / (some * n)),
      [&](int64_t begin, int64_t end) {
        const Scratch scratch(static_cast<size_t>(2 * some * bytes));
        char *const in = scratch.data(), *const result = in + some * bytes;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t j = i % parts * some, m = std::min(some, cut.inner - j),
                        first = i / parts * cut.inner + j;
          int64_t to = 0;
          for (int64_t k = m - 1; k >= 0; --k) {
            int64_t from = (first + k) % lines.run * lines.run_step;
            to = (first + k) % lines.run;
            lines.place((first + k) / lines.run, &from, &to);
            std::memcpy(in + k * bytes, x.data() + from * size, static_cast<size_t>(bytes));
          }
          level_of::scan_rows(static_cast<int>(lanes), static_cast<int>(what), reverse,
                              static_cast<const void*>(in), static_cast<void*>(result), n, m);
          level_of::transpose_plane(size, out.data() + to * size, cut.inner, result, n, n, m,
                                    false);
        }
      });
}

void scan_into(const Tensor& out, const Tensor& input, int dim, ScanOp what, bool reverse) {
  if (input.numel() == 0) return;
  // Where it is stretched, it has the same lines over and over.
  Sizes once = input.shape(), steps;
  for (int d = 0; d < input.rank(); ++d) {
    if (d != dim && input.stride(d) == 0) once[d] = 1;
    steps.push_back(input.stride(d));
  }
  if (!(once == input.shape())) {
    const Tensor result = empty(once, out.dtype());
    scan_into(result, alias(input, once, steps, input->offset), dim, what, reverse);
    steps = row_major(once);
    for (int d = 0; d < input.rank(); ++d)
      if (once[d] != input.size(d)) steps[d] = 0;
    return copy_raw(out, alias(result, out.shape(), steps, result->offset));
  }
  constexpr int64_t kLong = 256;  // shorter runs are slower than lanes over copied columns
  int64_t inner = 1;
  for (int d = dim + 1; d < input.rank(); ++d) inner *= input.size(d);
  const bool along = input.rank() && input.stride(dim) == 1 && !input.contiguous(),
             few = inner < 8 && what != ScanOp::LogSumExp && input.numel() >= 4 * kLong;
  if (const Lanes lanes = lanes_of(out.dtype());
      along && inner >= 8 && input.size(dim) >= 16 && input.size(dim) <= kMostTurned &&
      what != ScanOp::LogSumExp && input.dtype() == lane_type_of(lanes) &&
      out.dtype() == input.dtype())
    return scan_turned(out, input, dim, lanes, what, reverse);
  if (inner > 1 && input.size(dim) >= kLong && (along || few)) {
    // It lies along the dimension, or too few lines do side by side.
    const Tensor turned = packed(moved_last(input, dim)),
                 result = empty(turned.shape(), out.dtype());
    scan_into(result, turned, turned.rank() - 1, what, reverse);
    return copy_raw(moved_last(out, dim), result);
  }
  const Lanes lanes = lanes_of(out.dtype());
  const int l = static_cast<int>(lanes), o = static_cast<int>(what);
  const DType type = lane_type_of(lanes);
  const Cut cut(input, dim);
  if (input.rank() && cut.inner >= 8) {
    const ScanRows rows(input, dim);
    const bool as_they_lie = input.dtype() == type && out.dtype() == type;
    if (rows.run == cut.inner && rows.run_step == 1 ? as_they_lie
                                                    : rows.run >= 32 && cut.n <= 16384)
      return scan_columns_of(out, input, rows, lanes, what, reverse);
  }
  Tensor x = packed(input);
  if (is_floating(out.dtype()) && x.dtype() != out.dtype()) x = op<"to.dtype">(x, out.dtype());
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
        level_of::scan_columns(l, o, reverse, p[1], step, p[0], step, n, cols);
      });
}

void scan(Call& c, ScanOp what, bool reverse) {
  scan_into(c.out[0], c.tensor(0), static_cast<int>(c.integer(1)), what, reverse);
}

void scan_with_index(Call& c, ScanOp what) {
  const Lanes lanes = lanes_of(c.tensor(0).dtype());
  const DType type = lane_type_of(lanes);
  const Tensor& input = c.tensor(0);
  const Tensor x = packed(input.dtype() == type ? input : op<"to.dtype">(input, type));
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
