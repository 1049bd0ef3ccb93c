// FreeList<T>: memory for objects of one type, kept in a list per thread, so that making and
// dropping a tensor header or a graph node costs about 2 ns. An object given back on another
// thread goes to that thread's list. Under AddressSanitizer every block comes from `new`, so that
// use after free is found.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>

#include "engine/base/sanitize.h"

namespace tycho {

template <class T>
class FreeList {
 public:
  // At most this many blocks wait in a thread's list; the rest go back to the heap.
  static constexpr uint32_t kMost = 16384;

  // Raw memory for one T (construct with placement new). Throws std::bad_alloc.
  static void* take() {
    if constexpr (TYCHO_PLAIN_MEMORY) return fresh();
    Block* block = list_.head;
    if (block == nullptr) [[unlikely]]
      return fresh();
    list_.head = block->next;
    --list_.count;
    return block;
  }

  // Takes the memory back; the T in it is already destroyed.
  static void give(void* memory) noexcept {
    if constexpr (TYCHO_PLAIN_MEMORY) return drop(memory);
    if (list_.count >= list_.most) [[unlikely]] {
      if (!open()) return drop(memory);
    }
    Block* block = static_cast<Block*>(memory);
    block->next = list_.head;
    list_.head = block;
    ++list_.count;
  }

  static uint32_t waiting() { return list_.count; }  // blocks in this thread's list

 private:
  struct Block {
    Block* next;
  };
  // `most` is 0 until the first block comes back, and again once the thread has ended its list.
  struct List {
    Block* head;
    uint32_t count, most;
    bool ended;
  };
  // Frees the list when the thread ends. Apart from List, because a thread_local with a
  // destructor costs a check at every use.
  struct Closer {
    ~Closer() {
      list_.most = 0;
      list_.ended = true;
      while (Block* block = list_.head) {
        list_.head = block->next;
        drop(block);
      }
      list_.count = 0;
    }
    void touch() {}
  };

  [[gnu::noinline]] static bool open() noexcept {
    if (list_.ended || list_.most != 0) return false;
    static thread_local Closer closer;
    closer.touch();
    list_.most = kMost;
    return true;
  }
  [[gnu::noinline]] static void* fresh() {
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
      return ::operator new(size(), std::align_val_t(alignof(T)));
    else
      return ::operator new(size());
  }
  [[gnu::noinline]] static void drop(void* memory) noexcept {
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
      ::operator delete(memory, std::align_val_t(alignof(T)));
    else
      ::operator delete(memory);
  }

  // A function, so that T may be incomplete where FreeList<T> is only named.
  static constexpr size_t size() { return sizeof(T) < sizeof(Block) ? sizeof(Block) : sizeof(T); }
  static inline constinit thread_local List list_{nullptr, 0, 0, false};
};

}  // namespace tycho
