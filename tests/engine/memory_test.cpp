// The allocator of tensor data: alignment, reuse, counts, limits, threads, and running out.
#include "engine/base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "engine/base/block_store.h"
#include "engine/base/fresh.h"
#include "engine/base/pages.h"

#if defined(__SANITIZE_THREAD__)
#define TYCHO_LIMITED_ADDRESSES 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TYCHO_LIMITED_ADDRESSES 0
#endif
#endif
#ifndef TYCHO_LIMITED_ADDRESSES
#define TYCHO_LIMITED_ADDRESSES !TYCHO_PLAIN_MEMORY
#endif

namespace tycho {
namespace {

constexpr size_t kMega = size_t(1) << 20;
// Other tests of the program have left blocks and counts behind: a test looks at what it adds.
struct Since {
  Since() {
    empty_cache();
    reset_peak_memory();
    before = memory_stats();
    seen = live_bytes();
  }
  int64_t live() const { return live_bytes() - seen; }  // as the calling thread knows it
  int64_t live_of_all() const { return memory_stats().live - before.live; }
  int64_t peak() const { return memory_stats().peak - before.peak; }
  int64_t cached() const { return memory_stats().cached - before.cached; }
  int64_t allocations() const { return memory_stats().allocations - before.allocations; }
  MemoryStats before;
  int64_t seen;
};

struct Held {
  unsigned char* data;
  size_t bytes;
  unsigned char mark;
};

void fill(Held& held) { memset(held.data, held.mark, held.bytes); }
bool intact(const Held& held) {
  for (size_t i = 0; i<held.bytes; i += held.bytes> 4096 ? 997 : 1)
    if (held.data[i] != held.mark) return false;
  return held.bytes == 0 || held.data[held.bytes - 1] == held.mark;
}

TEST(SizeClass, EverySizeFitsItsClassAndWastesAtMostAnEighth) {
  for (size_t bytes = 1; bytes < 40 * kMega; bytes += bytes < 100000 ? 1 : bytes / 97) {
    const unsigned c = size_class(bytes);
    ASSERT_GE(class_bytes(c), bytes);
    ASSERT_EQ(size_class(class_bytes(c)), c);
    ASSERT_EQ(class_bytes(c) % 64, 0u);
    if (c > 0) {
      ASSERT_LT(class_bytes(c - 1), bytes);
    }
    if (bytes > 1024) {
      ASSERT_LE(class_bytes(c) - bytes, bytes / 8);
    }
  }
}

TEST(Memory, EveryBlockIsAlignedTo64Bytes) {
  for (size_t bytes : {0ul, 1ul, 16ul, 100ul, 5000ul, 70000ul, 200000ul, 3000000ul, 40000000ul}) {
    void* block = allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes;
    if (bytes >= 2 * kMega && bytes < 16 * kMega && !TYCHO_PLAIN_MEMORY) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kHugePage, 0u) << bytes;
    }
    release(block, bytes);
  }
}

TEST(Memory, LargeBlocksBeginAtDifferentPlacesWithinHugePages) {
  if (TYCHO_PLAIN_MEMORY) GTEST_SKIP() << "blocks are the system's";
  constexpr size_t kBytes = 40 * kMega;
  std::set<uintptr_t> places;
  std::vector<char*> blocks;
  for (int i = 0; i < 4; ++i) {
    char* const block = static_cast<char*>(allocate(kBytes));
    ASSERT_NE(block, nullptr);
    block[0] = block[kBytes - 1] = 1;  // all of it is there
    places.insert(reinterpret_cast<uintptr_t>(block) % kHugePage);
    blocks.push_back(block);
  }
  for (char* block : blocks) release(block, kBytes);
  EXPECT_GE(places.size(), 3u);  // one may have been there before
}

