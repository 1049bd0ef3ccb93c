// Ref<T>: one intrusive pointer. `Counted` objects have a plain count and belong to one thread;
// `Shared` objects (storages) count atomically. T::destroy(T*) frees the object, so that types
// can come from free lists.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace tycho {

struct Counted {
  uint32_t count = 0;
  void retain() { ++count; }
  bool release() { return --count == 0; }
};

struct Shared {
  std::atomic<uint32_t> count{0};
  void retain() { count.fetch_add(1, std::memory_order_relaxed); }
  bool release() {
    // The only owner needs no locked instruction.
    if (count.load(std::memory_order_acquire) == 1) return true;
    return count.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* p) : p_(p) {
    if (p_) p_->retain();
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->retain();
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  ~Ref() { drop(p_); }
  Ref& operator=(const Ref& o) {
    if (o.p_) o.p_->retain();
    drop(std::exchange(p_, o.p_));
    return *this;
  }
  Ref& operator=(Ref&& o) noexcept {
    if (this != &o) drop(std::exchange(p_, std::exchange(o.p_, nullptr)));
    return *this;
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const Ref& o) const { return p_ == o.p_; }
  // Hands the count to the caller, and takes one back.
  T* leak() { return std::exchange(p_, nullptr); }
  static Ref adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  static void drop(T* p) {
    if (p && p->release()) T::destroy(p);
  }

 private:
  T* p_ = nullptr;
};

}  // namespace tycho
