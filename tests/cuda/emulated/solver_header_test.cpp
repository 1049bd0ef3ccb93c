// What solver.h says of cuSOLVER, against the library's own header where it is found.
#if __has_include(<cusolverDn.h>)
#include <cusolverDn.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "engine/cuda/solver.h"

namespace tycho::cuda {
namespace {

// Pointers go for pointers, numbers for enumerations of the same size.
template <class Ours, class Theirs>
constexpr bool same =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
template <class Ours, class Theirs>
struct Match : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Match<R (*)(A...), S (*)(B...)>
    : std::bool_constant<same<R, S> && (same<A, B> && ...)> {
};
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
