// Counting announcements.
#include "engine/dist/agreement.h"

#include <algorithm>
#include <numeric>

namespace tycho::dist {

std::vector<int> Agreement::Pending::missing() const {
  std::vector<int> out;
  for (const int r : ranks)
    if (std::none_of(places.begin(), places.end(),
                     [&](const Place& p) { return p.asked.rank == r; }))
      out.push_back(r);
  return out;
}

void Agreement::fail(const Place& place, const Failure& why) {
  Writer w = reply(place.request, Answer::Failed);
  out_.send(place.conn, write_failure(w, why));
}

void Agreement::announce(ConnId from, uint32_t request, int rank, int world, Reader body,
                         double now) {
  Place p{from, request, 0, body.f64(), {}};
  p.until = now + p.seconds;
  const uint32_t group = body.u32(), seq = body.u32();
  const Key key(group, seq);
  p.asked.rank = rank;
  p.asked.hash = body.u64();
  p.asked.text = body.string();
  p.asked.line = body.string();
  std::vector<int> ranks = body.list();
  Pending& pending = pending_[key];
  if (pending.places.empty()) {
    pending.whole = ranks.empty();
    if (ranks.empty()) {
      ranks.resize(static_cast<size_t>(world));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    pending.ranks = std::move(ranks);
    pending.places.reserve(pending.ranks.size());
  } else if (ranks.empty() ? !pending.whole : ranks != pending.ranks) {
    return fail(p, {Reason::Disagree,
                    {rank},
                    format("group %u: rank %d names other members than the rest", group, rank)});
  }
  next_ = std::min(next_, p.until);
  pending.places.push_back(std::move(p));
  if (pending.places.size() == pending.ranks.size()) {
    finish(key, pending);
    pending_.erase(key);
    return;
  }
  // Members that have ended will not come any more.
  for (const int r : pending.places.size() == 1 ? pending.ranks : std::vector<int>{}) {
    const Failure f = ended_(r);
    if (f.reason != Reason::None) return lost(r, f);
  }
}

void Agreement::finish(const Key& key, Pending& pending) {
  auto& all = pending.places;
  const uint64_t first = all.front().asked.hash;
  if (std::all_of(all.begin(), all.end(), [&](const Place& p) { return p.asked.hash == first; })) {
    for (const Place& p : all) {
      Writer w = reply(p.request, Answer::Ok);
      out_.send(p.conn, w);
    }
    return;
  }
  std::sort(all.begin(), all.end(),
            [](const Place& a, const Place& b) { return a.asked.rank < b.asked.rank; });
  std::vector<Asked> asked;
  for (const Place& p : all) asked.push_back(p.asked);
  const Failure why = disagreement(key.first, key.second, asked);
  for (const Place& p : all) fail(p, why);
}

void Agreement::lost(int rank, const Failure& why) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    const std::vector<int> missing = it->second.missing();
    if (std::find(missing.begin(), missing.end(), rank) == missing.end()) {
      ++it;
      continue;
    }
    for (const Place& p : it->second.places) fail(p, why);
    it = pending_.erase(it);
  }
}

void Agreement::fail_all(const Failure& why) {
  for (const auto& [key, pending] : pending_)
    for (const Place& p : pending.places) fail(p, why);
  pending_.clear();
}

void Agreement::gone(ConnId who) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    std::erase_if(it->second.places, [&](const Place& p) { return p.conn == who; });
    it = it->second.places.empty() ? pending_.erase(it) : std::next(it);
  }
}

void Agreement::cancel(ConnId who, uint32_t request) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    std::erase_if(it->second.places,
                  [&](const Place& p) { return p.conn == who && p.request == request; });
    it = it->second.places.empty() ? pending_.erase(it) : std::next(it);
  }
}

void Agreement::tick(double now) {
  if (now < next_) return;
  next_ = std::numeric_limits<double>::infinity();
  for (auto it = pending_.begin(); it != pending_.end();) {
    const Pending& pending = it->second;
    const Place* late = nullptr;
    double next = next_;
    for (const Place& p : pending.places) {
      if (p.until <= now && !late) late = &p;
      next = std::min(next, p.until);
    }
    if (!late) {
      next_ = next;
      ++it;
      continue;
    }
    const std::vector<int> missing = pending.missing();
    const Failure why{
        Reason::Timeout, missing,
        format("%s did not come to collective %u within %g s (%s%s%s)", ranks_text(missing).c_str(),
               it->first.second, late->seconds, late->asked.text.c_str(),
               late->asked.line.empty() ? "" : " at ", late->asked.line.c_str())};
    for (const Place& p : pending.places) fail(p, why);
    it = pending_.erase(it);
  }
}

std::vector<int> Agreement::missing(uint32_t group, uint32_t seq) const {
  const auto it = pending_.find({group, seq});
  return it == pending_.end() ? std::vector<int>{} : it->second.missing();
}

}  // namespace tycho::dist
