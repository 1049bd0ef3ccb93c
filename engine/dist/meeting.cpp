// Joining and ending.
#include "engine/dist/meeting.h"

#include <algorithm>

namespace tycho::dist {

Meeting::Meeting(Sender& out, int world_size, int served_by)
    : out_(out),
      fixed_world_(world_size > 0),
      served_by_(served_by),
      members_(static_cast<size_t>(std::max(0, world_size))),
      agreement_(out, [this](int rank) { return how_ended(rank); }) {}

std::string Meeting::name(int rank) const {
  const Member& m = members_[static_cast<size_t>(rank)];
  return format("rank %d (pid %lld on %s)", rank, static_cast<long long>(m.pid), m.host.c_str());
}

Failure Meeting::how_ended(int rank) const {
  if (rank < 0 || rank >= static_cast<int>(members_.size())) return {};
  const Member& m = members_[static_cast<size_t>(rank)];
  if (m.state == State::Left) return {Reason::Left, {rank}, m.said};
  if (m.state == State::Dead) return {Reason::Died, {rank}, m.said};
  return {};
}

std::vector<int> Meeting::with_state(State state) const {
  std::vector<int> out;
  for (size_t r = 0; r < members_.size(); ++r)
    if (members_[r].state == state) out.push_back(static_cast<int>(r));
  return out;
}

void Meeting::refuse(ConnId who, const Failure& why) {
  Writer w(Msg::Refused);
  out_.send(who, write_failure(w, why));
  out_.end(who);
}

void Meeting::join(ConnId from, Reader body, double now) {
  const std::string_view whole = body.rest();
  const int rank = body.i32(), world = body.i32();
  Member m{State::Here,      from,       body.i64(), body.string(), body.string(),
           now + body.f64(), body.f64(), {}};
  if (world < 1 || world > 1 << 20) throw BadFrame{};
  if (members_.empty()) members_.resize(static_cast<size_t>(world));
  if (world != static_cast<int>(members_.size()))
    return refuse(from, {Reason::Refused,
                         {rank},
                         format("rank %d says that the world has %d ranks, the others say %zu",
                                rank, world, members_.size())});
  if (rank < 0 || rank >= world)
    return refuse(
        from, {Reason::Refused,
               {rank},
               format("there is no rank %d in a world of %d: ranks count from 0", rank, world)});
  Member& place = members_[static_cast<size_t>(rank)];
  if (place.state == State::Here || place.state == State::Out)
    return refuse(from, {Reason::Refused, {rank}, "there is already " + name(rank)});
  if (place.state != State::Absent) {
    // This one has ended; it comes for the next session, which begins when all have.
    if (failure_.reason != Reason::None && !complete_) return refuse(from, failure_);
    parked_.push_back({from, std::string(whole), m.until});
    return;
  }
  if (failure_.reason != Reason::None) return refuse(from, failure_);
  place = std::move(m);
  rank_of_[from] = rank;
  ++present_;
  if (with_state(State::Here).size() == members_.size()) welcome();
}

void Meeting::welcome() {
  complete_ = true;
  std::vector<std::pair<std::string, std::string>> machines;
  std::vector<uint32_t> at;
  for (const Member& m : members_) {
    const std::pair key(m.host, m.machine);
    const auto it = std::find(machines.begin(), machines.end(), key);
    at.push_back(static_cast<uint32_t>(it - machines.begin()));
    if (it == machines.end()) machines.push_back(key);
  }
  Writer w(Msg::Welcome);
  w.u32(session_).i32(served_by_).u32(static_cast<uint32_t>(machines.size()));
  for (const auto& [host, machine] : machines) w.text(host).text(machine);
  w.u32(static_cast<uint32_t>(members_.size()));
  for (size_t r = 0; r < members_.size(); ++r) w.u32(at[r]).i64(members_[r].pid);
  for (const Member& m : members_) out_.send(m.watch, w);
}

void Meeting::next_session(double now) {
  if (present_ > 0 || members_.empty() || !with_state(State::Absent).empty()) return;
  ++session_;
  generation_ = 0;
  complete_ = false;
  failure_ = {};
  agreement_.fail_all({Reason::Left, {}, "the session is over"});
  open_questions_.clear();
  said_.clear();
  regroup_.clear();
  const size_t n = members_.size();
  members_.clear();
  members_.resize(fixed_world_ ? n : 0);
  const std::vector<Parked> list = std::move(parked_);
  parked_.clear();
  for (const Parked& p : list) join(p.conn, Reader(p.body), now);
}

void Meeting::close() {
  Writer w(Msg::Again);
  for (const Parked& p : parked_) out_.send(p.conn, w);
}

bool Meeting::handle(ConnId from, Msg msg, Reader& body, double now) {
  const auto it = rank_of_.find(from);
  if (it == rank_of_.end()) return false;
  const int rank = it->second;
  switch (msg) {
    case Msg::Bye:
      left(rank, body);
      next_session(now);
      return true;
    case Msg::Report: {
      const uint32_t generation = body.u32();
      const Failure f = read_failure(body);
      const bool here = members_[static_cast<size_t>(rank)].state == State::Here;
      if (here && generation == generation_) fail(f);
      return true;
    }
    case Msg::Late:
      return late(rank, body, now), true;
    case Msg::Doing: {
      const uint32_t id = body.u32();
      const auto q = open_questions_.find(id);
      if (q == open_questions_.end()) return true;
      for (auto& [r, text] : q->second.answers)
        if (r == rank && text.empty()) {
          text = body.string();
          --q->second.open;
        }
      if (q->second.open == 0) say(id);
      return true;
    }
    case Msg::Shrink:
      return shrink(rank, body, now), true;
    default:
      throw BadFrame{};
  }
}

void Meeting::announce(ConnId from, int rank, uint32_t session, Reader body, double now) {
  const uint32_t request = body.u32(), generation = body.u32();
  const auto refuse = [&](const Failure& why) {
    Writer w = reply(request, Answer::Failed);
    out_.send(from, write_failure(w, why));
  };
  if (session != session_ || rank < 0 || rank >= static_cast<int>(members_.size()) ||
      members_[static_cast<size_t>(rank)].state != State::Here)
    return refuse({Reason::Refused, {rank}, format("rank %d is not in this session", rank)});
  if (failure_.reason != Reason::None) return refuse(failure_);
  if (generation != generation_)
    return refuse({Reason::Refused, {rank}, "the others have regrouped without this rank"});
  agreement_.announce(from, request, rank, static_cast<int>(members_.size()), body, now);
}

void Meeting::ended(ConnId who, const std::string& how) {
  agreement_.gone(who);
  std::erase_if(parked_, [&](const Parked& p) { return p.conn == who; });
  std::erase_if(open_questions_, [&](const auto& q) { return q.second.asker == who; });
  const auto it = rank_of_.find(who);
  if (it == rank_of_.end()) return;
  const int rank = it->second;
  rank_of_.erase(it);
  Member& m = members_[static_cast<size_t>(rank)];
  if (m.state == State::Here || m.state == State::Out) --present_;
  if (m.state == State::Here) died(rank, how);
  if (m.state == State::Out) m.state = State::Dead;
}

void Meeting::died(int rank, const std::string& how) {
  Member& m = members_[static_cast<size_t>(rank)];
  m.state = State::Dead;
  if (first_gone_ < 0) first_gone_ = rank;
  m.said = name(rank) + " died" + how;
  fail({Reason::Died, {rank}, m.said});
  try_regroup();
}

void Meeting::left(int rank, Reader& body) {
  Member& m = members_[static_cast<size_t>(rank)];
  const uint32_t last = body.u32();
  const std::string error = body.string();
  const bool was_out = m.state == State::Out;
  m.state = State::Left;
  if (first_gone_ < 0) first_gone_ = rank;
  --present_;
  rank_of_.erase(m.watch);
  out_.end(m.watch);
  const std::string after =
      last > 0 ? format("after collective %u", last) : "before any collective";
  if (!error.empty())
    m.said = format("rank %d ended %s with an error: %s", rank, after.c_str(), error.c_str());
  else
    m.said = format("rank %d left %s: fewer batches? see join", rank, after.c_str());
  const Failure why{Reason::Left, {rank}, m.said};
  if (!complete_)
    return fail({Reason::Left, {rank}, format("rank %d left before all had come", rank)});
  if (was_out) return;
  agreement_.lost(rank, why);
  Writer w(Msg::Left);
  w.i32(rank).text(m.said);
  for (const Member& other : members_)
    if (other.state == State::Here) out_.send(other.watch, w);
  try_regroup();
}

void Meeting::fail(const Failure& why) {
  const bool first = failure_.reason == Reason::None;
  if (first) failure_ = why;
  agreement_.fail_all(why);
  // Before all are here, they are still asking to join.
  Writer w(complete_ ? Msg::Failed : Msg::Refused);
  if (complete_) w.u32(generation_);
  write_failure(w, why);
  for (const Member& m : members_)
    if (m.state == State::Here) out_.send(m.watch, w);
  if (complete_) return;
  for (Member& m : members_) {
    if (m.state != State::Here) continue;
    out_.end(m.watch);
    rank_of_.erase(m.watch);
    m.state = State::Dead;
    m.said = failure_.text;
    --present_;
  }
}

}  // namespace tycho::dist
