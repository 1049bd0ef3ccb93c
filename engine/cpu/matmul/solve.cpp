// Linear systems on batches of matrices: Cholesky's factor, triangular and general solvers, the
// inverse, determinants. Several matrices are worked on by a thread each, a single one by all.
#include <cmath>
#include <cstring>

#include "engine/cpu/matmul/batch.h"
#include "engine/cpu/matmul/factor.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The rows exchanged in a factorisation of n, without asking for memory where they are few.
class Swaps {
 public:
  explicit Swaps(int64_t n) : many_(n > kFactorBlock ? static_cast<size_t>(n) : 0) {}
  int* data() { return many_.empty() ? few_ : many_.data(); }

 private:
  std::vector<int> many_;
  int few_[kFactorBlock];
};

// How many matrices of n rows and `width` columns are worth a task.
int64_t worth(int64_t n, int64_t width) {
  constexpr int64_t kWork = 1 << 14, kEach = 32;  // in multiplications; what a matrix costs besides
  return std::max<int64_t>(1, kWork / (n * n * width + kEach));
}

void cholesky(Call& c) {
  const Tensor& out = c.out[0];
  const int64_t n = out.size(-1);
  if (out.numel() == 0) return;
  // Memory has the columns of the result one after another: as rows they are U of U^T U. The other
  // triangle's way there is the transpose.
  const bool upper = c.flag(1);
  copy_raw(upper ? turned(out) : out, c.tensor(0));
  const int64_t count = batch_count(out);
  by_type(out, [&](auto zero) {
    using T = decltype(zero);
    each_matrix(
        count,
        [&](int64_t i) {
          T* const a = out.data<T>() + i * n * n;
          const int64_t code = factor_cholesky(a, n, n, count > 1);
          for (int64_t row = 1; row < n; ++row) std::fill_n(a + row * n, row, T(0));
          if (upper)
            for (int64_t row = 1; row < n; ++row)
              for (int64_t k = 0; k < row; ++k) std::swap(a[row * n + k], a[k * n + row]);
          return code;
        },
        [&](int code) {
          return format("cholesky: the matrix is not positive definite (its leading %d x %d part)",
                        code, code);
        },
        worth(n, n));
  });
}

// X of A X = B where `left`, else of X A = B, which is A^T X^T = B^T.
void solve_triangular(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool upper = c.flag(2), left = c.flag(3), unit = c.flag(4);
  const Tensor a = packed(c.tensor(0)), x = copied(left ? c.tensor(1) : turned(c.tensor(1)));
  const int64_t n = a.size(-1), width = x.size(-1), count = batch_count(x);
  by_type(x, [&](auto zero) {
    using T = decltype(zero);
    each_matrix(
        count,
        [&](int64_t i) {
          const Triangle<T> t{upper == left,           unit,         n,
                              a.data<T>() + i * n * n, left ? n : 1, left ? 1 : n};
          solve_triangle(t, x.data<T>() + i * n * width, width, width, count > 1);
          return 0;
        },
        [](int) { return std::string(); }, worth(n, width));
  });
  copy_raw(out, left ? x : turned(x));
}

// Whether several systems are solved at once, in the lanes.
bool many_small(int64_t count, int64_t n, int64_t sides) {
  return count >= 4 && n <= kSmallSystem && sides <= kSmallSides;
}
// f(number, diagonal of U, sign of the exchanges) returns a code as each_matrix's f does.
template <class T, class F, class Message>
void each_small(const Tensor& a, T* b, int64_t sides, F&& f, Message&& message) {
  constexpr int64_t kGroup = 64;
  const int64_t n = a.size(-1), count = batch_count(a);
  const T* const from = a.data<T>();
  std::vector<int> info(static_cast<size_t>(count), 0);
  parallel_for((count + kGroup - 1) / kGroup, worth(n, n + sides) / kGroup + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t first = begin * kGroup; first < std::min(count, end * kGroup);
                      first += kGroup) {
                   T diagonal[kGroup * kSmallSystem], signs[kGroup];
                   const int64_t m = std::min(kGroup, count - first);
                   level_of::small_systems(sizeof(T) == 4 ? 0 : 1, n, sides, m,
                                           static_cast<const void*>(from + first * n * n),
                                           static_cast<void*>(b + first * n * sides),
                                           static_cast<void*>(diagonal), static_cast<void*>(signs));
                   for (int64_t k = 0; k < m; ++k)
                     info[static_cast<size_t>(first + k)] =
                         static_cast<int>(f(first + k, diagonal + k * n, signs[k]));
                 }
               });
  raise_first(info, message);
}

std::string no_pivot(const char* name, int code) {
  return format("%s: the matrix is singular (its pivot %d is zero)", name, code);
}

