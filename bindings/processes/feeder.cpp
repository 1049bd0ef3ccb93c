// Sending packets, at once or from the feeder's thread.
#include "bindings/processes/feeder.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "engine/base/interrupt.h"
#include "engine/dist/types.h"

namespace tycho::lua {
namespace {

using std::chrono::milliseconds;

struct Feeder {
  std::mutex mutex;
  std::condition_variable sent;
  std::map<Handle, std::deque<Packet>> kept;
  int wake = -1;  // an eventfd: there is something new
};
Feeder& feeder() {
  static Feeder* const f = new Feeder;  // outlives what runs after main
  return *f;
}

// With the lock held: sends what goes.
void send_kept(Feeder& f) {
  for (auto it = f.kept.begin(); it != f.kept.end();) {
    auto& packets = it->second;
    try {
      while (!packets.empty()) {
        const Sent sent = try_send(it->first->get(), packets.front());
        if (sent == Sent::Full) break;
        if (sent == Sent::Closed) packets.clear();
        if (sent == Sent::Yes) packets.pop_front();
      }
    } catch (const Error&) {
      packets.clear();  // as if nobody were at the other end
    }
    it = packets.empty() ? f.kept.erase(it) : std::next(it);
  }
  f.sent.notify_all();
}

void* feed(void*) {
  Feeder& f = feeder();
  std::vector<pollfd> fds;
  for (;;) {
    fds.assign(1, {f.wake, POLLIN, 0});
    std::vector<Handle> held;  // so that they stay open while poll looks at them
    {
      const std::lock_guard lock(f.mutex);
      for (const auto& [handle, packets] : f.kept) {
        fds.push_back({handle->get(), POLLOUT, 0});
        held.push_back(handle);
      }
    }
    poll(fds.data(), fds.size(), held.empty() ? -1 : 1000);
    eventfd_t count;
    if (fds[0].revents) eventfd_read(f.wake, &count);
    bool writable = false;
    {
      const std::lock_guard lock(f.mutex);
      const size_t before = f.kept.size();
      send_kept(f);
      writable = before > 0 && f.kept.size() == before;
    }
    // A socket may be writable and still refuse: too many descriptors are on their way.
    if (writable) usleep(1000);
  }
  return nullptr;
}

void start(Feeder& f) {
  f.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int failed = f.wake < 0 ? errno : pthread_create(&thread, nullptr, feed, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed == 0) {
    pthread_detach(thread);
    return;
  }
  if (f.wake >= 0) close(f.wake);
  f.wake = -1;
  fail(Kind::Oom,
       "the system has no room for the thread that sends what a full queue does not take");
}

}  // namespace

Sent try_send(int fd, const Packet& packet) {
  std::vector<int> fds;
  for (const auto& segment : packet.segments) fds.push_back(segment->fd.get());
  for (const Handle& handle : packet.handles) fds.push_back(handle->get());
  if (dist::send_message(fd, packet.bytes, fds, MSG_DONTWAIT) >= 0) return Sent::Yes;
  switch (errno) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case EINTR:
    case ETOOMANYREFS:  // descriptors on their way, as many as this process may open
      return Sent::Full;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case EBADF:
      return Sent::Closed;
    default:
      throw dist::DistError({dist::Reason::System,
                             {},
                             std::string("sending to another process: ") + std::strerror(errno)});
  }
}

bool send_or_keep(const Handle& to, Packet packet) {
  Feeder& f = feeder();
  const std::lock_guard lock(f.mutex);
  const auto it = f.kept.find(to);
  if (it == f.kept.end()) {
    const Sent sent = try_send(to->get(), packet);
    if (sent != Sent::Full) return sent == Sent::Yes;
    if (f.wake < 0) start(f);
  }
  f.kept[to].push_back(std::move(packet));
  eventfd_write(f.wake, 1);  // full only when it is already awake
  return true;
}

int64_t packets_kept(const Handle* of) {
  Feeder& f = feeder();
  const std::lock_guard lock(f.mutex);
  int64_t n = 0;
  for (const auto& [handle, packets] : f.kept)
    if (!of || handle == *of) n += static_cast<int64_t>(packets.size());
  return n;
}

bool wait_until_sent(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  Feeder& f = feeder();
  std::unique_lock lock(f.mutex);
  while (!f.kept.empty()) {
    if (interrupt_pending()) {
      lock.unlock();
      check_interrupt();
      lock.lock();
    }
    if (Clock::now() >= until) return false;
    f.sent.wait_for(lock, milliseconds(20));
  }
  return true;
}

}  // namespace tycho::lua
