// The queues of streams.h.
#include "engine/cpu/device/streams.h"

#include <cstring>

#include "engine/base/check.h"

namespace tycho::cpu {
namespace {

// While a copy of a queue runs, its own kernel does not look at queues: those behind it wait.
thread_local bool running = false;
struct Running {
  Running() { running = true; }
  ~Running() { running = false; }
};

// Bits that no program takes for a result: nan in every floating point type, -1 in integers.
void poison(const Tensor& t) {
  const Running scope;
  const KernelScope open(KernelScope::bit(t.device()));
  std::memset(t.data(), t.dtype() == DType::Bool ? 0 : 0xff,
              static_cast<size_t>(t.numel() * dtype_size(t.dtype())));
}

}  // namespace

Streams::Streams() : queues_(1) {}

Streams::Queue& Streams::at(StreamId stream) {
  TYCHO_CHECK(Kind::Value, stream >= 0 && static_cast<size_t>(stream) < queues_.size(),
              "the device has no stream %d", stream);
  return queues_[static_cast<size_t>(stream)];
}

StreamId Streams::add() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 1; i < queues_.size(); ++i)
    if (!queues_[i].used) return queues_[i].used = true, static_cast<StreamId>(i);
  queues_.emplace_back();
  return static_cast<StreamId>(queues_.size() - 1);
}

void Streams::remove(StreamId stream) {
  finish(stream);
  const std::lock_guard lock(mutex_);
  if (stream != 0) at(stream).used = false;
}

void Streams::copy_later(StreamId stream, const Tensor& to, const Tensor& from, bool fresh) {
  if (fresh) poison(to);
  // Aliases: what the program does to its own tensors' shapes changes nothing here.
  Copy copy{alias(to), alias(from)};
  const std::lock_guard lock(mutex_);
  at(stream).copies.push_back(std::move(copy));
  ++at(stream).asked;
  ++waiting_;
}

uint64_t Streams::mark(StreamId stream) {
  const std::lock_guard lock(mutex_);
  return at(stream).asked;
}

bool Streams::passed(StreamId stream, uint64_t mark) {
  const std::lock_guard lock(mutex_);
  return at(stream).done >= mark;
}

void Streams::finish(StreamId stream, uint64_t mark) {
  if (running) return;
  while (true) {
    Copy copy;
    {
      const std::lock_guard lock(mutex_);
      Queue& queue = at(stream);
      if (queue.copies.empty() || queue.done >= mark) return;
      copy = std::move(queue.copies.front());
      queue.copies.pop_front();
      ++queue.done;
      --waiting_;
    }
    const Running scope;
    const Device d = copy.to.device().is_cpu() ? copy.from.device() : copy.to.device();
    backend_of(d).copy(copy.to, copy.from);
  }
}

void Streams::finish() {
  if (!any()) return;
  size_t count;
  {
    const std::lock_guard lock(mutex_);
    count = queues_.size();
  }
  for (size_t i = 0; i < count; ++i) finish(static_cast<StreamId>(i));
}

}  // namespace tycho::cpu
