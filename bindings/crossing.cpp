// Writing and reading messages. A message is one value, then the contents of the objects (tables,
// functions) that came up in it, in the order in which they came up, so that nothing here recurses,
// however deep the tables are; then the metatables, which are set last.
#include "bindings/crossing.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "engine/ops/random.h"

namespace tycho::lua {
namespace {

enum class Tag : char {
  Nil,
  False,
  True,
  Integer,
  Float,
  Text,
  Pointer,   // a light userdata
  Seen,      // an object that came up before
  Table,     // a new object; its contents come later
  Function,  // a new object: its code; its variables come later
  Tensor,    // a new object, whole
  Named,     // a new object, which the other side has under a name
  Globals,
  Environment,  // of the half of torch that is written in Lua
  DType,
  Device,
  Stream,     // a torch.Generator
  Registered  // a metatable of the binding's own
};

constexpr const char* kRegistered[] = {"tycho.shape", "tycho.error"};

// torch.utils.names' field.
void push_names(lua_State* L, const char* field) {
  push_module(L, "torch.utils.names");
  lua_getfield(L, -1, field);
  lua_remove(L, -2);
}

// --- Writing ---

class Writer {
 public:
  Writer(lua_State* L, Cargo cargo) : L(L), cargo_(cargo) {
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
    if (!tensor && put_named(i)) return keep(i, p, way);
    if (tensor) return put_tensor(i, tensor, way, p);
    const int type = lua_type(L, i);
    if (type == LUA_TTABLE) {
      put_tag(Tag::Table);
      put_number(lua_rawlen(L, i));
      keep(i, p, way);
      info_.back().is_table = true;
    } else if (type == LUA_TFUNCTION && !lua_iscfunction(L, i)) {
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

  bool put_named(int i) {
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
    // Plain tables of a batch are never looked up, so that a worker mostly needs no list of names.
    if (cargo_ == Cargo::Batch && lua_type(L, i) == LUA_TTABLE) {
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
    if (t->node) {
      const Name name = name_of(way);
      fail(Kind::Argument,
           "DataLoader: " + name.text + name.note +
               " is part of a graph, and graphs stay in the thread that made them",
           cargo_ == Cargo::Batch ? "return x:detach() instead of x, or torch.no_grad in get"
                                  : name.text + " = " + name.text + ":detach()");
    }
    put_tag(Tag::Tensor);
    put_number(message_.tensors.size());
    message_.tensors.push_back({t->storage, t->dtype, t->requires_grad, Sizes(t->shape, t->rank),
                                Sizes(t->stride, t->rank), t->offset});
    keep(i, p, way);
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
    if (cargo_ != Cargo::Setup) return;
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
    find_globals(code, environment, this, [](void* self, std::string_view global) {
      static_cast<Writer*>(self)->use_global(std::string(global));
    });
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
      to_device(L, i, &d);
      put_tag(Tag::Device);
      put_raw(d);
      return true;
    }
    if (const DeviceGenerator* g = to_generator(L, i)) {
      put_tag(Tag::Stream);
      put_raw(g->device);
      put_text(g->stream->state());
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
      const bool environment = cargo_ == Cargo::Setup && is_environment(name);
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
        if (cargo_ == Cargo::Batch && info_[way.from].way.hop == Way::Root)
          return {"the batch", ""};
        return {from.text + "[" + std::to_string(way.index) + "]", from.note};
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

  [[noreturn]] void refuse(int i, const Way& way) {
    Name name = name_of(way);
    if (name.text.empty()) name.text = cargo_ == Cargo::Batch ? "the batch" : "the dataset";
    std::string what, hint = "make it in worker_init_fn, or in get(i) when it is first needed";
    if (luaL_testudata(L, i, LUA_FILEHANDLE)) {
      what = "an open file";
      hint = "open it in worker_init_fn, or in get(i) when it is first needed";
    } else if (lua_type(L, i) == LUA_TTHREAD) {
      what = "a coroutine";
    } else if (lua_type(L, i) == LUA_TFUNCTION) {
      what = "a function written in C that no module holds under a name";
      hint = "call it inside a Lua function that finds it by its name";
    } else {
      what = "an object of a C library";
      if (luaL_getmetafield(L, i, "__name") == LUA_TSTRING)
        what += std::string(" (") + lua_tostring(L, -1) + ")";
    }
    if (cargo_ == Cargo::Batch)
      fail(Kind::Argument, "DataLoader: " + name.text + name.note + " is " + what +
                               ", which cannot leave the worker that made it");
    fail(Kind::Argument,
         "DataLoader: " + name.text + name.note + " is " + what + ", which cannot go to a worker",
         hint);
  }

  lua_State* L;
  Cargo cargo_;
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

// --- Reading ---

class Reader {
 public:
  Reader(lua_State* L, Message& message) : L(L), message_(message), at_(message.bytes.data()) {
    luaL_checkstack(L, 20, nullptr);
    lua_newtable(L);
    objects_ = lua_gettop(L);
    lua_newtable(L);  // table -> its metatable
    metas_ = lua_gettop(L);
  }

  void read() {
    push_value();
    const int result = lua_gettop(L);
    for (size_t done = 0;;) {
      if (done < kinds_.size()) {
        read_contents(done++);
        continue;
      }
      push_value();
      if (lua_isnil(L, -1)) break;
      const std::string_view name = text();
      lua_pushlstring(L, name.data(), name.size());
      push_value();
      lua_rawset(L, -3);
      lua_pop(L, 1);
    }
    for (const auto& [table, meta] : metatables_) {
      lua_rawgeti(L, objects_, table + 1);
      lua_rawgeti(L, metas_, meta);
      lua_setmetatable(L, -2);
      lua_pop(L, 1);
    }
    lua_settop(L, result);
    lua_replace(L, objects_);
    lua_settop(L, objects_);
  }

 private:
  template <class T>
  T raw() {
    T x;
    std::memcpy(&x, at_, sizeof x);
    at_ += sizeof x;
    return x;
  }
  Tag tag() { return static_cast<Tag>(*at_++); }
  uint32_t number() { return raw<uint32_t>(); }
  std::string_view text() {
    const auto n = static_cast<size_t>(raw<uint64_t>());
    at_ += n;
    return {at_ - n, n};
  }

  void keep(Tag kind) {
    kinds_.push_back(kind);
    lua_pushvalue(L, -1);
    lua_rawseti(L, objects_, static_cast<lua_Integer>(kinds_.size()));
  }

  void push_value() {
    const Tag t = tag();
    switch (t) {
      case Tag::Nil:
        return lua_pushnil(L);
      case Tag::False:
      case Tag::True:
        return lua_pushboolean(L, t == Tag::True);
      case Tag::Integer:
        return lua_pushinteger(L, raw<lua_Integer>());
      case Tag::Float:
        return lua_pushnumber(L, raw<lua_Number>());
      case Tag::Text: {
        const std::string_view s = text();
        lua_pushlstring(L, s.data(), s.size());
        return;
      }
      case Tag::Pointer:
        return lua_pushlightuserdata(L, raw<void*>());
      case Tag::Seen:
        lua_rawgeti(L, objects_, static_cast<lua_Integer>(number()) + 1);
        return;
      case Tag::Globals:
        return lua_pushglobaltable(L);
      case Tag::Environment:
        return push_names(L, "env");
      case Tag::Table:
        lua_createtable(L, static_cast<int>(std::min<uint32_t>(number(), 1 << 26)), 0);
        return keep(t);
      case Tag::Function: {
        const std::string_view code = text();
        if (luaL_loadbufferx(L, code.data(), code.size(), "=function", "b") != LUA_OK) lua_error(L);
        return keep(t);
      }
      case Tag::Tensor:
        push_tensor(message_.tensors[number()]);
        return keep(t);
      case Tag::Named:
        push_named(text());
        return keep(t);
      case Tag::Registered:
        luaL_getmetatable(L, std::string(text()).c_str());
        return keep(t);
      case Tag::DType:
        push_dtype(L, raw<DType>());
        return keep(t);
      case Tag::Device:
        push_device(L, raw<Device>());
        return keep(t);
      case Tag::Stream:
        push_stream();
        return keep(t);
    }
  }

  void push_tensor(CrossingTensor& from) {
    Tensor t = empty(Sizes{0}, from.dtype, from.storage->device);
    t->storage = std::move(from.storage);
    t->requires_grad = from.requires_grad;
    t->rank = static_cast<uint8_t>(from.shape.n);
    t->offset = from.offset;
    t->numel = product(from.shape);
    std::copy_n(from.shape.begin(), from.shape.n, t->shape);
    std::copy_n(from.stride.begin(), from.stride.n, t->stride);
    t->contiguous = is_contiguous(from.shape, from.stride);
    push(L, t);
  }

  void push_named(std::string_view path) {
    push_names(L, "find");
    lua_pushlstring(L, path.data(), path.size());
    lua_call(L, 1, 1);
    if (!lua_isnil(L, -1)) return;
    std::string shown(path);
    for (char& c : shown)
      if (c == '\1') c = '.';
    fail(Kind::Argument, "DataLoader: this worker's torch has no " + shown);
  }

  void push_stream() {
    const auto device = raw<Device>();
    const std::string_view state = text();
    push_module(L, "torch");
    lua_getfield(L, -1, "Generator");
    push_device(L, device);
    lua_call(L, 1, 1);
    lua_remove(L, -2);
    to_generator(L, -1)->stream->set_state(state);
  }

  void read_contents(size_t id) {
    if (kinds_[id] == Tag::Table) {
      lua_rawgeti(L, objects_, static_cast<lua_Integer>(id) + 1);
      read_fields(id);
      lua_pop(L, 1);
    } else if (kinds_[id] == Tag::Function) {
      lua_rawgeti(L, objects_, static_cast<lua_Integer>(id) + 1);
      read_variables(static_cast<uint32_t>(id));
      lua_pop(L, 1);
    }
  }

  void read_fields(size_t id) {
    for (;;) {
      push_value();
      if (lua_isnil(L, -1)) break;
      push_value();
      lua_rawset(L, -3);
    }
    lua_pop(L, 1);
    push_value();
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      return;
    }
    metatables_.push_back(
        {static_cast<lua_Integer>(id), static_cast<lua_Integer>(metatables_.size()) + 1});
    lua_rawseti(L, metas_, metatables_.back().second);
  }

  void read_variables(uint32_t id) {
    const int function = lua_gettop(L);
    const int count = static_cast<int>(number());
    for (int n = 1; n <= count; ++n) {
      const uint32_t cell = number();
      if (cell < cells_.size()) {
        lua_rawgeti(L, objects_, static_cast<lua_Integer>(cells_[cell].function) + 1);
        lua_upvaluejoin(L, function, n, lua_gettop(L), cells_[cell].n);
        lua_pop(L, 1);
      } else {
        cells_.push_back({id, n});
        push_value();
        lua_setupvalue(L, function, n);
      }
    }
  }

  struct Cell {
    uint32_t function;
    int n;
  };
  lua_State* L;
  Message& message_;
  const char* at_;
  int objects_, metas_;
  std::vector<Tag> kinds_;
  std::vector<Cell> cells_;
  std::vector<std::pair<lua_Integer, lua_Integer>> metatables_;  // object, place in metas_
};

}  // namespace

void push_module(lua_State* L, const char* name) {
  lua_getfield(L, LUA_REGISTRYINDEX, "tycho.require");
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

Message write_message(lua_State* L, int value, Cargo cargo) {
  value = lua_absindex(L, value);
  const int top = lua_gettop(L);
  Message message = Writer(L, cargo).write(value);
  lua_settop(L, top);
  return message;
}

void read_message(lua_State* L, Message& message) { Reader(L, message).read(); }

}  // namespace tycho::lua
