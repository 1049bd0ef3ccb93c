// Attention whose products a library computes (ops/attention_products.cpp): what happens to the rows of
// scores between those. Threads take four neighbours at a time, and several such packs before the first
// is used.
#include "engine/base/philox.h"
#include "engine/cuda/kernels/attention_parts.cuh"

using namespace tycho::cuda;

namespace {

constexpr int kNear = 4;                         // neighbours of a pack
constexpr int kMostWarps = 16;                   // of a block
constexpr int kPlainPacks = 4, kOtherPacks = 2;  // of a thread at a time

template <class T>
using Near = T[kNear];

template <class S, class T>
__device__ inline void put_pack(void* to, int64_t pack, const Near<T>& x) {
  if constexpr (same_type<S, T>) {
    static_cast<Pack<S, kNear>*>(to)[pack] = {{x[0], x[1], x[2], x[3]}};
  } else {
    static_cast<Pack<uint32_t, 2>*>(to)[pack] = {{both_of<S>(x[0], x[1]), both_of<S>(x[2], x[3])}};
  }
}
template <class T>
__device__ inline void take_pack(const void* from, int64_t pack, Near<T>& x) {
  const auto p = static_cast<const Pack<T, kNear>*>(from)[pack];
  TYCHO_UNROLLED
  for (int e = 0; e < kNear; ++e) x[e] = p.x[e];
}

// In as many digits as what is stored has.
template <class S, class T>
__device__ inline T weight_of(T x) {
#ifndef TYCHO_EMULATED
  if constexpr (sizeof(S) == 2) return __expf(x);
#endif
  return exp_of(x);
}

// A block's row. `plain`: without a mask and dropout, which is told when it is compiled, for those take
// registers.
template <class T, bool plain>
struct ScoreRow {
  const Attention& a;
  int64_t head, query;
  int64_t end;    // of the keys that it may see
  int64_t packs;  // of its part of the piece
  int64_t at;     // its first pack in memory
  int64_t mask = 0;
  int thread, threads;

  __device__ explicit ScoreRow(const AttentionRows& r) : a(r.a) {
    const auto row = static_cast<int64_t>(blockIdx.x);
    const auto z = static_cast<int64_t>(blockIdx.x / static_cast<uint32_t>(r.rows));
    head = r.head + z * r.head_step;
    query = r.first + row - z * r.rows;
    end = a.causal ? least(r.seen, query + 1) : r.seen;
    packs = (r.seen + kNear - 1) / kNear;
    at = row * (r.pitch / kNear);
    if (masked()) mask = begin_of(a, a.mask, head) + query * a.mask.row;
    thread = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
    threads = static_cast<int>(blockDim.y * 32);
  }
  __device__ int64_t row() const { return head * a.queries + query; }
  __device__ bool masked() const { return !plain && a.mask.data; }
  __device__ bool drops() const { return !plain && a.limit; }

