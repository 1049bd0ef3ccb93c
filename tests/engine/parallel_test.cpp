// The thread pool: every index once, errors and interrupts reach the caller, nesting and several
// callers at once are fine, and the number of threads can change.
#include "engine/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"

namespace tycho {
namespace {

// Sets the number of threads, and puts it back.
struct Threads {
  int before = get_num_threads();
  explicit Threads(int threads) { set_num_threads(threads); }
  ~Threads() { set_num_threads(before); }
};

void each_index_once(int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> seen(n);
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    EXPECT_LT(begin, end);
    EXPECT_EQ(begin % grain, 0);
    for (int64_t i = begin; i < end; ++i) seen[i].fetch_add(1, std::memory_order_relaxed);
  });
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(seen[i].load(), 1) << i << " of " << n;
}

TEST(Pool, RunsEveryIndexExactlyOnce) {
  for (int threads : {1, 2, 5}) {
    Threads set(threads);
    for (int64_t n : {0, 1, 2, 7, 64, 1000, 99999})
      for (int64_t grain : {1, 3, 64, 5000}) each_index_once(n, grain);
  }
}

TEST(Pool, AnEvenGrainGivesEveryThreadAsManyChunksOfOneSize) {
  for (int threads : {1, 2, 3, 8}) {
    Threads set(threads);
    for (int64_t n : {1, 1000, 1001, 1400, 5000, 99999, 1 << 20})
      for (int64_t unit : {1, 64}) {
        const int64_t each = even_grain(n, 1000, unit), chunks = (n - 1) / each + 1;
        EXPECT_LE(each, 1000 + unit);
        if (threads == 1 || n <= 1000) continue;
        EXPECT_EQ(each % unit, 0);
        EXPECT_GE(chunks * (each + 2 * unit), n);
        if (unit == 1) {
          EXPECT_LE(chunks * each - n, chunks);  // the last one is hardly shorter
        }
        each_index_once(n, each);
      }
  }
}

TEST(Pool, ALongRunOfSmallRegionsLosesNothing) {
  for (int threads : {2, 3}) {
    Threads set(threads);
    std::vector<int64_t> value(512, 0);
    for (int round = 0; round < 20000; ++round)
      parallel_for(512, 64, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) value[i] += 1;
      });
    for (int64_t v : value) ASSERT_EQ(v, 20000);
  }
}

TEST(Pool, HugeLoopsAreCutIntoAFewChunks) {
  Threads set(2);
  std::atomic<int64_t> chunks{0}, total{0};
  const int64_t n = int64_t(1) << 50;
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    ++chunks;
    total += end - begin;
  });
  EXPECT_EQ(total.load(), n);
  EXPECT_LE(chunks.load(), 65536);
}

TEST(Pool, HelpersJoinALongLoop) {
  Threads set(4);
  const auto caller = std::this_thread::get_id();
  const auto start = std::chrono::steady_clock::now();
  std::atomic<bool> helped{false};
  // Ends as soon as a helper has come; the time is only so that the test cannot hang.
  while (!helped && std::chrono::steady_clock::now() - start < std::chrono::seconds(60))
    parallel_for(100, 1, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() != caller) helped = true;
      if (!helped) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  EXPECT_TRUE(helped);
}

TEST(Pool, SmallLoopsRunOnTheCaller) {
  const auto caller = std::this_thread::get_id();
  parallel_for(100, 100, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
  });
  parallel_for(0, 1, [](int64_t, int64_t) { FAIL() << "nothing to do"; });
  parallel_for(-5, 1, [](int64_t, int64_t) { FAIL() << "nothing to do"; });
}

TEST(Pool, ANestedLoopRunsOnItsThread) {
  Threads set(3);
  std::atomic<int64_t> total{0};
  parallel_for(50, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto here = std::this_thread::get_id();
      parallel_for(1000, 10, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        total += e - b;
      });
    }
  });
  EXPECT_EQ(total.load(), 50 * 1000);
}

TEST(Pool, AnExceptionStopsTheLoopAndReachesTheCaller) {
  for (int threads : {1, 2, 4}) {
    Threads set(threads);
    for (int64_t bad : {0, 500, 999}) {
      std::atomic<int64_t> done{0};
      try {
        parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
          if (begin <= bad && bad < end) throw std::runtime_error("bad index");
          done += end - begin;
        });
        FAIL() << "expected an exception";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "bad index");
      }
      EXPECT_LT(done.load(), 1000);
      each_index_once(1000, 1);
    }
  }
}

TEST(Pool, WhenAllChunksThrowOneExceptionArrives) {
  Threads set(4);
  for (int round = 0; round < 200; ++round)
    EXPECT_THROW(parallel_for(100, 1, [](int64_t, int64_t) { throw 5; }), int);
}

TEST(Pool, AnInterruptStopsALongLoopAndIsUsedUp) {
  for (int threads : {1, 2}) {
    Threads set(threads);
    clear_interrupt();
    std::atomic<int64_t> done{0};
    try {
      parallel_for(100000, 1, [&](int64_t begin, int64_t end) {
        if (done.fetch_add(end - begin) == 0) request_interrupt();
      });
      FAIL() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, Kind::Interrupt);
    }
    EXPECT_LT(done.load(), 100000);
    EXPECT_FALSE(interrupt_pending());
  }
}

TEST(Pool, ALoopThatHoldsInterruptsEndsFirst) {
  for (int threads : {1, 2}) {
    Threads set(threads);
    request_interrupt();
    std::atomic<int64_t> done{0};
    const auto body = [&](int64_t begin, int64_t end) { done += end - begin; };
    parallel_for(10000, 1, body, Interrupts::Hold);
    EXPECT_EQ(done.load(), 10000);
    {
      HoldInterrupts hold;
      parallel_for(10000, 1, body);
    }
    EXPECT_EQ(done.load(), 20000);
    EXPECT_TRUE(interrupt_pending());
    clear_interrupt();
  }
}

TEST(Pool, SeveralCallersAtOnceAllFinish) {
  Threads set(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<int64_t> sum{0};
        parallel_for(300, 10, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
        EXPECT_EQ(sum.load(), 300 * 299 / 2);
        total += sum;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), int64_t(4) * 500 * (300 * 299 / 2));
}

TEST(Pool, TheNumberOfThreadsCanChangeAtAnyTime) {
  Threads set(1);
  for (int round = 0; round < 100; ++round)
    for (int threads : {4, 1, 3, 2, 8}) {
      set_num_threads(threads);
      EXPECT_EQ(get_num_threads(), threads);
      each_index_once(200, 1);
    }
}

TEST(Pool, AnImpossibleNumberOfThreadsBecomesTheNearest) {
  Threads set(2);
  set_num_threads(0);
  EXPECT_EQ(get_num_threads(), 1);
  set_num_threads(-7);
  EXPECT_EQ(get_num_threads(), 1);
  set_num_threads(1 << 30);
  EXPECT_EQ(get_num_threads(), 256);
}

TEST(Pool, TheThreadsThatWorkAreNoMoreThanAsked) {
  Threads set(3);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  for (int round = 0; round < 200; ++round)
    parallel_for(64, 1, [&](int64_t, int64_t) {
      std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
  EXPECT_LE(ids.size(), 3u);
}

TEST(PoolDeathTest, TheProcessEndsCleanlyWhileHelpersWait) {
  EXPECT_EXIT(
      {
        set_num_threads(4);
        parallel_for(1000, 1, [](int64_t, int64_t) {});
        exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace tycho
