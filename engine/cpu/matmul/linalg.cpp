// Spectra of batches of matrices by LAPACK, one matrix of the batch per thread; of many small ones
// by spectra.h. Results lie column by column, as LAPACK writes them; of the rows of our matrices it
// reads the transpose, and each function says how it makes use of that.
#include "engine/ops/linear/linalg.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "engine/cpu/library/lapack.h"
#include "engine/cpu/matmul/bands.h"
#include "engine/cpu/matmul/batch.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/matmul/reflect.h"
#include "engine/cpu/matmul/spectra.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr long kOne = 1;  // the length of a Fortran character argument

constexpr int64_t kBandSide =
    1000;  // rows of matrices that are condensed faster here than by LAPACK

// Eigenvalues of the upper (or lower) triangle of m[n, n], and the vectors as rows if not null
// (they may lie in m's place), by own tridiagonal form. False, with nothing done, where LAPACK has
// to do it all.
template <class T>
bool eigen_by_bands(const Lapack<T>& l, int64_t n, bool upper, const T* m, T* values, T* vectors,
                    bool alone, int* info) {
  constexpr int kType = sizeof(T) == 4 ? 0 : 1;
  if (n < 2 || n > kBandSide) return false;
  const int64_t row = band_row(n), size = (n + kBandRows) * row;
  const Scratch scratch(static_cast<size_t>(size + 5 * row) * sizeof(T));
  T *const a = reinterpret_cast<T*>(scratch.data()), *const room = a + size;
  T *const e = room + 3 * row, *const tau = e + row;
  std::fill_n(a, size, T(0));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j) a[i * row + j] = upper ? m[i * n + j] : m[j * n + i];
  if (!level_of::squares_in_range(kType, size, static_cast<const void*>(a))) return false;
  level_of::tridiagonal(kType, n, static_cast<void*>(a), row, static_cast<void*>(values),
                        static_cast<void*>(e), static_cast<void*>(tau), static_cast<void*>(room));
  const int side = static_cast<int>(n);
  if (!vectors) return l.sterf(&side, values, e, info), true;
  const int lwork = 1 + 4 * side + side * side, liwork = 3 + 5 * side;
  const Scratch work(static_cast<size_t>(lwork) * sizeof(T));
  std::vector<int> iwork(static_cast<size_t>(liwork));
  l.stedc("I", &side, values, e, vectors, &side, reinterpret_cast<T*>(work.data()), &lwork,
          iwork.data(), &liwork, info, kOne);
  Reflections<T> q(n - 1, n - 1, alone);
  q.take(a + 1, row, tau);
  q.apply_right(vectors + 1, n, n, false);
  return true;
}

