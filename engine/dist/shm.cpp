// Collectives through shared memory (shm.h).
#include "engine/dist/shm.h"

#include <algorithm>
#include <cstring>

#include "engine/cpu/cache.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/reduce/ranks.h"

namespace tycho::dist {
namespace {

// Up to here each rank adds up everything itself, after one barrier; beyond, each a share, after
// two.
constexpr int64_t kFew = static_cast<int64_t>(shm::kFewBytes);
// What is larger is not in the caches when it is used next.
constexpr int64_t kPastCaches = int64_t{8} << 20;
constexpr int64_t kSlot = static_cast<int64_t>(shm::kSlot);

void pause() { __builtin_ia32_pause(); }
void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}
int64_t aligned(int64_t bytes) { return bytes / 64 * 64; }

void put_text(char* to, const std::string& text) {
  const size_t n = std::min(text.size(), shm::kText - 1);
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

}  // namespace

std::vector<int> Shm::world(const std::vector<int>& places) const {
  std::vector<int> ranks;
  for (const int p : places) ranks.push_back(members_.ranks[static_cast<size_t>(p)]);
  return ranks;
}

// --- Barriers and agreement ---

bool Shm::all_posted() const {
  for (int r = 0; r < n_; ++r)
    if (static_cast<int32_t>(page(r).posted.load(std::memory_order_seq_cst) - barriers_) < 0)
      return false;
  return true;
}

// Who comes last wakes the others. Either it sees that somebody sleeps, or that one sees all posted
// before it does: both words are written before the other is read.
void Shm::barrier() {
  ++barriers_;
  page(me_).posted.store(barriers_, std::memory_order_seq_cst);
  shm::GroupPage& g = group();
  if (g.sleepers.load(std::memory_order_seq_cst) != 0 && all_posted()) {
    g.turn.fetch_add(1, std::memory_order_seq_cst);
    shm::wake_all(g.turn);
    return;
  }
  // Beside a computation only a little, and only for those who are here already.
  const bool computes = std::this_thread::get_id() == maker_;
  const int spins = computes ? spins_ : first_meeting_ ? 0 : spins_ / 4;
  for (int i = 0; i <= spins; ++i) {
    if (all_posted()) return;
    pause();
  }
  Wait wait(*members_.job, *desc_);
  for (;;) {
    g.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t turn = g.turn.load(std::memory_order_seq_cst);
    if (!all_posted()) shm::sleep_on(g.turn, turn);
    g.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (all_posted()) return;
    std::vector<int> missing;
    for (int r = 0; r < n_; ++r)
      if (static_cast<int32_t>(page(r).posted.load() - barriers_) < 0) missing.push_back(r);
    wait.look(world(missing));
  }
}

void Shm::wake() {
  group().turn.fetch_add(1, std::memory_order_seq_cst);
  shm::wake_all(group().turn);
  page(me_).bell.fetch_add(1, std::memory_order_seq_cst);
  shm::wake_all(page(me_).bell);
}

void Shm::begin(const Desc& desc, int64_t bytes_to_slot) {
  desc_ = &desc;
  first_meeting_ = true;
  parity_ ^= 1;
  hash_ = desc.hash();
  if (!desc.send.empty()) {
    copy(splits(me_), desc.send.data(), n_ * 8);
    copy(splits(me_) + n_, desc.receive.data(), n_ * 8);
  }
  reserve_slots(std::min(bytes_to_slot, kSlot));
}

void Shm::reserve_slots(int64_t bytes) {
  if (bytes <= reserved_) return;
  const int64_t wanted = bytes <= kFew ? kFew : kSlot;
  for (const int which : {0, 1})
    segment_->reserve(layout_.slot_at(me_, which), static_cast<size_t>(wanted));
  reserved_ = wanted;
}

// The hash is written just before the barrier: others look at that line while they wait for it.
void Shm::meet() {
  if (!first_meeting_) return barrier();
  page(me_).hash[parity_] = hash_;
  barrier();
  first_meeting_ = false;
  for (int r = 0; r < n_; ++r)
    if (page(r).hash[parity_] != hash_) disagree();
  if (!desc_->send.empty()) check_splits();
}

// Every rank comes here at the same barrier, so the table is made at one more.
void Shm::disagree() {
  put_text(page(me_).text, desc_->text());
  put_text(page(me_).line, to_string(desc_->line));
  barrier();
  std::vector<Asked> asked;
  for (int r = 0; r < n_; ++r)
    asked.push_back({members_.ranks[static_cast<size_t>(r)], page(r).hash[parity_], page(r).text,
                     page(r).line});
  raise(disagreement(desc_->group, desc_->seq, asked), *desc_);
}

void Shm::check_splits() {
  for (int from = 0; from < n_; ++from)
    for (int to = 0; to < n_; ++to) {
      const int64_t sends = splits(from)[to], expects = splits(to)[n_ + from];
      if (sends == expects) continue;
      const std::vector<int> pair = world({from, to});
      raise(split_disagreement(*desc_, pair[0], pair[1], sends, expects), *desc_);
    }
}

// --- Moving ---

// Past the caches what is too large for them.
void Shm::copy_out(void* to, const void* from, int64_t bytes) const {
  if (!past_caches_) return copy(to, from, bytes);
  cpu::level_of::copy_stream(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  cpu::end_stream();
}

// All ranks' elements at an offset of their slots into `out`; this rank's lie at `own`.
void Shm::fold(char* out, const char* own, size_t offset, int64_t n) {
  sources_.resize(static_cast<size_t>(n_));
  for (int r = 0; r < n_; ++r) sources_[static_cast<size_t>(r)] = r == me_ ? own : slot(r) + offset;
  cpu::level_of::fold_ranks(static_cast<void*>(out), sources_.data(), n_, n,
                            static_cast<int>(desc_->dtype), static_cast<int>(desc_->red),
                            static_cast<double>(n_));
}

// Also reduce: then only the root copies out.
void Shm::all_reduce(Span in, Span out) {
  const int64_t size = dtype_size(in.t), bytes = in.bytes();
  const bool wants = desc_->root < 0 || desc_->root == me_;
  const char* from = static_cast<const char*>(in.p);
  char* to = static_cast<char*>(out.p);
  if (bytes <= kFew) {
    copy(slot(me_), from, bytes);
    meet();
    if (wants) fold(to, slot(me_), 0, in.n);
    return next_slot();
  }
  const int64_t piece = kSlot / size;
  for (int64_t done = 0; done < in.n; done += piece) {
    const int64_t m = std::min(piece, in.n - done), start = done * size;
    if (n_ == 2 && desc_->root < 0) {
      // Of two, each reads all of the other's either way, and so without a second barrier.
      copy(slot(me_), from + start, m * size);
      meet();
      fold(to + start, from + start, 0, m);
      next_slot();
      continue;
    }
    // Rank r adds up elements from share(r) to share(r + 1); its own need not travel.
    const auto share = [&](int r) { return r == n_ ? m * size : aligned(m * size / n_ * r); };
    char* const mine = slot(me_);
    copy(mine, from + start, share(me_));
    copy(mine + share(me_ + 1), from + start + share(me_ + 1), m * size - share(me_ + 1));
    meet();
    fold(mine + share(me_), from + start + share(me_), static_cast<size_t>(share(me_)),
         (share(me_ + 1) - share(me_)) / size);
    meet();
    for (int r = 0; wants && r < n_; ++r)
      copy_out(to + start + share(r), slot(r) + share(r), share(r + 1) - share(r));
    next_slot();
  }
}

void Shm::broadcast(Span in, Span out) {
  const bool sends = desc_->root == me_;
  const int64_t bytes = sends ? in.bytes() : out.bytes();
  int64_t done = 0;
  do {
    const int64_t m = std::min(kSlot, bytes - done);
    if (sends) copy(slot(me_), static_cast<char*>(in.p) + done, m);
    meet();
    if (!sends) copy_out(static_cast<char*>(out.p) + done, slot(desc_->root), m);
    next_slot();
    done += m;
  } while (done < bytes);
  if (sends && out.p) copy(out.p, in.p, bytes);
}

// Also gather: then only the root copies out.
void Shm::all_gather(Span in, Span out) {
  const bool wants = desc_->root < 0 || desc_->root == me_;
  const int64_t bytes = in.bytes();
  char* const to = static_cast<char*>(out.p);
  int64_t done = 0;
  do {
    const int64_t m = std::min(kSlot, bytes - done);
    const char* const from = static_cast<char*>(in.p) + done;
    copy(slot(me_), from, m);
    meet();
    for (int r = 0; wants && r < n_; ++r)
      if (r != me_) copy_out(to + r * bytes + done, slot(r), m);
    if (wants) copy(to + me_ * bytes + done, from, m);
    next_slot();
    done += m;
  } while (done < bytes);
}

// Where slots hold something for every rank: how much for each of them at a time.
int64_t Shm::part_of_slot(int64_t bytes) const {
  return std::min(aligned(kSlot / n_), aligned(bytes + 63));
}

void Shm::reduce_scatter(Span in, Span out) {
  const int64_t size = dtype_size(in.t), bytes = out.bytes(), part = part_of_slot(bytes);
  const char* const from = static_cast<char*>(in.p);
  int64_t done = 0;
  do {
    const int64_t m = std::min(part, bytes - done);
    for (int r = 0; r < n_; ++r)
      if (r != me_) copy(slot(me_) + r * part, from + r * bytes + done, m);
    meet();
    fold(static_cast<char*>(out.p) + done, from + me_ * bytes + done,
         static_cast<size_t>(me_ * part), m / size);
    next_slot();
    done += m;
  } while (done < bytes);
}

void Shm::scatter(Span in, Span out) {
  const bool sends = desc_->root == me_;
  const int64_t bytes = out.bytes(), part = part_of_slot(bytes);
  const char* const from = static_cast<char*>(in.p);
  int64_t done = 0;
  do {
    const int64_t m = std::min(part, bytes - done);
    for (int r = 0; sends && r < n_; ++r)
      if (r != me_) copy(slot(me_) + r * part, from + r * bytes + done, m);
    meet();
    char* const to = static_cast<char*>(out.p) + done;
    if (sends)
      copy(to, from + me_ * bytes + done, m);
    else
      copy_out(to, slot(desc_->root) + me_ * part, m);
    next_slot();
    done += m;
  } while (done < bytes);
}

void Shm::all_to_all(Span in, Span out) {
  const bool split = !desc_->send.empty();
  const int64_t size = dtype_size(in.t), part = part_of_slot(split ? kSlot : in.bytes() / n_);
  const char* const from = static_cast<char*>(in.p);
  char* const to = static_cast<char*>(out.p);
  const auto sends = [&](int r) {
    return split ? desc_->send[static_cast<size_t>(r)] * size : in.bytes() / n_;
  };
  const auto receives = [&](int r) {
    return split ? desc_->receive[static_cast<size_t>(r)] * size : out.bytes() / n_;
  };
  int64_t done = 0, most = split ? 0 : in.bytes() / n_;
  do {
    int64_t start = 0;
    for (int r = 0; r < n_; start += sends(r), ++r)
      if (r != me_)
        copy(slot(me_) + r * part, from + start + done, std::min(part, sends(r) - done));
    meet();
    if (split && done == 0)  // now the splits of all are known, and with them the number of pieces
      for (int r = 0; r < n_; ++r)
        most = std::max(most, *std::max_element(splits(r), splits(r) + n_) * size);
    start = 0;
    for (int r = 0; r < n_; start += receives(r), ++r)
      if (r != me_)
        copy_out(to + start + done, slot(r) + me_ * part,
                 std::max<int64_t>(0, std::min(part, receives(r) - done)));
    next_slot();
    done += part;
  } while (done < most);
  int64_t at_in = 0, at_out = 0;
  for (int r = 0; r < me_; ++r) at_in += sends(r), at_out += receives(r);
  copy(to + at_out, from + at_in, sends(me_));
}

void Shm::run(const Desc& desc, Span in, Span out) {
  past_caches_ = std::max(in.bytes(), out.bytes()) >= kPastCaches;
  const bool root = desc.root == me_;
  switch (desc.verb) {
    case Verb::AllReduce:
    case Verb::Reduce:
      begin(desc, in.bytes());
      return all_reduce(in, out);
    case Verb::Broadcast:
      begin(desc, root ? in.bytes() : 0);
      return broadcast(in, out);
    case Verb::AllGather:
    case Verb::Gather:
      begin(desc, in.bytes());
      return all_gather(in, out);
    case Verb::ReduceScatter:
      begin(desc, part_of_slot(out.bytes()) * n_);
      return reduce_scatter(in, out);
    case Verb::Scatter:
      begin(desc, root ? part_of_slot(out.bytes()) * n_ : 0);
      return scatter(in, out);
    case Verb::AllToAll:
      begin(desc, part_of_slot(desc.send.empty() ? in.bytes() / n_ : kSlot) * n_);
      return all_to_all(in, out);
    case Verb::Barrier:
      begin(desc, 0);
      return meet();
  }
}

std::unique_ptr<Transport> make_shm(const Members& members) {
  return std::make_unique<Shm>(members);
}

}  // namespace tycho::dist
