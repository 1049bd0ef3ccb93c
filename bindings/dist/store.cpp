// Stores as Lua values, and the barrier that says who is missing, which needs one.
#include "bindings/dist/store.h"

#include <new>

#include "bindings/dist/dist.h"
#include "bindings/tools/check.h"
#include "engine/dist/server.h"
#include "engine/dist/socket.h"

namespace tycho::lua {
namespace {

const char kStore[] = "tycho.store";

void push_store(lua_State* L, StoreBox box) {
  new (lua_newuserdatauv(L, sizeof(StoreBox), 0)) StoreBox(std::move(box));
  luaL_setmetatable(L, kStore);
}
dist::Store& store_at(lua_State* L) {
  return *static_cast<StoreBox*>(luaL_checkudata(L, 1, kStore))->store;
}
std::string text_at(lua_State* L, int i) { return std::string(check_text(L, i, "Store")); }
int push_text(lua_State* L, const std::string& s) {
  lua_pushlstring(L, s.data(), s.size());
  return 1;
}

int set(lua_State* L) {
  store_at(L).set(text_at(L, 2), text_at(L, 3));
  return 0;
}
int get(lua_State* L) {
  return push_text(L, store_at(L).get(text_at(L, 2), dist::Seconds(check_number(L, 3, "Store"))));
}
int try_get(lua_State* L) {
  const auto value = store_at(L).try_get(text_at(L, 2));
  return value ? push_text(L, *value) : 0;
}
int add(lua_State* L) {
  lua_pushinteger(L, store_at(L).add(text_at(L, 2), check_integer(L, 3, "Store")));
  return 1;
}
int compare_set(lua_State* L) {
  return push_text(L, store_at(L).compare_set(text_at(L, 2), text_at(L, 3), text_at(L, 4)));
}
int delete_key(lua_State* L) {
  lua_pushboolean(L, store_at(L).delete_key(text_at(L, 2)));
  return 1;
}
int num_keys(lua_State* L) {
  lua_pushinteger(L, store_at(L).num_keys());
  return 1;
}
int drop(lua_State* L) {
  static_cast<StoreBox*>(lua_touserdata(L, 1))->~StoreBox();
  return 0;
}

// tcp_store(host, port, serves, timeout) -> store, host, port
int tcp_store(lua_State* L) {
  const std::string host(check_text(L, 1, "TCPStore"));
  const int port = static_cast<int>(check_integer(L, 2, "TCPStore"));
  const bool serves = lua_toboolean(L, 3);
  const double timeout = check_number(L, 4, "TCPStore");
  StoreBox box;
  const char* const token = std::getenv("TYCHO_TOKEN");
  box.token = token ? token : "";
  box.address = dist::to_string(dist::Address{host, port});
  if (serves) {
    dist::ServerOptions o;
    o.host = dist::is_loopback(host) ? host : "";
    o.name = host;
    o.port = port;
    o.token = box.token;
    box.server = dist::Server::start(o);
    box.address = box.server->address();
    box.token = box.server->token();
  }
  dist::StoreOptions options;
  options.asked = timeout;
  options.until = dist::now() + timeout;
  box.store = dist::connect_store(box.address, box.token, options);
  const dist::Address at = dist::parse_address(box.address);
  push_store(L, std::move(box));
  push_text(L, at.host);
  lua_pushinteger(L, at.port);
  return 3;
}

int local_store(lua_State* L) {
  push_store(L, {dist::local_store(), nullptr, {}, {}});
  return 1;
}

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

StoreBox* to_store(lua_State* L, int i) {
  return static_cast<StoreBox*>(luaL_testudata(L, i, kStore));
}

void open_store(lua_State* L, int table) {
  luaL_newmetatable(L, kStore);
  static const luaL_Reg methods[] = {{"set", guarded<set>},
                                     {"get", guarded<get>},
                                     {"try_get", guarded<try_get>},
                                     {"add", guarded<add>},
                                     {"compare_set", guarded<compare_set>},
                                     {"delete_key", guarded<delete_key>},
                                     {"num_keys", guarded<num_keys>},
                                     {nullptr, nullptr}};
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, drop);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"tcp_store", guarded<tcp_store>},
                                       {"local_store", guarded<local_store>},
                                       {"monitored_barrier", guarded<monitored_barrier>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, table);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
