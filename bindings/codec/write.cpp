// Writing messages: walking a value and all that hangs on it, and saying what cannot cross.
#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "bindings/codec/form.h"
#include "bindings/core/device.h"
#include "bindings/core/insides.h"
#include "bindings/processes/socket.h"
#include "engine/grad/record.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/defer.h"

namespace tycho::lua {
namespace {

using namespace codec;

class Writer {
 public:
  Writer(lua_State* L, const Cargo& cargo, GraphTensors graph)
      : L(L), cargo_(cargo), graph_(graph) {
    luaL_checkstack(L, 20, nullptr);
    lua_newtable(L);
    objects_ = lua_gettop(L);
    lua_pushnil(L);
    known_ = lua_gettop(L);
    push_names(L, "env");
    env_ = lua_gettop(L);
    lua_pushglobaltable(L);
    globals_ = lua_gettop(L);
    lua_newtable(L);  // the tables that functions have as _ENV, the globals first
    lua_pushvalue(L, globals_);
    lua_rawseti(L, -2, 1);
    environments_ = lua_gettop(L);
  }

  Message write(int value) {
    const int top = lua_gettop(L);
    put(value, {});
    for (;;) {
      if (done_ < info_.size())
        put_contents(static_cast<uint32_t>(done_++));
      else if (globals_done_ < global_names_.size())
        put_global(globals_done_++);
      else
        break;
    }
    put_tag(Tag::Nil);  // no further global
    lua_settop(L, top);
    return std::move(message_);
  }

 private:
  // How an object was reached.
  struct Way {
    enum Hop : uint8_t { Root, Field, Index, Key, Meta, Variable, Global } hop = Root;
    uint32_t from = 0;
    const char* text = "";  // Lua's own, which lives while we write
    lua_Integer index = 0;
  };
  struct Name {
    std::string text, note;
  };
  struct Info {
    Way way;
    bool is_table = false, is_function = false;
    bool is_environment = false;  // a table of which only what functions use crosses
  };

  // --- bytes ---
  void put_tag(Tag t) { message_.bytes.push_back(static_cast<char>(t)); }
  template <class T>
  void put_raw(const T& x) {
    message_.bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  void put_number(size_t n) { put_raw(static_cast<uint32_t>(n)); }
  void put_text(std::string_view s) {
    put_raw(static_cast<uint64_t>(s.size()));
    message_.bytes.append(s);
  }

  // --- one value ---
  void put(int i, const Way& way) {
    switch (lua_type(L, i)) {
      case LUA_TNIL:
        return put_tag(Tag::Nil);
      case LUA_TBOOLEAN:
        return put_tag(lua_toboolean(L, i) ? Tag::True : Tag::False);
      case LUA_TNUMBER:
        if (lua_isinteger(L, i)) {
          put_tag(Tag::Integer);
          put_raw(lua_tointeger(L, i));
        } else {
          put_tag(Tag::Float);
          put_raw(lua_tonumber(L, i));
        }
        return;
      case LUA_TSTRING: {
        size_t n;
        const char* s = lua_tolstring(L, i, &n);
        put_tag(Tag::Text);
        return put_text({s, n});
      }
      case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, i) && !cargo_.addresses) refuse(i, way);
        put_tag(Tag::Pointer);
        return put_raw(lua_touserdata(L, i));
      default:
        put_object(i, way);
    }
  }

  void put_object(int i, const Way& way) {
    const void* p = lua_topointer(L, i);
    if (const auto it = ids_.find(p); it != ids_.end()) {
      put_tag(Tag::Seen);
      return put_number(it->second);
    }
    if (lua_rawequal(L, i, globals_)) return put_tag(Tag::Globals);
    if (lua_rawequal(L, i, env_)) return put_tag(Tag::Environment);
    luaL_checkstack(L, 10, nullptr);
    const Impl* tensor = to_impl(L, i);
    if (!tensor && may_be_named(i, way) && put_named(i, way)) return keep(i, p, way);
    if (tensor) return put_tensor(i, tensor, way, p);
    const int type = lua_type(L, i);
    if (type == LUA_TTABLE) {
      put_tag(Tag::Table);
      put_number(lua_rawlen(L, i));
      keep(i, p, way);
      info_.back().is_table = true;
    } else if (type == LUA_TFUNCTION && !lua_iscfunction(L, i) && cargo_.code) {
      put_code(i, way);
      keep(i, p, way);
      info_.back().is_function = true;
    } else if (!put_small_object(i)) {
      refuse(i, way);
    } else {
      keep(i, p, way);
    }
  }

