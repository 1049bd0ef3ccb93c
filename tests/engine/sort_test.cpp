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

// A line of one column after the other, by the standard library: numbers from 1 of the k first.
V order_of(const Tensor& x, bool descending, int64_t k) {  // x: [outer, n, inner]
  const V v = values(x);
  const int64_t n = x.size(1), inner = x.size(2);
  V want(static_cast<size_t>(x.size(0) * k * inner));
  for (int64_t o = 0; o < x.size(0); ++o)
    for (int64_t j = 0; j < inner; ++j) {
      const auto at = [&](size_t i) {
        return v[static_cast<size_t>(o * n * inner + j) + i * static_cast<size_t>(inner)];
      };
      const auto before = [&](size_t a, size_t b) {
        if (std::isnan(at(a)) || std::isnan(at(b)))
          return !std::isnan(descending ? at(b) : at(a)) && std::isnan(descending ? at(a) : at(b));
        return descending ? at(a) > at(b) : at(a) < at(b);
      };
      std::vector<size_t> order(static_cast<size_t>(n));
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), before);
      for (int64_t i = 0; i < k; ++i)
        want[static_cast<size_t>((o * k + i) * inner + j)] =
            static_cast<double>(order[static_cast<size_t>(i)] + 1);
    }
  return want;
}

// Few values are not moved to be sorted; many are, by digits of two widths.
TEST(Sorting, OfLongLinesIsStableForFewAndForManyValues) {
  const int before = get_num_threads();
  for (const int threads : {1, 3})
    for (const int64_t n : {2047, 4096, 70000, 600001})
      for (const double width : {0.0, 1.0, 100.0, 255.0, 256.0, 5000.0, 1e9})
        for (const DType t : {DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::Int32,
                              DType::Int64, DType::Float32})
          for (const bool descending : {false, true}) {
            if (n > 4096 && t != DType::Int32 && t != DType::UInt8) continue;
            if (n > 70000 && (width < 1e9 || descending)) continue;
            if (width > 255 && dtype_size(t) == 1) continue;
            if (width > 5000 && dtype_size(t) == 2) continue;
            set_num_threads(threads);
            const double low = t == DType::UInt8 || t == DType::Bool ? 0 : -width / 2;
            const Tensor x = op<"to.dtype">(
                fn::add(fn::mul(op<"abs">(noise({n}, DType::Float64)), width), low), t);
            const V v = values(x);
            std::vector<size_t> order(v.size());
            for (size_t i = 0; i < order.size(); ++i) order[i] = i;
            std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
              return descending ? v[a] > v[b] : v[a] < v[b];
            });
            const auto r = ops<"sort">(x, 0, descending);
            const V sorted = values(r[0]), at = values(r[1]);
            for (size_t i = 0; i < v.size(); ++i) {
              ASSERT_EQ(at[i], static_cast<double>(order[i] + 1))
                  << dtype_name(t) << n << " " << width;
              ASSERT_EQ(sorted[i], v[order[i]]);
            }
          }
  set_num_threads(before);
  const Tensor wide = op<"to.dtype">(op<"mul">(noise({5000, 3}, DType::Float64), 50), DType::Int16);
  const Tensor lines = op<"contiguous">(op<"transpose">(wide, 0, 1));
  const auto down = ops<"sort">(wide, 0), along = ops<"sort">(lines, 1);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(values(op<"contiguous">(op<"transpose">(down[i], 0, 1))), values(along[i]));
}

// Few values, many, and such that float64's differ in their last bits only, between others that are far away.
Tensor short_lines(const Sizes& shape, DType t, int kind) {
  Tensor x = op<"mul">(noise(shape, DType::Float64), kind == 0 ? 4.0 : 100.0);
  if (kind == 1 && t == DType::Int64) x = fn::mul(x, 1e13);  // as doubles tell apart
  if (kind == 2) {
    const Tensor near = fn::add(fn::mul(op<"round">(x), 0x1p-52), 1.0);
    x = op<"where">(op<"gt">(x, 60.0), fn::mul(near, 1e300),
                    op<"where">(op<"lt">(x, -60.0), -1e300, near));
  }
  if (is_floating(t)) x = op<"where">(op<"gt">(x, kind == 0 ? 3.0 : 90.0), kNan, x);
  return op<"to.dtype">(kind == 2 ? x : op<"round">(x), t);
}

