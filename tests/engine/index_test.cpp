// Reading and writing at positions: PyTorch's placement rules, errors before anything is written,
// shared memory, empty indices, repeated positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/base/parallel.h"
#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "tests/engine/levels.h"

namespace tycho {
namespace {

Tensor counted(const Sizes& shape, DType dtype = DType::Float32) {
  Tensor t = op<"arange">(product(shape), DType::Float64);
  return op<"reshape">(op<"to.dtype">(t, dtype), shape);
}
Tensor at(const Sizes& shape, std::vector<int64_t> list, DType dtype = DType::Int64) {
  Tensor t = empty(shape, DType::Int64);
  for (int64_t i = 0; i < t.numel(); ++i) t.host<int64_t>()[i] = list[static_cast<size_t>(i)];
  return op<"to.dtype">(t, dtype);
}
std::vector<double> values(const Tensor& t) {
  Tensor wide = empty(t.shape(), DType::Float64);
  copy_raw(wide, t);
  return std::vector<double>(wide.host<double>(), wide.host<double>() + wide.numel());
}
using V = std::vector<double>;
using List = std::vector<Tensor>;

std::string text_of(const std::function<void()>& f, Kind kind = Kind::Index) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(kind_name(e.kind), kind_name(kind)) << e.text;
    return e.text;
  }
  return "nothing was raised";
}

TEST(Index, NeighbouringIndexTensorsStayInPlaceOthersMoveToTheFront) {
  const Tensor x = counted({2, 3, 4, 5}), i = at({6}, {1, 2, 1, 2, 1, 2});
  EXPECT_EQ(op<"index">(x, List{Tensor(), i, i}).shape(), (Sizes{2, 6, 5}));
  EXPECT_EQ(op<"index">(x, List{i, Tensor(), i}).shape(), (Sizes{6, 3, 5}));
  EXPECT_EQ(op<"index">(x, List{Tensor(), Tensor(), Tensor(), i}).shape(), (Sizes{2, 3, 4, 6}));
  const Tensor grid = op<"index">(x, List{at({2, 1}, {1, 2}), at({3}, {1, 3, -1})});
  EXPECT_EQ(grid.shape(), (Sizes{2, 3, 4, 5}));
  EXPECT_EQ(values(op<"select">(op<"select">(grid, 0, 1), 0, 2)),
            values(op<"select">(op<"select">(x, 0, 1), 0, 2)));
}

// Short last dimensions and few positions are gone through position by position.
TEST(Index, AlongShortLastDimensionsOfAnyLayoutIsAsElementByElement) {
  for (const Sizes& shape :
       {Sizes{50, 40, 3}, Sizes{700, 30, 2}, Sizes{5, 9000, 2}, Sizes{3, 4, 1}})
    for (const bool turned : {false, true}) {
      const Sizes made = turned ? Sizes{shape[0], shape[2], shape[1]} : shape;
      Tensor x = counted(made, DType::Float64), y = op<"add">(counted(made, DType::Float64), 0.5);
      if (turned) x = op<"transpose">(x, 1, 2), y = op<"transpose">(y, 1, 2);
      const int64_t n = shape[2];
      const Tensor few = at({2}, {n, 1});
      Tensor each = empty(shape, DType::Int64);
      for (int64_t i = 0; i < each.numel(); ++i) each.host<int64_t>()[i] = (i * 7 + i / 11) % n + 1;
      const V vx = values(x), vy = values(y);
      const size_t all = vx.size(), width = static_cast<size_t>(n);
      V taken, gathered(all), added = vx, scattered = vx;
      for (size_t i = 0; i < all; ++i) {
        const size_t row = i / width * width,
                     place = row + static_cast<size_t>(each.host<int64_t>()[i]) - 1;
        gathered[i] = vx[place];
        scattered[place] += vy[i];
        if (i == row) {
          taken.push_back(vx[row + width - 1]), taken.push_back(vx[row]);
          added[row + width - 1] += vy[row], added[row] += vy[row + (n > 1)];
        }
      }
      EXPECT_EQ(values(op<"index_select">(x, 2, few)), taken);
      EXPECT_EQ(values(op<"gather">(x, 2, each)), gathered);
      EXPECT_EQ(values(op<"scatter_add">(x, 2, each, y)), scattered);
      if (n == 1) continue;
      EXPECT_EQ(values(op<"index_add">(x, 2, few, op<"narrow">(y, 2, 0, 2))), added);
    }
}

