// parallel_for: a loop over [0, n) on all cores, made to stay fast on a busy machine: the calling
// thread takes chunks itself, and never waits for a helper that has not started one.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace tycho {

// The most threads that work on one region, the caller included. Before it is set: the cores this
// process may use, at most TYCHO_NUM_THREADS, or OMP_NUM_THREADS if only that is set.
int get_num_threads();
void set_num_threads(int threads);  // 1 to 256; other values become the nearest of these
// From here on the calling thread computes alone, and has 1 thread: for threads that themselves run
// beside each other.
void compute_alone();
bool computes_alone();

enum class Interrupts : uint8_t {
  Poll,  // a pending interrupt stops the loop between chunks and throws Kind::Interrupt
  Hold,  // the loop always ends: for kernels that change their input in place
};

namespace detail {
// What a region calls for each chunk: a reference to the caller's function.
struct Body {
  void (*call)(void* function, int64_t begin, int64_t end);
  void* function;
};
void run_region(int64_t n, int64_t grain, Body body, Interrupts interrupts);
}  // namespace detail

// Calls body(begin, end) so that every index of [0, n) is in exactly one call. Chunks begin at
// multiples of `grain` (>= 1), which should be 5 to 20 us of work. Runs on the caller alone, maybe
// in one call, when n <= grain, inside another region, or while another thread runs a region. An
// exception from `body` stops further chunks and is thrown to the caller.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& body, Interrupts interrupts = Interrupts::Poll) {
  if (n <= grain) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  using Function = std::remove_reference_t<F>;
  void* function = const_cast<void*>(static_cast<const volatile void*>(std::addressof(body)));
  detail::run_region(
      n, grain,
      {[](void* f, int64_t begin, int64_t end) { (*static_cast<Function*>(f))(begin, end); },
       function},
      interrupts);
}

// A grain for loops whose chunks may begin anywhere: no more than `grain`, but for rounding up to `unit`, and as
// many chunks of one size for every thread. (Of 1.3 grains one of two threads had three times the other's work.)
int64_t even_grain(int64_t n, int64_t grain, int64_t unit = 64);

}  // namespace tycho
