// The guarded allocator: what leaves a block is told, on which side, and when.
#include "engine/base/guard.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace tycho {
namespace {

TEST(Guard, BlocksAreAlignedHoldNanAndEndAtAFence) {
  for (const size_t bytes : {0u, 1u, 4u, 64u, 100u, 4096u, 5000u, 3u << 20}) {
    char* const block = static_cast<char*>(guard::take(bytes));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    EXPECT_LT(-reinterpret_cast<uintptr_t>(block + bytes) % 4096, 64u);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      float f;
      std::memcpy(&f, block + i, 4);
      ASSERT_NE(f, f) << bytes << " " << i;
    }
    std::memset(block, 1, bytes);
    guard::give(block, bytes);
  }
}

#if GTEST_HAS_DEATH_TEST
TEST(GuardDeathTest, WhatLeavesABlockEndsTheProgram) {
  const auto run = [](size_t bytes, auto touch) {
    char* const block = static_cast<char*>(guard::take(bytes));
    touch(block);
    guard::give(block, bytes);
  };
  EXPECT_DEATH(run(100, [](char* p) { p[103] = 0; }),
               "a write, found on release, 3 bytes behind the end of a block of 100 bytes");
  EXPECT_DEATH(run(100, [](char* p) { p[-1] = 0; }),
               "a write, found on release, 1 bytes before the beginning of a block of 100 bytes");
  EXPECT_DEATH(run(128, [](char* p) { *static_cast<volatile char*>(p + 128) = 0; }), "");
  EXPECT_DEATH(run(4096, [](char* p) { *static_cast<volatile char*>(p - 1) = 0; }), "");
  char none = 0;
  EXPECT_DEATH(guard::give(&none, 100), "no live block of that size");
}
#endif

}  // namespace
}  // namespace tycho