TEST(Index, OfLargeSlicesThatLieAcrossMemoryIsAsOfACopy) {
  const Tensor x = op<"permute">(counted({9000, 3, 2}), Sizes{2, 1, 0});
  for (int d = 0; d < 2; ++d)
    for (const std::vector<int64_t>& list : {std::vector<int64_t>{2}, {1, 2, 2}, {}}) {
      const Tensor i = at({static_cast<int64_t>(list.size())}, list);
      EXPECT_EQ(values(op<"index_select">(x, d, i)), values(op<"index_select">(packed(x), d, i)));
    }
  EXPECT_NE(text_of([&] { op<"index_select">(x, 0, at({1}, {3})); }).find("3"), std::string::npos);
}

TEST(Index, MasksStandForTheirTrueElements) {
  const Tensor x = counted({2, 3});
  const Tensor mask = fn::gt(x, 2);
  EXPECT_EQ(values(op<"index">(x, List{mask})), (V{3, 4, 5}));
  const Tensor rows = op<"to.dtype">(at({2}, {0, 1}), DType::Bool);
  EXPECT_EQ(values(op<"index">(x, List{rows})), (V{3, 4, 5}));
  EXPECT_EQ(values(op<"index">(x, List{rows, at({1}, {-1})})), (V{5}));
  op_<"index_put">(x, List{mask}, 0);
  EXPECT_EQ(values(x), (V{0, 1, 2, 0, 0, 0}));
  EXPECT_NE(text_of(
                [&] {
                  op<"index">(x, List{at({3}, {1, 1, 1}, DType::Bool)});
                },
                Kind::Shape)
                .find("[3]"),
            std::string::npos);
}

TEST(Index, ErrorsNameThePositionAndComeBeforeAnyWrite) {
  const Tensor x = counted({5});
  EXPECT_EQ(
      text_of([&] {
        op<"index_select">(x, 0, at({3}, {1, 2, 7}));
      }),
      "index_select: index 7 at position 3 is out of range for dimension 1 with size 5 (1..5)");
  EXPECT_EQ(text_of([&] {
              op<"gather">(x, 0, at({2}, {1, 0}));
            }),
            "gather: index 0 at position 2: positions count from 1");
  EXPECT_EQ(text_of([&] {
              op<"index">(x, List{at({1, 2}, {1, -6})});
            }),
            "index: index -6 at position [1, 2] is out of range for dimension 1 with size 5 (1..5, "
            "or -5..-1)");
  for (const auto& change : std::vector<std::function<void(const Tensor&)>>{
           [&](const Tensor& i) { op_<"index_put">(x, List{i}, 9); },
           [&](const Tensor& i) { op_<"index_fill">(x, 0, i, 9); },
           [&](const Tensor& i) { op_<"index_add">(x, 0, i, counted({3})); },
           [&](const Tensor& i) { op_<"index_copy">(x, 0, i, counted({3})); },
           [&](const Tensor& i) { op_<"scatter">(x, 0, i, counted({3})); },
           [&](const Tensor& i) { op_<"scatter.value">(x, 0, i, 9); },
           [&](const Tensor& i) { op_<"scatter_add">(x, 0, i, counted({3})); },
           [&](const Tensor& i) { op_<"scatter_reduce">(x, 0, i, counted({3}), "amax"); }}) {
    EXPECT_NE(text_of([&] {
                change(at({3}, {1, 2, 6}));
              }).find("index 6 at position 3"),
              std::string::npos);
    EXPECT_EQ(values(x), (V{0, 1, 2, 3, 4}));
    EXPECT_EQ(x->storage->version, 0u);
  }
  EXPECT_EQ(text_of([&] { op<"gather">(x, 0, at({1}, {-1})); }).substr(0, 16), "gather: index -1");
  text_of([&] { op<"index_select">(x, 0, counted({2})); }, Kind::DType);
  text_of([&] { op<"index">(x, List{at({1}, {1}, DType::UInt8)}); }, Kind::DType);
}

