// Device names and the count of (simulated) CUDA devices.
#include "engine/tensor/device.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "engine/base/check.h"
#include "engine/base/module.h"

namespace tycho {
namespace {

std::atomic<bool> used = false;
thread_local int8_t current_cuda = 0;
std::string why_no_device;

// A wrong number is said at once: a script that asks whether there are devices would go on without.
int simulated_devices(const char* text) {
  char* end;
  const long n = std::strtol(text, &end, 10);
  if (*end == 0 && n >= 0 && n <= kMaxCudaDevices) return static_cast<int>(n);
  why_no_device = format("TYCHO_SIMULATE_CUDA=%.40s is no number of devices from 0 to %d", text,
                         kMaxCudaDevices);
  std::fprintf(stderr, "tycho: %s; none is simulated\n", why_no_device.c_str());
  return 0;
}

}  // namespace

constinit std::atomic<int> detail::device_count = -1;
constinit BackendKind detail::cuda_kernels = BackendKind::Cpu;

// The module for GPUs is opened where the system has a device file of NVIDIA's driver; why it finds
// none to use, or is not there, is kept for the error.
int detail::count_devices() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (device_count >= 0) return device_count;
  const char* text = std::getenv("TYCHO_SIMULATE_CUDA");
  if (!text && (!access("/dev/nvidiactl", F_OK) || !access("/dev/dxg", F_OK))) {
    const auto start = reinterpret_cast<int (*)(std::string*)>(
        module_symbol("cuda", "tycho_cuda_start", &why_no_device));
    return device_count = start ? start(&why_no_device) : 0;
  }
  return device_count = text ? simulated_devices(text) : 0;
}

void simulate_cuda(int64_t n) {
  TYCHO_CHECK(Kind::Value, n >= 0 && n <= kMaxCudaDevices,
              "cuda.simulate: between 0 and %d devices can be simulated, not %lld", kMaxCudaDevices,
              static_cast<long long>(n));
  TYCHO_CHECK(Kind::Device, !used || n >= cuda_device_count(),
              "cuda.simulate: CUDA devices are in use already; simulate before the first use");
  detail::device_count = static_cast<int>(n);
}

Device cuda_device(int64_t number) {
  cuda_device_count();
  const int n = detail::device_count.load(std::memory_order_acquire);  // with what is told
  if (n == 0)
    fail(Kind::Device,
         "there is no CUDA device on this machine" +
             (why_no_device.empty() ? "" : ": " + why_no_device),
         "torch.cuda.simulate(4)  -- before the first use: four devices on the CPU");
  if (number < 0 || number >= n) {
    const std::string there = n == 1 ? "cuda:0" : format("cuda:0 to cuda:%d", n - 1);
    fail(Kind::Device,
         format("there is no device cuda:%lld (there %s %s)", static_cast<long long>(number),
                n == 1 ? "is only" : "are", there.c_str()),
         format("device = \"cuda:%d\"  -- the last one: devices count from 0", n - 1));
  }
  used = true;
  return Device{static_cast<int8_t>(number)};
}

Device current_cuda_device() { return cuda_device(current_cuda); }
void set_current_cuda_device(Device d) {
  if (!d.is_cpu()) current_cuda = d.number;
}

std::string device_name(Device d) {
  return d.is_cpu() ? "cpu" : "cuda:" + std::to_string(static_cast<int>(d.number));
}

Device parse_device(std::string_view text) {
  if (text == "cpu" || text == "cpu:0") return Device{};
  if (text == "cuda") return Device{current_cuda};
  if (text.starts_with("cuda:") && text.size() > 5 && text.size() < 9) {
    int n = 0;
    bool digits = true;
    for (char c : text.substr(5)) {
      digits = digits && c >= '0' && c <= '9';
      n = n * 10 + (c - '0');
    }
    if (digits && n < std::numeric_limits<int8_t>::max()) return Device{static_cast<int8_t>(n)};
    if (digits) return cuda_device(n);  // which says that there are fewer
  }
  if (text == "tpu" || text == "xla" || text.starts_with("tpu:") || text.starts_with("xla:"))
    fail(Kind::Device,
         "\"" + std::string(text) +
             "\" is no device here: a TPU is a machine of Google's with its library libtpu and the "
             "XLA compiler, and this program has neither; a training loop for \"cuda\" is the same "
             "one",
         "device = \"cuda\"; net:to(device); for x, y in loader() do opt:zero_grad(); "
         "F.cross_entropy(net(x:to(device)), y:to(device)):backward(); opt:step() end");
  fail(Kind::Argument,
       "\"" + std::string(text) + "\" is no device; write \"cpu\", \"cuda\" or \"cuda:0\"");
}

}  // namespace tycho
