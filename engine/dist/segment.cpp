// Making, mapping and passing memory segments.
#include "engine/dist/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include "engine/base/interrupt.h"
#include "engine/dist/types.h"

namespace tycho::dist {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kWorthAsking = size_t{16} << 20;

// The segments of this process, so that what comes twice is mapped once. A segment leaves the
// table when its count is 0, but for a moment it may still be found there: then it is not used.
struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, Segment*> all;
};
Table& table() {
  static Table* const t = new Table;  // outlives what runs after main
  return *t;
}

int64_t descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(limit.rlim_cur);
}

[[noreturn]] void no_memory(size_t bytes) {
  fail(Kind::Oom, format("shared memory: the system has no room for %.1f MB", bytes / 1e6));
}

[[noreturn]] void system_error(const char* what) {
  throw DistError(
      {Reason::System, {}, format("shared memory: %s: %s", what, std::strerror(errno))});
}

size_t number_in(const char* path, const char* label) {
  std::ifstream file(path);
  std::string word;
  size_t n;
  if (!*label) return file >> n ? n : SIZE_MAX;
  while (file >> word)
    if (word == label && file >> n) return n << 10;
  return SIZE_MAX;
}

// What can be had before the system ends processes for lack of it, which no call tells. Inside a
// container its limit counts.
size_t available_memory() {
  size_t least = number_in("/proc/meminfo", "MemAvailable:");
  const auto group = [&](const char* limit, const char* used) {
    const size_t most = number_in(limit, ""), now = number_in(used, "");
    if (most != SIZE_MAX && now != SIZE_MAX) least = std::min(least, most > now ? most - now : 0);
  };
  group("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
  group("/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  return least;
}

// Takes the descriptor over: maps it, and puts it into the table.
Ref<Segment> map(Descriptor fd, size_t bytes, uint64_t inode) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) no_memory(bytes);
  auto* s = new Segment;
  s->data = static_cast<char*>(data);
  s->bytes = bytes;
  s->fd = std::move(fd);
  s->inode = inode;
  Ref<Segment> segment(s);
  table().all[inode] = s;
  return segment;
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void check_descriptors(int error) {
  if (error != EMFILE && error != ENFILE) return;
  throw DistError(
      {Reason::System,
       {},
       format("shared memory: this process has no file descriptor left (its limit is %lld; each "
              "group holds one, and each shared tensor that came or went alone)",
              static_cast<long long>(descriptor_limit()))},
      "ulimit -n 65536 before tycho starts");
}

namespace {

Descriptor new_file(const char* name) {
  Descriptor fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd) return fd;
  check_descriptors(errno);
  system_error("memfd_create");
}

void reserve_pages(int fd, size_t offset, size_t bytes) {
  if (bytes > kWorthAsking && bytes > available_memory()) no_memory(bytes);
  for (;;) {  // a signal cuts it short, and it begins again from the start
    const int failed = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
    if (failed == 0) return;
    if (failed == EINTR) {
      check_interrupt();
      continue;
    }
    if (failed == ENOSPC || failed == ENOMEM || failed == EFBIG) no_memory(bytes);
    errno = failed;
    system_error("posix_fallocate");
  }
}

Ref<Segment> sealed(Descriptor fd, size_t bytes) {
  struct stat about {};
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0 || fstat(fd.get(), &about) != 0)
    system_error("sealing it");
  const std::lock_guard lock(table().mutex);
  return map(std::move(fd), bytes, about.st_ino);
}

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::max(page, (bytes + page - 1) / page * page);
}

}  // namespace

Ref<Segment> Segment::make(size_t bytes, const char* name) {
  const size_t rounded = whole_pages(bytes);
  Descriptor fd = new_file(name);
  reserve_pages(fd.get(), 0, rounded);
  return sealed(std::move(fd), rounded);
}

Ref<Segment> Segment::make_sparse(size_t bytes, const char* name) {
  const size_t rounded = whole_pages(bytes);
  Descriptor fd = new_file(name);
  if (ftruncate(fd.get(), static_cast<off_t>(rounded)) != 0) no_memory(bytes);
  return sealed(std::move(fd), rounded);
}

void Segment::reserve(size_t offset, size_t bytes) { reserve_pages(fd.get(), offset, bytes); }

Ref<Segment> Segment::open(Descriptor fd) {
  struct stat about {};
  if (fstat(fd.get(), &about) != 0) system_error("fstat");
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || about.st_size <= 0) {
    errno = EINVAL;
    system_error("what came is no sealed segment");
  }
  const std::lock_guard lock(table().mutex);
  if (const auto it = table().all.find(about.st_ino); it != table().all.end()) {
    Segment* s = it->second;
    // One whose count has fallen to 0 is about to be destroyed, and waits for this lock.
    uint32_t count = s->count.load(std::memory_order_acquire);
    while (count > 0)
      if (s->count.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel))
        return Ref<Segment>::adopt(s);
  }
  return map(std::move(fd), static_cast<size_t>(about.st_size), about.st_ino);
}

void Segment::destroy(Segment* s) {
  {
    const std::lock_guard lock(table().mutex);
    const auto it = table().all.find(s->inode);
    if (it != table().all.end() && it->second == s) table().all.erase(it);
  }
  munmap(s->data, s->bytes);
  delete s;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

ssize_t send_message(int socket, std::span<const char> bytes, std::span<const int> fds, int flags) {
  alignas(cmsghdr) char room[CMSG_SPACE(kDescriptorsMost * sizeof(int))];
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    const size_t n = fds.size_bytes();
    std::memset(room, 0, CMSG_SPACE(n));
    header.msg_control = room;
    header.msg_controllen = CMSG_SPACE(n);
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n);
    std::memcpy(CMSG_DATA(c), fds.data(), n);
  }
  ssize_t sent;
  do sent = sendmsg(socket, &header, flags | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR && !interrupt_pending());
  return sent;
}

ssize_t receive_message(int socket, std::span<char> bytes, std::vector<Descriptor>& fds,
                        int flags) {
  alignas(cmsghdr) char room[CMSG_SPACE(kDescriptorsMost * sizeof(int))];
  iovec piece{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = sizeof room;
  ssize_t got;
  do got = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR && !interrupt_pending());
  if (got < 0) return got;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  if (header.msg_flags & MSG_CTRUNC) check_descriptors(EMFILE);
  return got;
}

}  // namespace tycho::dist
