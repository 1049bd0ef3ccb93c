// Spectra of batches of matrices by LAPACK, one matrix of the batch per thread; of many small ones by
// spectra.h. Results lie column by column, as LAPACK writes them; of the rows of our matrices it reads
// the transpose, and each function says how it makes use of that.
#include "engine/ops/linear/linalg.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "engine/cpu/library/lapack.h"
#include "engine/cpu/matmul/batch.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/matmul/reflect.h"
#include "engine/cpu/matmul/spectra.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr long kOne = 1;  // the length of a Fortran character argument

// Eigenvalues to w, and the vectors to v where there is one. A symmetric matrix is its own
// transpose; the eigenvectors come out as rows.
void eigen(Call& c, const Tensor& w, const Tensor& v) {
  if (w.numel() == 0) return;
  const Tensor a = copied(c.tensor(0));
  const char *uplo = c.string(1)[0] == 'U' ? "L" : "U", *job = v ? "V" : "N";
  const int n = static_cast<int>(a.size(-1));
  const bool upper = uplo[0] == 'L';  // ours; the other triangle is not read
  const auto finite = [&](const auto* m) {
    for (int row = 0; row < n; ++row)
      if (!all_finite(m + row * n + (upper ? row : 0), upper ? n - row : row + 1)) return false;
    return true;
  };
  const bool small = many_small_matrices(batch_count(a), n, n);
  const Tensor rows = small && v ? empty(v.shape(), v.dtype(), v.device()) : a;  // the vectors
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    if (small)
      return each_part(
          c, batch_count(a), sizeof(T) == 4 ? 0 : 1,
          [&](int64_t i) { return finite(a.data<T>() + i * n * n); },
          [&](int type, int64_t first, int64_t some) {
            const void* const from = a.data<T>() + first * n * n;
            void *const values = w.data<T>() + first * n, *const vectors =
                                                              v ? rows.data<T>() + first * n * n
                                                                : nullptr;
            level_of::small_eigen(type, int64_t{n}, upper, some, from, values, vectors);
          });
    const auto& l = lapack_for<T>(batch_count(a), n);
    T size = 0;
    int isize = 0, asked = 0;
    const int ask = -1;
    l.syevd(job, uplo, &n, a.data<T>(), &n, w.data<T>(), &size, &ask, &isize, &ask, &asked, kOne,
            kOne);
    const int lwork = static_cast<int>(size);
    each_matrix(
        batch_count(a),
        [&] {
          return [&, work = std::vector<T>(static_cast<size_t>(lwork)),
                  iwork = std::vector<int>(static_cast<size_t>(isize))](int64_t i) mutable {
            T* m = a.data<T>() + i * n * n;
            if (!finite(m)) return kNotFinite;
            T* values = w.data<T>() + i * n;
            int info = 0;
            l.syevd(job, uplo, &n, m, &n, values, work.data(), &lwork, iwork.data(), &isize, &info,
                    kOne, kOne);
            return info;
          };
        },
        [&](int code) { return not_converged(c.op->name, code); });
  });
  if (v) copy_raw(v, turned(rows));
}

// The same of matrices that are much longer than wide (or of the turned ones of those that are wide),
// by those of R of their QR: those are small squares, and one side's vectors are turned by Q. False,
// with nothing to rely on, where another way is better.
bool singular_by_qr(Call& c, const Tensor& u, const Tensor& s, const Tensor& vh, bool full) {
  const Tensor& self = c.tensor(0);
  const bool tall = self.size(-2) >= self.size(-1);
  const int64_t length = self.size(tall ? -2 : -1), n = self.size(tall ? -1 : -2);
  const int64_t count = batch_count(s, 1);
  if ((u && full) || length < 2 * n || n == 0) return false;
  const bool by_columns = few_columns(length, n, n);
  const Tensor a = copied(by_columns == tall ? turned(self) : self);  // the long matrix
  std::atomic<bool> missed = false;
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack_for<T>(count, n);
    const char* job = u ? "S" : "N";
    const int side = static_cast<int>(n), ask = -1;
    T asked = 0, none = 0;
    int places = 0, code = 0;
    l.gesdd(job, &side, &side, &none, &side, &none, &none, &side, &none, &side, &asked, &ask,
            &places, &code, kOne);
    const int lwork = std::max(1, static_cast<int>(asked));
    each_matrix(
        count,
        [&] {
          const auto room = [](int64_t some) { return std::vector<T>(static_cast<size_t>(some)); };
          return [&, q = room(u ? n * length : 0), square = room(n * n), turn = room(u ? n * n : 0),
                  work = room(lwork),
                  iwork = std::vector<int>(static_cast<size_t>(8 * n))](int64_t i) mutable {
            T* const m = a.data<T>() + i * n * length;
            if (!all_finite(m, n * length)) return kNotFinite;
            if (!factor_qr(length, n, n, m, u ? q.data() : nullptr, count > 1)) {
              missed = true;
              return 0;
            }
            const int64_t row = by_columns ? 1 : n, col = by_columns ? length : 1;
            for (int64_t k = 0; k < n; ++k)  // R, or its transpose where the matrix is wide
              for (int64_t j = 0; j < n; ++j)
                square[tall ? j * n + k : k * n + j] = k <= j ? m[k * row + j * col] : 0;
            T* const own = u ? (tall ? vh : u).data<T>() + i * n * n : nullptr;
            T *const left = tall ? turn.data() : own, *const right = tall ? own : turn.data();
            int info = 0;
            l.gesdd(job, &side, &side, square.data(), &side, s.data<T>() + i * n, left, &side,
                    right, &side, work.data(), &lwork, iwork.data(), &info, kOne);
            if (!u || info) return info;
            Product p{.dtype = self.dtype(),
                      .m = n,
                      .n = length,
                      .k = n,
                      .a = turn.data(),
                      .b = q.data(),
                      .c = u.data<T>() + i * n * length,
                      .a_row = n,
                      .a_col = 1,
                      .b_row = length,
                      .b_col = 1,
                      .c_row = length,
                      .alone = count > 1};
            if (!tall)
              p = {.dtype = self.dtype(),
                   .m = length,
                   .n = n,
                   .k = n,
                   .a = q.data(),
                   .b = turn.data(),
                   .c = vh.data<T>() + i * n * length,
                   .a_row = 1,
                   .a_col = length,
                   .b_row = n,
                   .b_col = 1,
                   .c_row = n,
                   .alone = count > 1};
            gemm(p);
            return 0;
          };
        },
        [&](int code) { return not_converged(c.op->name, code); });
  });
  return !missed;
}

