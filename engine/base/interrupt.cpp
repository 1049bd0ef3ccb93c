// The interrupt flag and the error it becomes.
#include "engine/base/interrupt.h"

#include "engine/base/check.h"

namespace tycho {

namespace detail {
namespace {
constinit std::atomic<bool> shared_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);
}  // namespace
constinit thread_local std::atomic<bool>* interrupt_flag = &shared_flag;
constinit thread_local int interrupts_held = 0;
namespace {
std::atomic<const char*> failure{nullptr};
static_assert(std::atomic<const char*>::is_always_lock_free);
}  // namespace

void take_interrupt() {
  if (interrupts_held > 0) return;
  if (const char* text = failure.exchange(nullptr)) {
    interrupt_flag->store(false, std::memory_order_relaxed);
    fail(Kind::Io, text);
  }
  if (interrupt_flag->exchange(false, std::memory_order_relaxed))
    fail(Kind::Interrupt, "interrupted");
}
}  // namespace detail

void request_interrupt() noexcept {
  detail::interrupt_flag->store(true, std::memory_order_relaxed);
}

void clear_interrupt() noexcept {
  detail::interrupt_flag->store(detail::failure.load() != nullptr, std::memory_order_relaxed);
}

void request_failure(const char* text) noexcept {
  detail::failure.store(text);
  request_interrupt();
}

void use_own_interrupts(std::atomic<bool>& flag) { detail::interrupt_flag = &flag; }

}  // namespace tycho
