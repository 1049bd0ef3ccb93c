// Reductions: the rows of ops/reduce/reduce.def for every kind of lanes. Floats are added one after
// the other for at most 128 steps and then in double, as on the CPU; values of threads meet in a
// tree, without atomics, so the same input gives the same bits.
#include "engine/cuda/kernels/elements.cuh"
#include "engine/cuda/kernels/extreme.cuh"
#include "engine/cuda/kernels/moments.cuh"
#include "engine/cuda/kernels/reduce.cuh"

using namespace tycho::cuda;

namespace {

enum class Combine { Sum, WideSum, Count, Product, Largest, Smallest };

template <class T>
__device__ inline T select(bool which, T a, T b) {
  return which ? a : b;
}
template <class T>
__device__ inline T abs(T x) {
  return x < T(0) ? -x : x;
}

// A row: what an element counts as, and how values meet.
#define FOLD(name, lanes, expression, how)                                   \
  struct Fold_##name {                                                       \
    static constexpr Combine combine = Combine::how;                         \
    template <class L>                                                       \
    __device__ static L value(L x) {                                         \
      [[maybe_unused]] auto number = [](bool b) { return b ? L(1) : L(0); }; \
      return expression;                                                     \
    }                                                                        \
  };
#include "engine/ops/reduce/reduce.def"

// What values are folded in: int64 or double.
template <Combine c, class L>
struct StateOf {
  using Type = double;
};
template <class L>
struct StateOf<Combine::Count, L> {
  using Type = int64_t;
};
template <Combine c>
struct StateOf<c, int64_t> {
  using Type = int64_t;
};
template <>
struct StateOf<Combine::Count, int64_t> {
  using Type = int64_t;
};

template <Combine c, class S>
__device__ inline S start() {
  constexpr bool floats = same_type<S, double>;
  if constexpr (c == Combine::Product) return S(1);
  if constexpr (c == Combine::Largest && floats) return -double(__builtin_huge_val());
  if constexpr (c == Combine::Smallest && floats) return double(__builtin_huge_val());
  if constexpr (c == Combine::Largest) return static_cast<S>(uint64_t(1) << 63);
  if constexpr (c == Combine::Smallest) return static_cast<S>(~(uint64_t(1) << 63));
  return S(0);
}

// Integers wrap around.
template <Combine c, class S>
__device__ inline S meet(S a, S b) {
  if constexpr (c == Combine::Largest) return b > a || b != b ? (a != a ? a : b) : a;
  if constexpr (c == Combine::Smallest) return b < a || b != b ? (a != a ? a : b) : a;
  if constexpr (same_type<S, double>) {
    if constexpr (c == Combine::Product) return a * b;
    return a + b;
  } else {
    if constexpr (c == Combine::Product) return static_cast<S>(uint64_t(a) * uint64_t(b));
    return static_cast<S>(uint64_t(a) + uint64_t(b));
  }
}

__device__ inline int64_t place_of(int64_t i, int rank, const int64_t* size,
                                   const int64_t* stride) {
  if (rank == 1) return i * stride[0];
  int64_t at = 0;
  TYCHO_ROLLED
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t rest = i / size[d];
    at += (i - rest * size[d]) * stride[d];
    i = rest;
  }
  return at;
}
__device__ inline int64_t kept_place(const Reduction& r, int64_t k) {
  return place_of(k, r.kept_rank, r.kept_size, r.kept_stride);
}
__device__ inline int64_t depth_place(const Reduction& r, int64_t i) {
  return place_of(i, r.depth_rank, r.depth_size, r.depth_stride);
}

// The result of a row, from the folded s and the number n of elements.
template <class S>
__device__ inline S finished(const Reduction& r, S s) {
  enum Rows {
#define FOLD(name, ...) Row_##name,
#include "engine/ops/reduce/reduce.def"
  };
  [[maybe_unused]] const double n = static_cast<double>(r.depth);
  switch (r.row) {
#define REDUCTION(name, lanes, value, combine, finish, ...) \
  case Row_##name:                                          \
    return static_cast<S>(finish);
#include "engine/ops/reduce/reduce.def"
    case Row_SumSquare:  // of a norm
      return static_cast<S>(sqrt(static_cast<double>(s)));
    default:
      return s;
  }
}

