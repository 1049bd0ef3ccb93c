// Connecting a mesh, and waiting in it.
#include "engine/dist/courier.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/dist/segment.h"
#include "engine/dist/socket.h"

namespace tycho::dist {
namespace {

constexpr std::chrono::milliseconds kTick{50};
constexpr int kIdleTicks = 20;  // after them the ticker sleeps until somebody waits

std::string numeric(const sockaddr* address, socklen_t n) {
  char text[NI_MAXHOST];
  return getnameinfo(address, n, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

// The first address of this machine that is not its own alone; empty: it has none.
std::string outer_address() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::string found;
  for (const ifaddrs* a = all; a && found.empty(); a = a->ifa_next)
    if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET)
      if (const std::string s = numeric(a->ifa_addr, sizeof(sockaddr_in)); !is_loopback(s))
        found = s;
  freeifaddrs(all);
  return found;
}

// The address of this machine that others reach: the one from which it reaches the store. No packet
// is sent. Where the store's host has a name that leads it to itself alone (Debian's /etc/hosts has
// such a line), `outside` asks for another one.
std::string own_address(const std::string& store, bool outside) {
  const Address to = parse_address(store);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const std::string port = std::to_string(to.port);
  if (const int e = getaddrinfo(to.host.c_str(), port.c_str(), &hints, &found))
    throw DistError(
        {Reason::System,
         {},
         format("the store's host %s is not known: %s", to.host.c_str(), gai_strerror(e))});
  std::string own, why = "no address";
  for (const addrinfo* a = found; a && own.empty(); a = a->ai_next) {
    const Descriptor fd(socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage self{};
    socklen_t n = sizeof self;
    if (!fd || ::connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&self), &n) != 0)
      why = std::strerror(errno);
    else
      own = numeric(reinterpret_cast<sockaddr*>(&self), n);
  }
  freeaddrinfo(found);
  if (outside && is_loopback(own))
    if (const std::string other = outer_address(); !other.empty()) own = other;
  if (own.empty())
    throw DistError({Reason::System,
                     {},
                     format("no way leads from this machine to the store at %s: %s", store.c_str(),
                            why.c_str())});
  return own;
}

}  // namespace

// While one lives, the ticker and `wake` reach the buffer.
class Courier::Waiting {
 public:
  Waiting(Courier& c, Buffer& b) : courier_(c), buffer_(b) {
    const std::lock_guard lock(c.mutex_);
    c.waiting_.push_back(&b);
    if (c.asleep_) c.changed_.notify_all();
  }
  ~Waiting() {
    const std::lock_guard lock(courier_.mutex_);
    auto& all = courier_.waiting_;
    all.erase(std::find(all.begin(), all.end(), &buffer_));
  }
  Waiting(const Waiting&) = delete;

 private:
  Courier& courier_;
  Buffer& buffer_;
};

Courier::Courier(const Members& members, const std::function<MakeMesh>& make)
    : job_(members.job), ranks_(members.ranks), rank_(members.rank) {
  try {
    const auto elsewhere = [&](int r) {
      return job_->peer(r).machine != job_->peer(ranks_[0]).machine;
    };
    const bool outside = std::any_of(ranks_.begin(), ranks_.end(), elsewhere);
    mesh_ = make(rank_, size(), own_address(job_->env().address, outside).c_str());
  } catch (const MeshError& e) {
    throw DistError({Reason::System, {}, std::string("the network cannot be used: ") + e.what()});
  }
  connect(members);
  ticker_ = std::thread([this] { tick(); });
}

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (ticker_.joinable()) ticker_.join();
}

// What another rank tells all at the beginning.
std::string Courier::told(Store& store, const std::string& key, int rank) {
  Desc meeting;
  Wait looks(*job_, meeting);
  const double until = now() + job_->env().init_timeout.count();
  for (;;) {
    try {
      return store.get(key, Seconds(0.2));
    } catch (const DistError& e) {
      if (e.reason != Reason::Timeout || now() > until) throw;
    }
    looks.look({rank});
  }
}

