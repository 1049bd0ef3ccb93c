// Reductions on the CPU: which fold each is, and what becomes of the folded states.
#include "engine/ops/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/run.h"
#include "engine/cpu/reduce/reduce.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The dims of argument 1: a list (all when none), or one.
uint32_t bits_of(const Call& c) {
  const int rank = c.tensor(0).rank();
  if (c.arg[1].tag != Tag::Int) return dim_bits(c, 1, rank);
  const int d = wrap_dim(c.integer(1), rank);
  return rank ? 1u << d : 0;
}

int64_t depth_of(const Tensor& x, uint32_t bits) {  // elements per result
  int64_t n = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (bits >> d & 1) n *= x.size(d);
  return n;
}

// The lanes of a fold. Sums, products and means are taken in the result's kind of number: a sum of
// integers as float32 adds floats.
Lanes lanes_of(FoldOp op, DType in, Result type, DType result) {
  if (type != Result::Sum && type != Result::Mean) return fold_lanes(op, in);
  if (!is_floating(result)) return fold_lanes(op, result);
  return is_floating(in) && result != DType::Float64 ? fold_lanes(op, in) : Lanes::F64;
}

void divide_slots(Slot* s, int64_t n, double by) {
  if (n == 1) {
    s->d /= by;
    return;
  }
  double same[kRepeatedBytes / sizeof(double)];
  std::fill(std::begin(same), std::end(same), by);
  void* const p[] = {s, s, same};
  level_of::row_f64(static_cast<int>(Row::div))(p, n, 1u << 2, kOnce);
}

// Folds over those dims and puts finish(state, number of elements) where the results are.
template <class Finish>
void reduce(Call& c, FoldOp op, Result type, Finish&& finish) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  if (type == Result::Sum && out.dtype() == DType::Bool && op != FoldOp::prod) {
    op = FoldOp::count_nonzero;  // a sum as bool says whether any element is true
    type = Result::Count;
  }
  const Lanes lanes = lanes_of(op, x.dtype(), type, out.dtype());
  const uint32_t bits = bits_of(c);
  const double depth = static_cast<double>(depth_of(x, bits));
  const bool plain = type == Result::Sum || type == Result::Mean || type == Result::Element;
  const auto sink = [to = Target(out), lanes, depth, type, finish](Slot* s, int64_t, int64_t n,
                                                                   int64_t at, int64_t step) {
    if (type == Result::Mean) {
      divide_slots(s, n, depth);
    } else if (lanes == Lanes::I64) {
      for (int64_t j = 0; j < n; ++j) s[j].i = finish(s[j].i, depth);
    } else {
      for (int64_t j = 0; j < n; ++j) s[j].d = finish(s[j].d, depth);
    }
    store_slots(to, lanes, s, n, at, step);
  };
  const bool as_it_is = std::string_view(fold_rows[static_cast<int>(op)].value) == "x";
  const bool truth = type == Result::Truth && out.dtype() == DType::Bool;
  if (depth == 1 && ((plain && as_it_is) || truth))  // copies
    return copy_raw(alias(out, x.shape(), row_major(x.shape()), out->offset), x);
  const Straight straight{out.data(), out.dtype(), type == Result::Mean ? depth : 1};
  fold_or_hold(c, x, bits, op, lanes, sink, plain ? &straight : nullptr);
}

// Of one element each: copies, and everybody is the first.
bool single(Call& c, const Tensor& x, int values, int positions) {
  const Tensor& out = c.out[positions];
  if (x.numel() != out.numel() || x.numel() == 0) return false;
  const Tensor p = packed(x);
  if (values >= 0)
    copy_raw(c.out[values], alias(p, out.shape(), row_major(out.shape()), p->offset));
  copy_raw(out, number_tensor(int64_t{1}));
  return true;
}

void extreme_with_index(Call& c, FoldOp op) {
  const Tensor& x = c.tensor(0);
  if (single(c, x, 0, 1)) return;
  const Lanes lanes = fold_lanes(op, x.dtype());
  const uint32_t bits = bits_of(c);
  auto sink = [&](Slot* s, int64_t cap, int64_t n, int64_t at, int64_t step) {
    store_slots(c.out[0], lanes, s, n, at, step);
    for (int64_t j = 0; j < n; ++j) ++s[cap + j].i;
    store_slots(c.out[1], Lanes::I64, s + cap, n, at, step);
  };
  fold(x, bits, op, lanes, sink);
}

