// Mapping files, and outliving their loss (see mapping.h).
#include "engine/io/mapping.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "engine/base/interrupt.h"
#include "engine/base/pool.h"

namespace tycho::io {

// A mapping as the signal handler sees it. Regions are never freed, only used again.
struct Region {
  std::atomic<uintptr_t> begin{0}, end{0};
  char message[512];
  Region* next = nullptr;
  bool used = true;
};

namespace {

std::mutex mutex;  // of adding and removing; the handler only reads
std::atomic<Region*> regions{nullptr};
struct sigaction before;

void on_bus_error(int, siginfo_t* info, void*) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Region* r = regions.load(std::memory_order_acquire); r; r = r->next) {
    if (at < r->begin.load(std::memory_order_acquire) || at >= r->end.load()) continue;
    void* const lost = reinterpret_cast<void*>(at / page * page);
    if (mmap(lost, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
      break;
    request_failure(r->message);
    return;
  }
  // Not ours: it happens again, before whoever listened earlier.
  sigaction(SIGBUS, &before, nullptr);
}

Region* add_region(char* data, size_t bytes, const std::string& path) {
  const std::lock_guard lock(mutex);
  static const bool listening = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return sigaction(SIGBUS, &action, &before) == 0;
  }();
  (void)listening;
  Region* r = regions;
  while (r && r->used) r = r->next;
  if (!r) {
    r = new Region;
    r->next = regions;
    regions.store(r, std::memory_order_release);
  }
  r->used = true;
  std::snprintf(r->message, sizeof r->message,
                "%.300s was cut short by another program (or cannot be read any more) while "
                "tensors lay in it: what is lost reads as 0",
                path.c_str());
  r->end = reinterpret_cast<uintptr_t>(data) + bytes;
  r->begin.store(reinterpret_cast<uintptr_t>(data), std::memory_order_release);
  return r;
}

}  // namespace

Ref<Mapping> Mapping::make(int fd, size_t bytes, const std::string& path) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) return {};
  Ref<Mapping> m(new Mapping);
  m->data_ = static_cast<char*>(data);
  m->size_ = bytes;
  m->region_ = add_region(m->data_, bytes, path);
  return m;
}

Mapping::~Mapping() {
  {
    const std::lock_guard lock(mutex);
    region_->begin = UINTPTR_MAX;
    region_->used = false;
  }
  munmap(data_, size_);
}

Tensor Mapping::view(const Ref<Mapping>& mapping, std::string_view part) {
  Ref<Storage> storage(new (FreeList<Storage>::take()) Storage);
  storage->data = const_cast<char*>(part.data());
  storage->bytes = part.size();
  storage->context = Ref<Mapping>(mapping).leak();
  storage->free_data = [](void*, size_t, void* context) {
    auto* m = static_cast<Mapping*>(context);
    if (m->release()) destroy(m);
  };
  Tensor t = empty(Sizes{0}, DType::UInt8);
  t->storage = std::move(storage);
  t->numel = t->shape[0] = static_cast<int64_t>(part.size());
  return t;
}

}  // namespace tycho::io
