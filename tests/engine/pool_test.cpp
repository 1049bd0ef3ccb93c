// Free lists: blocks come back last in, first out, growth is bounded, threads do not disturb
// each other.
#include "engine/base/pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tycho {
namespace {

struct Small {
  int64_t value[5];
};
struct Tiny {
  char value;
};
struct alignas(64) Wide {
  float value[32];
};

TEST(FreeList, TheLastBlockGivenIsTheNextOneTaken) {
  if (TYCHO_PLAIN_MEMORY) GTEST_SKIP() << "blocks are not kept under AddressSanitizer";
  void* a = FreeList<Small>::take();
  void* b = FreeList<Small>::take();
  EXPECT_NE(a, b);
  FreeList<Small>::give(a);
  FreeList<Small>::give(b);
  EXPECT_EQ(FreeList<Small>::take(), b);
  EXPECT_EQ(FreeList<Small>::take(), a);
  FreeList<Small>::give(a);
  FreeList<Small>::give(b);
}

TEST(FreeList, KeepsTheAlignmentOfTheType) {
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) {
    blocks.push_back(FreeList<Wide>::take());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 64, 0u);
  }
  for (void* block : blocks) FreeList<Wide>::give(block);
}

TEST(FreeList, ATypeSmallerThanAPointerHasRoomForTheLink) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(FreeList<Tiny>::take());
  for (void* block : blocks) FreeList<Tiny>::give(block);
}

TEST(FreeList, GrowthIsBounded) {
  std::vector<void*> blocks;
  for (uint32_t i = 0; i < FreeList<Small>::kMost + 1000; ++i)
    blocks.push_back(FreeList<Small>::take());
  for (void* block : blocks) FreeList<Small>::give(block);
  EXPECT_LE(FreeList<Small>::waiting(), FreeList<Small>::kMost);
}

TEST(FreeList, BlocksMayComeBackOnAnotherThread) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(FreeList<Small>::take());
  std::thread([&] {
    for (void* block : blocks) FreeList<Small>::give(block);
    if (!TYCHO_PLAIN_MEMORY) {
      EXPECT_EQ(FreeList<Small>::waiting(), 1000u);
    }
  }).join();
}

// Gives a block back after the thread's list has been freed.
struct Late {
  void* block = nullptr;
  ~Late() {
    if (block) FreeList<Small>::give(block);
  }
};

TEST(FreeList, ABlockGivenWhileTheThreadEndsIsFreed) {
  std::thread([] {
    static thread_local Late late;
    late.block = FreeList<Small>::take();
    FreeList<Small>::give(FreeList<Small>::take());
  }).join();
}

}  // namespace
}  // namespace tycho
