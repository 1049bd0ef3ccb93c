// Reductions on a device: which kernel of reduce.cu, and how the work is cut.
#include "engine/cuda/ops/reduce.h"

#include <algorithm>
#include <cmath>

#include "engine/cuda/kernels/reduce.cuh"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

enum Lanes { kF32Lanes, kF64Lanes, kI64Lanes };
enum Row {
#define FOLD(name, ...) Row_##name,
#include "engine/ops/reduce/reduce.def"
};

// Kernels by lanes, and the bytes of the state that their parts leave.
struct Kernels {
  const char* name[3];
  bool floats;  // integers are taken as doubles
  size_t state[3];
};
constexpr int All = 0, Floats = 1;
constexpr Kernels kFolds[] = {
#define FOLD(name, lanes, ...)                                               \
  {{"reduce_" #name "_f32", "reduce_" #name "_f64", "reduce_" #name "_i64"}, \
   lanes == Floats,                                                          \
   {8, 8, 8}},
#include "engine/ops/reduce/reduce.def"
};
#define NAMES(name) \
  { "reduce_" name "_f32", "reduce_" name "_f64", "reduce_" name "_i64" }
constexpr Kernels kLargest{NAMES("largest"), false, {16, 16, 16}};
constexpr Kernels kSmallest{NAMES("smallest"), false, {16, 16, 16}};
constexpr Kernels kUnits{{"reduce_units_f32", "reduce_units_f64", nullptr}, true, {16, 16, 16}};
constexpr Kernels kMoments{NAMES("moments"), true, {24, 24, 24}};

Lanes lanes_of(const Kernels& k, DType t) {
  if (t == DType::Float64 || (!is_floating(t) && k.floats)) return kF64Lanes;
  return is_floating(t) ? kF32Lanes : kI64Lanes;
}

struct Axis {
  int64_t size, stride;
};
// The axis next to those there are, which lie further out.
void append(Axis* axes, int& n, Axis a) {
  if (n > 0 && axes[n - 1].stride == a.stride * a.size)
    axes[n - 1] = {axes[n - 1].size * a.size, a.stride};
  else
    axes[n++] = a;
}

// `in_order`: positions count, so the elements are walked as the user sees them.
void set_axes(Reduction& r, const Tensor& x, uint32_t bits, bool in_order) {
  Axis kept[kMaxDims], depth[kMaxDims], folded[kMaxDims];
  int kept_rank = 0, depth_rank = 0, folded_rank = 0;
  r.kept = r.depth = 1;
  for (int d = 0; d < x.rank(); ++d) {
    const bool fold = bits >> d & 1;
    (fold ? r.depth : r.kept) *= x.size(d);
    if (x.size(d) == 1) continue;
    if (fold)
      folded[folded_rank++] = {x.size(d), x.stride(d)};
    else
      append(kept, kept_rank, {x.size(d), x.stride(d)});
  }
  if (!in_order)
    std::stable_sort(folded, folded + folded_rank,
                     [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  for (int d = 0; d < folded_rank; ++d) append(depth, depth_rank, folded[d]);
  r.kept_rank = kept_rank, r.depth_rank = depth_rank;
  for (int d = 0; d < kept_rank; ++d)
    r.kept_size[d] = kept[d].size, r.kept_stride[d] = kept[d].stride;
  for (int d = 0; d < depth_rank; ++d)
    r.depth_size[d] = depth[d].size, r.depth_stride[d] = depth[d].stride;
}

// From the shape alone.
void cut(Reduction& r) {
  constexpr int64_t kWarpDepth = 1024, kBlocks = 1024, kPart = 8192, kPartRows = 256;
  const int64_t near_kept = r.kept_rank ? r.kept_stride[r.kept_rank - 1] : INT64_MAX;
  const int64_t near_depth = r.depth_rank ? r.depth_stride[r.depth_rank - 1] : INT64_MAX;
  int64_t blocks, least;
  if (near_kept < near_depth && r.kept >= 32) {
    r.way = ReduceWay::Columns;
    blocks = (r.kept + 31) / 32;
    least = kPartRows;
  } else if (r.depth <= kWarpDepth) {
    r.way = ReduceWay::Warps;
    r.parts = 1;
    r.part = r.depth;
    return;
  } else {
    r.way = ReduceWay::Blocks;
    blocks = r.kept;
    least = kPart;
  }
  const int64_t wanted = std::max<int64_t>(1, kBlocks / std::max<int64_t>(1, blocks));
  r.part = std::max(least, (r.depth + wanted - 1) / wanted);
  r.parts = std::max<int64_t>(1, (r.depth + r.part - 1) / r.part);
}

Reduction reduction(const Tensor& x, uint32_t bits, bool in_order) {
  Reduction r{};
  r.in = x.data<void>();
  r.in_dtype = number_of(x);
  set_axes(r, x, bits, in_order);
  cut(r);
  return r;
}

void run(Device device, Reduction r, const Kernels& kernels, Lanes lanes) {
  if (r.kept == 0) return;
  const KernelRef kernel{"reduce", kernels.name[lanes]};
  const Scratch partial(
      device, r.parts > 1 ? static_cast<size_t>(r.kept * r.parts) * kernels.state[lanes] : 0);
  r.partial = partial.as();
  const unsigned by_warp = blocks_for(r.kept, 8), parts = static_cast<unsigned>(r.parts);
  const unsigned blocks = r.way == ReduceWay::Warps     ? by_warp
                          : r.way == ReduceWay::Columns ? blocks_for(r.kept, 32)
                                                        : static_cast<unsigned>(r.kept);
  launch(device, kernel, {blocks, parts}, {32, 8}, 0, r);
  if (r.parts == 1) return;
  r.way = ReduceWay::Merge;
  launch(device, kernel, {by_warp}, {32, 8}, 0, r);
}

uint32_t all_bits(const Tensor& x) { return (1u << x.rank()) - 1; }

// The dims of an argument: a list (all when none), or one.
uint32_t bits_of(const Call& c, int argument) {
  const int rank = c.tensor(0).rank();
  if (c.arg[argument].tag != Tag::Int) return dim_bits(c, argument, rank);
  return one_dim(c.integer(argument), rank);
}

// Sums, products and means are taken in the result's kind of number, as on the CPU.
void fold(Call& c, Row row, tycho::Result type) {
  using enum tycho::Result;
  const Tensor &x = c.tensor(0), &out = c.out[0];
  if (type == Sum && out.dtype() == DType::Bool && row != Row_prod) {
    row = Row_count_nonzero;  // a sum as bool says whether any element is true
    type = Count;
  }
  const Kernels& kernels = kFolds[row];
  Lanes lanes = lanes_of(kernels, x.dtype());
  if (type == Sum || type == Mean) {
    if (!is_floating(out.dtype()))
      lanes = kI64Lanes;
    else if (!is_floating(x.dtype()) || out.dtype() == DType::Float64)
      lanes = kF64Lanes;
  }
  const Written result(out);
  Reduction r = reduction(x, bits_of(c, 1), false);
  r.row = row;
  r.out[0] = result.data();
  r.out_dtype[0] = number_of(out);
  run(x.device(), r, kernels, lanes);
  result.finish();
}

// Results: the value, unless it is not asked for, and its position.
void extreme(Call& c, const Kernels& kernels, bool with_value) {
  const Tensor& x = c.tensor(0);
  const bool whole = !c.has(1);
  const Written first(c.out[0]), second(c.out[with_value ? 1 : 0]);
  Reduction r = reduction(x, whole ? all_bits(x) : bits_of(c, 1), true);
  if (with_value) {
    r.out[0] = first.data();
    r.out_dtype[0] = number_of(c.out[0]);
  }
  r.out[1] = second.data();
  r.out_dtype[1] = number_of(DType::Int64);
  run(x.device(), r, kernels, lanes_of(kernels, x.dtype()));
  first.finish();
  if (with_value) second.finish();
}

// Results: the variance (or its root), and the mean where a second result is made.
void moments(Call& c, bool root) {
  const Tensor& x = c.tensor(0);
  const bool with_mean = c.out.size() > 1;
  const Written first(c.out[0]), second(c.out[with_mean ? 1 : 0]);
  Reduction r = reduction(x, dim_bits(c, 1, x.rank()), false);
  r.correction = correction_of(c);
  r.root = root;
  r.out[0] = first.data();
  r.out_dtype[0] = number_of(c.out[0]);
  if (with_mean) {
    r.out[1] = second.data();
    r.out_dtype[1] = number_of(c.out[1]);
  }
  run(x.device(), r, kMoments, lanes_of(kMoments, x.dtype()));
  first.finish();
  if (with_mean) second.finish();
}

void vector_norm(Call& c) {
  const double p = c.number(1);
  Tensor x = c.tensor(0), out = c.out[0];
  const uint32_t bits = dim_bits(c, 2, x.rank());
  Row row = Row_sum;
  const bool general = p != 0 && p != 1 && p != 2 && !std::isinf(p);
  if (p == 0) row = Row_count_nonzero;
  if (p == 1) row = Row_SumAbs;
  if (p == 2) row = Row_SumSquare;
  if (std::isinf(p)) row = p > 0 ? Row_MaxAbs : Row_MinAbs;
  if (general) {  // |x|^p in float64, where float32 would lose large and small elements
    x = op<"pow">(op<"abs">(op<"to.dtype">(x, DType::Float64)), p);
    out = empty(out.shape(), DType::Float64, x.device());
  }
  const Written result(out);
  Reduction r = reduction(x, bits, false);
  r.row = row;
  r.out[0] = result.data();
  r.out_dtype[0] = number_of(out);
  const bool wide = out.dtype() == DType::Float64 || row == Row_SumSquare;
  run(x.device(), r, kFolds[row], wide ? kF64Lanes : lanes_of(kFolds[row], x.dtype()));
  result.finish();
  if (general) copy_raw(c.out[0], op<"pow">(out, 1 / p));
}

}  // namespace

void moments_of(const Tensor& x, uint32_t bits, double* var, double* mean) {
  Reduction r = reduction(x, bits, false);
  r.out[0] = var;
  r.out[1] = mean;
  r.out_dtype[0] = r.out_dtype[1] = number_of(DType::Float64);
  run(x.device(), r, kMoments, lanes_of(kMoments, x.dtype()));
}

void unit_sums_of(const Tensor& g, const Tensor& x, uint32_t bits, const Tensor& mean,
                  const Tensor& rstd, int64_t unit_step, double* sum, double* dot) {
  Reduction r = reduction(x, bits, true);
  const Tensor same =
      g.strides() == x.strides() ? g : empty_strided(x.shape(), x.strides(), g.dtype(), x.device());
  if (same.get() != g.get()) copy_raw(same, g);
  r.grad = same.data<void>();
  r.grad_dtype = number_of(g);
  r.mean = mean.data<void>();
  r.rstd = rstd.data<void>();
  r.unit_step = static_cast<int32_t>(unit_step);
  r.out[0] = dot;
  r.out[1] = sum;
  r.out_dtype[0] = r.out_dtype[1] = number_of(DType::Float64);
  run(x.device(), r, kUnits, wants_double(x) ? kF64Lanes : kF32Lanes);
}

namespace {

BIND_KERNEL(Cuda, "var", [](Call& c) { moments(c, false); });
BIND_KERNEL(Cuda, "std", [](Call& c) { moments(c, true); });
BIND_KERNEL(Cuda, "var_mean", [](Call& c) { moments(c, false); });
BIND_KERNEL(Cuda, "std_mean", [](Call& c) { moments(c, true); });
BIND_KERNEL(Cuda, "max", [](Call& c) { fold(c, Row_amax, tycho::Result::Element); });
BIND_KERNEL(Cuda, "min", [](Call& c) { fold(c, Row_amin, tycho::Result::Element); });
BIND_KERNEL(Cuda, "max.dim", [](Call& c) { extreme(c, kLargest, true); });
BIND_KERNEL(Cuda, "min.dim", [](Call& c) { extreme(c, kSmallest, true); });
BIND_KERNEL(Cuda, "argmax", [](Call& c) { extreme(c, kLargest, false); });
BIND_KERNEL(Cuda, "argmin", [](Call& c) { extreme(c, kSmallest, false); });
BIND_KERNEL(Cuda, "vector_norm", vector_norm);
BIND_KERNEL(Cuda, "distance", vector_norm);

namespace rows {  // whose lines are reduce.def's
#define REDUCTION(name, lanes, value, combine, finish, type, ...) \
  BIND_KERNEL(Cuda, #name, [](Call& c) { fold(c, Row_##name, tycho::Result::type); });
#include "engine/ops/reduce/reduce.def"
}  // namespace rows

}  // namespace
}  // namespace tycho::cuda
