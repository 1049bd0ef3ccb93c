// CUDA C++ on the CPU: the words that kernels use, so that a .cu file compiles as C++ and its kernels
// are found by name. Every thread of a block is a fiber; fibers run one at a time, in an order drawn
// from a seed, until they wait for each other. What is undefined on a device raises here: barriers
// that not all threads reach, lanes that are not there, and shared memory that is read before it is
// written or touched by two threads without a barrier between.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)

namespace tycho::cuda::emulated {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};
inline thread_local Dim thread_place, block_place, block_size, grid_size;

// A kernel's call with its arguments, copied when it was launched.
using Thread = std::function<void()>;
using Binder = std::function<Thread(void** arguments)>;
using Place = std::source_location;

bool add_kernel(const char* name, Binder bind);
const Binder* kernel_named(const std::string& name);
// Raises std::runtime_error for what is undefined on a device.
void run_grid(const Thread& thread, Dim grid, Dim block, size_t shared);
void set_order(uint64_t seed);  // of blocks and threads, on this host thread

// --- inside a kernel ---
[[noreturn]] void fail(const std::string& why, const Place& place);
void barrier(const Place& place);
void warp_barrier(uint32_t mask, const Place& place);
// Waits for the lanes of the mask; what each brought is in the answer, by lane.
const uint64_t* exchange(uint32_t mask, uint64_t mine, const Place& place);
int lane();
uint64_t block_serial();  // another number for every block that ran
size_t dynamic_shared();  // bytes that the launch gave
// Raises when the access meets another thread's without a barrier between.
enum class Access : uint8_t { Read, Write, Atomic };
struct Seen {
  int thread;
  Access access;
  uint64_t warp_epoch;
};
struct Shadow {
  uint64_t epoch = 0;
  bool written = false;
  std::vector<Seen> seen;  // since the block's last barrier
};
void touch(Shadow& shadow, Access access, int64_t index, const Place& place);

template <class... A, size_t... k>
Thread bound(void (*kernel)(A...), [[maybe_unused]] void** arguments, std::index_sequence<k...>) {
  const std::tuple<A...> copies{*static_cast<const A*>(arguments[k])...};
  return [kernel, copies] { std::apply(kernel, copies); };
}
template <class... A>
Binder binder(void (*kernel)(A...)) {
  return [kernel](void** arguments) {
    return bound(kernel, arguments, std::index_sequence_for<A...>{});
  };
}

// --- shared memory ---

template <class T>
struct SharedAddress {
  T* value;
  Shadow* shadow;
  int64_t index;
};

// An element: reads and writes are looked at, its address is for atomics only.
template <class T>
class SharedElement {
 public:
  SharedElement(T* value, Shadow* shadow, int64_t index, const Place& place)
      : value_(value), shadow_(shadow), index_(index), place_(place) {}
  operator T() const {
    touch(*shadow_, Access::Read, index_, place_);
    return *value_;
  }
  T operator=(T x) {
    touch(*shadow_, Access::Write, index_, place_);
    return *value_ = x;
  }
  T operator=(const SharedElement& other) { return *this = static_cast<T>(other); }
  T operator+=(T x) { return *this = static_cast<T>(T(*this) + x); }
  SharedAddress<T> operator&() const { return {value_, shadow_, index_}; }

 private:
  T* value_;
  Shadow* shadow_;
  int64_t index_;
  Place place_;
};

template <class T>
class SharedArray {
 public:
  explicit SharedArray(int64_t n) : n_(n) {}  // n < 0: what the launch gave
  struct Index {                              // knows where it was written
    template <class I>
    Index(I i, const Place& place = Place::current()) : i(static_cast<int64_t>(i)), place(place) {}
    int64_t i;
    Place place;
  };
  SharedElement<T> operator[](Index at) {
    if (serial_ != block_serial()) fresh();
    const int64_t n = static_cast<int64_t>(shadow_.size());
    if (at.i < 0 || at.i >= n)
      fail("shared memory: element " + std::to_string(at.i) + " of " + std::to_string(n), at.place);
    return {values_.get() + at.i, &shadow_[static_cast<size_t>(at.i)], at.i, at.place};
  }

 private:
  void fresh() {
    serial_ = block_serial();
    const size_t n = n_ < 0 ? dynamic_shared() / sizeof(T) : static_cast<size_t>(n_);
    values_.reset(new T[n]);
    memset(static_cast<void*>(values_.get()), 0xa5, n * sizeof(T));
    shadow_.assign(n, {});
  }
  int64_t n_;
  uint64_t serial_ = 0;
  std::unique_ptr<T[]> values_;
  std::vector<Shadow> shadow_;
};

// --- warps ---

template <class T>
T from_lane(uint32_t mask, T x, int source, const Place& place) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t mine = 0;
  memcpy(&mine, &x, sizeof x);
  const uint64_t* all = exchange(mask, mine, place);
  if (!(mask >> source & 1))
    fail("a warp operation reads lane " + std::to_string(source) + ", which is not in its mask",
         place);
  memcpy(&x, all + source, sizeof x);
  return x;
}

