// Devices at their first use, and waiting for their streams.
#include "engine/cuda/context.h"

#include <ctime>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"
#include "engine/cuda/faults.h"

namespace tycho::cuda {
namespace {

// 90 for 9.0; 0 where the driver does not tell.
int arch_of(int number) {
  int device = 0, major = 0, minor = 0;
  const bool told = driver().device(&device, number) == kSuccess &&
                    driver().attribute(&major, kMajor, device) == kSuccess &&
                    driver().attribute(&minor, kMinor, device) == kSuccess;
  return told ? 10 * major + minor : 0;
}

std::unique_ptr<DeviceContext> open(Device device) {
  auto d = std::make_unique<DeviceContext>();
  const Driver& cu = driver();
  const std::string name = device_name(device);
  d->device = device;
  check(cu.device(&d->ordinal, device.number), name.c_str());
  int major = 0, minor = 0;
  check(cu.attribute(&major, kMajor, d->ordinal), name.c_str());
  check(cu.attribute(&minor, kMinor, d->ordinal), name.c_str());
  check(cu.attribute(&d->multiprocessors, kMultiprocessors, d->ordinal), name.c_str());
  d->arch = 10 * major + minor;
  char text[96] = "";
  cu.device_name(text, sizeof text, d->ordinal);
  d->name = text;
  if (d->arch < kOldestArch) {
    int other = 0;  // one that will do; the program sees none where there is no such
    while (other + 1 < count_devices() && arch_of(other) < kOldestArch) ++other;
    fail(Kind::Device,
         format("%s is too old: it has compute capability %d.%d, and %d.%d (Turing) or newer is "
                "needed",
                name.c_str(), major, minor, kOldestArch / 10, kOldestArch % 10),
         format("device = \"cuda:%d\"  -- or start the program with CUDA_VISIBLE_DEVICES=%d, which "
                "hides this one",
                other, other));
  }
  check(cu.device_memory(&d->total, d->ordinal), name.c_str());
  check(cu.retain_context(&d->context, d->ordinal), name.c_str());
  check(cu.set_context(d->context), name.c_str());
  check(cu.default_pool(&d->pool, d->ordinal), name.c_str());
  uint64_t most = UINT64_MAX;
  check(cu.set_pool(d->pool, kReleaseThreshold, &most), name.c_str());
  Queue& first = d->queues.emplace_back();
  check(cu.new_stream(&first.stream, kNonBlocking), name.c_str());
  d->memory = std::make_unique<Memory>(*d);
  d->fault = new_fault();
  return d;
}

struct Contexts {
  std::mutex mutex;
  std::unique_ptr<DeviceContext> of[kMaxCudaDevices];
};
// Never destroyed: tensors may outlive the end of main.
Contexts& contexts() {
  static auto* all = new Contexts;
  return *all;
}

}  // namespace

int count_devices() {
  int n = 0;
  return driver().device_count(&n) == kSuccess ? std::min(n, kMaxCudaDevices) : 0;
}

bool has_new_enough() {
  for (int i = 0; i < count_devices(); ++i)
    if (arch_of(i) >= kOldestArch) return true;
  return false;
}

bool in_use(Device device) {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  return all.of[device.number] != nullptr;
}

DeviceContext& context_of(Device device) {
  static thread_local Context current = nullptr;
  DeviceContext* d;
  {
    Contexts& all = contexts();
    const std::lock_guard lock(all.mutex);
    if (!all.of[device.number]) all.of[device.number] = open(device);
    d = all.of[device.number].get();
  }
  if (current != d->context) {
    check(driver().set_context(d->context), "choosing a device");
    current = d->context;
  }
  return *d;
}

StreamId DeviceContext::used_one(StreamId id) const {
  const auto at = static_cast<size_t>(id);
  return at < queues.size() && queues[at].used ? id : 0;
}

StreamId DeviceContext::used(StreamId id) {
  const std::lock_guard lock(mutex);
  return used_one(id);
}

Stream DeviceContext::stream(StreamId id) {
  const std::lock_guard lock(mutex);
  return queues[static_cast<size_t>(used_one(id))].stream;
}

Stream DeviceContext::outside_graphs(StreamId id) {
  const std::lock_guard lock(mutex);
  const Queue& q = queues[static_cast<size_t>(used_one(id))];
  return q.captured ? nullptr : q.stream;
}

void DeviceContext::finish_all() {
  for (size_t i = 0;; ++i) {
    Stream stream;
    {
      const std::lock_guard lock(mutex);
      if (i >= queues.size()) return;
      if (!queues[i].used || queues[i].captured) continue;
      stream = queues[i].stream;
    }
    finish(*this, stream);
  }
}

// Events last only as long as it takes to ask for the wait: the driver keeps what it needs.
void DeviceContext::come_after(StreamId stream, StreamId other, uint64_t at) {
  Queue &q = queues[static_cast<size_t>(stream)], &o = queues[static_cast<size_t>(other)];
  // A graph's own order is that of its capture; the outside has nothing to do with it.
  if (stream == other || !o.used || q.captured != o.captured) return;
  if (q.waited.size() < queues.size()) q.waited.resize(queues.size());
  uint64_t& waited = q.waited[static_cast<size_t>(other)];
  if (waited >= at) return;
  Event event = nullptr;
  check(driver().new_event(&event, kEventWithoutTime), "a stream that waits for another");
  Result r = driver().record_event(event, o.stream);
  if (r == kSuccess) r = driver().stream_waits(q.stream, event, 0);
  driver().end_event(event);
  check(r, "a stream that waits for another");
  waited = o.asked;
}

// A storage's `written` is a stream above how much it had been asked for; bit r of `readers` stands for
// streams r, r + 64, ...
namespace {
constexpr int kAt = 48;
constexpr uint64_t kMost = (uint64_t{1} << kAt) - 1;
StreamId writer_of(uint64_t written) { return static_cast<StreamId>(written >> kAt); }
}  // namespace

void DeviceContext::begin(Storage& s, StreamId stream) {
  const std::lock_guard lock(mutex);
  s.written = static_cast<uint64_t>(stream) << kAt | ++queues[static_cast<size_t>(stream)].asked;
}

void DeviceContext::use(Storage& s, StreamId stream, bool writes) {
  const std::lock_guard lock(mutex);
  stream = used_one(stream);
  const uint64_t written = s.written;
  if (written) come_after(stream, writer_of(written), written & kMost);
  Queue& q = queues[static_cast<size_t>(stream)];
  ++q.asked;
  if (!writes) {
    s.readers = s.readers | uint64_t{1} << (stream % 64);
    return;
  }
  if (const uint64_t readers = s.readers)
    for (size_t r = 0; r < queues.size(); ++r)
      if (readers >> (r % 64) & 1) come_after(stream, static_cast<StreamId>(r), queues[r].asked);
  s.readers = 0;
  s.written = static_cast<uint64_t>(stream) << kAt | q.asked;
}

std::vector<Event> DeviceContext::others(uint64_t written, uint64_t readers, StreamId home) {
  std::vector<Event> events;
  if (streams == 1 || (!readers && writer_of(written) == home)) return events;
  const std::lock_guard lock(mutex);
  const Queue& h = queues[static_cast<size_t>(home)];
  for (size_t r = 0; r < queues.size(); ++r) {
    const Queue& q = queues[r];
    const bool wrote = written && writer_of(written) == static_cast<StreamId>(r);
    const bool read = readers >> (r % 64) & 1;
    if ((!wrote && !read) || r == static_cast<size_t>(home)) continue;
    // A graph under capture holds what it uses itself.
    if (!q.used || q.captured) continue;
    const uint64_t known = r < h.waited.size() ? h.waited[r] : 0;
    if (known >= (read ? q.asked : written & kMost)) continue;
    Event event = nullptr;
    check(driver().new_event(&event, kEventWithoutTime), "releasing a device's memory");
    events.push_back(event);
    check(driver().record_event(event, q.stream), "releasing a device's memory");
  }
  return events;
}

void DeviceContext::gather(StreamId stream) {
  const std::lock_guard lock(mutex);
  for (size_t r = 0; r < queues.size(); ++r)
    come_after(stream, static_cast<StreamId>(r), queues[r].asked);
}

void DeviceContext::spread(StreamId stream) {
  const std::lock_guard lock(mutex);
  const uint64_t asked = ++queues[static_cast<size_t>(stream)].asked;
  for (size_t r = 0; r < queues.size(); ++r)
    if (queues[r].used) come_after(static_cast<StreamId>(r), stream, asked);
}

void DeviceContext::forget_others(Queue& q) {
  q.waited.resize(queues.size());
  for (size_t r = 0; r < queues.size(); ++r) q.waited[r] = queues[r].asked;
}

Stream stream_of(Device device) { return context_of(device).stream(current_stream(device)); }

void finish(DeviceContext& d, Stream stream) {
  Event event = nullptr;
  check(driver().new_event(&event, kEventWithoutTime), "waiting for a device");
  struct End {
    Event event;
    ~End() { driver().end_event(event); }
  } end{event};
  check(driver().record_event(event, stream), "waiting for a device");
  constexpr int kSpins = 2000;  // tens of microseconds
  Result r = driver().ask_event(event);
  for (int i = 0; r == kNotReady; ++i, r = driver().ask_event(event)) {
    if (interrupt_pending()) check_interrupt();
    if (i < kSpins) continue;
    const timespec pause{0, 50'000};
    nanosleep(&pause, nullptr);
  }
  check(r, device_name(d.device).c_str());
}

}  // namespace tycho::cuda