// A row of reduce.def.
template <class F, class L>
struct Folding {
  static constexpr Combine combine = F::combine;
  using Lane = L;
  using State = typename StateOf<combine, L>::Type;
  __device__ static State start() { return ::start<combine, State>(); }
  __device__ static State meet(State a, State b) { return ::meet<combine>(a, b); }
  __device__ static State below(State s, int by) { return from_below(s, by); }
  __device__ static void leave(const Reduction& r, int64_t k, State s) {
    store<State>(r.out[0], r.out_dtype[0], k, finished(r, s));
  }
  // One value after the other.
  struct Folder {
    State state = ::start<combine, State>();
    float some = 0;
    int steps = 0;
    template <int n>
    __device__ inline void take(const L (&x)[n], int64_t, int64_t) {
      if constexpr (combine == Combine::Sum && same_type<L, float>) {
        TYCHO_UNROLLED
        for (int j = 0; j < n; ++j) some += F::value(x[j]);
        if ((steps += n) >= 128) flush();
      } else {
        TYCHO_UNROLLED
        for (int j = 0; j < n; ++j)
          state = ::meet<combine>(state, static_cast<State>(F::value(x[j])));
      }
    }
    __device__ inline void flush() {
      state += static_cast<State>(some);
      some = 0;
      steps = 0;
    }
    __device__ inline State result() {
      if constexpr (combine == Combine::Sum && same_type<L, float>) flush();
      return state;
    }
  };
};

// The largest or smallest element and its position; of equal ones, and of nans, the first.
template <bool largest, class L>
struct Extreme {
  using Lane = L;
  using State = Placed<L>;
  __device__ static State start() { return {L(0), -1}; }
  __device__ static State meet(State a, State b) {
    const int more = more_extreme<largest>(a, b);
    return more > 0 || (more == 0 && a.at < b.at) ? a : b;
  }
  __device__ static State below(State s, int by) {
    return {from_below(s.value, by), from_below(s.at, by)};
  }
  __device__ static void leave(const Reduction& r, int64_t k, State s) {
    if (r.out[0]) store<L>(r.out[0], r.out_dtype[0], k, s.value);
    store<int64_t>(r.out[1], r.out_dtype[1], k, s.at + 1);
  }
  struct Folder {
    State state = start();
    template <int n>
    __device__ inline void take(const L (&x)[n], int64_t i, int64_t step) {
      TYCHO_UNROLLED
      for (int j = 0; j < n; ++j) state = meet(state, {x[j], i + j * step});
    }
    __device__ inline State result() { return state; }
  };
};

template <class L>
struct Moments {
  using Lane = L;
  using State = Moment;
  __device__ static State start() { return {0, 0, 0}; }
  __device__ static State meet(State a, State b) { return tycho::cuda::meet(a, b); }
  __device__ static State below(State s, int by) { return from_below(s, by); }
  __device__ static void leave(const Reduction& r, int64_t k, State s) {
    const double nan = __builtin_nan("");
    if (r.out[1]) store<double>(r.out[1], r.out_dtype[1], k, s.n == 0 ? nan : s.mean);
    const double freedom = s.n - r.correction;
    const double v = s.squares / (freedom > 0 ? freedom : 0);
    store<double>(r.out[0], r.out_dtype[0], k, r.root ? sqrt(v) : v);
  }
  struct Folder {
    MomentFolder folder;
    template <int n>
    __device__ inline void take(const L (&x)[n], int64_t, int64_t) {
      TYCHO_UNROLLED
      for (int j = 0; j < n; ++j) folder.take(static_cast<double>(x[j]));
    }
    __device__ inline State result() { return folder.result(); }
  };
};

template <class P>
__device__ inline void leave(const Reduction& r, int64_t k, int64_t part, typename P::State s) {
  if (r.parts > 1 && r.way != ReduceWay::Merge)
    static_cast<typename P::State*>(r.partial)[part * r.kept + k] = s;
  else
    P::leave(r, k, s);
}

template <class P>
__device__ inline typename P::State over_warp(typename P::State s) {
  for (int by = 16; by; by >>= 1) s = P::meet(s, P::below(s, by));
  return s;
}

// Of a gradient g: its sum, and that of g times (x - mean) / deviation.
struct TwoSums {
  double sum, dot;
};
template <class L>
struct UnitSums {
  using Lane = L;
  using State = TwoSums;
  __device__ static State start() { return {0, 0}; }
  __device__ static State meet(State a, State b) { return {a.sum + b.sum, a.dot + b.dot}; }
  __device__ static State below(State s, int by) {
    return {from_below(s.sum, by), from_below(s.dot, by)};
  }
  __device__ static void leave(const Reduction& r, int64_t k, State s) {
    store<double>(r.out[0], r.out_dtype[0], k, s.dot);
    store<double>(r.out[1], r.out_dtype[1], k, s.sum);
  }
};
template <class L>
__device__ inline TwoSums folded(UnitSums<L>, const Reduction& r, int64_t k, int64_t first,
                                 int64_t end, int64_t step) {
  const int64_t at = kept_place(r, k);
  TwoSums s{0, 0};
  TYCHO_ROLLED
  for (int64_t i = first; i < end; i += step) {
    const int64_t place = at + depth_place(r, i), unit = r.unit_step ? k / r.unit_step : i;
    const L g = load<L>(r.grad, r.grad_dtype, place), x = load<L>(r.in, r.in_dtype, place);
    s.sum += static_cast<double>(g);
    s.dot += static_cast<double>(
        g * ((x - static_cast<const L*>(r.mean)[unit]) * static_cast<const L*>(r.rstd)[unit]));
  }
  return s;
}

