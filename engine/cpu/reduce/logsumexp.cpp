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

// [outer, depth, inner], of which the last lie side by side.
struct Planes {
  int64_t outer, depth, inner, outer_step, step;
};

template <class T>
void columns(const T* x, const Planes& p, T* y) {
  constexpr int64_t kColumns = 1024;
  const int64_t width = std::min(kColumns, p.inner), parts = (p.inner + width - 1) / width;
  parallel_for(p.outer * parts, std::max<int64_t>(1, kPart / (p.depth * width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t j = i % parts * width, m = std::min(width, p.inner - j);
                   const T* const from = x + i / parts * p.outer_step + j;
                   T* const to = y + i / parts * p.inner + j;
                   columns_of(from, p.depth, p.step, m, to);
                   for (int64_t k = 0; k < m; ++k) mend(from + k, p.depth, p.step, to + k);
                 }
               });
}

template <class T>
void reduce(const Tensor& x, const Planes& p, const Tensor& y) {
  if (p.inner == 1)
    lines(x.data<T>(), p.outer, p.depth, y.data<T>());
  else
    columns(x.data<T>(), p, y.data<T>());
}

// Dimensions [from, to) as one: its step, or -1 where they lie at no single one.
int64_t common_step(const Tensor& x, int from, int to) {
  int64_t n = 1, step = 0;
  for (int d = to - 1; d >= from; --d) {
    if (x.size(d) == 1) continue;
    if (n == 1) step = x.stride(d);
    if (x.stride(d) != step * n) return -1;
    n *= x.size(d);
  }
  return step;
}

void logsumexp(Call& c) {
  const Tensor &input = c.tensor(0), &out = c.out[0];
  const int rank = input.rank();
  const uint32_t bits = dim_bits(c, 1, rank);
  // The dimensions must be neighbours: [outer, depth, inner].
  Planes p{1, 1, 1, 0, 0};
  bool neighbours = true;
  int first = rank, behind = rank;  // the dimensions [first, behind)
  for (int d = 0; d < rank; ++d) {
    const int64_t n = input.size(d);
    if (bits >> d & 1) {
      neighbours = neighbours && behind == rank;
      first = std::min(first, d);
      p.depth *= n;
      if (d + 1 < rank && !(bits >> (d + 1) & 1)) behind = d + 1;
    } else {
      (first == rank ? p.outer : p.inner) *= n;
    }
  }
  if (!neighbours || input.numel() == 0) return c.op->run(c);
  const DType wide = out.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  Tensor x = input.dtype() == wide ? input : op<"to.dtype">(input, wide);
  p.outer_step = common_step(x, 0, first);
  p.step = common_step(x, first, behind);
  const bool as_it_lies =
      p.inner > 1 && common_step(x, behind, rank) == 1 && p.outer_step >= 0 && p.step >= 0;
  if (!as_it_lies) {
    x = packed(x);
    p.outer_step = p.depth * p.inner;
    p.step = p.inner;
  }
  constexpr int64_t kShort = 8;
  if (p.inner > 1 && p.inner < kShort) {  // too few columns for lanes: they become lines
    const Tensor planes = as_it_lies ? packed(x) : x;
    x = packed(alias(planes, {p.outer, p.inner, p.depth}, {p.depth * p.inner, 1, p.inner},
                     planes->offset));
    p.outer *= p.inner, p.inner = 1;
  }
  const Tensor y = out.dtype() == wide && out.contiguous() ? out : empty(out.shape(), wide);
  if (p.depth == 1)
    copy_raw(alias(y, x.shape(), row_major(x.shape()), y->offset), x);
  else if (wide == DType::Float64)
    reduce<double>(x, p, y);
  else
    reduce<float>(x, p, y);
  if (y.get() != out.get()) copy_raw(out, y);
}

BIND_KERNEL(Cpu, "logsumexp", logsumexp);

}  // namespace
}  // namespace tycho::cpu
