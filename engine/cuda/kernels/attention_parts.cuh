// What the kernels of attention share: where a head's matrix begins, and elements of floating types.
#pragma once
#include "engine/cuda/kernels/attention.cuh"
#include "engine/cuda/kernels/elements.cuh"

namespace tycho::cuda {

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
template <class T>
constexpr T kNever = -static_cast<T>(__builtin_huge_val());

__device__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Where the matrix of a head begins.
__device__ inline int64_t begin_of(const Attention& a, const Heads& m, int64_t head,
                                   int64_t share = 1) {
  int64_t at = 0;
  TYCHO_ROLLED
  for (int d = a.lead_count - 1; d >= 0; --d) {
    const int64_t rest = head / a.lead[d], k = head - rest * a.lead[d];
    at += (d == a.lead_count - 1 ? k / share : k) * m.lead[d];
    head = rest;
  }
  return at;
}

template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T x[n];
};

__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }

// Elements of floating types: double only where T is.
template <class T>
__device__ __forceinline__ T load_floating(const void* p, int dtype, int64_t i) {
  if (dtype == kF16) return to_float(element<f16>(p, i));
  if (dtype == kBF16) return to_float(element<bf16>(p, i));
  return element<T>(p, i);
}
template <class T>
__device__ __forceinline__ void store_floating(void* p, int dtype, int64_t i, T x) {
  if (dtype == kF16) return put<f16>(p, i, from_float<f16>(static_cast<float>(x)));
  if (dtype == kBF16) return put<bf16>(p, i, from_float<bf16>(static_cast<float>(x)));
  put<T>(p, i, x);
}

// Two elements that are rounded and stored as one word.
template <class S>
__device__ inline uint32_t both_of(float x, float y) {
#if !defined(TYCHO_EMULATED) && __CUDA_ARCH__ >= 800
  uint32_t word;
  if constexpr (same_type<S, f16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
  }
  return word;
#else
  return from_float<S>(x).bits | uint32_t{from_float<S>(y).bits} << 16;
#endif
}

}  // namespace tycho::cuda
