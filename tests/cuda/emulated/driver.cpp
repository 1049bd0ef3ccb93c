// The emulated driver's functions. One lock guards everything; work runs under it.
#include "tests/cuda/emulated/driver.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/cuda/emulated/cuda_on_cpu.h"

namespace tycho::cuda {

struct EventOf {
  uint64_t asked = 0, done = 0;  // how often it was recorded, and reached
  bool ended = false, timed = false;
  float time = 0;               // in things done
  GraphOf* captured = nullptr;  // it was recorded in this capture, ...
  StreamOf* in = nullptr;       // ... in this stream
};
struct Work {
  std::function<void()> run;
  std::shared_ptr<EventOf> reach, wait;
  uint64_t at = 0;
  std::function<bool()> may_run = {};
};
struct StreamOf {
  std::deque<Work> queue;
  GraphOf* capture = nullptr;
  bool ended = false;
};
struct GraphOf {
  StreamOf* origin = nullptr;
  std::vector<Work> work;
  bool broken = false;
  std::map<StreamOf*, bool>
      joined;  // streams that take part besides, and whether they are waited for
};
struct GraphRunOf {
  std::vector<Work> work;
};
struct ContextOf {
  int device;
};
struct PoolOf {};
struct LibraryOf {
  std::string file;
};
struct KernelOf {
  const emulated::Binder* bind;
};

namespace emulated {
namespace {

constexpr int kPoison = 0xff;  // nan, -1
constexpr Result kInvalid = 1, kBadAddress = 700, kCapture = 900, kCaptureBroken = 901,
                 kUnjoined = 904, kIsolated = 905, kCapturedEvent = 907;

struct Machine {
  std::recursive_mutex mutex;
  Options options;
  std::mt19937_64 random{1};
  std::map<Address, size_t> blocks;
  std::set<Address> unborn;  // their streams are not as far yet
  std::map<const char*, size_t> pinned;
  size_t bytes = 0, graphs = 0, lost = 0;
  float time = 0;
  std::vector<std::unique_ptr<StreamOf>> streams;
  std::map<Event, std::shared_ptr<EventOf>> events;
  ContextOf contexts[16];
  PoolOf pool;
  std::deque<LibraryOf> libraries;  // as long as the process, as a driver keeps them
  std::deque<KernelOf> kernels;
};
Machine& m() {
  static auto* machine = new Machine;
  return *machine;
}

bool inside(Address a, size_t bytes) {
  auto it = m().blocks.upper_bound(a);
  if (it == m().blocks.begin()) return bytes == 0;
  --it;
  return a + bytes <= it->first + it->second;
}
// Work finds its memory when it is done, not only when it was asked for.
bool still_inside(Address a, size_t bytes) {
  const auto next = m().unborn.upper_bound(a);
  const bool good = inside(a, bytes) && (next == m().unborn.begin() ||
                                         *std::prev(next) + m().blocks[*std::prev(next)] <= a);
  m().lost += !good;
  return good;
}
bool is_pinned(const void* p) {
  const auto* a = static_cast<const char*>(p);
  auto it = m().pinned.upper_bound(a);
  return it != m().pinned.begin() && (--it, a < it->first + it->second);
}

bool step(StreamOf* s) {
  if (s->queue.empty()) return false;
  const Work& first = s->queue.front();
  if (first.wait && first.wait->done < first.at) return false;
  if (first.may_run && !first.may_run()) return false;
  const Work work = std::move(s->queue.front());
  s->queue.pop_front();
  if (work.run) work.run();
  ++m().time;
  if (work.reach) {
    work.reach->done = std::max(work.reach->done, work.at);
    work.reach->time = m().time;
  }
  return true;
}

// Some stream does one thing; false when none can.
bool step_any() {
  auto& streams = m().streams;
  const size_t first = m().random() % streams.size();
  for (size_t k = 0; k < streams.size(); ++k)
    if (step(streams[(first + k) % streams.size()].get())) return true;
  return false;
}

// What may not be asked of a stream under capture ends the capture, as the driver has it.
Result break_capture(GraphOf* g, Result why) {
  g->broken = true;
  return why;
}

Result add(Stream s, Work work) {
  if (s->capture) {
    if (const auto j = s->capture->joined.find(s); j != s->capture->joined.end()) j->second = false;
    s->capture->work.push_back(std::move(work));
    return kSuccess;
  }
  s->queue.push_back(std::move(work));
  while (static_cast<int>(m().random() % 100) < m().options.eager_percent && step_any()) {
  }
  return kSuccess;
}

// Is there work that waits for another thread's?
bool waits_for_others() {
  for (const auto& s : m().streams)
    if (!s->queue.empty() && s->queue.front().may_run) return true;
  return false;
}

// Called with the lock, once.
Result finish(Stream s) {
  if (s->capture) return break_capture(s->capture, kCapture);
  while (!s->queue.empty()) {
    if (step_any()) continue;
    if (!waits_for_others()) return kInvalid;  // waits for what nobody will do
    m().mutex.unlock();
    std::this_thread::yield();
    m().mutex.lock();
  }
  return kSuccess;
}

#define LOCK const std::lock_guard lock(m().mutex)

Driver make_driver() {
  Driver d;
  d.init = [](unsigned) { return kSuccess; };
  d.driver_version = [](int* v) { return *v = 13000, kSuccess; };
  d.error_name = [](Result, const char** t) { return *t = "EMULATED", kSuccess; };
  d.error_text = [](Result r, const char** t) {
    *t = r == kOutOfMemory                      ? "out of memory"
         : r == kBadAddress                     ? "an address that is no device memory"
         : r >= kCapture && r <= kCapturedEvent ? "not while a graph is captured"
                                                : "an invalid call";
    return kSuccess;
  };
  d.device_count = [](int* n) { return *n = m().options.devices, kSuccess; };
  d.device = [](int* device, int n) {
    *device = n;
    return n < m().options.devices ? kSuccess : kNoDevice;
  };
  d.device_name = [](char* text, int size, int) {
    return snprintf(text, static_cast<size_t>(size), "Emulated GPU"), kSuccess;
  };
  d.bus = [](char* text, int size, int n) {
    return snprintf(text, static_cast<size_t>(size), "0000:%02d:00.0", n), kSuccess;
  };
  d.device_memory = [](size_t* bytes, int) { return *bytes = m().options.memory, kSuccess; };
  d.attribute = [](int* value, int attribute, int device) {
    const int arch = device == m().options.old_device ? 61 : 90;
    *value = attribute == kMajor ? arch / 10 : attribute == kMinor ? arch % 10 : 4;
    return kSuccess;
  };
  d.retain_context = [](Context* c, int n) {
    m().contexts[n].device = n;
    return *c = &m().contexts[n], kSuccess;
  };
  d.set_context = [](Context) { return kSuccess; };
  d.default_pool = [](Pool* pool, int) { return *pool = &m().pool, kSuccess; };
  d.set_pool = [](Pool, int, void*) { return kSuccess; };
  d.trim_pool = [](Pool, size_t) { return kSuccess; };
  d.allocate = [](Address* memory, size_t bytes, Stream s) {
    LOCK;
    if (s->capture) return break_capture(s->capture, kCapture);  // the graph would take it
    if (m().bytes + bytes > m().options.memory) return kOutOfMemory;
    void* p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    *memory = reinterpret_cast<Address>(p);
    m().blocks[*memory] = bytes;
    m().bytes += bytes;
    m().unborn.insert(*memory);
    return add(s, {[p, bytes] {
                     std::memset(p, kPoison, bytes);
                     m().unborn.erase(reinterpret_cast<Address>(p));
                   },
                   {},
                   {}});
  };
  d.release = [](Address memory, Stream s) {
    LOCK;
    if (!m().blocks.contains(memory)) return kBadAddress;
    if (s->capture) return break_capture(s->capture, kCapture);
    return add(s, {[memory] {
                     m().lost += m().unborn.contains(memory);
                     m().bytes -= m().blocks[memory];
                     m().blocks.erase(memory);
                     std::free(reinterpret_cast<void*>(memory));
                   },
                   {},
                   {}});
  };
  d.free_memory = [](size_t* free, size_t* total) {
    LOCK;
    *total = m().options.memory;
    return *free = *total - m().bytes, kSuccess;
  };
  d.allocate_pinned = [](void** memory, size_t bytes, unsigned) {
    LOCK;
    *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    m().pinned[static_cast<const char*>(*memory)] = bytes;
    return kSuccess;
  };
  d.release_pinned = [](void* memory) {
    LOCK;
    m().pinned.erase(static_cast<const char*>(memory));
    return std::free(memory), kSuccess;
  };
  d.copy_up = [](Address to, const void* from, size_t bytes, Stream s) {
    LOCK;
    if (!inside(to, bytes)) return kBadAddress;
    if (is_pinned(from))
      return add(s, {[=] {
                       if (still_inside(to, bytes))
                         std::memcpy(reinterpret_cast<void*>(to), from, bytes);
                     },
                     {},
                     {}});
    if (s->capture) return break_capture(s->capture, kCapture);
    const auto* begin = static_cast<const char*>(from);
    return add(s, {[to, copy = std::vector<char>(begin, begin + bytes)] {
                     if (still_inside(to, copy.size()))
                       std::memcpy(reinterpret_cast<void*>(to), copy.data(), copy.size());
                   },
                   {},
                   {}});
  };
  d.copy_down = [](void* to, Address from, size_t bytes, Stream s) {
    LOCK;
    if (!inside(from, bytes)) return kBadAddress;
    if (s->capture && !is_pinned(to)) return break_capture(s->capture, kCapture);
    add(s, {[=] {
              if (still_inside(from, bytes)) std::memcpy(to, reinterpret_cast<void*>(from), bytes);
            },
            {},
            {}});
    return is_pinned(to) ? kSuccess : finish(s);
  };
  d.copy_within = [](Address to, Address from, size_t bytes, Stream s) {
    LOCK;
    if (!inside(to, bytes) || !inside(from, bytes)) return kBadAddress;
    return add(s, {[=] {
                     if (still_inside(to, bytes) && still_inside(from, bytes))
                       std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                                    bytes);
                   },
                   {},
                   {}});
  };
  d.copy_across = [](Address to, Context, Address from, Context, size_t bytes, Stream s) {
    LOCK;
    if (!inside(to, bytes) || !inside(from, bytes)) return kBadAddress;
    return add(s, {[=] {
                     if (still_inside(to, bytes) && still_inside(from, bytes))
                       std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                                    bytes);
                   },
                   {},
                   {}});
  };
  d.set_bytes = [](Address to, uint8_t byte, size_t bytes, Stream s) {
    LOCK;
    if (!inside(to, bytes)) return kBadAddress;
    return add(s, {[=] {
                     if (still_inside(to, bytes))
                       std::memset(reinterpret_cast<void*>(to), byte, bytes);
                   },
                   {},
                   {}});
  };
  d.new_stream = [](Stream* s, unsigned) {
    LOCK;
    return *s = m().streams.emplace_back(new StreamOf).get(), kSuccess;
  };
  d.end_stream = [](Stream s) {
    LOCK;
    const Result r = finish(s);
    std::erase_if(m().streams, [&](const auto& p) { return p.get() == s; });
    return r;
  };
  d.finish_stream = [](Stream s) {
    LOCK;
    return finish(s);
  };
  d.stream_waits = [](Stream s, Event e, unsigned) {
    LOCK;
    const auto& event = m().events.at(e);
    if (GraphOf* g = event->captured) {
      if (s->capture && s->capture != g) return break_capture(g, kIsolated);
      if (s == g->origin) {
        g->joined.erase(event->in);
        g->joined[event->in] = true;
      } else if (!s->capture) {
        g->joined[s] = false;
      }
      s->capture = g;
      return kSuccess;  // the graph's work has one order, that of the capture
    }
    if (s->capture && event->asked) return break_capture(s->capture, kIsolated);
    return add(s, {{}, {}, event, event->asked});
  };
  d.time_between = [](float* milliseconds, Event a, Event b) {
    LOCK;
    const auto from = m().events.at(a), to = m().events.at(b);
    if (!from->timed || !to->timed || !from->asked || !to->asked) return kInvalid;
    *milliseconds = to->time - from->time;
    return from->done < from->asked || to->done < to->asked ? kNotReady : kSuccess;
  };
  d.new_event = [](Event* e, unsigned flags) {
    LOCK;
    auto event = std::make_shared<EventOf>();
    event->timed = !(flags & kEventWithoutTime);
    *e = event.get();
    m().events[*e] = std::move(event);
    return kSuccess;
  };
  d.end_event = [](Event e) {
    LOCK;
    return m().events.erase(e) ? kSuccess : kInvalid;
  };
  d.record_event = [](Event e, Stream s) {
    LOCK;
    const auto& event = m().events.at(e);
    event->captured = s->capture;
    event->in = s;
    if (s->capture) return kSuccess;
    return add(s, {{}, event, {}, ++event->asked});
  };
  d.ask_event = [](Event e) {
    LOCK;
    const auto event = m().events.at(e);
    if (event->captured) return break_capture(event->captured, kCapturedEvent);
    if (event->done < event->asked) step_any();
    return event->done < event->asked ? kNotReady : kSuccess;
  };
  d.finish_event = [](Event e) {
    LOCK;
    const auto event = m().events.at(e);
    if (event->captured) return break_capture(event->captured, kCapturedEvent);
    while (event->done < event->asked) {
      if (step_any()) continue;
      if (!waits_for_others()) return kInvalid;
      m().mutex.unlock();
      std::this_thread::yield();
      m().mutex.lock();
    }
    return kSuccess;
  };
  d.load_library = [](Library* library, const void* code, int*, void**, unsigned, int*, void**,
                      unsigned) {
    LOCK;
    *library = &m().libraries.emplace_back(LibraryOf{static_cast<const char*>(code)});
    return kSuccess;
  };
  d.find_kernel = [](KernelHandle* kernel, Library library, const char* name) {
    LOCK;
    if (!std::strncmp(name, "program_", 8) && !kernel_named(name))
      add_kernel(name, [source = library->file](void** arguments) {
        return bound_program(source, arguments);
      });
    const Binder* bind = kernel_named(name);
    *kernel = bind ? &m().kernels.emplace_back(KernelOf{bind}) : nullptr;
    return bind ? kSuccess : kNotFound;
  };
  d.launch = [](KernelHandle kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                unsigned by, unsigned bz, unsigned shared, Stream s, void** arguments, void**) {
    LOCK;
    if (bx * by * bz > 1024 || bx * by * bz == 0 || gy > 65535 || gz > 65535 || shared > 232448)
      return kInvalid;
    return add(s, {[thread = (*kernel->bind)(arguments), gx, gy, gz, bx, by, bz, shared] {
                     run_grid(thread, {gx, gy, gz}, {bx, by, bz}, shared);
                   },
                   {},
                   {}});
  };
  d.begin_capture = [](Stream s, int) {
    LOCK;
    if (s->capture) return kCapture;
    ++m().graphs;
    s->capture = new GraphOf;
    s->capture->origin = s;
    return kSuccess;
  };
  d.end_capture = [](Stream s, Graph* graph) {
    LOCK;
    GraphOf* const g = s->capture;
    if (!g || g->origin != s) return kInvalid;
    bool unjoined = false;
    for (const auto& [stream, joined] : g->joined)
      if (stream != s) unjoined |= !joined;
    for (const auto& stream : m().streams)
      if (stream->capture == g) stream->capture = nullptr;
    for (auto& [key, event] : m().events)
      if (event->captured == g) event->captured = nullptr;
    if (!g->broken && !unjoined) return *graph = g, kSuccess;
    *graph = nullptr;
    --m().graphs;
    const Result why = g->broken ? kCaptureBroken : kUnjoined;
    return delete g, why;
  };
  d.make_run = [](GraphRun* run, Graph graph, unsigned long long) {
    LOCK;
    if (!graph) return kInvalid;
    ++m().graphs;
    return *run = new GraphRunOf{graph->work}, kSuccess;
  };
  d.run_graph = [](GraphRun run, Stream s) {
    LOCK;
    if (s->capture) return break_capture(s->capture, kCapture);
    for (const Work& work : run->work) add(s, work);
    return kSuccess;
  };
  d.end_run = [](GraphRun run) {
    LOCK;
    --m().graphs;
    return delete run, kSuccess;
  };
  d.end_graph = [](Graph graph) {
    LOCK;
    if (!graph) return kInvalid;
    --m().graphs;
    return delete graph, kSuccess;
  };
  d.code_of = [](const char* file) -> const void* { return file; };
  // The kernels of rows are compiled; programs of them are read.
  d.compile_row = [](const std::string& source, int, bool known, std::string*) -> const void* {
    static std::deque<std::string> kept;
    if (known) return nullptr;
    LOCK;
    return kept.emplace_back(source).c_str();
  };
  return d;
}

}  // namespace

const bool kReal = false;

void start(const Options& options) {
  static const Driver table = make_driver();
  LOCK;
  m().options = options;
  m().random.seed(options.seed);
  set_driver(&table);
}

void enqueue(Stream stream, std::function<void()> run, std::function<bool()> may_run) {
  LOCK;
  add(stream, {std::move(run), {}, {}, 0, std::move(may_run)});
}

Held held() {
  LOCK;
  return {m().blocks.size(), m().bytes, m().events.size(), m().streams.size(),
          m().graphs,        m().lost,  m().pinned.size()};
}

}  // namespace emulated
}  // namespace tycho::cuda
