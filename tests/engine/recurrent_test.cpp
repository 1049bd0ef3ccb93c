// Recurrent layers where the table tests do not look: many units and sequences, so that lanes and
// register blocks are partly full, at every level and with several threads; against plain loops in
// double, and the fused gradient against the composed one.
#include "engine/ops/nn/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/parallel.h"
#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "tests/engine/levels.h"

namespace tycho {
namespace {

constexpr int64_t kUnits = 37, kSequences = 29, kSteps = 6;

struct Problem {
  const char* kind;
  bool reverse, ragged;
  std::vector<Tensor> in;  // gates, hidden, cell, weight_hh, bias_hh, in double
  std::vector<int64_t> counts;

  Problem(const char* kind_of, bool back, bool uneven)
      : kind(kind_of), reverse(back), ragged(uneven) {
    int64_t rows = 0;
    for (int64_t t = 0; t < kSteps; ++t) {
      counts.push_back(ragged ? kSequences - 4 * t : kSequences);
      rows += counts.back();
    }
    const int64_t wide = recurrence_gates(recurrence_kind(kind)) * kUnits;
    const auto normal = [](const Sizes& size, double by) {
      return op<"randn">(size, nullptr, DType::Float64) * by;
    };
    const std::string_view name = kind;
    in = {normal({rows, wide}, 1), normal({kSequences, kUnits}, 1),
          name == "lstm" ? normal({kSequences, kUnits}, 1) : Tensor(), normal({wide, kUnits}, 0.2),
          name == "gru" ? normal({wide}, 1) : Tensor()};
  }

  SmallVec<Tensor, 2> run(const std::vector<Tensor>& x) const {
    return ops<"_recurrence">(x[0], x[1], x[2], x[3], x[4], Tensor(), kind,
                              ragged ? Value(counts) : Value(), reverse);
  }

