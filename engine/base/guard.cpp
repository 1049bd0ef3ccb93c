// Blocks between fences of protected pages, and the report of who left one.
#include "engine/base/guard.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "engine/base/pages.h"

namespace tycho::guard {

constinit bool watching = false;

namespace {

// Both are NaN in every floating type, and differ, so that a NaN written into a gap is seen.
constexpr uint16_t kFresh = 0xffff, kCanary = 0xfffd;
constexpr size_t kAlignment = 64;
// Nobody may touch this much on either side of a block: a wrong step between lines leaps over
// pages.
size_t fence_of(size_t bytes) {
  return std::clamp(bytes / kPage * 8 * kPage, size_t(1) << 20, size_t(4) << 30);
}
// Released blocks stay unreadable for this many releases of others.
constexpr size_t kKept = 256;

struct Block {
  char* pages;         // the fence in front
  size_t mapped;       // from there to behind the other fence
  size_t bytes;        // that the program asked for
  size_t begin;        // of the block, from `pages`
  size_t fence, body;  // what may not be touched on either side, and the pages between
  const char* made;    // during which operation
  bool freed = false;  // waits, unreadable, for its pages to be given back
};

std::mutex mutex;
std::map<uintptr_t, Block>& blocks() {  // by the first address of `pages`; never destroyed
  static auto* const all = new std::map<uintptr_t, Block>;
  return *all;
}
std::deque<uintptr_t>& freed() {
  static auto* const all = new std::deque<uintptr_t>;
  return *all;
}

constinit std::atomic<const char*> operation{nullptr};
const char* name_of(const char* op) { return op ? op : "(none yet)"; }

void say(const char* text, ...) {
  char line[600];
  va_list args;
  va_start(args, text);
  const int n = vsnprintf(line, sizeof line, text, args);
  va_end(args);
  const size_t length = std::min(sizeof line - 1, static_cast<size_t>(std::max(n, 0)));
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, length);
}

void say_where() {
  say("  the operation whose kernel began last: %s; the frames:\n", name_of(operation.load()));
  void* frames[40];
  backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
}

// Where an address lies, seen from a block: "12 bytes behind the end of".
void say_place(const Block& b, const char* what, const char* at) {
  const char *begin = b.pages + b.begin, *end = begin + b.bytes;
  const char* where = at < begin ? "before the beginning of" : "behind the end of";
  const auto far = static_cast<size_t>(at < begin ? begin - at : at - end);
  if (at >= begin && at < end)
    say("TYCHO_GUARD: %s %zu bytes into", what, static_cast<size_t>(at - begin));
  else
    say("TYCHO_GUARD: %s %zu bytes %s", what, far, where);
  say(" a %sblock of %zu bytes, made during: %s\n", b.freed ? "released " : "", b.bytes,
      name_of(b.made));
}

// A protected page was touched: by whom is in the frames, of whom in the map.
void on_fault(int signal, siginfo_t* info, void* context) {
  ::signal(signal, SIG_DFL);
  const char* const at = static_cast<const char*>(info->si_addr);
  const auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const char* const what = registers[REG_ERR] & 2 ? "a write" : "a read";
  bool locked = mutex.try_lock();
  for (int i = 0; !locked && i < 100; ++i) usleep(1000), locked = mutex.try_lock();
  bool known = false;
  if (locked) {
    auto it = blocks().upper_bound(reinterpret_cast<uintptr_t>(at));
    if (it != blocks().begin()) {
      const Block& b = (--it)->second;
      known = at < b.pages + b.mapped;
      if (known) say_place(b, what, at);
    }
    mutex.unlock();
  }
  if (!known) say("TYCHO_GUARD: signal %d, %s at %p, in no block\n", signal, what, at);
  say_where();
  raise(signal);
}

bool start() {
  const char* const wanted = std::getenv("TYCHO_GUARD");
  if (wanted == nullptr || *wanted == '\0' || std::strcmp(wanted, "0") == 0) return false;
  void* frame;
  backtrace(&frame, 1);  // loads what a signal handler must not
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  return watching = true;
}

bool at_begin() {
  static const char* const wanted = std::getenv("TYCHO_GUARD");
  return wanted != nullptr && std::strcmp(wanted, "begin") == 0;
}

void fill(char* from, char* to, uint16_t value) {
  for (; from < to; ++from) *from = reinterpret_cast<uintptr_t>(from) & 1 ? value >> 8 : value;
}

void check(const Block& b, const char* from, const char* to) {
  for (; from < to; ++from) {
    const char want =
        static_cast<char>(reinterpret_cast<uintptr_t>(from) & 1 ? kCanary >> 8 : kCanary & 0xff);
    if (*from == want) continue;
    say_place(b, "a write, found on release,", from);
    say_where();
    abort();
  }
}

size_t up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

bool on() {
  static const bool is_on = start();
  return is_on;
}

void note(const char* op) { operation = op; }

void* take(size_t bytes) {
  if (!memory_has_room(bytes)) return nullptr;
  const size_t room = up(bytes, kAlignment), body = up(std::max<size_t>(room, 1), kPage);
  const size_t fence = fence_of(bytes), mapped = body + 2 * fence;
  void* const place =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  char* const pages = static_cast<char*>(place);
  if (mprotect(pages + fence, body, PROT_READ | PROT_WRITE) != 0) {
    munmap(pages, mapped);
    return nullptr;
  }
  const size_t begin = fence + (at_begin() ? 0 : body - room);
  fill(pages + fence, pages + begin, kCanary);
  std::memset(pages + begin, kFresh & 0xff, bytes);
  fill(pages + begin + bytes, pages + fence + body, kCanary);
  const std::lock_guard lock(mutex);
  blocks()[reinterpret_cast<uintptr_t>(pages)] = {pages, mapped, bytes,           begin,
                                                  fence, body,   operation.load()};
  return pages + begin;
}

void give(void* memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  auto it = blocks().upper_bound(reinterpret_cast<uintptr_t>(memory));
  const bool known = it != blocks().begin() && (--it)->second.pages + it->second.begin == memory;
  if (!known || it->second.freed || it->second.bytes != bytes) {
    say("TYCHO_GUARD: release of %p with %zu bytes, which is no live block of that size\n", memory,
        bytes);
    say_where();
    abort();
  }
  Block& b = it->second;
  check(b, b.pages + b.fence, b.pages + b.begin);
  check(b, b.pages + b.begin + bytes, b.pages + b.fence + b.body);
  // Gives the memory back, but not yet the addresses.
  madvise(b.pages + b.fence, b.body, MADV_DONTNEED);
  mprotect(b.pages + b.fence, b.body, PROT_NONE);
  b.freed = true;
  freed().push_back(it->first);
  while (freed().size() > kKept) {
    const auto oldest = blocks().find(freed().front());
    munmap(oldest->second.pages, oldest->second.mapped);
    blocks().erase(oldest);
    freed().pop_front();
  }
}

}  // namespace tycho::guard
