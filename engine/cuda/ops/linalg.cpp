// Factorisations of batches of matrices by cuSOLVER, one matrix after the other in the stream; systems
// of few rows by kernels of our own, all at once. As on the CPU (cpu/matmul/linalg.cpp) the library's
// results lie by columns, and of the rows of our matrices it reads the transpose. What went wrong is
// looked at when all are asked for.
#include <algorithm>

#include "engine/cuda/ops/matrices.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/graph.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

void cholesky(Call& c) {
  const Tensor& out = c.out[0];
  copy_raw(out, c.tensor(0));
  if (out.numel() == 0) return;
  const bool upper = c.flag(1);
  const int n = static_cast<int>(out.size(-1)), uplo = upper ? solver::kUpper : solver::kLower;
  by_type(out, [&](auto zero) {
    using T = decltype(zero);
    const auto& s = solver_of<T>();
    const solver::Handle handle = handle_of_solver<T>(out.device());
    T* data = out.data<T>();
    int size = 0;
    check_solver(s.potrf_size(handle, uplo, n, data, n, &size), "potrf");
    const Scratch work = elements<T>(out.device(), size);
    each_matrix(
        out.device(), batch_count(out),
        [&](int64_t i, int* info) {
          check_solver(s.potrf(handle, uplo, n, data + i * n * n, n, work.as<T>(), size, info),
                       "potrf");
        },
        [&](int code) {
          return format("cholesky: the matrix is not positive definite (its leading %d x %d part)",
                        code, code);
        });
  });
  copy_raw(out, upper ? op<"triu">(out) : op<"tril">(out));
}

std::string singular(const Call& c, int code) {
  return format("%s: the matrix is singular (its pivot %d is zero)", c.op->name, code);
}

// X A = B is A^T X^T = B^T.
void solve_small(const Call& c, bool left) {
  const Tensor& out = c.out[0];
  const Device device = out.device();
  not_while_capturing(device, "looking whether matrices are singular");
  const Tensor a = copied(c.tensor(0)), x = copied(left ? c.tensor(1) : turned(c.tensor(1)));
  const Tensor pivots = empty(Sizes{batch_count(a), a.size(-1)}, DType::Int32, device);
  all_matrices(
      device, batch_count(a),
      [&](int* info) {
        factor_small(a, pivots, info);
        substitute_small(a, pivots, x, !left);
      },
      [&](int code) { return singular(c, code); });
  copy_raw(out, left ? x : turned(x));
}

void solve_matrices(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool left = c.flag(2);
  if (is_small(c.tensor(0).size(-1))) return solve_small(c, left);
  const Tensor a = copied(c.tensor(0));
  const Device device = a.device();
  const int n = static_cast<int>(a.size(-1));
  // The right hand sides one after another: for left, that is B transposed.
  const Tensor b = copied(left ? turned(c.tensor(1)) : c.tensor(1));
  const int sides = static_cast<int>(b.size(-2));
  by_type(out, [&](auto zero) {
    using T = decltype(zero);
    const auto& s = solver_of<T>();
    const solver::Handle handle = handle_of_solver<T>(device);
    int size = 0;
    check_solver(s.getrf_size(handle, n, n, a.data<T>(), n, &size), "getrf");
    const Scratch work = elements<T>(device, size), pivots = elements<int>(device, n);
    const Scratch refused = elements<int>(device, 1);  // getrs finds nothing wrong with numbers
    each_matrix(
        device, batch_count(a),
        [&](int64_t i, int* info) {
          T* lu = a.data<T>() + i * n * n;
          check_solver(s.getrf(handle, n, n, lu, n, work.as<T>(), pivots.as<int>(), info), "getrf");
          check_solver(s.getrs(handle, left ? solver::kTransposed : solver::kPlain, n, sides, lu, n,
                               pivots.as<int>(), b.data<T>() + i * sides * n, n, refused.as<int>()),
                       "getrs");
        },
        [&](int code) { return singular(c, code); });
  });
  copy_raw(out, left ? turned(b) : b);
}

