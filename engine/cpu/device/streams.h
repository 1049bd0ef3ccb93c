// The streams of a simulated device. Kernels run when they are asked for, so only copies to and from
// the host that nobody waits for stand in them: until the stream is waited for, or gets other work.
// A program that forgets to wait reads what was there before, as it may on a real device; memory
// that is new holds nan (or -1) until then.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "engine/tensor/backend.h"

namespace tycho::cpu {

class Streams {
 public:
  Streams();
  StreamId add();
  void remove(StreamId stream);

  bool any() const { return waiting_.load(std::memory_order_relaxed) != 0; }
  void copy_later(StreamId stream, const Tensor& to, const Tensor& from, bool fresh);
  uint64_t mark(StreamId stream);
  bool passed(StreamId stream, uint64_t mark);
  void finish(StreamId stream, uint64_t mark = UINT64_MAX);
  void finish();  // all of them

 private:
  struct Copy {
    Tensor to, from;
  };
  struct Queue {
    uint64_t asked = 0, done = 0;
    bool used = true;
    std::deque<Copy> copies;
  };
  Queue& at(StreamId stream);

  std::mutex mutex_;
  std::atomic<int> waiting_{0};
  std::deque<Queue> queues_;
};

}  // namespace tycho::cpu