// Solves A X = B for the matrices x, whose rows begin with those of B.
void solve_rows(const char* name, const Tensor& a, const Tensor& x) {
  const int64_t n = a.size(-1), width = x.size(-1), count = batch_count(a);
  const auto singular = [&](int code) { return no_pivot(name, code); };
  by_type(x, [&](auto zero) {
    using T = decltype(zero);
    if (many_small(count, n, width))
      return each_small<T>(
          a, x.data<T>(), width,
          [&](int64_t, const T* diagonal, T) {
            const T* const none = std::find(diagonal, diagonal + n, T(0));
            return none == diagonal + n ? 0 : none - diagonal + 1;
          },
          singular);
    each_matrix(
        count,
        [&](int64_t i) -> int64_t {
          T *const lu = a.data<T>() + i * n * n, *const b = x.data<T>() + i * n * width;
          Swaps swapped(n);
          int* const swaps = swapped.data();
          const bool alone = count > 1;
          if (const int64_t code = factor_lu(lu, n, n, swaps, alone)) return code;
          for (int64_t k = 0; k < n; ++k)
            if (const int64_t other = swaps[k]; other != k)
              std::swap_ranges(b + k * width, b + (k + 1) * width, b + other * width);
          solve_triangle(Triangle<T>{false, true, n, lu, n, 1}, b, width, width, alone);
          solve_triangle(Triangle<T>{true, false, n, lu, n, 1}, b, width, width, alone);
          return 0;
        },
        singular, worth(n, n + width));
  });
}

// A, B, left; a vector is a matrix of one column.
void solve(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool vector = out.rank() == c.tensor(0).rank() - 1, left = vector || c.flag(2);
  const Tensor b = vector ? Tensor(op<"unsqueeze">(c.tensor(1), -1)) : c.tensor(1);
  const Tensor a = copied(left ? c.tensor(0) : turned(c.tensor(0))),
               x = copied(left ? b : turned(b));
  solve_rows(c.op->name, a, x);
  copy_raw(out, vector ? Tensor(op<"squeeze">(x, -1)) : left ? x : turned(x));
}

// X^T of A^T X^T = I, for the result lies by columns.
void inverse(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const Tensor a = copied(turned(c.tensor(0)));
  const int64_t n = a.size(-1), count = batch_count(a);
  if (!many_small(count, n, n)) {
    by_type(a, [&](auto zero) {
      using T = decltype(zero);
      each_matrix(
          count,
          [&](int64_t i) {
            Swaps swaps(n);
            const Scratch room(static_cast<size_t>(n * n) * sizeof(T));
            return invert_matrix(a.data<T>() + i * n * n, n, swaps.data(),
                                 reinterpret_cast<T*>(room.data()), count > 1);
          },
          [&](int code) { return no_pivot(c.op->name, code); }, worth(n, 2 * n));
    });
    return copy_raw(out, turned(a));
  }
  const Tensor x = copied(op<"expand">(op<"eye">(n, Value(), a.dtype(), a.device()), a.shape()));
  solve_rows(c.op->name, a, x);
  copy_raw(out, turned(x));
}

// LU of each matrix: f(number, diagonal of U and the step between its numbers, sign).
template <class T, class F>
void each_lu(const Tensor& self, F&& f) {
  const int64_t n = self.size(-1), count = batch_count(self);
  const auto message = [](int) { return std::string(); };
  if (many_small(count, n, 0))
    return each_small<T>(
        packed(self), static_cast<T*>(nullptr), 0,
        [&](int64_t i, const T* diagonal, T sign) { return f(i, diagonal, 1, sign), 0; }, message);
  const Tensor a = copied(self);
  each_matrix(
      count,
      [&](int64_t i) {
        Swaps swapped(n);
        int* const swaps = swapped.data();
        T* const lu = a.data<T>() + i * n * n;
        factor_lu(lu, n, n, swaps, count > 1);
        T sign = 1;
        for (int64_t k = 0; k < n; ++k) sign = swaps[k] != k ? -sign : sign;
        f(i, lu, n + 1, sign);
        return 0;
      },
      message, worth(n, n));
}

void slogdet(Call& c) {
  const int64_t n = c.tensor(0).size(-1);
  by_type(c.tensor(0), [&](auto zero) {
    using T = decltype(zero);
    T *signs = c.out[0].data<T>(), *logs = c.out[1].data<T>();
    each_lu<T>(c.tensor(0), [&](int64_t i, const T* diagonal, int64_t step, T sign) {
      T sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const T d = diagonal[k * step];
        sign = d == 0 ? 0 : d < 0 ? -sign : sign;
        sum += std::log(std::abs(d));
      }
      signs[i] = sign;
      logs[i] = sum;
    });
  });
}

void det(Call& c) {
  const int64_t n = c.tensor(0).size(-1);
  by_type(c.tensor(0), [&](auto zero) {
    using T = decltype(zero);
    T* const out = c.out[0].data<T>();
    each_lu<T>(c.tensor(0), [&](int64_t i, const T* diagonal, int64_t step, T product) {
      for (int64_t k = 0; k < n; ++k) product *= diagonal[k * step];
      out[i] = product;
    });
  });
}

BIND_KERNEL(Cpu, "solve", solve);
BIND_KERNEL(Cpu, "inv", inverse);
BIND_KERNEL(Cpu, "cholesky", cholesky);
BIND_KERNEL(Cpu, "solve_triangular", solve_triangular);
BIND_KERNEL(Cpu, "det", det);
BIND_KERNEL(Cpu, "slogdet", slogdet);

}  // namespace
}  // namespace tycho::cpu
