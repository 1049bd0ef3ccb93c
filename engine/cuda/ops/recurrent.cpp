// Recurrent layers on a device: for each time step a matrix product, and a kernel for all of its gates;
// the weights' gradient is one product over all steps.
#include "engine/ops/nn/recurrent.h"

#include "engine/cuda/kernels/recurrent.cuh"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

Tensor rows_of(const Tensor& t, int64_t from, int64_t n) { return op<"narrow">(t, 0, from, n); }
Tensor across(const Tensor& t) { return op<"transpose">(t, 0, 1); }

template <class S>
void run(const Tensor& like, const char* f32, const char* f64, const S& s) {
  if (s.rows * s.n == 0) return;
  launch(like.device(), {"recurrent", like.dtype() == DType::Float64 ? f64 : f32},
         grid_for(like.device(), s.rows * s.n), {256}, 0, s);
}

// gates, hidden, cell, weight_hh, bias_hh, kind, batch_sizes, reverse, save -> result, h_n, c_n,
// saved gates, saved cells.
void recurrence(Call& c) {
  const Tensor x = packed(c.tensor(0)), bias = c.has(4) ? packed(c.tensor(4)) : Tensor();
  const Tensor &out = c.out[0], &h = c.out[1], &cell = c.out[2];
  const Tensor weight = across(c.tensor(3));
  const int64_t n = h.size(1);
  const auto kind = static_cast<Recurrence>(c.integer(5));
  const bool gru = kind == Recurrence::Gru, lstm = kind == Recurrence::Lstm, save = c.flag(8);
  const TimeSteps steps = time_steps(c.arg[6], x.size(0), h.size(0), c.flag(7));
  copy_raw(h, c.tensor(1));
  if (lstm) copy_raw(cell, c.tensor(2));
  for (int64_t k = 0; k < steps.size(); ++k) {
    const auto t = static_cast<size_t>(steps.at(k));
    const int64_t row = steps.first[t], rows = steps.count[t];
    const Tensor own = rows_of(h, 0, rows), from = rows_of(x, row, rows);
    const Tensor sums = packed(gru ? op<"matmul">(own, weight) : op<"addmm">(from, own, weight));
    RecurrentStep s{};
    s.rows = rows;
    s.n = n;
    s.kind = kind;
    s.x = from.data<void>();
    s.sums = sums.data<void>();
    s.bias = gru && bias ? bias.data<void>() : nullptr;
    s.h = h.data<void>();
    s.c = lstm ? cell.data<void>() : nullptr;
    s.out = rows_of(out, row, rows).data<void>();
    if (save && (lstm || gru)) s.saved = rows_of(c.out[3], row, rows).data<void>();
    if (save && lstm) s.cells = rows_of(c.out[4], row, rows).data<void>();
    run(out, "recurrent_step_f32", "recurrent_step_f64", s);
  }
}

// grad, grad_h, grad_c, hidden, cell, weight_hh, result, saved gates, saved cells, kind,
// batch_sizes, reverse -> of the gates, hidden, cell, weight_hh, bias_hh.
void recurrence_backward(Call& c) {
  const auto given = [&](int i) { return c.has(i) ? packed(c.tensor(i)) : Tensor(); };
  const Tensor g = given(0), h0 = packed(c.tensor(3)), c0 = given(4), weight = c.tensor(5);
  const Tensor out = packed(c.tensor(6)), saved = packed(c.tensor(7)), cells = packed(c.tensor(8));
  const Tensor &dx = c.out[0], &dh = c.out[1], &dc = c.out[2];
  const auto kind = static_cast<Recurrence>(c.integer(9));
  const bool gru = kind == Recurrence::Gru, lstm = kind == Recurrence::Lstm;
  const int64_t n = h0.size(1);
  const TimeSteps steps = time_steps(c.arg[10], out.size(0), h0.size(0), c.flag(11));
  const auto begin = [&](const Tensor& to, int i) {
    copy_raw(to, c.has(i) ? c.tensor(i) : filled(Sizes(), 0, to.dtype(), to.device()));
  };
  begin(dh, 1);
  if (lstm) begin(dc, 2);
  const Tensor dhx = gru ? empty(dx.shape(), dx.dtype(), dx.device()) : dx;
  const Tensor h_before = empty(out.shape(), out.dtype(), out.device());
  for (int64_t k = steps.size() - 1; k >= 0; --k) {
    const int64_t time = steps.at(k);
    const auto t = static_cast<size_t>(time);
    const int64_t row = steps.first[t], rows = steps.count[t];
    const auto at = [&](const Tensor& x) { return rows_of(x, row, rows).data<void>(); };
    RecurrentGrad s{};
    // Sequences that were in the step before are the first ones.
    const int64_t before = steps.row_before(time, 0);
    while (s.later < rows && steps.row_before(time, s.later) >= 0) ++s.later;
    s.rows = rows;
    s.n = n;
    s.kind = kind;
    s.g = g ? at(g) : nullptr;
    s.dh = dh.data<void>();
    s.dc = lstm ? dc.data<void>() : nullptr;
    s.saved = lstm || gru ? at(saved) : nullptr;
    s.out = at(out);
    s.cells = lstm ? at(cells) : nullptr;
    s.first = lstm ? c0.data<void>() : h0.data<void>();
    if (s.later) s.before = rows_of(lstm ? cells : out, before, s.later).data<void>();
    s.dx = at(dx);
    s.dhx = at(dhx);
    run(out, "recurrent_back_f32", "recurrent_back_f64", s);
    const Tensor mine = rows_of(dh, 0, rows), slope = rows_of(dhx, row, rows);
    copy_raw(mine, gru ? op<"addmm">(mine, slope, weight) : op<"matmul">(slope, weight));
    if (s.later) copy_raw(rows_of(h_before, row, s.later), rows_of(out, before, s.later));
    if (s.later < rows)
      copy_raw(rows_of(h_before, row + s.later, rows - s.later),
               rows_of(h0, s.later, rows - s.later));
  }
  copy_raw(c.out[3], op<"matmul">(across(dhx), h_before));
  if (c.out[4].numel()) copy_raw(c.out[4], op<"sum">(dhx, Sizes{0}));
}

BIND_KERNEL(Cuda, "_recurrence_fused", recurrence);
BIND_KERNEL(Cuda, "_recurrence_backward", recurrence_backward);

}  // namespace
}  // namespace tycho::cuda
