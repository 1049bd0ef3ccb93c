// What is special about elementwise operations: types, integer division, kinks, numbers as
// operands.
#include "engine/ops/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/grad/backward.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"
#include "tests/engine/levels.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using V = std::vector<double>;

Tensor make(const V& values, DType dtype = DType::Float32) {
  Tensor t = empty({static_cast<int64_t>(values.size())}, DType::Float64);
  for (size_t i = 0; i < values.size(); ++i) t.host<double>()[i] = values[i];
  Tensor cast = empty(t.shape(), dtype);
  copy_raw(cast, t);
  return cast;
}
Tensor leaf(const V& values) {
  Tensor t = make(values, DType::Float64);
  t->requires_grad = true;
  return t;
}
V values(const Tensor& t) {
  V v;
  for (int64_t i = 0; i < t.numel(); ++i) v.push_back(number_at(t, i));
  return v;
}
V gradient(const Tensor& y, const Tensor& x) {
  grad::SweepOptions o;
  o.retain_graph = true;
  return values(grad::gradients({op<"sum">(y)}, {x}, {}, o)[0]);
}
template <class F>
Kind kind_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind;
  }
  ADD_FAILURE() << "nothing was raised";
  return Kind::Io;
}

TEST(Elementwise, TypesFollowTheRow) {
  const Tensor mask = make({1, 0}, DType::Bool), ints = make({3, -4}, DType::Int32);
  EXPECT_EQ((mask + mask).dtype(), DType::Bool);
  EXPECT_EQ((ints / 2).dtype(), DType::Float32);
  EXPECT_EQ(fn::square(mask).dtype(), DType::Int64);
  EXPECT_EQ(fn::exp(ints).dtype(), DType::Float32);
  EXPECT_EQ(fn::gt(ints, 0.5).dtype(), DType::Bool);
  EXPECT_EQ((ints * 1.5).dtype(), DType::Float32);
  EXPECT_EQ((make({1}, DType::Float16) * 2.5).dtype(), DType::Float16);
  EXPECT_EQ(kind_of([&] { mask - mask; }), Kind::DType);
  EXPECT_EQ(kind_of([&] { fn::bitwise_and(make({1}), make({1})); }), Kind::DType);
  EXPECT_EQ(kind_of([&] { fn::leaky_relu(ints, 0.5); }), Kind::DType);
}

TEST(Elementwise, ParametersTakeNoPartInTheChoiceOfType) {
  const Tensor ints = make({-3, 1, 9}, DType::Int64);
  const Tensor y = fn::hardtanh(ints, -1.5, 1.5);
  EXPECT_EQ(y.dtype(), DType::Int64);
  EXPECT_EQ(values(y), (V{-1, 1, 1}));
}

TEST(Elementwise, IntegerDivisionByZeroRaisesAndWritesNothing) {
  Tensor a = make({7, 8, 9}, DType::Int64), b = make({2, 0, 3}, DType::Int64);
  EXPECT_EQ(kind_of([&] { op_<"floor_divide">(a, b); }), Kind::Value);
  EXPECT_EQ(kind_of([&] { op_<"remainder">(a, 0); }), Kind::Value);
  EXPECT_EQ(kind_of([&] { op<"div.mode">(a, b, "trunc"); }), Kind::Value);
  EXPECT_EQ(values(a), (V{7, 8, 9}));
  EXPECT_EQ(values(fn::floor_divide(make({-7, 7}, DType::Int64), 2)), (V{-4, 3}));
  EXPECT_EQ(values(fn::remainder(make({-7, 7}, DType::Int64), -3)), (V{-1, -2}));
}

