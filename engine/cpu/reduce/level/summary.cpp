// One tile of the passes that cpu/reduce/summary.h describes.
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/reduce/summary_tile.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
constexpr T kHuge = sizeof(T) == 4 ? static_cast<T>(3.40282346638528859812e+38)
                                   : static_cast<T>(1.79769313486231570815e+308);

TYCHO_INLINE bool is_finite(double x) { return __builtin_fabs(x) <= kHuge<double>; }

// A tile of which some elements are not finite, or whose sums in lanes ran over: elements far beyond
// the sampled ones.
template <class T>
__attribute__((noinline)) void measure_slowly(const T* x, int64_t n, const SummaryPlan& plan,
                                              SummaryPart* part) {
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    if (v != v) {
      ++part->nan;
    } else if (!is_finite(v)) {
      ++(v > 0 ? part->plus : part->minus);
    } else {
      ++part->numbers;
      part->zero += v == 0;
      if (v < part->min) part->min = v;
      if (v > part->max) part->max = v;
      const double d = (v - plan.center) * plan.unit;
      part->sum += d;
      part->squares += d * d;
    }
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

// As if all were finite: sums tell whether they are.
template <class T>
TYCHO_INLINE void measure(const T* x, int64_t n, const SummaryPlan& plan, SummaryPart* part) {
  using L = Lane<T>;
  using Words = typename Raw<T>::Bits;
  const L unit(static_cast<T>(plan.unit)), shift(static_cast<T>(-plan.center * plan.unit));
  // Two of each: a sum waits for the one before it.
  L sum[2] = {L(0), L(0)}, squares[2] = {L(0), L(0)};
  Words zeros[2] = {};
  L low(kHuge<T>), high(-kHuge<T>);
  const auto add = [&](int64_t at, int k) __attribute__((always_inline)) {
    const L v = L::load(x + at), d = fma(v, unit, shift);
    sum[k] += d;
    squares[k] = fma(d, d, squares[k]);
    Words w;
    memcpy(&w, &v.v, sizeof w);
    zeros[k] -=
        reinterpret_cast<Words>(w + w == 0);  // but for its sign: integers wait for nothing here
    low = second_min(v, low);
    high = second_max(v, high);
  };
  int64_t i = 0;
  for (; i + 2 * L::size <= n; i += 2 * L::size) add(i, 0), add(i + L::size, 1);
  if (i + L::size <= n) add(i, 0), i += L::size;
  double rest_sum = 0, rest_squares = 0;
  int64_t rest_zeros = 0;
  for (; i < n; ++i) {
    const double v = static_cast<double>(x[i]), d = (v - plan.center) * plan.unit;
    rest_sum += d;
    rest_squares += d * d;
    rest_zeros += v == 0;
    low = select(L(x[i]) < low, L(x[i]), low);
    high = select(L(x[i]) > high, L(x[i]), high);
  }
  const double tile_sum = total(sum[0] + sum[1]) + rest_sum,
               tile_squares = total(squares[0] + squares[1]) + rest_squares;
  if (!is_finite(tile_sum) || !is_finite(tile_squares)) return measure_slowly(x, n, plan, part);
  T lows[L::size], highs[L::size];
  low.store(lows);
  high.store(highs);
  for (int k = 0; k < L::size; ++k) {
    if (lows[k] < part->min) part->min = lows[k];
    if (highs[k] > part->max) part->max = highs[k];
  }
  part->sum += tile_sum;
  part->squares += tile_squares;
  part->zero += rest_zeros;
  for (int k = 0; k < L::size; ++k) part->zero += static_cast<int64_t>(zeros[0][k] + zeros[1][k]);
  part->numbers += n;
}

typedef uint8_t BinBytes __attribute__((vector_size(TYCHO_LANE_BYTES)));

// The number of each element's bin as a byte, of as many elements as there are bytes in a lane; kSummaryBins for what
// is not finite. Their order is no matter.
template <class T, bool all>
TYCHO_INLINE BinBytes bins_of(const T* x, const SummaryRange& range) {
  using L = Lane<T>;
  using Words = typename Raw<T>::Bits;
  const L unit(static_cast<T>(range.unit)), shift(static_cast<T>(-range.low * range.unit)),
      scale(static_cast<T>(range.scale)), last(kSummaryBins - 1), out(kSummaryBins), huge(kHuge<T>);
  Words bytes = {};
#pragma GCC unroll 8
  for (int k = 0; k < static_cast<int>(sizeof(T)); ++k) {
    const L v = L::load(x + k * L::size);
    L t = second_min(fma(v, unit, shift) * scale, last);
    if (!all) t = select((v <= huge) & (v >= -huge), t, out);
    Words w;
    if constexpr (sizeof(T) == 4) {
      w = reinterpret_cast<Words>(__builtin_convertvector(t.v, typename Raw<T>::Ints));
    } else {  // no lane of doubles becomes integers before AVX-512
      const L large = trunc(t) + L(static_cast<T>(4503599627370496.0));
      memcpy(&w, &large.v, sizeof w);
      w &= 255;
    }
    bytes = bytes << 8 | w;
  }
  return reinterpret_cast<BinBytes>(bytes);
}

// A byte counts for each bin and place in a lane, until one of them could run over.
template <class T, bool all>
TYCHO_INLINE void count(const T* x, int64_t n, const SummaryRange& range, int64_t* bins) {
  constexpr int size = sizeof(BinBytes);
  T rest[size];
  for (int64_t i = 0; i < n;) {
    BinBytes counts[kSummaryBins] = {};
    const auto add = [&](BinBytes places) __attribute__((always_inline)) {
#pragma GCC unroll 10
      for (int k = 0; k < kSummaryBins; ++k)
        counts[k] -= reinterpret_cast<BinBytes>(places == static_cast<uint8_t>(k));
    };
    const int64_t end = n - i < 254 * size ? n : i + 254 * size;
    for (; i + size <= end; i += size) add(bins_of<T, all>(x + i, range));
    if (i < end) {
      for (int k = 0; k < size; ++k)
        rest[k] = i + k < end ? x[i + k] : static_cast<T>(__builtin_nan(""));
      add(bins_of<T, false>(rest, range)), i = end;
    }
    for (int k = 0; k < kSummaryBins; ++k)
      for (int j = 0; j < size; ++j) bins[k] += counts[k][j];
  }
}

template <class T>
TYCHO_INLINE void count(const T* x, int64_t n, const SummaryRange& range, int64_t* bins) {
  if (range.all) return count<T, true>(x, n, range, bins);
  count<T, false>(x, n, range, bins);
}

void to_doubles(const int64_t* x, int64_t n, double* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<double>(x[i]);
}

}  // namespace

