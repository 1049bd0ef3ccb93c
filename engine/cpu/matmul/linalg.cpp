// Linear algebra on batches of matrices by LAPACK, one matrix of the batch per thread. Results lie
// column by column, as LAPACK writes them; of the rows of our matrices it reads the transpose, and
// each function says how it makes use of that.
#include "engine/ops/linear/linalg.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/library/lapack.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr long kOne = 1;  // the length of a Fortran character argument

template <class F>
void by_type(const Tensor& t, F&& f) {
  if (t.dtype() == DType::Float32)
    f(float{});
  else
    f(double{});
}

int64_t batch_count(const Tensor& t, int inner = 2) {
  int64_t n = 1;
  for (int d = 0; d < t.rank() - inner; ++d) n *= t.size(d);
  return n;
}

// A row-major copy that may be written to.
Tensor copied(const Tensor& t) {
  Tensor out = empty(t.shape(), t.dtype(), t.device());
  copy_raw(out, t);
  return out;
}

// Runs f(i) for every matrix; raises with the first one for which it returned a LAPACK code.
template <class F, class Message>
void each_matrix(int64_t count, F&& f, Message&& message) {
  std::vector<int> info(static_cast<size_t>(count), 0);
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) info[static_cast<size_t>(i)] = f(i);
  });
  for (int64_t i = 0; i < count; ++i)
    if (const int code = info[static_cast<size_t>(i)]) {
      std::string text = message(code);
      if (count > 1) text += format(" (matrix %lld of the batch)", static_cast<long long>(i + 1));
      fail(Kind::Linalg, text);
    }
}

// LAPACK's iterations need not end on nan and infinity, so these never get there.
constexpr int kNotFinite = -1000;
template <class T>
bool all_finite(const T* m, int64_t count) {
  return std::all_of(m, m + count, [](T v) { return std::isfinite(v); });
}

std::string not_converged(const char* name, int code) {
  if (code == kNotFinite) return format("%s: the matrix holds nan or infinity", name);
  return format("%s: the algorithm did not converge (code %d)", name, code);
}

}  // namespace

void cholesky(Call& c) {
  const Tensor& out = c.out[0];
  copy_raw(out, c.tensor(0));
  const bool upper = c.flag(1);
  const int n = static_cast<int>(out.size(-1));
  if (out.numel() == 0) return;
  by_type(out, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack<T>();
    T* data = out.data<T>();
    each_matrix(
        batch_count(out),
        [&](int64_t i) {
          T* a = data + i * n * n;
          int info = 0;
          l.potrf(upper ? "U" : "L", &n, a, &n, &info, kOne);
          for (int column = 0; column < n; ++column)
            for (int row = 0; row < n; ++row)
              if (upper ? row > column : row < column) a[column * n + row] = 0;
          return info;
        },
        [&](int code) {
          return format("cholesky: the matrix is not positive definite (its leading %d x %d part)",
                        code, code);
        });
  });
}

// Of A's rows LAPACK sees the transpose, which it is told to turn back.
void solve_triangular(Call& c) {
  const Tensor& out = c.out[0];
  copy_raw(out, c.tensor(1));
  if (out.numel() == 0) return;
  const bool upper = c.flag(2), left = c.flag(3), unit = c.flag(4);
  const Tensor a = packed(c.tensor(0));
  const int n = static_cast<int>(a.size(-1)), rows = static_cast<int>(out.size(-2)),
            columns = static_cast<int>(out.size(-1));
  by_type(out, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack<T>();
    const T one = 1;
    parallel_for(batch_count(out), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        l.trsm(left ? "L" : "R", upper ? "L" : "U", "T", unit ? "U" : "N", &rows, &columns, &one,
               a.data<T>() + i * n * n, &n, out.data<T>() + i * rows * columns, &rows, kOne, kOne,
               kOne, kOne);
    });
  });
}

void solve_matrices(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool left = c.flag(2);
  const Tensor a = copied(c.tensor(0));
  const int n = static_cast<int>(a.size(-1));
  // LAPACK wants the right hand sides one after another: for left, that is B transposed.
  const Tensor b = copied(left ? turned(c.tensor(1)) : c.tensor(1));
  const int sides = static_cast<int>(b.size(-2));
  by_type(out, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack<T>();
    each_matrix(
        batch_count(a),
        [&](int64_t i) {
          std::vector<int> pivots(static_cast<size_t>(n));
          T* lu = a.data<T>() + i * n * n;
          int info = 0;
          l.getrf(&n, &n, lu, &n, pivots.data(), &info);
          if (info) return info;
          l.getrs(left ? "T" : "N", &n, &sides, lu, &n, pivots.data(),
                  b.data<T>() + i * static_cast<int64_t>(sides) * n, &n, &info, kOne);
          return info;
        },
        [&](int code) {
          return format("%s: the matrix is singular (its pivot %d is zero)", c.op->name, code);
        });
  });
  copy_raw(out, left ? turned(b) : b);
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

