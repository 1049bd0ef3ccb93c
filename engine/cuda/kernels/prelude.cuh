// What every kernel file includes first: CUDA's words, from the compiler or from the emulation that
// the tests have, conversions of the two 16-bit formats, and the record of indices out of range.
#pragma once
#ifdef TYCHO_EMULATED
#include <cuda_on_cpu.h>
#else
#ifndef __CUDACC_RTC__
#include <stdint.h>
#else
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;
#endif
// The emulation finds kernels by name through this; CUDA's own tables do it here.
#define TYCHO_KERNEL(name)
// Shared memory of n elements; in the emulation accesses are looked at.
#define TYCHO_SHARED(type, name, n) __shared__ type name[n]
// Before a loop that is to stay one.
#define TYCHO_ROLLED _Pragma("unroll 1")
// Before a loop over an array that is to live in registers.
#define TYCHO_UNROLLED _Pragma("unroll")
#endif

namespace tycho::cuda {

// How 16-bit floats and bool lie in memory.
struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

__device__ inline float bits_to_float(uint32_t b) {
#ifdef TYCHO_EMULATED
  return __builtin_bit_cast(float, b);
#else
  return __uint_as_float(b);
#endif
}
__device__ inline uint32_t float_to_bits(float x) {
#ifdef TYCHO_EMULATED
  return __builtin_bit_cast(uint32_t, x);
#else
  return __float_as_uint(x);
#endif
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return bits_to_float(uint32_t(x.bits) << 16); }
__device__ inline float to_float(f16 x) {
#ifdef TYCHO_EMULATED
  const uint32_t m = (x.bits & 0x7fffu) << 13, sign = (x.bits & 0x8000u) << 16;
  uint32_t special = m | 0x7f800000u;
  if (special > 0x7f800000u) special |= 0x400000u;
  const uint32_t finite = float_to_bits(bits_to_float(m) * 0x1p112f);
  return bits_to_float(sign | (m >= 0x7c00u << 13 ? special : finite));
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#endif
}

// To nearest even.
template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
  const uint32_t b = float_to_bits(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) return {uint16_t((b >> 16) | 0x40u)};
  return {uint16_t((b + 0x7fffu + ((b >> 16) & 1)) >> 16)};
}
template <>
__device__ inline f16 from_float<f16>(float x) {
#ifdef TYCHO_EMULATED
  const uint32_t a = float_to_bits(x) & 0x7fffffffu, sign = (float_to_bits(x) >> 16) & 0x8000u;
  if (a > 0x7f800000u) return {uint16_t(sign | 0x7e00u | ((a >> 13) & 0x3ffu))};
  if (a >= 0x47800000u) return {uint16_t(sign | 0x7c00u)};
  if (a < 0x38800000u)
    return {uint16_t(sign | (float_to_bits(bits_to_float(a) + 0.5f) - 0x3f000000u))};
  return {uint16_t(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1)) >> 13))};
#else
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#endif
}

// The first index out of range since the host looked: who set `taken` writes the rest, then `ready`.
// `op` is a number that the host gave the call (faults.h).
struct Fault {
  uint32_t taken, ready;
  int32_t op;
  int64_t position, value, limit;
};

__device__ inline bool faulty(const Fault* fault) {
  return *reinterpret_cast<const volatile uint32_t*>(&fault->taken) != 0;
}
__device__ inline void report(Fault* fault, int32_t op, int64_t position, int64_t value,
                              int64_t limit) {
  if (atomicCAS(&fault->taken, 0u, 1u) != 0) return;
  fault->op = op;
  fault->position = position;
  fault->value = value;
  fault->limit = limit;
  __threadfence_system();
  *reinterpret_cast<volatile uint32_t*>(&fault->ready) = 1;
}

}  // namespace tycho::cuda
