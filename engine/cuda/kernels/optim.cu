// Optimiser steps: one launch reads and writes many parameters, with the CPU's arithmetic
// (cpu/nn/level/optim_values.h) in lanes of one element.
#include "engine/cuda/kernels/elements.cuh"
#include "engine/cuda/kernels/optim.cuh"

#define TYCHO_LEVEL scalar
#define TYCHO_LEVEL_scalar 1
#include "engine/cpu/nn/level/optim_values.h"

using namespace tycho::cuda;
namespace lanes = ::tycho::cpu::scalar;
using ::tycho::cpu::AdamStep;
using ::tycho::cpu::Rule;
using ::tycho::cpu::RuleStep;
using ::tycho::cpu::SgdStep;

namespace {

// Calls f(x, tensor) for the elements of this block and stores what it changed, but never list 1.
template <class T, int arrays, class F>
__device__ inline void each(const OptimLists& a, F&& f) {
  const int block = static_cast<int>(blockIdx.x);
  int low = 0, high = a.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (a.first_block[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  const int t = low;
  const int64_t begin = (block - a.first_block[t]) * kOptimChunk;
  const int64_t end = begin + kOptimChunk < a.numel[t] ? begin + kOptimChunk : a.numel[t];
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    lanes::Lane<T> x[5] = {T(0), T(0), T(0), T(0), T(0)};
    for (int k = 0; k < arrays; ++k)
      if (a.data[k][t]) x[k] = load<T>(a.data[k][t], a.dtype[k][t], i);
    f(static_cast<lanes::Lane<T>*>(x), t);
    for (int k = 0; k < arrays; ++k)
      if (k != 1 && a.data[k][t]) store<T>(a.data[k][t], a.dtype[k][t], i, x[k].v);
  }
}

template <class T>
__device__ inline void sgd(const OptimLists& a, const SgdStep& s) {
  const lanes::SgdValue<T> value(s);
  each<T, 3>(a, [&](lanes::Lane<T>* x, int t) {
    if (a.data[2][t])
      value.with_momentum(x);
    else
      value.plain(x);
  });
}

template <class T>
__device__ inline void adam(const OptimLists& a, const AdamStep& s) {
  const lanes::AdamValue<T> value(s);
  each<T, 5>(a, [&](lanes::Lane<T>* x, int) {
    if (s.amsgrad)
      value.amsgrad(x);
    else
      value.plain(x);
  });
}

template <class T, Rule rule>
__device__ inline void step(const OptimLists& a, const RuleStep& s) {
  const lanes::RuleValue<T> value(s);
  each<T, 5>(a, [&](lanes::Lane<T>* x, int t) {
    value.template step<rule>(x, a.data[3][t] != nullptr, a.data[4][t] != nullptr);
  });
}

// `bad` becomes true where an element is inf or nan.
template <class T>
__device__ inline void unscale(const OptimLists& a, double factor, uint8_t* bad) {
  const T by = static_cast<T>(factor);
  each<T, 1>(a, [&](lanes::Lane<T>* x, int) {
    x[0] = x[0].v * by;
    if (x[0].v - x[0].v != T(0)) *reinterpret_cast<volatile uint8_t*>(bad) = 1;
  });
}

}  // namespace

extern "C" __global__ void optim_sgd_f32(OptimLists a, SgdStep s) { sgd<float>(a, s); }
extern "C" __global__ void optim_sgd_f64(OptimLists a, SgdStep s) { sgd<double>(a, s); }
extern "C" __global__ void optim_adam_f32(OptimLists a, AdamStep s) { adam<float>(a, s); }
extern "C" __global__ void optim_adam_f64(OptimLists a, AdamStep s) { adam<double>(a, s); }
extern "C" __global__ void optim_unscale_f32(OptimLists a, double factor, uint8_t* bad) {
  unscale<float>(a, factor, bad);
}
extern "C" __global__ void optim_unscale_f64(OptimLists a, double factor, uint8_t* bad) {
  unscale<double>(a, factor, bad);
}
TYCHO_KERNEL(optim_sgd_f32)
TYCHO_KERNEL(optim_sgd_f64)
TYCHO_KERNEL(optim_adam_f32)
TYCHO_KERNEL(optim_adam_f64)
TYCHO_KERNEL(optim_unscale_f32)
TYCHO_KERNEL(optim_unscale_f64)

#define RULE(name)                                                          \
  extern "C" __global__ void optim_##name##_f32(OptimLists a, RuleStep s) { \
    step<float, Rule::name>(a, s);                                          \
  }                                                                         \
  extern "C" __global__ void optim_##name##_f64(OptimLists a, RuleStep s) { \
    step<double, Rule::name>(a, s);                                         \
  }                                                                         \
  TYCHO_KERNEL(optim_##name##_f32)                                          \
  TYCHO_KERNEL(optim_##name##_f64)
RULE(RMSprop)
RULE(Adagrad)
RULE(Adadelta)
RULE(Adamax)
RULE(NAdam)
RULE(RAdam)
RULE(ASGD)
RULE(Rprop)
