// Matrix products against plain loops in float64; their gradients against differences.
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/cpu/library/onednn.h"
#include "tests/engine/levels.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using namespace numeric;

// The product of matrices by the definition.
Tensor slow_mm(const Tensor& a, const Tensor& b) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const auto x = values(a), y = values(b);
  Tensor c = filled({m, n}, 0, DType::Float64);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) c.host<double>()[i * n + j] += x[i * k + p] * y[p * n + j];
  return c;
}

double tolerance(DType t, int64_t k) {
  const double eps = t == DType::Float64    ? 1e-15
                     : t == DType::Float32  ? 1e-7
                     : t == DType::Float16  ? 1e-3
                     : t == DType::BFloat16 ? 8e-3
                                            : 0;
  return eps * (4 + static_cast<double>(k) / (t == DType::Float64 || t == DType::Float32 ? 1 : 64));
}

Tensor t(const Tensor& x) { return op<"transpose">(x, -2, -1); }

void check_sizes(DType dtype, const std::vector<std::array<int64_t, 3>>& sizes) {
  Source s;
  for (const auto& [m, k, n] : sizes) {
    Tensor a = random(s, {m, k}, dtype), b = random(s, {k, n}, dtype);
    Tensor at = packed(t(a)), bt = packed(t(b));
    const Tensor want = slow_mm(a, b);
    const std::string what = std::string(dtype_name(dtype)) + " " + std::to_string(m) + "x" +
                             std::to_string(k) + "x" + std::to_string(n);
    const double near = tolerance(dtype, k);
    expect_near(op<"mm">(a, b), want, near, what);
    expect_near(op<"mm">(t(at), b), want, near, what + " TN");
    expect_near(op<"mm">(a, t(bt)), want, near, what + " NT");
    expect_near(op<"mm">(t(at), t(bt)), want, near, what + " TT");
    // Neither dimension contiguous: every second element of every second row.
    Tensor wide = random(s, {2 * m + 1, 2 * k + 1}, dtype);
    Tensor part = alias(wide, {m, k}, {2 * (2 * k + 1), 2}, 1);
    expect_near(op<"mm">(part, b), slow_mm(part, b), near, what + " strided a");
    Tensor wide_b = random(s, {2 * k + 1, 2 * n + 1}, dtype);
    Tensor part_b = alias(wide_b, {k, n}, {2 * (2 * n + 1), 2}, 1);
    expect_near(op<"mm">(a, part_b), slow_mm(a, part_b), near, what + " strided b");
  }
}

TEST(Matmul, AgreesWithTheDefinitionInEveryLayoutAndSize) {
  for (DType d : {DType::Float32, DType::Float64})
    check_sizes(d, {{1, 1, 1},
                    {1, 7, 5},
                    {5, 7, 1},
                    {2, 3, 4},
                    {8, 8, 8},
                    {13, 17, 19},
                    {12, 32, 32},
                    {33, 31, 65},
                    {25, 300, 48},
                    {70, 5, 130}});
  for (DType d : {DType::Float16, DType::BFloat16, DType::Int64, DType::Int32})
    check_sizes(d, {{1, 1, 1}, {2, 3, 4}, {1, 9, 5}, {33, 31, 40}});
}

TEST(Matmul, AgreesInBlocksAndOnThreads) {
  const int before = get_num_threads();
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    check_sizes(DType::Float32, {{200, 300, 170}, {7, 700, 900}, {500, 64, 33}});
    check_sizes(DType::Float64, {{200, 330, 170}});
    check_sizes(DType::BFloat16, {{300, 200, 170}, {1, 40, 3000}, {3000, 40, 1}});
  }
  set_num_threads(before);
}

