// How ranks of one user find their server: a file, a user socket, a line to copy.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "engine/base/interrupt.h"
#include "engine/dist/env.h"
#include "engine/dist/socket.h"
#include "engine/dist/token.h"

namespace tycho::dist {
namespace {

// The file of rank 0, if it is there, belongs to this user, and somebody answers where it points: one
// that a killed job has left is passed over.
bool read_meeting_file(Env& env) {
  const Descriptor fd(open(env.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat about {};
  if (!fd || fstat(fd.get(), &about) != 0 || about.st_uid != geteuid()) return false;
  char room[1024];
  const ssize_t n = read(fd.get(), room, sizeof room);
  std::istringstream words(std::string(room, n > 0 ? static_cast<size_t>(n) : 0));
  std::string mark, address, token, machine, why;
  if (!(words >> mark >> address >> token) || mark != "tycho") return false;
  std::getline(words >> std::ws, machine);
  const Address a = parse_address(address);
  if (is_loopback(a.host) && machine != this_process().machine)
    throw DistError({Reason::Refused,
                     {},
                     env.file + " names an address that only the machine of rank 0 can reach"},
                    "MASTER_ADDR=<the name of that machine> for rank 0");
  if (!connect_to(a, Seconds(2), &why)) return false;
  env.address = address;
  env.token = token;
  return true;
}

}  // namespace

std::string read_file(const char* path) {
  std::ifstream in(path);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

void find_server(Env& env, double until) {
  const double asked = env.init_timeout.count();
  double pause = 0.001;
  const auto again = [&](const char* what) {
    check_interrupt();
    if (now() >= until)
      throw DistError(
          {Reason::Timeout, {0}, format("%s within %g s: is rank 0 running?", what, asked)});
    wait_readable(-1, std::min(until, now() + pause));
    pause = std::min(0.05, pause * 1.5);
  };
  if (!env.file.empty()) {
    while (!read_meeting_file(env)) again(("rank 0 did not write " + env.file).c_str());
    return;
  }
  if (!env.address.empty() && !env.token.empty()) return;
  const std::string name =
      !env.offered.empty() ? env.offered : port_offer(parse_address(env.address).port);
  for (;;) {
    const std::string told = take_offer(name);
    const size_t space = told.find(' ');
    if (space != std::string::npos) {
      if (env.address.empty()) env.address = told.substr(0, space);
      env.token = told.substr(space + 1);
      return;
    }
    // The port may belong to something else: say that, rather than wait for nothing.
    std::string why = "no answer";
    if (!env.address.empty() && now() >= until &&
        connect_to(parse_address(env.address), Seconds(1), &why))
      throw DistError({Reason::Refused,
                       {},
                       "what listens at " + env.address +
                           " is no store of this user, or belongs to "
                           "a job with a token of its own"},
                      "the same TYCHO_TOKEN for all ranks");
    again(env.address.empty() ? "rank 0 did not come"
                              : ("nobody serves at " + env.address).c_str());
  }
}

void write_meeting_file(const std::string& path, const std::string& address,
                        const std::string& token) {
  const std::string text = "tycho " + address + " " + token + " " + this_process().machine + "\n";
  const std::string draft = path + "." + std::to_string(getpid());
  const Descriptor fd(
      open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto fail_with = [&] {
    const int error = errno;
    if (fd) unlink(draft.c_str());
    fail(Kind::Io, "cannot write " + path + ", where ranks are to meet: " + std::strerror(error));
  };
  if (!fd || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      rename(draft.c_str(), path.c_str()) != 0)
    fail_with();
}

void print_meeting_line(const Env& env) {
  const Address a = parse_address(env.address);
  std::string command;
  for (const char c : read_file("/proc/self/cmdline")) command += c ? c : ' ';
  const std::string others = env.world_size == 2 ? "1" : format("{1..%d}", env.world_size - 1);
  std::fprintf(
      stderr,
      "torch.distributed: rank 0 of %d waits for the others; start them in other terminals:\n"
      "   RANK=%s WORLD_SIZE=%d MASTER_ADDR=%s MASTER_PORT=%d %s\n",
      env.world_size, others.c_str(), env.world_size, a.host.c_str(), a.port, command.c_str());
}

}  // namespace tycho::dist
