// Reading and writing at positions: gather, scatter, index_select, index_put and their kin. Reading
// reports a position that is out of range and leaves 0 in its place; before writing all positions are
// looked at by a kernel of its own, and where one is bad nothing is written. Sums and products of
// floats go line by line, each in the order of the positions, so they have the same bits every time.
#include "engine/cuda/kernels/index.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

// From 0; -1 when it is out of range.
__device__ inline int64_t position_of(int64_t p, int64_t limit, bool negative) {
  if (p >= 1 && p <= limit) return p - 1;
  if (negative && p < 0 && p >= -limit) return p + limit;
  return -1;
}

struct At {
  int64_t x, other;
  bool good;
};
// `reports`: a bad position is told.
template <bool reports>
__device__ inline At place(const Indexed& w, int64_t i) {
  At at{0, 0, true};
  int64_t of[kIndexDims] = {};
  TYCHO_ROLLED
  for (int d = w.rank - 1; d >= 0; --d) {
    const int64_t rest = i / w.size[d], k = i - rest * w.size[d];
    at.x += k * w.x_stride[d];
    at.other += k * w.other_stride[d];
    for (int t = 0; t < kIndexDims; ++t)
      if (t < w.count) of[t] += k * w.index[t].stride[d];
    i = rest;
  }
  for (int t = 0; t < kIndexDims; ++t) {
    if (t >= w.count) break;
    const IndexTensor& index = w.index[t];
    const int64_t p = position_of(index.data[of[t]], index.limit, w.negative);
    if (p < 0) {
      at.good = false;
      if (reports) report(w.fault, w.op, of[t], index.data[of[t]] - 1, index.limit);
    } else {
      at.x += p * index.step;
    }
  }
  return at;
}

template <class S>
__device__ inline void take(const Indexed& w) {
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    const At at = place<true>(w, i);
    put<S>(w.other, at.other, at.good ? element<S>(w.x, at.x) : S(0));
  }
}

template <class S>
__device__ inline void set(const Indexed& w) {
  if (*w.bad) return;
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    const At at = place<false>(w, i);
    if (w.last && w.last[at.x] != static_cast<unsigned long long>(i) + 1) continue;
    put<S>(w.x, at.x, element<S>(w.other, at.other));
  }
}

template <class T>
struct Bits {
  using Type = unsigned long long;
};
template <>
struct Bits<float> {
  using Type = unsigned;
};

template <class T>
__device__ inline T met(Meeting how, T old, T x) {
  if constexpr (same_type<T, int64_t>) {
    if (how == Meeting::Add) return static_cast<T>(uint64_t(old) + uint64_t(x));
    if (how == Meeting::Mul) return static_cast<T>(uint64_t(old) * uint64_t(x));
  } else {
    if (how == Meeting::Add) return old + x;
    if (how == Meeting::Mul) return old * x;
    if (old != old) return old;  // nan wins
    if (x != x) return x;
  }
  return how == Meeting::Max ? (x > old ? x : old) : (x < old ? x : old);
}

// Where the order does not change the result.
template <class T>
__device__ inline void meet_any_order(const Indexed& w, Meeting how) {
  if (*w.bad) return;
  using B = typename Bits<T>::Type;
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    const At at = place<false>(w, i);
    const T x = element<T>(w.other, at.other);
    B* const to = static_cast<B*>(w.x) + at.x;
    B seen = *to;
    for (;;) {
      T old;
      memcpy(&old, &seen, sizeof old);
      const T y = met(how, old, x);
      B wanted;
      memcpy(&wanted, &y, sizeof y);
      if (wanted == seen) break;
      const B before = atomicCAS(to, seen, wanted);
      if (before == seen) break;
      seen = before;
    }
  }
}

// A thread for each line.
template <class T>
__device__ inline void meet_in_order(const Indexed& w, Meeting how) {
  if (*w.bad) return;
  const int64_t lines = w.numel / w.per_line;
  for (int64_t line = first_element(); line < lines; line += all_threads())
    for (int64_t j = 0; j < w.per_line; ++j) {
      const At at = place<false>(w, line * w.per_line + j);
      T* const to = static_cast<T*>(w.x) + at.x;
      *to = met(how, *to, element<T>(w.other, at.other));
    }
}

