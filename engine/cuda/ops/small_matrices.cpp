// Launches of the kernels for small matrices.
#include "engine/cuda/kernels/factor.cuh"
#include "engine/cuda/ops/matrices.h"

namespace tycho::cuda {
namespace {

const char* kernel_for(const Tensor& a, const char* floats, const char* doubles) {
  return a.dtype() == DType::Float64 ? doubles : floats;
}

Grid blocks(int64_t n) { return {static_cast<unsigned>(std::min<int64_t>(n, 1 << 16))}; }

}  // namespace

bool is_small(int64_t rows) { return rows <= kSmallMatrix; }

void factor_small(const Tensor& a, const Tensor& pivots, int* info) {
  const Factors f{a.data(), pivots.data<int32_t>(), info, batch_count(a),
                  static_cast<int32_t>(a.size(-1))};
  launch(a.device(), {"factor", kernel_for(a, "factor_f32", "factor_f64")}, blocks(f.count),
         {kSmallThreads}, 0, f);
}

void substitute_small(const Tensor& a, const Tensor& pivots, const Tensor& b, bool transposed,
                      Triangle triangle) {
  const Substitution s{
      a.data(),     pivots ? pivots.data<int32_t>() : nullptr, b.data(),   batch_count(a),
      b.size(-1),   static_cast<int32_t>(a.size(-1)),          transposed, triangle.upper,
      triangle.unit};
  const int64_t chunks = (s.sides + kSmallColumns - 1) / kSmallColumns;
  launch(a.device(), {"factor", kernel_for(a, "substitute_f32", "substitute_f64")},
         blocks(s.count * chunks), {kSmallThreads}, 0, s);
}

}  // namespace tycho::cuda
