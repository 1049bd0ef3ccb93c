// cuSOLVER as a table of functions for float and one for double: loaded by the first factorisation,
// replaced by tests. Matrices lie by columns; a function's workspace is counted in elements, and what
// it found wrong stands in *info on the device.
#pragma once
#include "engine/cuda/driver.h"
#include "engine/tensor/device.h"

namespace tycho::cuda {

// Values of cusolverDn.h and cublas_api.h.
namespace solver {
using Status = int;
using Handle = void*;
using Jacobi = void*;  // settings of gesvdj; its own are good
enum : int { kLower = 0, kUpper = 1 };
enum : int { kPlain = 0, kTransposed = 1 };
enum : int { kValuesOnly = 0, kWithVectors = 1 };
}  // namespace solver

// F(name here, name in the library behind cusolverDnS or cusolverDnD, parameters)
#define TYCHO_SOLVER(F, T)                                                                         \
  F(potrf_size, potrf_bufferSize, (solver::Handle, int uplo, int n, T* a, int lda, int* size))     \
  F(potrf, potrf, (solver::Handle, int uplo, int n, T* a, int lda, T* work, int size, int* info))  \
  F(getrf_size, getrf_bufferSize, (solver::Handle, int m, int n, T* a, int lda, int* size))        \
  F(getrf, getrf, (solver::Handle, int m, int n, T* a, int lda, T* work, int* pivots, int* info))  \
  F(getrs, getrs,                                                                                  \
    (solver::Handle, int trans, int n, int sides, const T* a, int lda, const int* pivots, T* b,    \
     int ldb, int* info))                                                                          \
  F(syevd_size, syevd_bufferSize,                                                                  \
    (solver::Handle, int job, int uplo, int n, const T* a, int lda, const T* w, int* size))        \
  F(syevd, syevd,                                                                                  \
    (solver::Handle, int job, int uplo, int n, T* a, int lda, T* w, T* work, int size, int* info)) \
  F(geqrf_size, geqrf_bufferSize, (solver::Handle, int m, int n, T* a, int lda, int* size))        \
  F(geqrf, geqrf,                                                                                  \
    (solver::Handle, int m, int n, T* a, int lda, T* tau, T* work, int size, int* info))           \
  F(orgqr_size, orgqr_bufferSize,                                                                  \
    (solver::Handle, int m, int n, int k, const T* a, int lda, const T* tau, int* size))           \
  F(orgqr, orgqr,                                                                                  \
    (solver::Handle, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size,          \
     int* info))                                                                                   \
  F(gesvdj_size, gesvdj_bufferSize,                                                                \
    (solver::Handle, int job, int thin, int m, int n, const T* a, int lda, const T* s, const T* u, \
     int ldu, const T* v, int ldv, int* size, solver::Jacobi))                                     \
  F(gesvdj, gesvdj,                                                                                \
    (solver::Handle, int job, int thin, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v,    \
     int ldv, T* work, int size, int* info, solver::Jacobi))                                       \
  F(gesvdj_many_size, gesvdjBatched_bufferSize,                                                    \
    (solver::Handle, int job, int m, int n, const T* a, int lda, const T* s, const T* u, int ldu,  \
     const T* v, int ldv, int* size, solver::Jacobi, int count))                                   \
  F(gesvdj_many, gesvdjBatched,                                                                    \
    (solver::Handle, int job, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv,     \
     T* work, int size, int* info, solver::Jacobi, int count))

struct SolverHandles {
  solver::Status (*create)(solver::Handle*) = nullptr;
  solver::Status (*set_stream)(solver::Handle, Stream) = nullptr;
  solver::Status (*create_jacobi)(solver::Jacobi*) = nullptr;
};
template <class T>
struct Solver : SolverHandles {
#define FUNCTION(name, symbol, args) solver::Status(*name) args = nullptr;
  TYCHO_SOLVER(FUNCTION, T)
#undef FUNCTION
};

void set_solver(const Solver<float>* floats, const Solver<double>* doubles);  // for tests

// Raises Kind::Device when the library is missing.
template <class T>
const Solver<T>& solver_of();
// The device's handle, whose work goes to the calling thread's current stream from now on.
template <class T>
solver::Handle handle_of_solver(Device device);
template <class T>
solver::Jacobi jacobi_of();  // made once for all
void check_solver(solver::Status status, const char* what);

}  // namespace tycho::cuda
