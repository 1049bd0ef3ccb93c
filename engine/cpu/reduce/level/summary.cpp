// One tile of the pass that cpu/reduce/summary.h describes.
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/lanes/vec.h"
#include "engine/cpu/reduce/summary_tile.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
constexpr T kHuge = sizeof(T) == 4 ? static_cast<T>(3.40282346638528859812e+38)
                                   : static_cast<T>(1.79769313486231570815e+308);

TYCHO_INLINE bool is_finite(double x) { return __builtin_fabs(x) <= kHuge<double>; }

// Sign, exponent and the first bit of the fraction.
TYCHO_INLINE int far_key(double x) {
  return static_cast<int>(__builtin_bit_cast(uint64_t, x) >> 51);
}

// Elements that lanes cannot count: what is not finite, and what is outside the plan's range. The
// histogram took them for the nearest bin.
template <class T>
__attribute__((noinline)) void rare(const T* x, int64_t n, const SummaryPlan& plan,
                                    SummaryPart* part) {
  if (!part->any_far) {
    part->any_far = true;
    memset(part->far, 0, sizeof part->far);
  }
  const T low = static_cast<T>(plan.low), high = static_cast<T>(plan.high);
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    if (v >= low && v <= high) continue;
    if (v != v) {
      ++part->nan;
      --part->bins[i % kTables][1];
    } else {
      --part->bins[i % kTables][v > high ? kFineBins : 1];
      if (is_finite(v))
        ++part->far[far_key(v)];
      else
        ++(v > 0 ? part->plus : part->minus);
    }
  }
}

// Sums of a tile whose sums in lanes ran over: elements far beyond the sampled ones.
template <class T>
__attribute__((noinline)) void sum_slowly(const T* x, int64_t n, const SummaryPlan& plan,
                                          double* sum, double* squares) {
  *sum = *squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_finite(x[i])) continue;
    const double d = (static_cast<double>(x[i]) - plan.center) * plan.unit;
    *sum += d;
    *squares += d * d;
  }
}

template <class T>
TYCHO_INLINE double total(Lane<T> x) {
  T v[Lane<T>::size];
  x.store(v);
  double s = 0;
  for (int k = 0; k < Lane<T>::size; ++k) s += static_cast<double>(v[k]);
  return s;
}

template <class T>
TYCHO_INLINE void tile(const T* x, int64_t n, const SummaryPlan& plan, SummaryPart* part) {
  using L = Lane<T>;
  using Ints = typename Raw<T>::Ints;
  alignas(64) typename Raw<T>::Int place[kSummaryTile + L::size];
  const L huge(kHuge<T>), unit(static_cast<T>(plan.unit));
  const L shift(static_cast<T>(-plan.center * plan.unit));
  const L scale(static_cast<T>(plan.scale)), start(static_cast<T>(1 - plan.low * plan.scale));
  const L first(1), last(static_cast<T>(kFineBins + 0.5));
  L sum(0), squares(0), zeros(0), numbers(0), low(kHuge<T>), high(-kHuge<T>);
  alignas(64) T end[L::size];
  for (int64_t i = 0; i < n; i += L::size) {
    L v;
    Mask<T> finite;
    if (i + L::size <= n) {
      v = L::load(x + i);
      finite = (v <= huge) & (v >= -huge);
    } else {  // the rest is filled up with nan, which nothing counts
      for (int k = 0; k < L::size; ++k)
        end[k] = i + k < n ? x[i + k] : static_cast<T>(__builtin_nan(""));
      v = L::load(end);
      finite = (v <= huge) & (v >= -huge);
    }
    const L d = select(finite, fma(v, unit, shift), L(0));
    sum += d;
    squares = fma(d, d, squares);
    zeros += number(v == L(0));
    numbers += number(finite);
    const L less = select(finite, v, huge), more = select(finite, v, -huge);
    low = select(less < low, less, low);
    high = select(more > high, more, high);
    L t = fma(v, scale, start);
    t = select(t > first, t, first);  // also nan
    t = select(t < last, t, last);
    const Ints bin = __builtin_convertvector(t.v, Ints);
    memcpy(place + i, &bin, sizeof bin);
  }
  // Neighbours go to different tables: an increment need not wait for the one before.
  int64_t i = 0;
  for (; i + kTables <= n; i += kTables)
    for (int k = 0; k < kTables; ++k) ++part->bins[k][place[i + k]];
  for (; i < n; ++i) ++part->bins[i % kTables][place[i]];

  T lows[L::size], highs[L::size];
  low.store(lows);
  high.store(highs);
  T least = lows[0], most = highs[0];
  for (int k = 1; k < L::size; ++k) {
    if (lows[k] < least) least = lows[k];
    if (highs[k] > most) most = highs[k];
  }
  const int64_t count = static_cast<int64_t>(total(numbers));
  double tile_sum = total(sum), tile_squares = total(squares);
  if (!is_finite(tile_sum) || !is_finite(tile_squares))
    sum_slowly(x, n, plan, &tile_sum, &tile_squares);
  part->sum += tile_sum;
  part->squares += tile_squares;
  part->zero += static_cast<int64_t>(total(zeros));
  part->numbers += count;
  if (count > 0) {
    if (least < part->min) part->min = least;
    if (most > part->max) part->max = most;
  }
  if (count < n || least < static_cast<T>(plan.low) || most > static_cast<T>(plan.high))
    rare(x, n, plan, part);
}

void integers(const int64_t* x, int64_t n, const SummaryPlan& plan, SummaryPart* part) {
  double y[kSummaryTile];
  int64_t least = part->least, most = part->most;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<double>(x[i]);
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  part->least = least;
  part->most = most;
  tile(y, n, plan, part);
}

}  // namespace

void summarize_tile(int lanes, const void* x, int64_t n, const SummaryPlan* plan,
                    SummaryPart* part) {
  switch (static_cast<Lanes>(lanes)) {
    case Lanes::F32:
      return tile(static_cast<const float*>(x), n, *plan, part);
    case Lanes::F64:
      return tile(static_cast<const double*>(x), n, *plan, part);
    default:
      return integers(static_cast<const int64_t*>(x), n, *plan, part);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
