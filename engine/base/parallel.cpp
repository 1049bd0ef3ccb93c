// The thread pool behind parallel_for.
//
// One word, `claim`, says what is left to do: a serial number of the region, and the first and the
// end of the chunks nobody has taken. The caller takes chunks from the front and the helpers from
// the back, each by compare-and-swap, so that the same part of a tensor mostly stays on the same
// core from one operation to the next. Whoever took a chunk may read `region`, because the caller
// waits until every chunk taken is done. A helper that comes late finds nothing left and leaves.
//
// Idle helpers watch `claim` for some tens of microseconds, then sleep on a futex. A helper that
// notices that the system took its core away meanwhile watches for a much shorter time: then
// others need the cores. Everything here is static and trivial to destroy, and helpers are
// detached: the process can end at any time.
#include "engine/base/parallel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"

namespace tycho {
namespace {

using std::memory_order_acq_rel, std::memory_order_acquire, std::memory_order_relaxed,
    std::memory_order_release, std::memory_order_seq_cst;

constexpr int kThreadsMost = 256;
constexpr int64_t kChunksMost = 60000;  // 16 bits in `claim`
constexpr int64_t kChunksPerThread = 16;
constexpr int64_t kGrainsMost = 128;  // in one chunk, so that an interrupt is seen soon
constexpr size_t kStackBytes = size_t(2) << 20;
// In ticks of the time stamp counter, 2 to 4 per ns.
constexpr uint64_t kSpinMost = 200'000, kSpinLeast = 4'000, kTakenAway = 250'000;
constexpr uint64_t kWakeAtFirst = 60'000, kWakeMost = 400'000;
constexpr uint64_t kWorthWaking = 4;  // times the cost of waking
constexpr float kGrainAtFirst = 15'000;
constexpr uint64_t kPatienceLeast = 2, kPatienceMost = 64;

struct Region {
  detail::Body body;
  int64_t n, chunk;
  bool poll;
  std::atomic<bool> failed{false}, interrupted{false};
  std::exception_ptr error;
};

// What is left: serial << 32 | front << 16 | back, empty when front == back.
constexpr uint64_t kFront = 1 << 16;
uint32_t front_of(uint64_t claim) { return (claim >> 16) & 0xffff; }
uint32_t back_of(uint64_t claim) { return claim & 0xffff; }
bool is_empty(uint64_t claim) { return front_of(claim) == back_of(claim); }

constexpr uint32_t kCallerSleeps = 1u << 31;  // in `done`

struct Pool {
  alignas(64) std::atomic<uint64_t> claim{0};
  Region* region = nullptr;                   // of the chunks in `claim`
  alignas(64) std::atomic<uint32_t> done{0};  // chunks that helpers have done in this region
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<bool> busy{false};  // a region runs (or threads are being started)
  std::atomic<int> threads{0};    // 0: not yet known
  std::atomic<int> helpers{0};    // helpers wanted; others end
  // What waking helpers costs and would have saved, in ticks; belongs to who runs a region.
  uint64_t wake_cost = kWakeAtFirst, missed = 0, last_end = 0;
  uint64_t patience = kPatienceLeast;
  std::mutex mutex;  // guards what follows
  bool running[kThreadsMost] = {};
};
constinit Pool pool;
constinit thread_local bool in_region = false, alone = false;

void pause() { __builtin_ia32_pause(); }
uint64_t ticks() { return __builtin_ia32_rdtsc(); }

void futex_wait(void* word, uint32_t while_it_is) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_it_is, nullptr, nullptr, 0);
}
bool futex_wake(void* word, int threads) {
  return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0) > 0;
}
// Helpers sleep until the serial number, the upper half of `claim`, changes.
void* serial_word() { return reinterpret_cast<char*>(&pool.claim) + 4; }

// --- Taking chunks ---

// Takes all chunks that are left, to drop them; returns their number.
uint32_t drop_rest() {
  uint64_t claim = pool.claim.load(memory_order_relaxed);
  while (!is_empty(claim)) {
    const uint64_t empty = claim - back_of(claim) + front_of(claim);
    if (pool.claim.compare_exchange_weak(claim, empty, memory_order_acq_rel))
      return back_of(claim) - front_of(claim);
  }
  return 0;
}

