// The interrupt flag: it becomes one error, once, and only where interrupts are not held.
#include "engine/base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "engine/base/check.h"

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

}  // namespace
}  // namespace tycho