TEST(Matmul, AgreesAtEveryLevel) {
  const cpu::Level best = cpu::level();
  for (cpu::Level l : {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4}) {
    if (l > best) break;
    cpu::force_level(l);
    for (DType d : {DType::Float32, DType::Float64, DType::Int64, DType::BFloat16})
      check_sizes(d, {{1, 9, 5},
                      {9, 5, 1},
                      {1, 70, 75},
                      {75, 70, 1},
                      {13, 17, 19},
                      {33, 31, 65},
                      {3, 1, 600},
                      {200, 150, 160}});
  }
  cpu::force_level(best);
}

// Every way to write many vectors in bfloat16, with matrices as they lie, turned, stepped and shared.
TEST(Matmul, OfBatchesOfVectorsInBfloat16AgreesWithFloat64) {
  at_each_level([] {
    Source s;
    const auto check = [&](const Tensor& a, const Tensor& b, const std::string& what) {
      const auto wide = [](const Tensor& x) { return op<"to.dtype">(x, DType::Float64); };
      expect_near(op<"matmul">(a, b), op<"matmul">(wide(a), wide(b)), tolerance(a.dtype(), 40),
                  what);
    };
    for (const auto& [m, k] :
         std::vector<std::array<int64_t, 2>>{{40, 33}, {33, 40}, {5, 64}, {64, 5}}) {
      const std::string what = std::to_string(m) + "x" + std::to_string(k);
      const auto make = [&](const Sizes& shape) { return random(s, shape, DType::BFloat16); };
      const Tensor a = make({3, m, k}), v = make({3, k, 1}), u = make({3, 1, m});
      check(a, v, what + " columns");
      check(u, a, what + " rows");
      check(packed(t(a)), packed(t(u)), what + " turned, columns");
      check(t(packed(t(a))), v, what + " as it lay, columns");
      check(a, make({k}), what + " one vector for all");
      check(make({m}), a, what + " one row for all");
      check(make({2, 3, m, k}), make({3, k, 1}), what + " vectors shared by a batch");
      check(make({2, 1, m, k}), make({3, k, 1}), what + " both spread");
      check(make({m, k}), v, what + " one matrix for all");
      check(op<"expand">(make({1, m, k}), Sizes{3, m, k}), v, what + " one matrix, expanded");
      check(alias(make({3, m, 2 * k}), {3, m, k}, {2 * m * k, 2 * k, 2}, 0), v, what + " stepped");
      check(alias(make({3, m, k + 3}), {3, m, k}, {m * (k + 3), k + 3, 1}, 2), v, what + " inside");
      check(a, alias(make({3, 2 * k}), {3, k, 1}, {2 * k, 2, 1}, 0), what + " stepped vectors");
    }
    EXPECT_EQ(
        op<"matmul">(random(s, {0, 40, 33}, DType::BFloat16), random(s, {33}, DType::BFloat16))
            .numel(),
        0);
  });
}

TEST(Matmul, OfShortRowsInTwoBytesWithAVectorAgreesOnAnyThreads) {
  at_each_level([] {
    const int before = get_num_threads();
    Source s;
    for (const DType d : {DType::BFloat16, DType::Float16})
      for (const int64_t k : {1, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65}) {
        const Tensor a = random(s, {20011, k}, d), b = random(s, {k, 1}, d),
                     inside = alias(random(s, {503, k + 3}, d), {503, k}, {k + 3, 1}, 2);
        set_num_threads(1);
        const Tensor one = op<"mm">(a, b);
        expect_near(one, slow_mm(a, b), tolerance(d, k), std::to_string(k));
        expect_near(op<"mm">(inside, b), slow_mm(inside, b), tolerance(d, k), std::to_string(k));
        set_num_threads(3);
        EXPECT_EQ(values(op<"mm">(a, b)), values(one)) << k;
      }
    set_num_threads(before);
  });
}

TEST(Matmul, OfThinTurnedMatricesWithVectorsAgreesAcrossPieces) {
  at_each_level([] {
    for (const DType d : {DType::Float32, DType::Float64, DType::Int64})
      check_sizes(
          d,
          {{2049, 1, 1}, {2100, 2, 1}, {1500, 3, 1}, {5000, 7, 1}, {2048, 13, 1}, {1100, 40, 1}});
  });
}

