// QR and least squares of batches of matrices, one matrix of the batch per thread; of many small
// ones by spectra.h. Results lie column by column.
#include <algorithm>
#include <vector>

#include "engine/cpu/matmul/batch.h"
#include "engine/cpu/matmul/factor.h"
#include "engine/cpu/matmul/reflect.h"
#include "engine/cpu/matmul/spectra.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The same by LAPACK, of numbers whose squares leave the type's range, and of nan: `a` lies column
// by column, and becomes R for upper().
template <class T, class Upper>
int qr_by_lapack(int rows, int columns, int q_columns, T* a, T* q, Upper&& upper) {
  const int k = std::min(rows, columns), lwork = std::max(1, 64 * std::max(columns, q_columns));
  std::vector<T> tau(static_cast<size_t>(k)), work(static_cast<size_t>(lwork));
  const auto& l = lapack_for<T>(0, k);
  int info = 0;
  l.geqrf(&rows, &columns, a, &rows, tau.data(), work.data(), &lwork, &info);
  upper(static_cast<const T*>(a));
  if (!q) return info;
  std::copy_n(a, static_cast<int64_t>(std::min(columns, q_columns)) * rows, q);
  l.orgqr(&rows, &q_columns, &k, q, &rows, tau.data(), work.data(), &lwork, &info);
  return info;
}

// X of least norm with A X = B as near as can be, for one matrix whose rank is certainly full: by
// the QR of [A B], or of A' where that is the long one. x[columns, sides] is written. False, with
// nothing done, where LAPACK must look closer.
template <class T>
bool solve_full_rank(int64_t rows, int64_t columns, int64_t sides, const T* a, const T* b, T* x,
                     double least, bool alone) {
  constexpr int kType = sizeof(T) == 4 ? 0 : 1;
  const bool tall = rows >= columns;
  if (!level_of::squares_in_range(kType, rows * columns, static_cast<const void*>(a)) ||
      !level_of::squares_in_range(kType, rows * sides, static_cast<const void*>(b)))
    return false;
  const int64_t n = std::min(rows, columns), length = std::max(rows, columns),
                width = tall ? n + sides : n;
  const bool by_columns = tall && few_columns(length, width, 0);
  const int64_t row = by_columns ? 1 : width, col = by_columns ? length : 1;
  std::vector<T> m(static_cast<size_t>(length * width)), r(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      m[tall ? i * row + j * col : j * width + i] = a[i * columns + j];
    for (int64_t j = 0; tall && j < sides; ++j) m[i * row + (n + j) * col] = b[i * sides + j];
  }
  Reflections<T> reflections(length, by_columns ? 0 : n, alone);
  if (!by_columns)
    reflections.factor(m.data(), width, width);
  else
    level_of::reflect_few(kType, length, width, n, int64_t{0}, static_cast<void*>(m.data()),
                          static_cast<void*>(nullptr));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j) r[i * n + j] = m[i * row + j * col];
  if (!well_conditioned(n, r.data(), least)) return false;
  if (tall) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < sides; ++j) x[i * sides + j] = m[i * row + (n + j) * col];
    solve_triangle(Triangle<T>{true, false, n, r.data(), n, 1}, x, sides, sides, alone);
    return true;
  }
  std::copy_n(b, n * sides, x);
  std::fill(x + n * sides, x + length * sides, T(0));
  solve_triangle(Triangle<T>{false, false, n, r.data(), 1, n}, x, sides, sides, alone);
  reflections.apply(false, x, sides, sides);
  return true;
}

// The same of any rank, by LAPACK, which gives that too: numbers lie column by column, and x begins
// with b.
template <class T>
int solve_any_rank(int rows, int columns, int sides, T* a, T* x, int high, T least, bool alone,
                   int* rank) {
  const auto& l = lapack_for<T>(alone ? 0 : 1, std::min(rows, columns));
  T size = 0;
  int info = 0, lwork = -1;
  std::vector<int> pivots(static_cast<size_t>(columns), 0);
  l.gelsy(&rows, &columns, &sides, a, &rows, x, &high, pivots.data(), &least, rank, &size, &lwork,
          &info);
  lwork = std::max(1, static_cast<int>(size));
  std::vector<T> work(static_cast<size_t>(lwork));
  l.gelsy(&rows, &columns, &sides, a, &rows, x, &high, pivots.data(), &least, rank, work.data(),
          &lwork, &info);
  return info;
}

}  // namespace

