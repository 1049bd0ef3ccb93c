// What solver.h says of cuSOLVER, against the library's own header where it is found.
#if __has_include(<cusolverDn.h>)
#include <cusolverDn.h>
#include <gtest/gtest.h>

#include "engine/cuda/solver.h"
#include "tests/cuda/emulated/signatures.h"

namespace tycho::cuda {
namespace {

#define FUNCTION(name, symbol, args)                                                          \
  static_assert(Match<decltype(Solver<float>::name), decltype(&cusolverDnS##symbol)>::value); \
  static_assert(Match<decltype(Solver<double>::name), decltype(&cusolverDnD##symbol)>::value);
TYCHO_SOLVER(FUNCTION, float)
#undef FUNCTION

TEST(CudaSolver, ItsNumbersAreThoseOfTheLibrarysHeader) {
  EXPECT_EQ(int(solver::kLower), CUBLAS_FILL_MODE_LOWER);
  EXPECT_EQ(int(solver::kUpper), CUBLAS_FILL_MODE_UPPER);
  EXPECT_EQ(int(solver::kPlain), CUBLAS_OP_N);
  EXPECT_EQ(int(solver::kTransposed), CUBLAS_OP_T);
  EXPECT_EQ(int(solver::kValuesOnly), CUSOLVER_EIG_MODE_NOVECTOR);
  EXPECT_EQ(int(solver::kWithVectors), CUSOLVER_EIG_MODE_VECTOR);
}

}  // namespace
}  // namespace tycho::cuda
#endif
