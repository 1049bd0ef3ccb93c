// softmax over any dimension of row-major tensors; other types than the lanes' pass through tiles.
#include "engine/cpu/nn/softmax.h"

#include "engine/cpu/along.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

Lanes lanes_for(const Tensor& a, const Tensor& b) {
  return a.dtype() == DType::Float64 || b.dtype() == DType::Float64 ? Lanes::F64 : Lanes::F32;
}

}  // namespace

void softmax(Call& c, bool log) {
  const Tensor x = packed(c.tensor(0)), &out = c.out[0];
  const Lanes lanes = lanes_for(x, out);
  const int l = static_cast<int>(lanes);
  const Tensor* t[] = {&out, &x};
  over_rows(
      t, 2, Cut(x, c.integer(1)), lanes,
      [&](char* const* p, int64_t n) { level_of::softmax_run(l, log, p[1], p[0], n); },
      [&](char* const* p, int64_t n, int64_t cols, int64_t step) {
        level_of::softmax_columns(l, log, p[1], p[0], n, cols, step);
      });
}

void softmax_backward(Call& c, bool log) {
  const Tensor g = packed(c.tensor(0)), y = packed(c.tensor(1)), &out = c.out[0];
  const Lanes lanes = lanes_for(g, y);
  const int l = static_cast<int>(lanes);
  const Tensor* t[] = {&out, &g, &y};
  over_rows(
      t, 3, Cut(g, c.integer(2)), lanes,
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
