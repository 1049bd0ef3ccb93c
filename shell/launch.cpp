// `tycho run`. The ranks are processes in groups of their own: what they start is ended with them, and
// Ctrl-C at the terminal reaches them through this process only. The store serves here, where no
// rank's end can take it away.
#include "shell/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "engine/dist/server.h"
#include "engine/dist/socket.h"
#include "shell/launch_lines.h"

extern char** environ;

namespace tycho::shell {
namespace {

using dist::Descriptor;
constexpr double kToEnd = 5;  // seconds between SIGTERM and SIGKILL

struct Rank {
  int rank = 0;
  pid_t pid = -1;
  Descriptor pidfd, out, err;
  std::unique_ptr<Lines> lines_out, lines_err;
  double began = 0;
  bool ended = false;
  int status = 0;  // 128 + signal when one ended it
};

class Launch {
 public:
  explicit Launch(const RunOptions& options);
  int run();

 private:
  void serve(int attempt);
  void start(int local, int attempt);
  std::vector<std::string> environment(int local, int attempt) const;
  void look(double until);
  void on_signal(int number);
  void read_rank(Rank& r);
  void check_end(Rank& r);
  void failed(Rank& r);
  void tell_all(int number);
  void sweep();
  int once(int attempt);
  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.ended; });
  }

  const RunOptions& o_;
  const bool terminal_ = isatty(STDOUT_FILENO) && !is_dumb();
  static bool is_dumb() {
    const char* const term = std::getenv("TERM");
    return term && !std::strcmp(term, "dumb");
  }
  Descriptor signals_;
  sigset_t before_;
  std::unique_ptr<dist::Server> server_;
  std::string store_;
  std::vector<Rank> ranks_;
  int first_ = -1;       // who failed first
  int interrupts_ = 0;   // Ctrl-C so often
  int told_to_end_ = 0;  // SIGTERM or SIGHUP that came from outside
  double kill_at_ = 0;
};

Launch::Launch(const RunOptions& options) : o_(options) {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
    struct sigaction now;
    sigaction(s, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&set, s);  // nohup
  }
  sigprocmask(SIG_BLOCK, &set, &before_);
  signals_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  dist::raise_descriptor_limit();
}

void Launch::serve(int attempt) {
  if (o_.node > 0) {
    store_ = dist::to_string(dist::Address{o_.master, o_.port});
    return;
  }
  dist::ServerOptions s;
  s.world_size = o_.ranks * o_.nodes;
  if (o_.nodes > 1) s.token = o_.token;
  if (!o_.master.empty()) {
    const bool number = o_.master.find_first_not_of("0123456789.") == std::string::npos;
    s.name = o_.master;
    s.host = number || dist::is_loopback(o_.master) ? o_.master : "";
    s.port = o_.port;
  } else {
    s.port = o_.port;
  }
  // Ranks on other machines that start again look for the same address and token.
  if (attempt > 0 && o_.nodes > 1) server_.reset();
  server_ = dist::Server::start(s);
  store_ = server_->address();
}

std::vector<std::string> Launch::environment(int local, int attempt) const {
  const dist::Address at = dist::parse_address(store_);
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  dist::Variables all{{"RANK", std::to_string(o_.node * o_.ranks + local)},
                      {"WORLD_SIZE", std::to_string(o_.nodes * o_.ranks)},
                      {"LOCAL_RANK", std::to_string(local)},
                      {"LOCAL_WORLD_SIZE", std::to_string(o_.ranks)},
                      {"GROUP_RANK", std::to_string(o_.node)},
                      {"MASTER_ADDR", at.host},
                      {"MASTER_PORT", std::to_string(at.port)},
                      {"RESTART_COUNT", std::to_string(attempt)},
                      {"TYCHO_STORE", store_}};
  const std::string token = server_ ? server_->token() : o_.token;
  if (!token.empty()) all.emplace_back("TYCHO_TOKEN", token);
  if (!std::getenv("OMP_NUM_THREADS"))
    all.emplace_back("OMP_NUM_THREADS", std::to_string(std::max(1, cores / o_.ranks)));
  std::vector<std::string> out;
  for (char** e = environ; *e; ++e) {
    const std::string_view entry(*e), name = entry.substr(0, entry.find('='));
    const bool ours =
        std::any_of(all.begin(), all.end(), [&](const auto& v) { return v.first == name; });
    if (!ours) out.emplace_back(entry);
  }
  for (const auto& [name, value] : all) out.push_back(name + "=" + value);
  return out;
}

