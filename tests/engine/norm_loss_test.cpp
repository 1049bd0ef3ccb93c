// Normalisations and losses where the table tests do not look: the fused backward against the plain
// one that higher orders use, at every level and at sizes with partial lanes and several blocks;
// statistics against plain double sums; what is written on an error; random fills of views.
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

Tensor normal(const Sizes& size, DType t = DType::Float32) { return op<"randn">(size, nullptr, t); }

double largest_gap(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(to_string(a.shape()), to_string(b.shape()));
  Tensor x = empty(a.shape(), DType::Float64), y = empty(a.shape(), DType::Float64);
  copy_raw(x, a);
  copy_raw(y, b);
  double gap = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    gap = std::fmax(gap, std::fabs(x.host<double>()[i] - y.host<double>()[i]) /
                             (1 + std::fabs(y.host<double>()[i])));
  return gap;
}

Tensor leaf(Tensor t) {
  t->requires_grad = true;
  return t;
}

// Gradients of the sum of g * f(inputs), by the fused backward and by the plain one.
template <class F>
void fused_agrees(const std::vector<Tensor>& inputs, F f, double tolerance) {
  const Tensor y = f();
  const Tensor sum = op<"sum">(y * y);
  const auto grads = [&](bool create) {
    return grad::gradients({sum}, inputs, {Tensor()},
                           {.retain_graph = true, .create_graph = create});
  };
  const auto fused = grads(false), plain = grads(true);
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_LT(largest_gap(fused[i], plain[i]), tolerance) << "input " << i;
}

TEST(Norm, FusedBackwardAgreesWithPlainOperations) {
  at_each_level([] {
    default_generator().seed(1);
    for (const Sizes& size : {Sizes{7, 3, 5, 9}, Sizes{2, 4, 4500}, Sizes{600, 37}, Sizes{33, 1}}) {
      SCOPED_TRACE(to_string(size));
      const Tensor x = leaf(normal(size)), w = leaf(normal({size[1]})), b = leaf(normal({size[1]}));
      fused_agrees(
          {x, w, b}, [&] { return op<"batch_norm">(x, Tensor(), Tensor(), w, b, true); }, 2e-4);
      const Sizes last{size[size.n - 1]};
      const Tensor lw = leaf(normal(last)), lb = leaf(normal(last));
      if (last[0] > 1)
        fused_agrees(
            {x, lw, lb}, [&] { return op<"layer_norm">(x, last, lw, lb); }, 2e-4);
      fused_agrees(
          {x, lw}, [&] { return op<"rms_norm">(x, last, lw); }, 2e-4);
      if (x.numel() / size[0] > 1)
        fused_agrees(
            {x, w, b}, [&] { return op<"group_norm">(x, 1, w, b); }, 2e-4);
    }
  });
}

TEST(Norm, ChannelsInsideGiveTheSameAsOutside) {
  default_generator().seed(2);
  for (const int64_t channels : {1, 3, 40, 700}) {
    const Tensor x = normal({3, channels, 6, 5});
    Sizes stride{channels * 30, 1, channels * 5, channels};
    const Tensor inside = empty_strided(x.shape(), stride, x.dtype(), {});
    copy_raw(inside, x);
    const auto norm = [](const Tensor& t) {
      return op<"batch_norm">(t, Tensor(), Tensor(), Tensor(), Tensor(), true);
    };
    EXPECT_LT(largest_gap(norm(inside), norm(x)), 1e-5) << channels;
  }
}

// Images of few places are met by blocks of channels; whatever the number of threads is.
TEST(Norm, BatchesOfSmallImagesAgreeWithDoubleSums) {
  const int before = get_num_threads();
  at_each_level([] {
    default_generator().seed(6);
    for (const int64_t samples : {1, 2, 33})
      for (const int64_t channels : {5, 16, 33, 70})
        for (const int64_t places : {1, 2, 7, 16, 32, 33, 64, 65})
          for (const DType type : {DType::Float32, DType::Float64, DType::BFloat16}) {
            if (samples * places == 1) continue;
            const Tensor x = op<"to.dtype">(normal({samples, channels, places}) * 3 + 20, type);
            const Tensor g = op<"to.dtype">(normal({samples, channels, places}), type);
            const auto both = [&](const Tensor& at, const Tensor& by) {
              const Tensor in = leaf(alias(at));
              const Tensor y =
                  op<"batch_norm">(in, Tensor(), Tensor(), Tensor(), Tensor(), true, 0.1, 1e-3);
              return std::vector<Tensor>{y, grad::gradients({y}, {in}, {by}, {})[0]};
            };
            const std::vector<Tensor> want =
                both(op<"to.dtype">(x, DType::Float64), op<"to.dtype">(g, DType::Float64));
            std::vector<Tensor> first;
            for (const int threads : {1, 2, 3}) {
              set_num_threads(threads);
              const std::vector<Tensor> have = both(x, g);
              if (first.empty()) first = have;
              for (int i = 0; i < 2; ++i) {
                const double far = type == DType::BFloat16  ? (i ? 8e-2 : 3e-2)
                                   : type == DType::Float32 ? 1e-3
                                                            : 1e-9;
                EXPECT_LT(largest_gap(have[i], want[i]), far)
                    << samples << " " << channels << " " << places << " " << dtype_name(type);
                EXPECT_EQ(largest_gap(have[i], first[i]), 0);
              }
            }
          }
  });
  set_num_threads(before);
}

