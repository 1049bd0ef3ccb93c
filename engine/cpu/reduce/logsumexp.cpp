// logsumexp of lines that lie side by side, and of columns beside each other; other layouts take the
// operation's own way.
#include <algorithm>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/cpu/nn/loss.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kPart =
    4096;  // numbers of a line that are summed at a time, whatever the threads

void rows_of(const float* x, int64_t rows, int64_t n, float* y) {
  level_of::row_lse_f32(x, rows, n, y);
}
void rows_of(const double* x, int64_t rows, int64_t n, double* y) {
  level_of::row_lse_f64(x, rows, n, y);
}
void columns_of(const float* x, int64_t depth, int64_t stride, int64_t n, float* y) {
  level_of::column_lse_f32(x, depth, stride, n, y);
}
void columns_of(const double* x, int64_t depth, int64_t stride, int64_t n, double* y) {
  level_of::column_lse_f64(x, depth, stride, n, y);
}

// The lanes make inf into nan, which log(inf - inf) is; here it is inf, unless there is a nan.
template <class T>
void mend(const T* x, int64_t depth, int64_t step, T* y) {
  if (!std::isnan(*y)) return;
  for (int64_t k = 0; k < depth; ++k)
    if (std::isnan(x[k * step])) return;
  *y = static_cast<T>(INFINITY);
}

template <class T>
void lines(const T* x, int64_t rows, int64_t n, T* y) {
  if (n <= 2 * kPart) {
    parallel_for(rows, std::max<int64_t>(1, kPart / n), [&](int64_t begin, int64_t end) {
      rows_of(x + begin * n, end - begin, n, y + begin);
      for (int64_t r = begin; r < end; ++r) mend(x + r * n, n, 1, y + r);
    });
    return;
  }
  const int64_t parts = (n + kPart - 1) / kPart;
  std::vector<T> part(static_cast<size_t>(rows * parts));
  parallel_for(rows * parts, 4, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = k % parts * kPart, m = std::min(kPart, n - at);
      const T* const from = x + k / parts * n + at;
      T* const to = part.data() + k;
      rows_of(from, 1, m, to);
      mend(from, m, 1, to);
    }
  });
  lines(part.data(), rows, parts, y);
}

template <class T>
void columns(const T* x, int64_t outer, int64_t depth, int64_t inner, T* y) {
  parallel_for(outer, std::max<int64_t>(1, kPart / (depth * inner)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t o = begin; o < end; ++o) {
                   const T* const from = x + o * depth * inner;
                   T* const to = y + o * inner;
                   columns_of(from, depth, inner, inner, to);
                   for (int64_t j = 0; j < inner; ++j) mend(from + j, depth, inner, to + j);
                 }
               });
}

template <class T>
void reduce(const Tensor& x, int64_t outer, int64_t depth, int64_t inner, const Tensor& y) {
  if (inner == 1)
    lines(x.data<T>(), outer, depth, y.data<T>());
  else
    columns(x.data<T>(), outer, depth, inner, y.data<T>());
}

void logsumexp(Call& c) {
  const Tensor& out = c.out[0];
  const uint32_t bits = dim_bits(c, 1, c.tensor(0).rank());
  // The dimensions must be neighbours: [outer, depth, inner].
  int64_t outer = 1, depth = 1, inner = 1;
  bool neighbours = true;
  for (int d = 0; d < c.tensor(0).rank(); ++d) {
    const int64_t n = c.tensor(0).size(d);
    if (bits >> d & 1) {
      neighbours = neighbours && inner == 1;
      depth *= n;
    } else {
      (depth == 1 && (bits & ((1u << d) - 1)) == 0 ? outer : inner) *= n;
    }
  }
  if (!neighbours || c.tensor(0).numel() == 0 || inner > kPart) return c.op->run(c);
  const DType wide = out.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  const Tensor& input = c.tensor(0);
  const Tensor x = packed(input.dtype() == wide ? input : op<"to.dtype">(input, wide));
  const Tensor y = out.dtype() == wide && out.contiguous() ? out : empty(out.shape(), wide);
  if (wide == DType::Float64)
    reduce<double>(x, outer, depth, inner, y);
  else
    reduce<float>(x, outer, depth, inner, y);
  if (y.get() != out.get()) copy_raw(out, y);
}

BIND_KERNEL(Cpu, "logsumexp", logsumexp);

}  // namespace
}  // namespace tycho::cpu
