// The passes over a tensor that cpu/reduce/summary.h describes: a sample, and tiles on all threads.
#include "engine/cpu/reduce/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/reduce/summary_tile.h"
#include "engine/cpu/walk.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kSample = 128, kUnit = int64_t{1} << 18;
// Elements that are measured at once: more would be sums of too many floats.
constexpr int64_t kMeasured = 4096;

// The elements in the order of memory; what expand repeats is visited once and counts `times`.
struct Order {
  Walk walk;
  int64_t times = 1;
};

Order order_of(const Impl* t) {
  Order o;
  int64_t size[kMaxDims], stride[kMaxDims];
  int n = 0;
  for (int d = 0; d < t->rank; ++d) {
    if (t->shape[d] == 1) continue;
    if (t->stride[d] == 0) {
      o.times *= t->shape[d];
      continue;
    }
    int k = n++;
    for (; k > 0 && std::abs(stride[k - 1]) < std::abs(t->stride[d]); --k)
      size[k] = size[k - 1], stride[k] = stride[k - 1];
    size[k] = t->shape[d], stride[k] = t->stride[d];
  }
  Walk& w = o.walk;
  w.count = 1;
  for (int d = 0; d < n; ++d) {
    w.numel *= size[d];
    if (w.rank > 0 && w.stride[0][w.rank - 1] == stride[d] * size[d])
      w.size[w.rank - 1] *= size[d];
    else
      w.size[w.rank++] = size[d];
    w.stride[0][w.rank - 1] = stride[d];
  }
  if (w.rank == 0) {
    w.rank = 1;
    w.size[0] = w.numel;
    w.stride[0][0] = 1;
  }
  return o;
}

// The power of two that brings a number of this size near 1.
double unit_for(double size) {
  return size > 0 ? std::ldexp(1, std::clamp(-std::ilogb(size), -1000, 1000)) : 1;
}

// From elements at scattered places (multiples of the golden ratio), or all of a small tensor.
SummaryPlan make_plan(const Impl* t, const Walk& w) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t count = 0;
  const int64_t n = std::min(w.numel, kSample);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at =
        n == w.numel ? i
                     : static_cast<int64_t>((static_cast<unsigned __int128>(
                                                 static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull) *
                                             static_cast<uint64_t>(w.numel)) >>
                                            64);
    int64_t place = at * w.stride[0][0];
    if (w.rank > 1)
      each_run(w, at, at + 1, [&](const int64_t* offset, int64_t) { place = offset[0]; });
    const double x = number_of(t->dtype, t->data() + place * dtype_size(t->dtype));
    if (!std::isfinite(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x / static_cast<double>(n);
    ++count;
  }
  if (count == 0) return {0, 1};
  const double half = high / 2 - low / 2,
               center = sum * (static_cast<double>(n) / static_cast<double>(count));
  return {std::clamp(center, low, high),
          unit_for(half > 0 ? half : std::max(std::abs(low), std::abs(high)))};
}

// float32 lanes hold all elements but those of float64 and long integers, where these numbers do.
bool has_floats(DType t) { return t != DType::Float64 && (is_floating(t) || dtype_size(t) < 4); }
bool fits_float(double size, double unit) { return size < 1e30 && unit < 1e30 && unit > 1e-30; }

SummaryPart nothing() {
  return {0,
          0,
          0,
          0,
          0,
          INFINITY,
          -INFINITY,
          std::numeric_limits<int64_t>::max(),
          std::numeric_limits<int64_t>::min(),
          0,
          0};
}

void add(SummaryPart* to, const SummaryPart& from) {
  to->nan += from.nan;
  to->plus += from.plus;
  to->minus += from.minus;
  to->zero += from.zero;
  to->numbers += from.numbers;
  to->min = std::min(to->min, from.min);
  to->max = std::max(to->max, from.max);
  to->least = std::min(to->least, from.least);
  to->most = std::max(to->most, from.most);
  to->sum += from.sum;
  to->squares += from.squares;
}

// f(tile, n) of the elements from begin to end as lanes; of elements that lie as lanes do, up to `most` at a time.
template <class F>
void each_tile(const Impl* t, const Walk& w, Lanes lanes, int64_t begin, int64_t end, int64_t most,
               const F& f) {
  const int64_t step = w.stride[0][w.rank - 1], size = dtype_size(t->dtype),
                lane = dtype_size(lane_type_of(lanes));
  const bool direct = t->dtype == lane_type_of(lanes) && step == 1;
  if (lanes == Lanes::I64) most = kSummaryTile;
  alignas(64) char tile[kSummaryTile * 8];
  int64_t filled = 0;
  each_run(w, begin, end, [&](const int64_t* offset, int64_t n) {
    const char* x = t->data() + offset[0] * size;
    for (int64_t m; n > 0; n -= m, x += m * step * size) {
      if (direct && n >= kSummaryTile / 4) {
        m = std::min(n, most);
        f(static_cast<const void*>(x), m);
        continue;
      }
      // Short runs and other types are gathered in a tile first.
      m = std::min<int64_t>(n, kSummaryTile - filled);
      level_of::load_tile(static_cast<int>(lanes), static_cast<int>(t->dtype),
                          static_cast<void*>(tile + filled * lane), static_cast<const void*>(x),
                          step, m);
      filled += m;
      if (filled == kSummaryTile) f(static_cast<const void*>(tile), filled), filled = 0;
    }
  });
  if (filled > 0) f(static_cast<const void*>(tile), filled);
}