TEST(Index, WritesWhatSharesItsMemoryAsIfReadBefore) {
  const Tensor x = counted({4});
  op_<"index_put">(x, List{at({4}, {4, 3, 2, 1})}, x);
  EXPECT_EQ(values(x), (V{3, 2, 1, 0}));
  const Tensor i = at({3}, {3, 1, 2});
  op_<"index_put">(i, List{i}, at({3}, {7, 8, 9}));
  EXPECT_EQ(values(i), (V{8, 9, 7}));
}

TEST(Index, EmptyIndicesAndTensors) {
  const Tensor x = counted({3, 2}), none = at({0}, {});
  EXPECT_EQ(op<"index_select">(x, 0, none).shape(), (Sizes{0, 2}));
  EXPECT_EQ(op<"index">(x, List{none}).shape(), (Sizes{0, 2}));
  EXPECT_EQ(op<"index">(empty({0, 2}, DType::Float32), List{none}).shape(), (Sizes{0, 2}));
  op_<"index_put">(x, List{none}, 5);
  EXPECT_EQ(values(op<"scatter_add">(x, 0, at({0, 2}, {}), x)), values(x));
  EXPECT_EQ(op<"gather">(x, 0, none).numel(), 0);
  EXPECT_EQ(op<"masked_select">(x, fn::gt(x, 100)).shape(), Sizes{0});
  text_of([&] { op<"take">(empty({0}, DType::Float32), at({1}, {1})); });
}

TEST(IndexAdd, SumsRepeatedPositionsInEveryTypeAndLayout) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64,
                            DType::UInt8, DType::Int16, DType::Int32, DType::Int64}) {
    Tensor x = op<"transpose">(op<"zeros">(Sizes{3, 4}, dtype), 0, 1);
    const Tensor source = op<"ones">(Sizes{6, 3}, dtype);
    op_<"index_add">(x, 0, at({6}, {2, 2, 4, 2, 4, 1}), source);
    EXPECT_EQ(values(x), (V{1, 1, 1, 3, 3, 3, 0, 0, 0, 2, 2, 2})) << dtype_name(dtype);
    x = op<"scatter_add">(op<"zeros">(Sizes{3}, dtype), 0, at({4}, {1, 3, 3, 3}),
                          op<"ones">(Sizes{4}, dtype));
    EXPECT_EQ(values(x), (V{1, 0, 3})) << dtype_name(dtype);
  }
}

TEST(IndexAdd, OfManyRowsGivesTheSameOnThreads) {
  const int64_t rows = 3000, width = 300;
  Tensor i = empty({rows}, DType::Int64), source = counted({rows, width}, DType::Float64);
  for (int64_t k = 0; k < rows; ++k) i.host<int64_t>()[k] = k * 7919 % 100 + 1;
  const Tensor sum = op<"index_add">(op<"zeros">(Sizes{100, width}, DType::Float64), 0, i, source);
  Tensor want = op<"zeros">(Sizes{100, width}, DType::Float64);
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t c = 0; c < width; ++c)
      want.host<double>()[(i.host<int64_t>()[k] - 1) * width + c] +=
          source.host<double>()[k * width + c];
  EXPECT_EQ(values(sum), values(want));
  EXPECT_EQ(
      values(op<"index_select">(source, 0, i)),
      values(op<"gather">(source, 0, op<"expand">(op<"unsqueeze">(i, 1), Sizes{rows, width}))));
}