// A rank's standard output. Where ours is a terminal, rank 0 has one too, so that it draws its
// progress bar.
bool open_output(bool terminal, Descriptor* ours, Descriptor* theirs) {
  int fds[2];
  if (!terminal) {
    if (pipe2(fds, O_CLOEXEC) != 0) return false;
  } else {
    struct winsize size {};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    size.ws_col = static_cast<unsigned short>(size.ws_col > 5 ? size.ws_col - 5 : size.ws_col);
    termios raw{};
    cfmakeraw(&raw);
    if (openpty(&fds[0], &fds[1], nullptr, &raw, &size) != 0) return false;
    for (const int fd : fds) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  *ours = Descriptor(fds[0]);
  *theirs = Descriptor(fds[1]);
  return true;
}

void Launch::start(int local, int attempt) {
  Rank r;
  r.rank = o_.node * o_.ranks + local;
  const bool bar = terminal_ && r.rank == 0;
  Descriptor out, err;
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!open_output(bar, &r.out, &out) || !open_output(false, &r.err, &err) || !null)
    throw dist::DistError(
        {dist::Reason::System, {}, std::string("pipes: ") + std::strerror(errno)});
  r.lines_out = std::make_unique<Lines>(r.rank, STDOUT_FILENO, bar);
  r.lines_err = std::make_unique<Lines>(r.rank, STDERR_FILENO, false);
  std::vector<std::string> words{"tycho"}, variables = environment(local, attempt);
  words.insert(words.end(), o_.command.begin(), o_.command.end());
  std::vector<char*> argv, envp;
  for (std::string& w : words) argv.push_back(w.data());
  for (std::string& v : variables) envp.push_back(v.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  // Rank 0 reads what comes to us, unless that is the terminal: it is not in its foreground.
  const bool reads = r.rank == 0 && !isatty(STDIN_FILENO);
  const pid_t parent = getpid();
  r.began = dist::now();
  // No posix_spawn: the child asks to be ended with us before it begins. This process has one thread
  // besides, which holds no lock that is needed up to exec.
  r.pid = fork();
  if (r.pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(out.get(), STDOUT_FILENO);
    dup2(err.get(), STDERR_FILENO);
    if (!reads) dup2(null.get(), STDIN_FILENO);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  if (r.pid < 0)
    throw dist::DistError(
        {dist::Reason::System, {}, std::string("no process for a rank: ") + std::strerror(errno)});
  setpgid(r.pid, r.pid);
  r.pidfd = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, r.pid, 0)));
  ranks_.push_back(std::move(r));
}