void position_of_extreme(Call& c, FoldOp op) {
  Tensor x = c.tensor(0);
  if (single(c, x, -1, 0)) return;
  uint32_t bits = (1u << x.rank()) - 1;
  if (c.has(1))
    bits = bits_of(c);
  else
    x = packed(x);
  auto sink = [&](Slot* s, int64_t cap, int64_t n, int64_t at, int64_t step) {
    for (int64_t j = 0; j < n; ++j) ++s[cap + j].i;
    store_slots(c.out[0], Lanes::I64, s + cap, n, at, step);
  };
  fold(x, bits, op, fold_lanes(op, x.dtype()), sink);
}

}  // namespace

// The rows of reduce.def.
#define REDUCTION(name, lanes, value, combine, finish, type, ...)                           \
  void name(Call& c) {                                                                      \
    reduce(c, FoldOp::name, Result::type,                                                   \
           []<class S>(S s, [[maybe_unused]] double n) { return static_cast<S>(finish); }); \
  }
#include "engine/ops/reduce/reduce.def"

void max_with_index(Call& c) { extreme_with_index(c, FoldOp::ArgMax); }
void min_with_index(Call& c) { extreme_with_index(c, FoldOp::ArgMin); }
void argmax(Call& c) { position_of_extreme(c, FoldOp::ArgMax); }
void argmin(Call& c) { position_of_extreme(c, FoldOp::ArgMin); }

// Both extremes of everything: each part is folded twice while it lies in the cache.
void aminmax(Call& c) {
  constexpr int64_t kPart = 8192;
  const Tensor& x = c.tensor(0);
  const Lanes lanes = fold_lanes(FoldOp::amax, x.dtype());
  const int64_t n = x.numel(), parts = (n + kPart - 1) / kPart;
  const bool whole = c.out[0].numel() == 1 && n > kPart && x.contiguous();
  const Fold* fold[] = {find_fold(shared_fold(FoldOp::amin), lanes),
                        find_fold(shared_fold(FoldOp::amax), lanes)};
  if (!whole || x.dtype() != lane_type_of(lanes)) return c.op->run(c);
  std::vector<Slot> state(static_cast<size_t>(2 * parts));
  const int64_t bytes = dtype_size(x.dtype());
  parallel_for(parts, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int k = 0; k < 2; ++k) {
        Slot* const s = state.data() + k * parts + i;
        fold[k]->init(s, 1, 1);
        fold[k]->run(x.data() + i * kPart * bytes, std::min(kPart, n - i * kPart), 0, s, 1);
      }
  });
  for (int k = 0; k < 2; ++k) {
    Slot* const s = state.data() + k * parts;
    for (int64_t i = 1; i < parts; ++i) fold[k]->merge(s, 1, s + i, 1, 1);
    store_slots(Target(c.out[k]), lanes, s, 1, 0, 1);
  }
}

void take_roots(Slot* s, int64_t n) {
  void* const p[] = {s, s};
  level_of::row_f64(static_cast<int>(Row::sqrt))(p, n, 0, kOnce);
}

// Results: the variance (or its root), and the mean where a second result is made.
template <bool root>
void moments(Call& c) {
  const Tensor& x = c.tensor(0);
  const Value& dims = c.arg[1];
  const double correction = correction_of(c);
  uint32_t bits = (1u << x.rank()) - 1;
  if (dims.tag != Tag::None && dims.n > 0) {
    bits = 0;
    for (uint32_t k = 0; k < dims.n; ++k)
      if (x.rank()) bits |= 1u << wrap_dim(dims.ints[k], x.rank());
  }
  const bool with_mean = c.out.size() > 1;
  const auto sink = [to = Target(c.out[0]), mean = Target(c.out[with_mean]), with_mean, correction](
                        Slot* s, int64_t cap, int64_t n, int64_t at, int64_t step) {
    if (with_mean) {
      for (int64_t j = 0; j < n; ++j)
        if (s[j].d == 0) s[cap + j].d = std::nan("");
      store_slots(mean, Lanes::F64, s + cap, n, at, step);
    }
    for (int64_t j = 0; j < n; ++j) {
      const double freedom = s[j].d - correction;
      s[j].d = s[2 * cap + j].d / (freedom > 0 ? freedom : 0);
    }
    if (root) take_roots(s, n);
    store_slots(to, Lanes::F64, s, n, at, step);
  };
  fold_or_hold(c, x, bits, FoldOp::Moments, fold_lanes(FoldOp::Moments, x.dtype()), sink);
}

