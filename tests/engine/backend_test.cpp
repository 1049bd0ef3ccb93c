// Backends: what they do with values and memory, and that a simulated device's memory is closed.
#include "engine/tensor/backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "engine/base/device_memory.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

Device simulated(int8_t number = 0) {
  simulate_cuda(2);
  return cuda_device(number);
}

TEST(Backend, SaysWhatItsDevicesAre) {
  const Device d = simulated();
  EXPECT_STREQ(backend_of(Device{}).name, "cpu");
  EXPECT_EQ(backend_of(Device{}).random, RandomKind::Mersenne);
  EXPECT_EQ(backend_of(d).random, RandomKind::Philox);
  EXPECT_EQ(kernels_of(d), BackendKind::Cpu);
  EXPECT_EQ(backend_of(d).devices(), 2);
}

TEST(Backend, CopiesBetweenAllDevicesInAnyLayoutAndType) {
  const Device devices[] = {Device{}, simulated(0), simulated(1)};
  const Tensor numbers = op<"reshape">(op<"arange">(24), Sizes{2, 3, 4});
  for (Device from : devices)
    for (Device to : devices) {
      const Tensor a = op<"transpose">(sent(numbers, from), 0, 2);
      const Tensor b = empty({3, 2, 4}, DType::Float16, to);
      const Tensor turned = op<"permute">(b, Sizes{2, 0, 1});
      copy_raw(turned, a);
      const Tensor got = fetch(turned);
      ASSERT_TRUE(got.device().is_cpu());
      for (int64_t i = 0; i < 24; ++i)
        ASSERT_EQ(number_at(got, i), static_cast<double>(i / 6 + i / 2 % 3 * 4 + i % 2 * 12));
    }
}

TEST(Backend, FillsWithOneElement) {
  for (int code = 0; code < 10; ++code) {
    const auto dtype = static_cast<DType>(code);
    const Tensor t = filled({3, 5}, 1, dtype, simulated());
    for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(number_at(t, i), 1) << dtype_name(dtype);
  }
  EXPECT_EQ(item(filled({}, 0.1, DType::Float64, simulated())), 0.1);
}

TEST(Backend, ItemAndFetchReadADevice) {
  const Tensor x = sent(op<"arange">(6), simulated(1));
  EXPECT_EQ(item<int64_t>(op<"sum">(x)), 15);
  EXPECT_EQ(integer_at(op<"slice">(x, 0, 1, 6, 2), 1), 3);
  EXPECT_EQ(fetch(x).host<int64_t>()[4], 4);
  const Tensor host = fetch(x);
  EXPECT_EQ(fetch(host).get(), host.get());
}

// Reads with the memory open, after a kernel on another thread has closed it, and between kernels.
int64_t read_behind_its_back(bool in_kernel) {
  setenv("TYCHO_SIMULATE_GUARD", "1", 1);
  const Tensor x = sent(op<"arange">(6), simulated());
  if (!in_kernel) return x.data<int64_t>()[2];
  const KernelScope outer(KernelScope::bit(x.device()));
  std::thread([&] { const KernelScope inner(KernelScope::bit(x.device())); }).join();
  return x.data<int64_t>()[2];
}

TEST(SimulatedMemory, IsClosedToAllButKernelsOfItsDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(static_cast<int>(read_behind_its_back(true))), testing::ExitedWithCode(2), "");
  EXPECT_DEATH(read_behind_its_back(false), "");
}

// Addresses that nothing may be read from or written to.
struct Nowhere : DeviceMemory::Source {
  size_t next = 4096, taken = 0, most = SIZE_MAX;
  void* take(size_t bytes, int) override {
    if (taken + bytes > most) return nullptr;
    taken += bytes;
    return reinterpret_cast<void*>(next += bytes);
  }
  void give(void*, size_t bytes, int) override { taken -= bytes; }
};

TEST(DeviceMemory, KeepsItsBooksOutsideTheBlocks) {
  Nowhere source;
  DeviceMemory memory(source);
  void *a = memory.allocate(600), *b = memory.allocate(600), *none = memory.allocate(0);
  EXPECT_NE(a, b);
  EXPECT_NE(none, nullptr);
  EXPECT_EQ(memory.live_bytes(), 1280);
  memory.release(a, 600);
  memory.release(b, 600);
  memory.release(none, 0);
  memory.release(nullptr, 7);
  EXPECT_EQ(memory.allocate(1024), b);  // last in, first out
  EXPECT_EQ(memory.allocate(513), a);
  EXPECT_EQ(memory.stats().live, 1600);
  EXPECT_EQ(memory.stats().peak, 1600);
  EXPECT_EQ(memory.stats().cached, 512);
  EXPECT_EQ(memory.stats().allocations, 5);
  memory.release(a, 513);
  memory.reset_peak();
  EXPECT_EQ(memory.stats().peak, 1024);
  memory.empty_cache();
  EXPECT_EQ(memory.stats().cached, 0);
  EXPECT_EQ(source.taken, 1024u);
}

TEST(DeviceMemory, HasBlocksOfHalfAKilobyteOrOfTwoMegabytes) {
  constexpr size_t kMega = size_t{1} << 20;
  EXPECT_EQ(DeviceMemory::block_bytes(0), 512u);
  EXPECT_EQ(DeviceMemory::block_bytes(512), 512u);
  EXPECT_EQ(DeviceMemory::block_bytes(513), 1024u);
  EXPECT_EQ(DeviceMemory::block_bytes(kMega), kMega);
  EXPECT_EQ(DeviceMemory::block_bytes(kMega + 1), 2 * kMega);
  EXPECT_EQ(DeviceMemory::block_bytes(5 * kMega), 6 * kMega);
}

TEST(DeviceMemory, KeepsBlocksForTheStreamThatGaveThem) {
  Nowhere source;
  DeviceMemory memory(source);
  void *a = memory.allocate(100, 1), *b = memory.allocate(100, 2);
  memory.release(a, 100, 1);
  memory.release(b, 100, 2);
  void* c = memory.allocate(100);
  EXPECT_NE(c, a);
  EXPECT_NE(c, b);
  EXPECT_EQ(memory.allocate(100, 2), b);
  memory.end_stream(1);
  EXPECT_EQ(memory.allocate(100), a);
  memory.empty_cache();
  EXPECT_EQ(source.taken, 3 * 512u);
}

TEST(DeviceMemory, DropsItsCacheBeforeItGivesUpAndHonoursItsLimit) {
  Nowhere source;
  source.most = 1000 << 10;
  DeviceMemory memory(source);
  memory.release(memory.allocate(600 << 10), 600 << 10);
  void* other = memory.allocate(900 << 10);
  EXPECT_NE(other, nullptr);
  EXPECT_EQ(memory.allocate(200 << 10), nullptr);
  memory.set_capacity(910 << 10);
  EXPECT_EQ(memory.allocate(20 << 10), nullptr);
  memory.set_capacity(0);
  EXPECT_NE(memory.allocate(20 << 10), nullptr);
  EXPECT_EQ(memory.allocate(SIZE_MAX), nullptr);
}

}  // namespace
}  // namespace tycho
