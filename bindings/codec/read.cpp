// Reading messages: making what they hold in this thread's state.
#include <algorithm>
#include <cstring>

#include "bindings/codec/codec.h"
#include "bindings/codec/form.h"
#include "bindings/processes/socket.h"
#include "engine/ops/random/random.h"

namespace tycho::lua {

void push_module(lua_State* L, const char* name) {
  lua_getfield(L, LUA_REGISTRYINDEX, "tycho.require");
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

// torch.utils.names' field.
void codec::push_names(lua_State* L, const char* field) {
  push_module(L, "torch.utils.names");
  lua_getfield(L, -1, field);
  lua_remove(L, -2);
}

namespace {

using namespace codec;

class Reader {
 public:
  Reader(lua_State* L, Message& message, Trust trust, GraphTensors graph)
      : L(L),
        message_(message),
        trust_(trust),
        graph_(graph),
        at_(message.bytes.data()),
        end_(at_ + message.bytes.size()) {
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
      check(trust_ == Trust::All);
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
    need(sizeof x);
    std::memcpy(&x, at_, sizeof x);
    at_ += sizeof x;
    return x;
  }
  void need(size_t n) {
    if (static_cast<size_t>(end_ - at_) < n) damaged();
  }
  [[noreturn]] static void damaged() {
    fail(Kind::Value, "what came is damaged: it cannot be read");
  }
  void check(bool fits) {
    if (!fits) damaged();
  }
  Tag tag() { return static_cast<Tag>(raw<char>()); }
  uint32_t number() { return raw<uint32_t>(); }
  std::string_view text() {
    const auto n = static_cast<size_t>(raw<uint64_t>());
    need(n);
    at_ += n;
    return {at_ - n, n};
  }

  void keep(Tag kind) {
    kinds_.push_back(kind);
    lua_pushvalue(L, -1);
    lua_rawseti(L, objects_, static_cast<lua_Integer>(kinds_.size()));
  }

  // What only this process and its own children may say: what runs, and what is found by a name.
  void check_trust(Tag t) {
    if (t == Tag::Function || t == Tag::Globals || t == Tag::Environment)
      fail(Kind::Value, "what came holds code, and only data is taken from other ranks");
  }

  void push_value() {
    const Tag t = tag();
    if (trust_ == Trust::Data) check_trust(t);
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
        return push_pointer(raw<void*>());
      case Tag::Seen:
        lua_rawgeti(L, objects_, static_cast<lua_Integer>(seen()) + 1);
        return;
      case Tag::Globals:
        return lua_pushglobaltable(L);
      case Tag::Environment:
        return push_names(L, "env");
      case Tag::Table:
        lua_createtable(L, static_cast<int>(std::min<uint64_t>(number(), end_ - at_)), 0);
        return keep(t);
      case Tag::Function: {
        const std::string_view code = text();
        if (luaL_loadbufferx(L, code.data(), code.size(), "=function", "b") != LUA_OK) lua_error(L);
        return keep(t);
      }
      case Tag::Tensor:
        push_tensor(number());
        return keep(t);
      case Tag::Named:
        push_named(text());
        return keep(t);
      case Tag::Registered:
        push_registered(text());
        return keep(t);
      case Tag::DType: {
        const auto dtype = raw<uint8_t>();
        check(dtype < kDTypes);
        push_dtype(L, static_cast<DType>(dtype));
        return keep(t);
      }
      case Tag::Device:
        push_device(L, raw<Device>());
        return keep(t);
      case Tag::Stream:
        push_stream();
        return keep(t);
      case Tag::Handle: {
        const uint32_t n = number();
        check(n < message_.handles.size());
        push_handle(L, message_.handles[n]);
        return keep(t);
      }
    }
    damaged();
  }

  void push_pointer(void* p) {
    check(trust_ == Trust::All || !p);  // torch.none
    lua_pushlightuserdata(L, p);
  }
  uint32_t seen() {
    const uint32_t n = number();
    check(n < kinds_.size());
    return n;
  }
  Device device() {
    const auto d = raw<Device>();
    return d.is_cpu() ? Device{} : cuda_device(d.number);
  }
  void push_registered(std::string_view name) {
    const auto* end = std::end(kRegistered);
    check(std::find(std::begin(kRegistered), end, name) != end);
    luaL_getmetatable(L, std::string(name).c_str());
  }

  void push_tensor(uint32_t n) {
    check(n < message_.tensors.size() && message_.tensors[n].storage);
    CodedTensor& from = message_.tensors[n];
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
    if (from.parameter) mark_parameter();
    if (from.attached && graph_.list) {
      lua_pushvalue(L, -1);
      lua_rawseti(L, graph_.list, static_cast<lua_Integer>(lua_rawlen(L, graph_.list)) + 1);
    }
  }

  void mark_parameter() {
    push_module(L, "torch.nn.module");
    lua_getfield(L, LUA_REGISTRYINDEX, kParameters);
    lua_replace(L, -2);
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }

  void push_named(std::string_view path) {
    push_names(L, trust_ == Trust::All ? "find" : "find_class");
    lua_pushlstring(L, path.data(), path.size());
    lua_call(L, 1, 1);
    if (!lua_isnil(L, -1)) return;
    std::string shown;
    for (size_t i = 0; i < path.size(); ++i) {
      if (path[i] != '\1')
        shown += path[i];
      else if (path[++i] == 'k')
        shown += '.';
      else
        shown += "..";
    }
    fail(Kind::Argument, "this worker's torch has no " + shown +
                             ", which a script added: keep it in a "
                             "variable of your own, and it crosses");
  }

  void push_stream() {
    const Device on = device();
    const std::string_view state = text();
    push_module(L, "torch");
    lua_getfield(L, -1, "Generator");
    push_device(L, on);
    lua_call(L, 1, 1);
    lua_remove(L, -2);
    to_generator(L, -1)->stream.set_state(state);
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
      check(lua_type(L, -1) != LUA_TNUMBER || lua_rawequal(L, -1, -1));  // not nan
      push_value();
      lua_rawset(L, -3);
    }
    lua_pop(L, 1);
    push_value();
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      return;
    }
    check(lua_istable(L, -1));
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
  Trust trust_;
  GraphTensors graph_;
  const char *at_, *end_;
  int objects_, metas_;
  std::vector<Tag> kinds_;
  std::vector<Cell> cells_;
  std::vector<std::pair<lua_Integer, lua_Integer>> metatables_;  // object, place in metas_
};

}  // namespace

void read_message(lua_State* L, Message& message, Trust trust, GraphTensors graph) {
  Reader(L, message, trust, graph).read();
}

}  // namespace tycho::lua
