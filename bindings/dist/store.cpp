// Keys and values that processes share, as a Lua value.
#include "bindings/dist/store.h"

#include <new>

#include "bindings/tools/check.h"
#include "engine/dist/env.h"
#include "engine/dist/server.h"
#include "engine/dist/socket.h"

namespace tycho::lua {
namespace {

const char kStore[] = "tycho.store";

struct Held {
  std::shared_ptr<dist::Server> server;  // before the store: it ends after it
  std::shared_ptr<dist::Store> store;
  std::string address, token;
  ~Held() {
    store.reset();
    if (!server) return;
    // A job that has met here goes on until all of it have said goodbye.
    try {
      server->wait_for_goodbyes(dist::Seconds(30));
    } catch (const Error&) {
    }
  }
};

Held& held(lua_State* L, int i, const char* who) {
  auto* const h = static_cast<Held*>(luaL_testudata(L, i, kStore));
  TYCHO_CHECK(Kind::Argument, h, "%s: wants a store, not %s", who, luaL_typename(L, i));
  return *h;
}

dist::Store& store(lua_State* L, const char* who) { return *held(L, 1, who).store; }

std::string text(lua_State* L, int i, const char* who) {
  return std::string(check_text(L, i, who));
}

int push(lua_State* L, const std::string& s) {
  lua_pushlstring(L, s.data(), s.size());
  return 1;
}

Held& push_held(lua_State* L) {
  auto* const h = new (lua_newuserdatauv(L, sizeof(Held), 0)) Held;
  luaL_setmetatable(L, kStore);
  return *h;
}

// tcp(host, port, is_master, timeout) -> store, port
int tcp(lua_State* L) {
  const std::string host = text(L, 1, "TCPStore");
  const int64_t port = check_integer(L, 2, "TCPStore");
  const bool serves = lua_toboolean(L, 3);
  const double timeout = check_number(L, 4, "TCPStore");
  TYCHO_CHECK(Kind::Value, port >= (serves ? 0 : 1) && port <= 65535,
              "TCPStore: port %lld; ports are 1 to 65535%s", static_cast<long long>(port),
              serves ? ", and 0 takes a free one" : "");
  dist::Told told;
  told.rank = serves ? 0 : 1;
  told.world_size = 2;
  // A free port is known to this machine only, so far.
  told.init_method =
      "tcp://" + dist::to_string(dist::Address{host, port > 0 ? static_cast<int>(port) : 1});
  dist::Env env = dist::find_env(told);
  env.init_timeout = dist::Seconds(timeout);
  const double until = dist::now() + timeout;
  Held& h = push_held(L);
  if (serves) {
    dist::ServerOptions o;
    o.host = env.bind;
    o.port = static_cast<int>(port);
    o.name = host;
    o.token = env.token;
    h.server = dist::Server::start(o);
    env.address = h.server->address();
    env.token = h.server->token();
  } else {
    dist::find_server(env, until);
  }
  dist::StoreOptions o;
  o.until = until;
  o.asked = timeout;
  h.store = dist::connect_store(env.address, env.token, o);
  h.address = env.address;
  h.token = env.token;
  lua_pushinteger(L, dist::parse_address(env.address).port);
  return 2;
}

int hash(lua_State* L) {
  push_held(L).store = dist::local_store();
  return 1;
}

// prefix(text, store)
int prefix(lua_State* L) {
  std::string before = text(L, 1, "PrefixStore");
  const Held& inner = held(L, 2, "PrefixStore");
  Held& h = push_held(L);
  h.server = inner.server;
  h.store = dist::prefix_store(std::move(before) + "/", inner.store);
  return 1;
}

int set(lua_State* L) {
  store(L, "set").set(text(L, 2, "set"), text(L, 3, "set"));
  return 0;
}

int append(lua_State* L) {
  store(L, "append").append(text(L, 2, "append"), text(L, 3, "append"));
  return 0;
}

// get(key, timeout)
int get(lua_State* L) {
  return push(L, store(L, "get").get(text(L, 2, "get"), dist::Seconds(check_number(L, 3, "get"))));
}

// try_get(key) -> value or nil
int try_get(lua_State* L) {
  const auto value = store(L, "get").try_get(text(L, 2, "get"));
  if (value) return push(L, *value);
  lua_pushnil(L);
  return 1;
}

int add(lua_State* L) {
  lua_pushinteger(L, store(L, "add").add(text(L, 2, "add"), check_integer(L, 3, "add")));
  return 1;
}

int compare_set(lua_State* L) {
  constexpr char kWho[] = "compare_set";
  return push(L, store(L, kWho).compare_set(text(L, 2, kWho), text(L, 3, kWho), text(L, 4, kWho)));
}

int delete_key(lua_State* L) {
  lua_pushboolean(L, store(L, "delete_key").delete_key(text(L, 2, "delete_key")));
  return 1;
}

int num_keys(lua_State* L) {
  lua_pushinteger(L, store(L, "num_keys").num_keys());
  return 1;
}

int collect(lua_State* L) {
  static_cast<Held*>(lua_touserdata(L, 1))->~Held();
  return 0;
}

}  // namespace

bool store_server(lua_State* L, int i, std::string* address, std::string* token) {
  const auto* const h = static_cast<Held*>(luaL_testudata(L, i, kStore));
  if (!h || h->address.empty()) return false;
  *address = h->address;
  *token = h->token;
  return true;
}

void open_store(lua_State* L, int torch) {
  static const luaL_Reg methods[] = {{"set", guarded<set>},
                                     {"append", guarded<append>},
                                     {"get", guarded<get>},
                                     {"try_get", guarded<try_get>},
                                     {"add", guarded<add>},
                                     {"compare_set", guarded<compare_set>},
                                     {"delete_key", guarded<delete_key>},
                                     {"num_keys", guarded<num_keys>},
                                     {nullptr, nullptr}};
  static const luaL_Reg makers[] = {{"tcp", guarded<tcp>},
                                    {"hash", guarded<hash>},
                                    {"prefix", guarded<prefix>},
                                    {nullptr, nullptr}};
  luaL_newmetatable(L, kStore);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_newlib(L, makers);
  lua_setfield(L, torch, "_store");
}

}  // namespace tycho::lua
