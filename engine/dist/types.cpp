// The names of collectives and failures, what ranks must agree in, and the table they see when they
// do not.
#include "engine/dist/types.h"

#include <algorithm>
#include <map>

#include "engine/base/hash.h"

namespace tycho::dist {

constinit thread_local const char* asks_for = nullptr;

const char* verb_name(Verb verb) {
  static constexpr const char* kNames[] = {"all_reduce", "broadcast",      "reduce",
                                           "all_gather", "reduce_scatter", "all_to_all",
                                           "gather",     "scatter",        "barrier"};
  return kNames[static_cast<int>(verb)];
}

const char* red_name(RedOp red) {
  static constexpr const char* kNames[] = {"sum", "avg",  "product", "min",
                                           "max", "band", "bor",     "bxor"};
  return kNames[static_cast<int>(red)];
}

const char* reason_name(Reason reason) {
  static constexpr const char* kNames[] = {"none", "died",     "left",    "timeout",
                                           "lost", "disagree", "refused", "system"};
  return kNames[static_cast<int>(reason)];
}

bool reduces(Verb verb) {
  return verb == Verb::AllReduce || verb == Verb::Reduce || verb == Verb::ReduceScatter;
}

uint64_t Desc::hash() const {
  // Without splits all_to_all's shares are equal, and so are the shapes; with them only the rest is.
  const bool split = verb == Verb::AllToAll && !send.empty();
  const int first = split ? 1 : 0;
  uint64_t h = hash_int(static_cast<uint64_t>(verb) | static_cast<uint64_t>(dtype) << 8 |
                        (reduces(verb) ? static_cast<uint64_t>(red) + 1 : 0) << 16 |
                        static_cast<uint64_t>(split) << 24 |
                        static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32);
  h = hash_int(static_cast<uint64_t>(group) << 32 | seq, h);
  h = hash_int(static_cast<uint64_t>(shape.size()), h);
  for (int i = first; i < shape.size(); ++i) h = hash_int(static_cast<uint64_t>(shape[i]), h);
  return h;
}

std::string Desc::text() const {
  std::string s = verb_name(verb);
  if (verb == Verb::Barrier) return s;
  if (reduces(verb)) s += std::string(" ") + red_name(red);
  s += std::string(" ") + dtype_name(dtype) + " " + to_string(shape);
  if (root >= 0) s += " root " + std::to_string(root);
  if (verb == Verb::AllToAll && !send.empty()) s += " in splits";
  if (of) s += std::string(" of ") + of;
  return s;
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]);
  const size_t n = ranks.size();
  if (n > 3 && ranks.back() - ranks.front() == static_cast<int>(n) - 1 &&
      std::is_sorted(ranks.begin(), ranks.end()))
    return format("ranks %d to %d", ranks.front(), ranks.back());
  constexpr size_t kMost = 16;
  std::string s = "ranks ";
  for (size_t i = 0; i < n; ++i) {
    if (i == kMost) return s + format(" and %zu more", n - kMost);
    if (i > 0) s += i + 1 == n ? " and " : ", ";
    s += std::to_string(ranks[i]);
  }
  return s;
}

namespace {
std::string group_name(uint32_t group) {
  return group == 0 ? "the world" : format("group %u", group);
}
}  // namespace

Failure split_disagreement(const Desc& desc, int from, int to, int64_t sends, int64_t expects) {
  return {Reason::Disagree,
          {from, to},
          format("ranks disagree in collective %u of %s; nothing was sent\n"
                 "   r%d  all_to_all %s sends %lld elements to r%d\n"
                 "   r%d  all_to_all %s expects %lld from r%d",
                 desc.seq, group_name(desc.group).c_str(), from, dtype_name(desc.dtype),
                 static_cast<long long>(sends), to, to, dtype_name(desc.dtype),
                 static_cast<long long>(expects), from)};
}

Failure disagreement(uint32_t group, uint32_t seq, const std::vector<Asked>& asked) {
  std::map<uint64_t, int> counts;
  for (const Asked& a : asked) ++counts[a.hash];
  uint64_t most = 0;
  int best = 0;
  bool tie = false;
  for (const auto& [hash, n] : counts) {
    tie = n == best || (tie && n < best);
    if (n > best) best = n, most = hash;
  }
  size_t width = 0, rank_width = 0;
  for (const Asked& a : asked) {
    width = std::max(width, a.text.size());
    rank_width = std::max(rank_width, std::to_string(a.rank).size());
  }
  Failure f{Reason::Disagree, {}, {}};
  f.text = format("ranks disagree in collective %u of %s; nothing was sent", seq,
                  group_name(group).c_str());
  // Of many ranks, those who agree fill one row.
  constexpr size_t kRows = 16;
  std::vector<const Asked*> rows;
  for (const Asked& a : asked) {
    if (tie || a.hash != most) f.ranks.push_back(a.rank);
    const bool shown =
        asked.size() <= kRows || std::none_of(rows.begin(), rows.end(), [&](const Asked* r) {
          return r->hash == a.hash && r->line == a.line;
        });
    if (shown && rows.size() < kRows) rows.push_back(&a);
  }
  for (const Asked* a : rows) {
    const auto same = std::count_if(asked.begin(), asked.end(), [&](const Asked& other) {
      return other.hash == a->hash && other.line == a->line;
    });
    f.text += format("\n   r%-*d  %-*s", static_cast<int>(rank_width), a->rank,
                     static_cast<int>(width), a->text.c_str());
    if (!a->line.empty()) f.text += "   " + a->line;
    if (asked.size() > kRows && same > 1) f.text += format("   and %d more", int(same) - 1);
    while (f.text.back() == ' ') f.text.pop_back();
  }
  return f;
}

}  // namespace tycho::dist
