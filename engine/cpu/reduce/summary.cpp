// The pass over a tensor that cpu/reduce/summary.h describes: sample, tiles on all threads,
// folding.
#include "engine/cpu/reduce/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/reduce/summary_tile.h"
#include "engine/cpu/walk.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kSample = 8192, kUnit = int64_t{1} << 18;

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

// Elements at scattered places (multiples of the golden ratio), or all of a small tensor.
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
  SummaryPlan p{0, 0, 0, 0, 1};
  if (count == 0) return p;
  p.low = low;
  p.high = high;
  p.center = std::clamp(sum * (static_cast<double>(n) / static_cast<double>(count)), low, high);
  const double half = high / 2 - low / 2;
  if (half > 0 && kFineBins / half < 1e300) {
    p.scale = kFineBins / half / 2;
    p.unit = std::ldexp(1, std::clamp(-std::ilogb(half), -1000, 1000));
  } else if (const double size = std::max(std::abs(low), std::abs(high)); size > 0) {
    p.unit = std::ldexp(1, std::clamp(-std::ilogb(size), -1000, 1000));
  }
  return p;
}

// float32 lanes hold the plan's numbers without running over.
bool fits_float(const SummaryPlan& p) {
  const double size = std::max(std::abs(p.low), std::abs(p.high));
  return size < 1e30 && (p.high == p.low || p.high - p.low > 1e-30) && p.unit < 1e30 &&
         p.unit > 1e-30 && size * p.scale < 1e6 * kFineBins;
}

void start(SummaryPart* part) {
  part->nan = part->plus = part->minus = part->zero = part->numbers = 0;
  part->min = INFINITY;
  part->max = -INFINITY;
  part->least = std::numeric_limits<int64_t>::max();
  part->most = std::numeric_limits<int64_t>::min();
  part->sum = part->squares = 0;
  part->any_far = false;
  std::fill_n(&part->bins[0][0], kTables * (kFineBins + 2), 0);
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
  for (int k = 0; k < kTables; ++k)
    for (int i = 0; i < kFineBins + 2; ++i) to->bins[0][i] += from.bins[k][i];
}

// Spreads `count` elements, which lie between `from` and `to`, over the bins of [min, max].
void fold(double from, double to, double count, Summary* s) {
  const double width = s->max / kSummaryBins - s->min / kSummaryBins;
  const auto bin = [&](double x) {
    return width > 0 ? std::clamp((x - s->min) / width, 0.0, double{kSummaryBins}) : 0.0;
  };
  const double a = bin(from), b = bin(to);
  const int first = std::min(static_cast<int>(a), kSummaryBins - 1);
  const int last = std::min(static_cast<int>(b), kSummaryBins - 1);
  if (!(b - a > 1e-9)) {
    s->bins[first] += count;
    return;
  }
  for (int k = first; k <= last; ++k)
    s->bins[k] += count * std::max(0.0, std::min(b, k + 1.0) - std::max(a, double(k))) / (b - a);
}

double far_value(int key) { return __builtin_bit_cast(double, static_cast<uint64_t>(key) << 51); }

}  // namespace

Summary summarize(const Impl* t) {
  Summary s;
  if (t->numel == 0) return s;
  const Order order = order_of(t);
  const Walk& w = order.walk;
  const SummaryPlan plan = make_plan(t, w);
  Lanes lanes = Lanes::I64;
  if (is_floating(t->dtype))
    lanes = t->dtype != DType::Float64 && fits_float(plan) ? Lanes::F32 : Lanes::F64;
  const bool direct = (t->dtype == DType::Float32 && lanes == Lanes::F32) ||
                      t->dtype == DType::Float64 || t->dtype == DType::Int64;
  const int64_t lane = lanes == Lanes::F32 ? 4 : 8;
  const int64_t units = (w.numel + kUnit - 1) / kUnit, size = dtype_size(t->dtype);
  std::vector<double> sums(units), squares(units);
  auto all = std::make_unique<SummaryPart>();
  std::vector<int64_t> far(kFarKeys);
  std::mutex mutex;
  start(all.get());
  const char* data = t->data();
  parallel_for(w.numel, kUnit, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<SummaryPart> part(new SummaryPart);
    alignas(64) char tile[kSummaryTile * 8];
    for (; begin < end; begin += kUnit) {
      start(part.get());
      int64_t filled = 0;
      const auto add_tile = [&](const void* x, int64_t n) {
        level_of::summarize_tile(static_cast<int>(lanes), x, n, &plan, part.get());
      };
      each_run(w, begin, std::min(end, begin + kUnit), [&](const int64_t* offset, int64_t n) {
        const int64_t step = w.stride[0][w.rank - 1];
        const char* x = data + offset[0] * size;
        for (int64_t m; n > 0; n -= m, x += m * step * size) {
          if (direct && step == 1 && n >= kSummaryTile / 4) {
            m = std::min<int64_t>(n, kSummaryTile);
            add_tile(x, m);
            continue;
          }
          // Short runs and other types are gathered in a tile first.
          m = std::min<int64_t>(n, kSummaryTile - filled);
          level_of::load_tile(static_cast<int>(lanes), static_cast<int>(t->dtype),
                              static_cast<void*>(tile + filled * lane), static_cast<const void*>(x),
                              step, m);
          filled += m;
          if (filled == kSummaryTile) add_tile(tile, filled), filled = 0;
        }
      });
      if (filled > 0) add_tile(tile, filled);
      sums[begin / kUnit] = part->sum;
      squares[begin / kUnit] = part->squares;
      const std::lock_guard lock(mutex);
      add(all.get(), *part);
      if (part->any_far)
        for (int k = 0; k < kFarKeys; ++k) far[k] += part->far[k];
    }
  });
  s.nan = all->nan * order.times;
  s.plus = all->plus * order.times;
  s.minus = all->minus * order.times;
  s.zero = all->zero * order.times;
  s.finite = all->numbers * order.times;
  if (s.finite == 0) return s;
  s.min = all->min;
  s.max = all->max;
  s.least = all->least;
  s.most = all->most;
  double sum = 0, square = 0;
  for (int64_t u = 0; u < units; ++u) sum += sums[u], square += squares[u];
  const double n = static_cast<double>(all->numbers), mean = sum / n;
  s.mean = plan.center + mean / plan.unit;
  // As torch.std of all elements, the repeated ones included.
  const double times = static_cast<double>(order.times);
  if (s.finite > 1)
    s.spread =
        std::sqrt(std::max(0.0, (square - sum * mean) * times / (n * times - 1))) / plan.unit;
  const double fine = plan.high / kFineBins - plan.low / kFineBins;
  for (int i = 1; i <= kFineBins; ++i)
    if (all->bins[0][i] > 0) {
      const double from = plan.low + (i - 1) * fine;
      fold(from, plan.scale > 0 ? from + fine : from, static_cast<double>(all->bins[0][i]), &s);
    }
  for (int k = 0; k < kFarKeys; ++k)
    if (far[k] > 0) {
      double a = far_value(k), b = far_value(k + 1);
      if (k >= kFarKeys / 2) std::swap(a, b);
      // One of them may be the extreme itself, which has its own bin.
      double count = static_cast<double>(far[k]);
      for (const double end : {s.min, s.max})
        if (count > 0 && end >= a && end <= b) fold(end, end, 1, &s), --count;
      if (count > 0) fold(std::max(a, s.min), std::min(b, s.max), count, &s);
    }
  return s;
}

}  // namespace tycho::cpu
