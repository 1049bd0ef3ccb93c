// QR and least squares of batches of matrices, one matrix of the batch per thread; of many small ones by
// spectra.h. Results lie column by column.
#include <algorithm>
#include <vector>

#include "engine/cpu/matmul/batch.h"
#include "engine/cpu/matmul/reflect.h"
#include "engine/cpu/matmul/spectra.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The same by LAPACK, of numbers whose squares leave the type's range, and of nan: `a` lies column by
// column, and becomes R for upper().
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

BIND_KERNEL(Cpu, "least_squares", least_squares);
BIND_KERNEL(Cpu, "qr", qr);

}  // namespace tycho::cpu
