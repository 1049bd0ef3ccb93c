// Views and copies: special cases of shapes, strides and offsets that samples do not reach.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "engine/cpu/elementwise/move.h"
#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"
#include "tests/engine/levels.h"

namespace tycho {
namespace {

Tensor counted(const Sizes& shape, DType dtype = DType::Float32) {
  Tensor t = op<"arange">(product(shape), DType::Float64);
  return op<"reshape">(op<"to.dtype">(t, dtype), shape);
}
std::vector<double> values(const Tensor& t) {
  Tensor wide = empty(t.shape(), DType::Float64);
  copy_raw(wide, t);
  return std::vector<double>(wide.host<double>(), wide.host<double>() + wide.numel());
}
using V = std::vector<double>;

Kind kind_of(const std::function<void()>& f, std::string* text = nullptr) {
  try {
    f();
  } catch (const Error& e) {
    if (text) *text = e.text;
    return e.kind;
  }
  ADD_FAILURE() << "nothing was raised";
  return Kind::Interrupt;
}

TEST(View, SharesStorageAndCountsChanges) {
  const Tensor x = counted({2, 6}), y = op<"view">(x, Sizes{3, -1});
  op_<"fill">(op<"select">(y, 0, 2), 7);
  EXPECT_EQ(values(x), (V{0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7}));
  EXPECT_EQ(x->storage->version, 1u);
  EXPECT_EQ(op<"detach">(x)->storage.get(), x->storage.get());
}

TEST(View, OfATransposedTensorIsPossibleWhereDimensionsStayWhole) {
  const Tensor t = op<"transpose">(counted({2, 3, 4}), 0, 1);  // [3, 2, 4]
  EXPECT_EQ(values(op<"view">(t, Sizes{3, 2, 2, 2})), values(t));
  std::string text;
  EXPECT_EQ(kind_of([&] { op<"view">(t, Sizes{6, 4}); }, &text), Kind::Shape);
  EXPECT_NE(text.find("[6, 4]"), std::string::npos);
  EXPECT_EQ(values(op<"reshape">(t, Sizes{6, 4})), values(t));
  EXPECT_EQ(kind_of([&] { op<"view">(t, Sizes{-1, -1}); }), Kind::Shape);
}

TEST(View, OfEmptyAndZeroDimensionalTensors) {
  const Tensor none = empty({0, 3}, DType::Float32), one = counted({1});
  EXPECT_EQ(op<"view">(none, Sizes{3, 0}).shape(), (Sizes{3, 0}));
  EXPECT_EQ(kind_of([&] { op<"view">(none, Sizes{0, -1}); }), Kind::Shape);
  EXPECT_EQ(op<"reshape">(one, Sizes{}).rank(), 0);
  EXPECT_EQ(op<"flatten">(op<"reshape">(one, Sizes{})).shape(), Sizes{1});
  EXPECT_EQ(op<"squeeze">(op<"reshape">(one, Sizes{1, 1, 1})).rank(), 0);
}

TEST(View, AsAnotherTypeKeepsTheBytes) {
  const Tensor x = counted({2, 4}, DType::Int32), wide = op<"view.dtype">(x, DType::Int64);
  EXPECT_EQ(wide.shape(), (Sizes{2, 2}));
  EXPECT_EQ(values(op<"view.dtype">(wide, DType::Int32)), values(x));
  const Tensor row = op<"select">(x, 0, 1);
  EXPECT_EQ(values(op<"view.dtype">(op<"view.dtype">(row, DType::UInt8), DType::Int32)),
            values(row));
  EXPECT_EQ(kind_of([&] { op<"view.dtype">(op<"slice">(x, 1, 0, 3), DType::Int64); }), Kind::Shape);
}

TEST(Slice, IsCheckedAndNeverClamped) {
  const Tensor x = counted({5});
  EXPECT_EQ(values(op<"slice">(x, 0, 1, 5, 2)), (V{1, 3}));
  EXPECT_EQ(op<"slice">(x, 0, 5, 5).numel(), 0);
  EXPECT_EQ(kind_of([&] { op<"slice">(x, 0, 0, 6); }), Kind::Index);
  EXPECT_EQ(kind_of([&] { op<"slice">(x, 0, 3, 2); }), Kind::Index);
  EXPECT_EQ(kind_of([&] { op<"slice">(x, 0, 0, 5, 0); }), Kind::Value);
  EXPECT_EQ(kind_of([&] { op<"narrow">(x, 0, 3, 3); }), Kind::Index);
  std::string text;
  EXPECT_EQ(kind_of([&] { op<"select">(x, 0, 5); }, &text), Kind::Index);
  EXPECT_EQ(text, "index 6 is out of range for dimension 1 with size 5 (1..5, or -5..-1)");
}

TEST(Split, PartsAreViewsAndGradientsFlowFromSomeOfThem) {
  Tensor x = counted({5});
  x->requires_grad = true;
  const auto parts = ops<"split">(x, 2);
  ASSERT_EQ(parts.size(), 3);
  EXPECT_EQ(parts[2].numel(), 1);
  grad::backward({op<"sum">(parts[1] * 3)}, {}, {});
  EXPECT_EQ(values(x->extra->grad), (V{0, 0, 3, 3, 0}));
  EXPECT_EQ(kind_of([&] { ops<"split.sizes">(x, Sizes{2, 2}); }), Kind::Value);
  EXPECT_EQ(ops<"chunk">(empty({0}, DType::Float32), 3).size(), 3);
  EXPECT_EQ(ops<"unbind">(empty({0, 2}, DType::Float32)).size(), 0);
}

TEST(Inplace, OfAViewThatIsStretchedIsRefused) {
  const Tensor x = op<"expand">(counted({1}), Sizes{4});
  EXPECT_EQ(kind_of([&] { op_<"fill">(x, 1); }), Kind::Value);
}

// Every pair of layouts, large enough for tiles, edges and threads.
TEST(Copy, GivesTheSameValuesInEveryLayout) {
  for (const DType dtype : {DType::UInt8, DType::Float16, DType::Float32, DType::Int64})
    for (const Sizes& shape : {Sizes{70, 33, 19}, Sizes{3, 130, 67}, Sizes{257, 4, 5}}) {
      Tensor x = empty(shape, dtype);
      const int size = dtype_size(dtype);
      for (int64_t i = 0; i < x.numel() * size; ++i)
        x.host<uint8_t>()[i] = static_cast<uint8_t>(i * 31 + i / 251);
      const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
      for (const auto& from : orders)
        for (const auto& to : orders) {
          const Tensor a = op<"permute">(x, Sizes{from[0], from[1], from[2]});
          Sizes inner{a.size(to[0]), a.size(to[1]), a.size(to[2])}, back{0, 0, 0};
          for (int d = 0; d < 3; ++d) back[to[d]] = d;
          const Tensor b = op<"permute">(empty(inner, dtype), back);
          ASSERT_EQ(b.shape(), a.shape());
          copy_raw(b, a);
          bool same = true;
          for (int64_t i = 0; i < a.size(0); ++i)
            for (int64_t j = 0; j < a.size(1); ++j)
              for (int64_t k = 0; k < a.size(2); ++k)
                same =
                    same &&
                    !memcmp(a.host() + (i * a.stride(0) + j * a.stride(1) + k * a.stride(2)) * size,
                            b.host() + (i * b.stride(0) + j * b.stride(1) + k * b.stride(2)) * size,
                            static_cast<size_t>(size));
          EXPECT_TRUE(same) << dtype_name(dtype) << to_string(shape);
        }
    }
}

// Planes at steps of all kinds, into memory whose other places must stay as they are.
TEST(Copy, OfPlanesIsTheSameAsElementByElement) {
  std::mt19937 random(7);
  const auto below = [&](int n) {
    return static_cast<int64_t>(random() % static_cast<unsigned>(n));
  };
  constexpr int64_t kBytes = 1 << 16;
  std::vector<char> from(kBytes), to(kBytes), expected(kBytes);
  for (char& c : from) c = static_cast<char>(random());
  at_each_level([&] {
    for (int i = 0; i < 600; ++i) {
      const int size = 1 << below(4);
      const bool tall = below(2);
      const int64_t few = 1 + below(6), many = 1 + below(70), rows = tall ? many : few,
                    cols = tall ? few : many;
      const int64_t gap = below(3), most = 1 + below(4);
      const int64_t steps[][2] = {{cols + gap, 1}, {1, rows + gap},     {1, 0},     {cols, -1},
                                  {0, 1},          {most * cols, most}, {-cols, 1}, {2 * cols, 2}};
      const auto [fr, fc] = steps[below(8)];
      const bool plain = below(4) > 0;
      const int64_t tc = plain ? 1 : most, tr = (cols + gap) * tc;
      const int64_t back = std::max<int64_t>(0, -fr) * rows + std::max<int64_t>(0, -fc) * cols;
      const char* f = from.data() + back * size;
      std::fill(to.begin(), to.end(), 'x');
      expected = to;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
          memcpy(expected.data() + (r * tr + c * tc) * size, f + (r * fr + c * fc) * size,
                 static_cast<size_t>(size));
      cpu::level_of::copy_plane(size, to.data(), tr, tc, f, fr, fc, rows, cols);
      ASSERT_EQ(to, expected) << size << " bytes, " << rows << " x " << cols << ", steps " << tr
                              << ", " << tc << " from " << fr << ", " << fc;
    }
  });
}

// Each element of the result against the one that its position names; `to` has gaps that stay as they are.
TEST(Copy, AcrossElementsWithGapsTakesEachToItsPlace) {
  at_each_level([&] {
    for (const DType type : {DType::UInt8, DType::BFloat16, DType::Int32, DType::Float64})
      for (const DType other : {type, DType::Float32}) {
        Tensor all = empty({3, 5, 66, 90}, type), numbers = op<"arange">(3 * 5 * 66 * 90);
        copy_raw(all, op<"view">(op<"remainder">(numbers, 251), all.shape()));
        const Tensor steps = op<"slice">(op<"slice">(all, 3, 1, 90, 2), 2, 0, 66, 3);
        const Tensor views[] = {
            op<"permute">(steps, Sizes{0, 2, 3, 1}), op<"permute">(steps, Sizes{3, 2, 1, 0}),
            op<"flip">(op<"permute">(steps, Sizes{3, 0, 1, 2}), Sizes{0, 2}),
            op<"expand">(op<"unsqueeze">(op<"transpose">(op<"select">(steps, 0, 1), 1, 2), 0),
                         Sizes{9, 5, 45, 22})};
        for (const Tensor& from : views) {
          Sizes wide = from.shape();
          wide[3] += 3;
          const Tensor room = filled(wide, 77, other);
          copy_raw(op<"narrow">(room, 3, 1, from.size(3)), from);
          const int64_t row = wide[3], n = from.size(3);
          int64_t wrong = 0;
          for (int64_t i = 0; i < room.numel(); ++i) {
            const int64_t at = i % row - 1;
            const bool inside = at >= 0 && at < n;
            wrong += number_at(room, i) != (inside ? number_at(from, i / row * n + at) : 77);
          }
          EXPECT_EQ(wrong, 0) << dtype_name(type) << " to " << dtype_name(other) << ", view "
                              << &from - views;
        }
      }
  });
}

TEST(Copy, ToBoolIsTrueWhereAnElementIsNotZero) {
  for (const DType dtype : {DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64,
                            DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    const Tensor x = op<"remainder">(op<"arange">(99, dtype), 3);
    op_<"fill">(op<"narrow">(x, 0, 0, 1), is_floating(dtype) ? -0.0 : 0.0);
    if (is_floating(dtype)) op_<"fill">(op<"narrow">(x, 0, 1, 1), NAN);
    at_each_level([&] {
      const Tensor y = op<"to.dtype">(x, DType::Bool);
      for (int64_t i = 0; i < 99; ++i)
        ASSERT_EQ(y.host<bool>()[i], i % 3 != 0) << dtype_name(dtype);
    });
  }
}

// Large ones are written row by row, others filled and then copied into.
TEST(Pad, ByOneValueIsTheTensorBetweenFullOnes) {
  at_each_level([] {
    for (const DType type : {DType::UInt8, DType::BFloat16, DType::Float32, DType::Float64})
      for (const Sizes& shape : {Sizes{61, 7, 4, 141}, Sizes{3, 2, 5}, Sizes{2, 400, 700}})
        for (const std::vector<int64_t>& pad :
             {std::vector<int64_t>{3, 4, 2, 1, 3, 0}, {0, 0, 2, 5}, {1, 0}, {0, 9, 0, 0, 1, 2}}) {
          const Tensor x = op<"to.dtype">(fn::remainder(counted(shape, DType::Float64), 101), type);
          Tensor want = x;
          for (int k = 0; k < static_cast<int>(pad.size()) / 2; ++k) {
            const int d = x.rank() - 1 - k;
            const auto side = [&](int64_t n) {
              Sizes s = want.shape();
              s[d] = n;
              return op<"to.dtype">(fn::add(fn::mul(counted(s, DType::Float64), 0), 7), type);
            };
            want = op<"cat">(std::vector<Tensor>{side(pad[2 * k]), want, side(pad[2 * k + 1])}, d);
          }
          ASSERT_EQ(values(op<"pad">(x, pad, "constant", 7)), values(want));
        }
  });
}

TEST(Triangle, KeepsTheSameElementsInEveryLayout) {
  for (const Sizes& shape : {Sizes{2, 70, 5}, Sizes{1, 5, 70}, Sizes{3, 40, 40}})
    for (const int64_t diagonal : {-90, -38, -3, 0, 2, 37, 90})
      for (const bool lower : {true, false})
        for (const bool turned : {true, false}) {
          const Tensor x = turned ? op<"transpose">(counted({shape[0], shape[2], shape[1]}), 1, 2)
                                  : counted(shape);
          const V before = values(x),
                  after = values(lower ? op<"tril">(x, diagonal) : op<"triu">(x, diagonal));
          for (size_t i = 0; i < before.size(); ++i) {
            const int64_t n = static_cast<int64_t>(i), r = n / shape[2] % shape[1],
                          c = n % shape[2];
            const bool kept = lower ? c <= r + diagonal : c >= r + diagonal;
            ASSERT_EQ(after[i], kept ? before[i] : 0) << to_string(shape) << diagonal << lower;
          }
        }
}

TEST(Copy, OfLargeTensorsGoesAroundTheCaches) {
  const Tensor x =
      op<"view">(op<"arange">(int64_t{2560} * 2561, DType::Float32), Sizes{2560, 2561});
  const Tensor t = op<"contiguous">(op<"transpose">(x, 0, 1));
  for (int64_t i : {0, 1, 17, 2559})
    for (int64_t j : {0, 3, 64, 2560})
      EXPECT_EQ(t.host<float>()[j * 2560 + i], x.host<float>()[i * 2561 + j]);
  EXPECT_TRUE(op<"all">(fn::eq(op<"clone">(x), x)).host<bool>()[0]);
  EXPECT_TRUE(op<"all">(fn::eq(op<"full">(Sizes{7000001}, 2.5), 2.5)).host<bool>()[0]);
}

TEST(Flip, ReversesWithoutTouchingTheInput) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(values(op<"flip">(x, Sizes{0, 1})), (V{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(values(op<"roll">(x, Sizes{1}, Sizes{1})), (V{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(values(op<"rot90">(x)), (V{2, 5, 1, 4, 0, 3}));
}

TEST(Read, CountsPositionsInTheOrderOfTheView) {
  const Tensor x = counted({2, 3, 4}, DType::Int32);
  for (const Tensor& view : {x, op<"select">(x, 0, 1), op<"transpose">(x, 0, 2),
                             op<"narrow">(op<"transpose">(x, 1, 2), 0, 1, 1),
                             op<"expand">(op<"narrow">(x, 1, 2, 1), Sizes{2, 3, 4})}) {
    const V want = values(view);
    for (int64_t i = 0; i < view.numel(); ++i) {
      EXPECT_EQ(number_at(view, i), want[static_cast<size_t>(i)]);
      EXPECT_EQ(integer_at(view, i), static_cast<int64_t>(want[static_cast<size_t>(i)]));
    }
    each_number(view.get(),
                [&](double v, int64_t i) { EXPECT_EQ(v, want[static_cast<size_t>(i)]); });
  }
  EXPECT_EQ(item(op<"select">(op<"select">(counted({2, 3}), 0, 1), 0, 2)), 5);
  EXPECT_EQ(kind_of([&] { item(x); }), Kind::Shape);
}

}  // namespace
}  // namespace tycho
