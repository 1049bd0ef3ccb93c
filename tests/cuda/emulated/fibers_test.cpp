// The emulation itself: kernels with the mistakes that a device answers by wrong numbers now and then
// are errors here, whatever the order of threads.
#include <gtest/gtest.h>

#include "engine/cuda/kernels/prelude.cuh"

namespace tycho::cuda {
namespace {

enum Mistake {
  kNone,
  kNoBarrier,
  kUnwritten,
  kDivergent,
  kMissingLane,
  kPastTheEnd,
  kShuffleForBarrier
};

__global__ void turned_round(const int* in, int* out, int mistake) {
  TYCHO_SHARED(int, tile, 64);
  const int k = int(threadIdx.x);
  if (mistake == kMissingLane && k == 40) return;
  if (mistake != kUnwritten || k != 9) tile[mistake == kPastTheEnd ? k + 1 : k] = in[k];
  if (mistake == kShuffleForBarrier)
    out[0] = __shfl_xor_sync(0xffffffffu, k, 1);
  else if (mistake == kDivergent && k >= 32)
    __syncthreads();
  else if (mistake != kNoBarrier)
    __syncthreads();
  out[k] = tile[63 - k];
}

__global__ void over_a_warp(const int* in, int* out) {
  TYCHO_SHARED(int, tile, 32);
  TYCHO_SHARED(int, total, 1);
  const int k = int(threadIdx.x);
  if (k == 0) total[0] = 0;
  tile[k] = in[k];
  __syncwarp();
  out[k] = tile[k ^ 1];
  atomicAdd(&total[0], in[k]);
  int s = in[k];
  for (int by = 16; by; by >>= 1) s += __shfl_down_sync(0xffffffffu, s, by);
  const uint32_t odd = __ballot_sync(0xffffffffu, in[k] & 1);
  __syncwarp();
  if (k == 0) out[32] = s, out[33] = int(odd), out[34] = total[0];
}

std::string error_of(int mistake, uint64_t seed) {
  std::vector<int> in(64), out(64);
  for (int k = 0; k < 64; ++k) in[size_t(k)] = k * 3;
  const int* from = in.data();
  int* to = out.data();
  void* arguments[] = {&from, &to, &mistake};
  emulated::set_order(seed);
  try {
    emulated::run_grid(emulated::binder(turned_round)(arguments), {}, {64}, 0);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  for (int k = 0; k < 64; ++k) EXPECT_EQ(out[size_t(k)], (63 - k) * 3);
  return "";
}

TEST(CudaOnCpu, mistakes_with_barriers_and_shared_memory_are_errors_in_any_order) {
  const char* const kSays[] = {
      "",      "shared element",   "before any thread", "waits at another barrier",
      "ended", "element 64 of 64", "shared element"};
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (int mistake = kNone; mistake <= kShuffleForBarrier; ++mistake) {
      const std::string error = error_of(mistake, seed);
      if (mistake == kNone)
        EXPECT_EQ(error, "");
      else
        EXPECT_NE(error.find(kSays[mistake]), std::string::npos) << mistake << ": " << error;
    }
}

TEST(CudaOnCpu, warps_shuffle_vote_and_meet) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int> in(32), out(35);
    uint32_t odd = 0;
    int sum = 0;
    for (int k = 0; k < 32; ++k) {
      in[size_t(k)] = k * k % 7;
      odd |= uint32_t(in[size_t(k)] & 1) << k;
      sum += in[size_t(k)];
    }
    const int* from = in.data();
    int* to = out.data();
    void* arguments[] = {&from, &to};
    emulated::set_order(seed);
    emulated::run_grid(emulated::binder(over_a_warp)(arguments), {}, {32}, 0);
    for (int k = 0; k < 32; ++k) EXPECT_EQ(out[size_t(k)], in[size_t(k ^ 1)]);
    EXPECT_EQ(out[32], sum);
    EXPECT_EQ(uint32_t(out[33]), odd);
    EXPECT_EQ(out[34], sum);
  }
}

}  // namespace
}  // namespace tycho::cuda