  // The object gets the next number, and stays alive.
  void keep(int i, const void* p, const Way& way) {
    ids_.emplace(p, static_cast<uint32_t>(info_.size()));
    info_.push_back({way});
    lua_pushvalue(L, i);
    lua_rawseti(L, objects_, static_cast<lua_Integer>(info_.size()));
  }

  // Where no code may cross, classes have their names still: only what hangs on them is known.
  bool may_be_named(int i, const Way& way) const {
    return cargo_.code || (lua_type(L, i) == LUA_TTABLE && way.hop == Way::Meta);
  }

  bool put_named(int i, const Way& way) {
    if (lua_type(L, i) == LUA_TTABLE)
      for (const char* name : kRegistered) {
        luaL_getmetatable(L, name);
        const bool same = lua_rawequal(L, -1, i);
        lua_pop(L, 1);
        if (!same) continue;
        put_tag(Tag::Registered);
        put_text(name);
        return true;
      }
    // Plain tables of a value are never looked up, so that mostly no list of names is needed; what a
    // function uses may be a library, and a metatable a class.
    const bool used = way.hop == Way::Variable || way.hop == Way::Global || way.hop == Way::Meta;
    if (cargo_.plain_tables && !used && lua_type(L, i) == LUA_TTABLE) {
      if (!lua_getmetatable(L, i)) return false;
      lua_pop(L, 1);
    }
    if (lua_isnil(L, known_)) {
      push_names(L, "known");
      lua_call(L, 0, 1);
      lua_replace(L, known_);
    }
    lua_pushvalue(L, i);
    const bool found = lua_rawget(L, known_) == LUA_TSTRING;
    if (found) {
      put_tag(Tag::Named);
      size_t n;
      const char* s = lua_tolstring(L, -1, &n);
      put_text({s, n});
    }
    lua_pop(L, 1);
    return found;
  }

  void put_tensor(int i, const Impl* t, const Way& way, const void* p) {
    if (t->node && !graph_.list) {
      const Name name = name_of(way);
      fail(Kind::Argument,
           start_of(name) + " is part of a graph, and graphs stay in the thread that made them",
           *cargo_.graph_hint ? cargo_.graph_hint : name.text + " = " + name.text + ":detach()");
    }
    straighten(Tensor(const_cast<Impl*>(t)));
    const bool attached = graph_.list && grad::requires_grad(const_cast<Impl*>(t)) &&
                          (t->node || !graph_.leaves || graph_.leaves->contains(t));
    if (attached) {
      lua_pushvalue(L, i);
      lua_rawseti(L, graph_.list, static_cast<lua_Integer>(lua_rawlen(L, graph_.list)) + 1);
    }
    put_tag(Tag::Tensor);
    put_number(message_.tensors.size());
    message_.tensors.push_back({t->storage, t->dtype, t->requires_grad, is_parameter(i), attached,
                                Sizes(t->shape, t->rank), Sizes(t->stride, t->rank), t->offset});
    keep(i, p, way);
  }

  bool is_parameter(int i) {
    if (lua_getfield(L, LUA_REGISTRYINDEX, kParameters) != LUA_TTABLE) return lua_pop(L, 1), false;
    lua_pushvalue(L, i);
    const bool yes = lua_rawget(L, -2) == LUA_TBOOLEAN;
    lua_pop(L, 2);
    return yes;
  }

