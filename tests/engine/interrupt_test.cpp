// The interrupt flag: it becomes one error, once, and only where interrupts are not held.
#include "engine/base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "engine/base/check.h"
#include "engine/cpu/random/random.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"

namespace tycho {
namespace {

TEST(Interrupt, NothingHappensWithoutARequest) {
  clear_interrupt();
  EXPECT_FALSE(interrupt_pending());
  EXPECT_NO_THROW(check_interrupt());
}

TEST(Interrupt, ARequestFromASignalHandlerThrowsOnce) {
  const auto before = signal(SIGUSR1, [](int) { request_interrupt(); });
  raise(SIGUSR1);
  signal(SIGUSR1, before);
  EXPECT_TRUE(interrupt_pending());
  try {
    check_interrupt();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Kind::Interrupt);
    EXPECT_EQ(error.text, "interrupted");
  }
  EXPECT_FALSE(interrupt_pending());
  EXPECT_NO_THROW(check_interrupt());
}

TEST(Interrupt, AHeldInterruptWaitsUntilItIsNoLongerHeld) {
  request_interrupt();
  {
    HoldInterrupts hold;
    EXPECT_NO_THROW(check_interrupt());
  }
  EXPECT_THROW(check_interrupt(), Error);
}

TEST(Interrupt, ARequestCanBeTakenBack) {
  request_interrupt();
  clear_interrupt();
  EXPECT_NO_THROW(check_interrupt());
}

TEST(Interrupt, FillsStopAndCopiesEnd) {
  const Tensor x = empty(Sizes{1 << 20}, DType::Float32), y = empty(Sizes{1 << 20}, DType::Float32);
  fill_raw(x, Value(2.0));
  request_interrupt();
  EXPECT_THROW(fill_raw(x, Value(3.0)), Error);
  fill_raw(x, Value(4.0));
  request_interrupt();
  copy_raw(y, x);
  EXPECT_THROW(check_interrupt(), Error);
  EXPECT_EQ(y.host<float>()[(1 << 20) - 1], 4.0f);
  Generator twister(1);
  request_interrupt();
  EXPECT_THROW(cpu::random_uniform(twister, y.host(), DType::Float32, y.numel(), 0, 1), Error);
  EXPECT_FALSE(interrupt_pending());
}

}  // namespace
}  // namespace tycho
