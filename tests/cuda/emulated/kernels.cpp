// The kernels that were compiled for the CPU, by name, and running a grid of them: a block's threads
// are fibers, of which the next one is drawn by the seed.
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "tests/cuda/emulated/cuda_on_cpu.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tycho::cuda::emulated {
namespace {

constexpr size_t kStack = 256 << 10;

std::map<std::string, Binder>& kernels() {
  static auto* all = new std::map<std::string, Binder>;
  return *all;
}

enum class State { Ready, AtBarrier, AtWarp, Ended };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  State state = State::Ready;
  Place place;  // where it waits
  uint32_t mask = 0;
  uint64_t mine = 0, warp_epoch = 0, all[32] = {};
  bool memory = false;  // waits in __syncwarp
};

// The block that runs on this host thread.
struct Running {
  std::vector<Fiber> fibers;
  ucontext_t host;
  const Thread* thread = nullptr;
  size_t now = 0, threads = 0, shared = 0;
  uint64_t epoch = 1, serial = 0;
  std::exception_ptr error;
  std::mt19937_64 order{1};
  void* host_fake = nullptr;
  const void* host_stack = nullptr;
  size_t host_stack_size = 0;
};
thread_local Running run;

Fiber& me() { return run.fibers[run.now]; }

void to_host(bool ended) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(ended ? nullptr : &fake, run.host_stack, run.host_stack_size);
  swapcontext(&me().context, &run.host);
  __sanitizer_finish_switch_fiber(fake, &run.host_stack, &run.host_stack_size);
#else
  (void)ended;
  swapcontext(&me().context, &run.host);
#endif
}

void to_fiber(Fiber& f) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&run.host_fake, f.stack.get(), kStack);
  swapcontext(&run.host, &f.context);
  __sanitizer_finish_switch_fiber(run.host_fake, nullptr, nullptr);
#else
  swapcontext(&run.host, &f.context);
#endif
}

void fiber_main() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &run.host_stack, &run.host_stack_size);
#endif
  try {
    (*run.thread)();
  } catch (...) {
    run.error = std::current_exception();
  }
  me().state = State::Ended;
  to_host(true);
}

void wait_in(State state, const Place& place) {
  me().state = state;
  me().place = place;
  to_host(false);
}

std::string shown(const Place& p) {
  return std::string(p.file_name()) + ":" + std::to_string(p.line());
}
std::string shown_thread(size_t k) {
  return "thread " + std::to_string(k) + " of block (" + std::to_string(block_place.x) + ", " +
         std::to_string(block_place.y) + ", " + std::to_string(block_place.z) + ")";
}
[[noreturn]] void raise(size_t thread, const std::string& why, const Place& place) {
  throw std::runtime_error(shown(place) + ": " + shown_thread(thread) + ": " + why);
}

// Lets the lanes of a warp go on whose whole mask has come; true if any did.
bool release_warp(size_t first) {
  bool released = false;
  for (size_t k = first; k < first + 32 && k < run.threads; ++k) {
    Fiber& f = run.fibers[k];
    if (f.state != State::AtWarp) continue;
    bool complete = true;
    for (size_t l = 0; l < 32 && complete; ++l) {
      if (!(f.mask >> l & 1)) continue;
      const size_t other = first + l;
      if (other >= run.threads || run.fibers[other].state == State::Ended)
        raise(k,
              "waits for lane " + std::to_string(l) + " of its warp, which has ended or never was",
              f.place);
      const Fiber& o = run.fibers[other];
      if (o.state == State::AtWarp && o.mask != f.mask && (o.mask >> (k - first) & 1))
        raise(k, "its mask and lane " + std::to_string(l) + "'s differ", f.place);
      complete = o.state == State::AtWarp && o.mask == f.mask && o.memory == f.memory &&
                 o.place.line() == f.place.line();
    }
    if (!complete) continue;
    uint64_t all[32] = {};
    const uint32_t mask = f.mask;
    for (size_t l = 0; l < 32; ++l)
      if (mask >> l & 1) all[l] = run.fibers[first + l].mine;
    for (size_t l = 0; l < 32; ++l) {
      if (!(mask >> l & 1)) continue;
      Fiber& o = run.fibers[first + l];
      memcpy(o.all, all, sizeof all);
      if (o.memory) ++o.warp_epoch;
      o.state = State::Ready;
    }
    released = true;
  }
  return released;
}

