// Pages from mmap, and the reading of /proc and /sys that tells how many are left.
#include "engine/base/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tycho {
namespace {

// Reading how much memory is left costs about 20 us, so it is done once per this many new bytes.
constexpr size_t kCheckEvery = size_t(32) << 20;
constexpr uint64_t kSpare = uint64_t(64) << 20;  // left for everything that is not tensor data
constexpr uint64_t kUnlimited = UINT64_MAX;
std::atomic<size_t> unchecked{0};

// Reads a small file whole; false when there is none.
template <size_t N>
bool read_text(const char* path, char (&text)[N]) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t got = read(file, text, N - 1);
  close(file);
  if (got <= 0) return false;
  text[got] = '\0';
  return true;
}

// The number after `key` at the start of a line, or `otherwise`.
uint64_t number_after(const char* text, const char* key, uint64_t otherwise) {
  const size_t length = strlen(key);
  for (const char* line = text; line != nullptr; line = strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (strncmp(line, key, length) == 0) return strtoull(line + length, nullptr, 10);
  }
  return otherwise;
}

uint64_t machine_room() {
  char text[4096];
  if (!read_text("/proc/meminfo", text)) return kUnlimited;
  const uint64_t available = number_after(text, "MemAvailable:", kUnlimited);
  if (available == kUnlimited) return kUnlimited;
  return (available + number_after(text, "SwapFree:", 0)) * 1024;
}

// A control group's limit less its use; memory that only caches files counts as free.
uint64_t group_room(const char* folder, const char* limit_name, const char* use_name) {
  char path[600], limit[64], use[64], stat[8192];
  snprintf(path, sizeof path, "%s/%s", folder, limit_name);
  if (!read_text(path, limit) || limit[0] == 'm') return kUnlimited;  // "max"
  snprintf(path, sizeof path, "%s/%s", folder, use_name);
  if (!read_text(path, use)) return kUnlimited;
  uint64_t files = 0;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  if (read_text(path, stat))
    files = number_after(stat, "inactive_file ", 0) + number_after(stat, "active_file ", 0);
  const uint64_t most = strtoull(limit, nullptr, 10), used = strtoull(use, nullptr, 10);
  const uint64_t free = most > used ? most - used : 0;
  return free > kUnlimited - files ? kUnlimited : free + files;
}

// Both versions of control groups, each at the process's own path and at the root: inside a
// container the root of the mounted tree is the container's group.
uint64_t groups_room() {
  char text[4096], folder[512];
  uint64_t room = group_room("/sys/fs/cgroup", "memory.max", "memory.current");
  const auto least = [&](uint64_t other) { room = other < room ? other : room; };
  least(group_room("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"));
  if (!read_text("/proc/self/cgroup", text)) return room;
  char* rest = nullptr;
  for (char* line = strtok_r(text, "\n", &rest); line != nullptr;
       line = strtok_r(nullptr, "\n", &rest)) {
    if (strncmp(line, "0::/", 4) == 0 && line[4] != '\0') {
      snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", line + 3);
      least(group_room(folder, "memory.max", "memory.current"));
    } else if (const char* at = strstr(line, ":memory:/"); at != nullptr && at[9] != '\0') {
      snprintf(folder, sizeof folder, "/sys/fs/cgroup/memory%s", at + 8);
      least(group_room(folder, "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
  }
  return room;
}

void* map(size_t bytes, Pages pages) {
  const int populate = pages == Pages::Populated ? MAP_POPULATE : 0;
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

bool aligned(const void* memory, size_t alignment) {
  return (reinterpret_cast<uintptr_t>(memory) & (alignment - 1)) == 0;
}

// Maps more than asked and gives both ends back.
void* map_aligned(size_t bytes, size_t alignment) {
  const size_t slack = alignment - kPage;
  char* memory = static_cast<char*>(map(bytes + slack, Pages::Plain));
  if (memory == nullptr) return nullptr;
  const size_t head = -reinterpret_cast<uintptr_t>(memory) & (alignment - 1);
  if (head > 0) munmap(memory, head);
  if (slack > head) munmap(memory + head + bytes, slack - head);
  return memory + head;
}

}  // namespace

void* map_pages(size_t bytes, size_t alignment, size_t needed, Pages pages) {
  if (!memory_has_room(bytes)) return nullptr;
  void* memory = nullptr;
  if (alignment <= kPage) {
    memory = map(bytes, pages);
  } else {
    // A mapping often lands right below the one before, and then is aligned already.
    memory = map(bytes, Pages::Plain);
    if (memory != nullptr && !aligned(memory, alignment)) {
      if (void* better = map_aligned(bytes, alignment)) {
        munmap(memory, bytes);
        memory = better;
      } else if (!aligned(memory, needed)) {
        munmap(memory, bytes);
        memory = map_aligned(bytes, alignment);
      }
    }
  }
  if (memory != nullptr && pages == Pages::Huge) madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void unmap_pages(void* memory, size_t bytes) {
  // Fails only when the process has too many mappings; then at least the pages go back.
  if (munmap(memory, bytes) != 0) madvise(memory, bytes, MADV_DONTNEED);
}

bool memory_has_room(size_t bytes) {
  if (unchecked.fetch_add(bytes, std::memory_order_relaxed) + bytes < kCheckEvery) return true;
  const uint64_t machine = machine_room(), groups = groups_room();
  const uint64_t room = machine < groups ? machine : groups;
  if (room != kUnlimited && bytes + kSpare > room) return false;
  unchecked.store(0, std::memory_order_relaxed);
  return true;
}

}  // namespace tycho