// A triangle is its own U beside an L of ones, with no rows exchanged; a lower one is the transpose of
// what the library sees of it.
void solve_triangular(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool upper = c.flag(2), left = c.flag(3), unit = c.flag(4);
  const Device device = out.device();
  const Tensor& given = c.tensor(0);
  if (is_small(given.size(-1))) {
    const Tensor x = copied(left ? c.tensor(1) : turned(c.tensor(1)));
    substitute_small(packed(given), Tensor(), x, !left, {upper, unit});
    return copy_raw(out, left ? x : turned(x));
  }
  Tensor triangle = upper ? op<"triu">(given, int64_t{unit}) : op<"tril">(given, -int64_t{unit});
  const int n = static_cast<int>(given.size(-1));
  if (unit) triangle = triangle + op<"eye">(n, Value(), given.dtype(), device);
  const Tensor u = packed(upper ? turned(triangle) : triangle);
  // The right hand sides one after another; X A = B is A^T X^T = B^T.
  const Tensor b = copied(left ? turned(c.tensor(1)) : c.tensor(1));
  const int sides = static_cast<int>(b.size(-2));
  const Tensor pivots = op<"arange">(n, DType::Int32, device) + 1;
  by_type(out, [&](auto zero) {
    using T = decltype(zero);
    const auto& s = solver_of<T>();
    const solver::Handle handle = handle_of_solver<T>(device);
    const Scratch refused = elements<int>(device, 1);
    for (int64_t i = 0; i < batch_count(u); ++i)
      check_solver(s.getrs(handle, upper == left ? solver::kPlain : solver::kTransposed, n, sides,
                           u.data<T>() + i * n * n, n, pivots.data<int>(),
                           b.data<T>() + i * sides * n, n, refused.as<int>()),
                   "getrs");
  });
  copy_raw(out, left ? turned(b) : b);
}

// The diagonals of U, and what sign the exchanges of rows give. A pivot of 0 is a determinant.
struct Diagonals {
  Tensor values, sign;
};
Diagonals diagonals(const Tensor& self) {
  const Tensor a = copied(self);
  const Device device = a.device();
  const int n = static_cast<int>(a.size(-1));
  const Tensor pivots = empty(Sizes{batch_count(a), n}, DType::Int32, device);
  if (a.numel() && is_small(n))
    factor_small(a, pivots, nullptr);
  else if (a.numel())
    by_type(a, [&](auto zero) {
      using T = decltype(zero);
      const auto& s = solver_of<T>();
      const solver::Handle handle = handle_of_solver<T>(device);
      int size = 0;
      check_solver(s.getrf_size(handle, n, n, a.data<T>(), n, &size), "getrf");
      const Scratch work = elements<T>(device, size), singular = elements<int>(device, 1);
      for (int64_t i = 0; i < batch_count(a); ++i)
        check_solver(s.getrf(handle, n, n, a.data<T>() + i * n * n, n, work.as<T>(),
                             pivots.data<int>() + i * n, singular.as<int>()),
                     "getrf");
    });
  const Tensor stays = op<"arange">(n, DType::Int32, device) + 1;
  const Tensor odd = op<"remainder">(op<"sum">(fn::ne(pivots, stays), Sizes{-1}), 2);
  return {op<"diagonal">(a, 0, -2, -1),
          op<"reshape">(1 - 2 * op<"to.dtype">(odd, a.dtype()), batch_of(a))};
}

void det(Call& c) {
  const Diagonals d = diagonals(c.tensor(0));
  copy_raw(c.out[0], d.sign * op<"prod">(d.values, Sizes{-1}));
}
void slogdet(Call& c) {
  const Diagonals d = diagonals(c.tensor(0));
  copy_raw(c.out[0], d.sign * op<"prod">(fn::sign(d.values), Sizes{-1}));
  copy_raw(c.out[1], op<"sum">(fn::log(fn::abs(d.values)), Sizes{-1}));
}

// A, B, left; a vector as a matrix of one column.
void solve(Call& c) {
  if (c.out[0].rank() == c.tensor(0).rank()) return solve_matrices(c);
  Call d(*c.op);
  d.n = 3;
  d.set(0, c.tensor(0));
  d.set(1, op<"unsqueeze">(c.tensor(1), -1));
  d.arg[2] = Value(true);
  d.out.push_back(op<"unsqueeze">(c.out[0], -1));
  solve_matrices(d);
}

void inverse(Call& c) {
  const Tensor& a = c.tensor(0);
  const Tensor eye = op<"eye">(a.size(-1), Value(), a.dtype(), a.device());
  Call d(*c.op);
  d.n = 3;
  d.set(0, a);
  d.set(1, op<"expand">(eye, a.shape()));
  d.arg[2] = Value(true);
  d.out.push_back(c.out[0]);
  solve_matrices(d);
}