// Does one chunk that the calling thread has taken; false when the region must stop.
bool do_chunk(Region& region, int64_t index) {
  if (region.poll && interrupt_pending()) [[unlikely]] {
    region.interrupted.store(true, memory_order_relaxed);
    return false;
  }
  const int64_t begin = index * region.chunk;
  const int64_t end = std::min(begin + region.chunk, region.n);
  try {
    region.body.call(region.body.function, begin, end);
    return true;
  } catch (...) {
    if (!region.failed.exchange(true, memory_order_relaxed))
      region.error = std::current_exception();
    return false;
  }
}

// Takes and does chunks until none is left, or `most` are done; returns how many it did or dropped.
template <bool FromFront>
uint32_t work(uint32_t most = UINT32_MAX) {
  uint32_t count = 0;
  uint64_t claim = pool.claim.load(memory_order_acquire);
  while (!is_empty(claim) && count < most) {
    const uint64_t taken = FromFront ? claim + kFront : claim - 1;
    if (!pool.claim.compare_exchange_weak(claim, taken, memory_order_acq_rel, memory_order_acquire))
      continue;
    ++count;
    const int64_t index = FromFront ? front_of(claim) : back_of(claim) - 1;
    if (!do_chunk(*pool.region, index)) count += drop_rest();
    claim = pool.claim.load(memory_order_acquire);
  }
  return count;
}

// --- Helpers ---

// Waits a while for chunks; false when it is time to sleep. `spin` is how long, and adapts.
bool watch(uint64_t& spin) {
  const uint64_t start = ticks();
  uint64_t last = start;
  for (;;) {
    if (!is_empty(pool.claim.load(memory_order_relaxed))) return true;
    pause();
    const uint64_t now = ticks();
    if (now - last > kTakenAway) {
      spin = kSpinLeast;
      return false;
    }
    if (now - start > spin) break;
    last = now;
  }
  spin = std::min(spin + spin / 8, kSpinMost);
  return false;
}

void sleep() {
  pool.sleepers.fetch_add(1, memory_order_seq_cst);
  const uint64_t claim = pool.claim.load(memory_order_seq_cst);
  if (is_empty(claim)) futex_wait(serial_word(), static_cast<uint32_t>(claim >> 32));
  pool.sleepers.fetch_sub(1, memory_order_relaxed);
}

void* helper(void* argument) {
  const int id = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  in_region = true;
  uint64_t spin = kSpinMost;
  for (;;) {
    if (id >= pool.helpers.load(memory_order_relaxed)) {
      std::lock_guard lock(pool.mutex);
      if (id >= pool.helpers.load(memory_order_relaxed)) {
        pool.running[id] = false;
        return nullptr;
      }
    }
    // Odd helpers from the front, so that many threads do not all meet at one end.
    const uint32_t count = id % 2 == 0 ? work<false>() : work<true>();
    if (count > 0) {
      const uint32_t before = pool.done.fetch_add(count, memory_order_acq_rel);
      if (before & kCallerSleeps) futex_wake(&pool.done, 1);
    }
    if (!watch(spin)) sleep();
  }
}