// A tensor core's c += a b of 16 x 16 and 16 x 8 elements, spread over the lanes as the PTX ISA has it
// (mma.m16n8k16): two elements to a word, `number` makes one a float.
template <class Number>
void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Number&& number,
                  const Place& place = Place::current()) {
  uint64_t low[32], high[32], right[32];
  const auto all = [&](uint64_t(&to)[32], uint32_t x, uint32_t y) {
    memcpy(to, exchange(0xffffffffu, uint64_t{y} << 32 | x, place), sizeof to);
  };
  all(low, a[0], a[1]);
  all(high, a[2], a[3]);
  all(right, b[0], b[1]);
  const auto half = [&](uint64_t words, int which) {
    return number(static_cast<uint16_t>(words >> (16 * which)));
  };
  // Lane l has a's rows l / 4 and l / 4 + 8 at k = 2 (l % 4), + 1, + 8, + 9; b's column l / 4 there.
  for (int e = 0; e < 4; ++e)
    for (int k = 0; k < 16; ++k) {
      const int row = lane() / 4 + 8 * (e / 2), column = lane() % 4 * 2 + e % 2;
      const uint64_t* const left = k < 8 ? low : high;
      c[e] += half(left[row % 8 * 4 + k % 8 / 2], row / 8 * 2 + k % 2) *
              half(right[column * 4 + k % 8 / 2], k / 8 * 2 + k % 2);
    }
}

}  // namespace tycho::cuda::emulated

#define threadIdx (::tycho::cuda::emulated::thread_place)
#define blockIdx (::tycho::cuda::emulated::block_place)
#define blockDim (::tycho::cuda::emulated::block_size)
#define gridDim (::tycho::cuda::emulated::grid_size)
#define TYCHO_KERNEL(name)                             \
  [[maybe_unused]] static const bool name##_is_known = \
      ::tycho::cuda::emulated::add_kernel(#name, ::tycho::cuda::emulated::binder(name));
#define TYCHO_SHARED(type, name, n) \
  static thread_local ::tycho::cuda::emulated::SharedArray<type> name(n)
#define TYCHO_DYNAMIC_SHARED(type, name) TYCHO_SHARED(type, name, -1)
#define TYCHO_ROLLED
#define TYCHO_UNROLLED
#define TYCHO_PLACE \
  const ::tycho::cuda::emulated::Place& place = ::tycho::cuda::emulated::Place::current()

inline void __syncthreads(TYCHO_PLACE) { ::tycho::cuda::emulated::barrier(place); }
inline void __syncwarp(uint32_t mask = 0xffffffffu, TYCHO_PLACE) {
  ::tycho::cuda::emulated::warp_barrier(mask, place);
}
template <class T>
T __shfl_sync(uint32_t mask, T x, int source, int width = 32, TYCHO_PLACE) {
  const int first = ::tycho::cuda::emulated::lane() / width * width;
  return ::tycho::cuda::emulated::from_lane(mask, x, first + (source & (width - 1)), place);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T x, int bits, int width = 32, TYCHO_PLACE) {
  const int me = ::tycho::cuda::emulated::lane(), from = me ^ bits;
  return ::tycho::cuda::emulated::from_lane(mask, x, from / width > me / width ? me : from, place);
}
template <class T>
T __shfl_down_sync(uint32_t mask, T x, unsigned by, int width = 32, TYCHO_PLACE) {
  const int me = ::tycho::cuda::emulated::lane(), from = me + static_cast<int>(by);
  return ::tycho::cuda::emulated::from_lane(mask, x, from / width != me / width ? me : from, place);
}
template <class T>
T __shfl_up_sync(uint32_t mask, T x, unsigned by, int width = 32, TYCHO_PLACE) {
  const int me = ::tycho::cuda::emulated::lane(), from = me % width - static_cast<int>(by);
  return ::tycho::cuda::emulated::from_lane(mask, x, from < 0 ? me : me - static_cast<int>(by),
                                            place);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate, TYCHO_PLACE) {
  const uint64_t* all = ::tycho::cuda::emulated::exchange(mask, predicate != 0, place);
  uint32_t bits = 0;
  for (int k = 0; k < 32; ++k)
    if (mask >> k & 1) bits |= static_cast<uint32_t>(all[k]) << k;
  return bits;
}
inline int __any_sync(uint32_t mask, int predicate, TYCHO_PLACE) {
  return __ballot_sync(mask, predicate, place) != 0;
}
inline int __all_sync(uint32_t mask, int predicate, TYCHO_PLACE) {
  return __ballot_sync(mask, predicate, place) == mask;
}
inline double cospi(double x) { return std::cos(M_PI * x); }
inline double sinpi(double x) { return std::sin(M_PI * x); }
inline float cospif(float x) { return static_cast<float>(cospi(static_cast<double>(x))); }
inline float sinpif(float x) { return static_cast<float>(sinpi(static_cast<double>(x))); }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<uint32_t>(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }

// Fibers change only where they wait, so an atomic is a read and a write.
template <class T, class F>
T atomic_change(T* at, F&& change) {
  const T before = *at;
  *at = change(before);
  return before;
}
template <class T, class F>
T atomic_change(const ::tycho::cuda::emulated::SharedAddress<T>& at, F&& change) {
  using namespace ::tycho::cuda::emulated;
  touch(*at.shadow, Access::Atomic, at.index, Place::current());
  return atomic_change(at.value, change);
}
template <class A, class T>
auto atomicAdd(A at, T x) {
  return atomic_change(at, [x](auto old) { return static_cast<decltype(old)>(old + x); });
}
template <class A, class T>
auto atomicMax(A at, T x) {
  return atomic_change(at, [x](auto old) { return old > x ? old : static_cast<decltype(old)>(x); });
}
template <class A, class T>
auto atomicMin(A at, T x) {
  return atomic_change(at, [x](auto old) { return old < x ? old : static_cast<decltype(old)>(x); });
}
template <class A, class T>
auto atomicExch(A at, T x) {
  return atomic_change(at, [x](auto) { return x; });
}
template <class A, class T>
auto atomicCAS(A at, T expected, T wanted) {
  return atomic_change(at, [=](auto old) { return old == expected ? wanted : old; });
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
