// The watch thread of a rank: what the server tells, and whom it is passed on to.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/dist/agreement.h"
#include "engine/dist/rank_job.h"

namespace tycho::dist {

void RankJob::run() {
  HoldInterrupts hold;
  int error = 0;
  try {
    for (;;) {
      while (const auto f = watch_.inbox.next()) handle(*f);
      pollfd p[] = {{watch_.fd.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      if (poll(p, 2, -1) < 0) continue;
      if (p[1].revents) break;
      const ssize_t n = watch_.inbox.read_from(watch_.fd.get());
      if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) continue;
      error = n < 0 ? errno : 0;
      break;
    }
  } catch (const BadFrame&) {
    error = EPROTO;
  }
  ended(error);
}

void RankJob::ended(int error) {
  Failure f;
  {
    const std::lock_guard lock(mutex_);
    if (!closing_ && served_by_ >= 0 && left_.count(served_by_)) {
      f = {Reason::Left, {served_by_}, left_[served_by_] + " It served the store."};
    } else if (!closing_ && served_by_ >= 0) {
      const Peer& p = peer(served_by_);
      f = {Reason::Died,
           {served_by_},
           format("rank %d (pid %lld on %s), which served the store, died", served_by_,
                  static_cast<long long>(p.pid), p.host.c_str())};
    } else if (!closing_) {
      f = {Reason::Lost, {}, "the store at " + env_.address + " is gone"};
    }
    if (error) f.text += std::string(": ") + std::strerror(error);
  }
  if (f.reason != Reason::None) fail(f);
  const std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void RankJob::handle(const Frame& frame) {
  Reader body(frame.body);
  switch (frame.msg) {
    case Msg::Failed: {
      const uint32_t generation = body.u32();
      Failure f = read_failure(body);
      {
        const std::lock_guard lock(mutex_);
        if (generation != generation_) return;
      }
      return fail(std::move(f));
    }
    case Msg::Left: {
      const int rank = body.i32();
      const Failure f{Reason::Left, {rank}, body.string()};
      {
        const std::lock_guard lock(mutex_);
        left_[rank] = f.text;
      }
      return tell(f);
    }
    case Msg::Where: {
      const uint32_t question = body.u32();
      std::string text;
      {
        const std::lock_guard lock(mutex_);
        if (busy_)
          text = "in " + where();
        else if (doing_.seq > 0)
          text = "in no collective; the last was " + where();
        else
          text = "in no collective yet";
      }
      return send(Writer(Msg::Doing).u32(question).text(text));
    }
    case Msg::Say: {
      const std::string text = body.string() + "\n";
      std::fputs(text.c_str(), stderr);
      return;
    }
    case Msg::Regrouped: {
      const std::lock_guard lock(mutex_);
      generation_ = body.u32();
      stay_ = body.list();
      regrouped_ = true;
      if (!closing_) failure_ = {}, failed_ = false;
      changed_.notify_all();
      return;
    }
    case Msg::NotRegrouped: {
      const std::lock_guard lock(mutex_);
      not_regrouped_ = read_failure(body);
      changed_.notify_all();
      return;
    }
    default:
      throw BadFrame{};
  }
}

std::string RankJob::where() const {
  return format("%s %u%s", verb_name(doing_.verb), doing_.seq, at(doing_.line).c_str());
}

void RankJob::fail(Failure f) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    if (failure_.reason != Reason::None) {
      // More deaths of one failure: a host with several ranks, or one after the other.
      if (f.reason != Reason::Died || failure_.reason != Reason::Died) return;
      for (const int r : f.ranks)
        if (std::find(failure_.ranks.begin(), failure_.ranks.end(), r) == failure_.ranks.end())
          failure_.ranks.push_back(r);
      return;
    }
    const bool gone = f.reason == Reason::Died || f.reason == Reason::Lost;
    if (busy_ && gone) f.text += format("; rank %d was in %s", env_.rank, where().c_str());
    failure_ = f;
    failed_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  if (remote_) remote_->client().wake();
  tell(f);
}

void RankJob::tell(const Failure& f) {
  const std::lock_guard lock(listening_);
  for (const auto& [id, listener] : listeners_) listener(f);
}

int RankJob::on_failure(std::function<void(const Failure&)> listener) {
  const std::lock_guard lock(listening_);
  const Failure f = failure();
  if (f.reason != Reason::None) listener(f);
  listeners_[++last_listener_] = std::move(listener);
  return last_listener_;
}

void RankJob::remove_listener(int id) {
  const std::lock_guard lock(listening_);
  listeners_.erase(id);
}

Failure RankJob::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Failure RankJob::left(const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  for (const int r : ranks)
    if (const auto it = left_.find(r); it != left_.end()) return {Reason::Left, {r}, it->second};
  return {};
}

void RankJob::doing(const Desc* desc) {
  const std::lock_guard lock(mutex_);
  busy_ = desc;
  if (desc) doing_ = *desc;
}

void RankJob::report(const Failure& failure) {
  // A closed connection mostly is a death, of which the server knows more: who, and where.
  if (failure.reason == Reason::Died || failure.reason == Reason::Lost) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(500),
                      [&] { return failure_.reason != Reason::None; });
  }
  Writer w(Msg::Report);
  {
    const std::lock_guard lock(mutex_);
    if (failure_.reason != Reason::None) return;
    w.u32(generation_);
  }
  send(write_failure(w, failure));
  fail(failure);
}

void RankJob::send(Writer& frame) {
  const std::lock_guard lock(sending_);
  // A broken connection is what the watch thread sees.
  send_all(watch_.fd.get(), frame.frame());
}

}  // namespace tycho::dist
