// Running sums, products, logarithms of sums of exponentials, and extremes with their positions. What
// came before meets what follows in an order that the shape alone decides, so every run has the same
// bits.
#include "engine/cuda/kernels/extreme.cuh"
#include "engine/cuda/kernels/scan.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

enum class Running { Sum, Product, LogSumExp };

template <class L>
struct Wide {
  using Type = double;
};
template <>
struct Wide<int64_t> {
  using Type = int64_t;
};

template <class T>
__device__ inline T from_above(T x, int by) {
  return __shfl_up_sync(0xffffffffu, x, by);
}

// `meet` takes what came before first.
template <Running what, class L>
struct Numbers {
  using Lane = L;
  using State = typename Wide<L>::Type;
  __device__ static State start() {
    if constexpr (what == Running::LogSumExp) return -static_cast<State>(__builtin_huge_val());
    return what == Running::Product ? State(1) : State(0);
  }
  __device__ static State of(L x, int64_t) { return static_cast<State>(x); }
  __device__ static State meet(State a, State b) {
    if constexpr (what == Running::LogSumExp) {
      const State top = a > b ? a : b, low = a > b ? b : a;
      if (a != a || b != b) return a + b;
      if (top - top != State(0) || low - low != State(0)) return top;  // infinite
      return top + log1p(exp(low - top));
    } else if constexpr (same_type<State, int64_t>) {
      return static_cast<State>(what == Running::Product ? uint64_t(a) * uint64_t(b)
                                                         : uint64_t(a) + uint64_t(b));
    } else {
      return what == Running::Product ? a * b : a + b;
    }
  }
  __device__ static State above(State s, int by) { return from_above(s, by); }
  __device__ static void leave(const Scan& s, int64_t at, State x) {
    store<State>(s.out, s.out_dtype, at, x);
  }
};

// Of equal elements, and of nans, the last.
template <bool largest, class L>
struct Extreme {
  using Lane = L;
  using State = Placed<L>;
  __device__ static State start() { return {L(0), -1}; }
  __device__ static State of(L x, int64_t i) { return {x, i}; }
  __device__ static State meet(State a, State b) { return more_extreme<largest>(a, b) > 0 ? a : b; }
  __device__ static State above(State s, int by) {
    return {from_above(s.value, by), from_above(s.at, by)};
  }
  __device__ static void leave(const Scan& s, int64_t at, State x) {
    store<L>(s.out, s.out_dtype, at, x.value);
    s.positions[at] = x.at + 1;
  }
};

template <class P>
struct Row {
  using S = typename P::State;
  const Scan& s;
  int64_t base;
  __device__ Row(const Scan& scan, int64_t k)
      : s(scan), base(k / scan.inner * scan.n * scan.inner + k % scan.inner) {}
  // Element i in the order of the scan.
  __device__ int64_t place(int64_t i) const {
    return base + (s.reverse ? s.n - 1 - i : i) * s.inner;
  }
  __device__ S load_at(int64_t i) const {
    return P::of(load<typename P::Lane>(s.in, s.in_dtype, place(i)), i);
  }
};

template <class P>
__device__ inline void by_thread(const Scan& s) {
  using S = typename P::State;
  const int64_t k = first_element(), part = blockIdx.y;
  if (k >= s.rows) return;
  S* const partial = static_cast<S*>(s.partial);
  if (s.pass == ScanPass::Carries) {
    S carry = P::start();
    for (int64_t p = 0; p < s.parts; ++p) {
      const S total = partial[p * s.rows + k];
      partial[p * s.rows + k] = carry;
      carry = P::meet(carry, total);
    }
    return;
  }
  const Row<P> row(s, k);
  const bool writes = s.pass == ScanPass::Results;
  S carry = writes && partial ? partial[part * s.rows + k] : P::start();
  const int64_t end = (part + 1) * s.part < s.n ? (part + 1) * s.part : s.n;
  for (int64_t i = part * s.part; i < end; ++i) {
    carry = P::meet(carry, row.load_at(i));
    if (writes) P::leave(s, row.place(i), carry);
  }
  if (!writes) partial[part * s.rows + k] = carry;
}