// Singular values to s, and the vectors to u and vh where there are some.
void singular(Call& c, const Tensor& u, const Tensor& s, const Tensor& vh, bool full) {
  const int64_t m = c.tensor(0).size(-2), n = c.tensor(0).size(-1), count = batch_count(s, 1);
  if (!u && many_small_matrices(count, m, n)) {
    const Tensor a = packed(c.tensor(0));
    return by_type(a, [&](auto zero) {
      using T = decltype(zero);
      each_part(
          c, count, sizeof(T) == 4 ? 0 : 1,
          [&](int64_t i) { return all_finite(a.data<T>() + i * m * n, m * n); },
          [&](int type, int64_t first, int64_t some) {
            const void* const from = a.data<T>() + first * m * n;
            void* const values = s.data<T>() + first * std::min(m, n);
            level_of::small_singular(type, m, n, some, from, values);
          });
    });
  }
  if (singular_by_qr(c, u, s, vh, full)) return;
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
    const auto& l = lapack_for<T>(batch_count(a), k);
    const int u_columns = u ? static_cast<int>(u.size(-1)) : 0;
    const int vh_rows = vh ? static_cast<int>(vh.size(-2)) : 1;
    const char* job = !u ? "N" : full ? "A" : "S";
    T size = 0, none = 0;
    int asked = 0, places = 0;
    const int ask = -1;
    l.gesdd(job, &rows, &columns, a.data<T>(), &rows, s.data<T>(), &none, &rows, &none, &vh_rows,
            &size, &ask, &places, &asked, kOne);
    const int lwork = std::max(1, static_cast<int>(size));
    each_matrix(
        batch_count(a),
        [&] {
          return [&, iwork = std::vector<int>(static_cast<size_t>(8 * k)),
                  work = std::vector<T>(static_cast<size_t>(lwork))](int64_t i) mutable {
            T* m = a.data<T>() + i * rows * columns;
            if (!all_finite(m, int64_t{rows} * columns)) return kNotFinite;
            T* values = s.data<T>() + i * k;
            T* left = u ? u.data<T>() + i * rows * u_columns : nullptr;
            T* right = vh ? vh.data<T>() + i * vh_rows * columns : nullptr;
            int info = 0;
            l.gesdd(job, &rows, &columns, m, &rows, values, left, &rows, right, &vh_rows,
                    work.data(), &lwork, iwork.data(), &info, kOne);
            return info;
          };
        },
        [&](int code) { return not_converged(c.op->name, code); });
  });
}

}  // namespace

void eigh(Call& c) { eigen(c, c.out[0], c.out[1]); }
void eigvalsh(Call& c) { eigen(c, c.out[0], Tensor()); }
void svd(Call& c) { singular(c, c.out[0], c.out[1], c.out[2], c.flag(1)); }
void svdvals(Call& c) { singular(c, Tensor(), c.out[0], Tensor(), false); }

BIND_KERNEL(Cpu, "eigh", eigh);
BIND_KERNEL(Cpu, "eigvalsh", eigvalsh);
BIND_KERNEL(Cpu, "svd", svd);
BIND_KERNEL(Cpu, "svdvals", svdvals);

}  // namespace tycho::cpu
