// Collectives as Lua functions of the op table, works that one can wait for, and messages.
#include <cstring>
#include <new>

#include "bindings/dist/dist.h"
#include "bindings/tools/check.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

const char kWork[] = "tycho.work";

void push_work(lua_State* L, const Ref<dist::Work>& w) {
  new (lua_newuserdatauv(L, sizeof(Ref<dist::Work>), 0)) Ref<dist::Work>(w);
  luaL_setmetatable(L, kWork);
}
dist::Work& work_at(lua_State* L, int i) {
  auto* const box = static_cast<Ref<dist::Work>*>(luaL_testudata(L, i, kWork));
  TYCHO_CHECK(Kind::Argument, box && *box, "wants the handle of a call");
  return **box;
}

int work_wait(lua_State* L) {
  work_at(L, 1).wait();
  return 0;
}
int work_done(lua_State* L) {
  lua_pushboolean(L, work_at(L, 1).passed());
  return 1;
}
int work_sender(lua_State* L) {
  lua_pushinteger(L, work_at(L, 1).sender());
  return 1;
}
int drop_work(lua_State* L) {
  static_cast<Ref<dist::Work>*>(lua_touserdata(L, 1))->~Ref();
  return 0;
}

// last(group) -> the work of the last call with async
int last(lua_State* L) {
  push_work(L, to_group(L, 1)->last());
  return 1;
}

int send(lua_State* L) {
  dist::Group& g = *to_group(L, 1);
  const Tensor t = packed(check_tensor(L, 2, "send"));
  const bool async = lua_toboolean(L, 5);
  push_work(L, g.start_send(t, static_cast<int>(check_integer(L, 3, "send")),
                            static_cast<int>(check_integer(L, 4, "send")), async));
  return 1;
}

// Into the tensor itself; the caller gives one without gaps.
int receive(lua_State* L) {
  dist::Group& g = *to_group(L, 1);
  const Tensor t = check_tensor(L, 2, "recv");
  TYCHO_CHECK(Kind::Argument, t.contiguous(), "recv: the tensor has gaps");
  push_work(L, g.start_receive(t, static_cast<int>(check_integer(L, 3, "recv")),
                               static_cast<int>(check_integer(L, 4, "recv")), lua_toboolean(L, 5)));
  ++t->storage->version;
  return 1;
}

// bytes(text) -> uint8 [n]; text(tensor, n) -> its first n bytes
int bytes(lua_State* L) {
  const std::string_view s = check_text(L, 1, "bytes");
  const Tensor t = empty({static_cast<int64_t>(s.size())}, DType::UInt8);
  dist::copy_bytes(t.host(), s.data(), s.size());
  push(L, t);
  return 1;
}
int text(lua_State* L) {
  const Tensor t = packed(check_tensor(L, 1, "text"));
  ready(*t->storage);
  const int64_t n = check_integer(L, 2, "text");
  TYCHO_CHECK(Kind::Value, t.dtype() == DType::UInt8 && n >= 0 && n <= t.numel(),
              "text: wants bytes, not %s", describe(t).c_str());
  lua_pushlstring(L, t.host(), static_cast<size_t>(n));
  return 1;
}
int has_nccl(lua_State* L) {
  lua_pushboolean(L, dist::has_nccl());
  return 1;
}
int has_mpi(lua_State* L) {
  lua_pushboolean(L, dist::has_mpi());
  return 1;
}

}  // namespace

void open_dist_calls(lua_State* L, int table) {
  luaL_newmetatable(L, kWork);
  static const luaL_Reg meta[] = {{"__gc", drop_work}, {nullptr, nullptr}};
  luaL_setfuncs(L, meta, 0);
  static const luaL_Reg methods[] = {{"wait", guarded<work_wait>},
                                     {"is_completed", guarded<work_done>},
                                     {"sender", guarded<work_sender>},
                                     {nullptr, nullptr}};
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {
      {"last", guarded<last>},         {"send", guarded<send>}, {"receive", guarded<receive>},
      {"bytes", guarded<bytes>},       {"text", guarded<text>}, {"has_mpi", guarded<has_mpi>},
      {"has_nccl", guarded<has_nccl>}, {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  // The operations, by their own names; those that change a tensor end in "_".
  for (const Op* op : all_ops()) {
    if (!std::string_view(op->file).ends_with("engine/dist/ops.cpp")) continue;
    if (op->inplace != Inplace::Only) {
      push_op(L, op, false);
      lua_setfield(L, table, op->name);
    }
    if (op->inplace != Inplace::No) {
      push_op(L, op, true);
      lua_setfield(L, table, (std::string(op->name) + "_").c_str());
    }
  }
}

}  // namespace tycho::lua
