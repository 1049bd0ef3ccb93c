// Singular values and vectors of batches of matrices on a device by cuSOLVER's Jacobi method, and least
// squares by them. The library sees our matrices themselves, by columns; V comes out with its vectors
// one after another, which are the rows of Vh.
#include <algorithm>

#include "engine/cuda/ops/matrices.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

void check_finite(const char* name, const Tensor& a) {
  TYCHO_CHECK(Kind::Linalg, integer_at(op<"all">(op<"isfinite">(a)), 0),
              "%s: the matrix holds nan or infinity", name);
}

// Values to s, and vectors to u and vh where there are some: all of them where `full`, else as many as
// there are values.
void singular(const char* name, const Tensor& self, const Tensor& u, const Tensor& s,
              const Tensor& vh, bool full) {
  const Device device = self.device();
  const int rows = static_cast<int>(self.size(-2)), columns = static_cast<int>(self.size(-1));
  const int k = std::min(rows, columns);
  const int64_t count = batch_count(self);
  if (k == 0 || count == 0) {  // no values; the full vectors are those of the identity
    for (const Tensor* t : {&u, &vh})
      if (*t && t->numel())
        copy_raw(*t, op<"expand">(op<"eye">(t->size(-1), Value(), t->dtype(), device), t->shape()));
    return;
  }
  check_finite(name, self);
  const Tensor a = copied(turned(self));
  // Many small ones go at once, with all vectors.
  const bool small = count > 1 && rows <= 32 && columns <= 32, thin = !full && !small;
  const int job = u ? solver::kWithVectors : solver::kValuesOnly;
  const int64_t left_size = int64_t{rows} * (thin ? k : rows),
                right_size = int64_t{columns} * (thin ? k : columns);
  const auto vectors = [&](int length, int64_t size) {
    return empty(joined(batch_of(self), {u ? size / length : 1, length}), a.dtype(), device);
  };
  const Tensor left = vectors(rows, left_size), right = vectors(columns, right_size);
  const Tensor values = empty(joined(batch_of(self), {k}), a.dtype(), device);
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& solver = solver_of<T>();
    const solver::Handle handle = handle_of_solver<T>(device);
    const solver::Jacobi settings = jacobi_of<T>();
    T *m = a.data<T>(), *to = values.data<T>(), *l = left.data<T>(), *r = right.data<T>();
    const auto message = [&](int code) {
      return format("%s: the algorithm did not converge (code %d)", name, code);
    };
    int size = 0;
    if (small) {
      const int all = static_cast<int>(count);
      check_solver(solver.gesvdj_many_size(handle, job, rows, columns, m, rows, to, l, rows, r,
                                           columns, &size, settings, all),
                   "gesvdjBatched");
      const Scratch work = elements<T>(device, size);
      return all_matrices(
          device, count,
          [&](int* info) {
            check_solver(solver.gesvdj_many(handle, job, rows, columns, m, rows, to, l, rows, r,
                                            columns, work.as<T>(), size, info, settings, all),
                         "gesvdjBatched");
          },
          message);
    }
    check_solver(solver.gesvdj_size(handle, job, thin, rows, columns, m, rows, to, l, rows, r,
                                    columns, &size, settings),
                 "gesvdj");
    const Scratch work = elements<T>(device, size);
    const int64_t left_step = u ? left_size : 0, right_step = u ? right_size : 0;
    each_matrix(
        device, count,
        [&](int64_t i, int* info) {
          check_solver(solver.gesvdj(handle, job, thin, rows, columns, m + i * rows * columns, rows,
                                     to + i * k, l + i * left_step, rows, r + i * right_step,
                                     columns, work.as<T>(), size, info, settings),
                       "gesvdj");
        },
        message);
  });
  copy_raw(s, values);
  if (!u) return;
  copy_raw(u, turned(op<"narrow">(left, -2, 0, u.size(-1))));
  copy_raw(vh, op<"narrow">(right, -2, 0, vh.size(-2)));
}

void svd(Call& c) { singular("svd", c.tensor(0), c.out[0], c.out[1], c.out[2], c.flag(1)); }
void svdvals(Call& c) { singular("svdvals", c.tensor(0), Tensor(), c.out[0], Tensor(), false); }

// Singular values up to rcond times the largest count as 0.
void least_squares(Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  if (a.numel() == 0 || b.numel() == 0) {
    for (const Tensor& out : c.out) copy_raw(out, op<"zeros_like">(out));
    return;
  }
  check_finite("lstsq", a);
  const auto parts = ops<"svd">(a, false);
  const Tensor& s = parts[1];
  const Tensor keep = fn::gt(s, op<"amax">(s, Sizes{-1}, true) * c.number(2));
  const Tensor weight = op<"where">(keep, fn::reciprocal(s), op<"zeros_like">(s));
  const Tensor inside = op<"matmul">(turned(parts[0]), b) * op<"unsqueeze">(weight, -1);
  copy_raw(c.out[0], op<"matmul">(turned(parts[2]), inside));
  copy_raw(c.out[1], op<"sum">(keep, Sizes{-1}));
}

BIND_KERNEL(Cuda, "svd", svd);
BIND_KERNEL(Cuda, "svdvals", svdvals);
BIND_KERNEL(Cuda, "least_squares", least_squares);

}  // namespace
}  // namespace tycho::cuda