TEST(Memory, BlocksNeverOverlapInALongRandomRun) {
  std::mt19937_64 random(7);
  std::vector<Held> held;
  size_t total = 0;
  for (int step = 0; step < 60000; ++step) {
    if (held.size() > 400 || total > 100 * kMega || (!held.empty() && random() % 2 == 0)) {
      const size_t at = random() % held.size();
      ASSERT_TRUE(intact(held[at])) << held[at].bytes;
      release(held[at].data, held[at].bytes);
      total -= held[at].bytes;
      held[at] = held.back();
      held.pop_back();
    } else {
      const int power = static_cast<int>(random() % (step % 50 == 0 ? 24 : 18));
      const size_t bytes = random() % (size_t(2) << power);
      Held block{static_cast<unsigned char*>(allocate(bytes)), bytes,
                 static_cast<unsigned char>(random())};
      ASSERT_NE(block.data, nullptr);
      fill(block);
      held.push_back(block);
      total += bytes;
    }
  }
  for (Held& block : held) {
    ASSERT_TRUE(intact(block));
    release(block.data, block.bytes);
  }
}

TEST(Memory, TheBlockReleasedLastIsReusedFirst) {
  if (TYCHO_PLAIN_MEMORY) GTEST_SKIP() << "blocks are not kept under AddressSanitizer";
  for (size_t bytes : {16ul, 40000ul, 100000ul, 1000000ul, 4000000ul}) {
    void* a = allocate(bytes);
    void* b = allocate(bytes);
    release(a, bytes);
    release(b, bytes);
    EXPECT_EQ(allocate(bytes), b) << bytes;
    EXPECT_EQ(allocate(bytes - 8), a) << bytes;
    release(a, bytes - 8);
    release(b, bytes);
  }
}

TEST(Memory, CountsLiveBytesInStepsOf64) {
  const Since since;
  EXPECT_EQ(since.live(), 0);
  void* a = allocate(16);
  void* b = allocate(4'000'000);
  void* c = allocate(0);
  EXPECT_EQ(since.live(), 64 + 4'000'000);
  EXPECT_EQ(since.live_of_all(), 64 + 4'000'000);
  EXPECT_EQ(since.allocations(), 3);
  release(a, 16);
  release(b, 4'000'000);
  release(c, 0);
  release(nullptr, 5);
  EXPECT_EQ(since.live(), 0);
  EXPECT_EQ(since.live_of_all(), 0);
  if (!TYCHO_PLAIN_MEMORY) {
    EXPECT_GE(since.cached(), 4'000'000);
  }
}

TEST(Memory, RemembersThePeakUntilItIsReset) {
  constexpr int64_t kSlack = kMega;  // other threads of the program have counts not yet added up
  for (size_t bytes : {128ul, 1024ul, 300000ul}) {
    const Since since;
    const size_t count = 20 * kMega / bytes;
    std::vector<void*> blocks;
    for (size_t i = 0; i < count; ++i) blocks.push_back(allocate(bytes));
    for (void* block : blocks) release(block, bytes);
    EXPECT_NEAR(since.peak(), count * ((bytes + 63) / 64 * 64), kSlack);
    reset_peak_memory();
    EXPECT_NEAR(since.peak(), 0, kSlack);
  }
}

TEST(Memory, WithACapacityItRunsOutAndGoesOn) {
  const Since since;
  set_capacity(live_bytes() + 10 * kMega);
  void* before = allocate(64);
  void* a = allocate(6 * kMega);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(allocate(5 * kMega), nullptr);
  void* small = allocate(64);
  EXPECT_NE(small, nullptr);
  void* rest = allocate(4 * kMega - 128);
  EXPECT_NE(rest, nullptr);
  EXPECT_EQ(allocate(64), nullptr);
  release(small, 64);
  small = allocate(1);
  EXPECT_NE(small, nullptr);
  release(small, 1);
  release(rest, 4 * kMega - 128);
  release(a, 6 * kMega);
  set_capacity(0);
  a = allocate(20 * kMega);
  EXPECT_NE(a, nullptr);
  release(a, 20 * kMega);
  release(before, 64);
  EXPECT_EQ(since.live(), 0);
}

void* kept_for_handler = nullptr;
int handler_calls = 0;

