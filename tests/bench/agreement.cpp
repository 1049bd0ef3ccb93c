// The server of a job under many ranks, each played by its two connections and nothing else: what
// meeting, one agreement, one key that all read, and the news of a death take, and the server's part
// of it in processor time and memory. The ranks are played by this process on the same cores.
//   ninja -C build agreement_bench && build/agreement_bench [RANKS [COLLECTIVES]]
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "engine/dist/server.h"
#include "engine/dist/socket.h"
#include "engine/dist/token.h"
#include "engine/dist/types.h"

using namespace tycho;
using namespace tycho::dist;

namespace {

struct Played {
  Proven watch, store;
};

double processor_time(pid_t pid) {
  clockid_t clock;
  timespec t{};
  if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double memory_mb(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:" && status >> word) return std::atof(word.c_str()) / 1000;
  return 0;
}

// Until every one of these connections has had a frame of this kind.
class Ears {
 public:
  Ears() : poll_(epoll_create1(EPOLL_CLOEXEC)) {}
  void add(Proven* c) {
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.ptr = c;
    epoll_ctl(poll_.get(), EPOLL_CTL_ADD, c->fd.get(), &e);
  }
  void hear(size_t n, Msg msg) {
    epoll_event events[256];
    while (n > 0) {
      const int ready = epoll_wait(poll_.get(), events, 256, 10000);
      if (ready == 0) std::fprintf(stderr, "the server says nothing\n"), std::exit(1);
      for (int i = 0; i < ready; ++i) {
        auto* const c = static_cast<Proven*>(events[i].data.ptr);
        if (c->inbox.read_from(c->fd.get()) == 0)
          std::fprintf(stderr, "a connection ended\n"), std::exit(1);
        while (const auto f = c->inbox.next())
          if (f->msg == msg) --n;
      }
    }
  }

 private:
  Descriptor poll_;
};

void send_frame(const Proven& c, Writer& w) { send_all(c.fd.get(), w.frame()); }

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1000, rounds = argc > 2 ? std::atoi(argv[2]) : 50;
  raise_descriptor_limit();
  const std::string token = random_token();
  const int port = port_of(listen_at("127.0.0.1", 0).get());
  const pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ServerOptions o;
    o.port = port;
    o.token = token;
    o.world_size = n;
    const auto s = Server::start(o);
    pause();
  }
  const std::string address = "127.0.0.1:" + std::to_string(port);
  std::vector<Played> ranks(static_cast<size_t>(n));
  Ears watching, asking;
  try {
    double began = now(), cpu = 0;
    for (int r = 0; r < n; ++r) {
      Played& p = ranks[static_cast<size_t>(r)];
      p.watch = connect_proven(address, token, now() + 10, 10);
      send_frame(
          p.watch,
          Writer(Msg::Join).i32(r).i32(n).i64(r).text("host").text("machine").f64(60).f64(60));
      watching.add(&p.watch);
    }
    watching.hear(static_cast<size_t>(n), Msg::Welcome);
    for (int r = 0; r < n; ++r) {
      Played& p = ranks[static_cast<size_t>(r)];
      p.store = connect_proven(address, token, now() + 10, 10);
      send_frame(p.store, Writer(Msg::UseStore).i32(r).u32(0));
      asking.add(&p.store);
    }
    std::printf("%d ranks  meeting %.1f ms, processor time of the server %.1f ms\n", n,
                1e3 * (now() - began), 1e3 * processor_time(server));

    uint32_t request = 0;
    const auto all_ask = [&](auto frame) {
      ++request;
      for (int r = 0; r < n; ++r) send_frame(ranks[static_cast<size_t>(r)].store, frame(r));
      asking.hear(static_cast<size_t>(n), Msg::Reply);
    };
    Desc d;
    d.verb = Verb::AllReduce;
    d.shape = {784, 10};
    std::vector<double> times;
    cpu = processor_time(server);
    for (int i = 0; i < rounds; ++i) {
      ++d.seq;
      began = now();
      const uint64_t hash = d.hash();
      const std::string text = d.text();
      Writer w(Msg::Agree);
      all_ask([&](int) -> Writer& {
        w = Writer(Msg::Agree);
        return w.u32(request)
            .u32(0)
            .f64(60)
            .u32(0)
            .u32(d.seq)
            .u64(hash)
            .text(text)
            .text("train.lua:41")
            .u32(0);
      });
      times.push_back(now() - began);
    }
    std::sort(times.begin(), times.end());
    std::printf(
        "agreement   median %.2f ms, worst %.2f; the server %.2f ms of processor time each\n",
        1e3 * times[times.size() / 2], 1e3 * times.back(),
        1e3 * (processor_time(server) - cpu) / rounds);

    cpu = processor_time(server);
    began = now();
    Writer w(Msg::Set);
    w = Writer(Msg::Set);
    ++request;
    send_frame(ranks[0].store, w.u32(request).text("address").text(std::string(100, 'x')));
    asking.hear(1, Msg::Reply);
    all_ask([&](int) -> Writer& {
      w = Writer(Msg::Get);
      return w.u32(request).text("address");
    });
    std::printf("a key       %.2f ms until all have it, the server %.2f ms\n",
                1e3 * (now() - began), 1e3 * (processor_time(server) - cpu));
    std::printf("memory      %.1f MB of the server\n", memory_mb(server));

    cpu = processor_time(server);
    began = now();
    ranks[static_cast<size_t>(n / 2)].watch.fd.reset();
    watching.hear(static_cast<size_t>(n - 1), Msg::Failed);
    std::printf("a death     %.2f ms until all know, the server %.2f ms\n", 1e3 * (now() - began),
                1e3 * (processor_time(server) - cpu));
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.text.c_str());
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
}