TEST(ScatterReduce, CombinesWithAndWithoutTheTensorsOwnElements) {
  const Tensor x = counted({3}), i = at({4}, {1, 1, 3, 3});
  const Tensor source = op<"to.dtype">(at({4}, {-4, 2, 5, -1}), DType::Float32);
  const auto run = [&](const char* how, bool include) {
    return values(op<"scatter_reduce">(x, 0, i, source, how, include));
  };
  EXPECT_EQ(run("sum", true), (V{-2, 1, 6}));
  EXPECT_EQ(run("sum", false), (V{-2, 1, 4}));
  EXPECT_EQ(run("prod", false), (V{-8, 1, -5}));
  EXPECT_EQ(run("amax", true), (V{2, 1, 5}));
  EXPECT_EQ(run("amin", false), (V{-4, 1, -1}));
  EXPECT_EQ(run("mean", false), (V{-1, 1, 2}));
  EXPECT_EQ(run("mean", true), (V{-2.0f / 3, 1, 2}));
  text_of([&] { run("median", true); }, Kind::Value);
}

Tensor scattered(const Sizes& shape, double by) {  // numbers between -1 and 1
  return fn::sin(counted(shape, DType::Float64) * (7919.3 * by));
}

// In parts of every kind, on any number of threads; nan wins.
TEST(ScatterReduce, AgreesWithPlainLoopsAlongBothDimensions) {
  const int before = get_num_threads();
  for (const int threads : {1, 3})
    for (const DType t : {DType::Float32, DType::Float64, DType::Int32})
      for (const int dim : {0, 1})
        for (const int64_t cols : {150, 7}) {
          set_num_threads(threads);
          const int64_t rows = 40000 / cols;
          const Sizes small = dim ? Sizes{rows, 5} : Sizes{23, cols}, all{rows, cols};
          const int64_t n = small[dim];
          const Tensor x = op<"to.dtype">(scattered(small, 1) * 9, t);
          Tensor from = op<"to.dtype">(scattered(all, 2) * 9, t);
          if (t == DType::Float32)
            for (int64_t k = 0; k < from.numel(); k += 997) from.host<float>()[k] = NAN;
          const Tensor i =
              op<"to.dtype">(op<"floor">(op<"abs">(scattered(all, 3)) * 1e6), DType::Int64);
          for (int64_t k = 0; k < i.numel(); ++k)
            i.host<int64_t>()[k] = 1 + i.host<int64_t>()[k] % n;
          for (const char* how : {"amax", "amin", "mean"}) {
            V want = values(x), count(want.size(), 1.0);
            const V v = values(from), p = values(i);
            const bool least = how == std::string("amin"), mean = how == std::string("mean");
            for (int64_t k = 0; k < i.numel(); ++k) {
              const int64_t to = static_cast<int64_t>(p[static_cast<size_t>(k)]) - 1;
              const size_t place =
                  static_cast<size_t>(dim ? k / cols * small[1] + to : to * small[1] + k % cols);
              double &w = want[place], s = v[static_cast<size_t>(k)];
              ++count[place];
              if (mean)
                w += s;
              else if (std::isnan(s) || (least ? s < w : s > w))
                w = s;
            }
            if (mean)
              for (size_t k = 0; k < want.size(); ++k)
                want[k] = t == DType::Int32 ? std::floor(want[k] / count[k]) : want[k] / count[k];
            const V have = values(op<"scatter_reduce">(x, dim, i, from, how, true));
            for (size_t k = 0; k < want.size(); ++k) {
              if (std::isnan(want[k]))
                ASSERT_TRUE(std::isnan(have[k])) << how;
              else
                ASSERT_NEAR(have[k], want[k], mean && is_floating(t) ? 1e-4 : 0) << how << k;
            }
          }
        }
  set_num_threads(before);
}