TEST(Memory, TheHandlerFreesMemoryAndTheAllocationIsTriedAgain) {
  set_capacity(live_bytes() + 10 * kMega);
  kept_for_handler = allocate(8 * kMega);
  set_out_of_memory_handler([](size_t bytes) {
    EXPECT_TRUE(bytes == 4 * kMega || bytes == 9 * kMega);
    ++handler_calls;
    if (kept_for_handler == nullptr) return false;
    // A handler that needs memory itself is not called again inside.
    EXPECT_EQ(allocate(5 * kMega), nullptr);
    release(std::exchange(kept_for_handler, nullptr), 8 * kMega);
    return true;
  });
  void* a = allocate(4 * kMega);
  EXPECT_NE(a, nullptr);
  EXPECT_EQ(handler_calls, 1);
  EXPECT_EQ(allocate(9 * kMega), nullptr);
  EXPECT_EQ(handler_calls, 2);
  // Other threads do not call it: the collector belongs to one.
  std::thread([] { EXPECT_EQ(allocate(9 * kMega), nullptr); }).join();
  EXPECT_EQ(handler_calls, 2);
  set_out_of_memory_handler(nullptr);
  release(a, 4 * kMega);
  set_capacity(0);
}

TEST(Memory, AnImpossibleSizeReturnsNull) {
  EXPECT_EQ(allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(allocate(SIZE_MAX / 2), nullptr);
  EXPECT_EQ(allocate(size_t(1) << 46), nullptr);
  EXPECT_EQ(allocate(size_t(1) << 44), nullptr);
}

TEST(Memory, BlocksTravelBetweenThreadsAndTheCountsAddUp) {
  const Since since;
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<Held> queue;
  bool done = false;
  std::thread consumer([&] {
    for (;;) {
      std::unique_lock lock(mutex);
      ready.wait(lock, [&] { return !queue.empty() || done; });
      if (queue.empty()) return;
      Held block = queue.front();
      queue.pop_front();
      lock.unlock();
      EXPECT_TRUE(intact(block));
      release(block.data, block.bytes);
    }
  });
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const size_t bytes = random() % (i % 100 == 0 ? 300000 : 3000);
    Held block{static_cast<unsigned char*>(allocate(bytes)), bytes, static_cast<unsigned char>(i)};
    fill(block);
    std::lock_guard lock(mutex);
    queue.push_back(block);
    ready.notify_one();
  }
  {
    std::lock_guard lock(mutex);
    done = true;
    ready.notify_one();
  }
  consumer.join();
  EXPECT_EQ(since.live_of_all(), 0);
  EXPECT_EQ(since.allocations(), 20000);
  EXPECT_EQ(since.live(), 0);
}

TEST(Memory, AThreadThatEndsReturnsItsBlocks) {
  const Since since;
  for (int round = 0; round < 20; ++round) {
    std::thread([] {
      std::vector<void*> blocks;
      for (int i = 0; i < 1000; ++i) blocks.push_back(allocate(1024));
      for (void* block : blocks) release(block, 1024);
    }).join();
  }
  EXPECT_LE(since.cached(), int64_t(2 * kMega));
}

TEST(Memory, LiveAndUnusedBlocksTogetherAreAtMostHalfMoreThanThePeak) {
  const Since since;  // other tests' spans may be in use in part
  void* const stays = allocate(100 * kMega);
  for (const size_t bytes : {8 * kMega, 9 * kMega, 10 * kMega, 11 * kMega, 12 * kMega}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 80; ++i) blocks.push_back(allocate(bytes));
    for (void* block : blocks) ASSERT_NE(block, nullptr);
    for (void* block : blocks) release(block, bytes);
    const MemoryStats now = memory_stats();
    // Blocks are up to an eighth larger than what was asked for.
    EXPECT_LE(now.live + since.cached(), (now.peak + now.peak / 2) * 9 / 8);
  }
  release(stays, 100 * kMega);
  empty_cache();
}

TEST(Memory, WhatAStepLetsGoIsThereForTheNextOne) {
  if (TYCHO_PLAIN_MEMORY) GTEST_SKIP() << "blocks are not kept under AddressSanitizer";
  empty_cache();
  reset_peak_memory();
  void* const stays = allocate(200 * kMega);
  for (int step = 0; step < 3; ++step) {
    std::vector<void*> blocks;
    int fresh = 0;
    for (int i = 0; i < 50; ++i) {
      blocks.push_back(allocate(12 * kMega));
      fresh += is_fresh(blocks.back(), 12 * kMega);
    }
    EXPECT_EQ(fresh, step == 0 ? 50 : 0);
    for (void* block : blocks) release(block, 12 * kMega);
  }
  release(stays, 200 * kMega);
  empty_cache();
}