// Where the places are those of the first line for all others too, and sorted: a thread for each run
// of equal ones in each line, in the order of the positions.
template <class T>
__device__ inline void meet_runs(const Indexed& w, Meeting how, const PlaceRuns& runs) {
  if (*w.bad) return;
  const int64_t lines = w.numel / w.per_line;
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    const int64_t j = i / lines, line = (i - j * lines) * w.per_line;
    const int64_t key = runs.places[j];
    if (j > 0 && runs.places[j - 1] == key) continue;
    const At first = place<false>(w, line + runs.order[j] - 1);
    T* const to = static_cast<T*>(w.x) + first.x;
    T sum = met(how, *to, element<T>(w.other, first.other));
    for (int64_t r = j + 1; r < w.per_line && runs.places[r] == key; ++r) {
      const At at = place<false>(w, line + runs.order[r] - 1);
      sum = met(how, sum, element<T>(w.other, at.other));
    }
    *to = sum;
  }
}

}  // namespace

// Of the first line.
extern "C" __global__ void line_places(Indexed w, int64_t* places) {
  for (int64_t i = first_element(); i < w.per_line; i += all_threads())
    places[i] = place<false>(w, i).x;
}
TYCHO_KERNEL(line_places)

// Of values for one place the last one is to stay.
extern "C" __global__ void find_last(Indexed w) {
  if (*w.bad) return;
  for (int64_t i = first_element(); i < w.numel; i += all_threads())
    atomicMax(&w.last[place<false>(w, i).x], static_cast<unsigned long long>(i) + 1);
}
TYCHO_KERNEL(find_last)

extern "C" __global__ void check_positions(CheckedPositions c) {
  for (int64_t i = first_element(); i < c.numel; i += all_threads()) {
    const int64_t p = position_of(c.data[i], c.limit, c.negative);
    if (c.out) c.out[i] = p + 1;
    if (p >= 0) continue;
    if (c.bad) *reinterpret_cast<volatile uint32_t*>(c.bad) = 1;
    report(c.fault, c.op, i, c.data[i] - 1, c.limit);
  }
}
TYCHO_KERNEL(check_positions)

#define BY_SIZE(name)                                                   \
  extern "C" __global__ void name##_1(Indexed w) { name<uint8_t>(w); }  \
  extern "C" __global__ void name##_2(Indexed w) { name<uint16_t>(w); } \
  extern "C" __global__ void name##_4(Indexed w) { name<uint32_t>(w); } \
  extern "C" __global__ void name##_8(Indexed w) { name<uint64_t>(w); } \
  TYCHO_KERNEL(name##_1)                                                \
  TYCHO_KERNEL(name##_2) TYCHO_KERNEL(name##_4) TYCHO_KERNEL(name##_8)
BY_SIZE(take)
BY_SIZE(set)
extern "C" __global__ void meet_any_f32(Indexed w, Meeting how) { meet_any_order<float>(w, how); }
extern "C" __global__ void meet_any_f64(Indexed w, Meeting how) { meet_any_order<double>(w, how); }
extern "C" __global__ void meet_any_i64(Indexed w, Meeting how) { meet_any_order<int64_t>(w, how); }
extern "C" __global__ void meet_lines_f32(Indexed w, Meeting how) { meet_in_order<float>(w, how); }
extern "C" __global__ void meet_lines_f64(Indexed w, Meeting how) { meet_in_order<double>(w, how); }
TYCHO_KERNEL(meet_any_f32)
TYCHO_KERNEL(meet_any_f64)
TYCHO_KERNEL(meet_any_i64)
TYCHO_KERNEL(meet_lines_f32)
TYCHO_KERNEL(meet_lines_f64)
extern "C" __global__ void meet_runs_f32(Indexed w, Meeting how, PlaceRuns runs) {
  meet_runs<float>(w, how, runs);
}
extern "C" __global__ void meet_runs_f64(Indexed w, Meeting how, PlaceRuns runs) {
  meet_runs<double>(w, how, runs);
}
TYCHO_KERNEL(meet_runs_f32)
TYCHO_KERNEL(meet_runs_f64)