TEST(Matmul, OfTurnedMatricesWithFewColumnsAgreesOnAnyThreads) {
  at_each_level([] {
    const int before = get_num_threads();
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      for (const DType d : {DType::Float32, DType::Float64, DType::Int64})
        check_sizes(d, {{64, 20, 2}, {67, 41, 3}, {129, 5, 4}, {1031, 17, 5}, {1500, 300, 8}});
    }
    set_num_threads(before);
  });
  Source s;  // added to what is there, and to a row
  const Tensor a = t(random(s, {31, 1100})), b = random(s, {31, 3}), c = random(s, {1100, 3});
  expect_near(op<"addmm">(c, a, b), slow_mm(a, b) + c, 1e-13);
  const Tensor row = random(s, {3});
  expect_near(op<"addmm">(row, a, b), slow_mm(a, b) + row, 1e-13);
}

// Few terms and much to write: rows are written one after another there.
TEST(Matmul, OfFewTermsWithALargeResultAgreesOnAnyThreads) {
  Source s;
  for (const DType d : {DType::Float32, DType::Float64})
    for (const int64_t k : {1, 4, 5})
      for (const auto& [count, m, n] :
           std::vector<std::array<int64_t, 3>>{{33, 250, 257}, {530, 63, 64}}) {
        const Tensor a = random(s, {count, k, m}, d), wide = random(s, {count, k, n + 3}, d);
        const Tensor b = alias(wide, {count, k, n}, {k * (n + 3), n + 3, 1}, 2);
        const int before = get_num_threads();
        set_num_threads(1);
        const Tensor one = op<"matmul">(t(a), b);
        set_num_threads(3);
        const Tensor three = op<"matmul">(t(a), b);
        set_num_threads(before);
        const size_t bytes = static_cast<size_t>(count * m * n * dtype_size(d));
        EXPECT_EQ(std::memcmp(one.host<char>(), three.host<char>(), bytes), 0);
        for (const int64_t i : {int64_t{0}, count - 1}) {
          const auto one_of = [&](const Tensor& all) { return op<"select">(all, int64_t{0}, i); };
          expect_near(one_of(one), slow_mm(t(one_of(a)), one_of(b)), tolerance(d, k),
                      std::to_string(k) + " terms");
        }
      }
}

// Every count of rows up to two register blocks, columns that end within each of four lanes, and more terms
// than are summed at once.
TEST(Matmul, OfFewRowsAgreesInEveryTypeAndLayout) {
  at_each_level([] {
    for (const DType d :
         {DType::Float32, DType::Float64, DType::Int64, DType::BFloat16, DType::Float16})
      for (int64_t m = 1; m <= 25; ++m)
        check_sizes(d, {{m, 9 + m % 3, 1 + m * 7}, {m, m % 5 == 0 ? 530 : 20, 37 - m}});
  });
}

