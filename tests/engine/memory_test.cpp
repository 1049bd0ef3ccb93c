// The allocator of tensor data: alignment, reuse, counts, limits, threads, and running out.
#include "engine/base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

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
// Each test has a simulated device of its own where it looks at counts.
enum { Counts = 1, Peaks, Limits, Handlers, Threads, Caps, Empties, Ends };

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
    void* block = allocate(-1, bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes;
    if (bytes >= 2 * kMega && !TYCHO_PLAIN_MEMORY) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kHugePage, 0u) << bytes;
    }
    release(-1, block, bytes);
  }
}

TEST(Memory, BlocksNeverOverlapInALongRandomRun) {
  std::mt19937_64 random(7);
  std::vector<Held> held;
  size_t total = 0;
  for (int step = 0; step < 60000; ++step) {
    if (held.size() > 400 || total > 100 * kMega || (!held.empty() && random() % 2 == 0)) {
      const size_t at = random() % held.size();
      ASSERT_TRUE(intact(held[at])) << held[at].bytes;
      release(-1, held[at].data, held[at].bytes);
      total -= held[at].bytes;
      held[at] = held.back();
      held.pop_back();
    } else {
      const int power = static_cast<int>(random() % (step % 50 == 0 ? 24 : 18));
      const size_t bytes = random() % (size_t(2) << power);
      Held block{static_cast<unsigned char*>(allocate(-1, bytes)), bytes,
                 static_cast<unsigned char>(random())};
      ASSERT_NE(block.data, nullptr);
      fill(block);
      held.push_back(block);
      total += bytes;
    }
  }
  for (Held& block : held) {
    ASSERT_TRUE(intact(block));
    release(-1, block.data, block.bytes);
  }
}

TEST(Memory, TheBlockReleasedLastIsReusedFirst) {
  if (TYCHO_PLAIN_MEMORY) GTEST_SKIP() << "blocks are not kept under AddressSanitizer";
  for (size_t bytes : {16ul, 40000ul, 100000ul, 1000000ul, 4000000ul}) {
    void* a = allocate(-1, bytes);
    void* b = allocate(-1, bytes);
    release(-1, a, bytes);
    release(-1, b, bytes);
    EXPECT_EQ(allocate(-1, bytes), b) << bytes;
    EXPECT_EQ(allocate(-1, bytes - 8), a) << bytes;
    release(-1, a, bytes - 8);
    release(-1, b, bytes);
  }
}

TEST(Memory, CountsLiveBytesInStepsOf64) {
  EXPECT_EQ(live_bytes(Counts), 0);
  void* a = allocate(Counts, 16);
  void* b = allocate(Counts, 4'000'000);
  void* c = allocate(Counts, 0);
  EXPECT_EQ(live_bytes(Counts), 64 + 4'000'000);
  MemoryStats stats = memory_stats(Counts);
  EXPECT_EQ(stats.live, 64 + 4'000'000);
  EXPECT_EQ(stats.allocations, 3);
  release(Counts, a, 16);
  release(Counts, b, 4'000'000);
  release(Counts, c, 0);
  release(Counts, nullptr, 5);
  EXPECT_EQ(live_bytes(Counts), 0);
  stats = memory_stats(Counts);
  EXPECT_EQ(stats.live, 0);
  if (!TYCHO_PLAIN_MEMORY) {
    EXPECT_GE(stats.cached, 4'000'000);
  }
}

TEST(Memory, RemembersThePeakUntilItIsReset) {
  for (size_t bytes : {128ul, 1024ul, 300000ul}) {
    reset_peak_memory(Peaks);
    std::vector<void*> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(allocate(Peaks, bytes));
    for (void* block : blocks) release(Peaks, block, bytes);
    EXPECT_EQ(memory_stats(Peaks).peak, int64_t(10 * ((bytes + 63) / 64 * 64)));
    reset_peak_memory(Peaks);
    EXPECT_EQ(memory_stats(Peaks).peak, 0);
  }
}

TEST(Memory, ADeviceWithACapacityRunsOutAndGoesOn) {
  void* before = allocate(Limits, 64);
  set_device_capacity(Limits, 10 * kMega);
  void* a = allocate(Limits, 6 * kMega);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(allocate(Limits, 5 * kMega), nullptr);
  void* small = allocate(Limits, 64);
  EXPECT_NE(small, nullptr);
  void* rest = allocate(Limits, 4 * kMega - 128);
  EXPECT_NE(rest, nullptr);
  EXPECT_EQ(allocate(Limits, 64), nullptr);
  release(Limits, small, 64);
  small = allocate(Limits, 1);
  EXPECT_NE(small, nullptr);
  release(Limits, small, 1);
  release(Limits, rest, 4 * kMega - 128);
  release(Limits, a, 6 * kMega);
  set_device_capacity(Limits, 0);
  a = allocate(Limits, 20 * kMega);
  EXPECT_NE(a, nullptr);
  release(Limits, a, 20 * kMega);
  release(Limits, before, 64);
  EXPECT_EQ(live_bytes(Limits), 0);
}

void* kept_for_handler = nullptr;
int handler_calls = 0;

