// Every row's kernel in the lanes it has, from the source that NVRTC gets, by the host's compiler.
#include "engine/cuda/kernels/rows.cuh"

#include <cuda_on_cpu.h>

namespace tycho::cuda {
namespace {

using lanes::LevelType;

template <class Value, int n, LevelType type, class T>
void run(Operands w) {
  constexpr bool integral = same_type<T, int64_t>;
  if constexpr (integral ? lanes::has_ints(type) : lanes::has_floats(type)) row<Value, n, T>(w);
}

#define ROW(name, operands, args, type, ...)                                                \
  [[maybe_unused]] const bool known_##name =                                                \
      emulated::add_kernel(                                                                 \
          "row_" #name "_f32",                                                              \
          emulated::binder(run<lanes::Value_##name, operands, LevelType::type, float>)) &&  \
      emulated::add_kernel(                                                                 \
          "row_" #name "_f64",                                                              \
          emulated::binder(run<lanes::Value_##name, operands, LevelType::type, double>)) && \
      emulated::add_kernel(                                                                 \
          "row_" #name "_i64",                                                              \
          emulated::binder(run<lanes::Value_##name, operands, LevelType::type, int64_t>));
#include "engine/ops/elementwise/elementwise.def"

}  // namespace
}  // namespace tycho::cuda