  // What stands at pack p, scaled and masked.
  __device__ void take(const void* scores, int64_t p, Near<T>& x) const {
    if (p * kNear < end) {
      take_pack(scores, at + p, x);
    } else {
      TYCHO_UNROLLED
      for (T& s : x) s = kNever<T>;
    }
  }
  __device__ void finish(int64_t p, Near<T>& x) const {
    TYCHO_UNROLLED
    for (T& s : x) s *= static_cast<T>(a.scale);
    if (p * kNear + kNear > end) {
      TYCHO_UNROLLED
      for (int e = 0; e < kNear; ++e)
        if (p * kNear + e >= end) x[e] = kNever<T>;
      if (p * kNear >= end) return;
    }
    if (masked()) finish_mask(p, x);
  }
  __device__ void finish_mask(int64_t p, Near<T>& x) const {
    int64_t places[kNear];
    TYCHO_UNROLLED
    for (int e = 0; e < kNear; ++e) places[e] = mask + least(p * kNear + e, end - 1) * a.mask.col;
    if (a.mask.dtype == kBool) {
      uint8_t keep[kNear];
      TYCHO_UNROLLED
      for (int e = 0; e < kNear; ++e) keep[e] = element<uint8_t>(a.mask.data, places[e]);
      TYCHO_UNROLLED
      for (int e = 0; e < kNear; ++e)
        if (!keep[e]) x[e] = kNever<T>;
      return;
    }
    Near<T> add;
    load_several<T>(a.mask.data, a.mask.dtype, places, add);
    TYCHO_UNROLLED
    for (int e = 0; e < kNear; ++e) x[e] += add[e];
  }
  // The factors that dropout has for a pack, whose first element is `shift` words into a block.
  __device__ void factors(int64_t p, Near<T>& f) const {
    const int64_t first = row() * a.keys + p * kNear;
    const int shift = static_cast<int>(first % 4);
    const uint64_t block = a.first + static_cast<uint64_t>(first / 4);
    const tycho::PhiloxBlock low = tycho::philox(a.seed, block);
    tycho::PhiloxBlock high{};
    if (shift) high = tycho::philox(a.seed, block + 1);
    const uint32_t words[8] = {low.word[0],  low.word[1],  low.word[2],  low.word[3],
                               high.word[0], high.word[1], high.word[2], high.word[3]};
    TYCHO_UNROLLED
    for (int e = 0; e < kNear; ++e) {
      const uint32_t word = shift == 0   ? words[e]
                            : shift == 1 ? words[e + 1]
                            : shift == 2 ? words[e + 2]
                                         : words[e + 3];
      f[e] = word < a.limit ? static_cast<T>(a.gain) : T(0);
    }
  }
};

// Over all threads of the block; each gets the same.
template <class T, class Tile, class Meet>
__device__ inline T over_block(Tile& tile, T x, Meet&& meet) {
  TYCHO_UNROLLED
  for (int by = 16; by; by /= 2) x = meet(x, __shfl_xor_sync(0xffffffffu, x, by));
  if (threadIdx.x == 0) tile[threadIdx.y] = x;
  __syncthreads();
  x = T(tile[0]);
  for (unsigned w = 1; w < blockDim.y; ++w) x = meet(x, T(tile[w]));
  __syncthreads();
  return x;
}

// Weights of a row's keys, and the logarithm of their sum. A row that fits the registers of its block is
// read once.
template <class T, class S, bool plain>
__device__ __forceinline__ void weights(const AttentionRows& r) {
  constexpr int kPacks = plain ? kPlainPacks : kOtherPacks;
  TYCHO_SHARED(T, tile, kMostWarps);
  const ScoreRow<T, plain> row(r);
  const int64_t span = int64_t{kPacks} * row.threads;
  const bool again = row.packs > span;
  Near<T> x[kPacks];
  const auto take = [&](int64_t from) {
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks; ++k) row.take(r.scores, from + k * row.threads, x[k]);
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks; ++k) row.finish(from + k * row.threads, x[k]);
  };
  T top = kNever<T>;
  for (int64_t from = row.thread; from < row.packs; from += span) {
    take(from);
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks * kNear; ++k)
      if (x[k / kNear][k % kNear] > top) top = x[k / kNear][k % kNear];
  }
  top = over_block(tile, top, [](T p, T q) { return p > q ? p : q; });
  const T base = top == kNever<T> ? T(0) : top;
  const auto exponentials = [&] {
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks * kNear; ++k) {
      T& s = x[k / kNear][k % kNear];
      s = weight_of<S>(s - base);
    }
  };
  T mass = 0;
  for (int64_t from = row.thread; from < row.packs; from += span) {
    if (again) take(from);
    exponentials();
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks * kNear; ++k) mass += x[k / kNear][k % kNear];
  }
  mass = over_block(tile, mass, [](T p, T q) { return p + q; });
  const bool none = mass == 0;  // no key: zeros
  const T share = none ? T(0) : 1 / mass;
  if (row.thread == 0) static_cast<T*>(r.a.lse)[row.row()] = none ? -kNever<T> : top + log_of(mass);
  for (int64_t from = row.thread; from < row.packs; from += span) {
    if (again) {
      take(from);
      exponentials();
    }
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks; ++k) {
      const int64_t p = from + k * row.threads;
      if (p >= row.packs) break;
      TYCHO_UNROLLED
      for (T& s : x[k]) s *= share;
      if (row.drops()) {
        Near<T> f;
        row.factors(p, f);
        TYCHO_UNROLLED
        for (int e = 0; e < kNear; ++e) x[k][e] *= f[e];
      }
      put_pack<S, T>(r.weights, row.at + p, x[k]);
    }
  }
}