// Rows of b that are long, near and far, and lie in the same sets of a cache; few columns; many terms:
// the same bits on any threads.
TEST(Matmul, OfFewRowsOrColumnsIsTheSameOnAnyThreads) {
  at_each_level([] {
    Source s;
    const int before = get_num_threads();
    for (const DType d : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16})
      for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{2, 20, 1029},
                                                                       {5, 300, 2051},
                                                                       {7, 270, 1500},
                                                                       {8, 16, 1024},
                                                                       {30, 600, 512},
                                                                       {60, 70, 1100},
                                                                       {600, 40, 6},
                                                                       {2500, 7, 15},
                                                                       {20, 1200, 50},
                                                                       {42, 1480, 2},
                                                                       {3, 40000, 4},
                                                                       {9, 9001, 12},
                                                                       {64, 700, 96},
                                                                       {64, 64, 64},
                                                                       {81, 80, 79},
                                                                       {90, 100, 90},
                                                                       {1277, 7, 43},
                                                                       {500, 20, 40},
                                                                       {64, 784, 10}}) {
        const Tensor a = random(s, {m, k}, d), wide = random(s, {k, n + 3}, d);
        const Tensor b = alias(wide, {k, n}, {n + 3, 1}, 2), w = random(s, {n, k}, d);
        const Tensor bias = random(s, {n}, d);
        set_num_threads(1);
        const Tensor one = op<"mm">(a, b), one_w = op<"linear">(a, w, bias);
        set_num_threads(3);
        const Tensor three = op<"mm">(a, b), three_w = op<"linear">(a, w, bias);
        set_num_threads(before);
        const auto bytes = static_cast<size_t>(m * n * dtype_size(d));
        EXPECT_EQ(std::memcmp(one.host<char>(), three.host<char>(), bytes), 0);
        EXPECT_EQ(std::memcmp(one_w.host<char>(), three_w.host<char>(), bytes), 0);
        const auto wide_of = [](const Tensor& x) { return op<"to.dtype">(x, DType::Float64); };
        const std::string what = std::string(dtype_name(d)) + " " + std::to_string(m);
        expect_near(one, op<"mm">(wide_of(a), wide_of(b)), tolerance(d, k), what);
        expect_near(one_w, op<"linear">(wide_of(a), wide_of(w), wide_of(bias)), tolerance(d, k),
                    what + " linear");
      }
  });
}

// Blocks of more rows, cut for threads in every way.
TEST(Matmul, InTwoBytesAgreesInBlocksOnAnyThreads) {
  at_each_level([] {
    const int before = get_num_threads();
    for (const int threads : {1, 5}) {
      set_num_threads(threads);
      for (const DType d : {DType::BFloat16, DType::Float16})
        check_sizes(d,
                    {{200, 270, 40}, {200, 9, 530}, {400, 20, 3}, {1030, 90, 16}, {7, 30, 1100}});
    }
    set_num_threads(before);
  });
  const bool before = cpu::use_pairs(true);
  check_sizes(DType::BFloat16, {{200, 270, 40}, {33, 31, 40}, {17, 60, 100}, {20, 40, 1}});
  cpu::use_pairs(before);
}

TEST(Matmul, AsksNoStrideOfADimensionOfOne) {
  at_each_level([] {
    Source s;
    for (const DType d : {DType::Float32, DType::BFloat16, DType::Float64})
      for (const int64_t other : {1, 7, 150, 1000}) {
        const Tensor rows = random(s, {2000}, d), ones = random(s, {2000}, d);
        const auto check = [&](const Tensor& a, const Tensor& b) {
          const auto wide = [](const Tensor& x) { return op<"to.dtype">(x, DType::Float64); };
          expect_near(op<"matmul">(a, b), op<"matmul">(wide(a), wide(b)), tolerance(d, 40),
                      std::to_string(other));
        };
        check(alias(rows, {300, 1}, {1, other}, 0), random(s, {1, 78}, d));
        check(alias(rows, {300, 1}, {2, other}, 0), alias(ones, {1, 78}, {other, 1}, 0));
        check(random(s, {90, 1}, d), alias(ones, {1, 40}, {other, 2}, 0));
        check(alias(rows, {1, 300}, {other, 1}, 0), random(s, {300, 40}, d));
        check(random(s, {40, 300}, d), alias(rows, {300, 1}, {1, other}, 0));
        check(alias(rows, {1, 300}, {other, 1}, 0), alias(ones, {300, 1}, {1, other}, 0));
      }
  });
}

TEST(Matmul, OfIntegersWrapsAround) {
  Tensor a = empty({1, 2}, DType::UInt8), b = empty({2, 1}, DType::UInt8);
  for (int i = 0; i < 2; ++i) a.host<uint8_t>()[i] = b.host<uint8_t>()[i] = 200;
  EXPECT_EQ(values(op<"mm">(a, b))[0], 80000 % 256);
  Tensor big = empty({1, 1}, DType::Int64);
  *big.host<int64_t>() = int64_t{1} << 62;
  Tensor four = empty({1, 1}, DType::Int64);
  *four.host<int64_t>() = 4;
  EXPECT_EQ(values(op<"mm">(big, four))[0], 0);
}