// Sums are added in the order of memory, whatever the threads.
SummaryPart measure(const Impl* t, const Walk& w, SummaryPlan plan) {
  Lanes lanes = t->dtype == DType::Int64 ? Lanes::I64 : Lanes::F64;
  if (has_floats(t->dtype) && fits_float(std::abs(plan.center), plan.unit)) {
    lanes = Lanes::F32;
    plan.center = static_cast<double>(static_cast<float>(plan.center));
  }
  std::vector<SummaryPart> parts((w.numel + kUnit - 1) / kUnit, nothing());
  parallel_for(w.numel, kUnit, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kUnit) {
      SummaryPart part = nothing();
      each_tile(t, w, lanes, begin, std::min(end, begin + kUnit), kMeasured,
                [&](const void* x, int64_t n) {
                  level_of::measure_tile(static_cast<int>(lanes), x, n, &plan, &part);
                });
      parts[static_cast<size_t>(begin / kUnit)] = part;
    }
  });
  SummaryPart all = nothing();
  for (const SummaryPart& part : parts) add(&all, part);
  return all;
}

void count(const Impl* t, const Order& order, Summary* s) {
  const Walk& w = order.walk;
  const double half = s->max / 2 - s->min / 2;
  if (!(half > 0)) {
    s->bins[0] = s->finite;
    return;
  }
  SummaryRange range{s->min, unit_for(half) / 2, 0, s->finite == t->numel};
  range.scale = kSummaryBins / (s->max * range.unit - s->min * range.unit);
  Lanes lanes = t->dtype == DType::Int64 ? Lanes::I64 : Lanes::F64;
  if (has_floats(t->dtype) && fits_float(std::max(-s->min, s->max), range.unit)) lanes = Lanes::F32;
  std::mutex mutex;
  parallel_for(w.numel, kUnit, [&](int64_t begin, int64_t end) {
    int64_t bins[kSummaryBins] = {};
    each_tile(t, w, lanes, begin, end, kUnit, [&](const void* x, int64_t n) {
      level_of::count_tile(static_cast<int>(lanes), x, n, &range, bins);
    });
    const std::lock_guard lock(mutex);
    for (int k = 0; k < kSummaryBins; ++k) s->bins[k] += bins[k] * order.times;
  });
}

}  // namespace

Summary summarize(const Impl* t) {
  Summary s;
  if (t->numel == 0) return s;
  const Order order = order_of(t);
  const Walk& w = order.walk;
  SummaryPlan plan = make_plan(t, w);
  SummaryPart all = measure(t, w, plan);
  double n = static_cast<double>(all.numbers), mean = all.sum / n;
  // A sample that told nothing of the rest: rare elements among equal ones, or a far center.
  const double variance = all.squares / n - mean * mean, half = all.max / 2 - all.min / 2;
  if (half > 0 && !(variance > 1e-3 * mean * mean && half * plan.unit < 1e6)) {
    plan = {std::clamp(plan.center + mean / plan.unit, all.min, all.max), unit_for(half)};
    all = measure(t, w, plan);
    mean = all.sum / n;
  }
  s.nan = all.nan * order.times;
  s.plus = all.plus * order.times;
  s.minus = all.minus * order.times;
  s.zero = all.zero * order.times;
  s.finite = all.numbers * order.times;
  if (s.finite == 0) return s;
  s.min = all.min;
  s.max = all.max;
  const bool whole = t->dtype != DType::Int64;
  s.least = whole && !is_floating(t->dtype) ? static_cast<int64_t>(s.min) : all.least;
  s.most = whole && !is_floating(t->dtype) ? static_cast<int64_t>(s.max) : all.most;
  s.mean = plan.center + mean / plan.unit;
  // As torch.std of all elements, the repeated ones included.
  const double times = static_cast<double>(order.times);
  if (s.finite > 1)
    s.spread = std::sqrt(std::max(0.0, (all.squares - all.sum * mean) * times / (n * times - 1))) /
               plan.unit;
  count(t, order, &s);
  return s;
}

}  // namespace tycho::cpu
