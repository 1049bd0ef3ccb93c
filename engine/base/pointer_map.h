// PointerMap<V>: a small hash map from addresses to values, in one array with linear probing:
// faster than std::unordered_map, and without an allocation per entry.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/hash.h"

namespace tycho {

// V is default constructible and movable. nullptr is not a key. Pointers to values are good until
// the next insertion or removal.
template <class V>
class PointerMap {
 public:
  size_t size() const { return size_; }

  V* find(const void* key) {
    const size_t i = position(key);
    return i == capacity_ ? nullptr : &slots_[i].value;
  }

  // The value of `key`, made if there is none.
  V& operator[](const void* key) {
    if (V* value = find(key)) return *value;
    if ((size_ + 1) * 4 > capacity_ * 3) grow();
    ++size_;
    return put(key)->value;
  }

  bool erase(const void* key) {
    size_t hole = position(key);
    if (hole == capacity_) return false;
    // Slots that follow move back, so that no mark of a removed key is needed.
    for (size_t i = next(hole); slots_[i].key != nullptr; i = next(i)) {
      const size_t from_home = (i - home(slots_[i].key)) & (capacity_ - 1);
      if (from_home < ((i - hole) & (capacity_ - 1))) continue;
      slots_[hole] = std::move(slots_[i]);
      hole = i;
    }
    slots_[hole] = Slot{};
    --size_;
    return true;
  }

  void clear() {
    slots_.reset();
    size_ = capacity_ = 0;
  }

  // Calls each(key, value) in no particular order; it must not insert or remove.
  template <class Each>
  void for_each(Each&& each) {
    for (size_t i = 0; i < capacity_; ++i)
      if (slots_[i].key != nullptr) each(slots_[i].key, slots_[i].value);
  }

 private:
  struct Slot {
    const void* key = nullptr;
    V value{};
  };

  size_t next(size_t i) const { return (i + 1) & (capacity_ - 1); }
  size_t home(const void* key) const {
    return hash_int(reinterpret_cast<uintptr_t>(key)) & (capacity_ - 1);
  }
  // The slot of `key`, or capacity_.
  size_t position(const void* key) const {
    if (size_ == 0) return capacity_;
    size_t i = home(key);
    while (slots_[i].key != key && slots_[i].key != nullptr) i = next(i);
    return slots_[i].key == key ? i : capacity_;
  }
  Slot* put(const void* key) {
    size_t i = home(key);
    while (slots_[i].key != nullptr) i = next(i);
    slots_[i].key = key;
    return &slots_[i];
  }
  void grow() {
    const size_t old_capacity = capacity_;
    std::unique_ptr<Slot[]> old = std::move(slots_);
    capacity_ = old_capacity == 0 ? 16 : 2 * old_capacity;
    slots_ = std::make_unique<Slot[]>(capacity_);
    for (size_t i = 0; i < old_capacity; ++i)
      if (old[i].key != nullptr) put(old[i].key)->value = std::move(old[i].value);
  }

  std::unique_ptr<Slot[]> slots_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace tycho