// All threads wait or have ended: lets those go on that may.
void release() {
  bool released = false;
  for (size_t w = 0; w < run.threads; w += 32) released = release_warp(w) || released;
  if (released) return;
  const Fiber* first = nullptr;
  for (size_t k = 0; k < run.threads; ++k) {
    const Fiber& f = run.fibers[k];
    if (f.state == State::AtWarp)
      raise(k, "waits for lanes that wait elsewhere: a deadlock", f.place);
    if (f.state != State::AtBarrier) continue;
    if (!first) first = &f;
    if (f.place.line() != first->place.line())
      raise(k, "waits at another barrier than " + shown(first->place), f.place);
  }
  for (size_t k = 0; k < run.threads; ++k) {
    Fiber& f = run.fibers[k];
    if (f.state == State::Ended) raise(k, "has ended, but others wait at a barrier", first->place);
    f.state = State::Ready;
  }
  ++run.epoch;
}

void set_place(size_t k, Dim block) {
  const auto i = static_cast<unsigned>(k);
  thread_place = {i % block.x, i / block.x % block.y, i / block.x / block.y};
}

void run_block(Dim block) {
  ++run.serial;
  ++run.epoch;
  for (size_t k = 0; k < run.threads; ++k) {
    Fiber& f = run.fibers[k];
    f.state = State::Ready;
    f.warp_epoch = 0;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(f.stack.get(), kStack);
#endif
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, fiber_main, 0);
  }
  std::vector<size_t> ready;
  for (;;) {
    ready.clear();
    bool waiting = false;
    for (size_t k = 0; k < run.threads; ++k) {
      if (run.fibers[k].state == State::Ready) ready.push_back(k);
      waiting = waiting || run.fibers[k].state == State::AtBarrier ||
                run.fibers[k].state == State::AtWarp;
    }
    if (ready.empty()) {
      if (!waiting) return;
      release();
      continue;
    }
    std::shuffle(ready.begin(), ready.end(), run.order);
    for (const size_t k : ready) {
      run.now = k;
      set_place(k, block);
      to_fiber(run.fibers[k]);
      if (run.error) std::rethrow_exception(std::exchange(run.error, nullptr));
    }
  }
}

}  // namespace

bool add_kernel(const char* name, Binder bind) {
  return kernels().emplace(name, std::move(bind)).second;
}

const Binder* kernel_named(const std::string& name) {
  const auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : &it->second;
}

void set_order(uint64_t seed) { run.order.seed(seed); }

void run_grid(const Thread& thread, Dim grid, Dim block, size_t shared) {
  run.threads = size_t{block.x} * block.y * block.z;
  if (run.threads == 0 || run.threads > 1024)
    throw std::runtime_error("a block of " + std::to_string(run.threads) + " threads");
  if (run.fibers.size() < run.threads) run.fibers.resize(run.threads);
  run.thread = &thread;
  run.shared = shared;
  grid_size = grid;
  block_size = block;
  std::vector<size_t> blocks(size_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  std::shuffle(blocks.begin(), blocks.end(), run.order);
  for (const size_t b : blocks) {
    block_place = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                   static_cast<unsigned>(b / grid.x / grid.y)};
    run_block(block);
  }
}

void fail(const std::string& why, const Place& place) { raise(run.now, why, place); }
void barrier(const Place& place) { wait_in(State::AtBarrier, place); }
int lane() { return static_cast<int>(run.now % 32); }
uint64_t block_serial() { return run.serial; }

size_t dynamic_shared() { return run.shared; }

namespace {
const uint64_t* meet(uint32_t mask, uint64_t mine, bool memory, const Place& place) {
  if (!(mask >> lane() & 1)) fail("a warp operation's mask leaves out the thread itself", place);
  Fiber& f = me();
  f.mask = mask;
  f.mine = mine;
  f.memory = memory;
  wait_in(State::AtWarp, place);
  return me().all;
}
}  // namespace

const uint64_t* exchange(uint32_t mask, uint64_t mine, const Place& place) {
  return meet(mask, mine, false, place);
}
void warp_barrier(uint32_t mask, const Place& place) { meet(mask, 0, true, place); }

void touch(Shadow& s, Access access, int64_t index, const Place& place) {
  if (s.epoch != run.epoch) {
    s.epoch = run.epoch;
    s.seen.clear();
  }
  const int thread = static_cast<int>(run.now);
  const std::string element = "shared element " + std::to_string(index);
  if (access != Access::Write && !s.written)
    fail(element + " is read before any thread of the block wrote it", place);
  for (const Seen& other : s.seen) {
    if (other.thread == thread || (other.access == access && access != Access::Write)) continue;
    // __syncwarp orders the memory of a warp's lanes; shuffles do not.
    if (other.thread / 32 == thread / 32 && other.warp_epoch < me().warp_epoch) continue;
    fail(element + " was touched by thread " + std::to_string(other.thread) +
             " too, without a barrier between, and one of the two writes",
         place);
  }
  if (access != Access::Read) s.written = true;
  for (Seen& mine : s.seen)
    if (mine.thread == thread && mine.access == access) {
      mine.warp_epoch = me().warp_epoch;
      return;
    }
  s.seen.push_back({thread, access, me().warp_epoch});
}

}  // namespace tycho::cuda::emulated
