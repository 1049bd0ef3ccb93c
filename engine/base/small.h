// SmallVec<T, N>: a list whose first N elements need no heap. For the few-element lists of the
// engine's hot path; moves and copies element by element.
#pragma once
#include <cstdint>
#include <new>
#include <utility>

namespace tycho {

template <class T, int N>
class SmallVec {
 public:
  SmallVec() = default;
  SmallVec(const SmallVec& o) {
    for (const T& x : o) push_back(x);
  }
  SmallVec(SmallVec&& o) noexcept { swap_in(o); }
  SmallVec& operator=(const SmallVec& o) {
    if (this != &o) {
      clear();
      for (const T& x : o) push_back(x);
    }
    return *this;
  }
  SmallVec& operator=(SmallVec&& o) noexcept {
    if (this != &o) {
      reset();
      swap_in(o);
    }
    return *this;
  }
  ~SmallVec() { reset(); }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](int i) { return data_[i]; }
  const T& operator[](int i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }

  void push_back(T x) {
    if (size_ == capacity_) grow(2 * capacity_);
    new (data_ + size_++) T(std::move(x));
  }
  T& emplace_back() {
    if (size_ == capacity_) grow(2 * capacity_);
    return *new (data_ + size_++) T();
  }
  void resize(int n) {
    if (n > capacity_) grow(n);
    while (size_ < n) new (data_ + size_++) T();
    while (size_ > n) data_[--size_].~T();
  }
  void clear() { resize(0); }

 private:
  T* inline_data() { return reinterpret_cast<T*>(room_); }
  void grow(int n) {
    T* to = static_cast<T*>(::operator new(sizeof(T) * n));
    for (int i = 0; i < size_; ++i) {
      new (to + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    if (data_ != inline_data()) ::operator delete(data_);
    data_ = to;
    capacity_ = n;
  }
  void reset() {
    clear();
    if (data_ != inline_data()) ::operator delete(data_);
    data_ = inline_data();
    capacity_ = N;
  }
  void swap_in(SmallVec& o) {  // *this is empty and inline
    if (o.data_ != o.inline_data()) {
      data_ = std::exchange(o.data_, o.inline_data());
      size_ = std::exchange(o.size_, 0);
      capacity_ = std::exchange(o.capacity_, N);
    } else {
      for (T& x : o) push_back(std::move(x));
      o.clear();
    }
  }

  T* data_ = reinterpret_cast<T*>(room_);
  int size_ = 0, capacity_ = N;
  alignas(T) unsigned char room_[sizeof(T) * N];
};

}  // namespace tycho
