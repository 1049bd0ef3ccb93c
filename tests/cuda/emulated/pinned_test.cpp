// Pinned memory, copies that the host does not wait for, and times of events on the emulated driver.
#include "engine/cuda/start.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"
#include "gtest/gtest.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda {
namespace {

constexpr Device kFirst{0};

// Work waits as long as it can.
Backend& lazy_device(uint64_t seed = 1) {
  emulated::Options lazy;
  lazy.seed = seed;
  lazy.eager_percent = 0;
  emulated::start(lazy);
  start();
  return backend_of(kFirst);
}
Tensor pinned(float value) {
  const Tensor t = empty_pinned({500}, DType::Float32);
  for (int i = 0; i < 500; ++i) t.data<float>()[i] = value;
  return t;
}

TEST(CudaPinned, MemoryStaysWithACopyUntilItIsDoneAndIsUsedAgainThen) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    Backend& backend = lazy_device(seed);
    const Tensor to[] = {filled({500}, 0, DType::Float32, kFirst),
                         filled({500}, 0, DType::Float32, kFirst)};
    backend.copy_later(to[0], pinned(3), false);  // nobody else has it
    backend.copy_later(to[1], pinned(9), false);
    EXPECT_EQ(number_at(to[0], 7), 3);
    EXPECT_EQ(number_at(to[1], 7), 9);
    backend.synchronize(kFirst);
  }
  EXPECT_LE(emulated::held().pinned, 8u) << "blocks are not used again";
  emulated::start();
}

TEST(CudaPinned, MemoryIsWrittenLaterAndOtherMemoryAtOnce) {
  Backend& backend = lazy_device();
  const Tensor from = filled({500}, 5, DType::Float32, kFirst);
  const Tensor later = pinned(1), plain = filled({500}, 1, DType::Float32);
  backend.copy_later(later, from, false);
  EXPECT_EQ(number_at(later, 3), 1);
  backend.copy_later(plain, from, false);
  EXPECT_EQ(number_at(plain, 3), 5);
  backend.synchronize(kFirst);
  EXPECT_EQ(number_at(later, 3), 5);
  // What has to be turned is waited for.
  const Tensor turned = alias(pinned(0), {20, 25}, {1, 20}, 0);
  backend.copy_later(turned, alias(from, {20, 25}, {25, 1}, 0), false);
  EXPECT_EQ(number_at(turned, 3), 5);
  emulated::start();
}

TEST(CudaPinned, TimesOfEventsAreThoseOfTheirStreams) {
  Backend& backend = lazy_device();
  backend.synchronize(kFirst);
  const size_t before = emulated::held().events;
  const int64_t first = backend.new_time(kFirst, 0);
  const Tensor x = filled({500}, 5, DType::Float32, kFirst);
  const int64_t last = backend.new_time(kFirst, 0);
  EXPECT_THROW(backend.milliseconds(kFirst, first, last), Error);  // they were not passed
  backend.synchronize(kFirst);
  EXPECT_GT(backend.milliseconds(kFirst, first, last), 0);
  EXPECT_LT(backend.milliseconds(kFirst, last, first), 0);
  for (const int64_t time : {first, last}) backend.release_time(kFirst, time);
  EXPECT_THROW(backend.milliseconds(kFirst, first, last), Error);
  EXPECT_EQ(emulated::held().events, before);
  emulated::start();
}

}  // namespace
}  // namespace tycho::cuda
