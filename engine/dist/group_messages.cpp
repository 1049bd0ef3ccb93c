// Sends and receives: on the calling thread while no others are on their way, else on a thread of
// their own, so that they go on while the script computes or waits in a collective.
#include <algorithm>

#include "engine/base/interrupt.h"
#include "engine/dist/group.h"
#include "engine/dist/wait.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"

namespace tycho::dist {

Ref<Work> Group::start_send(const Tensor& t, int peer, int tag, bool async) {
  return start_message(t, peer, tag, true, async);
}

Ref<Work> Group::start_receive(const Tensor& t, int peer, int tag, bool async) {
  return start_message(t, peer, tag, false, async);
}

Ref<Work> Group::start_message(const Tensor& t, int peer, int tag, bool send, bool async) {
  const char* const what = send ? "send" : "recv";
  check_open(what);
  TYCHO_CHECK(Kind::Value, peer >= (send ? 0 : -1) && peer < members_.size(),
              "%s: there is no rank %d in a group of %d", what, peer, members_.size());
  TYCHO_CHECK(Kind::Value, peer != members_.rank && members_.size() > 1,
              "%s: rank %d is this rank itself; there is nobody to talk to", what, members_.rank);
  // Messages of one storage go their ways together, unless one would change what another reads.
  while (disturbs(t, send)) t->storage->in_flight->wait(*t->storage);
  if (!issued_.empty()) reap();
  const bool staged = !transport_->takes(t.device());
  Tensor host = t;
  if (staged) {
    host = empty(t.shape(), t.dtype());
    if (send) copy_raw(host, t);
  }
  Ref<Work> w(new Work);
  w->is_message_ = true;
  w->group_ = this;
  w->tensors_[0] = host;
  if (staged && !send) w->arrives_in_ = t;
  w->message_.send = send;
  w->message_.peer = peer;
  w->message_.tag = tag;
  w->message_.span = span_in_flight(host);
  w->message_.line = here();
  if (!t.device().is_cpu() && !staged) backend_of(t.device()).use(t.get(), !send);
  transport_->issue_message(w->message_);
  w->desc_.group = members_.id;
  w->desc_.line = w->message_.line;
  if (may_run_here()) try {
      if (async)
        begin_message(*w);
      else
        run_message(*w);
    } catch (...) {
      w->settle();
      throw;
    }
  if (w->message_.done) {
    w->settle();
    w->done_ = true;
  } else {
    w->mark(staged && !send ? t : host);
    issued_.push_back(w);
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(w.get());
    }
    if (!mover_.joinable()) mover_ = std::thread([this] { move_messages(); });
    changed_.notify_all();
    transport_->wake();
    if (!async) w->wait();
  }
  return w;
}

// As span_of, of a tensor that may be in flight.
Span Group::span_in_flight(const Tensor& t) {
  char* const memory = static_cast<char*>(t->storage->data);
  if (!memory) return span_of(t);
  return {memory + t->offset * dtype_size(t.dtype()), t.numel(), t.dtype(), t.device()};
}

// Whether what is in flight on the tensor's storage must be over before a message takes its part of
// it.
bool Group::disturbs(const Tensor& t, bool send) const {
  const InFlight* by = t->storage->in_flight;
  if (!by) return false;
  // By other groups, or by other things than groups?
  if (std::none_of(issued_.begin(), issued_.end(),
                   [&](const Ref<Work>& w) { return w.get() == by; }))
    return true;
  const Span mine = span_in_flight(t);
  const auto* const begin = static_cast<const char*>(mine.p);
  return std::any_of(issued_.begin(), issued_.end(), [&](const Ref<Work>& w) {
    if (w->marks_[0].storage != t->storage.get() && w->marks_[1].storage != t->storage.get())
      return false;
    if (!w->is_message_ || w->arrives_in_) return true;
    const Span& span = w->message_.span;
    const auto* const other = static_cast<const char*>(span.p);
    const bool apart = begin + mine.bytes() <= other || other + span.bytes() <= begin;
    return !apart && !(send && w->message_.send);
  });
}

bool Group::may_run_here() const {
  const std::lock_guard lock(mutex_);
  return messages_.empty() && !moving_;
}

// What can be moved without waiting.
void Group::begin_message(Work& w) {
  try {
    start_on_transport(w);
    const std::vector<Transport::Message*> open{&w.message_};
    while (!w.message_.done && transport_->poll_messages(open)) {
    }
  } catch (...) {
    poison(w.name(), w.desc_);
  }
}

void Group::start_on_transport(Work& w) {
  if (members_.job->failed()) raise(members_.job->failure(), w.desc_);
  transport_->start_message(w.message_);
  w.started_ = true;
}

void Group::look(Work& w) {
  if (!w.waits_) w.waits_ = std::make_unique<Wait>(*members_.job, w.desc_);
  std::vector<int> peer;
  if (w.message_.peer >= 0) peer.push_back(members_.ranks[static_cast<size_t>(w.message_.peer)]);
  w.waits_->look(peer);
}

void Group::run_message(Work& w) {
  try {
    start_on_transport(w);
    const std::vector<Transport::Message*> open{&w.message_};
    for (bool waited = false; !w.message_.done;) {
      if (transport_->poll_messages(open) || w.message_.done) continue;
      if (waited) look(w);
      waited = true;
      transport_->wait_for_messages(Seconds(0.05));
    }
  } catch (...) {
    poison(w.name(), w.desc_);
  }
}

void Group::move_messages() {
  const HoldInterrupts hold;
  std::vector<Work*> works;
  std::vector<Transport::Message*> open;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (messages_.empty()) moving_ = false;
    changed_.wait(lock, [&] { return stop_ || !messages_.empty(); });
    if (messages_.empty()) return;
    moving_ = true;
    works = messages_;
    std::exception_ptr error = poison_;
    lock.unlock();
    if (!error) try {
        try {
          open.clear();
          for (Work* w : works) {
            if (!w->started_) start_on_transport(*w);
            open.push_back(&w->message_);
          }
          if (!transport_->poll_messages(open)) {
            for (Work* w : works)
              if (!w->message_.done) look(*w);
            transport_->wait_for_messages(Seconds(0.05));
          }
        } catch (...) {
          poison(works[0]->name(), works[0]->desc_);
        }
      } catch (...) {
        error = std::current_exception();
      }
    lock.lock();
    std::erase_if(messages_, [&](Work* w) {
      if (!w->message_.done && !error) return false;
      if (!w->message_.done) w->error_ = error;
      w->done_.store(true, std::memory_order_release);
      return true;
    });
    changed_.notify_all();
  }
}

}  // namespace tycho::dist
