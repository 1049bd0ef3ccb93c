// Devices: the CPU, and CUDA devices by the driver's number. Without a CUDA backend, CUDA devices
// can be simulated: separate memory and explicit copies, run by the CPU's kernels.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tycho {

struct Device {
  int8_t number = -1;  // -1: the CPU; 0..15: cuda:number
  bool is_cpu() const { return number < 0; }
  bool operator==(const Device&) const = default;
};
constexpr int kMaxCudaDevices = 16;

// Whose kernels run for a device's tensors: an operation has a slot for each kind.
enum class BackendKind : uint8_t { Cpu, Cuda };
constexpr int kBackends = 2;

std::string device_name(Device d);           // "cpu", "cuda:0"
Device parse_device(std::string_view text);  // raises Kind::Device
Device cuda_device(int64_t number);          // checks that it exists; raises Kind::Device

// Simulated devices: TYCHO_SIMULATE_CUDA=N, or before the first use simulate_cuda(N).
namespace detail {
extern constinit std::atomic<int> device_count;  // -1: not asked for yet
extern constinit BackendKind cuda_kernels;
int count_devices();
}  // namespace detail
inline int cuda_device_count() {
  const int count = detail::device_count.load(std::memory_order_relaxed);
  return count >= 0 ? count : detail::count_devices();
}
void simulate_cuda(int64_t n);
// Simulated devices run the CPU's kernels.
inline BackendKind kernels_of(Device d) {
  return d.is_cpu() ? BackendKind::Cpu : detail::cuda_kernels;
}
Device current_cuda_device();  // what "cuda" without a number means
void set_current_cuda_device(Device d);

}  // namespace tycho