// Eigenvalues to w, and the vectors to v where there is one: they come out as rows. The triangle that
// is not asked for is not read.
void eigen(Call& c, const Tensor& w, const Tensor& v) {
  if (w.numel() == 0) return;
  const bool upper = c.string(1)[0] == 'U';
  const Tensor a = copied(c.tensor(0));
  const Device device = a.device();
  TYCHO_CHECK(Kind::Linalg,
              integer_at(op<"all">(op<"isfinite">(upper ? op<"triu">(a) : op<"tril">(a))), 0),
              "%s: the matrix holds nan or infinity", c.op->name);
  const int n = static_cast<int>(a.size(-1)), uplo = upper ? solver::kLower : solver::kUpper;
  const int job = v ? solver::kWithVectors : solver::kValuesOnly;
  const Tensor values = w.contiguous() ? w : empty(w.shape(), w.dtype(), device);
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& s = solver_of<T>();
    const solver::Handle handle = handle_of_solver<T>(device);
    int size = 0;
    check_solver(s.syevd_size(handle, job, uplo, n, a.data<T>(), n, values.data<T>(), &size),
                 "syevd");
    const Scratch work = elements<T>(device, size);
    each_matrix(
        device, batch_count(a),
        [&](int64_t i, int* info) {
          check_solver(s.syevd(handle, job, uplo, n, a.data<T>() + i * n * n, n,
                               values.data<T>() + i * n, work.as<T>(), size, info),
                       "syevd");
        },
        [&](int code) {
          return format("%s: the algorithm did not converge (code %d)", c.op->name, code);
        });
  });
  if (values.get() != w.get()) copy_raw(w, values);
  if (v) copy_raw(v, turned(a));
}
void eigh(Call& c) { eigen(c, c.out[0], c.out[1]); }
void eigvalsh(Call& c) { eigen(c, c.out[0], Tensor()); }

void qr(Call& c) {
  const Tensor &q = c.out[0], &r = c.out[1], &self = c.tensor(0);
  const Device device = self.device();
  const int rows = static_cast<int>(self.size(-2)), columns = static_cast<int>(self.size(-1));
  const int k = std::min(rows, columns);
  const bool with_q = std::string_view(c.string(1)) != "r" && q.numel() > 0;
  if (self.numel() == 0) {
    if (with_q)
      copy_raw(q, op<"expand">(op<"eye">(q.size(-1), Value(), q.dtype(), device), q.shape()));
    return;
  }
  const int q_columns = with_q ? static_cast<int>(q.size(-1)) : 0;
  const Tensor a = copied(turned(self)), seen = turned(a);  // the library sees self itself
  const Tensor to = with_q ? empty(turned(q).shape(), q.dtype(), device) : Tensor();
  const int64_t count = batch_count(self);
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& s = solver_of<T>();
    const solver::Handle handle = handle_of_solver<T>(device);
    const auto refused = [](int code) { return format("qr: cuSOLVER refused argument %d", -code); };
    const Scratch tau = elements<T>(device, count * k);
    int size = 0, q_size = 0;
    check_solver(s.geqrf_size(handle, rows, columns, a.data<T>(), rows, &size), "geqrf");
    if (with_q)
      check_solver(
          s.orgqr_size(handle, rows, q_columns, k, to.data<T>(), rows, tau.as<T>(), &q_size),
          "orgqr");
    const Scratch work = elements<T>(device, std::max(size, q_size));
    each_matrix(
        device, count,
        [&](int64_t i, int* info) {
          check_solver(s.geqrf(handle, rows, columns, a.data<T>() + i * rows * columns, rows,
                               tau.as<T>() + i * k, work.as<T>(), size, info),
                       "geqrf");
        },
        refused);
    copy_raw(r, op<"triu">(op<"narrow">(seen, -2, 0, r.size(-2))));
    if (!with_q) return;
    const int both = std::min(columns, q_columns);
    copy_raw(op<"narrow">(to, -2, 0, both), op<"narrow">(a, -2, 0, both));
    each_matrix(
        device, count,
        [&](int64_t i, int* info) {
          check_solver(s.orgqr(handle, rows, q_columns, k, to.data<T>() + i * q_columns * rows,
                               rows, tau.as<T>() + i * k, work.as<T>(), q_size, info),
                       "orgqr");
        },
        refused);
    copy_raw(q, turned(to));
  });
}

BIND_KERNEL(Cuda, "solve", solve);
BIND_KERNEL(Cuda, "inv", inverse);
BIND_KERNEL(Cuda, "solve_triangular", solve_triangular);
BIND_KERNEL(Cuda, "det", det);
BIND_KERNEL(Cuda, "slogdet", slogdet);
BIND_KERNEL(Cuda, "cholesky", cholesky);
BIND_KERNEL(Cuda, "eigh", eigh);
BIND_KERNEL(Cuda, "eigvalsh", eigvalsh);
BIND_KERNEL(Cuda, "qr", qr);

}  // namespace
}  // namespace tycho::cuda