TEST(Elementwise, AZeroDivisorIsFoundWhereverItLies) {
  at_each_level([] {
    for (DType type : {DType::Int64, DType::Int32, DType::Int16, DType::UInt8}) {
      const Tensor base = make(V(2 * 3 * 5 * 1400, 7), type);
      const Tensor box = op<"view">(base, Sizes{6, 5, 1400});
      const Tensor layouts[] = {
          base,
          box,
          op<"permute">(box, Sizes{2, 0, 1}),
          op<"slice">(box, 2, 1, 1399, 3),
          op<"slice">(box, 1, 1, 4, 1),
          op<"slice">(op<"permute">(box, Sizes{2, 1, 0}), 2, 1, 4, 2),
          op<"expand">(op<"unsqueeze">(box, -1), Sizes{6, 5, 1400, 3}),
          op<"expand">(op<"unsqueeze">(op<"select">(box, 2, 4), 1), Sizes{6, 4, 5}),
          op<"flip">(box, Sizes{0, 2}),
      };
      for (const Tensor& y : layouts) {
        const Tensor x = op<"ones_like">(y);
        EXPECT_NO_THROW(op<"fmod">(x, y)) << dtype_name(type);
        const int64_t n = y.numel();
        for (int64_t at : {int64_t{0}, n / 3, n / 2, n - 1}) {
          Tensor one = y;
          for (int d = y.rank() - 1; d >= 0; --d)
            one = op<"select">(one, d, at % y.size(d)), at /= y.size(d);
          fill_raw(one, 0);
          EXPECT_EQ(kind_of([&] { op<"fmod">(x, y); }), Kind::Value) << dtype_name(type);
          fill_raw(one, 7);
        }
      }
    }
    EXPECT_NO_THROW(op<"fmod">(empty({0, 3}, DType::Int64), empty({0, 3}, DType::Int64)));
  });
}

TEST(Elementwise, BoolsAreFlippedNotComplemented) {
  EXPECT_EQ(values(fn::bitwise_not(make({1, 0}, DType::Bool))), (V{0, 1}));
  EXPECT_EQ(values(fn::bitwise_not(make({1, 0}, DType::UInt8))), (V{254, 255}));
}

TEST(Elementwise, HalvesCompareAsHalves) {
  const Tensor h = make({0.1, 1}, DType::Float16);
  EXPECT_EQ(values(fn::eq(h, 0.1)), (V{1, 0}));
}

TEST(Elementwise, ComparisonsInPlaceKeepTheType) {
  Tensor x = make({1, 2, 3});
  op_<"gt">(x, 1.5);
  EXPECT_EQ(x.dtype(), DType::Float32);
  EXPECT_EQ(values(x), (V{0, 1, 1}));
}

TEST(Elementwise, EveryLengthEndsExactly) {
  for (int64_t n = 0; n < 70; ++n) {
    Tensor room = filled({n + 1}, 7, DType::Float32);
    Tensor x = op<"narrow">(room, 0, 0, n);
    op_<"add">(x, 1);
    EXPECT_EQ(values(room).back(), 7);
    const Tensor mask = fn::gt(x, 7);
    for (double v : values(mask)) EXPECT_EQ(v, 1);
  }
}

TEST(Elementwise, PowersOfNumbersAreExact) {
  const Tensor x = leaf({-2, 0, 3});
  EXPECT_EQ(values(fn::pow(x, 2)), (V{4, 0, 9}));
  EXPECT_EQ(values(fn::pow(x, 3)), (V{-8, 0, 27}));
  EXPECT_EQ(gradient(fn::pow(x, 2), x), (V{-4, 0, 6}));
  EXPECT_EQ(gradient(fn::pow(x, 0), x), (V{0, 0, 0}));
  EXPECT_EQ(kind_of([] { fn::pow(make({2}, DType::Int64), -1); }), Kind::DType);
}

TEST(Elementwise, PowersOfZeroHaveFiniteGradients) {
  const Tensor a = leaf({0, 0, 2}), b = leaf({0, 2, 0});
  const Tensor y = fn::pow(a, b);
  EXPECT_EQ(gradient(y, a), (V{0, 0, 0}));
  EXPECT_EQ(gradient(y, b), (V{0, 0, std::log(2.0)}));
}

TEST(Elementwise, TiesShareTheGradient) {
  const Tensor a = leaf({1, 2, 3}), b = leaf({2, 2, 2});
  EXPECT_EQ(gradient(fn::maximum(a, b), a), (V{0, 0.5, 1}));
  EXPECT_EQ(gradient(fn::minimum(a, b), b), (V{0, 0.5, 1}));
}

TEST(Elementwise, ClampStopsTheGradientAtNumbersAndSharesItWithTensors) {
  const Tensor x = leaf({0, 0.5, 1}), low = leaf({0, 0, 0}), high = leaf({1, 1, 1});
  EXPECT_EQ(gradient(op<"clamp">(x, 0, 1), x), (V{0, 1, 0}));
  EXPECT_EQ(gradient(op<"clamp">(x, low, high), x), (V{0.5, 1, 0.5}));
  EXPECT_EQ(gradient(op<"clamp">(x, low, high), low), (V{0.5, 0, 0}));
  EXPECT_EQ(kind_of([&] { op<"clamp">(x); }), Kind::Argument);
}