  // The definition: result, h and c as plain numbers.
  std::vector<std::vector<double>> loops() const {
    const double *x = in[0].host<double>(), *w = in[3].host<double>();
    const int64_t n = kUnits, wide = in[3].size(0), rows = in[0].size(0);
    const auto values = [](const Tensor& t) {
      return t ? std::vector<double>(t.host<double>(), t.host<double>() + t.numel())
               : std::vector<double>();
    };
    std::vector<double> h = values(in[1]), c = values(in[2]), bias = values(in[4]),
                        out(static_cast<size_t>(rows * n)), y(static_cast<size_t>(wide));
    const auto sig = [](double v) { return 1 / (1 + std::exp(-v)); };
    for (int64_t k = 0; k < kSteps; ++k) {
      const int64_t t = reverse ? kSteps - 1 - k : k;
      int64_t first = 0;
      for (int64_t i = 0; i < t; ++i) first += counts[static_cast<size_t>(i)];
      for (int64_t s = 0; s < counts[static_cast<size_t>(t)]; ++s) {
        const double* g = x + (first + s) * wide;
        double* hs = h.data() + s * n;
        for (int64_t j = 0; j < wide; ++j) {
          y[static_cast<size_t>(j)] = bias.empty() ? 0 : bias[static_cast<size_t>(j)];
          for (int64_t u = 0; u < n; ++u) y[static_cast<size_t>(j)] += w[j * n + u] * hs[u];
        }
        for (int64_t j = 0; j < n; ++j) {
          const auto sum = [&](int64_t i) {
            return g[i * n + j] + y[static_cast<size_t>(i * n + j)];
          };
          switch (recurrence_kind(kind)) {
            case 0:
              hs[j] = std::tanh(sum(0));
              break;
            case 1:
              hs[j] = std::fmax(0, sum(0));
              break;
            case 2: {
              double& cell = c[static_cast<size_t>(s * n + j)];
              cell = sig(sum(1)) * cell + sig(sum(0)) * std::tanh(sum(2));
              hs[j] = sig(sum(3)) * std::tanh(cell);
              break;
            }
            default: {
              const double z = sig(sum(1));
              const double v =
                  std::tanh(g[2 * n + j] + sig(sum(0)) * y[static_cast<size_t>(2 * n + j)]);
              hs[j] = v + z * (hs[j] - v);
            }
          }
          out[static_cast<size_t>((first + s) * n + j)] = hs[j];
        }
      }
    }
    return {out, h, c};
  }
};

template <class F>
void each_problem(F f) {
  for (const char* kind : {"tanh", "relu", "lstm", "gru"})
    for (const bool reverse : {false, true})
      for (const bool ragged : {false, true}) {
        SCOPED_TRACE(std::string(kind) + (reverse ? " reverse" : "") + (ragged ? " ragged" : ""));
        f(Problem(kind, reverse, ragged));
      }
}

std::vector<Tensor> leaves(const std::vector<Tensor>& given, DType type) {
  std::vector<Tensor> x;
  for (const Tensor& t : given) {
    x.push_back(t ? op<"to.dtype">(t, type, true) : Tensor());
    if (t) x.back()->requires_grad = true;
  }
  return x;
}

double gap(const Tensor& a, const double* b) {
  const Tensor x = packed(op<"to.dtype">(a, DType::Float64));
  double most = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double d = std::fabs(x.host<double>()[i] - b[i]) / (1 + std::fabs(b[i]));
    if (!(d <= most)) most = d;
  }
  return most;
}

TEST(Recurrence, FusedLayersAgreeWithPlainLoops) {
  default_generator().seed(1);
  each_problem([](const Problem& p) {
    const auto want = p.loops();
    at_each_level([&] {
      for (const DType type : {DType::Float64, DType::Float32}) {
        const auto got = p.run(leaves(p.in, type));
        for (int i = 0; i < got.size(); ++i)
          EXPECT_LT(gap(got[i], want[static_cast<size_t>(i)].data()),
                    type == DType::Float64 ? 1e-12 : 1e-4)
              << i;
        NoGrad quiet;  // nothing is kept for a gradient
        const auto bare = p.run(leaves(p.in, type));
        for (int i = 0; i < got.size(); ++i)
          EXPECT_EQ(gap(bare[i], op<"to.dtype">(got[i], DType::Float64).host<double>()), 0) << i;
      }
    });
  });
}

TEST(Recurrence, FusedGradientsAgreeWithTheComposition) {
  default_generator().seed(2);
  each_problem([](const Problem& p) {
    at_each_level([&] {
      const std::vector<Tensor> x = leaves(p.in, DType::Float64);
      std::vector<Tensor> wanted;
      for (const Tensor& t : x)
        if (t) wanted.push_back(t);
      const auto y = p.run(x);
      Tensor sum = op<"sum">(y[0] * y[0]);
      for (int i = 1; i < y.size(); ++i) sum = sum + op<"sum">(y[i] * y[i] * y[i]);
      const auto grads = [&](bool create) {
        return grad::gradients({sum}, wanted, {Tensor()},
                               {.retain_graph = true, .create_graph = create});
      };
      const auto fused = grads(false), plain = grads(true);
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_LT(gap(fused[i], packed(plain[i]).host<double>()), 1e-10) << i;
    });
  });
}

TEST(Recurrence, ThreadsShareTheSequencesAndGiveTheSameNumbers) {
  default_generator().seed(3);
  const int before = get_num_threads();
  const Problem p("lstm", false, true);
  const auto run = [&](int threads) {
    set_num_threads(threads);
    const std::vector<Tensor> x = leaves(p.in, DType::Float32);
    const auto y = p.run(x);
    std::vector<Tensor> all = {y[0], y[1], y[2]};
    for (const Tensor& t :
         grad::gradients({op<"sum">(y[0] * y[0])}, {x[0], x[1], x[2], x[3]}, {Tensor()}, {}))
      all.push_back(t);
    return all;
  };
  const auto one = run(1), three = run(3);
  for (size_t i = 0; i < one.size(); ++i)
    EXPECT_EQ(gap(three[i], packed(op<"to.dtype">(one[i], DType::Float64)).host<double>()), 0) << i;
  set_num_threads(before);
}

TEST(Recurrence, AWeightThatTwoLayersShareGetsBothGradients) {
  default_generator().seed(4);
  const Tensor x = op<"randn">(Sizes{6, 3}, nullptr, DType::Float64),
               h = op<"zeros">(Sizes{2, 3}, DType::Float64);
  const Tensor w = leaves({op<"randn">(Sizes{3, 3}, nullptr, DType::Float64)}, DType::Float64)[0];
  const auto layer = [&](const Tensor& in) {
    return ops<"_recurrence">(in, h, Tensor(), w, Tensor(), Tensor(), "tanh")[0];
  };
  const Tensor sum = op<"sum">(layer(layer(x)));
  const auto grads = [&](bool create) {
    return grad::gradients({sum}, {w}, {Tensor()},
                           {.retain_graph = true, .create_graph = create})[0];
  };
  EXPECT_LT(gap(grads(false), packed(grads(true)).host<double>()), 1e-12);
}

}  // namespace
}  // namespace tycho
