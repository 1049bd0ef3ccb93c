// Places in a group's segment, and waiting for words in it.
#include "engine/dist/shm_layout.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace tycho::dist::shm {
namespace {

constexpr size_t kPage = 4096;
size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

// Many ranks have small rings: there is one for each ordered pair.
Layout::Layout(int n) : n_(n) {
  const size_t pairs = static_cast<size_t>(n) * (n - 1);
  ring_bytes_ = std::clamp(pages((size_t{16} << 20) / std::max<size_t>(1, pairs)), size_t{16} << 10,
                           size_t{256} << 10);
  splits_ = page_at(n);
  ring_controls_ = (splits_at(n, 0) + 63) / 64 * 64;
  slots_ = pages(ring_controls_ + pairs * sizeof(Ring));
  rings_ = slots_ + static_cast<size_t>(n) * 2 * kSlot;
}

// Without FUTEX_PRIVATE_FLAG: who wakes is in another process.
void sleep_on(Word& word, uint32_t seen) {
  const timespec most{0, 50'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &most, nullptr, 0);
}
void wake_all(Word& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace tycho::dist::shm