TEST(Matmul, FollowsTheRulesOfRanksAndBatches) {
  Source s;
  const auto shape = [&](const Sizes& a, const Sizes& b) {
    Tensor x = random(s, a), y = random(s, b);
    Tensor have = op<"matmul">(x, y);
    // The same by elementwise products and a sum.
    Tensor x2 = a.n == 1 ? op<"reshape">(x, Sizes{1, a[0]}) : x;
    Tensor y2 = b.n == 1 ? op<"reshape">(y, Sizes{b[0], 1}) : y;
    Sizes xs = x2.shape(), ys = y2.shape();
    xs.push_back(1);
    ys.insert(ys.n - 2, 1);
    Tensor all = op<"sum">(op<"reshape">(x2, xs) * op<"reshape">(y2, ys), Sizes{-2});
    expect_near(have, op<"reshape">(all, have.shape()), 1e-12);
    return to_string(have.shape());
  };
  EXPECT_EQ(shape({3}, {3}), "[]");
  EXPECT_EQ(shape({3}, {3, 2}), "[2]");
  EXPECT_EQ(shape({2, 3}, {3}), "[2]");
  EXPECT_EQ(shape({4, 2, 3}, {3}), "[4, 2]");
  EXPECT_EQ(shape({3}, {4, 3, 2}), "[4, 2]");
  EXPECT_EQ(shape({4, 2, 3}, {3, 5}), "[4, 2, 5]");
  EXPECT_EQ(shape({2, 3}, {4, 3, 5}), "[4, 2, 5]");
  EXPECT_EQ(shape({6, 1, 2, 3}, {4, 3, 5}), "[6, 4, 2, 5]");
  EXPECT_EQ(shape({0, 2, 3}, {3, 5}), "[0, 2, 5]");
  Tensor zero = op<"matmul">(random(s, {2, 0}), random(s, {0, 3}));
  EXPECT_EQ(values(zero), std::vector<double>(6, 0));
  // Transposed batches: rows that cannot be joined into one matrix.
  Tensor x = random(s, {3, 4, 5}), w = random(s, {4, 2});
  expect_near(op<"matmul">(t(x), w), op<"matmul">(packed(t(x)), w), 1e-13);
  Tensor turned = op<"transpose">(x, 0, 1), w2 = random(s, {5, 2});
  expect_near(op<"matmul">(turned, w2), op<"matmul">(packed(turned), w2), 1e-13);
}

TEST(Matmul, LinearAddsItsBias) {
  Source s;
  for (DType d : {DType::Float64, DType::Float32, DType::BFloat16, DType::Float16})
    for (const Sizes& shape : {Sizes{4, 7}, Sizes{7}, Sizes{1, 7}, Sizes{2, 3, 7}, Sizes{60, 7}})
      for (int64_t out : {1, 5, 40}) {
        Tensor x = random(s, shape, d), w = random(s, {out, 7}, d), b = random(s, {out}, d);
        Tensor want =
            op<"matmul">(op<"to.dtype">(x, DType::Float64), t(op<"to.dtype">(w, DType::Float64))) +
            op<"to.dtype">(b, DType::Float64);
        expect_near(op<"linear">(x, w, b), want, tolerance(d, 7));
        expect_near(op<"linear">(x, w), op<"matmul">(x, t(w)), tolerance(d, 7));
      }
}

