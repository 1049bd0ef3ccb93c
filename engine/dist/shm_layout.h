// What lies in the segment of a group: for each rank a page of control words, two slots for
// collectives, and a ring for the messages to each other rank. Pages are reserved by who writes to
// them first, so that a group costs little before it is used.
#pragma once
#include <atomic>
#include <cstdint>

#include "engine/dist/segment.h"

namespace tycho::dist::shm {

constexpr size_t kSlot = size_t{256} << 10;     // bytes of a slot; each rank has two
constexpr size_t kFewBytes = size_t{16} << 10;  // what is reserved of them at first
constexpr size_t kText = 512;

// A number that other processes wait for. (std::atomic::wait is for threads of one process.)
using Word = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);
// Until the word is not `seen` any more, woken, or 50 ms have passed.
void sleep_on(Word& word, uint32_t seen);
void wake_all(Word& word);

// The ends of a ring from one rank to another.
struct alignas(64) Ring {
  std::atomic<uint64_t> written;           // bytes since the beginning; the sender's
  alignas(64) std::atomic<uint64_t> read;  // the receiver's
  Word refused;                            // the receiver does not take the message; says why:
  char why[kText];
};

struct alignas(64) RankPage {
  Word posted;       // at how many barriers this rank has been
  uint64_t hash[2];  // what it asks for in the collective at hand, and in the one before or after
  alignas(64) Word bell;          // rung when a ring from or to this rank has moved
  Word waits;                     // for the bell
  char text[kText], line[kText];  // for the table of those who disagree
};

struct alignas(64) GroupPage {
  uint32_t crowded;  // more ranks than cores: nobody spins
  alignas(64) Word sleepers;
  Word turn;  // changes when a barrier is complete and somebody sleeps
};

// Where everything is, for `n` ranks.
class Layout {
 public:
  explicit Layout(int n);
  size_t control_bytes() const { return slots_; }
  size_t bytes() const { return rings_ + static_cast<size_t>(n_) * (n_ - 1) * ring_bytes_; }
  size_t ring_bytes() const { return ring_bytes_; }
  size_t page_at(int rank) const { return sizeof(GroupPage) + rank * sizeof(RankPage); }
  // Splits of an all_to_all: by parity, `n` to send and `n` to receive.
  size_t splits_at(int rank, int parity) const {
    return splits_ + static_cast<size_t>(rank * 2 + parity) * 2 * n_ * sizeof(int64_t);
  }
  size_t ring_at(int from, int to) const {
    return ring_controls_ + static_cast<size_t>(pair(from, to)) * sizeof(Ring);
  }
  size_t slot_at(int rank, int which) const {
    return slots_ + static_cast<size_t>(rank * 2 + which) * kSlot;
  }
  size_t ring_data_at(int from, int to) const {
    return rings_ + static_cast<size_t>(pair(from, to)) * ring_bytes_;
  }

 private:
  int pair(int from, int to) const { return from * (n_ - 1) + to - (to > from); }
  int n_;
  size_t ring_bytes_, splits_, ring_controls_, slots_, rings_;
};

}  // namespace tycho::dist::shm
