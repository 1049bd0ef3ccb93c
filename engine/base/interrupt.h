// Ctrl-C: the signal handler sets a flag, and what computes looks at it between pieces of work. A
// failure that a signal tells of takes the same way. A thread that is stopped on its own, apart
// from the main one, has a flag of its own.
#pragma once
#include <atomic>

namespace tycho {

namespace detail {
extern constinit thread_local std::atomic<bool>* interrupt_flag;  // the one this thread looks at
extern constinit thread_local int interrupts_held;
void take_interrupt();
}  // namespace detail

inline bool interrupt_pending() { return detail::interrupt_flag->load(std::memory_order_relaxed); }
void request_interrupt() noexcept;  // safe in a signal handler of the thread to be interrupted
void clear_interrupt() noexcept;
// As an interrupt, but what stops throws Error(Kind::Io) with this text, which must stay; clearing
// interrupts does not clear it. Safe in a signal handler.
void request_failure(const char* text) noexcept;

// From here on this thread is interrupted by `flag`, which must outlive it.
void use_own_interrupts(std::atomic<bool>& flag);

// Clears the flag and throws Error(Kind::Interrupt) if an interrupt is pending, and this thread
// does not hold interrupts.
inline void check_interrupt() {
  if (interrupt_pending()) [[unlikely]]
    detail::take_interrupt();
}

// While one lives, this thread neither throws for interrupts nor takes them away from others: for
// work that must not stop half-way, and for worker threads, whose interrupts are the main one's.
class HoldInterrupts {
 public:
  HoldInterrupts() { ++detail::interrupts_held; }
  ~HoldInterrupts() { --detail::interrupts_held; }
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;
};

}  // namespace tycho
