// The transport inside one host: every rank maps one segment. A collective copies pieces into slots,
// meets at a barrier, and copies out of the slots of others; the ranks' requests are compared at its
// first barrier, which is there anyway. Two slots take turns, so that a piece is copied in while the
// one before is still read.
//
// Note: why a slot is free again. Piece p is read between its own last barrier and the first of
// piece p + 1; piece p + 2, which uses the same slot, is written after that one.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "engine/dist/shm_layout.h"
#include "engine/dist/transport.h"
#include "engine/dist/wait.h"

namespace tycho::dist {

class Shm final : public Transport {
 public:
  explicit Shm(const Members& members);
  ~Shm() override;
  const char* name() const override { return "shm"; }
  bool agrees() const override { return true; }
  bool takes(Device device) const override { return device.is_cpu(); }
  void run(const Desc& desc, Span in, Span out) override;
  void start_message(Message& m) override;
  bool poll_messages(const std::vector<Message*>& open) override;
  void wait_for_messages(Seconds at_most) override;
  void wake() override;

 private:
  // --- meeting (shm_meet.cpp) ---
  void meet_members();
  Ref<Segment> make_segment() const;
  void hand_out(Wait& wait, const std::string& key);
  Descriptor fetch(Wait& wait, const std::string& key) const;

  template <class T = char>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(segment_->data + offset);
  }
  shm::GroupPage& group() const { return *at<shm::GroupPage>(0); }
  shm::RankPage& page(int rank) const { return *at<shm::RankPage>(layout_.page_at(rank)); }
  char* slot(int rank) const { return at(layout_.slot_at(rank, which_)); }
  int64_t* splits(int rank) const { return at<int64_t>(layout_.splits_at(rank, parity_)); }
  std::vector<int> world(const std::vector<int>& places) const;

  // --- collectives (shm.cpp) ---
  void begin(const Desc& desc, int64_t bytes_to_slot);
  void barrier();
  bool all_posted() const;
  void meet();  // a barrier; the first of a collective compares what was asked for
  [[noreturn]] void disagree();
  void check_splits();
  void next_slot() { which_ ^= 1; }
  void reserve_slots(int64_t bytes);
  int64_t part_of_slot(int64_t bytes) const;
  void fold(char* out, const char* own, size_t offset, int64_t n);
  void copy_out(void* to, const void* from, int64_t bytes) const;

  void all_reduce(Span in, Span out);
  void broadcast(Span in, Span out);
  void all_gather(Span in, Span out);
  void reduce_scatter(Span in, Span out);
  void scatter(Span in, Span out);
  void all_to_all(Span in, Span out);

  // --- messages (shm_messages.cpp) ---
  struct Header {
    int32_t tag;
    uint32_t dtype;
    int64_t n;
  };
  struct Ends {  // of the ring to or from another rank
    shm::Ring* ring = nullptr;
    char* data = nullptr;
    bool reserved = false;
  };
  // A message that came before anybody asked for it.
  struct Early {
    Header header;
    std::vector<char> bytes;
  };
  struct Incoming {
    std::optional<Header> header;  // of the message that is coming
    int64_t got = 0;
    Message* target = nullptr;  // null: kept as an early one
    std::deque<std::shared_ptr<Early>> early;
  };
  Ends& ends(std::vector<Ends>& all, int from, int to);
  bool push(Message& m);
  bool pull(int from, const std::vector<Message*>& open);
  bool take_early(Message& m);
  void ring(int rank);
  size_t write_ring(Ends& e, const char* from, size_t bytes, bool whole);
  size_t read_ring(Ends& e, char* to, size_t bytes, bool whole);
  void check(const Header& h, const Message& m, int from);

  const Members members_;
  const int n_, me_;
  const shm::Layout layout_;
  Ref<Segment> segment_;
  std::thread::id maker_;  // the thread that computes; only it spins
  int spins_ = 0;
  int listener_ = -1;

  // Of the collective at hand.
  const Desc* desc_ = nullptr;
  bool first_meeting_ = false;
  bool past_caches_ = false;
  uint32_t barriers_ = 0;
  int parity_ = 0, which_ = 0;
  uint64_t hash_ = 0;     // of desc_
  int64_t reserved_ = 0;  // bytes of each own slot
  std::vector<const void*> sources_;

  std::vector<Ends> out_, in_;
  std::vector<Incoming> incoming_;
  uint32_t bell_seen_ = 0;
};

}  // namespace tycho::dist
