// Elements of any type in memory as float, double or int64 and back, by the type's number (DType):
// the same roundings as the CPU's (cpu/lanes/convert.h). Where the number is a constant, only its own
// branch is left.
#pragma once
#include "engine/cuda/kernels/prelude.cuh"

namespace tycho::cuda {

enum : int { kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kF16, kBF16, kF32, kF64 };

template <class A, class B>
constexpr bool same_type = false;
template <class A>
constexpr bool same_type<A, A> = true;

// C's cast without its undefined cases: what does not fit is the smallest integer.
__device__ inline int64_t to_integer(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x)
                                    : static_cast<int64_t>(uint64_t(1) << 63);
}
// Rounded to odd, so that rounding the result again to a shorter format rounds as if once.
__device__ inline float to_odd(double x) {
  const float f = static_cast<float>(x);
  const double d = static_cast<double>(f);
  uint32_t b = float_to_bits(f);
  if ((d < 0 ? -d : d) > (x < 0 ? -x : x)) --b;
  return bits_to_float(d != x ? b | 1 : b);
}
template <class T>
__device__ inline float to_narrow(T x) {
  if constexpr (same_type<T, double>) {
    return to_odd(x);
  } else {
    return static_cast<float>(x);
  }
}
template <class T, class S>
__device__ inline T convert(S x) {
  if constexpr (same_type<T, int64_t> && (same_type<S, float> || same_type<S, double>)) {
    return to_integer(x);
  } else {
    return static_cast<T>(x);
  }
}

template <class S>
__device__ inline S element(const void* p, int64_t i) {
  return static_cast<const S*>(p)[i];
}
template <class S>
__device__ inline void put(void* p, int64_t i, S x) {
  static_cast<S*>(p)[i] = x;
}

template <class T>
__device__ inline T load(const void* p, int dtype, int64_t i) {
  switch (dtype) {
    case kBool:
      return static_cast<T>(element<uint8_t>(p, i) != 0);
    case kUInt8:
      return static_cast<T>(element<uint8_t>(p, i));
    case kInt8:
      return static_cast<T>(element<int8_t>(p, i));
    case kInt16:
      return static_cast<T>(element<int16_t>(p, i));
    case kInt32:
      return static_cast<T>(element<int32_t>(p, i));
    case kInt64:
      return static_cast<T>(element<int64_t>(p, i));
    case kF16:
      return convert<T>(to_float(element<f16>(p, i)));
    case kBF16:
      return convert<T>(to_float(element<bf16>(p, i)));
    case kF32:
      return convert<T>(element<float>(p, i));
    default:
      return convert<T>(element<double>(p, i));
  }
}

// Several at a time, so that all are on their way before the first is used.
template <class T, class S, int n>
__device__ inline void load_as(const void* p, const int64_t (&at)[n], T (&x)[n]) {
  S raw[n];
  for (int k = 0; k < n; ++k) raw[k] = element<S>(p, at[k]);
  for (int k = 0; k < n; ++k) {
    if constexpr (same_type<S, f16> || same_type<S, bf16>) {
      x[k] = convert<T>(to_float(raw[k]));
    } else {
      x[k] = convert<T>(raw[k]);
    }
  }
}
template <class T, int n>
__device__ inline void load_several(const void* p, int dtype, const int64_t (&at)[n], T (&x)[n]) {
  switch (dtype) {
    case kF16:
      return load_as<T, f16>(p, at, x);
    case kBF16:
      return load_as<T, bf16>(p, at, x);
    case kF32:
      return load_as<T, float>(p, at, x);
    case kF64:
      return load_as<T, double>(p, at, x);
    default:
      for (int k = 0; k < n; ++k) x[k] = load<T>(p, dtype, at[k]);
  }
}

template <class T>
__device__ inline void store(void* p, int dtype, int64_t i, T x) {
  switch (dtype) {
    case kBool:
      return put<uint8_t>(p, i, x != 0);
    case kUInt8:
      return put<uint8_t>(p, i, static_cast<uint8_t>(convert<int64_t>(x)));
    case kInt8:
      return put<int8_t>(p, i, static_cast<int8_t>(convert<int64_t>(x)));
    case kInt16:
      return put<int16_t>(p, i, static_cast<int16_t>(convert<int64_t>(x)));
    case kInt32:
      return put<int32_t>(p, i, static_cast<int32_t>(convert<int64_t>(x)));
    case kInt64:
      return put<int64_t>(p, i, convert<int64_t>(x));
    case kF16:
      return put<f16>(p, i, from_float<f16>(to_narrow(x)));
    case kBF16:
      return put<bf16>(p, i, from_float<bf16>(to_narrow(x)));
    case kF32:
      return put<float>(p, i, static_cast<float>(x));
    default:
      return put<double>(p, i, static_cast<double>(x));
  }
}

}  // namespace tycho::cuda