  static int append(lua_State*, const void* p, size_t n, void* to) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(p), n);
    return 0;
  }

  void put_code(int i, const Way& way) {
    std::string code;
    lua_pushvalue(L, i);
    lua_dump(L, append, &code, 0);
    lua_pop(L, 1);
    put_tag(Tag::Function);
    put_text(code);
    if (!cargo_.globals) return;
    std::vector<bool> environment;
    bool any = false;
    const char* name;
    for (int n = 1; (name = lua_getupvalue(L, i, n)); ++n) {
      environment.push_back(is_environment(name));
      if (environment.back()) {
        any = true;
        user_environment_ = number_of_environment();
      }
      lua_pop(L, 1);
    }
    if (!any) return;
    user_ = way;
    if (insides::knows_dumps(L)) {
      find_globals(code, environment, this, [](void* self, std::string_view global) {
        static_cast<Writer*>(self)->use_global(std::string(global));
      });
    } else {
      std::string names;  // without the names of local variables
      lua_pushvalue(L, i);
      lua_dump(L, append, &names, 1);
      lua_pop(L, 1);
      use_globals_named_in(names, globals_);
      if (user_environment_ > 1) {
        lua_rawgeti(L, environments_, user_environment_);
        use_globals_named_in(names, lua_gettop(L));
        lua_pop(L, 1);
      }
    }
  }

  // Without knowing the form of dumped code: every global whose name stands in it somewhere, which
  // may be a field's name or a part of a text, too.
  void use_globals_named_in(const std::string& code, int table) {
    std::vector<std::string> found;
    lua_pushnil(L);
    while (lua_next(L, table)) {
      lua_pop(L, 1);
      if (lua_type(L, -1) != LUA_TSTRING) continue;
      size_t n;
      const char* name = lua_tolstring(L, -1, &n);
      if (code.find(name, 0, n) != std::string::npos) found.emplace_back(name, n);
    }
    for (const std::string& name : found) use_global(name);
  }

  // Is the variable on top, of that name, a table of globals? Functions may have one of their own.
  bool is_environment(const char* name) {
    return lua_rawequal(L, -1, globals_) ||
           (!std::strcmp(name, "_ENV") && lua_istable(L, -1) && !lua_rawequal(L, -1, env_));
  }
  lua_Integer number_of_environment() {
    const auto count = static_cast<lua_Integer>(lua_rawlen(L, environments_));
    for (lua_Integer k = 1; k <= count; ++k) {
      lua_rawgeti(L, environments_, k);
      const bool same = lua_rawequal(L, -1, -2);
      lua_pop(L, 1);
      if (same) return k;
    }
    lua_pushvalue(L, -1);
    lua_rawseti(L, environments_, count + 1);
    return count + 1;
  }

  void use_global(const std::string& name) {
    lua_Integer environment = user_environment_;
    const auto is_there = [&](int table) {
      lua_pushlstring(L, name.data(), name.size());
      return lua_rawget(L, table) != LUA_TNIL;
    };
    if (environment > 1) {
      lua_rawgeti(L, environments_, environment);
      if (!is_there(lua_gettop(L))) environment = 1;  // then it finds the global through it
      lua_pop(L, 2);
    }
    if (!global_seen_.emplace(std::to_string(environment) + name).second) return;
    // What the other side has from the start need not cross.
    const bool here = is_there(environment == 1 ? globals_ : env_);
    is_there(env_);
    const bool plain = environment == 1 && (!here || lua_rawequal(L, -1, -2));
    lua_pop(L, 2);
    if (!plain) global_names_.push_back({name, user_, environment});
  }

  bool put_small_object(int i) {
    if (lua_type(L, i) != LUA_TUSERDATA) return false;
    if (luaL_testudata(L, i, "tycho.dtype")) {
      DType t;
      to_dtype(L, i, &t);
      put_tag(Tag::DType);
      put_raw(t);
      return true;
    }
    if (luaL_testudata(L, i, "tycho.device")) {
      Device d;
      to_device_value(L, i, &d);
      put_tag(Tag::Device);
      put_raw(d);
      return true;
    }
    if (const DeviceGenerator* g = to_generator(L, i)) {
      put_tag(Tag::Stream);
      put_raw(g->device);
      put_text(g->stream.state());
      return true;
    }
    if (const Handle* h = to_handle(L, i); h && *h && cargo_.handles) {
      put_tag(Tag::Handle);
      put_number(message_.handles.size());
      message_.handles.push_back(*h);
      return true;
    }
    return false;
  }

  // --- contents ---
  void put_contents(uint32_t id) {
    if (!info_[id].is_table && !info_[id].is_function) return;
    const int top = lua_gettop(L);
    lua_rawgeti(L, objects_, static_cast<lua_Integer>(id) + 1);
    const int object = top + 1;
    if (info_[id].is_function)
      put_variables(object, id);
    else
      put_fields(object, id);
    lua_settop(L, top);
  }

  void put_fields(int table, uint32_t id) {
    if (!info_[id].is_environment) lua_pushnil(L);
    while (!info_[id].is_environment && lua_next(L, table)) {
      const int value = lua_gettop(L), key = value - 1;
      Way way{Way::Key, id, "", 0};
      if (lua_type(L, key) == LUA_TSTRING)
        way = {Way::Field, id, lua_tostring(L, key), 0};
      else if (lua_isinteger(L, key))
        way = {Way::Index, id, "", lua_tointeger(L, key)};
      put(key, {Way::Key, id, "", 0});
      put(value, way);
      lua_settop(L, key);
    }
    put_tag(Tag::Nil);
    if (!lua_getmetatable(L, table)) return put_tag(Tag::Nil);
    put(lua_gettop(L), {Way::Meta, id, "", 0});
  }

  void put_variables(int function, uint32_t id) {
    int count = 0;
    while (lua_getupvalue(L, function, count + 1)) {
      ++count;
      lua_pop(L, 1);
    }
    put_number(static_cast<size_t>(count));
    for (int n = 1; n <= count; ++n) {
      const void* cell = lua_upvalueid(L, function, n);
      const auto [it, fresh] = cells_.emplace(cell, static_cast<uint32_t>(cells_.size()));
      put_number(it->second);
      if (!fresh) continue;
      const char* name = lua_getupvalue(L, function, n);
      const size_t before = info_.size();
      const bool environment = cargo_.globals && is_environment(name);
      put(lua_gettop(L), {Way::Variable, id, name, 0});
      if (environment && info_.size() > before) info_.back().is_environment = true;
      lua_pop(L, 1);
    }
  }

  struct GlobalUse {
    std::string name;
    Way user;  // of the function that uses it
    lua_Integer environment;
  };
  void put_global(size_t n) {
    const std::string& name = global_names_[n].name;
    lua_rawgeti(L, environments_, global_names_[n].environment);
    put(lua_gettop(L), {});
    lua_pushlstring(L, name.data(), name.size());
    lua_rawget(L, -2);
    put_text(name);
    put(lua_gettop(L), {Way::Global, 0, name.c_str(), static_cast<lua_Integer>(n)});
    lua_pop(L, 2);
  }

  // --- errors ---
  Name name_of(const Way& way) const {
    const Name from = way.hop == Way::Root || way.hop == Way::Global ? Name{} : name_of(way.from);
    switch (way.hop) {
      case Way::Root:
        return {};
      case Way::Field:
        // Methods are found in a class: dataset.get, not dataset.<metatable>.__index.get.
        if (!std::strcmp(way.text, "__index") && info_[way.from].way.hop == Way::Meta) return from;
        return {from.text.empty() ? way.text : from.text + "." + way.text, from.note};
      case Way::Index:
        if (*cargo_.part && info_[way.from].way.hop == Way::Root) return {cargo_.part, ""};
        return {named(from).text + "[" + std::to_string(way.index) + "]", from.note};
      case Way::Key:
        return {"a key of " + (from.text.empty() ? "a table" : from.text), from.note};
      case Way::Meta:
        return from;
      case Way::Variable:
        return {way.text,
                " (a variable of " + (from.text.empty() ? "the function" : from.text) + ")"};
      case Way::Global: {
        const Name user = name_of(global_names_[static_cast<size_t>(way.index)].user);
        return {way.text,
                " (a global that " + (user.text.empty() ? "a function" : user.text) + " uses)"};
      }
    }
    return {};
  }
  Name name_of(uint32_t id) const { return name_of(info_[id].way); }

  // The value itself is named by what it is.
  Name named(Name name) const {
    if (name.text.empty()) name.text = cargo_.root;
    return name;
  }
  std::string start_of(const Name& name) const {
    return std::string(cargo_.who) + ": " + named(name).text + name.note;
  }

  [[noreturn]] void refuse(int i, const Way& way) {
    std::string what;
    const char* hint = cargo_.hint;
    if (luaL_testudata(L, i, LUA_FILEHANDLE)) {
      what = "an open file";
      hint = cargo_.file_hint;
    } else if (lua_type(L, i) == LUA_TTHREAD) {
      what = "a coroutine";
    } else if (lua_type(L, i) == LUA_TLIGHTUSERDATA) {
      what = "an address in this process's memory";
    } else if (lua_type(L, i) == LUA_TFUNCTION && !cargo_.code) {
      what = "a function";
    } else if (lua_type(L, i) == LUA_TFUNCTION) {
      what = "a function written in C that no module holds under a name";
      if (*hint) hint = "call it inside a Lua function that finds it by its name";
    } else {
      what = "an object of a C library";
      if (luaL_getmetafield(L, i, "__name") == LUA_TSTRING)
        what += std::string(" (") + lua_tostring(L, -1) + ")";
    }
    fail(Kind::Argument, start_of(name_of(way)) + " is " + what + ", " + cargo_.refusal, hint);
  }

  lua_State* L;
  const Cargo& cargo_;
  GraphTensors graph_;
  int objects_, known_, env_, globals_, environments_;
  Message message_;
  std::unordered_map<const void*, uint32_t> ids_, cells_;
  std::vector<Info> info_;
  size_t done_ = 0, globals_done_ = 0;
  std::deque<GlobalUse> global_names_;
  std::unordered_set<std::string> global_seen_;
  Way user_;  // the function whose code is being looked at
  lua_Integer user_environment_ = 1;
};

}  // namespace

