// Requests and their answers over one connection.
#include "engine/dist/client.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "engine/base/interrupt.h"

namespace tycho::dist {

Client::Client(std::string address, const std::string& token, const StoreOptions& options)
    : address_(std::move(address)),
      check_(options.check),
      connection_(connect_proven(address_, token, options.until, options.asked)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw DistError({Reason::System, {}, "no file descriptor for the store"});
  send_all(connection_.fd.get(),
           Writer(Msg::UseStore).i32(options.rank).u32(options.session).frame());
}

Writer Client::begin(Msg msg, uint32_t* request) {
  const std::lock_guard lock(mutex_);
  *request = ++last_;
  open_[*request] = std::nullopt;
  Writer w(msg);
  w.u32(*request);
  return w;
}

void Client::forget(uint32_t request) {
  {
    const std::lock_guard lock(mutex_);
    open_.erase(request);
  }
  const std::lock_guard lock(sending_);
  send_all(connection_.fd.get(), Writer(Msg::Cancel).u32(request).frame());
}

void Client::lost() {
  // The job's own connection may know more in a moment: who it was that died.
  for (const double until = now() + 1; check_ && now() < until;) {
    check_();
    wait_readable(-1, now() + 0.01);
  }
  throw DistError({Reason::Lost, {}, "the store at " + address_ + " is gone"});
}

void Client::wake() {
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) {
  }
}

std::string Client::ask(uint32_t request, Writer& frame) {
  return ask(request, frame, std::numeric_limits<double>::infinity(), {});
}

// On the thread that reads: what has come goes to those who wait for it.
void Client::read_some(double until) {
  const bool came = wait_readable(connection_.fd.get(), until, wake_.get());
  ssize_t n = -1;
  errno = EAGAIN;
  if (came) {
    uint64_t count;
    n = connection_.inbox.read_from(connection_.fd.get());
    const int error = errno;
    if (read(wake_.get(), &count, sizeof count) < 0) {
    }
    errno = error;
  }
  const std::lock_guard lock(mutex_);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) broken_ = true;
  try {
    while (const auto f = connection_.inbox.next()) {
      Reader body(f->body);
      if (f->msg != Msg::Reply) throw BadFrame{};
      const auto it = open_.find(body.u32());
      if (it != open_.end()) it->second = std::string(body.rest());
    }
  } catch (const BadFrame&) {
    broken_ = true;
  }
}

std::string Client::ask(uint32_t request, Writer& frame, double until,
                        const std::function<void()>& late, const std::function<void()>& look) {
  const bool waits = static_cast<bool>(late);
  try {
    {
      const std::lock_guard lock(sending_);
      if (frame.frame().size() > kFrameMost)
        fail(Kind::Value, "a value of the store is smaller than 1 GiB");
      if (!send_all(connection_.fd.get(), frame.frame())) lost();
    }
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        auto& answer = open_.at(request);
        if (answer) {
          std::string body = std::move(*answer);
          open_.erase(request);
          return body;
        }
        if (broken_) {
          lock.unlock();
          lost();
        }
        if (reading_) {
          arrived_.wait_for(lock, std::chrono::milliseconds(50));
        } else {
          reading_ = true;
          lock.unlock();
          read_some(until);
          lock.lock();
          reading_ = false;
          arrived_.notify_all();
          if (open_.at(request)) continue;
        }
      }
      check_interrupt();
      if (waits && check_) check_();
      if (look) look();
      if (waits && now() > until) late();
    }
  } catch (...) {
    forget(request);
    throw;
  }
}

}  // namespace tycho::dist
