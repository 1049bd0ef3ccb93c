// Convolutions through oneDNN, and those of few channels, against the products of matrices that a
// lower level of instructions uses: odd parameters, cut into pieces on several threads.
#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/cpu/library/onednn.h"
#include "engine/ops/nn/conv.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using namespace numeric;

struct Case {
  Sizes x, w, stride, pad, dilation;
  int64_t groups = 1;
};

// Large enough to be cut: two million multiply-adds and more.
const std::vector<Case> kCases = {
    {{7, 16, 20, 18}, {24, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 16, 41, 30}, {24, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 3, 61, 44}, {32, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}},
    {{1, 24, 40, 33}, {40, 24, 3, 2}, {2, 3}, {2, 0}, {3, 1}},
    {{2, 20, 37, 30}, {36, 20, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 48, 30, 31}, {64, 48, 1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {{1, 32, 30, 31}, {64, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 4},
    {{3, 96, 30, 29}, {96, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 96},
    {{1, 32, 9, 40}, {48, 32, 5, 5}, {1, 1}, {5, 6}, {1, 1}},
    {{1, 8, 30, 30}, {128, 8, 2, 2}, {1, 1}, {3, 2}, {1, 1}},
    {{2, 32, 14, 15}, {80, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 64, 9, 10}, {48, 64, 2, 3}, {2, 1}, {0, 1}, {1, 1}},
    {{4, 256, 7, 7}, {512, 256, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 512, 7, 6}, {256, 512, 1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {{5, 12, 1, 300}, {24, 12, 1, 9}, {1, 2}, {0, 4}, {1, 1}},
    // Lines so long that they are cut into stretches.
    {{2, 3, 1, 9003}, {37, 3, 1, 33}, {1, 2}, {0, 16}, {1, 1}},
    {{1, 20, 1, 3500}, {40, 20, 1, 5}, {1, 1}, {0, 9}, {1, 3}},
    {{2, 32, 1, 4100}, {32, 8, 1, 3}, {1, 1}, {0, 1}, {1, 1}, 4},
};
const std::vector<Case> kVolumes = {
    {{2, 8, 9, 10, 11}, {16, 8, 3, 3, 2}, {1, 2, 1}, {1, 1, 0}, {1, 1, 1}},
    {{1, 12, 1, 40, 30}, {20, 12, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{1, 16, 6, 9, 10}, {32, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{3, 6, 7, 8, 20}, {32, 3, 2, 3, 3}, {1, 1, 1}, {0, 2, 1}, {2, 1, 1}, 2},
    {{1, 3, 22, 22, 22}, {63, 1, 7, 7, 7}, {2, 4, 4}, {0, 3, 3}, {1, 1, 1}, 3},
    {{1, 20, 17, 13, 18}, {24, 20, 3, 2, 3}, {3, 2, 1}, {2, 0, 1}, {2, 1, 1}},
};

struct Results {
  Tensor y, x, w;
};

Results results(const Case& c, const Tensor& x, const Tensor& w, const Tensor& bias) {
  Source s;
  const Tensor lx = as_leaf(x), lw = as_leaf(w);
  const Tensor y = c.x.n == 5 ? op<"conv3d">(lx, lw, bias, c.stride, c.pad, c.dilation, c.groups)
                              : op<"conv2d">(lx, lw, bias, c.stride, c.pad, c.dilation, c.groups);
  const auto g = grad::gradients({y}, {lx, lw}, {random(s, y.shape(), y.dtype())}, {});
  return {y, g[0], g[1]};
}

// Distances in units of the largest element.
void expect_close(const Tensor& have, const Tensor& want, double tolerance,
                  const std::string& what) {
  const auto a = values(have), b = values(want);
  ASSERT_EQ(a.size(), b.size());
  double most = 0, off = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(b[i]));
    off = std::max(off, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(off, tolerance * most) << what;
}

void agree(const Case& c, DType dtype, double tolerance) {
  const cpu::Level best = cpu::level();
  if (best != cpu::Level::v4) return;
  const int before = get_num_threads();
  Source s;
  const Tensor x = random(s, c.x, dtype), w = random(s, c.w, dtype), b = random(s, {c.w[0]}, dtype);
  cpu::force_level(cpu::Level::v3);
  const Results want = results(c, x, w, b);
  cpu::force_level(best);
  Results alone;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Results have = results(c, x, w, b);
    if (threads == 1) alone = have;
    const std::string what = to_string(c.x) + " " + to_string(c.w) + " " + dtype_name(dtype) +
                             " on " + std::to_string(threads);
    EXPECT_TRUE(is_channels_last(have.y)) << what;
    expect_close(have.y, want.y, tolerance, what + " result");
    expect_close(have.x, want.x, tolerance, what + " input");
    expect_close(have.w, want.w, tolerance, what + " weight");
    if (c.x.n != 5) continue;  // slices of volumes give the bits of the whole
    EXPECT_EQ(values(have.y), values(alone.y)) << what << " result";
    EXPECT_EQ(values(have.x), values(alone.x)) << what << " input";
  }
  set_num_threads(before);
}

// Many images at once are computed otherwise than a few of them.
TEST(ConvFew, OfManyImagesIsThatOfAFew) {
  const cpu::Level best = cpu::level();
  for (const cpu::Level level : {best, cpu::Level::v3}) {
    if (level > best) continue;
    cpu::force_level(level);
    for (int64_t few = 4; few <= 9; ++few)
      for (const Case& c : std::vector<Case>{
               {{37, 5, 12, 23}, {few, 5, 3, 2}, {1, 1}, {1, 1}, {1, 1}},
               {{33, few, 9, 14}, {21, few, 2, 3}, {1, 1}, {0, 2}, {1, 1}},
               {{48, 1, 28, 28}, {few, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}},
               {{48, 3, 19, 35}, {few, 3, 4, 3}, {2, 3}, {3, 5}, {2, 1}},
               {{36, few, 16, 17}, {7, few, 3, 5}, {1, 1}, {4, 6}, {2, 2}},
               {{35, 2, 3, 16, 12}, {few, 2, 2, 3, 3}, {1, 1, 1}, {1, 2, 0}, {1, 1, 1}}}) {
        Source s;
        const Tensor x = random(s, c.x, DType::Float32), w = random(s, c.w, DType::Float32),
                     b = random(s, {few > 6 ? c.w[0] : 0}, DType::Float32);
        const auto run = [&](const Tensor& given, const Tensor& g) {
          const Tensor lx = as_leaf(given), lw = as_leaf(w);
          const Value bias = b.numel() ? Value(b) : Value();
          const Tensor y = c.x.n == 5
                               ? op<"conv3d">(lx, lw, bias, c.stride, c.pad, c.dilation, c.groups)
                               : op<"conv2d">(lx, lw, bias, c.stride, c.pad, c.dilation, c.groups);
          if (!g) return Results{y, {}, {}};
          const auto back = grad::gradients({y}, {lx, lw}, {g}, {});
          return Results{y, back[0], back[1]};
        };
        const Tensor g = random(s, run(x, Tensor()).y.shape(), DType::Float32);
        const Results all = run(x, g);
        Tensor dw;
        for (int64_t i = 0; i < c.x[0]; i += 3) {
          const int64_t n = std::min<int64_t>(3, c.x[0] - i);
          const auto some = [&](const Tensor& t) { return op<"narrow">(t, 0, i, n); };
          const Results part = run(op<"clone">(some(x)), op<"clone">(some(g)));
          const std::string what = to_string(c.x) + " " + to_string(c.w);
          expect_close(some(all.y), part.y, 1e-5, what + " result");
          expect_close(some(all.x), part.x, 1e-5, what + " input");
          const Tensor wide = op<"to.dtype">(part.w, DType::Float64);
          dw = dw ? dw + wide : wide;
        }
        expect_close(all.w, dw, 1e-5, to_string(c.x) + " weight of " + to_string(c.w));
      }
  }
  cpu::force_level(best);
}

TEST(ConvOneDnn, AgreesWithOurOwnKernels) {
  for (const Case& c : kCases) {
    agree(c, DType::Float32, 1e-5);
    for (const bool pairs : {false, true}) {
      const bool before = cpu::use_pairs(pairs);
      agree(c, DType::BFloat16, 1.2e-2);
      cpu::use_pairs(before);
    }
    agree(c, DType::Float16, 2e-3);
  }
}

// Of single channels and odd ones, and of few windows in a line.
TEST(ConvOneDnn, PairsThatRunAlongALineAgree) {
  const bool before = cpu::use_pairs(true);
  for (const Case& c : {Case{{9, 1, 17, 19}, {40, 1, 3, 7}, {2, 2}, {1, 3}, {1, 1}},
                        Case{{5, 1, 14, 40}, {33, 1, 5, 4}, {1, 1}, {2, 0}, {1, 1}},
                        Case{{4, 3, 21, 33}, {18, 3, 2, 2}, {1, 1}, {0, 1}, {1, 1}},
                        Case{{8, 37, 9, 5}, {50, 37, 3, 2}, {2, 2}, {1, 1}, {1, 1}},
                        Case{{8, 130, 9, 4}, {24, 130, 5, 5}, {1, 1}, {4, 2}, {1, 1}}})
    agree(c, DType::BFloat16, 1.2e-2);
  cpu::use_pairs(before);
}

// Lanes run along lines there.
TEST(ConvFew, ResultsAndGradientsOfFewChannelsAgree) {
  for (int64_t few = 1; few <= 9; ++few) {
    agree({{15, 5, 12, 23}, {few, 5, 3, 2}, {1, 1}, {1, 1}, {1, 1}}, DType::Float32, 1e-5);
    agree({{4, few, 9, 33}, {21, few, 2, 3}, {1, 1}, {0, 2}, {1, 1}}, DType::Float32, 1e-5);
    agree({{24, few, 7, 16}, {few, few, 3, 5}, {1, 1}, {4, 6}, {1, 1}}, DType::Float32, 1e-5);
  }
  agree({{5, 1, 28, 28}, {6, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}}, DType::Float32, 1e-5);
  agree({{4, 6, 14, 14}, {16, 6, 5, 5}, {1, 1}, {0, 0}, {1, 1}}, DType::Float32, 1e-5);
  agree({{2, 70, 40, 64}, {3, 70, 3, 3}, {1, 1}, {1, 1}, {1, 1}}, DType::Float32, 1e-5);
}

// Lines and columns that no tap reads are left out; images lie as they like.
TEST(ConvFew, StepsOverLinesAndColumnsAgreeInEveryLayout) {
  Source s;
  for (int64_t step = 1; step <= 10; ++step)
    for (const int64_t kernel : {1, 2, 3}) {
      const Case c{{3, 20, 2 + 12 * step, 1 + 21 * step},
                   {1 + step % 8, 20, kernel, 2},
                   {step, step},
                   {kernel - 1, step % 3},
                   {1, 1 + step % 2}};
      agree(c, DType::Float32, 1e-5);
      for (const DType type : {DType::Float32, DType::Float64, DType::BFloat16}) {
        const Tensor x = random(s, c.x, type), w = random(s, c.w, type);
        const Tensor expected = op<"conv2d">(x, w, Value(), c.stride, c.pad, c.dilation);
        const auto laid = [&](const Sizes& order, int64_t apart) {
          Sizes shape, back;
          for (int d = 0; d < 4; ++d) shape.push_back(c.x[order[d]]), back.push_back(0);
          for (int d = 0; d < 4; ++d) back[order[d]] = d;
          shape[2] *= apart;
          const Tensor to = op<"permute">(
              op<"slice">(empty(shape, type, {}), int64_t{2}, int64_t{0}, shape[2], apart), back);
          copy_raw(to, x);
          return to;
        };
        for (const int64_t apart : {1, 2})
          for (const Sizes& order : {Sizes{0, 1, 2, 3}, Sizes{0, 2, 3, 1}, Sizes{0, 1, 3, 2}})
            expect_near(op<"conv2d">(laid(order, apart), w, Value(), c.stride, c.pad, c.dilation),
                        expected, 0);
      }
    }
}

TEST(ConvOneDnn, AgreesWithOurOwnKernelsOnVolumes) {
  for (const Case& c : kVolumes) {
    agree(c, DType::Float32, 1e-5);
    for (const bool pairs : {false, true}) {
      const bool before = cpu::use_pairs(pairs);
      agree(c, DType::BFloat16, 1.2e-2);
      cpu::use_pairs(before);
    }
    agree(c, DType::Float16, 2e-3);
  }
}

TEST(ConvOneDnn, TakesWeightsInChannelsLastLayout) {
  Source s;
  const Tensor x = random(s, {2, 16, 12, 11}, DType::Float32);
  const Tensor w = random(s, {24, 16, 3, 3}, DType::Float32);
  Tensor last = empty_channels_last(w.shape(), DType::Float32, {});
  copy_raw(last, w);
  expect_near(op<"conv2d">(x, last), op<"conv2d">(x, w), 0);
}

}  // namespace
}  // namespace tycho
