// The kernel of an elementwise row, written once for all of them: the value column of elementwise.def
// in lanes of one element (cpu/lanes/vec_scalar.h). Types are constants where TYCHO_ROW_TYPES says
// them, else read from the walk.
//
// Where all tensors are contiguous and begin at whole 16 bytes (TYCHO_ROW_PACKED; kPacked as the walk's
// rank), a thread takes as many neighbours as 16 bytes hold of the widest type, in one access each.
#pragma once
#define TYCHO_LEVEL scalar
#define TYCHO_LEVEL_scalar 1
#include "engine/cpu/elementwise/level/row_values.h"
#include "engine/cuda/kernels/walk.cuh"

namespace tycho::cuda {

namespace lanes = ::tycho::cpu::scalar;

constexpr int kPacked = -1;

__device__ constexpr int size_of(int dtype) {
  if (dtype <= kInt8) return 1;
  if (dtype == kInt16 || dtype == kF16 || dtype == kBF16) return 2;
  return dtype == kInt32 || dtype == kF32 ? 4 : 8;
}

#ifdef TYCHO_ROW_TYPES
__device__ constexpr int row_type(const Operands&, int k) {
  constexpr int types[] = {TYCHO_ROW_TYPES};
  return types[k];
}
__device__ constexpr int neighbours() {
  constexpr int types[] = {TYCHO_ROW_TYPES};
  int widest = 1;
  for (const int t : types) widest = size_of(t) > widest ? size_of(t) : widest;
  return 16 / widest;
}
#ifdef TYCHO_ROW_PACKED
__device__ constexpr bool is_packed(const Operands&) { return true; }
#else
__device__ constexpr bool is_packed(const Operands&) { return false; }
#endif
#else
__device__ inline int row_type(const Operands& w, int k) { return w.dtype[k]; }
__device__ constexpr int neighbours() { return 2; }  // good for every type
__device__ inline bool is_packed(const Operands& w) { return w.rank == kPacked; }
#endif

template <class S, int n>
struct alignas(sizeof(S) * n) Pack {
  S v[n];
};
template <class T, class S, int n>
__device__ inline void load_pack(const void* p, int dtype, int64_t first, T (&x)[n]) {
  const auto pack = *reinterpret_cast<const Pack<S, n>*>(static_cast<const S*>(p) + first);
  TYCHO_UNROLLED
  for (int k = 0; k < n; ++k) x[k] = load<T>(pack.v, dtype, k);
}
template <class T, class S, int n>
__device__ inline void store_pack(void* p, int dtype, int64_t first, const T (&x)[n]) {
  Pack<S, n> pack;
  TYCHO_UNROLLED
  for (int k = 0; k < n; ++k) store<T>(pack.v, dtype, k, x[k]);
  *reinterpret_cast<Pack<S, n>*>(static_cast<S*>(p) + first) = pack;
}
// MOVE<type in memory>(..) for a type's number.
#define TYCHO_BY_TYPE(MOVE, T, dtype, ...)  \
  switch (dtype) {                          \
    case kBool:                             \
    case kUInt8:                            \
      return MOVE<T, uint8_t>(__VA_ARGS__); \
    case kInt8:                             \
      return MOVE<T, int8_t>(__VA_ARGS__);  \
    case kInt16:                            \
      return MOVE<T, int16_t>(__VA_ARGS__); \
    case kInt32:                            \
      return MOVE<T, int32_t>(__VA_ARGS__); \
    case kInt64:                            \
      return MOVE<T, int64_t>(__VA_ARGS__); \
    case kF16:                              \
      return MOVE<T, f16>(__VA_ARGS__);     \
    case kBF16:                             \
      return MOVE<T, bf16>(__VA_ARGS__);    \
    case kF32:                              \
      return MOVE<T, float>(__VA_ARGS__);   \
    default:                                \
      return MOVE<T, double>(__VA_ARGS__);  \
  }
template <class T, int n>
__device__ inline void load_neighbours(const void* p, int dtype, int64_t first, T (&x)[n]) {
  TYCHO_BY_TYPE(load_pack, T, dtype, p, dtype, first, x)
}
template <class T, int n>
__device__ inline void store_neighbours(void* p, int dtype, int64_t first, const T (&x)[n]) {
  TYCHO_BY_TYPE(store_pack, T, dtype, p, dtype, first, x)
}
#undef TYCHO_BY_TYPE

template <class T>
__device__ inline T row_number(const Operands& w, int k) {
  if constexpr (same_type<T, int64_t>) {
    return w.integer[k];
  } else {
    return static_cast<T>(w.number[k]);
  }
}

template <class T>
__device__ inline T stored(lanes::Lane<T> x) {
  return x.v;
}
template <class T>
__device__ inline T stored(lanes::Mask<T> x) {
  return static_cast<T>(x.m);
}

template <class Value, class T>
__device__ inline T value_of(const T (&x)[4]) {
  return stored<T>(Value::value(lanes::Lane<T>(x[0]), lanes::Lane<T>(x[1]), lanes::Lane<T>(x[2]),
                                lanes::Lane<T>(x[3])));
}

// The packs; what is left is fewer elements than one has.
template <class Value, int n, class T>
__device__ inline void packed_row(const Operands& w) {
  constexpr int width = neighbours();
  T x[width][4] = {}, one[n + 1];
  for (int k = 1; k <= n; ++k)
    one[k] = !w.data[k] ? row_number<T>(w, k) : load<T>(w.data[k], row_type(w, k), 0);
  const int64_t packs = w.numel / width;
  for (int64_t i = first_element(); i < packs; i += all_threads()) {
    TYCHO_UNROLLED
    for (int k = 1; k <= n; ++k) {
      T side[width];
      if (w.data[k] && w.stride[k][0])
        load_neighbours<T>(w.data[k], row_type(w, k), i * width, side);
      else
        for (T& s : side) s = one[k];
      TYCHO_UNROLLED
      for (int j = 0; j < width; ++j) x[j][k - 1] = side[j];
    }
    T y[width];
    TYCHO_UNROLLED
    for (int j = 0; j < width; ++j) y[j] = value_of<Value, T>(x[j]);
    store_neighbours<T>(w.data[0], row_type(w, 0), i * width, y);
  }
  const int64_t i = packs * width + first_element();
  if (i >= w.numel) return;
  for (int k = 1; k <= n; ++k)
    x[0][k - 1] = w.data[k] && w.stride[k][0] ? load<T>(w.data[k], row_type(w, k), i) : one[k];
  store<T>(w.data[0], row_type(w, 0), i, value_of<Value, T>(x[0]));
}

template <class Value, int n, class T>
__device__ inline void row(const Operands& w) {
  if (is_packed(w)) return packed_row<Value, n, T>(w);
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    int64_t at[n + 1];
    places<n + 1>(w, i, at);
    lanes::Lane<T> x[4] = {T(0), T(0), T(0), T(0)};
    for (int k = 1; k <= n; ++k)
      x[k - 1] = w.data[k] ? load<T>(w.data[k], row_type(w, k), at[k]) : row_number<T>(w, k);
    store<T>(w.data[0], row_type(w, 0), at[0], stored<T>(Value::value(x[0], x[1], x[2], x[3])));
  }
}

}  // namespace tycho::cuda
