// Files from Lua: torch.save and torch.load, and readers of IDX and .npy arrays. The ending of the
// name chooses the format: .npy, .safetensors (a flat table of tensors), else a checkpoint: a
// safetensors file whose metadata holds the tables, numbers, strings and booleans around the
// tensors.
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "bindings/lua.h"
#include "engine/io/file.h"
#include "engine/io/idx.h"
#include "engine/io/npy.h"
#include "engine/io/safetensors.h"
#include "engine/ops/apply.h"

namespace tycho::lua {
namespace {

constexpr char kKey[] = "tycho.checkpoint";
constexpr int kMostDepth = 200;

bool ends_with(const std::string& s, const char* end) { return std::string_view(s).ends_with(end); }

std::string path_at(lua_State* L, int i, const char* what) {
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, i) == LUA_TSTRING,
              "%s: the path must be a string, not %s", what, describe_value(L, i, &room));
  return lua_tostring(L, i);
}

// --- the structure around the tensors, as text: never code ---
// N nil, T true, F false, I123; integer, D1.5; float, S3:abc string, X7; tensor number 7, {kv...}
// table.
class Packer {
 public:
  Packer(lua_State* L, std::vector<Tensor>* tensors) : L_(L), tensors_(tensors) {}
  void value(int i, int depth) {
    TYCHO_CHECK(Kind::Argument, depth < kMostDepth,
                "save: the tables are nested deeper than %d levels, or hold themselves",
                kMostDepth);
    luaL_checkstack(L_, 6, "save");
    i = lua_absindex(L_, i);
    char room[64];
    switch (lua_type(L_, i)) {
      case LUA_TNIL:
        text += 'N';
        return;
      case LUA_TBOOLEAN:
        text += lua_toboolean(L_, i) ? 'T' : 'F';
        return;
      case LUA_TNUMBER:
        if (lua_isinteger(L_, i))
          std::snprintf(room, sizeof room, "I%lld;", static_cast<long long>(lua_tointeger(L_, i)));
        else
          std::snprintf(room, sizeof room, "D%.17g;", lua_tonumber(L_, i));
        text += room;
        return;
      case LUA_TSTRING: {
        size_t n;
        const char* s = lua_tolstring(L_, i, &n);
        text += "S" + std::to_string(n) + ":";
        text.append(s, n);
        return;
      }
      case LUA_TTABLE: {
        text += '{';
        lua_pushnil(L_);
        while (lua_next(L_, i)) {
          value(-2, depth + 1);
          value(-1, depth + 1);
          lua_pop(L_, 1);
        }
        text += '}';
        return;
      }
      default:
        break;
    }
    if (Impl* t = to_impl(L_, i)) {
      const auto [it, fresh] = numbers_.emplace(t, tensors_->size());
      if (fresh) tensors_->emplace_back(t);
      text += "X" + std::to_string(it->second) + ";";
      return;
    }
    std::string name;
    fail(Kind::Argument,
         format("save: %s cannot be saved; only tensors, tables, numbers, strings and booleans can",
                describe_value(L_, i, &name)),
         "torch.save(net:state_dict(), path)  -- the tensors of a module");
  }
  std::string text;

 private:
  lua_State* L_;
  std::vector<Tensor>* tensors_;
  std::map<Impl*, size_t> numbers_;
};

class Unpacker {
 public:
  Unpacker(lua_State* L, const std::string& text, const std::vector<Tensor>& tensors,
           const std::string& name)
      : L_(L), p_(text.data()), end_(p_ + text.size()), tensors_(tensors), name_(name) {}
  void all() {
    value(0);
    if (p_ != end_) bad();
  }