void qr(Call& c) {
  const Tensor &q = c.out[0], &r = c.out[1];
  const Tensor& self = c.tensor(0);
  const int rows = static_cast<int>(self.size(-2)), columns = static_cast<int>(self.size(-1));
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
  const bool by_columns = few_columns(rows, columns, q_columns);
  const Tensor a = copied(by_columns ? turned(self) : self);
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = batch_count(self);
    each_matrix(
        count,
        [&](int64_t i) {
          T* const m = a.data<T>() + i * rows * columns;
          T* const to = q_columns ? q.data<T>() + i * q_columns * rows : nullptr;
          const auto upper_of = [&](const T* from, int64_t row, int64_t col) {
            T* const out = r.data<T>() + i * r_rows * columns;
            for (int64_t j = 0; j < columns; ++j)
              for (int64_t p = 0; p < r_rows; ++p)
                out[j * r_rows + p] = p <= j ? from[p * row + j * col] : 0;
          };
          if (factor_qr(int64_t{rows}, int64_t{columns}, int64_t{q_columns}, m, to, count > 1)) {
            upper_of(m, by_columns ? 1 : columns, by_columns ? rows : 1);
            return 0;
          }
          // LAPACK wants columns
          std::vector<T> turn;
          if (!by_columns) {
            turn.resize(static_cast<size_t>(int64_t{rows} * columns));
            for (int64_t p = 0; p < rows; ++p)
              for (int64_t j = 0; j < columns; ++j)
                turn[static_cast<size_t>(j * rows + p)] = m[p * columns + j];
          }
          return qr_by_lapack(rows, columns, q_columns, by_columns ? m : turn.data(), to,
                              [&](const T* from) { upper_of(from, 1, rows); });
        },
        [](int code) { return format("qr: LAPACK refused argument %d", -code); });
  });
}

void least_squares(Call& c) {
  const Tensor &x = c.out[0], &rank = c.out[1];
  const Tensor a = packed(c.tensor(0)), b = packed(c.tensor(1));
  const int64_t rows = a.size(-2), columns = a.size(-1), sides = b.size(-1);
  std::fill_n(rank.data<int64_t>(), rank.numel(), 0);
  if (rows == 0 || columns == 0 || sides == 0) return copy_raw(x, op<"zeros_like">(x));
  const int64_t high = std::max(rows, columns), count = batch_count(a);
  const Tensor found = empty(x.shape(), x.dtype(), x.device());  // row by row
  by_type(a, [&](auto zero) {
    using T = decltype(zero);
    each_matrix(
        count,
        [&](int64_t i) {
          const T *const m = a.data<T>() + i * rows * columns, *const sought =
                                                                   b.data<T>() + i * rows * sides;
          T* const to = found.data<T>() + i * columns * sides;
          if (!all_finite(m, rows * columns)) return kNotFinite;
          int full = static_cast<int>(std::min(rows, columns)), info = 0;
          if (!solve_full_rank(rows, columns, sides, m, sought, to, c.number(2), count > 1)) {
            std::vector<T> turn(static_cast<size_t>(rows * columns)),
                both(static_cast<size_t>(high * sides));
            for (int64_t p = 0; p < rows; ++p) {
              for (int64_t j = 0; j < columns; ++j) turn[j * rows + p] = m[p * columns + j];
              for (int64_t j = 0; j < sides; ++j) both[j * high + p] = sought[p * sides + j];
            }
            info = solve_any_rank(static_cast<int>(rows), static_cast<int>(columns),
                                  static_cast<int>(sides), turn.data(), both.data(),
                                  static_cast<int>(high), static_cast<T>(c.number(2)), count > 1,
                                  &full);
            for (int64_t p = 0; p < columns; ++p)
              for (int64_t j = 0; j < sides; ++j) to[p * sides + j] = both[j * high + p];
          }
          rank.data<int64_t>()[i] = full;
          return info;
        },
        [](int code) { return not_converged("lstsq", code); });
  });
  copy_raw(x, found);
}

BIND_KERNEL(Cpu, "least_squares", least_squares);
BIND_KERNEL(Cpu, "qr", qr);

}  // namespace tycho::cpu
