// Tokens and their proof by libcrypto, which is loaded at first use: it would cost every start of the
// program half a millisecond.
#include "engine/dist/token.h"

#include <dlfcn.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "engine/dist/types.h"

namespace tycho::dist {
namespace {

struct Crypto {
  using Sha = const void* (*)();
  using Hmac = unsigned char* (*)(const void*, const void*, int, const unsigned char*, size_t,
                                  unsigned char*, unsigned*);
  Sha sha256 = nullptr;
  Hmac hmac = nullptr;
  Crypto() {
    void* const library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    sha256 = reinterpret_cast<Sha>(dlsym(library, "EVP_sha256"));
    hmac = reinterpret_cast<Hmac>(dlsym(library, "HMAC"));
  }
};

void fill_random(void* p, size_t n) {
  char* at = static_cast<char*>(p);
  while (n > 0) {
    const ssize_t got = getrandom(at, n, 0);
    if (got < 0 && errno != EINTR)
      throw DistError({Reason::System, {}, format("random numbers: %s", std::strerror(errno))});
    if (got > 0) at += got, n -= static_cast<size_t>(got);
  }
}

socklen_t abstract_name(sockaddr_un& at, const std::string& name) {
  at = {};
  at.sun_family = AF_UNIX;
  const size_t n = std::min(name.size(), sizeof at.sun_path - 1);
  std::memcpy(at.sun_path + 1, name.data(), n);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
}

bool same_user(int fd) {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

}  // namespace

std::string random_token() {
  unsigned char bits[16];
  fill_random(bits, sizeof bits);
  std::string s;
  for (const unsigned char b : bits) s += format("%02x", b);
  return s;
}

Nonce random_nonce() {
  Nonce n;
  fill_random(n.data(), n.size());
  return n;
}

Mac prove(std::string_view token, std::string_view speaker, const Nonce& mine, const Nonce& other) {
  static const Crypto crypto;
  if (!crypto.hmac || !crypto.sha256)
    throw DistError({Reason::System,
                     {},
                     "libcrypto.so.3 cannot be loaded: ranks prove with it that they "
                     "belong to one job"},
                    "apt-get install libssl3");
  std::string text(speaker);
  text.append(mine.data(), mine.size()).append(other.data(), other.size());
  Mac mac;
  unsigned size = 0;
  crypto.hmac(crypto.sha256(), token.data(), static_cast<int>(token.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(),
              reinterpret_cast<unsigned char*>(mac.data()), &size);
  return mac;
}

bool same_mac(const Mac& a, std::string_view b) {
  if (b.size() != a.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < a.size(); ++i) differs |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differs == 0;
}

std::string port_offer(int port) { return "tycho-port-" + std::to_string(port); }

Descriptor offer(const std::string& name) {
  Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un at;
  const socklen_t size = abstract_name(at, name);
  if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      listen(fd.get(), 128) != 0)
    return {};
  return fd;
}

void answer_offer(int listener, std::string_view text) {
  const Descriptor fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // Short, so that it fits into any socket's buffer.
  if (fd && same_user(fd.get())) send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::string take_offer(const std::string& name) {
  const Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un at;
  const socklen_t size = abstract_name(at, name);
  const timeval soon{2, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
  if (!fd || connect(fd.get(), reinterpret_cast<sockaddr*>(&at), size) != 0 || !same_user(fd.get()))
    return {};
  std::string text;
  char room[512];
  for (ssize_t n; (n = recv(fd.get(), room, sizeof room, 0)) > 0;)
    text.append(room, static_cast<size_t>(n));
  return text;
}

}  // namespace tycho::dist