TEST(Masked, SelectAndScatterAreInverse) {
  Tensor x = counted({200, 300}, DType::Float64);
  const Tensor mask = fn::gt(fn::sin(x), 0.3);
  const Tensor picked = op<"masked_select">(x, mask);
  EXPECT_EQ(picked.numel(), static_cast<int64_t>(values(op<"sum">(mask))[0]));
  const Tensor back = op<"masked_scatter">(op<"zeros_like">(x), mask, picked);
  EXPECT_EQ(values(back), values(x * mask));
  for (const DType dtype : {DType::UInt8, DType::Int16, DType::Float32})
    EXPECT_EQ(values(op<"masked_select">(op<"to.dtype">(x, dtype), mask)),
              values(op<"to.dtype">(picked, dtype)));
  text_of([&] { op<"masked_scatter">(x, mask, counted({3}, DType::Float64)); }, Kind::Shape);
  text_of([&] { op<"masked_select">(x, x); }, Kind::DType);
}

TEST(Masked, ScatterTakesTheSourceInOrderInEveryTypeAndWay) {
  const int before = get_num_threads();
  at_each_level([] {
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      for (const int64_t n : {1, 15, 16, 17, 40, 333, 50000})
        for (const double part : {-2.0, 0.3, 2.0})  // some, of all and of none
          for (const int64_t more : {0, 1, 100}) {
            const Tensor wide = counted({n}, DType::Float64);
            const Tensor mask = fn::gt(fn::sin(fn::mul(wide, 1.7)), part);
            const auto is = values(mask);
            const int64_t need = std::count(is.begin(), is.end(), 1.0);
            for (const DType type :
                 {DType::UInt8, DType::BFloat16, DType::Float32, DType::Float64}) {
              const Tensor x = op<"to.dtype">(fn::remainder(wide, 97), type),
                           from = op<"to.dtype">(
                               fn::add(fn::remainder(counted({need + more}, DType::Float64), 89),
                                       100),
                               type);
              V want = values(x), source = values(from);
              for (size_t i = 0, k = 0; i < want.size(); ++i)
                if (is[i] != 0) want[i] = source[k++];
              ASSERT_EQ(values(op<"masked_scatter">(x, mask, from)), want) << n << " " << part;
              const Tensor own = op<"clone">(x);
              op_<"masked_scatter">(own, mask, from);
              ASSERT_EQ(values(own), want);
            }
          }
    }
  });
  set_num_threads(before);
}

TEST(Embedding, PaddingAndCountsShapeTheGradient) {
  Tensor w = counted({3, 2});
  w->requires_grad = true;
  const Tensor ids = at({4}, {1, 3, 3, 2});
  const auto gradient = [&](const Value& padding, bool by_count) {
    const Tensor y = op<"embedding">(ids, w, padding, nullptr, 2.0, by_count);
    return values(grad::gradients({op<"sum">(y)}, {w}, {}, {})[0]);
  };
  EXPECT_EQ(gradient(nullptr, false), (V{1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(gradient(-1, false), (V{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(gradient(nullptr, true), (V{1, 1, 1, 1, 1, 1}));
  text_of([&] { op<"embedding">(at({1}, {4}), w); });
}

TEST(Create, RefusesWhatATypeCannotHold) {
  text_of([&] { op<"full">(Sizes{2}, 300, DType::UInt8); }, Kind::Value);
  text_of([&] { op<"full">(Sizes{2}, 1e6, DType::Float16); }, Kind::Value);
  text_of([&] { op<"zeros">(Sizes{2, -1}); }, Kind::Shape);
  text_of([&] { op<"arange.start">(0, 3, 0); }, Kind::Value);
  text_of([&] { op<"linspace">(0, 1, -1); }, Kind::Value);
  EXPECT_EQ(op<"arange">(3).dtype(), DType::Int64);
  EXPECT_EQ(op<"arange">(3.0).dtype(), default_dtype());
  EXPECT_EQ(op<"full">(Sizes{}, true).dtype(), DType::Bool);
  EXPECT_EQ(values(op<"full">(Sizes{1}, (int64_t{1} << 60) + 1)).size(), 1u);
  EXPECT_EQ(op<"full">(Sizes{1}, (int64_t{1} << 60) + 1).host<int64_t>()[0],
            (int64_t{1} << 60) + 1);
}

}  // namespace
}  // namespace tycho