TEST(Norm, StatisticsAreThoseOfDoubleSums) {
  default_generator().seed(3);
  const Tensor x = normal({5000, 3}) * 2 + 7, wide = op<"to.dtype">(x, DType::Float64);
  const Tensor mean = filled({3}, 0, DType::Float64), var = filled({3}, 0, DType::Float64);
  op<"batch_norm">(x, mean, var, Tensor(), Tensor(), true, 1.0);
  EXPECT_LT(largest_gap(mean, op<"mean">(wide, Sizes{0})), 1e-7);
  EXPECT_LT(largest_gap(var, op<"var">(wide, Sizes{0})), 1e-6);
  EXPECT_EQ(mean->storage->version, 1u);
}

TEST(Norm, HalfTypesUseStatisticsInFloat) {
  default_generator().seed(4);
  for (const DType t : {DType::Float16, DType::BFloat16}) {
    const Tensor x = op<"to.dtype">(normal({50, 300}) + 10, t);
    const Tensor y = op<"layer_norm">(x, Sizes{300});
    EXPECT_EQ(y.dtype(), t);
    const Tensor exact = op<"layer_norm">(op<"to.dtype">(x, DType::Float64), Sizes{300});
    EXPECT_LT(largest_gap(y, exact), t == DType::Float16 ? 1e-3 : 8e-3);
  }
}

TEST(CrossEntropy, FusedBackwardAgreesWithPlainOperations) {
  at_each_level([] {
    default_generator().seed(5);
    for (const Sizes& size : {Sizes{40, 10}, Sizes{3, 1000}, Sizes{2, 5, 67}, Sizes{19}}) {
      SCOPED_TRACE(to_string(size));
      const int64_t classes = size[size.n > 1 ? 1 : 0];
      Sizes labels = size;
      labels.erase(size.n > 1 ? 1 : 0);
      const Tensor x = leaf(normal(size)), y = op<"randint">(1, classes + 1, labels);
      const Tensor w = op<"rand">(Sizes{classes}) + 0.5;
      for (const char* reduction : {"mean", "sum", "none"})
        for (const double smoothing : {0.0, 0.2})
          fused_agrees(
              {x}, [&] { return op<"cross_entropy">(x, y, w, int64_t{2}, reduction, smoothing); },
              1e-4);
    }
  });
}

TEST(CrossEntropy, IsStableForLargeScores) {
  const Tensor x = filled({1, 3}, 0, DType::Float32);
  x.host<float>()[0] = 1e30f;
  const Tensor y = filled({1}, 1, DType::Int64);
  EXPECT_EQ(op<"cross_entropy">(x, y).host<float>()[0], 0.0f);
}

TEST(CrossEntropy, RefusesLabelsBeforeItWritesAnything) {
  const Tensor x = leaf(filled({2, 3}, 0, DType::Float32)), y = filled({2}, 4, DType::Int64);
  try {
    op<"cross_entropy">(x, y);
    FAIL() << "a label beyond the classes was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Index);
    EXPECT_NE(e.text.find("target[1] = 4 but the logits have 3 classes"), e.text.npos) << e.text;
  }
}

TEST(RandomOps, FillsViewsInTheOrderOfMemoryAndLeavesTheRest) {
  const Tensor whole = filled({4, 6}, -1, DType::Float32);
  const Tensor view = alias(whole, {3, 2}, {2, 12}, 1);  // transposed, with gaps
  default_generator().seed(0);
  op_<"uniform">(view);
  default_generator().seed(0);
  const Tensor flat = op<"rand">(Sizes{6});
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 2; ++j)
      EXPECT_EQ(view.host<float>()[i * 2 + j * 12], flat.host<float>()[j * 3 + i]);
  int untouched = 0;
  for (int64_t i = 0; i < 24; ++i) untouched += whole.host<float>()[i] == -1;
  EXPECT_EQ(untouched, 18);
}

TEST(RandomOps, AWrongParameterLeavesTensorAndStreamAlone) {
  const Tensor x = filled({5}, 3, DType::Float32);
  default_generator().seed(9);
  const std::string before = default_generator().state();
  EXPECT_THROW(op_<"exponential">(x, -1.0), Error);
  EXPECT_THROW(op_<"uniform">(x, 2.0, 1.0), Error);
  EXPECT_THROW(op<"dropout">(x, 1.5), Error);
  EXPECT_EQ(default_generator().state(), before);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(x.host<float>()[i], 3);
}

TEST(RandomOps, FillingInPlaceCutsTheGradient) {
  const Tensor x = leaf(filled({3}, 1, DType::Float32));
  const Tensor y = x * 2;
  op_<"uniform">(y);
  const auto g = grad::gradients({op<"sum">(y)}, {x}, {Tensor()}, {});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(g[0].host<float>()[i], 0);
}

}  // namespace
}  // namespace tycho
