// Kernels by file and name, loaded at first use, and their launches.
#include "engine/cuda/launch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/base/check.h"
#include "engine/cuda/context.h"

namespace tycho::cuda {
namespace {

// Libraries belong to the process, not to a device.
KernelHandle handle_of(KernelRef kernel) {
  static std::mutex mutex;
  static std::unordered_map<std::string, KernelHandle> known;
  static std::map<std::string, Library> libraries;
  const std::lock_guard lock(mutex);
  KernelHandle& handle = known[std::string(kernel.file) + '/' + kernel.name];
  if (handle) return handle;
  Library& library = libraries[kernel.file];
  if (!library) {
    const void* code = driver().code_of(kernel.file);
    TYCHO_CHECK(Kind::Device, code, "the program was built without the kernels of %s", kernel.file);
    check(driver().load_library(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0),
          kernel.file);
  }
  check(driver().find_kernel(&handle, library, kernel.name), kernel.name);
  return handle;
}

}  // namespace

void launch_kernel(Device device, KernelRef kernel, Grid grid, Block block, size_t shared_bytes,
                   void** arguments) {
  if (!grid.x || !grid.y || !grid.z) return;
  const Stream stream = stream_of(device);
  check(driver().launch(handle_of(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                        static_cast<unsigned>(shared_bytes), stream, arguments, nullptr),
        kernel.name);
}

Scratch::Scratch(Device device, size_t bytes)
    : device_(device),
      stream_(context_of(device).current()),
      bytes_(bytes),
      memory_(context_of(device).memory->allocate(bytes, stream_)) {
  TYCHO_CHECK(Kind::Oom, memory_ || !bytes, "out of memory on %s: %.1f MB of scratch memory wanted",
              device_name(device).c_str(), static_cast<double>(bytes) / 1e6);
}
Scratch::~Scratch() { context_of(device_).memory->release(memory_, bytes_, stream_); }

int multiprocessors(Device device) { return context_of(device).multiprocessors; }
int arch(Device device) { return context_of(device).arch; }

Grid grid_for(Device device, int64_t n, unsigned threads) {
  constexpr int64_t kBlocksEach = 8;
  const int64_t most = multiprocessors(device) * kBlocksEach;
  return {static_cast<unsigned>(std::min((n + threads - 1) / threads, most))};
}

}  // namespace tycho::cuda