 private:
  [[noreturn]] void bad() { io::damaged(name_, "its table cannot be read"); }
  template <class T>
  T number() {
    T x{};
    const auto r = std::from_chars(p_, end_, x);
    if (r.ec != std::errc() || r.ptr == end_) bad();
    p_ = r.ptr + 1;  // the ; or :
    return x;
  }
  void value(int depth) {
    if (depth > kMostDepth || p_ == end_) bad();
    luaL_checkstack(L_, 6, "load");
    switch (*p_++) {
      case 'N':
        lua_pushnil(L_);
        return;
      case 'T':
        lua_pushboolean(L_, true);
        return;
      case 'F':
        lua_pushboolean(L_, false);
        return;
      case 'I':
        lua_pushinteger(L_, number<long long>());
        return;
      case 'D':
        lua_pushnumber(L_, number<double>());
        return;
      case 'S': {
        const auto n = number<unsigned long long>();
        if (n > static_cast<size_t>(end_ - p_)) bad();
        lua_pushlstring(L_, p_, n);
        p_ += n;
        return;
      }
      case 'X': {
        const auto k = number<unsigned long long>();
        if (k >= tensors_.size()) bad();
        push_same(L_, tensors_[k]);
        return;
      }
      case '{':
        lua_newtable(L_);
        while (p_ != end_ && *p_ != '}') {
          value(depth + 1);
          if (lua_isnil(L_, -1) ||
              (lua_type(L_, -1) == LUA_TNUMBER && std::isnan(lua_tonumber(L_, -1))))
            bad();
          value(depth + 1);
          lua_rawset(L_, -3);
        }
        if (p_ == end_) bad();
        ++p_;
        return;
      default:
        bad();
    }
  }
  lua_State* L_;
  const char *p_, *end_;
  const std::vector<Tensor>& tensors_;
  const std::string& name_;
};

std::string to_hex(const std::string& s) {
  static const char digits[] = "0123456789abcdef";
  std::string out;
  for (unsigned char c : s) out += digits[c >> 4], out += digits[c & 15];
  return out;
}
std::string from_hex(const std::string& s, const std::string& name) {
  const auto digit = [&](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    io::damaged(name, "its table cannot be read");
  };
  std::string out;
  for (size_t i = 0; i + 1 < s.size(); i += 2)
    out += static_cast<char>(digit(s[i]) * 16 + digit(s[i + 1]));
  return out;
}

// --- tensors and bytes ---
Tensor on_cpu(const Tensor& t) {
  if (t.contiguous() && t.device().is_cpu()) return t;
  Tensor copy = empty(t.shape(), t.dtype());
  copy_raw(copy, t);
  return copy;
}

Tensor from_bytes(DType dtype, const Sizes& shape, std::string_view bytes, Device device) {
  Tensor t = empty(shape, dtype);
  std::memcpy(t.data(), bytes.data(), bytes.size());
  if (device.is_cpu()) return t;
  Tensor moved = empty(shape, dtype, device);
  copy_raw(moved, t);
  return moved;
}

void write_tensors(const std::string& path, io::SafetensorsHeader header,
                   const std::vector<Tensor>& tensors) {
  std::map<std::string, Tensor> by_name;
  for (size_t i = 0; i < tensors.size(); ++i) by_name.emplace(header.tensors[i].name, tensors[i]);
  const std::string head = io::safetensors_header(&header);
  // In the order of their places in the file.
  std::map<size_t, const io::SafetensorsEntry*> places;
  for (const auto& e : header.tensors)
    if (e.end > e.begin) places.emplace(e.begin, &e);
  io::atomic_write(path, [&](io::Output& out) {
    out.write(head);
    for (const auto& [begin, e] : places) {
      const Tensor t = on_cpu(by_name[e->name]);
      out.write(t.data(), static_cast<size_t>(t.numel()) * dtype_size(t.dtype()));
    }
  });
}