TEST(BlockStore, TheOldestOfTooManyIdleBlocksGoBackAndThoseThatWaitLongEarlier) {
  BlockStore store;
  const unsigned c = size_class(kMega);
  const auto idle = [&] { return store.held.load() / int64_t(kMega); };
  void* blocks[10];
  for (void*& block : blocks) ASSERT_NE(block = store.map_direct(c), nullptr);
  for (void* block : blocks) store.put_idle(block, c);
  store.unmap(store.cut(8 * kMega, kMega, 1000));
  EXPECT_EQ(idle(), 8);  // nobody has waited for so long
  store.unmap(store.cut(8 * kMega, 3 * kMega, 0));
  EXPECT_EQ(idle(), 3);
  for (int i = 9; i > 6; --i) EXPECT_EQ(store.take_idle(c), blocks[i]);
  EXPECT_EQ(store.take_idle(c), nullptr);
  for (int i = 9; i > 6; --i) store.put_idle(blocks[i], c);
  store.unmap(store.cut(0, 0, 0));
  EXPECT_EQ(idle(), 0);
}

TEST(Memory, EmptyCacheGivesEverythingBack) {
  const Since since;
  std::mt19937 random(5);
  std::vector<Held> blocks;
  for (int i = 0; i < 5000; ++i) {
    const size_t bytes = random() % (i % 100 == 0 ? 5000000 : 20000);
    blocks.push_back({static_cast<unsigned char*>(allocate(bytes)), bytes, 1});
  }
  for (Held& block : blocks) release(block.data, block.bytes);
  if (!TYCHO_PLAIN_MEMORY) {
    EXPECT_GT(since.cached(), 0);
  }
  empty_cache();
  EXPECT_EQ(since.cached(), 0);
  EXPECT_EQ(since.live_of_all(), 0);
}

// Takes all the memory that `ulimit -v` leaves, in blocks of one size and then of another, gives
// it back, and takes it again.
void live_under_a_limit() {
  std::vector<void*> blocks;
  blocks.reserve(200000);  // of malloc's memory, which the blocks may leave nothing of
  rlimit limit{400 * kMega, 400 * kMega};
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
  for (int round = 0; round < 2; ++round) {
    for (size_t bytes : {3 * kMega, 64ul, 20000ul, 600000ul, 30 * kMega, 100 * kMega}) {
      size_t total = 0;
      while (void* block = allocate(bytes)) {
        memset(block, 1, bytes < 8 ? bytes : 8);
        total += bytes;
        if (blocks.size() == blocks.capacity()) break;
        blocks.push_back(block);
      }
      for (void* block : blocks) release(block, bytes);
      blocks.clear();
      if (total < (bytes == 64 ? 12 : 150) * kMega) _exit(3);
    }
  }
  if (allocate(500 * kMega) != nullptr) _exit(4);
  _exit(0);
}

TEST(MemoryDeathTest, WorksUnderALimitOfAddresses) {
  if (!TYCHO_LIMITED_ADDRESSES) GTEST_SKIP() << "sanitizers need more addresses";
  EXPECT_EXIT(live_under_a_limit(), testing::ExitedWithCode(0), "");
}

// Releases after the thread's caches are gone.
struct Late {
  void* block = nullptr;
  ~Late() {
    if (block) release(block, 100);
    release(allocate(100), 100);
  }
};

TEST(Memory, WorksWhileAThreadEnds) {
  const Since since;
  std::thread([] {
    static thread_local Late late;
    late.block = allocate(100);
  }).join();
  EXPECT_EQ(since.live_of_all(), 0);
}

TEST(Pages, AnAlignedMappingIsClearedAndWritable) {
  for (size_t alignment : {kPage, size_t(64) << 10, kHugePage}) {
    char* memory = static_cast<char*>(map_pages(kHugePage, alignment, alignment, Pages::Plain));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u);
    EXPECT_EQ(memory[kHugePage - 1], 0);
    memory[0] = memory[kHugePage - 1] = 1;
    unmap_pages(memory, kHugePage);
  }
}

TEST(Pages, TheMachineHasNoRoomForAThousandTerabytes) {
  EXPECT_FALSE(memory_has_room(size_t(1000) << 40));
  EXPECT_TRUE(memory_has_room(kPage));
}

}  // namespace
}  // namespace tycho
