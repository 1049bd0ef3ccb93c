// Spectra, least squares and QR of batches of matrices by LAPACK, one matrix of the batch per thread;
// of many small ones by spectra.h. Results lie column by column, as LAPACK writes them; of the rows of our matrices it reads the transpose, and
// each function says how it makes use of that.
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

// LAPACK's iterations need not end on nan and infinity, so these never get there.
constexpr int kNotFinite = -1000;
template <class T>
bool all_finite(const T* m, int64_t count) {
  return std::all_of(m, m + count, [](T v) { return std::isfinite(v); });
}

// The library with as many threads as pay for `count` matrices, which are spread over ours if many.
template <class T>
const Lapack<T>& lapack_for(int64_t count, int64_t side) {
  constexpr int64_t kLarge = 512;
  lapack_threads(count == 1 && side >= kLarge ? get_num_threads() : 1);
  return lapack<T>();
}

std::string not_converged(const char* name, int code) {
  if (code == kNotFinite) return format("%s: the matrix holds nan or infinity", name);
  return format("%s: the algorithm did not converge (code %d)", name, code);
}

// Many small matrices, a part of them per thread: f(type, first, how many). `finite` says of a matrix
// whether it may be computed; the first that may not raises.
template <class Finite, class F>
void each_part(const Call& c, int64_t count, int type, Finite&& finite, F&& f) {
  constexpr int64_t kPart = 64;
  for (int64_t i = 0; i < count; ++i)
    if (!finite(i)) {
      std::vector<int> info(static_cast<size_t>(count), 0);
      info[static_cast<size_t>(i)] = kNotFinite;
      raise_first(info, [&](int code) { return not_converged(c.op->name, code); });
    }
  parallel_for((count + kPart - 1) / kPart, 1, [&](int64_t begin, int64_t end) {
    f(type, begin * kPart, std::min(count, end * kPart) - begin * kPart);
  });
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
  const int64_t count = batch_count(s, 1), size = dtype_size(self.dtype());
  if ((u && full) || length < 2 * n || !few_reflections(length, n, n, size)) return false;
  const Tensor a = copied(tall ? turned(self) : self);  // the long matrix, column by column
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
          return [&, q = room(u ? n * length : 0), square = room(n * n), turn = room(n * n),
                  work = room(lwork),
                  iwork = std::vector<int>(static_cast<size_t>(8 * n))](int64_t i) mutable {
            T* const m = a.data<T>() + i * n * length;
            if (!all_finite(m, n * length)) return kNotFinite;
            if (!level_of::reflect_qr(sizeof(T) == 4 ? 0 : 1, length, n, n, static_cast<void*>(m),
                                      static_cast<void*>(u ? q.data() : nullptr))) {
              missed = true;
              return 0;
            }
            for (int64_t j = 0; j < n; ++j)  // R, or its transpose where the matrix is wide
              for (int64_t k = 0; k < n; ++k)
                square[tall ? j * n + k : k * n + j] = k <= j ? m[j * length + k] : 0;
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
    const auto& l = lapack_for<T>(batch_count(a), std::min(rows, columns));
    const T least = static_cast<T>(c.number(2));
    T size = 0;
    int asked = 0, found = 0, places = 0;
    const int ask = -1;
    l.gelsy(&rows, &columns, &sides, a.data<T>(), &rows, sought.data<T>(), &high, &places, &least,
            &found, &size, &ask, &asked);
    const int lwork = std::max(1, static_cast<int>(size));
    each_matrix(
        batch_count(a),
        [&](int64_t i) {
          T* m = a.data<T>() + i * rows * columns;
          T* to = sought.data<T>() + i * sides * high;
          if (!all_finite(m, int64_t{rows} * columns)) return kNotFinite;
          std::vector<int> pivots(static_cast<size_t>(columns), 0);
          int info = 0, full = 0;
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
  if (const int64_t count = batch_count(self); many_small_matrices(count, rows, columns)) {
    const Tensor m = packed(self);
    return by_type(m, [&](auto zero) {
      using T = decltype(zero);
      each_part(
          c, count, sizeof(T) == 4 ? 0 : 1, [](int64_t) { return true; },
          [&](int type, int64_t first, int64_t some) {
            const void* const from = m.data<T>() + first * rows * columns;
            void* const to_r = r.data<T>() + first * r_rows * columns;
            void* const to_q = q_columns ? q.data<T>() + first * q_columns * rows : nullptr;
            level_of::small_qr(type, int64_t{rows}, int64_t{columns}, int64_t{q_columns},
                               int64_t{r_rows}, some, from, to_q, to_r);
          });
    });
  }
  const Tensor a = copied(turned(self));  // LAPACK sees self itself
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto& l = lapack_for<T>(batch_count(self), k);
    const int lwork = std::max(1, 64 * std::max(columns, q_columns)), lda = std::max(1, rows);
    const bool few = few_reflections(rows, columns, q_columns, sizeof(T));
    each_matrix(
        batch_count(self),
        [&] {
          return [&, tau = std::vector<T>(static_cast<size_t>(std::max(1, k))),
                  work = std::vector<T>(static_cast<size_t>(lwork))](int64_t i) mutable {
            T* m = a.data<T>() + i * rows * columns;
            T* to = with_q && q_columns ? q.data<T>() + i * q_columns * rows : nullptr;
            int info = 0;
            const bool done =
                few && level_of::reflect_qr(sizeof(T) == 4 ? 0 : 1, int64_t{rows}, int64_t{columns},
                                            int64_t{q_columns}, static_cast<void*>(m),
                                            static_cast<void*>(to));
            if (k && !done)
              l.geqrf(&rows, &columns, m, &lda, tau.data(), work.data(), &lwork, &info);
            T* upper = r.data<T>() + i * r_rows * columns;
            for (int row = 0; row < r_rows; ++row)
              for (int j = 0; j < columns; ++j)
                upper[j * r_rows + row] = j >= row ? m[j * rows + row] : 0;
            if (to && !done) {
              std::copy(m, m + static_cast<int64_t>(std::min(columns, q_columns)) * rows, to);
              l.orgqr(&rows, &q_columns, &k, to, &lda, tau.data(), work.data(), &lwork, &info);
            }
            return info;
          };
        },
        [](int code) { return format("qr: LAPACK refused argument %d", -code); });
  });
}

BIND_KERNEL(Cpu, "eigh", eigh);
BIND_KERNEL(Cpu, "eigvalsh", eigvalsh);
BIND_KERNEL(Cpu, "svd", svd);
BIND_KERNEL(Cpu, "svdvals", svdvals);
BIND_KERNEL(Cpu, "least_squares", least_squares);
BIND_KERNEL(Cpu, "qr", qr);

}  // namespace tycho::cpu
