// The memory of one simulated device: a range of addresses of its own, which is closed (no access)
// but while a kernel or copy of the device runs, so that a read of device memory by other code ends
// the program there, as it would read nonsense on a real device. Only with TYCHO_SIMULATE_GUARD=1,
// which the tests set, and under sanitizers; otherwise it always stands open.
#pragma once
#include <map>
#include <mutex>

#include "engine/base/device_memory.h"

namespace tycho::cpu {

class Arena final : public DeviceMemory::Source {
 public:
  Arena();

  void* take(size_t bytes, int stream) override;
  void give(void* memory, size_t bytes, int stream) override;

  // Each open() wants one close(); between them any thread may touch the memory.
  void open();
  void close();

 private:
  bool reserve();
  void protect(size_t from, size_t to, bool accessible);
  size_t page_up(size_t n) const { return (n + page_ - 1) & ~(page_ - 1); }

  const bool guarded_;
  const size_t page_;  // what is opened, closed and given back as a whole
  std::mutex mutex_;
  char* base_ = nullptr;
  size_t reserved_ = 0;
  size_t used_ = 0;                // everything from here on was never handed out
  std::map<size_t, size_t> free_;  // pieces below it: where they begin and end
  int open_ = 0;
};

}  // namespace tycho::cpu
