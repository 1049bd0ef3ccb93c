// Values from tensor to tensor, in any layout, converted to the type of the result; one value into
// a whole tensor.
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

// Four elements of a thread are on their way at a time.
template <class T>
__device__ inline void move(const Operands& w) {
  constexpr int kTogether = 4;
  const int64_t all = all_threads();
  int64_t i = first_element();
  for (; i + (kTogether - 1) * all < w.numel; i += kTogether * all) {
    int64_t to[kTogether], from[kTogether];
    T x[kTogether];
    TYCHO_UNROLLED
    for (int k = 0; k < kTogether; ++k) {
      int64_t at[2];
      places<2>(w, i + k * all, at);
      to[k] = at[0], from[k] = at[1];
    }
    load_several(w.data[1], w.dtype[1], from, x);
    TYCHO_UNROLLED
    for (int k = 0; k < kTogether; ++k) store<T>(w.data[0], w.dtype[0], to[k], x[k]);
  }
  for (; i < w.numel; i += all) {
    int64_t at[2];
    places<2>(w, i, at);
    store<T>(w.data[0], w.dtype[0], at[0], load<T>(w.data[1], w.dtype[1], at[1]));
  }
}

// Tiles of 32 x 32, which lie in lines of memory on both sides: along the last dimension the source's
// elements are neighbours, along the one before the result's. Threads are 32 x 8.
template <class T>
__device__ inline void turn(const Operands& w) {
  TYCHO_SHARED(T, tile, 32 * 33);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int last = w.rank - 1, before = w.rank - 2;
  const int64_t across = (w.size[last] + 31) / 32, along = (w.size[before] + 31) / 32;
  const int64_t block = blockIdx.x, line = over(block, across);
  int64_t stack = over(line, along);
  const int64_t column = (block - line * across) * 32, row = (line - stack * along) * 32;
  int64_t to = row + column * w.stride[0][last], from = row * w.stride[1][before] + column;
  for (int d = before - 1; d >= 0; --d) {
    const int64_t next = over(stack, w.size[d]), index = stack - next * w.size[d];
    to += index * w.stride[0][d];
    from += index * w.stride[1][d];
    stack = next;
  }
  const int64_t rows = w.size[before] - row, columns = w.size[last] - column;
  TYCHO_UNROLLED
  for (int k = 0; k < 32; k += 8)
    if (const int j = y + k; j < rows && x < columns)
      tile[j * 33 + x] = load<T>(w.data[1], w.dtype[1], from + j * w.stride[1][before] + x);
  __syncthreads();
  TYCHO_UNROLLED
  for (int k = 0; k < 32; k += 8)
    if (const int j = y + k; j < columns && x < rows)
      store<T>(w.data[0], w.dtype[0], to + j * w.stride[0][last] + x, T(tile[x * 33 + j]));
}

// An element's bytes, of 1, 2, 4 or 8.
template <class S>
__device__ inline void fill(const Operands& w) {
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    int64_t at[1];
    places<1>(w, i, at);
    put<S>(w.data[0], at[0], static_cast<S>(w.integer[0]));
  }
}

}  // namespace

#define KERNEL(name, argument)                                 \
  extern "C" __global__ void name(Operands w) { argument(w); } \
  TYCHO_KERNEL(name)
#define KERNELS(name) \
  KERNEL(name##_i64, name<int64_t>) KERNEL(name##_f32, name<float>) KERNEL(name##_f64, name<double>)
KERNELS(move)
KERNELS(turn)
KERNEL(fill_1, fill<uint8_t>)
KERNEL(fill_2, fill<uint16_t>)
KERNEL(fill_4, fill<uint32_t>)
KERNEL(fill_8, fill<uint64_t>)