namespace {

// LU of each matrix: f(i, diagonal product's parts). The determinant of the transpose is the same.
template <class T, class F>
void each_lu(const Tensor& self, F&& f) {
  const Tensor a = copied(self);
  const int n = static_cast<int>(a.size(-1));
  const auto& l = lapack<T>();
  parallel_for(batch_count(a), 1, [&](int64_t begin, int64_t end) {
    std::vector<int> pivots(static_cast<size_t>(n));
    for (int64_t i = begin; i < end; ++i) {
      T* lu = a.data<T>() + i * n * n;
      int info = 0;
      if (n) l.getrf(&n, &n, lu, &n, pivots.data(), &info);
      bool odd = false;
      for (int k = 0; k < n; ++k) odd ^= pivots[static_cast<size_t>(k)] != k + 1;
      f(i, lu, n, odd);
    }
  });
}

}  // namespace

void slogdet(Call& c) {
  by_type(c.tensor(0), [&](auto zero) {
    using T = decltype(zero);
    T *sign = c.out[0].data<T>(), *log = c.out[1].data<T>();
    each_lu<T>(c.tensor(0), [&](int64_t i, const T* lu, int n, bool odd) {
      T s = odd ? -1 : 1, sum = 0;
      for (int k = 0; k < n; ++k) {
        const T d = lu[k * n + k];
        s = d == 0 ? 0 : d < 0 ? -s : s;
        sum += std::log(std::abs(d));
      }
      sign[i] = s;
      log[i] = sum;
    });
  });
}

void det(Call& c) {
  by_type(c.tensor(0), [&](auto zero) {
    using T = decltype(zero);
    T* out = c.out[0].data<T>();
    each_lu<T>(c.tensor(0), [&](int64_t i, const T* lu, int n, bool odd) {
      T product = odd ? -1 : 1;
      for (int k = 0; k < n; ++k) product *= lu[k * n + k];
      out[i] = product;
    });
  });
}

namespace {

// Eigenvalues to w, and the vectors to v where there is one. A symmetric matrix is its own
// transpose; the eigenvectors come out as rows.
void eigen(Call& c, const Tensor& w, const Tensor& v) {
  if (w.numel() == 0) return;
  const Tensor a = copied(c.tensor(0));
  const char *uplo = c.string(1)[0] == 'U' ? "L" : "U", *job = v ? "V" : "N";
  const int n = static_cast<int>(a.size(-1));
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack<T>();
    each_matrix(
        batch_count(a),
        [&](int64_t i) {
          T* m = a.data<T>() + i * n * n;
          const bool upper = uplo[0] == 'L';  // ours; the other triangle is not read
          for (int row = 0; row < n; ++row)
            if (!all_finite(m + row * n + (upper ? row : 0), upper ? n - row : row + 1))
              return kNotFinite;
          T* values = w.data<T>() + i * n;
          T size = 0;
          int isize = 0, info = 0;
          const int ask = -1;
          l.syevd(job, uplo, &n, m, &n, values, &size, &ask, &isize, &ask, &info, kOne, kOne);
          const int lwork = static_cast<int>(size);
          std::vector<T> work(static_cast<size_t>(lwork));
          std::vector<int> iwork(static_cast<size_t>(isize));
          l.syevd(job, uplo, &n, m, &n, values, work.data(), &lwork, iwork.data(), &isize, &info,
                  kOne, kOne);
          return info;
        },
        [&](int code) { return not_converged(c.op->name, code); });
  });
  if (v) copy_raw(v, turned(a));
}

// Singular values to s, and the vectors to u and vh where there are some.
void singular(Call& c, const Tensor& u, const Tensor& s, const Tensor& vh, bool full) {
  const Tensor a = copied(turned(c.tensor(0)));  // column by column
  const int rows = static_cast<int>(a.size(-1)), columns = static_cast<int>(a.size(-2));
  const int k = std::min(rows, columns);
  if (k == 0) {  // no values; the full vectors are those of the identity
    for (const Tensor* t : {&u, &vh})
      if (*t && t->numel())
        copy_raw(*t, op<"expand">(op<"eye">(t->size(-1), Value(), t->dtype()), t->shape()));
    return;
  }
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack<T>();
    const int u_columns = u ? static_cast<int>(u.size(-1)) : 0;
    const int vh_rows = vh ? static_cast<int>(vh.size(-2)) : 1;
    each_matrix(
        batch_count(a),
        [&](int64_t i) {
          T* m = a.data<T>() + i * rows * columns;
          if (!all_finite(m, int64_t{rows} * columns)) return kNotFinite;
          T* values = s.data<T>() + i * k;
          T* left = u ? u.data<T>() + i * rows * u_columns : nullptr;
          T* right = vh ? vh.data<T>() + i * vh_rows * columns : nullptr;
          std::vector<int> iwork(static_cast<size_t>(8 * k));
          T size = 0;
          int info = 0;
          const int ask = -1;
          const char* job = !u ? "N" : full ? "A" : "S";
          l.gesdd(job, &rows, &columns, m, &rows, values, left, &rows, right, &vh_rows, &size, &ask,
                  iwork.data(), &info, kOne);
          const int lwork = static_cast<int>(size);
          std::vector<T> work(static_cast<size_t>(std::max(1, lwork)));
          l.gesdd(job, &rows, &columns, m, &rows, values, left, &rows, right, &vh_rows, work.data(),
                  &lwork, iwork.data(), &info, kOne);
          return info;
        },
        [&](int code) { return not_converged(c.op->name, code); });
  });
}

}  // namespace