TEST(Sorting, OfManyShortLinesIsStableAtEveryLevel) {
  const cpu::Level best = cpu::level();
  for (cpu::Level level : {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4}) {
    if (level > best) continue;
    cpu::force_level(level);
    for (DType t : {DType::Float32, DType::Float64, DType::Int64, DType::BFloat16, DType::UInt8,
                    DType::Float16, DType::Int32, DType::Int16, DType::Bool})
      for (const Sizes& shape :
           {Sizes{3, 5, 45}, Sizes{70, 16, 1}, Sizes{1, 17, 9}, Sizes{9, 1, 3}, Sizes{2, 3, 64},
            Sizes{65, 2, 1}, Sizes{30, 30, 1}, Sizes{1, 45, 20}, Sizes{20, 64, 1}, Sizes{3, 65, 6},
            Sizes{17, 130, 1}, Sizes{1, 255, 18}, Sizes{16, 256, 1}, Sizes{16, 257, 1}})
        for (int kind : {0, 1, 2}) {
          if (kind == 2 && t != DType::Float64) continue;
          const Tensor x = short_lines(shape, t, kind);
          for (bool descending : {false, true}) {
            const auto r = ops<"sort">(x, 1, descending);
            const V places = values(r[1]), sorted = values(r[0]);
            ASSERT_EQ(places, order_of(x, descending, shape[1])) << dtype_name(t) << kind;
            const V taken = values(op<"gather">(x, 1, r[1]));
            for (size_t i = 0; i < taken.size(); ++i)
              ASSERT_TRUE(sorted[i] == taken[i] || std::isnan(taken[i])) << dtype_name(t);
            if (t == DType::Bool) continue;
            for (int64_t k : {int64_t{1}, (shape[1] + 1) / 2})
              ASSERT_EQ(values(ops<"topk">(x, k, 1, descending)[1]), order_of(x, descending, k))
                  << dtype_name(t) << kind << descending << k;
          }
        }
  }
  cpu::force_level(best);
}

TEST(Sorting, OfRepeatedElementsKeepsTheirOrder) {
  const Tensor x = op<"expand">(noise({2, 1, 5}), Sizes{2, 7, 5});
  const auto r = ops<"sort">(x, 1, true);
  EXPECT_EQ(values(r[0]), values(x));
  EXPECT_EQ(values(r[1]), order_of(x, true, 7));
}

TEST(Sorting, FindsTheFirstOfEqualBestElements) {
  for (DType t : {DType::Float32, DType::Int64, DType::Float64})
    for (int64_t n : {100, 1000, 5000})
      for (int64_t k : {int64_t{1}, int64_t{10}, int64_t{17}, int64_t{90}, n / 5, n / 2 - 1}) {
        const Tensor x = op<"to.dtype">(
            op<"round">(op<"mul">(noise({2, n, 1}, DType::Float64), t == DType::Int64 ? 1e17 : 20)),
            t);
        for (bool largest : {false, true})
          EXPECT_EQ(values(ops<"topk">(x, k, 1, largest)[1]), order_of(x, largest, k))
              << n << " " << k << " " << dtype_name(t);
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

TEST(Sorting, FindsTheMiddleOfLongLinesHoweverTheyAreSpread) {
  for (int64_t n : {2047, 2048, 5001})
    for (DType t : {DType::Float32, DType::Float64, DType::Int64, DType::BFloat16, DType::UInt8})
      for (double scale : {0.0, 1.0, 100.0, 1e30})  // all alike, few, many values
        for (bool lifted : {false, true}) {         // of one sign
          if (scale > 1e3 && !is_floating(t)) continue;
          Tensor wide = op<"mul">(noise({n}, DType::Float64), scale);
          if (lifted) wide = op<"abs">(wide);
          const Tensor x = op<"to.dtype">(scale > 1e3 ? wide : op<"round">(wide), t);
          const Tensor line = op<"reshape">(x, Sizes{1, n, 1});
          const V order = order_of(line, false, n);
          const V v = values(x);
          for (int64_t k : {n / 10, n / 2, n - 1}) {
            const auto r = ops<"kthvalue">(x, k + 1);
            EXPECT_EQ(one(r[1]), order[static_cast<size_t>(k)]) << dtype_name(t) << n;
          }
          EXPECT_EQ(one(op<"median">(x)), v[static_cast<size_t>(order[(n - 1) / 2]) - 1]);
          if (!is_floating(t)) continue;
          const Tensor some = op<"where">(op<"gt">(noise({n}, DType::Float64), 0.9), kNan, x);
          EXPECT_TRUE(std::isnan(one(op<"median">(some))));
          const double middle = one(op<"nanmedian">(some));
          int64_t below = 0, above = 0;
          for (double e : values(some)) below += e<middle, above += e> middle;
          EXPECT_LE(std::max(below, above), n / 2);
        }
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

TEST(Distinct, IntegersOfNarrowAndWideRanges) {
  for (double far : {1.0, 60.0, 5000.0, 1e6, 9e15}) {
    const Tensor x = op<"to.dtype">(op<"mul">(noise({20, 50}, DType::Float64), far), DType::Int64);
    const auto r = ops<"unique">(x, true, true, true);
    const V v = values(r[0]), at = values(r[1]), count = values(r[2]), source = values(x);
    EXPECT_TRUE(std::is_sorted(v.begin(), v.end()));
    V seen(v.size());
    for (size_t i = 0; i < source.size(); ++i) {
      ASSERT_EQ(v[static_cast<size_t>(at[i]) - 1], source[i]);
      ++seen[static_cast<size_t>(at[i]) - 1];
    }
    EXPECT_EQ(seen, count);
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