TEST(Elementwise, WhereTakesNumbersAndKeepsInfinityOutOfGradients) {
  const Tensor x = leaf({0, 4});
  const Tensor y = fn::where(fn::gt(x, 0), fn::sqrt(x), 0);
  EXPECT_EQ(values(y), (V{0, 2}));
  EXPECT_EQ(fn::where(make({1, 0}, DType::Bool), 1, 2.5).dtype(), DType::Float32);
  EXPECT_EQ(kind_of([&] { fn::where(x, x, x); }), Kind::DType);
}

TEST(Elementwise, MaskedFillChecksMaskAndValue) {
  const Tensor x = make({1, 2}, DType::UInt8), mask = make({1, 0}, DType::Bool);
  EXPECT_EQ(values(fn::masked_fill(x, mask, 9)), (V{9, 2}));
  EXPECT_EQ(kind_of([&] { fn::masked_fill(x, mask, 300); }), Kind::Value);
  EXPECT_EQ(kind_of([&] { fn::masked_fill(x, x, 1); }), Kind::DType);
  EXPECT_EQ(kind_of([&] { fn::masked_fill(x, mask, make({1, 2})); }), Kind::Shape);
}

TEST(Elementwise, AliasesAreTheSameOperation) {
  const Op* multiply = find_op("multiply");
  ASSERT_NE(multiply, nullptr);
  EXPECT_STREQ(multiply->alias_of->name, "mul");
  ASSERT_NE(find_op("divide.mode"), nullptr);
  EXPECT_EQ(values(op<"multiply">(make({2}), 3)), V{6});
}

TEST(Elementwise, SmallAndGeneralPathsAgree) {
  // 64 elements take the short way, 65 the general one; a transposed operand a third.
  for (int64_t n : {63, 64, 65, 2000}) {
    Tensor x = empty({n, 2}, DType::Float32), y = empty({n, 2}, DType::Float32);
    for (int64_t i = 0; i < 2 * n; ++i) {
      x.host<float>()[i] = 0.25f * static_cast<float>(i % 17);
      y.host<float>()[i] = 1.5f;
    }
    const Tensor turned = op<"transpose">(op<"contiguous">(op<"transpose">(x, 0, 1)), 0, 1);
    EXPECT_EQ(values(x * y + 2), values(turned * y + 2));
    EXPECT_EQ(values(fn::tanh(x)), values(fn::tanh(turned)));
  }
}

TEST(Elementwise, ShiftsOfSmallIntegersGiveTheBitsOfLongOnes) {
  V a, b;
  for (int count = -3; count < 70; ++count)
    for (int x : {-128, -77, -1, 0, 1, 5, 100, 127}) a.push_back(x), b.push_back(count);
  for (DType type : {DType::Int8, DType::Int16, DType::Int32, DType::UInt8}) {
    const Tensor x = make(a, type), count = make(b, type), wide = empty(x.shape(), DType::Int64),
                 wide_count = empty(x.shape(), DType::Int64), cut = empty(x.shape(), type);
    copy_raw(wide, x), copy_raw(wide_count, count);
    copy_raw(cut, op<"bitwise_left_shift">(wide, wide_count));
    EXPECT_EQ(values(op<"bitwise_left_shift">(x, count)), values(cut)) << dtype_name(type);
    copy_raw(cut, op<"bitwise_right_shift">(wide, wide_count));
    EXPECT_EQ(values(op<"bitwise_right_shift">(x, count)), values(cut)) << dtype_name(type);
  }
}