template <class T>
void transpose(int64_t rows, int64_t columns, const T* from, T* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

// Singular values of m[columns, rows], which lies column by column, and if not null the vectors,
// left[k, rows] and right[columns, k], column by column too, by own bidiagonal form. False as
// above.
template <class T>
bool singular_by_bands(const Lapack<T>& l, int64_t rows, int64_t columns, const T* m, T* values,
                       T* left, T* right, bool alone, int* info) {
  constexpr int kType = sizeof(T) == 4 ? 0 : 1;
  if (rows < columns) {  // the transpose: the vectors change their sides
    const Scratch other(
        static_cast<size_t>(left ? rows * (columns + rows) + rows * columns : rows * columns) *
        sizeof(T));
    T *const turn = reinterpret_cast<T*>(other.data()), *const u = turn + rows * columns,
             *const vt = u + rows * columns;
    transpose(columns, rows, m, turn);
    if (!singular_by_bands(l, columns, rows, static_cast<const T*>(turn), values,
                           left ? u : nullptr, left ? vt : nullptr, alone, info))
      return false;
    if (left) transpose(rows, columns, u, right), transpose(rows, rows, vt, left);
    return true;
  }
  if (columns < 2 || rows > kBandSide) return false;
  const int64_t row = band_row(columns), v_row = band_row(rows), size = (rows + kBandRows) * row;
  const Scratch scratch(static_cast<size_t>(size + 6 * row + (columns + 1) * v_row) * sizeof(T));
  T *const a = reinterpret_cast<T*>(scratch.data()), *const v = a + size;
  T *const room = v + columns * v_row, *const e = room + 3 * row + v_row;
  T *const tau_q = e + row, *const tau_p = tau_q + row;
  std::fill_n(a, size + columns * v_row, T(0));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) a[i * row + j] = m[j * rows + i];
  if (!level_of::squares_in_range(kType, size, static_cast<const void*>(a))) return false;
  level_of::bidiagonal(kType, rows, columns, static_cast<void*>(a), row, static_cast<void*>(v),
                       v_row, static_cast<void*>(values), static_cast<void*>(e),
                       static_cast<void*>(tau_q), static_cast<void*>(tau_p),
                       static_cast<void*>(room));
  const int n = static_cast<int>(columns), high = static_cast<int>(rows);
  std::vector<int> iwork(static_cast<size_t>(8 * n));
  const Scratch work(static_cast<size_t>((left ? 3 * columns : 0) * columns + 4 * n) * sizeof(T));
  l.bdsdc("U", left ? "I" : "N", &n, values, e, left, &high, right, &n, nullptr, nullptr,
          reinterpret_cast<T*>(work.data()), iwork.data(), info, kOne, kOne);
  if (!left) return true;
  for (int64_t j = 0; j < columns; ++j)
    std::fill(left + j * rows + columns, left + (j + 1) * rows, T(0));
  Reflections<T> q(rows, columns, alone), p(columns - 1, columns - 1, alone);
  q.take(v, v_row, tau_q);
  q.apply_right(left, rows, columns, false);
  p.take(a + 1, row, tau_p);
  p.apply(false, right + columns, columns, columns);
  return true;
}

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
            if (eigen_by_bands(l, n, upper, m, values, v ? m : nullptr, batch_count(a) > 1, &info))
              return info;
            l.syevd(job, uplo, &n, m, &n, values, work.data(), &lwork, iwork.data(), &isize, &info,
                    kOne, kOne);
            return info;
          };
        },
        [&](int code) { return not_converged(c.op->name, code); });
  });
  if (v) copy_raw(v, turned(rows));
}

// The same of matrices that are much longer than wide (or of the turned ones of those that are
// wide), by those of R of their QR: those are small squares, and one side's vectors are turned by
// Q. False, with nothing to rely on, where another way is better.
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
            if (!singular_by_bands(l, n, n, square.data(), s.data<T>() + i * n, u ? left : nullptr,
                                   u ? right : nullptr, count > 1, &info))
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
  if (many_small_matrices(count, m, n)) {
    const Tensor a = packed(c.tensor(0));
    const int64_t u_columns = u ? u.size(-1) : 0, vh_rows = u ? vh.size(-2) : 0;
    return by_type(a, [&](auto zero) {
      using T = decltype(zero);
      each_part(
          c, count, sizeof(T) == 4 ? 0 : 1,
          [&](int64_t i) { return all_finite(a.data<T>() + i * m * n, m * n); },
          [&](int type, int64_t first, int64_t some) {
            const void* const from = a.data<T>() + first * m * n;
            void* const values = s.data<T>() + first * std::min(m, n);
            void* const left = u ? u.data<T>() + first * m * u_columns : nullptr;
            void* const right = u ? vh.data<T>() + first * vh_rows * n : nullptr;
            level_of::small_singular(type, m, n, u_columns, vh_rows, some, from, values, left,
                                     right);
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
            if ((!u || !full || rows == columns) &&
                singular_by_bands(l, rows, columns, m, values, left, right, batch_count(a) > 1,
                                  &info))
              return info;
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
