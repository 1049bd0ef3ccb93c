// Fused attention where the table tests do not look: against the composition in double at sizes of
// several tiles with partial lanes, at every level; masks, groups, layouts, rows without a key; the
// same numbers for any number of threads; memory that does not grow with the square of the length.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/memory.h"
#include "engine/base/parallel.h"
#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "tests/engine/levels.h"

namespace tycho {
namespace {

Tensor normal(const Sizes& size) { return op<"randn">(size, nullptr, DType::Float64); }

double largest_gap(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(to_string(a.shape()), to_string(b.shape()));
  const Tensor x = packed(op<"to.dtype">(a, DType::Float64)), y = packed(b);
  double gap = 0, most = 1e-6;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double d = std::fabs(x.host<double>()[i] - y.host<double>()[i]);
    if (!(d <= gap)) gap = d;
    most = std::fmax(most, std::fabs(y.host<double>()[i]));
  }
  return gap / most;
}

struct Case {
  Sizes q, k, v;
  bool causal = false, grouped = false;
  Tensor mask = Tensor();
  double scale = 0;
};

// The result and the gradients of sum(g * attention). The composition is taken where a mask
// requires grad.
std::vector<Tensor> run(const Case& c, const std::vector<Tensor>& given, DType type, bool plain) {
  std::vector<Tensor> x;
  for (const Tensor& t : given) x.push_back(op<"to.dtype">(t, type, true));
  for (int i = 0; i < 3; ++i) x[static_cast<size_t>(i)]->requires_grad = true;
  Tensor mask = c.mask;
  if (mask && mask.dtype() != DType::Bool) mask = op<"to.dtype">(mask, type, true);
  if (plain) {
    const Tensor zeros = op<"zeros">(Sizes{c.q[c.q.n - 2], c.k[c.k.n - 2]}, type);
    if (c.causal) mask = op<"tril">(op<"ones">(zeros.shape(), DType::Bool));
    if (!mask)
      mask = zeros;
    else if (mask.dtype() == DType::Bool)
      mask = op<"masked_fill">(op<"zeros">(mask.shape(), type), op<"logical_not">(mask), -HUGE_VAL);
    else
      mask = op<"clone">(mask);
    mask->requires_grad = true;
  }
  const Value scale = c.scale != 0 ? Value(c.scale) : Value();
  const Tensor y = op<"scaled_dot_product_attention">(x[0], x[1], x[2], mask, 0.0,
                                                      !plain && c.causal, scale, c.grouped);
  std::vector<Tensor> out = {y};
  for (const Tensor& t : grad::gradients({y}, {x[0], x[1], x[2]}, {x[3]}, {})) out.push_back(t);
  return out;
}

std::vector<Case> cases() {
  Tensor holes = op<"ge">(normal({2, 1, 70, 300}), 0.0);
  op_<"fill">(op<"narrow">(holes, 2, 5, 3), false);  // rows without a key
  Tensor lows = normal({70, 300});
  op_<"fill">(op<"narrow">(lows, 0, 7, 1), -HUGE_VAL);
  op_<"fill">(op<"narrow">(op<"narrow">(lows, 0, 9, 1), 1, 0, 280), -HUGE_VAL);
  return {
      {{2, 3, 4}, {2, 5, 4}, {2, 5, 3}},
      {{2, 3, 300, 40}, {2, 3, 300, 40}, {2, 3, 300, 24}, true},
      {{2, 130, 33}, {2, 300, 33}, {2, 300, 7}, true},
      {{1, 2, 300, 16}, {1, 2, 77, 16}, {1, 2, 77, 65}, true},
      {{200, 9}, {600, 9}, {600, 9}, false, false, Tensor(), -0.7},
      {{2, 3, 70, 16}, {2, 3, 300, 16}, {2, 3, 300, 16}, false, false, lows},
      {{2, 3, 70, 16}, {2, 3, 300, 16}, {2, 3, 300, 16}, false, false, holes},
      {{2, 3, 70, 16}, {2, 3, 300, 16}, {2, 3, 300, 16}, false, false, normal({2, 1, 1, 300})},
      {{2, 8, 50, 16}, {2, 2, 60, 16}, {2, 2, 60, 16}, false, true},
      {{1, 4, 150, 8}, {1, 2, 150, 8}, {1, 2, 150, 8}, true, true},
      {{2, 1, 50, 16}, {1, 3, 60, 16}, {3, 60, 16}},
      {{2, 4, 1, 20}, {2, 4, 530, 20}, {2, 4, 530, 20}},
      {{2, 2, 20}, {2, 530, 20}, {2, 530, 35}},
      {{2, 0, 4}, {2, 5, 4}, {2, 5, 3}},
      {{2, 4, 4}, {2, 0, 4}, {2, 0, 3}},
      {{2, 4, 0}, {2, 5, 0}, {2, 5, 3}},
  };
}

TEST(Attention, FusedAgreesWithTheCompositionInDouble) {
  default_generator().seed(3);
  for (const Case& c : cases()) {
    SCOPED_TRACE(to_string(c.q) + " " + to_string(c.k) + (c.causal ? " causal" : ""));
    Sizes result = c.q;
    if (result.n == 4) result[0] = std::max(c.q[0], c.k[0]), result[1] = std::max(c.q[1], c.k[1]);
    result[result.n - 1] = c.v[c.v.n - 1];
    const std::vector<Tensor> x = {normal(c.q), normal(c.k), normal(c.v), normal(result)};
    const std::vector<Tensor> want = run(c, x, DType::Float64, true);
    at_each_level([&] {
      const struct {
        DType type;
        double gap;
      } rows[] = {{DType::Float64, 1e-13},
                  {DType::Float32, 3e-6},
                  {DType::Float16, 5e-3},
                  {DType::BFloat16, 4e-2}};
      for (const auto& [type, gap] : rows) {
        const std::vector<Tensor> got = run(c, x, type, false);
        for (size_t i = 0; i < 4; ++i)
          EXPECT_LT(largest_gap(got[i], want[i]), gap) << dtype_name(type) << ", result " << i;
      }
    });
  }
}

TEST(Attention, GivesTheSameNumbersForAnyNumberOfThreads) {
  default_generator().seed(4);
  const int before = get_num_threads();
  for (const DType type : {DType::Float32, DType::BFloat16})
    for (const Sizes& size : {Sizes{1, 1, 400, 24}, Sizes{3, 4, 100, 24}, Sizes{2, 3, 1, 40}}) {
      const Case c{size, size, size, true};
      const std::vector<Tensor> x = {normal(size), normal(size), normal(size), normal(size)};
      set_num_threads(1);
      const std::vector<Tensor> one = run(c, x, type, false);
      set_num_threads(3);
      const std::vector<Tensor> three = run(c, x, type, false);
      for (size_t i = 0; i < 4; ++i)
        EXPECT_EQ(largest_gap(three[i], op<"to.dtype">(one[i], DType::Float64)), 0) << i;
    }
  set_num_threads(before);
}

TEST(Attention, ReadsAnyLayoutAndAnswersInTheLayoutOfTheQueries) {
  default_generator().seed(5);
  const Tensor all = op<"to.dtype">(normal({2, 50, 3, 4, 16}), DType::Float32);
  const auto part = [&](int64_t i) {
    return op<"transpose">(op<"select">(all, 2, i), 1, 2);  // [2, 4, 50, 16]
  };
  const Tensor strided = op<"scaled_dot_product_attention">(part(0), part(1), part(2));
  const Tensor plain =
      op<"scaled_dot_product_attention">(packed(part(0)), packed(part(1)), packed(part(2)));
  EXPECT_EQ(largest_gap(strided, op<"to.dtype">(plain, DType::Float64)), 0);
  EXPECT_TRUE(op<"transpose">(strided, 1, 2).contiguous());
  const auto turned = [](const Tensor& t) {  // the same values, rows of strided elements
    return op<"transpose">(packed(op<"transpose">(t, 2, 3)), 2, 3);
  };
  const Tensor columns =
      op<"scaled_dot_product_attention">(turned(part(0)), turned(part(1)), turned(part(2)));
  EXPECT_EQ(largest_gap(columns, op<"to.dtype">(plain, DType::Float64)), 0);
}

// One query, for which keys and values are read as they lie: of any type, turned, of one column, the same
// for all keys, every second of them.
TEST(Attention, OfOneQueryReadsKeysAndValuesInAnyLayout) {
  default_generator().seed(6);
  const Tensor q = normal({2, 1, 24}), k = normal({2, 90, 24}), wide = normal({2, 90, 11}),
               row = normal({2, 1, 7});
  const auto turned = [](const Tensor& t) {
    return op<"transpose">(packed(op<"transpose">(t, 1, 2)), 1, 2);
  };
  at_each_level([&] {
    for (const DType type : {DType::Float64, DType::Float32, DType::Float16, DType::BFloat16}) {
      const auto as = [&](const Tensor& t) { return op<"to.dtype">(t, type); };
      const auto gap = [&](const Tensor& keys, const Tensor& values) {
        const auto exact = [](const Tensor& t) {
          return packed(op<"to.dtype">(t, DType::Float64));
        };
        const Tensor have = op<"scaled_dot_product_attention">(as(q), keys, values);
        const Tensor want =
            op<"scaled_dot_product_attention">(exact(as(q)), exact(keys), exact(values));
        return largest_gap(have, want);
      };
      const Tensor w = as(wide), many = as(normal({2, 180, 24}));
      for (const Tensor& values :
           {w, turned(w), op<"narrow">(w, 2, 3, 1), turned(op<"narrow">(w, 2, 3, 1)),
            op<"narrow">(w, 2, 2, 8), op<"expand">(as(row), Sizes{2, 90, 7})})
        EXPECT_LT(gap(as(k), values), 2e-2) << dtype_name(type);
      EXPECT_LT(gap(turned(as(k)), w), 2e-2) << dtype_name(type);
      EXPECT_LT(gap(op<"slice">(many, 1, 0, 180, 2), w), 2e-2) << dtype_name(type);
    }
  });
}

TEST(Attention, LongSequencesNeverMakeTheMatrixOfScores) {
  constexpr int64_t kLength = 2048;
  const Sizes size{1, kLength, 8};
  Tensor q = op<"randn">(size), k = op<"randn">(size), v = op<"randn">(size);
  q->requires_grad = k->requires_grad = v->requires_grad = true;
  const int64_t before = live_bytes();
  reset_peak_memory();
  const Tensor y = op<"scaled_dot_product_attention">(q, k, v);
  grad::backward({y}, {op<"ones_like">(y)}, {});
  EXPECT_LT(memory_stats().peak - before, kLength * kLength);  // a quarter of the matrix
}

TEST(Attention, ScoresThatAreNoNumbersStayVisible) {
  const Tensor q = op<"ones">(Sizes{3, 4}), k = op<"ones">(Sizes{5, 4}),
               v = op<"ones">(Sizes{5, 2});
  q.host<float>()[5] = NAN;
  const Tensor y = op<"scaled_dot_product_attention">(q, k, v);
  EXPECT_EQ(y.host<float>()[0], 1);
  EXPECT_TRUE(std::isnan(y.host<float>()[2]));
  EXPECT_EQ(y.host<float>()[4], 1);
}

}  // namespace
}  // namespace tycho