TEST(Memory, TheHandlerFreesMemoryAndTheAllocationIsTriedAgain) {
  set_device_capacity(Handlers, 10 * kMega);
  kept_for_handler = allocate(Handlers, 8 * kMega);
  set_out_of_memory_handler([](size_t bytes) {
    EXPECT_TRUE(bytes == 4 * kMega || bytes == 9 * kMega);
    ++handler_calls;
    if (kept_for_handler == nullptr) return false;
    // A handler that needs memory itself is not called again inside.
    EXPECT_EQ(allocate(Handlers, 5 * kMega), nullptr);
    release(Handlers, std::exchange(kept_for_handler, nullptr), 8 * kMega);
    return true;
  });
  void* a = allocate(Handlers, 4 * kMega);
  EXPECT_NE(a, nullptr);
  EXPECT_EQ(handler_calls, 1);
  EXPECT_EQ(allocate(Handlers, 9 * kMega), nullptr);
  EXPECT_EQ(handler_calls, 2);
  // Other threads do not call it: the collector belongs to one.
  std::thread([] { EXPECT_EQ(allocate(Handlers, 9 * kMega), nullptr); }).join();
  EXPECT_EQ(handler_calls, 2);
  set_out_of_memory_handler(nullptr);
  release(Handlers, a, 4 * kMega);
  set_device_capacity(Handlers, 0);
}

TEST(Memory, AnImpossibleSizeReturnsNull) {
  EXPECT_EQ(allocate(-1, SIZE_MAX), nullptr);
  EXPECT_EQ(allocate(-1, SIZE_MAX / 2), nullptr);
  EXPECT_EQ(allocate(-1, size_t(1) << 46), nullptr);
  EXPECT_EQ(allocate(-1, size_t(1) << 44), nullptr);
}

TEST(Memory, BlocksTravelBetweenThreadsAndTheCountsAddUp) {
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
      release(Threads, block.data, block.bytes);
    }
  });
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const size_t bytes = random() % (i % 100 == 0 ? 300000 : 3000);
    Held block{static_cast<unsigned char*>(allocate(Threads, bytes)), bytes,
               static_cast<unsigned char>(i)};
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
  EXPECT_EQ(memory_stats(Threads).live, 0);
  EXPECT_EQ(memory_stats(Threads).allocations, 20000);
  EXPECT_EQ(live_bytes(Threads), 0);
}

TEST(Memory, AThreadThatEndsReturnsItsBlocks) {
  for (int round = 0; round < 20; ++round) {
    std::thread([] {
      std::vector<void*> blocks;
      for (int i = 0; i < 1000; ++i) blocks.push_back(allocate(Ends, 1024));
      for (void* block : blocks) release(Ends, block, 1024);
    }).join();
  }
  EXPECT_LE(memory_stats(Ends).cached, int64_t(2 * kMega));
}

TEST(Memory, UnusedBlocksBeyondTheCapGoBackToTheSystem) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate(Caps, 8 * kMega));
  for (void* block : blocks) ASSERT_NE(block, nullptr);
  reset_peak_memory(Caps);
  for (void* block : blocks) release(Caps, block, 8 * kMega);
  EXPECT_LE(memory_stats(Caps).cached, int64_t(401 * kMega));  // half of the peak
  empty_cache(Caps);
}

TEST(Memory, EmptyCacheGivesEverythingBack) {
  std::mt19937 random(5);
  std::vector<Held> blocks;
  for (int i = 0; i < 5000; ++i) {
    const size_t bytes = random() % (i % 100 == 0 ? 5000000 : 20000);
    blocks.push_back({static_cast<unsigned char*>(allocate(Empties, bytes)), bytes, 1});
  }
  for (Held& block : blocks) release(Empties, block.data, block.bytes);
  if (!TYCHO_PLAIN_MEMORY) {
    EXPECT_GT(memory_stats(Empties).cached, 0);
  }
  empty_cache(Empties);
  EXPECT_EQ(memory_stats(Empties).cached, 0);
  EXPECT_EQ(memory_stats(Empties).live, 0);
}

// Takes all the memory that `ulimit -v` leaves, in blocks of one size and then of another, gives
// it back, and takes it again.
void live_under_a_limit() {
  rlimit limit{400 * kMega, 400 * kMega};
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
  for (int round = 0; round < 2; ++round) {
    for (size_t bytes : {3 * kMega, 64ul, 20000ul, 600000ul, 30 * kMega, 100 * kMega}) {
      std::vector<void*> blocks;
      blocks.reserve(200000);
      size_t total = 0;
      while (void* block = allocate(-1, bytes)) {
        memset(block, 1, bytes < 8 ? bytes : 8);
        total += bytes;
        if (blocks.size() == blocks.capacity()) break;
        blocks.push_back(block);
      }
      for (void* block : blocks) release(-1, block, bytes);
      if (total < (bytes == 64 ? 12 : 150) * kMega) _exit(3);
    }
  }
  if (allocate(-1, 500 * kMega) != nullptr) _exit(4);
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
    if (block) release(Ends, block, 100);
    release(Ends, allocate(Ends, 100), 100);
  }
};

TEST(Memory, WorksWhileAThreadEnds) {
  const int64_t before = memory_stats(Ends).live;
  std::thread([] {
    static thread_local Late late;
    late.block = allocate(Ends, 100);
  }).join();
  EXPECT_EQ(memory_stats(Ends).live, before);
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