// torch.save(value, path)
int save(lua_State* L) {
  const std::string path = path_at(L, 2, "save");
  if (ends_with(path, ".npy")) {
    const Tensor t = on_cpu(check_tensor(L, 1, "save"));
    const std::string head = io::npy_header(t.dtype(), t.shape());
    io::atomic_write(path, [&](io::Output& out) {
      out.write(head);
      out.write(t.data(), static_cast<size_t>(t.numel()) * dtype_size(t.dtype()));
    });
    return 0;
  }
  io::SafetensorsHeader header;
  std::vector<Tensor> tensors;
  if (ends_with(path, ".safetensors")) {
    TYCHO_CHECK(Kind::Argument, lua_type(L, 1) == LUA_TTABLE,
                "save: a .safetensors file holds a table of named tensors");
    lua_pushnil(L);
    while (lua_next(L, 1)) {
      TYCHO_CHECK(Kind::Argument, lua_type(L, -2) == LUA_TSTRING && to_impl(L, -1),
                  "save: a .safetensors file holds tensors by name only; other endings take tables "
                  "of anything");
      const Tensor t(to_impl(L, -1));
      header.tensors.push_back({lua_tostring(L, -2), t.dtype(), t.shape()});
      tensors.push_back(t);
      lua_pop(L, 1);
    }
  } else {
    Packer pack(L, &tensors);
    pack.value(1, 0);
    for (size_t i = 0; i < tensors.size(); ++i)
      header.tensors.push_back({std::to_string(i), tensors[i].dtype(), tensors[i].shape()});
    header.metadata.emplace_back(kKey, to_hex(pack.text));
  }
  write_tensors(path, std::move(header), tensors);
  return 0;
}

// torch.load(path, {map_location = "cpu"})
int load(lua_State* L) {
  const std::string path = path_at(L, 1, "load");
  Device device;
  if (lua_type(L, 2) == LUA_TTABLE) {
    lua_getfield(L, 2, "map_location");
    std::string room;
    if (!lua_isnil(L, -1))
      TYCHO_CHECK(Kind::Argument, to_device(L, -1, &device), "load: map_location: %s is no device",
                  describe_value(L, -1, &room));
    lua_pop(L, 1);
  }
  const std::string file = io::read_file(path);
  if (ends_with(path, ".npy")) {
    const io::NpyHeader h = io::parse_npy(file, path);
    Tensor t = empty(h.shape, h.dtype);
    io::copy_npy(h, file, t.data());
    push(L, t);
    return 1;
  }
  const io::SafetensorsHeader h = io::parse_safetensors(file, path);
  const auto tensor = [&](const io::SafetensorsEntry& e) {
    return from_bytes(e.dtype, e.shape,
                      std::string_view(file).substr(h.data_offset + e.begin, e.end - e.begin),
                      device);
  };
  for (const auto& [key, value] : h.metadata) {
    if (key != kKey) continue;
    std::vector<Tensor> tensors(h.tensors.size());
    for (const auto& e : h.tensors) {
      size_t k = tensors.size();
      std::from_chars(e.name.data(), e.name.data() + e.name.size(), k);
      if (k >= tensors.size() || tensors[k]) io::damaged(path, "a tensor has the wrong name");
      tensors[k] = tensor(e);
    }
    Unpacker(L, from_hex(value, path), tensors, path).all();
    return 1;
  }
  lua_createtable(L, 0, static_cast<int>(h.tensors.size()));
  for (const auto& e : h.tensors) {
    push(L, tensor(e));
    lua_setfield(L, -2, e.name.c_str());
  }
  return 1;
}

// torch.io.read_idx(path): an array in MNIST's format, packed by gzip or not
int read_idx(lua_State* L) {
  const std::string path = path_at(L, 1, "read_idx");
  const io::IdxArray a = io::parse_idx(io::read_file(path), path);
  push(L, from_bytes(a.dtype, a.shape, a.data, Device{}));
  pace_collector(L);
  return 1;
}

}  // namespace

void open_io(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg functions[] = {
      {"save", guarded<save>}, {"load", guarded<load>}, {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  static const luaL_Reg readers[] = {{"read_idx", guarded<read_idx>}, {nullptr, nullptr}};
  luaL_newlib(L, readers);
  lua_setfield(L, torch, "io");
}

}  // namespace tycho::lua
