// How the members of a group come to one segment: the first makes it and hands out its descriptor on
// an abstract unix socket, whose name is in the store. The kernel says who connects: only processes
// of the same user are answered.
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/dist/shm.h"
#include "engine/dist/socket.h"
#include "engine/dist/token.h"

namespace tycho::dist {
namespace {

constexpr int kSpins = 400;  // about 20 us
constexpr char kFailed = '!';

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

[[noreturn]] void meeting_failed(const char* what) {
  throw DistError(
      {Reason::System, {}, format("shared memory: %s: %s", what, std::strerror(errno))});
}

Descriptor new_socket() {
  Descriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) {
    check_descriptors(errno);
    meeting_failed("socket");
  }
  return fd;
}

// The first rank does not answer: mostly it has died, which is known in a moment.
[[noreturn]] void gone(Wait& wait, const std::vector<int>& first, const char* what) {
  const int why = errno;
  for (int i = 0; i < 40; ++i) {
    wait.look(first);
    poll(nullptr, 0, 50);
  }
  errno = why;
  meeting_failed(what);
}

struct AbstractName {
  sockaddr_un address{};
  socklen_t length;
  explicit AbstractName(const std::string& name) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool is_own_user(int fd) {
  ucred who{};
  socklen_t length = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

}  // namespace

Shm::Shm(const Members& members)
    : members_(members),
      n_(members.size()),
      me_(members.rank),
      layout_(members.size()),
      maker_(std::this_thread::get_id()) {
  out_.resize(static_cast<size_t>(n_));
  in_.resize(static_cast<size_t>(n_));
  incoming_.resize(static_cast<size_t>(n_));
  meet_members();
  listener_ = members_.job->on_failure([this](const Failure&) { wake(); });
}

Shm::~Shm() {
  if (listener_ >= 0) members_.job->remove_listener(listener_);
}

Ref<Segment> Shm::make_segment() const {
  Ref<Segment> s = Segment::make_sparse(layout_.bytes(), "tycho group");
  s->reserve(0, layout_.control_bytes());
  const Job& job = *members_.job;
  int here = 0;  // ranks of the world on this machine
  const std::string& machine = job.peer(members_.ranks[0]).machine;
  for (int r = 0; r < job.env().world_size; ++r) here += job.peer(r).machine == machine;
  reinterpret_cast<shm::GroupPage*>(s->data)->crowded = std::max(here, n_) > cores();
  return s;
}

void Shm::hand_out(Wait& wait, const std::string& key) {
  const std::string name = "tycho-" + random_token();
  const Descriptor server = new_socket();
  const AbstractName address(name);
  if (bind(server.get(), address.get(), address.length) != 0 || listen(server.get(), n_) != 0)
    meeting_failed("a unix socket");
  members_.store->set(key, name);
  std::vector<int> missing;
  for (int r = 1; r < n_; ++r) missing.push_back(r);
  while (!missing.empty()) {
    pollfd p{server.get(), POLLIN, 0};
    if (poll(&p, 1, 50) <= 0) {
      wait.look(world(missing));
      continue;
    }
    const Descriptor client(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) check_descriptors(errno);
    if (!client || !is_own_user(client.get())) continue;
    int32_t rank = -1;
    const timeval most{5, 0};
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (recv(client.get(), &rank, sizeof rank, 0) != sizeof rank) continue;
    const int fds[] = {segment_->fd.get()};
    if (send_message(client.get(), std::span("s", 1), fds) == 1) std::erase(missing, rank);
  }
}

Descriptor Shm::fetch(Wait& wait, const std::string& key) const {
  std::optional<std::string> name;
  while (!(name = members_.store->try_get(key))) {
    poll(nullptr, 0, 1);
    wait.look(world({0}));
  }
  if (!name->empty() && name->front() == kFailed)
    throw DistError({Reason::System, world({0}), name->substr(1)});
  const Descriptor fd = new_socket();
  const AbstractName address(*name);
  int32_t rank = me_;
  if (connect(fd.get(), address.get(), address.length) != 0 || !is_own_user(fd.get()) ||
      send(fd.get(), &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank)
    gone(wait, world({0}), "the unix socket of the group's first rank");
  for (;;) {
    pollfd p{fd.get(), POLLIN, 0};
    if (poll(&p, 1, 50) > 0) break;
    wait.look(world({0}));
  }
  char byte;
  std::vector<Descriptor> fds;
  if (receive_message(fd.get(), std::span(&byte, 1), fds) != 1 || fds.size() != 1) {
    errno = ECONNRESET;
    gone(wait, world({0}), "the group's first rank did not send the segment");
  }
  return std::move(fds[0]);
}

void Shm::meet_members() {
  Desc desc;
  desc.group = members_.id;
  desc.line = here();
  desc_ = &desc;
  Wait wait(*members_.job, desc);
  const std::string key = "shm";
  try {
    if (me_ == 0) {
      try {
        segment_ = make_segment();
      } catch (const Error& e) {
        members_.store->set(key, kFailed + e.text);
        throw;
      }
      hand_out(wait, key);
    } else {
      segment_ = Segment::open(fetch(wait, key));
      if (segment_->bytes < layout_.bytes())
        throw DistError({Reason::System, world({0}), "shared memory: the segment is too small"});
    }
  } catch (const DistError& e) {
    // The others would wait for this rank.
    const std::vector<int> self = world({me_});
    if (e.reason == Reason::System && !members_.job->failed())
      members_.job->report({e.reason, self, format("rank %d: %s", self[0], e.text.c_str())});
    throw;
  }
  spins_ = group().crowded ? 0 : kSpins;
  barrier();
  if (me_ == 0) members_.store->delete_key(key);
}

}  // namespace tycho::dist
