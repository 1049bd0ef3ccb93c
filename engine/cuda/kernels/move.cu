// Values from tensor to tensor, in any layout, converted to the type of the result; one value into
// a whole tensor.
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

template <class T>
__device__ inline void move(const Operands& w) {
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    int64_t at[2];
    places<2>(w, i, at);
    store<T>(w.data[0], w.dtype[0], at[0], load<T>(w.data[1], w.dtype[1], at[1]));
  }
}

extern "C" __global__ void move_i64(Operands w) { move<int64_t>(w); }
extern "C" __global__ void move_f32(Operands w) { move<float>(w); }
extern "C" __global__ void move_f64(Operands w) { move<double>(w); }

// An element's bytes, of 1, 2, 4 or 8.
template <class S>
__device__ inline void fill(const Operands& w) {
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    int64_t at[1];
    places<1>(w, i, at);
    put<S>(w.data[0], at[0], static_cast<S>(w.integer[0]));
  }
}

extern "C" __global__ void fill_1(Operands w) { fill<uint8_t>(w); }
extern "C" __global__ void fill_2(Operands w) { fill<uint16_t>(w); }
extern "C" __global__ void fill_4(Operands w) { fill<uint32_t>(w); }
extern "C" __global__ void fill_8(Operands w) { fill<uint64_t>(w); }

TYCHO_KERNEL(move_i64)
TYCHO_KERNEL(move_f32)
TYCHO_KERNEL(move_f64)
TYCHO_KERNEL(fill_1)
TYCHO_KERNEL(fill_2)
TYCHO_KERNEL(fill_4)
TYCHO_KERNEL(fill_8)