void vector_norm(Call& c) {
  Tensor x = c.tensor(0);
  const uint32_t bits = dim_bits(c, 2, x.rank());
  int64_t depth = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (bits >> d & 1) depth *= x.size(d);
  double p = c.number(1);
  if (depth == 1 && p != 0 && c.out[0].dtype() == x.dtype()) {  // every norm of one number
    const Value one(x);
    const Tensor out = alias(c.out[0], x.shape(), row_major(x.shape()), c.out[0]->offset);
    return run_row(static_cast<int>(Row::abs), x.dtype(), &one, 1, out.get());
  }
  const DType wide = c.out[0].dtype() == DType::Float64 ? DType::Float64 : x.dtype();
  if (wide != x.dtype()) {
    Tensor y = empty(x.shape(), wide, x.device());
    copy_raw(y, x);
    x = y;
  }
  FoldOp op = FoldOp::sum;
  Lanes lanes = fold_lanes(op, x.dtype());
  if (p == 0) {
    op = FoldOp::count_nonzero;
  } else if (p == 1) {
    op = FoldOp::SumAbs;
  } else if (p == 2) {
    op = FoldOp::SumSquare;
  } else if (std::isinf(p)) {
    op = p > 0 ? FoldOp::MaxAbs : FoldOp::MinAbs;
  } else {  // |x|^p in float64, where float32 would lose large and small elements
    Tensor y = empty(x.shape(), DType::Float64, x.device());
    copy_raw(y, x);
    double* v = y.data<double>();
    parallel_for(y.numel(), 4096, [&](int64_t begin, int64_t end) {
      if (p == 3)
        for (int64_t i = begin; i < end; ++i) v[i] = std::fabs(v[i]) * v[i] * v[i];
      else if (p == 4)
        for (int64_t i = begin; i < end; ++i) v[i] = v[i] * v[i] * (v[i] * v[i]);
      else
        for (int64_t i = begin; i < end; ++i) v[i] = std::pow(std::fabs(v[i]), p);
    });
    x = y;
    lanes = Lanes::F64;
  }
  const auto sink = [to = Target(c.out[0]), lanes, op, p](Slot* s, int64_t, int64_t n, int64_t at,
                                                          int64_t step) {
    if (p == 2) take_roots(s, n);
    for (int64_t j = 0; op == FoldOp::sum && j < n; ++j) s[j].d = std::pow(s[j].d, 1 / p);
    store_slots(to, lanes, s, n, at, step);
  };
  fold_or_hold(c, x, bits, op, lanes, sink);
}

BIND_KERNEL(Cpu, "var", moments<false>);
BIND_KERNEL(Cpu, "std", moments<true>);
BIND_KERNEL(Cpu, "var_mean", moments<false>);
BIND_KERNEL(Cpu, "std_mean", moments<true>);
BIND_KERNEL(Cpu, "aminmax", aminmax);
BIND_KERNEL(Cpu, "max", amax);
BIND_KERNEL(Cpu, "min", amin);
BIND_KERNEL(Cpu, "max.dim", max_with_index);
BIND_KERNEL(Cpu, "min.dim", min_with_index);
BIND_KERNEL(Cpu, "argmax", argmax);
BIND_KERNEL(Cpu, "argmin", argmin);
BIND_KERNEL(Cpu, "vector_norm", vector_norm);
BIND_KERNEL(Cpu, "distance", vector_norm);

namespace rows {  // whose lines are reduce.def's
#define REDUCTION(name, ...) BIND_KERNEL(Cpu, #name, cpu::name);
#include "engine/ops/reduce/reduce.def"
}  // namespace rows

}  // namespace tycho::cpu
