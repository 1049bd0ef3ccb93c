// What goes on in a meeting: who is late and where it is, timeouts, and the next generation.
#include <algorithm>
#include <limits>

#include "engine/dist/meeting.h"

namespace tycho::dist {

constexpr size_t kShown = 8;  // of those who are late

void Meeting::late(int rank, Reader& body, double now) {
  const uint32_t group = body.u32(), seq = body.u32();
  std::vector<int> missing = body.list();
  const std::string head = body.string();
  const int times = static_cast<int>(body.u32());
  // All who wait ask; the first one is told, and then nobody until they have waited twice as long.
  if (said_.size() > 1000) said_.clear();
  int& said = said_[{group, seq}];
  if (times <= said) return;
  said = times;
  if (missing.empty()) missing = agreement_.missing(group, seq);
  if (missing.empty()) return;
  const uint32_t id = ++questions_;
  Question& q = open_questions_[id];
  q.asker = members_[static_cast<size_t>(rank)].watch;
  q.until = now + 1;
  q.head = head + " for " + ranks_text(missing);
  Writer ask(Msg::Where);
  ask.u32(id);
  for (const int r : missing) {
    if (r < 0 || r >= static_cast<int>(members_.size()) || q.answers.size() == kShown) continue;
    const bool here = members_[static_cast<size_t>(r)].state == State::Here;
    q.answers.emplace_back(r, here ? "" : "has ended");
    if (!here) continue;
    ++q.open;
    out_.send(members_[static_cast<size_t>(r)].watch, ask);
  }
  if (q.open == 0) say(id);
}

void Meeting::say(uint32_t id) {
  const auto it = open_questions_.find(id);
  const Question& q = it->second;
  std::string text = q.head;
  for (const auto& [r, answer] : q.answers)
    text += "\n   " + name(r) + ": " +
            (answer.empty() ? "does not answer; is it stopped?" : answer.c_str());
  Writer w(Msg::Say);
  w.text(text);
  out_.send(q.asker, w);
  open_questions_.erase(it);
}

void Meeting::tick(double now) {
  agreement_.tick(now);
  for (auto it = open_questions_.begin(); it != open_questions_.end();) {
    const uint32_t id = it->first;
    const bool due = it->second.until <= now;
    ++it;
    if (due) say(id);
  }
  if (!complete_ && failure_.reason == Reason::None) {
    const auto waited = std::find_if(members_.begin(), members_.end(), [&](const Member& m) {
      return m.state == State::Here && m.until <= now;
    });
    if (waited != members_.end()) {
      const std::vector<int> missing = with_state(State::Absent);
      fail({Reason::Timeout, missing,
            format("%s of %zu did not come within %g s", ranks_text(missing).c_str(),
                   members_.size(), waited->seconds)});
    }
  }
  for (const Parked& p : std::vector<Parked>(parked_)) {
    if (p.until > now) continue;
    std::erase_if(parked_, [&](const Parked& q) { return q.conn == p.conn; });
    const std::vector<int> stay = with_state(State::Here);
    refuse(p.conn,
           {Reason::Timeout, stay, ranks_text(stay) + " of the job before did not end in time"});
  }
  const auto waited = std::find_if(regroup_.begin(), regroup_.end(),
                                   [&](const auto& r) { return r.second.until <= now; });
  if (waited == regroup_.end()) return;
  std::vector<int> missing;
  for (const int r : waited->second.stay)
    if (!regroup_.count(r)) missing.push_back(r);
  no_regroup({Reason::Timeout, missing,
              format("%s did not ask to go on without the others within %g s",
                     ranks_text(missing).c_str(), waited->second.seconds)});
}

double Meeting::next_tick() const {
  double next = agreement_.next_tick();
  for (const auto& [id, q] : open_questions_) next = std::min(next, q.until);
  if (!complete_ && failure_.reason == Reason::None)
    for (const Member& m : members_)
      if (m.state == State::Here) next = std::min(next, m.until);
  for (const Parked& p : parked_) next = std::min(next, p.until);
  for (const auto& [rank, r] : regroup_) next = std::min(next, r.until);
  return next;
}

void Meeting::shrink(int rank, Reader& body, double now) {
  const uint32_t generation = body.u32();
  const std::vector<int> leave = body.list();
  Regroup r{members_[static_cast<size_t>(rank)].watch, {}, 0, body.f64()};
  r.until = now + r.seconds;
  if (members_[static_cast<size_t>(rank)].state != State::Here || generation != generation_) {
    Writer w(Msg::NotRegrouped);
    out_.send(r.conn, write_failure(w, {Reason::Refused,
                                        {rank},
                                        format("rank %d was left out by the others", rank)}));
    return;
  }
  for (const int s : with_state(State::Here))
    if (std::find(leave.begin(), leave.end(), s) == leave.end()) r.stay.push_back(s);
  regroup_[rank] = std::move(r);
  try_regroup();
}

void Meeting::try_regroup() {
  if (regroup_.empty()) return;
  for (auto& [rank, r] : regroup_)
    std::erase_if(r.stay,
                  [&](int s) { return members_[static_cast<size_t>(s)].state != State::Here; });
  std::erase_if(regroup_, [&](const auto& r) {
    return members_[static_cast<size_t>(r.first)].state != State::Here;
  });
  if (regroup_.empty()) return;
  const std::vector<int> stay = regroup_.begin()->second.stay;
  for (const auto& [rank, r] : regroup_) {
    if (r.stay == stay && std::find(stay.begin(), stay.end(), rank) != stay.end()) continue;
    return no_regroup({Reason::Disagree,
                       {rank},
                       format("ranks disagree about who goes on: rank %d with %s, rank %d with %s",
                              regroup_.begin()->first, ranks_text(stay).c_str(), rank,
                              ranks_text(r.stay).c_str())});
  }
  if (regroup_.size() != stay.size()) return;
  agreement_.fail_all({Reason::Refused, {}, "the others have gone on without this rank"});
  ++generation_;
  for (const int r : with_state(State::Here)) {
    if (std::find(stay.begin(), stay.end(), r) != stay.end()) continue;
    Member& m = members_[static_cast<size_t>(r)];
    m.state = State::Out;
    m.said = format("rank %d was left out by the others", r);
    Writer w(Msg::Failed);
    w.u32(generation_ - 1);
    out_.send(m.watch, write_failure(w, {Reason::Refused, {r}, m.said}));
  }
  failure_ = {};
  said_.clear();
  regroup_.clear();
  Writer w(Msg::Regrouped);
  w.u32(generation_).list(stay);
  for (const int r : stay) out_.send(members_[static_cast<size_t>(r)].watch, w);
}

void Meeting::no_regroup(const Failure& why) {
  Writer w(Msg::NotRegrouped);
  write_failure(w, why);
  for (const auto& [rank, r] : regroup_) out_.send(r.conn, w);
  regroup_.clear();
}

}  // namespace tycho::dist