void Launch::read_rank(Rank& r) {
  char room[16384];
  for (auto [fd, lines] : {std::pair(&r.err, r.lines_err.get()), {&r.out, r.lines_out.get()}}) {
    while (*fd) {
      const ssize_t n = read(fd->get(), room, sizeof room);
      if (n > 0) {
        lines->add(std::string_view(room, static_cast<size_t>(n)));
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      lines->end();
      fd->reset();  // at its end; a terminal says EIO
    }
  }
}

void Launch::check_end(Rank& r) {
  siginfo_t info{};
  // It stays a zombie until its group is ended, so that nobody else gets its number.
  if (r.ended || waitid(P_PID, static_cast<id_t>(r.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return;
  r.ended = true;
  r.status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  read_rank(r);
  r.lines_err->end();
  r.lines_out->end();
  r.pidfd.reset();
  if (r.status != 0) failed(r);
}

void Launch::failed(Rank& r) {
  if (first_ >= 0 || interrupts_ > 0 || told_to_end_) return;
  first_ = static_cast<int>(&r - ranks_.data());
  const double seconds = dist::now() - r.began;
  Lines::clear_bar();
  const auto others =
      std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& x) { return !x.ended; });
  const char* const what = others > 0 ? "; the others are ended" : "";
  if (r.status > 128)
    std::fprintf(stderr, "tycho run: rank %d killed by signal %d (%s) after %.1f s%s\n", r.rank,
                 r.status - 128, strsignal(r.status - 128), seconds, what);
  else
    std::fprintf(stderr, "tycho run: rank %d failed with status %d after %.1f s%s\n", r.rank,
                 r.status, seconds, what);
  tell_all(SIGTERM);
  kill_at_ = dist::now() + kToEnd;
}

void Launch::tell_all(int number) {
  for (const Rank& r : ranks_) {
    if (r.ended) continue;
    kill(-r.pid, number);
    if (number == SIGTERM) kill(-r.pid, SIGCONT);  // a stopped process does not hear it
  }
}

void Launch::on_signal(int number) {
  if (number == SIGTSTP) {
    tell_all(SIGSTOP);
    raise(SIGSTOP);
    return tell_all(SIGCONT);
  }
  if (number != SIGINT) {
    if (!told_to_end_) told_to_end_ = number;
    tell_all(SIGTERM);
    kill_at_ = dist::now() + kToEnd;
    return;
  }
  if (++interrupts_ == 1) {
    Lines::clear_bar();
    std::fprintf(stderr, "tycho run: all ranks are asked to end; Ctrl-C again kills them\n");
    return tell_all(SIGINT);
  }
  tell_all(SIGKILL);
}

// Waits for something to happen, and sees to it.
void Launch::look(double until) {
  std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
  bool blind = false;
  for (const Rank& r : ranks_) {
    for (const Descriptor* fd : {&r.pidfd, &r.out, &r.err})
      if (*fd) polled.push_back({fd->get(), POLLIN, 0});
    blind = blind || (!r.ended && !r.pidfd);
  }
  double left = until - dist::now();
  if (blind) left = std::min(left, 0.05);  // a kernel without pidfds
  const int wait = left > 1e6 ? -1 : std::max(0, static_cast<int>(left * 1000) + 1);
  poll(polled.data(), polled.size(), wait);
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == sizeof info)
    on_signal(static_cast<int>(info.ssi_signo));
  // Who was the first to go has printed why before the others could know of it.
  const int first = server_ ? server_->first_gone() - o_.node * o_.ranks : -1;
  if (first >= 0 && first < static_cast<int>(ranks_.size()))
    read_rank(ranks_[static_cast<size_t>(first)]);
  for (Rank& r : ranks_) read_rank(r);
  if (first >= 0 && first < static_cast<int>(ranks_.size()))
    check_end(ranks_[static_cast<size_t>(first)]);
  for (Rank& r : ranks_) check_end(r);
  if (kill_at_ > 0 && dist::now() >= kill_at_) {
    tell_all(SIGKILL);
    kill_at_ = 0;
  }
}

// Ends what ranks have left behind, and lets go of them.
void Launch::sweep() {
  for (Rank& r : ranks_) {
    kill(-r.pid, SIGKILL);
    waitpid(r.pid, nullptr, 0);
  }
  ranks_.clear();
}

int Launch::once(int attempt) {
  first_ = -1;
  kill_at_ = 0;
  serve(attempt);
  ranks_.reserve(static_cast<size_t>(o_.ranks));
  try {
    for (int local = 0; local < o_.ranks; ++local) start(local, attempt);
  } catch (...) {
    sweep();
    throw;
  }
  while (!all_ended()) look(kill_at_ > 0 ? kill_at_ : 1e18);
  const int status = first_ >= 0 ? ranks_[static_cast<size_t>(first_)].status : 0;
  sweep();
  // Ranks on other machines may still be working with the store.
  const double until = dist::now() + 30;
  while (server_ && o_.nodes > 1 && status == 0 && interrupts_ < 2 && !told_to_end_ &&
         server_->ranks_here() > 0 && dist::now() < until)
    look(std::min(until, dist::now() + 0.05));
  if (told_to_end_) return 128 + told_to_end_;
  return interrupts_ > 0 ? 130 : status;
}

int Launch::run() {
  for (int attempt = 0;; ++attempt) {
    const int status = once(attempt);
    if (status == 0 || interrupts_ > 0 || told_to_end_ || attempt == o_.restarts) return status;
    std::fprintf(stderr, "tycho run: all ranks start again (%d of %d)\n", attempt + 1, o_.restarts);
  }
}

}  // namespace

int launch(const RunOptions& options) {
  try {
    return Launch(options).run();
  } catch (const Error& e) {
    std::fprintf(stderr, "tycho run: %s\n", e.text.c_str());
    if (!e.hint.empty()) std::fprintf(stderr, "   try: %s\n", e.hint.c_str());
    return 1;
  }
}

}  // namespace tycho::shell