// The weights again, from the logarithm of their sum, and the slopes of the scores.
template <class T, class S, bool plain>
__device__ __forceinline__ void slopes(const AttentionRows& r) {
  constexpr int kPacks = plain ? kPlainPacks : kOtherPacks;
  const ScoreRow<T, plain> row(r);
  const T lse = static_cast<const T*>(r.a.lse)[row.row()];
  const T delta = static_cast<const T*>(r.a.delta)[row.row()];
  for (int64_t from = row.thread; from < row.packs; from += int64_t{kPacks} * row.threads) {
    Near<T> x[kPacks], d[kPacks];
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks; ++k) {
      const int64_t p = from + k * row.threads;
      row.take(r.scores, p, x[k]);
      if (p * kNear < row.end) {
        take_pack(r.grads, row.at + p, d[k]);
      } else {
        TYCHO_UNROLLED
        for (T& g : d[k]) g = 0;
      }
    }
    TYCHO_UNROLLED
    for (int k = 0; k < kPacks; ++k) {
      const int64_t p = from + k * row.threads;
      if (p >= row.packs) break;
      row.finish(p, x[k]);
      Near<T> f = {1, 1, 1, 1};
      if (row.drops()) row.factors(p, f);
      TYCHO_UNROLLED
      for (int e = 0; e < kNear; ++e) {
        const T weight = weight_of<S>(x[k][e] - lse);
        // What stands behind the last key is no number.
        const T grad = p * kNear + e < row.end ? d[k][e] * f[e] : T(0);
        x[k][e] = weight * f[e];
        d[k][e] = weight * (grad - delta) * static_cast<T>(r.a.scale);
      }
      put_pack<S, T>(r.weights, row.at + p, x[k]);
      put_pack<S, T>(r.slopes, row.at + p, d[k]);
    }
  }
}

// delta, the sums of grad times out: a warp for each row of each head.
template <class T>
__device__ __forceinline__ void deltas(const Attention& a, int64_t rows) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (i >= rows) return;
  const int64_t head = i / a.queries, query = i - head * a.queries;
  const int64_t g = begin_of(a, a.grad, head) + query * a.grad.row;
  const int64_t o = begin_of(a, a.out, head) + query * a.out.row;
  T sum = 0;
  for (int64_t c = threadIdx.x; c < a.width; c += 32)
    sum = fused(load_floating<T>(a.grad.data, a.grad.dtype, g + c * a.grad.col),
                load_floating<T>(a.out.data, a.out.dtype, o + c * a.out.col), sum);
  TYCHO_UNROLLED
  for (int by = 16; by; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
  if (threadIdx.x == 0) static_cast<T*>(a.delta)[i] = sum;
}

}  // namespace

#define ATTENTION_ROWS(kernel, suffix, body, T, S, plain)                   \
  extern "C" __global__ void __launch_bounds__(512, sizeof(T) == 4 ? 2 : 1) \
      attention_##kernel##_##suffix(AttentionRows r) {                      \
    body<T, S, plain>(r);                                                   \
  }                                                                         \
  TYCHO_KERNEL(attention_##kernel##_##suffix)
#define ATTENTION_TYPE(suffix, T, S)                         \
  ATTENTION_ROWS(weights, suffix, weights, T, S, false)      \
  ATTENTION_ROWS(plain_weights, suffix, weights, T, S, true) \
  ATTENTION_ROWS(slopes, suffix, slopes, T, S, false)        \
  ATTENTION_ROWS(plain_slopes, suffix, slopes, T, S, true)

ATTENTION_TYPE(f16, float, f16)
ATTENTION_TYPE(bf16, float, bf16)
ATTENTION_TYPE(f32, float, float)
ATTENTION_TYPE(f64, double, double)

extern "C" __global__ void attention_deltas_f32(Attention a, int64_t rows) {
  deltas<float>(a, rows);
}
extern "C" __global__ void attention_deltas_f64(Attention a, int64_t rows) {
  deltas<double>(a, rows);
}
TYCHO_KERNEL(attention_deltas_f32)
TYCHO_KERNEL(attention_deltas_f64)