// Elements first, first + step, .. below end of result k.
template <class P>
__device__ inline typename P::State folded(P, const Reduction& r, int64_t k, int64_t first,
                                           int64_t end, int64_t step) {
  const int64_t at = kept_place(r, k);
  using L = typename P::Lane;
  constexpr int kTogether = 8;
  typename P::Folder folder;
  int64_t i = first;
  TYCHO_ROLLED
  for (; i + (kTogether - 1) * step < end; i += kTogether * step) {
    int64_t places[kTogether];
    L x[kTogether];
    if (r.depth_rank == 1) {
      const int64_t from = at + i * r.depth_stride[0], by = step * r.depth_stride[0];
      TYCHO_UNROLLED
      for (int j = 0; j < kTogether; ++j) places[j] = from + j * by;
    } else {
      TYCHO_UNROLLED
      for (int j = 0; j < kTogether; ++j) places[j] = at + depth_place(r, i + j * step);
    }
    load_several(r.in, r.in_dtype, places, x);
    folder.take(x, i, step);
  }
  TYCHO_ROLLED
  for (; i < end; i += step) {
    const L one[1] = {load<L>(r.in, r.in_dtype, at + depth_place(r, i))};
    folder.take(one, i, step);
  }
  return folder.result();
}

template <class P>
__device__ inline void reduce(const Reduction& r) {
  using S = typename P::State;
  TYCHO_SHARED(S, tile, 256);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t block = blockIdx.x, part = blockIdx.y;
  int64_t k = block * 8 + y;  // the result, and the elements of this thread
  int64_t first = part * r.part, end = first + r.part < r.depth ? first + r.part : r.depth;
  int64_t step = 32;
  if (r.way == ReduceWay::Blocks) {
    k = block;
    first += y * 32 + x;
    step = 256;
  } else if (r.way == ReduceWay::Columns) {
    k = block * 32 + x;
    first += y;
    step = 8;
  } else {
    first += x;
  }
  S s = P::start();
  if (r.way == ReduceWay::Merge) {
    for (int64_t i = x; i < r.parts && k < r.kept; i += 32)
      s = P::meet(s, static_cast<const S*>(r.partial)[i * r.kept + k]);
  } else if (k < r.kept) {
    s = folded(P{}, r, k, first, end, step);
  }

  if (r.way == ReduceWay::Columns) {
    tile[y * 32 + x] = s;
    for (int half = 4; half; half >>= 1) {
      __syncthreads();
      if (y < half) tile[y * 32 + x] = P::meet(S(tile[y * 32 + x]), S(tile[(y + half) * 32 + x]));
    }
    if (y == 0 && k < r.kept) leave<P>(r, k, part, S(tile[x]));
    return;
  }
  s = over_warp<P>(s);
  if (r.way == ReduceWay::Blocks) {
    if (x == 0) tile[y] = s;
    __syncthreads();
    if (y > 0) return;
    s = over_warp<P>(x < 8 ? S(tile[x]) : P::start());
  }
  if (x == 0 && k < r.kept) leave<P>(r, k, part, s);
}

}  // namespace

#define KERNEL(name, ...)                                                           \
  extern "C" __global__ void reduce_##name(Reduction r) { reduce<__VA_ARGS__>(r); } \
  TYCHO_KERNEL(reduce_##name)

// Kernels reduce_<row>_<lanes>; rows of Floats have none of integers.
#define KERNELS_All(name) KERNEL(name##_i64, Folding<Fold_##name, int64_t>) KERNELS_Floats(name)
#define KERNELS_Floats(name)                      \
  KERNEL(name##_f32, Folding<Fold_##name, float>) \
  KERNEL(name##_f64, Folding<Fold_##name, double>)
#define FOLD(name, lanes, ...) KERNELS_##lanes(name)
#include "engine/ops/reduce/reduce.def"

KERNEL(largest_i64, Extreme<true, int64_t>)
KERNEL(largest_f32, Extreme<true, float>)
KERNEL(largest_f64, Extreme<true, double>)
KERNEL(smallest_i64, Extreme<false, int64_t>)
KERNEL(smallest_f32, Extreme<false, float>)
KERNEL(smallest_f64, Extreme<false, double>)
KERNEL(moments_f32, Moments<float>)
KERNEL(moments_f64, Moments<double>)
KERNEL(units_f32, UnitSums<float>)
KERNEL(units_f64, UnitSums<double>)