TEST(Matmul, AddFamily) {
  Source s;
  Tensor a = random(s, {2, 3}), b = random(s, {3, 4}), c = random(s, {4});
  expect_near(op<"addmm">(c, a, b, 0.5, 2), c * 0.5 + op<"mm">(a, b) * 2, 1e-14);
  expect_near(op<"addmm">(c, a, b), op<"mm">(a, b) + c, 1e-14);
  expect_near(op<"addmm">(c, op<"transpose">(random(s, {3, 2}), 0, 1) * 0 + a, b),
              op<"mm">(a, b) + c, 1e-14);
  expect_near(op<"addmm">(c, random(s, {2, 0}), random(s, {0, 4})), op<"expand">(c, Sizes{2, 4}),
              0);
  EXPECT_EQ(to_string(op<"addmm">(c, random(s, {0, 3}), b).shape()), "[0, 4]");
  Tensor bad = filled({4}, NAN, DType::Float64);
  expect_near(op<"addmm">(bad, a, b, 0), op<"mm">(a, b), 0);
  expect_near(op<"inner">(a, random(s, Sizes()) * 0 + 2), a * 2, 1e-14);
  Tensor y = op<"tensordot">(random(s, {2, 3, 4}), random(s, {3, 4, 5}));
  EXPECT_EQ(to_string(y.shape()), "[2, 5]");
  EXPECT_THROW(op<"addmm">(random(s, {3}), a, b), Error);
}

TEST(Matmul, GradientsOfEveryRank) {
  Source s;
  const auto check = [&](const Sizes& a, const Sizes& b) {
    check_gradient([](const std::vector<Tensor>& v) { return op<"matmul">(v[0], v[1]); },
                   {random(s, a), random(s, b)}, to_string(a) + to_string(b));
  };
  check({2, 3}, {3, 4});
  check({3}, {3});
  check({3}, {3, 2});
  check({2, 3}, {3});
  check({2, 2, 3}, {3, 2});
  check({2, 3}, {2, 3, 2});
  check({2, 1, 2, 3}, {2, 3, 2});
  check({3}, {2, 3, 2});
  check({2, 2, 3}, {3});
  check_gradient([](const std::vector<Tensor>& v) { return op<"dot">(v[0], v[1]); },
                 {random(s, {4}), random(s, {4})});
  check_gradient([](const std::vector<Tensor>& v) { return op<"linear">(v[0], v[1], v[2]); },
                 {random(s, {2, 2, 3}), random(s, {4, 3}), random(s, {4})}, "linear");
  check_gradient([](const std::vector<Tensor>& v) { return op<"linear">(v[0], v[1], v[2]); },
                 {random(s, {3}), random(s, {3}), random(s, {1})}, "linear with a vector");
}

Tensor einsum(const char* equation, const std::vector<Tensor>& operands) {
  return op<"einsum">(equation, operands);
}

