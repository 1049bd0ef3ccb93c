// The driver's table against cuda.h, where there is a toolkit: every function's parameters take as much
// room as the real ones', every number is the real one. It is checked while this is compiled.
#include <gtest/gtest.h>

#include "engine/cuda/driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <type_traits>

namespace tycho::cuda {
namespace {

// Pointers go for pointers, numbers for numbers of the same size, whatever they are called.
template <class Ours, class Theirs>
constexpr bool same = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                      sizeof(Ours) == sizeof(Theirs) &&
                      (std::is_pointer_v<Ours> ||
                       ((std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(
                           std::is_integral_v<Theirs> || std::is_enum_v<Theirs>)));
template <class Ours, class Theirs>
struct Match : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Match<R (*)(A...), S (*)(B...)>
    : std::bool_constant<same<R, S> && (same<A, B> && ...)> {
};

#define TYCHO_CALL(here, there, parameters) \
  static_assert(Match<decltype(Driver::here), decltype(&::there)>::value, #there);
TYCHO_CUDA_DRIVER(TYCHO_CALL)
#undef TYCHO_CALL

static_assert(kSuccess == CUDA_SUCCESS && kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE && kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventWithoutTime == CU_EVENT_DISABLE_TIMING);
static_assert(kPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kReleaseThreshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
static_assert(kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);

}  // namespace
}  // namespace tycho::cuda

TEST(CudaEntryPoints, AreThoseOfCudaH) { SUCCEED() << "CUDA " << CUDA_VERSION; }
#else
TEST(CudaEntryPoints, AreThoseOfCudaH) { GTEST_SKIP() << "there is no CUDA toolkit"; }
#endif
