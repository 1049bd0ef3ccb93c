// LAPACK and BLAS for float and double, from the system's OpenBLAS, loaded when first needed: most
// programs never do, and the library takes longer to start than the whole of Tycho.
// Matrices are column-major here; the names are LAPACK's without their type letter.
#pragma once

namespace tycho::cpu {

template <class T>
struct Lapack {
  using Int = const int*;
  using Char = const char*;
  void (*potrf)(Char uplo, Int n, T* a, Int lda, int* info, long);
  void (*trsm)(Char side, Char uplo, Char trans, Char diag, Int m, Int n, const T* alpha,
               const T* a, Int lda, T* b, Int ldb, long, long, long, long);
  void (*getrf)(Int m, Int n, T* a, Int lda, int* pivots, int* info);
  void (*getrs)(Char trans, Int n, Int nrhs, const T* a, Int lda, Int pivots, T* b, Int ldb,
                int* info, long);
  void (*syevd)(Char jobz, Char uplo, Int n, T* a, Int lda, T* w, T* work, Int lwork, int* iwork,
                Int liwork, int* info, long, long);
  void (*gesdd)(Char jobz, Int m, Int n, T* a, Int lda, T* s, T* u, Int ldu, T* vt, Int ldvt,
                T* work, Int lwork, int* iwork, int* info, long);
  void (*sterf)(Int n, T* d, T* e, int* info);
  void (*stedc)(Char compz, Int n, T* d, T* e, T* z, Int ldz, T* work, Int lwork, int* iwork,
                Int liwork, int* info, long);
  void (*bdsdc)(Char uplo, Char compq, Int n, T* d, T* e, T* u, Int ldu, T* vt, Int ldvt, T* q,
                int* iq, T* work, int* iwork, int* info, long, long);
  void (*gelsy)(Int m, Int n, Int nrhs, T* a, Int lda, T* b, Int ldb, int* pivots, const T* rcond,
                int* rank, T* work, Int lwork, int* info);
  void (*geqrf)(Int m, Int n, T* a, Int lda, T* tau, T* work, Int lwork, int* info);
  void (*orgqr)(Int m, Int n, Int k, T* a, Int lda, const T* tau, T* work, Int lwork, int* info);
};

// Raises Kind::Linalg when the library is not installed, naming the package.
template <class T>
const Lapack<T>& lapack();

// How many threads the library may use from here on, where it has its own. They wait for each other
// by spinning, so that several of them pay for large matrices only.
void lapack_threads(int most);

}  // namespace tycho::cpu
