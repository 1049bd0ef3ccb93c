// Streams of simulated devices: copies that the host does not wait for come in order, when their
// stream is waited for or gets other work, and not before.
#include "engine/cpu/device/streams.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

Device simulated(int8_t number = 0) {
  simulate_cuda(2);
  return cuda_device(number);
}

Tensor pinned(double value) {
  const Tensor t = empty_pinned({4}, DType::Float32);
  copy_raw(t, filled({4}, value, DType::Float32));
  return t;
}

TEST(Streams, ACopyUpIsThereAfterTheNextWorkOfItsStream) {
  const Device d = simulated();
  const Tensor to = empty({4}, DType::Float32, d);
  backend_of(d).copy_later(to, pinned(3), true);
  EXPECT_FALSE(backend_of(d).passed(d, 0, backend_of(d).mark(d, 0)));
  EXPECT_EQ(number_at(to, 0), 3);  // reading is work of the stream
  EXPECT_TRUE(backend_of(d).passed(d, 0, backend_of(d).mark(d, 0)));
}

TEST(Streams, ACopyDownIsNanUntilTheDeviceIsWaitedFor) {
  const Device d = simulated();
  const Tensor from = filled({4}, 5, DType::Float32, d), to = empty({4}, DType::Float32);
  backend_of(d).copy_later(to, from, true);
  EXPECT_TRUE(std::isnan(number_at(to, 0)));
  backend_of(d).synchronize(d);
  EXPECT_EQ(number_at(to, 3), 5);
}

TEST(Streams, OtherStreamsDoNotWait) {
  const Device d = simulated();
  Backend& backend = backend_of(d);
  const StreamId side = backend.new_stream(d);
  const Tensor to = filled({4}, 0, DType::Float32, d), from = pinned(2);
  set_current_stream(d, side);
  backend.copy_later(to, from, false);
  const uint64_t first = backend.mark(d, side);
  backend.copy_later(to, pinned(7), false);
  set_current_stream(d, 0);
  EXPECT_EQ(number_at(to, 0), 0);
  backend.wait_on_device(d, 0, d, side, first);
  EXPECT_EQ(number_at(to, 0), 2);
  backend.wait(d, side, backend.mark(d, side));
  EXPECT_EQ(number_at(to, 0), 7);
  backend.release_stream(d, side);
  EXPECT_EQ(backend.new_stream(d), side);
  backend.release_stream(d, side);
}

TEST(Streams, QueuedCopiesKeepTheirTensorsAndTheirOrder) {
  const Device d = simulated();
  Backend& backend = backend_of(d);
  const Tensor to = filled({4}, 0, DType::Float32, d);
  for (int i = 1; i <= 100; ++i) backend.copy_later(to, pinned(i), false);
  EXPECT_EQ(number_at(to, 2), 100);
}

TEST(Streams, OrdinaryMemoryIsReadBeforeTheCallReturns) {
  const Device d = simulated();
  const Tensor from = filled({4}, 1, DType::Float32), to = empty({4}, DType::Float32, d);
  EXPECT_FALSE(is_pinned(*from->storage));
  backend_of(d).copy_later(to, from, true);
  copy_raw(from, filled({4}, 9, DType::Float32));
  EXPECT_EQ(number_at(to, 0), 1);
}

}  // namespace
}  // namespace tycho
