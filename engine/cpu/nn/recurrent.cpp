// A recurrent layer over all its time steps: the weights are packed once, and each thread takes
// some of the sequences through the steps. What a single sequence meets is shared out at every step.
#include "engine/cpu/nn/recurrent.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/nn/recurrent.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

int64_t whole_blocks(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

struct Layer {
  int type, size, kind, unit_rows, unit_cols;
  int64_t n, wide, sequences;  // units, all gates of a step, sequences
  TimeSteps steps;

  Layer(DType dtype, int kind_of, int64_t units, int64_t all, const Value& counts, int64_t rows,
        bool reverse)
      : type(dtype == DType::Float64),
        size(dtype_size(dtype)),
        kind(kind_of),
        n(units),
        wide(recurrence_gates(kind_of) * units),
        sequences(all),
        steps(time_steps(counts, rows, all, reverse)) {
    level_of::gemm_unit(type, &unit_rows, &unit_cols);
  }
  char* at(const void* p, int64_t elements) const {
    return const_cast<char*>(static_cast<const char*>(p)) + elements * size;
  }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * size); }
  bool is(Recurrence r) const { return kind == static_cast<int>(r); }

  // body(k, first sequence, how many), for all steps k in order and all sequences that are in
  // them; the sequences are shared out to the threads, and an interrupt is seen every few ms.
  template <class F>
  void walk(bool backward, F&& body) const {
    const int64_t work = std::max<int64_t>(1, sequences * wide * n), count = steps.size();
    const int64_t together = std::max<int64_t>(1, (int64_t{1} << 26) / work);
    const bool share = work * std::min(together, count) >= (int64_t{1} << 20);
    const int64_t threads = share ? get_num_threads() : 1;
    const int64_t block = (sequences + threads - 1) / threads;
    for (int64_t from = 0; from < count; from += together) {
      const int64_t to = std::min(count, from + together);
      check_interrupt();
      parallel_for((sequences + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          for (int64_t i = from; i < to; ++i) {
            const int64_t t = steps.at(backward ? count - 1 - i : i);
            const int64_t have = steps.count[static_cast<size_t>(t)] - b * block;
            if (have > 0) body(t, b * block, std::min(block, have));
          }
      });
    }
  }

  // c[rows, columns] = a[rows, depth] times the packed weights, as recurrent_times. A single sequence
  // leaves the other threads free.
  void times(int64_t rows, int64_t columns, int64_t depth, const void* a, const void* w, void* c,
             int begin, const void* bias) const {
    constexpr int64_t kWork = 1 << 17;  // multiply-adds of a chunk: 10 us where the weights lie far
    const int64_t panels = (columns + unit_cols - 1) / unit_cols;
    const int64_t together = std::max<int64_t>(4, kWork / (rows * depth * unit_cols) / 4 * 4);
    const auto run = [&](int64_t from, int64_t to) {
      const int64_t j = from * unit_cols;
      level_of::recurrent_times(type, rows, std::min(columns, to * unit_cols) - j, depth, a, depth,
                                static_cast<const void*>(at(w, j * depth)),
                                static_cast<void*>(at(c, j)), columns, begin,
                                static_cast<const void*>(bias ? at(bias, j) : nullptr));
    };
    if (sequences == 1)
      parallel_for(panels, together, run);
    else
      run(0, panels);
  }
};

}  // namespace

// gates, hidden, cell, weight_hh, bias_hh, kind, batch_sizes, reverse, save -> result, h_n, c_n,
// saved gates, saved cells.
void recurrence(Call& c) {
  const Tensor x = packed(c.tensor(0)), weight = packed(c.tensor(3));
  const int64_t n = c.tensor(1).size(1);
  const Layer l(x.dtype(), static_cast<int>(c.integer(5)), n, c.tensor(1).size(0), c.arg[6],
                x.size(0), c.flag(7));
  const bool gru = l.is(Recurrence::Gru), lstm = l.is(Recurrence::Lstm), save = c.flag(8);
  copy_raw(c.out[1], c.tensor(1));
  if (lstm) copy_raw(c.out[2], c.tensor(2));
  Tensor bias;
  if (gru && c.has(4)) bias = packed(c.tensor(4));
  const Scratch w(l.bytes(whole_blocks(l.wide, l.unit_cols) * n));
  level_of::gemm_pack_b(l.type, static_cast<const void*>(weight.data()), n, int64_t{1}, l.wide, n,
                        static_cast<void*>(w.data()));
  // Gates are summed where they are kept, else in scratch memory of one step.
  const bool in_place = save && lstm;
  const Scratch sums(in_place ? 0 : l.bytes(l.sequences * l.wide));
  l.walk(false, [&](int64_t t, int64_t from, int64_t rows) {
    const int64_t row = l.steps.first[static_cast<size_t>(t)] + from;
    RecurrentStep s{};
    s.rows = rows, s.n = n;
    s.x = l.at(x.data(), row * l.wide);
    s.gates = in_place ? l.at(c.out[3].data(), row * l.wide) : l.at(sums.data(), from * l.wide);
    s.h = l.at(c.out[1].data(), from * n);
    s.c = lstm ? l.at(c.out[2].data(), from * n) : nullptr;
    s.out = l.at(c.out[0].data(), row * n);
    s.saved = gru && save ? l.at(c.out[3].data(), row * 4 * n) : nullptr;
    s.cells = lstm && save ? l.at(c.out[4].data(), row * n) : nullptr;
    const void* const first = !gru ? s.x : bias ? bias.data() : nullptr;
    l.times(rows, l.wide, n, s.h, w.data(), s.gates, !gru ? 3 : bias ? 2 : 0, first);
    level_of::recurrent_step(l.type, l.kind, const_cast<const RecurrentStep*>(&s));
  });
}

