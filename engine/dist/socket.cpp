// Sockets of the control plane.
#include "engine/dist/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "engine/base/interrupt.h"
#include "engine/dist/token.h"
#include "engine/dist/types.h"

namespace tycho::dist {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, int flags, std::string* why) {
  addrinfo want{}, *found = nullptr;
  want.ai_socktype = SOCK_STREAM;
  want.ai_flags = AI_NUMERICSERV | flags;
  const std::string service = std::to_string(port);
  const int e = getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &want, &found);
  if (e != 0) *why = e == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(e);
  return {found, freeaddrinfo};
}

[[noreturn]] void system_error(std::string text, std::string hint = {}) {
  throw DistError({Reason::System, {}, std::move(text)}, std::move(hint));
}

}  // namespace

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Address parse_address(const std::string& text) {
  Address a;
  const size_t colon = text.rfind(':');
  const char* end = text.data() + text.size();
  bool good = colon != std::string::npos && colon > 0;
  if (good) {
    a.host = text.substr(0, colon);
    if (a.host.front() == '[' && a.host.back() == ']') a.host = a.host.substr(1, a.host.size() - 2);
    const auto [p, e] = std::from_chars(text.data() + colon + 1, end, a.port);
    good = e == std::errc() && p == end && a.port >= 0 && a.port <= 65535 && !a.host.empty();
  }
  TYCHO_CHECK(Kind::Value, good, "\"%s\" is no address: a host and a port, as in 127.0.0.1:29500",
              text.c_str());
  return a;
}

std::string to_string(const Address& a) {
  return (a.host.find(':') != std::string::npos ? "[" + a.host + "]" : a.host) + ":" +
         std::to_string(a.port);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Descriptor listen_at(const std::string& host, int port) {
  std::string why = "no address";
  const Addresses found = resolve(host, port, AI_PASSIVE, &why);
  int error = 0;
  for (const addrinfo* a = found.get(); a; a = a->ai_next) {
    Descriptor fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      error = errno;
      continue;
    }
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && listen(fd.get(), 4096) == 0) return fd;
    error = errno;
  }
  if (error == EADDRINUSE)
    system_error(format("port %d%s%s is taken by another program", port, host.empty() ? "" : " of ",
                        host.c_str()),
                 "another MASTER_PORT, or none: then a free one is taken");
  system_error(format("cannot serve at %s: %s", to_string(Address{host, port}).c_str(),
                      error ? std::strerror(error) : why.c_str()));
}

int port_of(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
}

void prepare_connection(int fd) {
  const int on = 1, twice = 2, milliseconds = 3000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &twice, sizeof twice);
  // Keepalive rests while sent data is not yet confirmed; this is its limit then.
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

bool wait_readable(int fd, double until, int also) {
  pollfd p[] = {{fd, POLLIN, 0}, {also, POLLIN, 0}};
  const double left = std::min(0.05, until - now());
  if (left <= 0) return poll(p, also >= 0 ? 2 : 1, 0) > 0;
  return poll(p, also >= 0 ? 2 : 1, static_cast<int>(left * 1000) + 1) > 0;
}

bool send_all(int fd, std::string_view data) {
  const double until = now() + 30;
  while (!data.empty()) {
    const ssize_t n = send(fd, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      data.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd p{fd, POLLOUT, 0};
      if (now() > until) return false;
      poll(&p, 1, 100);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Descriptor connect_to(const Address& to, Seconds at_most, std::string* why) {
  const double until = now() + at_most.count();
  *why = "no address";
  const Addresses found = resolve(to.host, to.port, 0, why);
  for (const addrinfo* a = found.get(); a; a = a->ai_next) {
    Descriptor fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      system_error(format("no socket: %s", std::strerror(errno)),
                   errno == EMFILE ? "ulimit -n 65536 before tycho starts" : "");
    }
    int error = 0;
    if (connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0) {
      error = errno;
      while (error == EINPROGRESS) {
        check_interrupt();
        pollfd p{fd.get(), POLLOUT, 0};
        if (poll(&p, 1, 50) > 0) {
          socklen_t size = sizeof error;
          getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        } else if (now() > until) {
          error = ETIMEDOUT;
        }
      }
    }
    if (error == 0) {
      prepare_connection(fd.get());
      return fd;
    }
    *why = std::strerror(error);
  }
  return {};
}

namespace {

Failure read_refusal(Reader r) {
  Failure f;
  f.reason = static_cast<Reason>(r.u8());
  f.ranks = r.list();
  f.text = r.string();
  return f;
}

// The next frame, or none at the end of the connection or when `until` has passed.
std::optional<Frame> next_frame(Proven& c, double until) {
  for (;;) {
    if (auto f = c.inbox.next()) return f;
    check_interrupt();
    if (now() > until) return std::nullopt;
    if (!wait_readable(c.fd.get(), until)) continue;
    const ssize_t n = c.inbox.read_from(c.fd.get());
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return std::nullopt;
  }
}

// Both sides prove that they know the token. False: the connection ended, as when a server ends just
// now; `why` says how.
bool exchange_proofs(Proven& c, const std::string& token, const std::string& address, double until,
                     std::string* why) {
  until = std::min(until, now() + 5);
  const auto stranger = [&] {
    throw DistError({Reason::Refused, {}, "what listens at " + address + " is no store of Tycho"},
                    "another port");
  };
  try {
    auto f = next_frame(c, until);
    if (!f) {
      *why = "it does not answer";
      return false;
    }
    Nonce theirs, mine = random_nonce();
    if (f->msg != Msg::Challenge || f->body.size() != theirs.size()) stranger();
    std::memcpy(theirs.data(), f->body.data(), theirs.size());
    const Mac mac = prove(token, "rank", mine, theirs);
    send_all(c.fd.get(), Writer(Msg::Proof).raw(mine.data(), 16).raw(mac.data(), 32).frame());
    f = next_frame(c, until);
    if (!f) {
      *why = "it closed the connection";
      return false;
    }
    if (f->msg == Msg::Refused) throw DistError(read_refusal(Reader(f->body)));
    if (f->msg != Msg::Proven) stranger();
    if (!same_mac(prove(token, "server", theirs, mine), f->body))
      throw DistError(
          {Reason::Refused, {}, "the store at " + address + " does not know this job's token"});
  } catch (const BadFrame&) {
    stranger();
  }
  return true;
}

}  // namespace

Proven connect_proven(const std::string& address, const std::string& token, double until,
                      double asked) {
  const Address to = parse_address(address);
  double pause = 0.001;
  std::string why;
  for (;;) {
    check_interrupt();
    Proven c;
    c.fd = connect_to(to, Seconds(std::max(0.0, until - now())), &why);
    if (c.fd && exchange_proofs(c, token, address, until, &why)) return c;
    if (now() >= until)
      throw DistError({Reason::Timeout,
                       {0},
                       format("nobody serves at %s after %g s (%s): is rank 0 running?",
                              address.c_str(), asked, why.c_str())});
    // Short first, because rank 0 mostly is about to listen; later it may be a while.
    wait_readable(-1, std::min(until, now() + pause));
    pause = std::min(0.05, pause * 1.5);
  }
}

}  // namespace tycho::dist
