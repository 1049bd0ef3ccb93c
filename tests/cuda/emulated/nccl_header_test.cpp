// What nccl.h of ours says of NCCL, against the library's own header where it is found.
#if __has_include(<nccl.h>)
#define tycho_nccl_header 1
#include <nccl.h>
#endif
#include <gtest/gtest.h>

#ifdef tycho_nccl_header
#include "engine/cuda/nccl.h"
#include "tests/cuda/emulated/signatures.h"

namespace tycho::cuda {
namespace {

#define TYCHO_CALL(here, there, parameters) \
  static_assert(Match<decltype(Nccl::here), decltype(&::there)>::value, #there);
TYCHO_NCCL(TYCHO_CALL)
#undef TYCHO_CALL

TEST(CudaNccl, ItsNumbersAreThoseOfTheLibrarysHeader) {
  EXPECT_EQ(nccl::kGood, ncclSuccess);
  EXPECT_EQ(nccl::kInProgress, ncclInProgress);
  EXPECT_EQ(int(nccl::Type::I8), ncclInt8);
  EXPECT_EQ(int(nccl::Type::U8), ncclUint8);
  EXPECT_EQ(int(nccl::Type::I32), ncclInt32);
  EXPECT_EQ(int(nccl::Type::I64), ncclInt64);
  EXPECT_EQ(int(nccl::Type::F16), ncclFloat16);
  EXPECT_EQ(int(nccl::Type::F32), ncclFloat32);
  EXPECT_EQ(int(nccl::Type::F64), ncclFloat64);
  EXPECT_EQ(int(nccl::Type::BF16), ncclBfloat16);
  EXPECT_EQ(int(nccl::Red::Sum), ncclSum);
  EXPECT_EQ(int(nccl::Red::Product), ncclProd);
  EXPECT_EQ(int(nccl::Red::Max), ncclMax);
  EXPECT_EQ(int(nccl::Red::Min), ncclMin);
  EXPECT_EQ(int(nccl::Red::Avg), ncclAvg);
  EXPECT_EQ(sizeof(nccl::Id), sizeof(ncclUniqueId));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const nccl::Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.cga_cluster_size, theirs.cgaClusterSize);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
  EXPECT_EQ(offsetof(nccl::Config, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(nccl::Config, net_name), offsetof(ncclConfig_t, netName));
  EXPECT_EQ(offsetof(nccl::Config, split_share), offsetof(ncclConfig_t, splitShare));
}

}  // namespace
}  // namespace tycho::cuda
#else
TEST(CudaNccl, ItsNumbersAreThoseOfTheLibrarysHeader) { GTEST_SKIP() << "there is no nccl.h"; }
#endif
