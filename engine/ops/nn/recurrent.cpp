// One recurrent layer (tanh, relu, LSTM, GRU) in one direction over all time steps: a fused op with
// a fused gradient, and the composition by plain operations for what those leave out (halves,
// projections, gradients of gradients). What the inputs add to the gates is computed before, for
// all steps in one product.
#include "engine/ops/nn/recurrent.h"

#include <algorithm>

#include "engine/grad/backward.h"
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {

TimeSteps time_steps(const Value& counts, int64_t rows, int64_t sequences, bool reverse) {
  TimeSteps s;
  s.reverse = reverse;
  s.rows = rows;
  const int64_t n = counts.is_none() ? (sequences ? rows / sequences : 0) : counts.n;
  for (int64_t t = 0, at = 0; t < n; ++t) {
    s.first.push_back(at);
    s.count.push_back(counts.is_none() ? sequences : counts.ints[t]);
    at += s.count.back();
  }
  return s;
}

int recurrence_kind(std::string_view name) {
  constexpr std::string_view names[] = {"tanh", "relu", "lstm", "gru"};
  for (int i = 0; i < 4; ++i)
    if (names[i] == name) return i;
  return -1;
}

int recurrence_gates(int kind) {
  constexpr int gates[] = {1, 1, 4, 3};
  return gates[kind];
}

namespace {

// --- the definition, by plain operations ---

struct Weights {
  Tensor turned, bias, projection;  // [units, gates]
};
struct State {
  Tensor h, c;
};

State plain_step(Recurrence kind, const Tensor& x, const State& s, const Weights& w) {
  const auto part = [](const Tensor& t, int64_t i, int64_t n) {
    return op<"narrow">(t, 1, i * n, n);
  };
  if (kind == Recurrence::Gru) {
    const int64_t n = s.h.size(1);
    Tensor y = op<"matmul">(s.h, w.turned);
    if (w.bias) y = y + w.bias;
    const Tensor r = fn::sigmoid(part(x, 0, n) + part(y, 0, n)),
                 z = fn::sigmoid(part(x, 1, n) + part(y, 1, n)),
                 v = fn::tanh(part(x, 2, n) + r * part(y, 2, n));
    return {v + z * (s.h - v), Tensor()};
  }
  const Tensor sum = op<"addmm">(x, s.h, w.turned);
  if (kind == Recurrence::Tanh) return {fn::tanh(sum), Tensor()};
  if (kind == Recurrence::Relu) return {op<"relu">(sum), Tensor()};
  const int64_t n = s.c.size(1);
  const Tensor c =
      fn::sigmoid(part(sum, 1, n)) * s.c + fn::sigmoid(part(sum, 0, n)) * fn::tanh(part(sum, 2, n));
  Tensor h = fn::sigmoid(part(sum, 3, n)) * fn::tanh(c);
  if (w.projection) h = op<"matmul">(h, w.projection);
  return {h, c};
}

Tensor first_rows(const Tensor& t, int64_t from, int64_t n) {
  return t ? op<"narrow">(t, 0, from, n) : Tensor();
}
Tensor joined(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : op<"cat">(parts, 0);
}

// Sequences that have ended keep their state; going backwards, those that begin get their first.
std::vector<Tensor> plain(Recurrence kind, const Tensor& x, const State& begin, const Weights& w,
                          const TimeSteps& steps) {
  if (steps.size() == 0)  // no sequences: nothing, with a graph
    return {op<"narrow">(x, 1, 0, begin.h.size(1)), begin.h, begin.c};
  std::vector<Tensor> results(static_cast<size_t>(steps.size())), ended_h, ended_c;
  State s;
  const int64_t all = begin.h.size(0);
  int64_t now = steps.count[static_cast<size_t>(steps.at(0))];
  s.h = now < all ? first_rows(begin.h, 0, now) : begin.h;
  s.c = now < all ? first_rows(begin.c, 0, now) : begin.c;
  for (int64_t k = 0; k < steps.size(); ++k) {
    const auto t = static_cast<size_t>(steps.at(k));
    const int64_t n = steps.count[t];
    const auto fit = [&](Tensor& state, const Tensor& first, std::vector<Tensor>& ended) {
      if (!state) return;
      if (n < now) {
        ended.insert(ended.begin(), first_rows(state, n, now - n));
        state = first_rows(state, 0, n);
      } else if (n > now) {
        state = joined({state, first_rows(first, now, n - now)});
      }
    };
    fit(s.h, begin.h, ended_h);
    fit(s.c, begin.c, ended_c);
    now = n;
    s = plain_step(kind, first_rows(x, steps.first[t], n), s, w);
    results[t] = s.h;
  }
  const auto last = [](const Tensor& t, std::vector<Tensor>& ended) {
    if (!t) return t;
    ended.insert(ended.begin(), t);
    return joined(ended);
  };
  return {joined(results), last(s.h, ended_h), last(s.c, ended_c)};
}

// --- the fused op ---

Sizes rows_of(const Tensor& t, int64_t columns) { return {t.size(0), columns}; }

void cells_shape(Call& c) {
  const Tensor &x = c.tensor(0), &h = c.tensor(1);
  const auto kind = static_cast<Recurrence>(c.integer(5));
  const int64_t n = h.size(1);
  const bool lstm = kind == Recurrence::Lstm, save = c.flag(8);
  const auto make = [&](const Sizes& size) { c.out.push_back(empty(size, x.dtype(), x.device())); };
  make(rows_of(x, n));
  make(h.shape());
  make(lstm ? h.shape() : Sizes{0});
  make(save && (lstm || kind == Recurrence::Gru) ? rows_of(x, 4 * n) : Sizes{0});
  make(save && lstm ? rows_of(x, n) : Sizes{0});
}

// The gradients by the composition, so that they have a graph of their own.
void graph_grad(Backward& b) {
  std::vector<Tensor> in;  // gates, hidden, cell, weight_hh, bias_hh: apart from what made them
  for (int i = 0; i < 5; ++i) in.push_back(b.has(i) ? op<"clone">(b.in(i)) : Tensor());
  const std::vector<Tensor> y =
      plain(static_cast<Recurrence>(b.integer(5)), in[0], {in[1], in[2]},
            {op<"transpose">(in[3], 0, 1), in[4], Tensor()},
            time_steps(b.arg(6), in[0].size(0), in[1].size(0), b.flag(7)));
  std::vector<Tensor> roots, grads, wanted;
  for (int i = 0; i < 3; ++i)
    if (b.has_g(i) && y[static_cast<size_t>(i)]->requires_grad) {
      roots.push_back(y[static_cast<size_t>(i)]);
      grads.push_back(b.g(i));
    }
  for (int i = 0; i < 5; ++i)
    if (in[static_cast<size_t>(i)] && b.needs(i)) wanted.push_back(in[static_cast<size_t>(i)]);
  if (roots.empty() || wanted.empty()) return;
  const std::vector<Tensor> found =
      grad::gradients(roots, wanted, grads, {.create_graph = true, .allow_unused = true});
  for (int i = 0, k = 0; i < 5; ++i)
    if (in[static_cast<size_t>(i)] && b.needs(i)) b.set(i, found[static_cast<size_t>(k++)]);
}

void cells_grad(Backward& b) {
  if (mode.grad) return graph_grad(b);
  const auto g = [&](int i) { return b.has_g(i) ? b.g(i) : Tensor(); };
  const auto grads =
      ops<"_recurrence_backward">(g(0), g(1), g(2), b.in(1), b.has(2) ? b.in(2) : Tensor(), b.in(3),
                                  b.out(0), b.out(3), b.out(4), b.arg(5), b.arg(6), b.flag(7));
  for (int i = 0; i < 5; ++i)
    if (b.has(i) && b.needs(i)) b.set(i, grads[i]);
}

const Op& fused = add_op(
    {.name = "_recurrence_fused",
     .args = "gates, hidden, cell: tensor?, weight_hh, bias_hh: tensor?, kind: int, batch_sizes: "
             "ints?, reverse: bool, save: bool",
     .doc = "_recurrence in one pass; with `save`, also what its gradient reads.",
     .where = kHidden,
     .saves = "gates, hidden, cell, weight_hh, bias_hh, out, out4, out5",
     .shape = cells_shape,
     .grad = cells_grad});

const Op& fused_backward = add_op(
    {.name = "_recurrence_backward",
     .args = "grad: tensor?, grad_h: tensor?, grad_c: tensor?, hidden, cell: tensor?, weight_hh, "
             "result, saved, cells, kind: int, batch_sizes: ints?, reverse: bool",
     .doc = "The gradients of _recurrence_fused's gates, hidden, cell, weight_hh and bias_hh.",
     .where = kHidden,
     .differentiable = false,
     .shape = [](Call& c) {
       const Tensor &h = c.tensor(3), &w = c.tensor(5), &result = c.tensor(6);
       const auto make = [&](const Sizes& size) {
         c.out.push_back(empty(size, result.dtype(), result.device()));
       };
       make(rows_of(result, w.size(0)));
       make(h.shape());
       make(c.has(4) ? h.shape() : Sizes{0});
       make(w.shape());
       make(static_cast<Recurrence>(c.integer(9)) == Recurrence::Gru ? Sizes{w.size(0)} : Sizes{0});
     }});

// --- what layers call ---

void check(const Call& c, int kind) {
  const Tensor &x = c.tensor(0), &h = c.tensor(1), &w = c.tensor(3);
  TYCHO_CHECK(Kind::Value, kind >= 0, "_recurrence: no kind \"%s\"", c.string(6));
  const Tensor& units = c.tensor(2) ? c.tensor(2) : h;
  const bool matrices = x.rank() == 2 && h.rank() == 2 && w.rank() == 2 && units.rank() == 2;
  TYCHO_CHECK(
      Kind::Shape,
      matrices && x.size(1) == recurrence_gates(kind) * units.size(1) && w.size(0) == x.size(1) &&
          w.size(1) == h.size(1) && units.size(0) == h.size(0) && (kind != 2 || c.tensor(2)),
      "_recurrence: gates %s, hidden %s and weight_hh %s do not fit together",
      to_string(x.shape()).c_str(), to_string(h.shape()).c_str(), to_string(w.shape()).c_str());
  const Tensor& bias = c.tensor(4);
  TYCHO_CHECK(Kind::Shape, !bias || (bias.rank() == 1 && bias.size(0) == w.size(0)),
              "_recurrence: bias_hh %s does not fit weight_hh %s", to_string(bias.shape()).c_str(),
              to_string(w.shape()).c_str());
  int64_t rows = 0, most = h.size(0);
  for (int i = 0; c.has(7) && i < c.count(7); ++i) {
    const int64_t n = c.arg[7].ints[i];
    TYCHO_CHECK(Kind::Value, n >= 1 && n <= most && (i > 0 || n == most),
                "_recurrence: batch_sizes begin with the number of sequences and never grow");
    rows += most = n;
  }
  const bool fits = c.has(7)    ? rows == x.size(0)
                    : h.size(0) ? x.size(0) % h.size(0) == 0
                                : x.size(0) == 0;
  TYCHO_CHECK(Kind::Shape, fits, "_recurrence: %lld rows of gates do not fit the batch sizes",
              static_cast<long long>(x.size(0)));
}

bool fits_fused(const Call& c) {
  const DType type = c.tensor(0).dtype();
  if ((type != DType::Float32 && type != DType::Float64) || c.has(5)) return false;
  // Without a kernel there, step by step on the device rather than as a whole on the CPU.
  if (!fused.kernel[static_cast<int>(kernels_of(c.tensor(0).device()))]) return false;
  for (int i = 0; i < 5; ++i)
    if (c.has(i) && (c.tensor(i).dtype() != type || c.tensor(i).numel() == 0)) return false;
  return !(c.has(4) && recurrence_kind(c.string(6)) != static_cast<int>(Recurrence::Gru));
}

const Op& recurrence = add_op(
    {.name = "_recurrence",
     .args = "gates, hidden, cell: tensor?, weight_hh, bias_hh: tensor?, weight_hr: tensor?, kind: "
             "string, batch_sizes: ints?, reverse: bool = false",
     .doc =
         "A layer of kind \"tanh\", \"relu\", \"lstm\" or \"gru\" over all time steps, from what "
         "the inputs add to its gates: the results, and the last state.",
     .where = kFunction,
     .compose =
         [](Call& c) {
           const int kind = recurrence_kind(c.string(6));
           check(c, kind);
           const Tensor &x = c.tensor(0), &h = c.tensor(1), &w = c.tensor(3);
           std::vector<Tensor> y;
           if (fits_fused(c)) {
             bool save = false;
             for (int i = 0; i < 5; ++i)
               save = save || (mode.grad && c.has(i) && c.tensor(i)->requires_grad);
             const auto all = ops<"_recurrence_fused">(x, h, c.tensor(2), w, c.tensor(4), kind,
                                                       c.arg[7], c.flag(8), save);
             y = {all[0], all[1], all[2]};
           } else {
             y = plain(static_cast<Recurrence>(kind), x, {h, c.tensor(2)},
                       {op<"transpose">(w, 0, 1), c.tensor(4),
                        c.has(5) ? op<"transpose">(c.tensor(5), 0, 1) : Tensor()},
                       time_steps(c.arg[7], x.size(0), h.size(0), c.flag(8)));
           }
           c.out.push_back(y[0]);
           c.out.push_back(y[1]);
           if (c.tensor(2)) c.out.push_back(y[2]);
         },
     .samples =
         [](Samples& s) {
           const auto add = [&](const char* kind, int64_t gates, bool lstm, Value sizes,
                                int64_t rows, bool reverse, Impl* bias, Impl* projection) {
             const int64_t n = 3, out = projection ? 2 : n;
             s.add({s.normal({rows, gates * n}), s.normal({2, out}),
                    lstm ? Value(s.normal({2, n})) : Value(), s.normal({gates * n, out}),
                    Value(bias), Value(projection), kind, sizes, reverse});
           };
           add("tanh", 1, false, Value(), 6, false, nullptr, nullptr);
           add("relu", 1, false, s.ints({2, 2, 1}), 5, true, nullptr, nullptr);
           add("lstm", 4, true, Value(), 4, false, nullptr, nullptr);
           add("lstm", 4, true, s.ints({2, 1, 1}), 4, true, nullptr, nullptr);
           add("lstm", 4, true, s.ints({2, 1}), 3, false, nullptr, s.normal({2, 3}));
           add("gru", 3, false, Value(), 4, true, s.normal({9}), nullptr);
           add("gru", 3, false, s.ints({2, 1, 1}), 4, false, nullptr, nullptr);
         }});

}  // namespace
}  // namespace tycho