TEST(Elementwise, QuotientsOfSmallIntegersGiveTheBitsOfLongOnes) {
  for (DType type : {DType::Int8, DType::UInt8, DType::Int16}) {
    const bool bytes = type != DType::Int16;
    const int low = type == DType::UInt8 ? 0
                    : bytes              ? -128
                                         : -32768,
              high = low + (bytes ? 255 : 65535);
    V a, b;
    for (int y = low; y <= high; y += bytes ? 1 : 257)
      for (int x = low; x <= high; x += bytes ? 3 : 1021)
        if (y) a.push_back(x), b.push_back(y), a.push_back(high), b.push_back(y);
    a.push_back(low), b.push_back(type == DType::UInt8 ? 1 : -1);
    const Tensor x = make(a, type), y = make(b, type), long_x = make(a, DType::Int64),
                 long_y = make(b, DType::Int64), cut = empty(x.shape(), type);
    const auto same = [&](const char* name, const Tensor& have, const Tensor& want) {
      copy_raw(cut, want);
      EXPECT_TRUE(values(have) == values(cut)) << name << " of " << dtype_name(type);
    };
    for (cpu::Level level : {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4}) {
      const cpu::Level best = cpu::level();
      if (level > best) continue;
      cpu::force_level(level);
      same("//", op<"floor_divide">(x, y), op<"floor_divide">(long_x, long_y));
      same("%", op<"remainder">(x, y), op<"remainder">(long_x, long_y));
      same("fmod", op<"fmod">(x, y), op<"fmod">(long_x, long_y));
      same("/", op<"trunc_divide">(x, y), op<"trunc_divide">(long_x, long_y));
      same("<<", op<"bitwise_left_shift">(x, y), op<"bitwise_left_shift">(long_x, long_y));
      cpu::force_level(best);
    }
  }
}

TEST(Elementwise, AColumnReachesEveryElementOfLongRows) {
  for (DType type : {DType::Float32, DType::Float64, DType::BFloat16, DType::Int32})
    for (int64_t cols : {128, 511, 512, 513, 1600}) {
      const Tensor column = op<"reshape">(make({3, -5, 7}, type), Sizes{3, 1}),
                   both = column + make(V(static_cast<size_t>(cols)), type);
      for (int64_t i = 0; i < 3 * cols; ++i)
        ASSERT_EQ(number_at(both, i), number_at(column, i / cols)) << cols << " at " << i;
    }
}

// Which operands repeat a value along a row, in every place of the row's, gives the bits that as many
// values one after another give.
TEST(Elementwise, RepeatedOperandsGiveTheBitsOfWrittenOnes) {
  const auto same = [](const Tensor& have, const Tensor& want) {
    ASSERT_EQ(to_string(have.shape()), to_string(want.shape()));
    EXPECT_EQ(std::memcmp(packed(have).data(), packed(want).data(),
                          static_cast<size_t>(have.numel() * dtype_size(have.dtype()))),
              0)
        << to_string(want.shape()) << ' ' << dtype_name(want.dtype());
  };
  at_each_level([&] {
    numeric::Source s;
    for (const DType t : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16,
                          DType::Int64, DType::Int32, DType::Int16, DType::UInt8, DType::Int8})
      for (const int64_t n : {1, 9, 13, 16, 29, 45, 63, 64, 65, 130, 250, 900, 1025, 2100})
        for (const int64_t m : {3, 40, 300}) {
          if (m * n > 100000) continue;
          const Tensor x = numeric::random(s, {m, n}, t), c = numeric::random(s, {m, 1}, t),
                       r = numeric::random(s, {n}, t), wide = packed(op<"expand">(c, Sizes{m, n})),
                       apart = empty({m, n, 2}, t), step = op<"select">(apart, 2, 0);
          copy_raw(step, x);
          same(x + c, x + wide);
          same(c - x, wide - x);
          same(c * r, wide * r);
          same(step - c, x - wide);
          same(c + c, op<"narrow">(wide + wide, 1, 0, 1));
          const Tensor seen = op<"expand">(c, Sizes{m, n});
          same(-seen, -wide);
          same(seen * c, wide * wide);
          same(fn::lt(seen, 1), fn::lt(wide, 1));
          same(op<"where">(op<"lt">(op<"narrow">(x, 0, 0, 1), 0), seen, c),
               op<"where">(fn::lt(packed(op<"expand">(op<"narrow">(x, 0, 0, 1), Sizes{m, n})), 0),
                           wide, wide));
          if (is_floating(t)) same(op<"exp">(seen), op<"exp">(wide));
          same(fn::lt(c, x), fn::lt(wide, x));
          same(fn::where(fn::lt(c, 0), c, x), fn::where(fn::lt(wide, 0), wide, x));
          same(fn::where(fn::lt(x, c), x, c), fn::where(fn::lt(x, wide), x, wide));
          same(op<"expand">(c, Sizes{m, n}) * 3 + x, wide * 3 + x);
        }
  });
}

