// The reductions' kernels on the emulated device: every row, type and way of cutting the work, over
// shapes and strides that are drawn, against sums written down plainly.
#include "engine/cuda/kernels/reduce.cuh"

#include <gtest/gtest.h>

#include <random>
#include <string_view>

#include "engine/cuda/kernels/elements.cuh"

namespace tycho::cuda {
namespace {

struct Row {
  const char* name;
  bool floats;
};
const Row kRows[] = {
#define FOLD(name, lanes, ...) {#name, std::string_view(#lanes) == "Floats"},
#include "engine/ops/reduce/reduce.def"
};

void launch(const std::string& kernel, Reduction r, unsigned blocks, unsigned parts) {
  const emulated::Binder* bind = emulated::kernel_named(kernel);
  ASSERT_NE(bind, nullptr) << kernel;
  void* arguments[] = {&r};
  emulated::run_grid((*bind)(arguments), {blocks, parts, 1}, {32, 8, 1}, 0);
}

// The result in long double, from the row's name.
double expected(const std::string& row, const std::vector<double>& x) {
  long double s = row == "prod" ? 1 : 0;
  double most = -INFINITY, least = INFINITY;
  bool nan = false;
  const auto n = static_cast<long double>(x.size());
  for (const double v : x) {
    const double a = std::fabs(v);
    const bool is_nan = v != v;
    nan = nan || is_nan;
    if (row == "prod")
      s *= v;
    else if (row == "any" || row == "count_nonzero" || row == "all")
      s += v != 0;
    else if (row == "count_numbers")
      s += !is_nan;
    else if (row == "nansum")
      s += is_nan ? 0 : v;
    else if (row == "SumAbs")
      s += a;
    else if (row == "SumSquare")
      s += static_cast<long double>(v) * v;
    else
      s += v;
    const double e = row.starts_with("Max") || row.starts_with("Min") ? a : v;
    most = std::max(most, e);
    least = std::min(least, e);
  }
  if (row == "SumSquare") return std::sqrt(static_cast<double>(s));
  if (row == "mean") return static_cast<double>(s / n);
  if (row == "any") return s > 0;
  if (row == "all") return s == n;
  if (row == "amax" || row == "MaxAbs") return nan ? NAN : most;
  if (row == "amin" || row == "MinAbs") return nan ? NAN : least;
  return static_cast<double>(s);
}

const char* lanes_of(int dtype) { return dtype < kF16 ? "i64" : dtype == kF64 ? "f64" : "f32"; }
size_t bytes_of(int dtype) {
  constexpr size_t kBytes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kBytes[dtype];
}

struct Case {
  int dtype;
  int64_t kept, depth, parts;
  ReduceWay way;
  bool transposed, two_dims, nan;
};

// Each result against the plain one; the memory is as large as the elements, so that ASan sees more.
void check(const Row& row, const Case& t, std::mt19937_64& rng) {
  const auto kept = static_cast<size_t>(t.kept), depth = static_cast<size_t>(t.depth);
  std::vector<char> in(kept * depth * bytes_of(t.dtype)), out(kept * 8, '\x5a'),
      partial(kept * static_cast<size_t>(t.parts) * 8, '\x5a');
  Reduction r{};
  r.in = in.data(), r.out[0] = out.data(), r.partial = partial.data();
  r.in_dtype = t.dtype;
  r.row = static_cast<int32_t>(&row - kRows);
  const std::string lanes = lanes_of(t.dtype), name = row.name;
  const bool counts = name == "any" || name == "all" || name.starts_with("count");
  r.out_dtype[0] = lanes == "i64" || counts ? kInt64 : kF64;
  r.kept = t.kept, r.depth = t.depth, r.parts = t.parts;
  r.part = (t.depth + t.parts - 1) / t.parts;
  const int64_t step = t.transposed ? t.kept : 1;  // of the depth
  r.kept_rank = 1, r.kept_size[0] = t.kept, r.kept_stride[0] = t.transposed ? 1 : t.depth;
  r.depth_rank = 1, r.depth_size[0] = t.depth, r.depth_stride[0] = step;
  if (t.two_dims && t.depth % 3 == 0) {  // the same elements, walked in another order
    r.depth_rank = 2;
    r.depth_size[0] = 3, r.depth_stride[0] = step;
    r.depth_size[1] = t.depth / 3, r.depth_stride[1] = 3 * step;
  }
  std::vector<std::vector<double>> x(kept);
  std::uniform_int_distribution<int> draw(t.dtype == kBool || t.dtype == kUInt8 ? 0 : -3, 4);
  for (size_t k = 0; k < kept; ++k)
    for (size_t i = 0; i < depth; ++i) {
      const auto at = static_cast<int64_t>(k) * r.kept_stride[0] + static_cast<int64_t>(i) * step;
      double v = draw(rng);
      if (t.dtype >= kF16) v *= name == "prod" ? 0.5 : 0.375;
      if (t.nan && t.dtype >= kF16 && draw(rng) == 4) v = NAN;
      store<double>(in.data(), t.dtype, at, v);
      x[k].push_back(load<double>(in.data(), t.dtype, at));
    }
  const std::string kernel = "reduce_" + name + "_" + lanes;
  const auto n = static_cast<unsigned>(t.kept), parts = static_cast<unsigned>(t.parts);
  r.way = t.way;
  if (t.way == ReduceWay::Warps) launch(kernel, r, (n + 7) / 8, 1);
  if (t.way == ReduceWay::Blocks) launch(kernel, r, n, parts);
  if (t.way == ReduceWay::Columns) launch(kernel, r, (n + 31) / 32, parts);
  if (t.parts > 1) {
    r.way = ReduceWay::Merge;
    launch(kernel, r, (n + 7) / 8, 1);
  }
  for (size_t k = 0; k < kept; ++k) {
    const double y = load<double>(out.data(), r.out_dtype[0], static_cast<int64_t>(k));
    double want = expected(name, x[k]);
    if (lanes == "i64" && name == "mean") want = std::trunc(want);
    if (want != want) {
      ASSERT_NE(y, y) << kernel << " result " << k;
    } else {
      ASSERT_NEAR(y, want, 1e-5 * std::max(1.0, std::fabs(want)))
          << kernel << " dtype " << t.dtype << " kept " << t.kept << " depth " << t.depth
          << " parts " << t.parts << " way " << static_cast<int>(t.way) << " result " << k;
    }
  }
}

TEST(CudaReduce, every_row_type_and_way_gives_what_a_plain_loop_gives) {
  std::mt19937_64 rng(7);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(rng() % static_cast<uint64_t>(n));
  };
  for (int seed = 0; seed < 1; ++seed) {
    emulated::set_order(static_cast<uint64_t>(seed));
    for (const Row& row : kRows)
      for (int dtype = kBool; dtype <= kF64; ++dtype)
        for (const auto way : {ReduceWay::Warps, ReduceWay::Blocks, ReduceWay::Columns}) {
          if (row.floats && dtype < kF16) continue;
          Case t{};
          t.dtype = dtype;
          t.way = way;
          t.kept = 1 + below(way == ReduceWay::Blocks ? 3 : way == ReduceWay::Warps ? 12 : 40);
          t.depth = std::string_view(row.name) == "prod" ? 1 + below(20) : 1 + below(600);
          t.parts = way == ReduceWay::Warps ? 1 : 1 + below(std::min<int64_t>(t.depth, 4));
          while (t.parts > 1 && (t.parts - 1) * ((t.depth + t.parts - 1) / t.parts) >= t.depth)
            --t.parts;
          t.transposed = rng() % 2, t.two_dims = rng() % 2, t.nan = rng() % 2;
          if (std::string_view(row.name) == "prod" && dtype < kF16)
            t.depth = 1 + below(12), t.parts = 1;
          check(row, t, rng);
          if (HasFatalFailure()) return;
        }
  }
}

TEST(CudaReduce, a_sum_does_not_depend_on_the_order_in_which_threads_run) {
  std::vector<float> x(5000);
  std::mt19937_64 rng(3);
  for (float& v : x) v = std::ldexp(static_cast<float>(rng() % 1000) - 500, int(rng() % 30));
  double first = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    emulated::set_order(seed);
    double y = 0;
    std::vector<double> partial(5);
    Reduction r{};
    r.in = x.data(), r.out[0] = &y, r.partial = partial.data();
    r.in_dtype = kF32, r.out_dtype[0] = kF64;
    r.kept = 1, r.depth = 5000, r.parts = 5, r.part = 1000;
    r.kept_rank = r.depth_rank = 1, r.kept_size[0] = 1, r.depth_size[0] = 5000;
    r.depth_stride[0] = 1;
    r.way = ReduceWay::Blocks;
    launch("reduce_sum_f32", r, 1, 5);
    r.way = ReduceWay::Merge;
    launch("reduce_sum_f32", r, 1, 1);
    if (seed == 0) first = y;
    EXPECT_EQ(y, first);
  }
}

}  // namespace
}  // namespace tycho::cuda
