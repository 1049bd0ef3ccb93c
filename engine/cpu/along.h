// Kernels that work along one dimension of row-major tensors, whatever lies around it (softmax,
// scans): the lines are cut out, and those of other types than the lanes' pass through a copy.
#pragma once
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/table/op.h"

namespace tycho::cpu {

constexpr int64_t kAlongWork = 16384;  // elements that are worth a task

// A tensor cut along one dimension: `rows` lines of n elements, `inner` apart.
struct Cut {
  int64_t n, inner, rows;
  Cut(const Tensor& t, int64_t dim) {
    const int d = wrap_dim(dim, t.rank());
    n = t.rank() ? t.size(d) : 1;
    inner = 1;
    for (int k = d + 1; k < t.rank(); ++k) inner *= t.size(k);
    rows = n ? t.numel() / n : 0;
  }
  int64_t first(int64_t row) const { return row / inner * n * inner + row % inner; }
};

// Runs over `count` inputs and the result: run(p, n) on lane-typed rows, columns(p, n, cols, step)
// on lane-typed blocks; p[0] is the result.
template <class Run, class Columns>
void over_rows(const Tensor* const* t, int count, const Cut& cut, Lanes lanes, Run&& run,
               Columns&& columns, int64_t block = 256) {
  if (cut.rows == 0) return;
  const DType lane_type = lanes == Lanes::F64   ? DType::Float64
                          : lanes == Lanes::F32 ? DType::Float32
                                                : DType::Int64;
  bool direct = true;
  for (int k = 0; k < count; ++k) direct = direct && t[k]->dtype() == lane_type;
  const auto at = [&](int k, int64_t element) {
    return t[k]->data() + element * dtype_size(t[k]->dtype());
  };
  if (direct && cut.inner >= 8) {
    const int64_t blocks = (cut.inner + block - 1) / block;
    parallel_for(cut.rows / cut.inner * blocks,
                 std::max<int64_t>(1, kAlongWork / (cut.n * std::min(block, cut.inner))),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t j = i % blocks * block,
                                   from = i / blocks * cut.n * cut.inner + j;
                     char* p[3];
                     for (int k = 0; k < count; ++k) p[k] = at(k, from);
                     columns(p, cut.n, std::min(block, cut.inner - j), cut.inner);
                   }
                 });
    return;
  }
  const int64_t lane_bytes = dtype_size(lane_type);
  parallel_for(cut.rows, std::max<int64_t>(1, kAlongWork / cut.n), [&](int64_t begin, int64_t end) {
    char* p[3];
    if (direct && cut.inner == 1) {
      for (int64_t row = begin; row < end; ++row) {
        for (int k = 0; k < count; ++k) p[k] = at(k, row * cut.n);
        run(p, cut.n);
      }
      return;
    }
    const Scratch scratch(static_cast<size_t>(count * cut.n * lane_bytes));
    for (int k = 0; k < count; ++k) p[k] = scratch.data() + k * cut.n * lane_bytes;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = cut.first(row);
      for (int k = 1; k < count; ++k)
        level_of::load_tile(static_cast<int>(lanes), static_cast<int>(t[k]->dtype()), p[k],
                            at(k, from), cut.inner, cut.n);
      run(p, cut.n);
      level_of::store_tile(static_cast<int>(lanes), static_cast<int>(t[0]->dtype()), at(0, from),
                           p[0], cut.inner, cut.n);
    }
  });
}

}  // namespace tycho::cpu
