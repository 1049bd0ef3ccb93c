// A thread sleeps until something has run for two seconds, then asks the main thread, by a signal,
// where it is, and draws one line. While the main thread waits (for input, for a program), nothing
// is drawn: somebody else may be writing.
#include "shell/status.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "bindings/core/interrupt.h"
#include "engine/ops/table/apply.h"

namespace tycho::shell {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatience{2000}, kTick{250};
constexpr int kOpTicks = 8;  // operations are watched in one tick of so many: watching costs time

std::atomic<const char*> op_name{nullptr};

struct Watcher final : Observer {
  void before(const Call& c) override { op_name.store(c.op->name, std::memory_order_relaxed); }
} watcher;

// Lives until the process ends: the thread and the streams use it to the last moment.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  bool running = false, shown = false, was_shown = false, at_line_start = true, started = false;
  Clock::time_point began;
  std::mutex place_mutex;  // never held while writing, which may wait for a stopped terminal
  char place[160] = "";    // of the main thread in the user's code
  pthread_t main;
};
Board* board = nullptr;

std::atomic<bool> watch_ops{false};  // read in a signal handler
static_assert(std::atomic<bool>::is_always_lock_free);

void write_all(int fd, const char* data, size_t n) {
  while (n > 0) {
    const ssize_t done = ::write(fd, data, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    data += done;
    n -= static_cast<size_t>(done);
  }
}

void erase(Board& b) {
  if (!b.shown) return;
  b.shown = false;
  write_all(1, "\r\x1b[K", 4);
}

ssize_t write_stream(void* cookie, const char* data, size_t n) {
  const std::lock_guard lock(board->mutex);
  erase(*board);
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(cookie));
  for (size_t done = 0; done < n;) {
    const ssize_t wrote = ::write(fd, data + done, n - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return static_cast<ssize_t>(done);
    done += static_cast<size_t>(wrote);
  }
  if (n) board->at_line_start = data[n - 1] == '\n';
  return static_cast<ssize_t>(n);
}

FILE* stream(int fd) {
  FILE* f = fopencookie(reinterpret_cast<void*>(static_cast<intptr_t>(fd)), "w",
                        {nullptr, write_stream, nullptr, nullptr});
  if (f) setvbuf(f, nullptr, fd == 1 ? _IOLBF : _IONBF, fd == 1 ? BUFSIZ : 0);
  return f;
}

// Runs at the next instruction of Lua: where is that?
void note_place(lua_State* L, lua_Debug*) {
  lua::drop_hook(L);
  if (!watch_ops && mode.observer == &watcher) mode.observer = nullptr;
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "Sln", &ar);
    const std::string_view source = ar.source;
    if (ar.currentline <= 0 || source.substr(0, 7) == "=torch/" || source.substr(0, 7) == "=shell/")
      continue;
    const bool named = ar.name && std::strcmp(ar.what, "main");
    const std::lock_guard lock(board->place_mutex);
    std::snprintf(board->place, sizeof board->place, "%s%s%s:%d", named ? ar.name : "",
                  named ? "  " : "", ar.short_src, ar.currentline);
    return;
  }
}

int sample_signal() { return SIGRTMIN; }

// On the main thread. The watcher only comes here and never goes, for what was interrupted may be
// about to call it.
void on_sample(int) {
  if (watch_ops && !mode.observer) mode.observer = &watcher;
  // Lua forgets a hook that is set in the very moment in which it sees that there was none.
  if (lua::stop_under_way()) return lua::arm_all();
  lua_State* L = lua::running;
  if (L && !lua_gethook(L)) lua_sethook(L, note_place, LUA_MASKCOUNT, 1);
}

std::string elapsed(Clock::duration d) {
  const auto s = static_cast<long>(std::chrono::duration_cast<std::chrono::seconds>(d).count());
  return s < 60 ? format("%ld s", s) : format("%ld:%02ld min", s / 60, s % 60);
}

void draw(Board& b) {
  std::string text = elapsed(Clock::now() - b.began);
  if (const char* op = op_name.load(std::memory_order_relaxed)) text += std::string("  ") + op;
  {
    const std::lock_guard lock(b.place_mutex);
    if (b.place[0]) text += std::string("  ") + b.place;
  }
  winsize w = {};
  const size_t columns = ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col > 4 ? w.ws_col : 80;
  if (text.size() > columns - 1) text.resize(columns - 1);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  text = "\r\x1b[2m" + text + "\x1b[0m\x1b[K";
  b.shown = true;
  write_all(1, text.data(), text.size());
}

int64_t main_cpu_nanoseconds(pthread_t main) {
  clockid_t id;
  timespec t = {};
  if (pthread_getcpuclockid(main, &id) != 0 || clock_gettime(id, &t) != 0) return 0;
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void watch() {
  Board& b = *board;
  std::unique_lock lock(b.mutex);
  while (true) {
    b.changed.wait(lock, [&] { return b.running; });
    const Clock::time_point mine = b.began;
    const auto over = [&] { return !b.running || b.began != mine; };
    if (b.changed.wait_until(lock, mine + kPatience, over)) continue;
    int64_t before = main_cpu_nanoseconds(b.main);
    for (int tick = 0; !b.changed.wait_for(lock, kTick, over); ++tick) {
      const int64_t now = main_cpu_nanoseconds(b.main);
      const bool busy = now - before > std::chrono::nanoseconds(kTick).count() / 4;
      before = now;
      watch_ops = tick % kOpTicks == 0;
      if (!busy) {
        erase(b);
        continue;
      }
      pthread_kill(b.main, sample_signal());
      if (tick > 0 && b.at_line_start) draw(b);
    }
  }
}

}  // namespace

void prepare_status() {
  FILE *out = stream(1), *err = stream(2);
  if (!out || !err) return;
  board = new Board;
  board->main = pthread_self();
  stdout = out;
  stderr = err;
  struct sigaction action = {};
  action.sa_handler = on_sample;
  action.sa_flags = SA_RESTART;
  sigaction(sample_signal(), &action, nullptr);
}

void begin_status() {
  if (!board) return;
  op_name = nullptr;
  {
    const std::lock_guard lock(board->place_mutex);
    board->place[0] = '\0';
  }
  const std::lock_guard lock(board->mutex);
  board->began = Clock::now();
  board->running = true;
  if (!board->started) {
    board->started = true;
    sigset_t all, old;  // signals are the main thread's
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    std::thread(watch).detach();
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }
  board->changed.notify_one();
}

void end_status() {
  if (!board) return;
  {
    const std::lock_guard lock(board->mutex);
    board->running = false;
    board->was_shown = board->shown;
    erase(*board);
    board->changed.notify_one();
  }
  if (mode.observer == &watcher) mode.observer = nullptr;
}

bool status_was_shown() { return board && board->was_shown; }

void start_of_line() {
  std::fflush(stdout);
  if (board && !board->at_line_start) std::fputs("\n", stdout);
  std::fflush(stdout);
}

}  // namespace tycho::shell
