// Checkpoints as Tycho wrote them before it had PyTorch's format: a safetensors file whose metadata
// holds the tables, numbers, strings and booleans around the tensors, as hexadecimal text.
// N nil, T true, F false, I123; integer, D1.5; float, S3:abc string, X7; tensor number 7,
// {kv...} table.
#include <charconv>
#include <cmath>

#include "bindings/files/files.h"
#include "engine/io/file.h"

namespace tycho::lua {
namespace {

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

}  // namespace

void push_old_checkpoint(lua_State* L, const std::string& hex, const std::vector<Tensor>& tensors,
                         const std::string& path) {
  Unpacker(L, from_hex(hex, path), tensors, path).all();
}

}  // namespace tycho::lua
