// The scalar level: every row's value as plain C++ for one element, which is what a GPU's compiler
// gets, against the vector levels, bit for bit.
#define TYCHO_LEVEL scalar
#define TYCHO_LEVEL_scalar 1
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/cpu/elementwise/level/row_values.h"
#include "engine/cpu/elementwise/rows.h"

namespace tycho::cpu::scalar {
namespace {

template <class T>
void store(T* y, Lane<T> r) {
  *y = r.v;
}
template <class T>
void store(uint8_t* y, Mask<T> r) {
  *y = r.m;
}
template <class Value, class T>
void run_row(void* const* p, int64_t n, unsigned, const Times&) {
  const auto at = [&](int k, int64_t i) { return Lane<T>(static_cast<const T*>(p[k])[i]); };
  using Y = std::conditional_t<
      std::is_same_v<decltype(Value::value(at(1, 0), at(1, 0), at(1, 0), at(1, 0))), Lane<T>>, T,
      uint8_t>;
  for (int64_t i = 0; i < n; ++i)
    store(static_cast<Y*>(p[0]) + i, Value::value(at(1, i), at(2, i), at(3, i), at(4, i)));
}
template <class T, LevelType type, class Value>
constexpr RowFn pick() {
  if constexpr (Lane<T>::integral ? has_ints(type) : has_floats(type))
    return run_row<Value, T>;
  else
    return nullptr;
}

struct Row {
  const char* name;
  LevelType type;
  RowFn f32, f64, i64;
};
const Row rows[] = {
#define ROW(name, operands, args, type, ...)                             \
  {#name, LevelType::type, pick<float, LevelType::type, Value_##name>(), \
   pick<double, LevelType::type, Value_##name>(), pick<int64_t, LevelType::type, Value_##name>()},
#include "engine/ops/elementwise/elementwise.def"
};

// Elements of each operand: every pair of special values, then numbers of all sizes and of few.
template <class T>
std::vector<std::vector<T>> operands() {
  std::vector<T> special;
  if constexpr (std::is_integral_v<T>) {
    for (const T x : {T(0), T(1), T(2), T(3), T(7), T(62), T(63), T(64), T(1) << 31, T(1) << 51,
                      (T(1) << 51) + 1, (T(1) << 53) + 1, std::numeric_limits<T>::max()}) {
      special.push_back(x);
      special.push_back(-x);
    }
    special.push_back(std::numeric_limits<T>::min());
  } else {
    using Limits = std::numeric_limits<T>;
    for (const double x : {0.,
                           0.25,
                           0.5,
                           0.92,
                           1.,
                           1.5,
                           2.,
                           3.,
                           3.141592653589793,
                           5.,
                           20.,
                           88.5,
                           89.,
                           104.,
                           710.,
                           746.,
                           1e5,
                           1e6,
                           1e-5,
                           1e-20,
                           1e20,
                           0x1p23,
                           0x1p52,
                           1.4142135623730951,
                           double(Limits::min()),
                           double(Limits::denorm_min()),
                           double(Limits::max()),
                           double(Limits::epsilon()),
                           double(Limits::infinity())}) {
      special.push_back(static_cast<T>(x));
      special.push_back(static_cast<T>(-x));
    }
    special.push_back(Limits::quiet_NaN());
  }
  std::mt19937_64 random(1);
  const auto any = [&]() -> T {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(random()) >> random() % 64;
    else
      return std::bit_cast<T>(static_cast<typename Raw<T>::Bits>(random()));
  };
  const auto near = [&] {
    return static_cast<T>((static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) * 40);
  };
  std::vector<std::vector<T>> x(4);
  for (size_t i = 0; i < special.size(); ++i)
    for (size_t j = 0; j < special.size(); ++j) {
      x[0].push_back(special[i]);
      x[1].push_back(special[j]);
      x[2].push_back(special[(i + j) % special.size()]);
      x[3].push_back(special[(3 * i + j + 1) % special.size()]);
    }
  for (int i = 0; i < 4000; ++i)
    for (auto& o : x) o.push_back(special[random() % special.size()]);
  for (int i = 0; i < 2000; ++i)
    for (auto& o : x) o.push_back(any());
  for (int i = 0; i < 4000; ++i)
    for (auto& o : x) o.push_back(near());
  return x;
}

template <class T>
auto bits(T x) {
  return std::bit_cast<typename Raw<T>::Bits>(x);
}

// Every row at both levels; rows in `may` may differ. All nan are one: which of two comes out of a
// sum is the compiler's choice.
template <class T>
void compare(RowFn Row::*scalar, RowFn (*level_row)(int), const std::set<std::string>& may) {
  auto x = operands<T>();
  const auto n = static_cast<int64_t>(x[0].size());
  const std::vector<T> twos(x[0].size(), T(2));
  for (size_t r = 0; r < std::size(rows); ++r) {
    const RowFn one = rows[r].*scalar, other = level_row(static_cast<int>(r));
    ASSERT_EQ(one == nullptr, other == nullptr) << rows[r].name;
    if (!one) continue;
    // polygamma's second operand is the order of a derivative.
    const auto& second = rows[r].name == std::string("polygamma_row") ? twos : x[1];
    std::vector<T> have(x[0].size()), want(x[0].size());
    const auto call = [&](RowFn f, std::vector<T>& y) {
      void* p[] = {y.data(), x[0].data(), const_cast<T*>(second.data()), x[2].data(), x[3].data()};
      f(p, n, 0, kOnce);
    };
    call(one, have);
    call(other, want);
    const bool truth = rows[r].type == LevelType::Test;
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      const bool same = truth ? reinterpret_cast<const uint8_t*>(have.data())[i] ==
                                    reinterpret_cast<const uint8_t*>(want.data())[i]
                              : (have[at] != have[at] && want[at] != want[at]) ||
                                    bits(have[at]) == bits(want[at]);
      if (same) continue;
      EXPECT_TRUE(may.contains(rows[r].name))
          << rows[r].name << '(' << x[0][at] << ", " << second[at] << ", " << x[2][at] << ", "
          << x[3][at] << ") is " << have[at] << ", not " << want[at]
          << ": are there products and sums that the compiler may or may not fuse? Write fma(a, b, "
             "c)";
      break;
    }
  }
}

// These are scalar code at every level, where v3 and v4 let the compiler fuse products.
const std::set<std::string> kNotV3 = {"digamma", "standard_gamma_grad", "dirichlet_grad"};
// Float logarithms at v4 take another power of two out of numbers with the digits of sqrt(2).
const std::set<std::string> kNotV4 = {
    "digamma", "log", "log2", "log10", "logit", "xlogy", "standard_gamma_grad", "dirichlet_grad"};

class ScalarLevel : public testing::Test {
  void SetUp() override {
    if (level() < Level::v3) GTEST_SKIP() << "this processor has no fused products";
  }
};

TEST_F(ScalarLevel, GivesTheBitsOfV3InEveryRow) {
  compare<float>(&Row::f32, v3::row_f32, kNotV3);
  compare<double>(&Row::f64, v3::row_f64, kNotV3);
  compare<int64_t>(&Row::i64, v3::row_i64, kNotV3);
}

TEST_F(ScalarLevel, GivesTheBitsOfV4InEveryRow) {
  if (level() < Level::v4) GTEST_SKIP() << "this processor has no AVX-512";
  compare<float>(&Row::f32, v4::row_f32, kNotV4);
  compare<double>(&Row::f64, v4::row_f64, kNotV4);
  compare<int64_t>(&Row::i64, v4::row_i64, kNotV4);
}

}  // namespace
}  // namespace tycho::cpu::scalar
