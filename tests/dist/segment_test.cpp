// Memory that processes share: what travels, what it says when there is no room, what is refused.
#include "engine/dist/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/dist/types.h"

namespace tycho::dist {
namespace {

struct Pair {
  int fd[2];
  explicit Pair(int type = SOCK_SEQPACKET) {
    EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fd), 0);
  }
  ~Pair() {
    close(fd[0]);
    close(fd[1]);
  }
};

int open_descriptors() {
  int n = 0;
  for (int fd = 0; fd < 1024; ++fd) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

TEST(Segment, WhatAChildWritesIsSeenByItsParent) {
  const auto s = Segment::make(1000);
  EXPECT_GE(s->bytes, 1000u);
  EXPECT_EQ(s->data[999], 0);
  const pid_t child = fork();
  if (child == 0) {
    s->data[7] = 42;
    _exit(0);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(s->data[7], 42);
}

TEST(Segment, ADescriptorTravelsAndTheSameSegmentIsMappedOnce) {
  const int before = open_descriptors();
  {
    Pair pair;
    auto s = Segment::make(100);
    s->data[0] = 5;
    const int fd = s->fd.get();
    const char text[] = "hello";
    EXPECT_EQ(send_message(pair.fd[0], text, {&fd, 1}), 6);
    EXPECT_EQ(send_message(pair.fd[0], text, {&fd, 1}), 6);
    char room[10];
    std::vector<Descriptor> fds;
    EXPECT_EQ(receive_message(pair.fd[1], room, fds), 6);
    ASSERT_EQ(fds.size(), 1u);
    EXPECT_STREQ(room, "hello");
    const auto same = Segment::open(std::move(fds[0]));
    EXPECT_EQ(same.get(), s.get());
    // The second message outlives the maker.
    s = nullptr;
    const_cast<Ref<Segment>&>(same) = nullptr;
    fds.clear();
    EXPECT_EQ(receive_message(pair.fd[1], room, fds), 6);
    const auto again = Segment::open(std::move(fds[0]));
    EXPECT_EQ(again->data[0], 5);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Segment, NobodyChangesItsSize) {
  const auto s = Segment::make(5000);
  EXPECT_NE(ftruncate(s->fd.get(), 0), 0);
  EXPECT_NE(ftruncate(s->fd.get(), 1 << 20), 0);
  EXPECT_EQ(s->bytes % 4096, 0u);
}

TEST(Segment, WhatIsNoSegmentIsRefused) {
  const int before = open_descriptors();
  EXPECT_THROW(Segment::open(Descriptor(open("/dev/zero", O_RDWR | O_CLOEXEC))), DistError);
  Descriptor plain(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(plain.get(), 4096), 0);
  EXPECT_THROW(Segment::open(std::move(plain)), DistError);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Segment, MoreThanTheSystemHasIsAnError) {
  const int before = open_descriptors();
  try {
    Segment::make(size_t{1} << 50);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Oom);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Segment, TooFewDescriptorsAreNamed) {
  Pair pair;
  const auto s = Segment::make(100);
  rlimit was;
  getrlimit(RLIMIT_NOFILE, &was);
  int most = 0;
  for (int fd = 0; fd < 1024; ++fd)
    if (fcntl(fd, F_GETFD) >= 0) most = fd;
  rlimit low = was;
  const int fds[2] = {s->fd.get(), s->fd.get()};
  EXPECT_EQ(send_message(pair.fd[0], "x", fds), 2);
  low.rlim_cur = static_cast<rlim_t>(most + 1);
  setrlimit(RLIMIT_NOFILE, &low);
  // Gaps below the limit would be used.
  std::vector<Descriptor> gaps;
  for (int fd; (fd = dup(0)) >= 0;) gaps.emplace_back(fd);
  std::string made, came;
  try {
    Segment::make(100);
  } catch (const DistError& e) {
    made = e.text;
    EXPECT_EQ(e.reason, Reason::System);
  }
  char room[10];
  std::vector<Descriptor> received;
  try {
    receive_message(pair.fd[1], room, received);
  } catch (const DistError& e) {
    came = e.text;
  }
  setrlimit(RLIMIT_NOFILE, &was);
  EXPECT_NE(made.find("no file descriptor left"), std::string::npos) << made;
  EXPECT_NE(came.find("no file descriptor left"), std::string::npos) << came;
}

TEST(Segment, AClosedSocketIsAnErrorAndNoSignal) {
  Pair pair;
  close(pair.fd[1]);
  pair.fd[1] = -1;
  EXPECT_EQ(send_message(pair.fd[0], "x", {}), -1);
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace tycho::dist
