// The barrier that says who is missing.
#include "bindings/dist/dist.h"
#include "bindings/tools/check.h"
#include "engine/dist/socket.h"

namespace tycho::lua {
namespace {

// monitored_barrier(group, timeout): the first rank looks who has come, and tells all.
int monitored_barrier(lua_State* L) {
  const dist::Group& g = *to_group(L, 1);
  const dist::Members& m = g.members();
  if (m.size() == 1) return 0;
  double timeout = check_number(L, 2, "monitored_barrier");
  if (timeout <= 0) timeout = m.job->env().timeout.count();
  const std::string prefix =
      "monitored/" + std::to_string(m.store->add("monitored/of" + std::to_string(m.rank), 1));
  const auto key = [&](int r) { return prefix + "/" + std::to_string(r); };
  std::string late;
  if (m.rank == 0) {
    const double until = dist::now() + timeout;
    std::vector<int> missing;
    for (int r = 1; r < m.size(); ++r) {
      try {
        m.store->get(key(r), dist::Seconds(std::max(0.0, until - dist::now())));
      } catch (const dist::DistError& e) {
        if (e.reason != dist::Reason::Timeout) throw;
        missing.push_back(m.ranks[static_cast<size_t>(r)]);
      }
    }
    for (const int r : missing) late += std::to_string(r) + " ";
    m.store->set(prefix + "/all", late);
  } else {
    m.store->set(key(m.rank), "1");
    late = m.store->get(prefix + "/all", dist::Seconds(timeout + 5));
  }
  if (late.empty()) return 0;
  std::vector<int> ranks;
  for (const char* p = late.c_str(); *p;) {
    char* end;
    ranks.push_back(static_cast<int>(std::strtol(p, &end, 10)));
    p = end + (*end == ' ');
  }
  dist::DistError e({dist::Reason::Timeout, ranks,
                     format("%s did not come to monitored_barrier%s within %g s",
                            dist::ranks_text(ranks).c_str(), at(here()).c_str(), timeout)});
  e.op = "monitored_barrier";
  throw e;
}

}  // namespace

void open_monitored(lua_State* L, int table) {
  lua_pushcfunction(L, guarded<monitored_barrier>);
  lua_setfield(L, table, "monitored_barrier");
}

}  // namespace tycho::lua
