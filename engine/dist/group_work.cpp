// Works: storages in flight, waiting, and what is left of them; and groups of one rank.
#include <cstring>
#include <utility>

#include "engine/base/interrupt.h"
#include "engine/dist/group.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"

namespace tycho::dist {

void Work::mark(const Tensor& t) {
  Storage& s = *t->storage;
  for (Mark& m : marks_) {
    if (m.storage == &s) return;
    if (m.storage) continue;
    m = {&s, s.in_flight};
    set_in_flight(s, this);
    return;
  }
}

bool Work::passed() const {
  if (!done()) return false;
  const Transport::Message& m = message_;
  return !m.on_stream || backend_of(m.span.d).passed(m.span.d, m.stream, m.mark);
}

void Work::settle() {
  if (std::exchange(message_.on_stream, false)) {
    // What this thread asks of the device from now on comes after the message.
    const Transport::Message& m = message_;
    const Device d = m.span.d;
    backend_of(d).wait_on_device(d, current_stream(d), d, m.stream, m.mark);
    backend_of(d).use(tensors_[0].get(), true);
  }
  for (Mark& m : marks_) {
    if (!m.storage) continue;
    // A storage may be in flight by several works of one group, one behind the other; nothing else
    // comes after a work without waiting for it.
    if (m.storage->in_flight == this) {
      set_in_flight(*m.storage, m.before);
    } else {
      for (auto* w = static_cast<Work*>(m.storage->in_flight); w;) {
        InFlight* next = nullptr;
        for (Mark& of : w->marks_) {
          if (of.storage != m.storage) continue;
          if (of.before == this)
            of.before = m.before;
          else
            next = of.before;
        }
        w = static_cast<Work*>(next);
      }
    }
    m = {};
  }
  if (arrives_in_ && message_.done && !error_) copy_raw(arrives_in_, tensors_[0]);
  arrives_in_ = Tensor();
  // The network may still read a message that has failed.
  if (is_message_ && !message_.done) group_->unsent_.push_back(tensors_[0]);
  tensors_[0] = Tensor();
  tensors_[1] = Tensor();
}

void Work::wait() {
  if (!done()) {
    std::unique_lock lock(group_->mutex_);
    while (!done()) {
      group_->changed_.wait_for(lock, std::chrono::milliseconds(50));
      if (done() || !interrupt_pending()) continue;
      lock.unlock();
      check_interrupt();
      lock.lock();
    }
  }
  settle();
  if (error_) std::rethrow_exception(error_);
}

void Work::wait(Storage&) { wait(); }

// One rank: results are copies. What a reduction makes of one is that one.
void Group::run_local(const Tensor& in, const Tensor& out) const {
  if (in && out && out.numel() && out.data() != in.data())
    copy_raw(alias(out, in.shape(), row_major(in.shape()), out->offset), in);
}

}  // namespace tycho::dist
