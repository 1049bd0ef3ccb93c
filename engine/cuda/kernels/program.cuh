// The kernel of rows that run as one: programs.cpp writes it, a line for each input, number and step. A
// thread takes as many neighbours as 16 bytes hold of the widest type, all steps one after the other;
// what is between the steps stays in registers.
#pragma once
#include "engine/cuda/kernels/rows.cuh"

namespace tycho::cuda {

template <class T, int n>
struct Values {
  T v[n];
};

// The program's element i is the input's (i / inner) % count.
struct ProgramInput {
  const void* data;
  int64_t count, inner;
};

// How an input's neighbours lie: as the program's, as a row's that repeats, all on one element, ...
enum Reads : int { kWhole, kRow, kColumn, kOne, kAny };

template <int type, Reads reads, int n, class T, class Index>
__device__ inline Values<T, n> input(const ProgramInput& in, Index i) {
  Values<T, n> x;
  if constexpr (reads == kWhole) {
    load_neighbours<T>(in.data, type, i, x.v);
  } else if constexpr (reads == kRow) {
    load_neighbours<T>(in.data, type, i % static_cast<Index>(in.count), x.v);
  } else if constexpr (reads == kAny) {
    const auto count = static_cast<Index>(in.count), inner = static_cast<Index>(in.inner);
    TYCHO_UNROLLED
    for (int k = 0; k < n; ++k)
      x.v[k] = load<T>(in.data, type, (i + static_cast<Index>(k)) / inner % count);
  } else {
    Index at = 0;
    if constexpr (reads == kColumn)
      at = i / static_cast<Index>(in.inner) % static_cast<Index>(in.count);
    const T one = load<T>(in.data, type, at);
    TYCHO_UNROLLED
    for (int k = 0; k < n; ++k) x.v[k] = one;
  }
  return x;
}

template <int n, class T>
__device__ inline Values<T, n> number(T value) {
  Values<T, n> x;
  TYCHO_UNROLLED
  for (int k = 0; k < n; ++k) x.v[k] = value;
  return x;
}

// What a row computes is rounded to its type, as in memory, before another one reads it. It is written
// where somebody has it.
template <class T, class S, int n>
__device__ inline void settle(void* to, int dtype, int64_t first, T (&y)[n]) {
  Pack<S, n> pack;
  TYCHO_UNROLLED
  for (int k = 0; k < n; ++k) store<T>(pack.v, dtype, k, y[k]);
  if (to) *reinterpret_cast<Pack<S, n>*>(static_cast<S*>(to) + first) = pack;
  TYCHO_UNROLLED
  for (int k = 0; k < n; ++k) y[k] = load<T>(pack.v, dtype, k);
}

template <class Value, int type, class T, int n, class... More>
__device__ inline Values<T, n> step(void* to, int64_t i, const Values<T, n>& a,
                                    const More&... more) {
  Values<T, n> y;
  TYCHO_UNROLLED
  for (int k = 0; k < n; ++k) {
    const T x[4] = {a.v[k], more.v[k]...};
    y.v[k] = value_of<Value, T>(x);
  }
  if constexpr (type == kBool)
    settle<T, uint8_t>(to, type, i, y.v);
  else if constexpr (type == kF16)
    settle<T, f16>(to, type, i, y.v);
  else if constexpr (type == kBF16)
    settle<T, bf16>(to, type, i, y.v);
  else if constexpr (type == kF32)
    settle<T, float>(to, type, i, y.v);
  else
    settle<T, double>(to, type, i, y.v);
  return y;
}

// The packs; what is left is fewer elements than one has.
template <int width, class Index, class Steps>
__device__ inline void program(int64_t numel, const Steps& steps) {
  const Index packs = static_cast<Index>(numel / width);
  for (auto i = static_cast<Index>(first_element()); i < packs;
       i += static_cast<Index>(all_threads()))
    steps.template operator()<width>(i * width);
  const int64_t i = numel / width * width + first_element();
  if (i < numel) steps.template operator()<1>(static_cast<Index>(i));
}

}  // namespace tycho::cuda
