// Segment: memory that several processes map. It has no name in the file system: a memfd, whose
// descriptor travels over a unix socket (send_message), so the kernel counts who has it and frees
// it with the last one, however they end. Its pages are reserved when it is made, because a write
// that finds none later is SIGBUS, and nobody can change its size.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/ref.h"

namespace tycho::dist {

// An open file descriptor, closed by its owner; new ones do not reach programs that are started.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    if (this != &o) reset(std::exchange(o.fd_, -1));
    return *this;
  }
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  int leak() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Segment {
  char* data = nullptr;
  size_t bytes = 0;
  Descriptor fd;
  uint64_t inode = 0;

  // New memory that reads as zeros. Raises Kind::Oom when the system has not as much, and
  // Reason::System when it has no descriptor left. `name` is for people: /proc/PID/maps.
  static Ref<Segment> make(size_t bytes, const char* name = "tycho");
  // Maps what another process made; a segment that this process has already comes back as the same
  // object. Raises Reason::System for what is none (not sealed, another size than a write can
  // trust).
  static Ref<Segment> open(Descriptor fd);
  // The same without its pages: `reserve` gives a range of them, before it is first written to or
  // read. Raises as `make`.
  static Ref<Segment> make_sparse(size_t bytes, const char* name);
  void reserve(size_t offset, size_t bytes);
  static void destroy(Segment* s);

  // Not Shared's count: a segment that comes again is found while its last owner lets go of it.
  std::atomic<uint32_t> count{0};
  void retain() { count.fetch_add(1, std::memory_order_relaxed); }
  bool release() { return count.fetch_sub(1, std::memory_order_acq_rel) == 1; }
};

// Raises Reason::System, naming the limit, where an errno says that descriptors are used up.
void check_descriptors(int error);
// Raises the soft limit of open descriptors to the hard one: every segment holds one.
void raise_descriptor_limit();

// A message with descriptors over a unix socket, whole or not at all. Both return the result of the
// system call (-1 with errno: EAGAIN on a non-blocking socket, EPIPE, EMSGSIZE for over ~200 KB
// on SEQPACKET); no SIGPIPE. At most kDescriptorsMost descriptors, and at least one byte.
constexpr int kDescriptorsMost = 250;  // the kernel's limit is 253
ssize_t send_message(int socket, std::span<const char> bytes, std::span<const int> fds,
                     int flags = 0);
// Received descriptors are appended to `fds`. Raises Reason::System, naming the limit, when this
// process had no room for the descriptors that came; the message is lost then.
ssize_t receive_message(int socket, std::span<char> bytes, std::vector<Descriptor>& fds,
                        int flags = 0);

}  // namespace tycho::dist