TEST(Einsum, AgreesWithTheNamedProducts) {
  Source s;
  Tensor a = random(s, {3, 4}), b = random(s, {4, 5}), c = random(s, {5, 2}), q = random(s, {3, 3});
  Tensor x = random(s, {2, 3, 4}), y = random(s, {2, 4, 5}), v = random(s, {4}), w = random(s, {4});
  expect_near(einsum("ij,jk->ik", {a, b}), op<"mm">(a, b), 1e-13);
  expect_near(einsum("ij,jk", {a, b}), op<"mm">(a, b), 1e-13);
  expect_near(einsum("ij , jk -> ki", {a, b}), t(op<"mm">(a, b)), 1e-13);
  expect_near(einsum("bij,bjk->bik", {x, y}), op<"bmm">(x, y), 1e-13);
  expect_near(einsum("...ij,...jk->...ik", {x, b}), op<"matmul">(x, b), 1e-13);
  expect_near(einsum("i,i->", {v, w}), op<"dot">(v, w), 1e-13);
  expect_near(einsum("i,i->i", {v, w}), v * w, 1e-13);
  expect_near(einsum("i,j->ij", {v, w}), op<"outer">(v, w), 1e-13);
  Tensor many = random(s, {6, 70}), rows = random(s, {6, 33});
  Tensor outer = op<"unsqueeze">(many, 2) * op<"unsqueeze">(rows, 1);
  expect_near(einsum("bi,bj->bij", {many, rows}), outer, 1e-13);
  expect_near(einsum("bi,bj->bji", {many, rows}), t(outer), 1e-13);
  for (DType d : {DType::Int64, DType::BFloat16, DType::Bool}) {
    const auto in = [&](const Tensor& z) { return op<"to.dtype">(z * 3, d); };
    expect_near(einsum("bi,bj->bij", {in(many), in(rows)}),
                op<"unsqueeze">(in(many), 2) * op<"unsqueeze">(in(rows), 1), 0, dtype_name(d));
  }
  expect_near(einsum("ii", {q}), op<"sum">(op<"diagonal">(q)), 1e-13);
  expect_near(einsum("ii->i", {q}), op<"diagonal">(q), 0);
  expect_near(einsum("ij->", {a}), op<"sum">(a), 1e-13);
  expect_near(einsum("ij,jk,kl->il", {a, b, c}), op<"mm">(op<"mm">(a, b), c), 1e-12);
  expect_near(einsum("bij->bji", {x}), t(x), 0);
  // A letter that only one operand has and the result lacks is summed; size 1 broadcasts.
  expect_near(einsum("ij,k->i", {a, v}), op<"sum">(a, Sizes{1}) * op<"sum">(v), 1e-13);
  expect_near(einsum("ij,jk->ik", {op<"sum">(a, Sizes{1}, true), b}),
              op<"sum">(a, Sizes{1}, true) * op<"sum">(b, Sizes{0}), 1e-13);
  check_gradient([](const std::vector<Tensor>& u) { return op<"einsum">("bij,jk,bi->bk", u); },
                 {random(s, {2, 3, 2}), random(s, {2, 2}), random(s, {2, 3})}, "einsum");
  check_gradient([](const std::vector<Tensor>& u) { return op<"einsum">("ii,i->i", u); },
                 {random(s, {3, 3}), random(s, {3})}, "einsum of a diagonal");
}

TEST(Einsum, ErrorsNameTheLetter) {
  Source s;
  Tensor a = random(s, {3, 4}), b = random(s, {5, 2});
  EXPECT_THROW(einsum("ij,jk->ik", {a, b}), Error);
  EXPECT_THROW(einsum("ij,jk->ik", {a}), Error);
  EXPECT_THROW(einsum("ijk->ik", {a}), Error);
  EXPECT_THROW(einsum("ij->ix", {a}), Error);
  EXPECT_THROW(einsum("ij->ii", {a}), Error);
  EXPECT_THROW(einsum("i1->i", {a}), Error);
  EXPECT_THROW(einsum("ii->i", {a}), Error);
  EXPECT_THROW(einsum("......ij->ij", {a}), Error);
}

TEST(Matmul, ErrorsNameShapesAndFixes) {
  Source s;
  try {
    op<"linear">(random(s, {4, 9}), random(s, {5, 10}), random(s, {5}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Shape);
    EXPECT_NE(e.text.find("input has 9 features in its last dimension, the layer expects 10 "
                          "(weight is 5x10 = out x in)"),
              std::string::npos)
        << e.text;
  }
  EXPECT_THROW(op<"mm">(random(s, {2, 3}), random(s, {2, 3})), Error);
  EXPECT_THROW(op<"mm">(random(s, {2}), random(s, {2, 3})), Error);
  EXPECT_THROW(op<"matmul">(random(s, {2, 2, 3}), random(s, {3, 3, 2})), Error);
  EXPECT_THROW(op<"mm">(random(s, {2, 3}), random(s, {3, 2}, DType::Float32)), Error);
  EXPECT_THROW(op<"mm">(filled({2, 2}, 1, DType::Bool), filled({2, 2}, 1, DType::Bool)), Error);
}

}  // namespace
}  // namespace tycho