// Tiles of 8 lines of 256 elements, one after the other. A tile's lines are on their way together, and so
// are the steps inside of their warps; then the first warp says what comes before each of the 64 warps.
template <class P>
__device__ inline void by_block(const Scan& s) {
  using S = typename P::State;
  constexpr int kLines = 8, kWarps = 8;
  TYCHO_SHARED(S, totals, kLines * kWarps + 1);
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const int64_t k = blockIdx.x, part = blockIdx.y;
  S* const partial = static_cast<S*>(s.partial);
  const Row<P> row(s, k);
  const bool writes = s.pass == ScanPass::Results;
  S carry = writes && partial ? partial[part * s.rows + k] : P::start();
  const int64_t end = (part + 1) * s.part < s.n ? (part + 1) * s.part : s.n;
  for (int64_t tile = part * s.part; tile < end; tile += kLines * 256) {
    S x[kLines];
    TYCHO_UNROLLED
    for (int e = 0; e < kLines; ++e) {
      const int64_t i = tile + e * 256 + t;
      x[e] = i < end ? row.load_at(i) : P::start();
    }
    TYCHO_UNROLLED
    for (int by = 1; by < 32; by <<= 1) {
      TYCHO_UNROLLED
      for (int e = 0; e < kLines; ++e) {
        const S before = P::above(x[e], by);
        if (lane >= by) x[e] = P::meet(before, x[e]);
      }
    }
    TYCHO_UNROLLED
    for (int e = 0; e < kLines; ++e)
      if (lane == 31) totals[e * kWarps + warp] = x[e];
    __syncthreads();
    if (warp == 0) {
      const S first = S(totals[2 * lane]);
      S both = P::meet(first, S(totals[2 * lane + 1]));
      for (int by = 1; by < 32; by <<= 1) {
        const S before = P::above(both, by);
        if (lane >= by) both = P::meet(before, both);
      }
      S before = P::above(both, 1);
      before = lane ? P::meet(carry, before) : carry;
      totals[2 * lane] = before;
      totals[2 * lane + 1] = P::meet(before, first);
      if (lane == 31) totals[kLines * kWarps] = P::meet(carry, both);
    }
    __syncthreads();
    TYCHO_UNROLLED
    for (int e = 0; e < kLines; ++e) {
      const int64_t i = tile + e * 256 + t;
      if (writes && i < end) P::leave(s, row.place(i), P::meet(S(totals[e * kWarps + warp]), x[e]));
    }
    carry = S(totals[kLines * kWarps]);
    __syncthreads();
  }
  if (!writes && t == 0) partial[part * s.rows + k] = carry;
}

template <class P>
__device__ inline void scan(const Scan& s) {
  if (s.by_block)
    by_block<P>(s);
  else
    by_thread<P>(s);
}

}  // namespace

#define KERNEL(name, ...)                                                  \
  extern "C" __global__ void scan_##name(Scan s) { scan<__VA_ARGS__>(s); } \
  TYCHO_KERNEL(scan_##name)
#define NUMBERS(name, what)                          \
  KERNEL(name##_f32, Numbers<Running::what, float>)  \
  KERNEL(name##_f64, Numbers<Running::what, double>) \
  KERNEL(name##_i64, Numbers<Running::what, int64_t>)
#define EXTREMES(name, largest)                \
  KERNEL(name##_f32, Extreme<largest, float>)  \
  KERNEL(name##_f64, Extreme<largest, double>) \
  KERNEL(name##_i64, Extreme<largest, int64_t>)
NUMBERS(sum, Sum)
NUMBERS(prod, Product)
KERNEL(logsumexp_f32, Numbers<Running::LogSumExp, float>)
KERNEL(logsumexp_f64, Numbers<Running::LogSumExp, double>)
EXTREMES(max, true)
EXTREMES(min, false)
