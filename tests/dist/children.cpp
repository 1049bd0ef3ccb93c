// Forking ranks and hearing from them.
#include "tests/dist/children.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "engine/dist/agreement.h"

namespace tycho::dist {
namespace {

int say_to = -1;

std::string read_frame(int fd) {
  std::string data;
  char c;
  uint32_t n = 0;
  while (data.size() < 4 + n && read(fd, &c, 1) == 1) {
    data += c;
    if (data.size() == 4) std::memcpy(&n, data.data(), 4);
  }
  return data.size() > 5 ? data.substr(5) : "";
}

void write_frame(int fd, Writer& w) {
  const std::string& data = w.frame();
  EXPECT_EQ(write(fd, data.data(), data.size()), static_cast<ssize_t>(data.size()));
}

}  // namespace

Children::Children(int n, Function f) {
  children_.resize(static_cast<size_t>(n));
  for (Child& child : children_) {
    int in[2], out[2], said[2];
    if (pipe(in) || pipe(out) || pipe(said)) std::abort();
    const pid_t parent = getpid();
    child.pid = fork();
    if (child.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      for (const Child& other : children_)
        for (const int fd : {other.in, other.out, other.said})
          if (fd >= 0) close(fd);
      close(in[1]), close(out[0]), close(said[0]);
      say_to = said[1];
      const std::string told = read_frame(in[0]);
      if (told.empty()) _exit(0);
      Reader r(told);
      Env e;
      e.rank = r.i32(), e.world_size = r.i32();
      e.address = r.string(), e.token = r.string(), e.file = r.string();
      e.serves = r.u8();
      e.timeout = Seconds(r.f64()), e.init_timeout = Seconds(r.f64()), e.late = Seconds(r.f64());
      Outcome o = dist::outcome([&] { f(e); });
      if (testing::Test::HasFailure()) o.text += " [an expectation failed in the child]";
      Writer w(Msg::Say);
      write_frame(out[1], write_failure(w, {o.reason, o.ranks, o.text}).text(o.op).u32(o.seq));
      _exit(0);
    }
    close(in[0]), close(out[1]), close(said[1]);
    child.in = in[1], child.out = out[0], child.said = said[0];
  }
}

Children::~Children() {
  for (Child& c : children_) {
    close(c.in), close(c.out), close(c.said);
    if (c.ended) continue;
    kill(c.pid, SIGKILL);
    waitpid(c.pid, nullptr, 0);
  }
}

void Children::begin(int rank, const Env& e) {
  Writer w(Msg::Say);
  w.i32(e.rank).i32(e.world_size).text(e.address).text(e.token).text(e.file).u8(e.serves);
  w.f64(e.timeout.count()).f64(e.init_timeout.count()).f64(e.late.count());
  write_frame(children_[static_cast<size_t>(rank)].in, w);
}

void Children::begin(const Server& server, const RanksOptions& options) {
  for (int r = 0; r < static_cast<int>(children_.size()); ++r) {
    Env e = env_of(server, r, static_cast<int>(children_.size()));
    e.timeout = options.timeout, e.init_timeout = options.init_timeout, e.late = options.late;
    begin(r, e);
  }
}

void Children::signal(int rank, int number) {
  kill(children_[static_cast<size_t>(rank)].pid, number);
}

Outcome Children::outcome(int rank) {
  Child& c = children_[static_cast<size_t>(rank)];
  const std::string told = read_frame(c.out);
  int status = 0;
  waitpid(c.pid, &status, 0);
  c.ended = true;
  if (told.empty())
    return {Reason::System,
            {},
            WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "it ended",
            {},
            {},
            0};
  Reader r(told);
  const Failure f = read_failure(r);
  const std::string op = r.string();
  return {f.reason, f.ranks, f.text, {}, op, r.u32()};
}

char Children::heard(int rank) {
  char c = 0;
  return read(children_[static_cast<size_t>(rank)].said, &c, 1) == 1 ? c : '\0';
}

void Children::say(char c) {
  if (write(say_to, &c, 1) < 0) {
  }
}

}  // namespace tycho::dist
