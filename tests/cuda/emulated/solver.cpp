// cuSOLVER without a GPU: arguments are checked as the library would, the work is LAPACK's, in the
// stream's order: what was asked before is finished first.
#include "engine/cuda/solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/base/check.h"
#include "engine/cpu/library/lapack.h"
#include "engine/cuda/start.h"
#include "engine/ops/linear/linalg.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"
#include "tests/cuda/emulated/same.h"

namespace tycho::cuda {
namespace {

using solver::Handle;
using solver::Status;

constexpr Status kRefused = 3;
constexpr long kOne = 1;
constexpr int kSize = 37;  // of every workspace
Stream chosen = nullptr;
int calls = 0;

// Fills the workspace as the library may, and waits for what stands before in the stream.
template <class T>
bool begin(bool good, T* work, int size, int* info) {
  if (!good || !work || size != kSize || !info || !chosen) return false;
  ++calls;
  driver().finish_stream(chosen);
  std::fill_n(work, size, std::numeric_limits<T>::quiet_NaN());
  return true;
}

template <class T>
std::vector<T> room(int n) {
  return std::vector<T>(static_cast<size_t>(64 * (n + 2) * (n + 2)));
}

template <class T>
const Solver<T>& one();

template <class T>
Solver<T> make_fake() {
  Solver<T> f;
  f.create = [](Handle* h) { return *h = &calls, 0; };
  f.set_stream = [](Handle h, Stream s) { return chosen = s, h ? 0 : kRefused; };
  f.potrf_size = [](Handle, int, int, T*, int, int* size) { return *size = kSize, 0; };
  f.potrf = [](Handle, int uplo, int n, T* a, int lda, T* work, int size, int* info) {
    if (!begin(lda >= n && (uplo == 0 || uplo == 1), work, size, info)) return kRefused;
    cpu::lapack<T>().potrf(uplo == solver::kUpper ? "U" : "L", &n, a, &lda, info, kOne);
    return 0;
  };
  f.getrf_size =
      f.geqrf_size = [](Handle, int, int, T*, int, int* size) { return *size = kSize, 0; };
  f.getrf = [](Handle, int m, int n, T* a, int lda, T* work, int* pivots, int* info) {
    if (!begin(lda >= m && pivots, work, kSize, info)) return kRefused;
    cpu::lapack<T>().getrf(&m, &n, a, &lda, pivots, info);
    return 0;
  };
  f.getrs = [](Handle, int trans, int n, int sides, const T* a, int lda, const int* pivots, T* b,
               int ldb, int* info) {
    if (lda < n || ldb < n || !pivots || !info) return kRefused;
    driver().finish_stream(chosen);
    cpu::lapack<T>().getrs(trans == solver::kTransposed ? "T" : "N", &n, &sides, a, &lda, pivots, b,
                           &ldb, info, kOne);
    return 0;
  };
  f.syevd_size = [](Handle, int, int, int, const T*, int, const T*, int* size) {
    return *size = kSize, 0;
  };
  f.syevd = [](Handle, int job, int uplo, int n, T* a, int lda, T* w, T* work, int size,
               int* info) {
    if (!begin(lda >= n && w && (job == 0 || job == 1), work, size, info)) return kRefused;
    std::vector<T> real = room<T>(n);
    std::vector<int> integers(real.size());
    const int most = static_cast<int>(real.size());
    cpu::lapack<T>().syevd(job == solver::kWithVectors ? "V" : "N",
                           uplo == solver::kUpper ? "U" : "L", &n, a, &lda, w, real.data(), &most,
                           integers.data(), &most, info, kOne, kOne);
    return 0;
  };
  f.geqrf = [](Handle, int m, int n, T* a, int lda, T* tau, T* work, int size, int* info) {
    if (!begin(lda >= m && tau, work, size, info)) return kRefused;
    std::vector<T> real = room<T>(n);
    const int most = static_cast<int>(real.size());
    cpu::lapack<T>().geqrf(&m, &n, a, &lda, tau, real.data(), &most, info);
    return 0;
  };
  f.orgqr_size = [](Handle, int, int, int, const T*, int, const T*, int* size) {
    return *size = kSize, 0;
  };
  f.orgqr = [](Handle, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size,
               int* info) {
    if (!begin(lda >= m && m >= n && n >= k && k > 0, work, size, info)) return kRefused;
    std::vector<T> real = room<T>(n);
    const int most = static_cast<int>(real.size());
    cpu::lapack<T>().orgqr(&m, &n, &k, a, &lda, tau, real.data(), &most, info);
    return 0;
  };
  f.create_jacobi = [](solver::Jacobi* j) { return *j = &calls, 0; };
  f.gesvdj_size = [](Handle, int, int, int, int, const T*, int, const T*, const T*, int, const T*,
                     int, int* size, solver::Jacobi) { return *size = kSize, 0; };
  f.gesvdj_many_size = [](Handle, int, int, int, const T*, int, const T*, const T*, int, const T*,
                          int, int* size, solver::Jacobi, int) { return *size = kSize, 0; };
  f.gesvdj = [](Handle, int job, int thin, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v,
                int ldv, T* work, int size, int* info, solver::Jacobi j) {
    if (!begin(j && s && lda >= m && ldu >= m && ldv >= n && (job == 0 || (u && v)), work, size,
               info))
      return kRefused;
    const int k = std::min(m, n), right = thin ? k : n;
    std::vector<T> rows(static_cast<size_t>(right) * static_cast<size_t>(n));
    std::vector<T> real = room<T>(std::max(m, n));
    std::vector<int> integers(static_cast<size_t>(8 * k));
    const int most = static_cast<int>(real.size());
    cpu::lapack<T>().gesdd(job == 0 ? "N"
                           : thin   ? "S"
                                    : "A",
                           &m, &n, a, &lda, s, u, &ldu, rows.data(), &right, real.data(), &most,
                           integers.data(), info, kOne);
    for (int i = 0; job && i < right; ++i)
      for (int col = 0; col < n; ++col)
        v[i * ldv + col] = rows[static_cast<size_t>(col * right + i)];
    return 0;
  };
  f.gesvdj_many = [](Handle h, int job, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v,
                     int ldv, T* work, int size, int* info, solver::Jacobi j, int count) {
    if (m > 32 || n > 32) return kRefused;
    for (int i = 0; i < count; ++i) {
      const int64_t k = i;
      const Status status = one<T>().gesvdj(
          h, job, 0, m, n, a + k * lda * n, lda, s + k * std::min(m, n), job ? u + k * ldu * m : u,
          ldu, job ? v + k * ldv * n : v, ldv, work, size, info + i, j);
      if (status) return status;
    }
    return 0;
  };
  return f;
}

const Solver<float> floats = make_fake<float>();
const Solver<double> doubles = make_fake<double>();
template <>
const Solver<float>& one() {
  return floats;
}
template <>
const Solver<double>& one() {
  return doubles;
}
[[maybe_unused]] const bool is_set = (set_solver(&floats, &doubles), true);

TEST(CudaSolver, GoesThroughTheLibraryAndTellsWhichMatrixIsWrong) {
  emulated::start();
  start();
  const Device d{0};
  const Tensor good = op<"expand">(op<"eye">(3, Value(), DType::Float64, d), Sizes{2, 3, 3});
  const int before = calls;
  EXPECT_EQ(number_at(op<"cholesky">(good), 4), 1);
  EXPECT_EQ(calls, before + 2);
  const Tensor wrong = op<"clone">(good);
  op_<"mul">(op<"narrow">(wrong, 0, 1, 1), -1);
  try {
    op<"cholesky">(wrong);
    FAIL() << "nothing was raised";
  } catch (const Error& e) {
    EXPECT_EQ(e.text,
              "cholesky: the matrix is not positive definite (its leading 1 x 1 part) (matrix 2 of "
              "the batch)");
  }
  EXPECT_THROW(op<"inv">(op<"mul">(good, 0)), Error);
}

}  // namespace
}  // namespace tycho::cuda
