// Relaxed<T>: a small value that several threads may read and write at the same time, for bookkeeping
// that orders nothing. Reads and writes are whole; `x = x + 1` and `++x` may lose one of two counts
// that meet, and cost no locked instruction.
#pragma once
#include <atomic>

namespace tycho {

template <class T>
class Relaxed {
 public:
  Relaxed(T value = {}) : value_(value) {}
  Relaxed(const Relaxed& o) : value_(T(o)) {}
  Relaxed& operator=(const Relaxed& o) { return *this = T(o); }
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  T get() const { return value_.load(std::memory_order_relaxed); }
  operator T() const { return get(); }
  Relaxed& operator++() { return *this = T(*this) + 1; }

 private:
  static_assert(std::atomic<T>::is_always_lock_free);
  std::atomic<T> value_;
};

}  // namespace tycho