void Courier::connect(const Members& members) {
  const auto key = [](int member) { return "mesh/" + std::to_string(member); };
  members.store->set(key(rank_), mesh_->addresses());
  std::vector<std::string> addresses(ranks_.size());
  const size_t bytes = mesh_->address_bytes();
  for (int i = 0; i < size(); ++i) {
    if (i == rank_) continue;
    const std::string all = told(*members.store, key(i), world_rank(i));
    const size_t mine = static_cast<size_t>(rank_ < i ? rank_ : rank_ - 1);  // none for itself
    if (all.size() != bytes * static_cast<size_t>(size() - 1))
      throw DistError({Reason::Refused,
                       {world_rank(i)},
                       format("rank %d tells %zu bytes of addresses instead of %zu: the "
                              "ranks have different versions of Tycho, or of Gloo",
                              world_rank(i), all.size(), bytes * static_cast<size_t>(size() - 1))});
    addresses[static_cast<size_t>(i)] = all.substr(mine * bytes, bytes);
  }
  // Connecting waits for the other side and cannot look: a thread does it, and this one looks.
  int at = -1;
  bool done = false;
  std::string error;
  std::thread connecting([&] {
    const HoldInterrupts held;
    for (int i = 0; i < size() && error.empty(); ++i) {
      if (i == rank_) continue;
      {
        const std::lock_guard lock(mutex_);
        if (closed_) break;
        at = i;
      }
      try {
        mesh_->connect(i, addresses[static_cast<size_t>(i)]);
      } catch (const MeshError& e) {
        const std::lock_guard lock(mutex_);
        error = e.what();
      }
    }
    const std::lock_guard lock(mutex_);
    done = true;
    changed_.notify_all();
  });
  std::exception_ptr raised;
  const double until = now() + job_->env().init_timeout.count();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kTick, [&] { return done; }) && !closed_) {
    const int member = at;
    lock.unlock();
    try {
      if (job_->failed()) throw DistError(job_->failure());
      check_interrupt();
      if (now() > until)
        throw DistError({Reason::Timeout,
                         {world_rank(member)},
                         format("no connection with rank %d within %g s", world_rank(member),
                                job_->env().init_timeout.count())});
    } catch (...) {
      raised = std::current_exception();
      close("the group never came about");
    }
    lock.lock();
  }
  lock.unlock();
  connecting.join();
  if (raised) std::rethrow_exception(raised);
  if (error.empty()) return;
  Desc none;
  broken(at, MeshError(error), none);
}

char* Courier::scratch(int64_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset();
    scratch_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(bytes));
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

void Courier::wait(Buffer& buffer, Way way, int peer, Wait& looks, const Desc& desc) {
  const Waiting here(*this, buffer);
  try {
    do {
      check(desc);
    } while (!(way == Way::Sent ? buffer.wait_sent() : buffer.wait_received(nullptr)) &&
             (looks.look(), true));
  } catch (const MeshError& e) {
    broken(peer, e, desc);
  }
}

int Courier::wait_any(Buffer& buffer, const std::function<bool()>& go_on) {
  const Waiting here(*this, buffer);
  int from = -1;
  do {
    if (!go_on()) return -1;
  } while (!buffer.wait_received(&from));
  return from;
}

bool Courier::sent_until(Buffer& buffer, double until) {
  const Waiting here(*this, buffer);
  try {
    while (!buffer.wait_sent())
      if (now() > until || job_->failed() || closed_) return false;
  } catch (const MeshError&) {
    return false;
  }
  return true;
}

void Courier::broken(int peer, const MeshError& error, const Desc& desc) {
  // Why it broke is known by the watch: who died, or who had closed because another had died. Its
  // word may still be on the way; who does not know which connection it was depends on it.
  std::vector<int> rank;
  if (peer >= 0) rank.push_back(world_rank(peer));
  const std::vector<int>& asked = peer < 0 ? ranks_ : rank;
  for (const double until = now() + (peer < 0 ? 5 : 0.25); now() < until && !job_->failed();) {
    if (const Failure left = job_->left(asked); left.reason != Reason::None) raise(left, desc);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  job_->report({peer < 0 ? Reason::Lost : Reason::Died, rank,
                format("the connection of rank %d with %s broke: %s", world_rank(rank_),
                       peer < 0 ? "another" : ranks_text(rank).c_str(), error.what())});
  raise(job_->failure(), desc);
}

void Courier::wake() {
  const std::lock_guard lock(mutex_);
  for (Buffer* b : waiting_) b->stop();
}

void Courier::close(const std::string& why) {
  const std::lock_guard one(closing_);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    why_closed_ = why;
    closed_ = true;
  }
  mesh_->close();
  wake();
}

void Courier::check(const Desc& desc) {
  if (job_->failed()) [[unlikely]]
    raise(job_->failure(), desc);
  if (closed_) [[unlikely]]
    raise({Reason::Lost, {world_rank(rank_)}, "the group is broken: " + why_closed_}, desc);
}

void Courier::tick() {
  std::unique_lock lock(mutex_);
  for (int idle = 0; !over_;) {
    asleep_ = idle > kIdleTicks;
    if (asleep_)
      changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
    else
      changed_.wait_for(lock, kTick, [&] { return over_; });
    asleep_ = false;
    idle = waiting_.empty() ? idle + 1 : 0;
    for (Buffer* b : waiting_) b->stop();
  }
}

void Sends::send(Mesh::Buffer& buffer, int to, uint64_t slot, int64_t offset, int64_t bytes) {
  if (bytes == 0) return;
  finish(1);
  try {
    buffer.send(to, slot, static_cast<size_t>(offset), static_cast<size_t>(bytes));
  } catch (const MeshError& e) {
    courier_.broken(to, e, desc_);
  }
  sent_.push_back({&buffer, to});
}

void Sends::finish(size_t but) {
  while (sent_.size() > but) {
    const Sent s = sent_.front();
    sent_.pop_front();
    courier_.wait(*s.buffer, Courier::Way::Sent, s.to, looks_, desc_);
  }
}

}  // namespace tycho::dist