// grad, grad_h, grad_c, hidden, cell, weight_hh, result, saved gates, saved cells, kind,
// batch_sizes, reverse -> of the gates, hidden, cell, weight_hh, bias_hh.
void recurrence_backward(Call& c) {
  const auto given = [&](int i) { return c.has(i) ? packed(c.tensor(i)) : Tensor(); };
  const Tensor g = given(0), h0 = packed(c.tensor(3)), c0 = given(4), weight = packed(c.tensor(5));
  const Tensor &out = c.tensor(6), &saved = c.tensor(7), &cells = c.tensor(8);
  const int64_t n = h0.size(1), rows_all = out.size(0);
  const Layer l(out.dtype(), static_cast<int>(c.integer(9)), n, h0.size(0), c.arg[10], rows_all,
                c.flag(11));
  const bool gru = l.is(Recurrence::Gru), lstm = l.is(Recurrence::Lstm);
  const Tensor &dx = c.out[0], &dh = c.out[1], &dc = c.out[2];
  const auto begin = [&](const Tensor& to, int i) {
    if (c.has(i))
      copy_raw(to, c.tensor(i));
    else
      std::memset(to.data(), 0, l.bytes(to.numel()));
  };
  begin(dh, 1);
  if (lstm) begin(dc, 2);
  const Scratch w(l.bytes(whole_blocks(n, l.unit_cols) * l.wide));
  level_of::gemm_pack_b(l.type, static_cast<const void*>(weight.data()), int64_t{1}, n, n, l.wide,
                        static_cast<void*>(w.data()));
  const Scratch h_part(gru ? l.bytes(rows_all * l.wide) : 0);
  char* const dhx = gru ? h_part.data() : dx.data();
  std::vector<const void*> h_before(static_cast<size_t>(l.sequences)), c_before = h_before;
  l.walk(true, [&](int64_t t, int64_t from, int64_t rows) {
    const int64_t row = l.steps.first[static_cast<size_t>(t)] + from;
    for (int64_t i = from; i < from + rows && (gru || lstm); ++i) {
      const int64_t before = l.steps.row_before(t, i);
      const auto place = [&](const Tensor& first, const Tensor& later) {
        return before < 0 ? l.at(first.data(), i * n) : l.at(later.data(), before * n);
      };
      if (gru) h_before[static_cast<size_t>(i)] = place(h0, out);
      if (lstm) c_before[static_cast<size_t>(i)] = place(c0, cells);
    }
    RecurrentGrad s{};
    s.rows = rows, s.n = n;
    s.g = g ? l.at(g.data(), row * n) : nullptr;
    s.dh = l.at(dh.data(), from * n);
    s.dc = lstm ? l.at(dc.data(), from * n) : nullptr;
    s.saved = lstm || gru ? l.at(saved.data(), row * 4 * n) : nullptr;
    s.out = l.at(out.data(), row * n);
    s.cells = lstm ? l.at(cells.data(), row * n) : nullptr;
    s.h_before = h_before.data() + from, s.c_before = c_before.data() + from;
    s.dx = l.at(dx.data(), row * l.wide), s.dhx = l.at(dhx, row * l.wide);
    level_of::recurrent_grad(l.type, l.kind, const_cast<const RecurrentGrad*>(&s));
    l.times(rows, n, l.wide, s.dhx, w.data(), s.dh, gru ? 1 : 0, nullptr);
  });
  // The weights' gradient over all steps at once: (gradients of h's part)^T times h before.
  const Scratch before(l.bytes(rows_all * n));
  for (int64_t t = 0; t < l.steps.size(); ++t)
    for (int64_t i = 0; i < l.steps.count[static_cast<size_t>(t)]; ++i) {
      const int64_t b = l.steps.row_before(t, i);
      std::memcpy(l.at(before.data(), (l.steps.first[static_cast<size_t>(t)] + i) * n),
                  b < 0 ? l.at(h0.data(), i * n) : l.at(out.data(), b * n), l.bytes(n));
    }
  Product p{};
  p.dtype = out.dtype();
  p.m = l.wide, p.n = n, p.k = rows_all;
  p.a = dhx, p.a_row = 1, p.a_col = l.wide;
  p.b = before.data(), p.b_row = n, p.b_col = 1;
  p.c = c.out[3].data(), p.c_row = n;
  gemm(p);
  if (c.out[4].numel() == 0) return;
  const Tensor ones = filled({rows_all}, 1, out.dtype(), {});
  gemv({out.dtype(), l.wide, rows_all, dhx, ones.data(), c.out[4].data(), 1, l.wide, 1, 1});
}

BIND_KERNEL(Cpu, "_recurrence_fused", recurrence);
BIND_KERNEL(Cpu, "_recurrence_backward", recurrence_backward);

}  // namespace tycho::cpu