void measure_tile(int lanes, const void* x, int64_t n, const SummaryPlan* plan, SummaryPart* part) {
  const Lanes type = static_cast<Lanes>(lanes);
  if (type == Lanes::F32) return measure(static_cast<const float*>(x), n, *plan, part);
  if (type == Lanes::F64) return measure(static_cast<const double*>(x), n, *plan, part);
  const int64_t* const from = static_cast<const int64_t*>(x);
  double y[kSummaryTile];
  to_doubles(from, n, y);
  int64_t least = part->least, most = part->most;
  for (int64_t i = 0; i < n; ++i) {
    least = from[i] < least ? from[i] : least;
    most = from[i] > most ? from[i] : most;
  }
  part->least = least;
  part->most = most;
  measure(y, n, *plan, part);
}

void count_tile(int lanes, const void* x, int64_t n, const SummaryRange* range, int64_t* bins) {
  const Lanes type = static_cast<Lanes>(lanes);
  if (type == Lanes::F32) return count(static_cast<const float*>(x), n, *range, bins);
  if (type == Lanes::F64) return count(static_cast<const double*>(x), n, *range, bins);
  double y[kSummaryTile];
  to_doubles(static_cast<const int64_t*>(x), n, y);
  count(static_cast<const double*>(y), n, *range, bins);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
