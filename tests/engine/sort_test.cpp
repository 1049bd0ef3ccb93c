// Sorting, choosing the best, distinct elements and searching: stable for every type and length, nan last.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"
#include "tests/engine/tensors.h"

namespace tycho {
namespace {

TEST(Sorting, IsStableAndPutsNanLast) {
  for (int64_t n : {5, 700, 20000}) {
    Tensor x = of({n}, {2, -0.0, 0, -1, kNan, kInf, -kInf});
    for (bool descending : {false, true}) {
      const auto r = ops<"sort">(x, 0, descending);
      const V v = values(r[0]), at = values(r[1]), source = values(x);
      for (int64_t i = 0; i < n; ++i) {
        const double from = source[static_cast<size_t>(at[i]) - 1];
        ASSERT_TRUE(from == v[i] || (std::isnan(from) && std::isnan(v[i])));
        if (i == 0) continue;
        const double a = descending ? v[i] : v[i - 1], b = descending ? v[i - 1] : v[i];
        ASSERT_TRUE(std::isnan(b) || a <= b) << a << " " << b;
        const bool equal = v[i] == v[i - 1] || (std::isnan(a) && std::isnan(b));
        ASSERT_TRUE(!equal || at[i - 1] < at[i]);
      }
    }
  }
}

TEST(Sorting, OfEveryTypeAgreesWithTheStandardLibrary) {
  for (DType t : {DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64,
                  DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    const Tensor x = op<"to.dtype">(op<"mul">(noise({1000}, DType::Float64), 100), t);
    V want = values(x);
    std::sort(want.begin(), want.end());
    EXPECT_EQ(values(ops<"sort">(x, 0)[0]), want) << dtype_name(t);
    const V top = values(ops<"topk">(x, 10, 0)[0]);
    EXPECT_EQ(top, V(want.rbegin(), want.rbegin() + 10)) << dtype_name(t);
    EXPECT_EQ(values(ops<"topk">(x, 7, 0, false)[0]), V(want.begin(), want.begin() + 7));
    EXPECT_EQ(one(ops<"kthvalue">(x, 500)[0]), want[499]);
    EXPECT_EQ(one(op<"median">(x)), want[499]);
  }
}

TEST(Sorting, OfLinesOfEveryLengthIsStable) {
  for (int64_t n : {1, 2, 63, 64, 65, 255, 256, 257, 599, 601})
    for (DType t : {DType::Float32, DType::Float64, DType::Int64, DType::UInt8}) {
      const Tensor x = op<"to.dtype">(op<"mul">(noise({n}, DType::Float64), 9), t);
      const V v = values(x);
      std::vector<size_t> order(v.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] < v[b]; });
      const auto sorted = ops<"sort">(x, 0);
      const V have = values(sorted[0]), places = values(sorted[1]);
      for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(have[i], v[order[i]]) << n << dtype_name(t);
        ASSERT_EQ(places[i], static_cast<double>(order[i]) + 1) << n << dtype_name(t);
      }
    }
}

TEST(Sorting, FindsElementsAmongAnyNumberOfOthers) {
  for (DType t : {DType::Int64, DType::Float32})
    for (int64_t n : {0, 1, 2, 3, 4, 7, 64, 100}) {
      Tensor x = op<"to.dtype">(op<"mul">(noise({500}, DType::Float64), 90), t);
      const Tensor among = op<"to.dtype">(op<"mul">(noise({n}, DType::Float64), 80), t);
      if (t == DType::Float32) {
        x.host<float>()[3] = static_cast<float>(kNan);
        if (n > 1) {
          among.host<float>()[0] = static_cast<float>(kNan);
          among.host<float>()[1] = x.host<float>()[9];
        }
      }
      const V v = values(x), a = values(among), have = values(op<"isin">(x, among));
      for (size_t i = 0; i < v.size(); ++i)
        ASSERT_EQ(have[i] != 0, std::find(a.begin(), a.end(), v[i]) != a.end()) << n;
    }
}

TEST(Sorting, FindsTheBestOfLongLinesWhateverTheirOrder) {
  Tensor x = empty({100000}, DType::Float32);
  for (int order = 0; order < 3; ++order) {
    for (int64_t i = 0; i < 100000; ++i)
      x.host<float>()[i] = static_cast<float>(order == 0 ? i : order == 1 ? -i : i * 7919 % 100000);
    const auto r = ops<"topk">(x, 5);
    const V v = values(r[0]), at = values(r[1]);
    for (int k = 0; k < 5; ++k) EXPECT_EQ(v[k], order == 1 ? -k : 99999 - k);
    for (int k = 0; k < 5; ++k) EXPECT_EQ(x.host<float>()[static_cast<int64_t>(at[k]) - 1], v[k]);
  }
  EXPECT_THROW(ops<"topk">(x, 100001), Error);
}

TEST(Distinct, ElementsAndTheirCounts) {
  const auto r = ops<"unique">(of({6}, {3, 1, 3, 2, 1, 3}), true, true, true);
  EXPECT_EQ(values(r[0]), (V{1, 2, 3}));
  EXPECT_EQ(values(r[1]), (V{3, 1, 3, 2, 1, 3}));
  EXPECT_EQ(values(r[2]), (V{2, 1, 3}));
  EXPECT_EQ(op<"unique">(of({4}, {kNan, 1, kNan, 1})).numel(), 3);
  EXPECT_EQ(values(op<"nonzero">(of({2, 3}, {0, 1, 0, 2, 0, 3}))), (V{1, 2, 2, 1, 2, 3}));
  EXPECT_EQ(op<"nonzero">(noise({0, 3})).shape(), (Sizes{0, 2}));
  const Tensor mask = of({300, 1001}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, DType::Bool);
  const Tensor at = op<"nonzero">(mask);
  EXPECT_EQ(at.size(0), 300 * 1001 / 11);
  for (int64_t i = 0; i < at.size(0); ++i) {
    const int64_t* p = at.host<int64_t>() + 2 * i;
    ASSERT_EQ((p[0] - 1) * 1001 + p[1] - 1, 11 * i + 10);
  }
}

TEST(Distinct, PlacesInSortedLinesCountFromOne) {
  const Tensor line = of({4}, {1, 2, 2, 5});
  EXPECT_EQ(values(op<"searchsorted">(line, of({4}, {0, 2, 5, 6}))), (V{1, 2, 4, 5}));
  EXPECT_EQ(values(op<"searchsorted">(line, of({4}, {0, 2, 5, 6}), false, true)), (V{1, 4, 5, 5}));
  EXPECT_EQ(values(op<"bincount">(of({5}, {0, 2, 2, 4, 2}, DType::Int64))), (V{1, 0, 3, 0, 1}));
  EXPECT_THROW(op<"bincount">(of({1}, {-1}, DType::Int64)), Error);
}

}  // namespace
}  // namespace tycho