// Starts the helpers that are wanted and do not run. The region goes on with fewer when the
// system refuses.
void start_helpers() {
  std::lock_guard lock(pool.mutex);
  const int wanted = pool.helpers.load(memory_order_relaxed);
  // Signals are for the main thread: helpers block all but those of their own faults, which would
  // end the process before anybody who can help hears of them.
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  for (int id = 0; id < wanted; ++id) {
    if (pool.running[id]) continue;
    pthread_t thread;
    void* argument = reinterpret_cast<void*>(static_cast<intptr_t>(id));
    if (pthread_create(&thread, &attributes, helper, argument) != 0) break;
    pool.running[id] = true;
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

int default_threads() {
  cpu_set_t cores;
  int threads = sched_getaffinity(0, sizeof cores, &cores) == 0
                    ? CPU_COUNT(&cores)
                    : int(sysconf(_SC_NPROCESSORS_ONLN));
  const char* most = getenv("TYCHO_NUM_THREADS");
  if (most == nullptr) most = getenv("OMP_NUM_THREADS");
  if (most != nullptr && atoi(most) > 0) threads = std::min(threads, atoi(most));
  return std::clamp(threads, 1, kThreadsMost);
}

// --- The caller ---

// Waits until helpers have done `wanted` chunks: every one of them is inside a chunk now.
void wait_for_helpers(uint32_t wanted) {
  for (uint64_t start = ticks(); ticks() - start < kSpinMost; pause())
    if (pool.done.load(memory_order_acquire) == wanted) return;
  uint32_t done = pool.done.fetch_or(kCallerSleeps, memory_order_acq_rel) | kCallerSleeps;
  while (done != (wanted | kCallerSleeps)) {
    futex_wait(&pool.done, done);
    done = pool.done.load(memory_order_acquire);
  }
}

void finish(Region& region) {
  if (region.error) std::rethrow_exception(region.error);
  // Thrown even when another thread has taken the flag: this result is not complete.
  if (region.interrupted.load(memory_order_relaxed)) {
    check_interrupt();
    clear_interrupt();
    fail(Kind::Interrupt, "interrupted");
  }
}

void run_alone(Region& region, int64_t grain) {
  region.chunk = region.poll ? grain * std::min(kGrainsMost, region.n / grain + 1) : region.n;
  for (int64_t i = 0; i * region.chunk < region.n && do_chunk(region, i);) ++i;
  finish(region);
}

bool helpers_awake(int wanted) {
  return pool.helpers.load(memory_order_relaxed) == wanted &&
         pool.sleepers.load(memory_order_seq_cst) == 0;
}

// Starts or wakes helpers, and remembers what that costs the caller.
void wake_helpers(int wanted, uint32_t chunks) {
  const uint64_t start = ticks();
  if (pool.helpers.load(memory_order_relaxed) != wanted) {
    pool.helpers.store(wanted, memory_order_relaxed);
    start_helpers();
  }
  const int sleepers = pool.sleepers.load(memory_order_seq_cst);
  if (sleepers == 0) return;
  if (!futex_wake(serial_word(), std::min<int>({sleepers, wanted, static_cast<int>(chunks)})))
    return;
  const uint64_t cost = std::min(ticks() - start, kWakeMost);
  pool.wake_cost = (3 * pool.wake_cost + cost) / 4;
}

// Whether to wake helpers though this region alone is too short for it: when regions follow each
// other so closely that helpers, once awake, would stay awake, and enough was lost by having none.
// If then they still get no work done, others have the cores, and the next time comes later.
bool worth_investing(uint64_t start, uint64_t left) {
  pool.missed = start - pool.last_end < kSpinMost / 2 ? pool.missed + left / 2 : 0;
  if (pool.missed < pool.patience * pool.wake_cost) return false;
  pool.missed = 0;
  pool.patience = std::min(2 * pool.patience, kPatienceMost);
  return true;
}

// Takes chunks alone while what is left, at the speed so far, costs less than waking helpers: on
// a virtual machine a wake-up was seen to take 45 us. Returns how many it did or dropped.
uint32_t work_until_worth_waking(int wanted, uint32_t chunks, uint64_t start) {
  uint32_t count = 0;
  for (bool first = true;; first = false) {
    const uint32_t more = work<true>(1);
    count += more;
    if (more == 0 || count == chunks) return count;
    const uint64_t left = (ticks() - start) / count * (chunks - count);
    if (left > kWorthWaking * pool.wake_cost || (first && worth_investing(start, left))) break;
  }
  wake_helpers(wanted, chunks - count);
  return count;
}

// What a loop's body took per index the last time, so that a loop of few long chunks, or a long
// loop, need not begin alone. A loop not seen yet is taken to have grains of 5 us.
struct Pace {
  void (*call)(void*, int64_t, int64_t) = nullptr;
  float ticks_per_index = 0;
};
constinit Pace paces[64];  // belongs to who runs a region
Pace& pace_of(detail::Body body) { return paces[reinterpret_cast<uintptr_t>(body.call) / 16 % 64]; }

bool known_long(const Region& region, int64_t grains) {
  const Pace& pace = pace_of(region.body);
  const float expected = pace.call == region.body.call ? pace.ticks_per_index * float(region.n)
                                                       : float(grains) * kGrainAtFirst;
  return expected > float(kWorthWaking * pool.wake_cost);
}

struct Busy {
  bool mine = false;
  Busy() {
    mine = !pool.busy.load(memory_order_relaxed) && !pool.busy.exchange(true, memory_order_acquire);
  }
  ~Busy() {
    if (mine) pool.busy.store(false, memory_order_release);
  }
};

// A new region (or none, with 0 chunks) in `claim`; helpers that sleep see it when woken.
void publish(Region* region, uint32_t chunks) {
  pool.region = region;
  pool.done.store(0, memory_order_relaxed);
  const uint64_t serial = (pool.claim.load(memory_order_relaxed) >> 32) + 1;
  pool.claim.store(serial << 32 | chunks, memory_order_seq_cst);
}

}  // namespace

int64_t even_grain(int64_t n, int64_t grain, int64_t unit) {
  const int64_t threads = get_num_threads();
  if (n <= grain || threads == 1) return grain;
  const int64_t chunks = ((n - 1) / (threads * grain) + 1) * threads, each = (n - 1) / chunks + 1;
  return (each + unit - 1) / unit * unit;
}

void detail::run_region(int64_t n, int64_t grain, Body body, Interrupts interrupts) {
  grain = std::max<int64_t>(grain, 1);
  const bool poll = interrupts == Interrupts::Poll && interrupts_held == 0 && !in_region;
  Region region{body, n, n, poll, {}, {}, {}};
  const int threads = get_num_threads();
  if (threads == 1 || in_region) return run_alone(region, grain);
  Busy busy;
  if (!busy.mine) return run_alone(region, grain);

  const int64_t grains = (n - 1) / grain + 1;
  const int64_t each =
      std::max(std::clamp<int64_t>(grains / (threads * kChunksPerThread), 1, kGrainsMost),
               (grains - 1) / kChunksMost + 1);
  region.chunk = each * grain;
  const uint32_t chunks = static_cast<uint32_t>((grains - 1) / each + 1);

  const uint64_t start = ticks();
  publish(&region, chunks);
  in_region = true;
  uint32_t mine = 0;
  if (!helpers_awake(threads - 1)) {
    if (known_long(region, grains))
      wake_helpers(threads - 1, chunks);
    else
      mine = work_until_worth_waking(threads - 1, chunks, start);
  }
  mine += work<true>();
  in_region = false;
  const uint64_t end = pool.last_end = ticks();
  if (mine > 0)
    pace_of(body) = {body.call, float(end - start) / (float(mine) * float(region.chunk))};
  if (mine != chunks) {
    wait_for_helpers(chunks - mine);
    pool.patience = kPatienceLeast;
    pool.last_end = ticks();
  }
  finish(region);
}

void compute_alone() { alone = true; }
bool computes_alone() { return alone; }

int get_num_threads() {
  if (alone) return 1;
  int threads = pool.threads.load(memory_order_relaxed);
  if (threads != 0) [[likely]]
    return threads;
  const int found = default_threads();
  pool.threads.compare_exchange_strong(threads, found, memory_order_relaxed);
  return pool.threads.load(memory_order_relaxed);
}

void set_num_threads(int threads) {
  threads = std::clamp(threads, 1, kThreadsMost);
  pool.threads.store(threads, memory_order_relaxed);
  // Helpers no longer wanted are woken to end; while a region runs, the next one does it.
  Busy busy;
  if (!busy.mine || pool.helpers.load(memory_order_relaxed) < threads) return;
  pool.helpers.store(threads - 1, memory_order_relaxed);
  publish(nullptr, 0);
  futex_wake(serial_word(), INT_MAX);
}

}  // namespace tycho
