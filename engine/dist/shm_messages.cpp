// Messages through shared memory: a ring for each ordered pair of ranks. A message is a header of
// what it holds, then its bytes; the receiver looks whether it is what it asked for, and refuses it
// otherwise. What comes before it was asked for is kept.
#include <algorithm>
#include <cstring>

#include "engine/dist/shm.h"

namespace tycho::dist {
namespace {

std::string described(int64_t n, DType t) {
  return format("%lld elements of %s", static_cast<long long>(n), dtype_name(t));
}

}  // namespace

Shm::Ends& Shm::ends(std::vector<Ends>& all, int from, int to) {
  Ends& e = all[static_cast<size_t>(from == me_ ? to : from)];
  if (!e.ring) {
    e.ring = at<shm::Ring>(layout_.ring_at(from, to));
    e.data = at(layout_.ring_data_at(from, to));
  }
  return e;
}

void Shm::ring(int rank) {
  shm::RankPage& p = page(rank);
  p.bell.fetch_add(1, std::memory_order_seq_cst);
  if (p.waits.load(std::memory_order_seq_cst) != 0) shm::wake_all(p.bell);
}

// How many bytes there was room for; `whole`: all or nothing.
size_t Shm::write_ring(Ends& e, const char* from, size_t bytes, bool whole) {
  const size_t size = layout_.ring_bytes();
  const uint64_t written = e.ring->written.load(std::memory_order_relaxed);
  const size_t room = size - (written - e.ring->read.load(std::memory_order_acquire));
  if (room < bytes && whole) return 0;
  const size_t m = std::min(room, bytes), start = written % size, first = std::min(m, size - start);
  copy_bytes(e.data + start, from, first);
  copy_bytes(e.data, from + first, m - first);
  e.ring->written.store(written + m, std::memory_order_release);
  return m;
}

size_t Shm::read_ring(Ends& e, char* to, size_t bytes, bool whole) {
  const size_t size = layout_.ring_bytes();
  const uint64_t read = e.ring->read.load(std::memory_order_relaxed);
  const size_t there = e.ring->written.load(std::memory_order_acquire) - read;
  if (there < bytes && whole) return 0;
  const size_t m = std::min(there, bytes), start = read % size, first = std::min(m, size - start);
  copy_bytes(to, e.data + start, first);
  copy_bytes(to + first, e.data, m - first);
  e.ring->read.store(read + m, std::memory_order_release);
  return m;
}

void Shm::start_message(Message& m) {
  m.moved = 0;
  m.done = false;
  if (!m.send) return;
  Ends& e = ends(out_, me_, m.peer);
  if (e.reserved) return;
  segment_->reserve(layout_.ring_data_at(me_, m.peer), layout_.ring_bytes());
  e.reserved = true;
}

bool Shm::push(Message& m) {
  Ends& e = ends(out_, me_, m.peer);
  if (e.ring->refused.load(std::memory_order_acquire) != 0) {
    const std::vector<int> pair = world({me_, m.peer});
    throw DistError(
        {Reason::Disagree, pair,
         format("ranks disagree in a message; r%d sends %s%s, %s", pair[0],
                described(m.span.n, m.span.t).c_str(), tycho::at(m.line).c_str(), e.ring->why)});
  }
  const int64_t before = m.moved;
  constexpr int64_t kHead = sizeof(Header);
  if (m.moved == 0) {
    const Header h{m.tag, static_cast<uint32_t>(m.span.t), m.span.n};
    m.moved += write_ring(e, reinterpret_cast<const char*>(&h), kHead, true);
  }
  if (m.moved >= kHead)
    m.moved += write_ring(e, static_cast<const char*>(m.span.p) + (m.moved - kHead),
                          static_cast<size_t>(m.span.bytes() + kHead - m.moved), false);
  m.done = m.moved == m.span.bytes() + kHead;
  if (m.moved == before) return false;
  ring(m.peer);
  return true;
}

void Shm::check(const Header& h, const Message& m, int from) {
  if (h.n == m.span.n && h.dtype == static_cast<uint32_t>(m.span.t)) return;
  const std::vector<int> pair = world({from, me_});
  const std::string expects =
      format("r%d expects %s%s", pair[1], described(m.span.n, m.span.t).c_str(),
             tycho::at(m.line).c_str());
  shm::Ring& r = *ends(in_, from, me_).ring;
  const size_t n = std::min(expects.size(), shm::kText - 1);
  copy_bytes(r.why, expects.data(), n);
  r.why[n] = 0;
  r.refused.store(1, std::memory_order_release);
  ring(from);
  throw DistError({Reason::Disagree, pair,
                   format("ranks disagree in a message; r%d sends %s, %s", pair[0],
                          described(h.n, static_cast<DType>(h.dtype)).c_str(), expects.c_str())});
}

bool Shm::take_early(Message& m) {
  for (int r = 0; r < n_; ++r) {
    if (r == me_ || (m.peer >= 0 && m.peer != r)) continue;
    auto& early = incoming_[static_cast<size_t>(r)].early;
    const auto it = std::find_if(early.begin(), early.end(),
                                 [&](const auto& e) { return e->header.tag == m.tag; });
    if (it == early.end()) continue;
    // The last one may still be coming: then it comes here.
    Incoming& in = incoming_[static_cast<size_t>(r)];
    check((*it)->header, m, r);
    m.peer = r;
    const bool coming = in.header && !in.target && std::next(it) == early.end();
    const size_t there = coming ? static_cast<size_t>(in.got) : (*it)->bytes.size();
    copy_bytes(m.span.p, (*it)->bytes.data(), there);
    m.moved = static_cast<int64_t>(there);
    if (coming)
      in.target = &m;
    else
      m.done = true;
    early.erase(it);
    return true;
  }
  return false;
}

// Moves what has come from one rank.
bool Shm::pull(int from, const std::vector<Message*>& open) {
  Incoming& in = incoming_[static_cast<size_t>(from)];
  Ends& e = ends(in_, from, me_);
  bool moved = false;
  for (;;) {
    if (!in.header) {
      const auto wants = [&](const Message* m) {
        return !m->send && !m->done && (m->peer < 0 || m->peer == from);
      };
      if (std::none_of(open.begin(), open.end(), wants)) break;
      Header h;
      if (read_ring(e, reinterpret_cast<char*>(&h), sizeof h, true) == 0) break;
      const auto it = std::find_if(open.begin(), open.end(), [&](const Message* m) {
        return wants(m) && m->moved == 0 && m->tag == h.tag;
      });
      in.got = 0;
      in.target = nullptr;
      if (it != open.end()) {
        check(h, **it, from);
        in.target = *it;
        in.target->peer = from;
      } else {
        in.early.push_back(std::make_shared<Early>());
        in.early.back()->header = h;
        in.early.back()->bytes.resize(
            static_cast<size_t>(h.n * dtype_size(static_cast<DType>(h.dtype))));
      }
      in.header = h;
      moved = true;
    }
    const int64_t bytes = in.header->n * dtype_size(static_cast<DType>(in.header->dtype));
    char* to = in.target ? static_cast<char*>(in.target->span.p) : in.early.back()->bytes.data();
    const auto m =
        static_cast<int64_t>(read_ring(e, to + in.got, static_cast<size_t>(bytes - in.got), false));
    in.got += m;
    if (in.target) in.target->moved = in.got;
    moved |= m > 0;
    if (in.got < bytes) break;
    if (in.target) in.target->done = true;
    in.header.reset();
    in.target = nullptr;
  }
  if (moved) ring(from);
  return moved;
}

bool Shm::poll_messages(const std::vector<Message*>& open) {
  bell_seen_ = page(me_).bell.load(std::memory_order_seq_cst);
  bool moved = false;
  for (size_t i = 0; i < open.size(); ++i) {
    Message& m = *open[i];
    if (m.done) continue;
    if (!m.send) {
      if (m.moved == 0) moved |= take_early(m);
      continue;
    }
    // Messages to one rank go in order.
    const bool first =
        std::none_of(open.begin(), open.begin() + static_cast<int64_t>(i),
                     [&](const Message* o) { return o->send && !o->done && o->peer == m.peer; });
    if (first) moved |= push(m);
  }
  for (int r = 0; r < n_; ++r)
    if (r != me_) moved |= pull(r, open);
  return moved;
}

void Shm::wait_for_messages(Seconds at_most) {
  shm::RankPage& p = page(me_);
  if (std::this_thread::get_id() == maker_)
    for (int i = 0; i < spins_; ++i) {
      if (p.bell.load(std::memory_order_seq_cst) != bell_seen_) return;
      __builtin_ia32_pause();
    }
  if (at_most.count() <= 0) return;
  p.waits.fetch_add(1, std::memory_order_seq_cst);
  shm::sleep_on(p.bell, bell_seen_);
  p.waits.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace tycho::dist