const Cargo kSetup = {
    .who = "DataLoader",
    .root = "the dataset",
    .part = "",
    .refusal = "which cannot go to a worker",
    .hint = "make it in worker_init_fn, or in get(i) when it is first needed",
    .file_hint = "open it in worker_init_fn, or in get(i) when it is first needed",
    .graph_hint = "",
    .globals = true,
};
const Cargo kBatch = {
    .who = "DataLoader",
    .root = "the batch",
    .part = "the batch",
    .refusal = "which cannot leave the worker that made it",
    .hint = "",
    .file_hint = "",
    .graph_hint = "return x:detach() instead of x, or torch.no_grad in get",
    .plain_tables = true,
};
const Cargo kProcess = {
    .who = "",
    .root = "the value",
    .part = "",
    .refusal = "which cannot go to another process",
    .hint = "make it in the function that runs there",
    .file_hint = "open it in the function that runs there",
    .graph_hint = "",
    .globals = true,
    .plain_tables = true,
    .addresses = false,
    .handles = true,
};
const Cargo kFork = {
    .who = "fork",
    .root = "the function",
    .part = "",
    .refusal = "which cannot go to another thread",
    .hint = "make it in the function that runs there",
    .file_hint = "open it in the function that runs there",
    .graph_hint = "",
    .globals = true,
    .plain_tables = true,
    .handles = true,
};
const Cargo kForked = {
    .who = "fork",
    .root = "the result",
    .part = "",
    .refusal = "which cannot leave the thread that made it",
    .hint = "",
    .file_hint = "",
    .graph_hint = "",
    .plain_tables = true,
    .handles = true,
};
const Cargo kObject = {
    .who = "",
    .root = "the object",
    .part = "",
    .refusal = "and only data and tensors cross to other ranks",
    .hint = "send what it is made from, and make it there",
    .file_hint = "send its name, or what stands in it",
    .graph_hint = "",
    .code = false,
    .addresses = false,
};

Message write_message(lua_State* L, int value, const Cargo& cargo, GraphTensors graph) {
  run_held_rows();  // what they read and make is seen by others from here on
  value = lua_absindex(L, value);
  const int top = lua_gettop(L);
  Message message = Writer(L, cargo, graph).write(value);
  lua_settop(L, top);
  return message;
}

}  // namespace tycho::lua