// Every half there is, as one operand and the other, rounded from what float32 gives; nan may be any.
TEST(Elementwise, RowsOfHalvesRoundWhatFloatsGive) {
  constexpr int64_t kAll = 65536;
  const auto as = [](const Tensor& t, DType type) {
    Tensor to = empty(t.shape(), type);
    copy_raw(to, t);
    return to;
  };
  at_each_level([&] {
    for (const DType t : {DType::BFloat16, DType::Float16}) {
      Tensor x = empty({kAll}, t), y = empty({kAll}, t);
      for (int64_t i = 0; i < kAll; ++i) {
        x.host<uint16_t>()[i] = static_cast<uint16_t>(i);
        y.host<uint16_t>()[i] = static_cast<uint16_t>(i * 40503 + 7);
      }
      const Tensor fx = as(x, DType::Float32), fy = as(y, DType::Float32);
      const auto same = [&](const Tensor& have, const Tensor& floats) {
        const Tensor h = as(have, DType::Float64), w = as(as(floats, t), DType::Float64);
        for (int64_t i = 0; i < w.numel(); ++i) {
          const double a = h.host<double>()[i], b = w.host<double>()[i];
          ASSERT_TRUE(a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b)
              << dtype_name(t) << " at " << i << ": " << a << ", not " << b;
        }
      };
      same(x + y, fx + fy);
      same(x * y, fx * fy);
      same(x * 0.1, fx * 0.1);
      same(1.0 - x, 1.0 - fx);
      same(fn::relu(x), fn::relu(fx));
      same(x / y, fx / fy);
      for (int64_t n : {1, 3, 15, 16, 17, 31, 32, 33, 47, 63, 65, 100}) {
        const Tensor a = op<"narrow">(x, 0, 15000, n), b = op<"narrow">(y, 0, 900 + n, n),
                     fa = as(a, DType::Float32), fb = as(b, DType::Float32);
        same(a - b, fa - fb);
        same(a * 3.0, fa * 3.0);
      }
    }
  });
}

TEST(Elementwise, RangesOfAnyLengthAndTypeFollowTheirPositions) {
  for (DType type : {DType::Float32, DType::Float64, DType::Int64, DType::Int16, DType::BFloat16})
    for (int64_t n : {0, 1, 2, 7, 1024, 1025, 40001}) {
      const Tensor a = op<"arange.start">(-3, 2 * n - 3, 2, type),
                   l = op<"linspace">(-1.0, static_cast<double>(n), n, type);
      V exact;
      for (int64_t i = 0; i < n; ++i) exact.push_back(static_cast<double>(2 * i - 3));
      ASSERT_EQ(values(a), values(make(exact, type))) << dtype_name(type) << " " << n;
      if (n < 2) continue;
      EXPECT_EQ(number_at(l, 0), -1);
      EXPECT_EQ(number_at(l, n - 1), number_at(make({static_cast<double>(n)}, type), 0));
      const double step = static_cast<double>(n + 1) / static_cast<double>(n - 1);
      for (int64_t i = 0; i < n && type == DType::Float64; ++i)
        ASSERT_EQ(number_at(l, i),
                  i < n / 2 ? -1.0 + step * static_cast<double>(i)
                            : static_cast<double>(n) - step * static_cast<double>(n - 1 - i));
    }
}

TEST(Elementwise, GeluOfFloatsFollowsTheNormalDistribution) {
  V x;
  for (int i = -4000; i <= 4000; ++i) x.push_back(i / 300.0);
  for (const double far : {20., 100., 1e6, 1e30, 3e38}) x.push_back(far), x.push_back(-far);
  const V y = values(op<"gelu">(make(x)));
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = static_cast<float>(x[i]), exact = a * 0.5 * std::erfc(-a / std::sqrt(2.0));
    EXPECT_NEAR(y[i], exact, 1.2e-7 * std::min(std::abs(a), 6.0) + 1.2e-7 * std::max(a, 0.0)) << a;
  }
  const V edges = values(op<"gelu">(make({INFINITY, std::nan("")})));
  EXPECT_EQ(edges[0], INFINITY);
  EXPECT_TRUE(std::isnan(edges[1]));
}

}  // namespace
}  // namespace tycho
