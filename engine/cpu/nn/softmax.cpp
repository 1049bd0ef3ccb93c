// softmax over any dimension of row-major tensors; other types than the lanes' pass through tiles.
#include "engine/cpu/nn/softmax.h"

#include <cmath>
#include <limits>

#include "engine/cpu/along.h"
#include "engine/cpu/row_parts.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

Lanes lanes_for(const Tensor& a, const Tensor& b) {
  return a.dtype() == DType::Float64 || b.dtype() == DType::Float64 ? Lanes::F64 : Lanes::F32;
}

// Of few long rows; others are whole.
RowParts parts_of(const Cut& cut) {
  return cut.inner == 1 ? RowParts(cut.rows, cut.n) : RowParts(cut.rows, 1);
}
void add_to(double& all, double more) { all += more; }
void keep_larger(double& all, double more) {
  if (std::isnan(more) || more > all) all = more;
}

// A tensor in the lanes' type, itself where it is already.
Tensor in_lanes(const Tensor& t, Lanes lanes) {
  return t.dtype() == lane_type_of(lanes) ? t : op<"to.dtype">(t, lane_type_of(lanes));
}
Tensor result_in(const Tensor& out, Lanes lanes) {
  return out.dtype() == lane_type_of(lanes) ? out : empty(out.shape(), lane_type_of(lanes));
}

void softmax_long(const RowParts& r, const Tensor& input, const Tensor& out, Lanes lanes,
                  bool log) {
  const Tensor x = in_lanes(input, lanes), y = result_in(out, lanes);
  const int l = static_cast<int>(lanes), bytes = dtype_size(x.dtype());
  r.each_row([&](int64_t row) {
    const char* const from = x.data() + row * r.n * bytes;
    char* const to = y.data() + row * r.n * bytes;
    const double top = r.joined(
        -std::numeric_limits<double>::infinity(),
        [&](int64_t at, int64_t m) { return level_of::softmax_top(l, from + at * bytes, m); },
        keep_larger);
    const double sum = r.joined(
        0.0,
        [&](int64_t at, int64_t m) {
          return level_of::softmax_exps(l, log, from + at * bytes, to + at * bytes, m, top);
        },
        add_to);
    r.each([&](int64_t at, int64_t m) {
      level_of::softmax_finish(l, log, from + at * bytes, to + at * bytes, m, top, sum);
    });
  });
  if (y.get() != out.get()) copy_raw(out, y);
}

void softmax_backward_long(const RowParts& r, const Tensor& grad, const Tensor& result,
                           const Tensor& out, Lanes lanes, bool log) {
  const Tensor g = in_lanes(grad, lanes), y = in_lanes(result, lanes), d = result_in(out, lanes);
  const int l = static_cast<int>(lanes), bytes = dtype_size(d.dtype());
  r.each_row([&](int64_t row) {
    const int64_t first = row * r.n;
    const auto byte = [&](int64_t at) { return (first + at) * bytes; };
    const double sum = r.joined(
        0.0,
        [&](int64_t at, int64_t m) {
          return level_of::softmax_grad_sum(l, log, g.data() + byte(at), y.data() + byte(at), m);
        },
        add_to);
    r.each([&](int64_t at, int64_t m) {
      level_of::softmax_grad_part(l, log, g.data() + byte(at), y.data() + byte(at),
                                  d.data() + byte(at), m, sum);
    });
  });
  if (d.get() != out.get()) copy_raw(out, d);
}

}  // namespace

void softmax(Call& c, bool log) {
  const Tensor x = packed(c.tensor(0)), &out = c.out[0];
  const Lanes lanes = lanes_for(x, out);
  const Cut cut(x, c.integer(1));
  if (const RowParts r = parts_of(cut); !r.whole()) return softmax_long(r, x, out, lanes, log);
  const int l = static_cast<int>(lanes);
  const Tensor* t[] = {&out, &x};
  over_rows(
      t, 2, cut, lanes,
      [&](char* const* p, int64_t n) { level_of::softmax_run(l, log, p[1], p[0], n); },
      [&](char* const* p, int64_t n, int64_t cols, int64_t step) {
        level_of::softmax_columns(l, log, p[1], p[0], n, cols, step);
      });
}

void softmax_backward(Call& c, bool log) {
  const Tensor g = packed(c.tensor(0)), y = packed(c.tensor(1)), &out = c.out[0];
  const Lanes lanes = lanes_for(g, y);
  const Cut cut(g, c.integer(2));
  if (const RowParts r = parts_of(cut); !r.whole())
    return softmax_backward_long(r, g, y, out, lanes, log);
  const int l = static_cast<int>(lanes);
  const Tensor* t[] = {&out, &g, &y};
  over_rows(
      t, 3, cut, lanes,
      [&](char* const* p, int64_t n) { level_of::softmax_grad_run(l, log, p[1], p[2], p[0], n); },
      [&](char* const* p, int64_t n, int64_t cols, int64_t step) {
        level_of::softmax_grad_columns(l, log, p[1], p[2], p[0], n, cols, step);
      });
}

BIND_KERNEL(Cpu, "softmax", [](Call& c) { softmax(c, false); });
BIND_KERNEL(Cpu, "log_softmax", [](Call& c) { softmax(c, true); });
BIND_KERNEL(Cpu, "softmax_backward", [](Call& c) { softmax_backward(c, false); });
BIND_KERNEL(Cpu, "log_softmax_backward", [](Call& c) { softmax_backward(c, true); });

}  // namespace tycho::cpu