void eigh(Call& c) { eigen(c, c.out[0], c.out[1]); }
void eigvalsh(Call& c) { eigen(c, c.out[0], Tensor()); }
void svd(Call& c) { singular(c, c.out[0], c.out[1], c.out[2], c.flag(1)); }
void svdvals(Call& c) { singular(c, Tensor(), c.out[0], Tensor(), false); }

void least_squares(Call& c) {
  const Tensor &x = c.out[0], &rank = c.out[1];
  const Tensor a = copied(turned(c.tensor(0))), &b = c.tensor(1);
  const int rows = static_cast<int>(a.size(-1)), columns = static_cast<int>(a.size(-2));
  const int sides = static_cast<int>(b.size(-1)), high = std::max({1, rows, columns});
  std::fill_n(rank.data<int64_t>(), rank.numel(), 0);
  if (rows == 0 || columns == 0 || sides == 0) return copy_raw(x, op<"zeros_like">(x));
  // The right hand sides, one after another, with room for the results.
  Tensor sought = empty(joined(batch_of(a), {sides, high}), a.dtype(), a.device());
  copy_raw(op<"narrow">(sought, -1, 0, rows), turned(b));
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack<T>();
    const T least = static_cast<T>(c.number(2));
    each_matrix(
        batch_count(a),
        [&](int64_t i) {
          T* m = a.data<T>() + i * rows * columns;
          T* to = sought.data<T>() + i * sides * high;
          if (!all_finite(m, int64_t{rows} * columns)) return kNotFinite;
          std::vector<int> pivots(static_cast<size_t>(columns), 0);
          T size = 0;
          int info = 0, full = 0;
          const int ask = -1;
          l.gelsy(&rows, &columns, &sides, m, &rows, to, &high, pivots.data(), &least, &full, &size,
                  &ask, &info);
          const int lwork = std::max(1, static_cast<int>(size));
          std::vector<T> work(static_cast<size_t>(lwork));
          l.gelsy(&rows, &columns, &sides, m, &rows, to, &high, pivots.data(), &least, &full,
                  work.data(), &lwork, &info);
          rank.data<int64_t>()[i] = full;
          return info;
        },
        [](int code) { return not_converged("lstsq", code); });
  });
  copy_raw(x, turned(op<"narrow">(sought, -1, 0, columns)));
}

void qr(Call& c) {
  const Tensor &q = c.out[0], &r = c.out[1];
  const Tensor& self = c.tensor(0);
  const int rows = static_cast<int>(self.size(-2)), columns = static_cast<int>(self.size(-1));
  const int k = std::min(rows, columns);
  const int r_rows = static_cast<int>(r.size(-2));
  const bool with_q = c.string(1)[0] != 'r' || c.string(1)[1] != '\0';
  const int q_columns = with_q ? static_cast<int>(q.size(-1)) : 0;
  const Tensor a = copied(turned(self));  // LAPACK sees self itself
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack<T>();
    each_matrix(
        batch_count(self),
        [&](int64_t i) {
          T* m = a.data<T>() + i * rows * columns;
          std::vector<T> tau(static_cast<size_t>(std::max(1, k)));
          int info = 0;
          const int lwork = std::max(1, 64 * std::max(columns, q_columns)), lda = std::max(1, rows);
          std::vector<T> work(static_cast<size_t>(lwork));
          if (k) l.geqrf(&rows, &columns, m, &lda, tau.data(), work.data(), &lwork, &info);
          T* upper = r.data<T>() + i * r_rows * columns;
          for (int row = 0; row < r_rows; ++row)
            for (int j = 0; j < columns; ++j)
              upper[j * r_rows + row] = j >= row ? m[j * rows + row] : 0;
          if (with_q && q_columns) {
            T* to = q.data<T>() + i * q_columns * rows;
            std::copy(m, m + static_cast<int64_t>(std::min(columns, q_columns)) * rows, to);
            l.orgqr(&rows, &q_columns, &k, to, &lda, tau.data(), work.data(), &lwork, &info);
          }
          return info;
        },
        [](int code) { return format("qr: LAPACK refused argument %d", -code); });
  });
}

BIND_KERNEL(Cpu, "solve", solve);
BIND_KERNEL(Cpu, "inv", inverse);
BIND_KERNEL(Cpu, "cholesky", cholesky);
BIND_KERNEL(Cpu, "solve_triangular", solve_triangular);
BIND_KERNEL(Cpu, "det", det);
BIND_KERNEL(Cpu, "slogdet", slogdet);
BIND_KERNEL(Cpu, "eigh", eigh);
BIND_KERNEL(Cpu, "eigvalsh", eigvalsh);
BIND_KERNEL(Cpu, "svd", svd);
BIND_KERNEL(Cpu, "svdvals", svdvals);
BIND_KERNEL(Cpu, "least_squares", least_squares);
BIND_KERNEL(Cpu, "qr", qr);

}  // namespace tycho::cpu
