// Reading arguments (see arguments.h): conversions by what a parameter takes, and the errors when
// they fail.
#include "bindings/core/arguments.h"

#include <algorithm>
#include <cstring>

#include "bindings/core/device.h"
#include "bindings/core/edits.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace {

// Names that PyTorch accepts for a parameter besides its own.
constexpr struct {
  const char *alias, *name;
} kAliases[] = {
    {"axis", "dim"},         {"input", "self"},
    {"x", "self"},           {"dims", "dim"},
    {"dim", "dims"},         {"axes", "dim"},
    {"keepdims", "keepdim"}, {"shape", "size"},
    {"sizes", "size"},       {"a", "self"},
    {"b", "other"},          {"stop", "end"},
    {"self", "tensor"},      {"split_size", "split_size_or_sections"},
};

bool is_plain_table(lua_State* L, int i) { return lua_type(L, i) == LUA_TTABLE; }

// One value as a number that counts positions from 1, brought to the engine's count from 0.
bool position(int64_t x, int64_t* out) {
  *out = x > 0 ? x - 1 : x;
  return x != 0;
}

std::string expected(const Op& op, const Param& p, const char* wanted, lua_State* L, int i) {
  std::string room;
  return format("%s: argument \"%s\" must be %s, not %s", public_name(op).c_str(), p.name.c_str(),
                wanted, describe_value(L, i, &room));
}

const char* wanted_text(Take t) {
  switch (t) {
    case Take::Tensor:
      return "a tensor";
    case Take::Operand:
      return "a tensor or a number";
    case Take::Number:
      return "a number";
    case Take::Int:
      return "an integer";
    case Take::Float:
      return "a number";
    case Take::Bool:
      return "a boolean";
    case Take::String:
      return "a string";
    case Take::Ints:
      return "a list of integers";
    case Take::Dim:
      return "a dimension (an integer from 1)";
    case Take::Dims:
      return "a dimension or a list of dimensions";
    case Take::Position:
      return "a position (an integer from 1)";
    case Take::Tensors:
      return "a list of tensors";
    case Take::DType:
      return "a dtype (torch.float32 or \"float32\")";
    case Take::Device:
      return "a device (\"cpu\", \"cuda:0\")";
    case Take::Generator:
      return "a torch.Generator";
  }
  return "";
}

class Reader {
 public:
  Reader(const Given& g, const Op& op, Call& c, KeptArguments& kept)
      : g_(g), L(g.L), op_(op), c_(c), kept_(kept) {}

  // Fills in the call; false with `why` when the arguments do not fit this signature.
  bool read(Mismatch* why) {
    why_ = why;
    const int n = static_cast<int>(op_.params.size());
    int used = 0, taken = 0;  // positional values, packed values
    int given = 0;            // parameters that these fill
    for (int k = 0; k < n; ++k) {
      const Param& p = op_.params[k];
      Value& v = c_.arg[k];
      const int left = g_.count - used, packed_left = g_.packed - taken;
      if (left > 0) {
        given = k + 1;
        const int slot = g_.first + used;
        if (p.gather && gathers(p, slot)) {
          int m = 1;
          while (m < left && gathers(p, slot + m)) ++m;
          if (!gather(p, slot, m, v)) return false;
          used += m;
          continue;
        }
        ++used;
        if (lua_isnil(L, slot)) {
          v = p.standard;
          if (p.required)
            return fail(Kind::Argument, [&] {
              return format("%s: argument \"%s\" is missing", public_name(op_).c_str(),
                            p.name.c_str());
            });
          continue;
        }
        if (!convert(p, slot, v)) return false;
        continue;
      }
      if (packed_left > 0) {
        given = k + 1;
        lua_rawgeti(L, g_.named, taken + 1);
        const bool inner = is_plain_table(L, -1);
        lua_pop(L, 1);
        if (((p.take == Take::Tensors || p.gather) && !inner) ||
            ((p.take == Take::Ints || p.take == Take::Dims) && packed_left > 1 && k + 1 >= n)) {
          if (!list(p, g_.named, taken + 1, packed_left, v)) return false;
          taken = g_.packed;
          continue;
        }
        lua_rawgeti(L, g_.named, ++taken);
        if (!convert(p, lua_gettop(L), v))
          return false;  // stays on the stack: it keeps the value alive
        continue;
      }
      if (g_.named && named(p)) {
        if (lua_isnil(L, -1))
          v = p.standard;
        else if (!convert(p, lua_gettop(L), v))
          return false;
        continue;
      }
      if (p.required)
        return fail(Kind::Argument, [&] {
          return format("%s: argument \"%s\" is missing", public_name(op_).c_str(), p.name.c_str());
        });
      v = p.standard;
    }
    c_.n = n;
    if (used < g_.count)
      return fail(Kind::Argument, [&] {
        return format("%s: takes at most %d arguments, not %d", public_name(op_).c_str(), n,
                      g_.count);
      });
    if (taken < g_.packed)
      return fail(Kind::Argument, [&] {
        return format("%s: takes at most %d arguments, not %d", public_name(op_).c_str(), n,
                      g_.count + g_.packed);
      });
    if (default_device.set) [[unlikely]]
      take_default_device();
    return !g_.named || check_names(given);
  }

 private:
  // A maker that was told no device, and is given no tensor whose device is meant, takes the default.
  void take_default_device() {
    Value* open = nullptr;
    for (size_t k = 0; k < op_.params.size(); ++k) {
      const Param& p = op_.params[k];
      if (p.take == Take::Tensor || p.take == Take::Tensors) return;
      if (p.take == Take::Device && c_.arg[k].is_none()) open = &c_.arg[k];
    }
    if (Device d; open && takes_default_device(L, &d)) *open = Value(d);
  }

  template <class F>
  bool fail(Kind kind, F&& text) {
    why_->kind = kind;
    why_->text = text();
    return false;
  }
  bool wrong(const Param& p, int i) {
    Kind kind = Kind::Argument;
    if (lua_type(L, i) == LUA_TSTRING && p.take == Take::DType) kind = Kind::DType;
    return fail(kind, [&] { return expected(op_, p, wanted_text(p.take), L, i); });
  }

  bool gathers(const Param& p, int i) {
    return p.take == Take::Tensors ? to_impl(L, i) != nullptr
                                   : lua_isinteger(L, i) || lua_type(L, i) == LUA_TNUMBER;
  }

  bool gather(const Param& p, int slot, int m, Value& v) {
    if (p.take == Take::Tensors) {
      auto& list = kept_.tensors.emplace_back();
      for (int i = 0; i < m; ++i) list.emplace_back(to_impl(L, slot + i));
      v = Value(list);
      return true;
    }
    int64_t* to = numbers(m);
    for (int i = 0; i < m; ++i)
      if (!element(p, slot + i, &to[i])) return false;
    set_ints(v, to, m);
    return true;
  }

  int64_t* numbers(int n) {
    if (kept_.numbers.size() + n > 24)
      return kept_.long_lists.emplace_back(std::make_unique<int64_t[]>(n)).get();
    const int at = kept_.numbers.size();
    kept_.numbers.resize(at + n);
    return kept_.numbers.data() + at;
  }
  static void set_ints(Value& v, const int64_t* p, int n) {
    v.tag = Tag::Ints;
    v.n = static_cast<uint32_t>(n);
    v.ints = p;
  }

  // An integer, or a dimension, at stack slot i.
  bool element(const Param& p, int i, int64_t* out) {
    if (p.holes && lua_islightuserdata(L, i) && !lua_touserdata(L, i)) return *out = kNone, true;
    int is_int = lua_isinteger(L, i);
    const int64_t x = is_int || lua_type(L, i) == LUA_TNUMBER ? lua_tointegerx(L, i, &is_int) : 0;
    if (!is_int) return wrong(p, i);
    if (p.take == Take::Dims || p.take == Take::Dim) {
      if (!position(x, out))
        return fail(Kind::Dim, [&] {
          return format("%s: dimension 0: dimensions count from 1; the last one is -1",
                        public_name(op_).c_str());
        });
    } else if (p.take == Take::Position) {
      if (!position(x, out))
        return fail(Kind::Index, [&] {
          return format("%s: index 0: positions count from 1; the last one is -1",
                        public_name(op_).c_str());
        });
    } else {
      *out = x;
    }
    return true;
  }

  // The list part of a table, from element `from` on.
  bool list(const Param& p, int table, int from, int n, Value& v) {
    if (n > 100000) return wrong(p, table);
    if (p.take == Take::Tensors) {
      auto& tensors = kept_.tensors.emplace_back();
      for (int i = 0; i < n; ++i) {
        lua_rawgeti(L, table, from + i);
        Impl* t = to_impl(L, -1);
        if (!t && !(lua_islightuserdata(L, -1) && !lua_touserdata(L, -1)))
          return fail(Kind::Argument, [&] {
            std::string room;
            return format("%s: element %d of \"%s\" must be a tensor, not %s",
                          public_name(op_).c_str(), i + 1, p.name.c_str(),
                          describe_value(L, -1, &room));
          });
        tensors.emplace_back(t);
        lua_pop(L, 1);  // the table keeps it
      }
      v = Value(tensors);
      return true;
    }
    int64_t* to = numbers(n);
    for (int i = 0; i < n; ++i) {
      lua_rawgeti(L, table, from + i);
      if (!element(p, lua_gettop(L), &to[i])) return false;
      lua_pop(L, 1);
    }
    set_ints(v, to, n);
    return true;
  }

  bool convert(const Param& p, int i, Value& v) {
    const int type = lua_type(L, i);
    if (p.optional && type == LUA_TLIGHTUSERDATA && !lua_touserdata(L, i)) {  // torch.none
      v = Value();
      return true;
    }
    switch (p.take) {
      case Take::Operand:
        if (type == LUA_TNUMBER || type == LUA_TBOOLEAN) return number(i, v);
        [[fallthrough]];
      case Take::Tensor:
        if (Impl* t = to_impl(L, i)) {
          v = Value(t);
          return true;
        }
        return wrong(p, i);
      case Take::Number:
        if (type == LUA_TNUMBER || type == LUA_TBOOLEAN) return number(i, v);
        if (Impl* t = to_impl(L, i); t && t->rank == 0) {
          v = is_floating(t->dtype)     ? Value(number_at(t, 0))
              : t->dtype == DType::Bool ? Value(integer_at(t, 0) != 0)
                                        : Value(integer_at(t, 0));
          return true;
        }
        return wrong(p, i);
      case Take::Float:
        if (type != LUA_TNUMBER) return wrong(p, i);
        v = Value(static_cast<double>(lua_tonumber(L, i)));
        return true;
      case Take::Int:
      case Take::Dim:
      case Take::Position: {
        int64_t x;
        if (!element(p, i, &x)) return false;
        v = Value(x);
        return true;
      }
      case Take::Bool:
        if (type != LUA_TBOOLEAN) return wrong(p, i);
        v = Value(static_cast<bool>(lua_toboolean(L, i)));
        return true;
      case Take::String:
        if (type != LUA_TSTRING) return wrong(p, i);
        v = Value(lua_tostring(L, i));
        return true;
      case Take::Ints:
      case Take::Dims:
      case Take::Tensors:
        if (type == LUA_TTABLE) return list(p, i, 1, static_cast<int>(lua_rawlen(L, i)), v);
        if (p.take == Take::Tensors ? to_impl(L, i) != nullptr : type == LUA_TNUMBER)
          return gather(p, i, 1, v);
        return wrong(p, i);
      case Take::DType:
        v.tag = Tag::DType;
        v.i = 0;
        return to_dtype(L, i, &v.dtype) || wrong(p, i);
      case Take::Device:
        if (DType t; type == LUA_TSTRING && parse_dtype(lua_tostring(L, i), &t))
          return wrong(p, i);  // x:to("int64") is another signature
        v.tag = Tag::Device;
        v.i = 0;
        return to_device(L, i, &v.device) || wrong(p, i);
      case Take::Generator:
        v = Value(to_generator(L, i));
        return !v.is_none() || wrong(p, i);
    }
    return false;
  }

  bool number(int i, Value& v) {
    if (lua_isinteger(L, i))
      v = Value(static_cast<int64_t>(lua_tointeger(L, i)));
    else if (lua_type(L, i) == LUA_TBOOLEAN)
      v = Value(static_cast<bool>(lua_toboolean(L, i)));
    else
      v = Value(static_cast<double>(lua_tonumber(L, i)));
    return true;
  }

  // Pushes the named value for a parameter, looking under its aliases too; false pushes nothing.
  bool named(const Param& p) {
    lua_pushlstring(L, p.name.data(), p.name.size());
    if (lua_rawget(L, g_.named) != LUA_TNIL) return true;
    lua_pop(L, 1);
    for (const auto& a : kAliases)
      if (p.name == a.name && !has_param(a.alias)) {
        lua_pushstring(L, a.alias);
        if (lua_rawget(L, g_.named) != LUA_TNIL) return true;
        lua_pop(L, 1);
      }
    return false;
  }
  bool has_param(std::string_view name) {
    return std::any_of(op_.params.begin(), op_.params.end(),
                       [&](const Param& p) { return p.name == name; });
  }
  int param_index(const char* key) {
    for (size_t k = 0; k < op_.params.size(); ++k)
      if (op_.params[k].name == key) return static_cast<int>(k);
    for (const auto& a : kAliases)
      if (!std::strcmp(a.alias, key))
        for (size_t k = 0; k < op_.params.size(); ++k)
          if (op_.params[k].name == a.name) return static_cast<int>(k);
    return -1;
  }

  // Every string key names a parameter that was not given by position, as the first `given` were.
  bool check_names(int given) {
    lua_pushnil(L);
    while (lua_next(L, g_.named)) {
      lua_pop(L, 1);
      if (lua_type(L, -1) != LUA_TSTRING) continue;
      const char* key = lua_tostring(L, -1);
      if (!std::strcmp(key, "out")) continue;
      const int k = param_index(key);
      if (k < 0 && changes_nothing(key)) continue;
      if (k < 0) return fail(Kind::Argument, [&] { return unknown(key); });
      if (k < given)
        return fail(Kind::Argument, [&] {
          return format("%s: argument \"%s\" is given twice", public_name(op_).c_str(), key);
        });
    }
    return true;
  }
  // What PyTorch's scripts say of how memory is to be laid out or copied, which is the engine's own
  // choice here; `inplace` was looked at when the form of the operation was chosen.
  bool changes_nothing(const char* key) {
    for (const char* known : {"layout", "pin_memory", "non_blocking"})
      if (!std::strcmp(key, known)) return true;
    return !std::strcmp(key, "inplace") && op_.inplace != Inplace::No;
  }
  std::string unknown(const char* key) {
    std::string names, nearest;
    int best = 4;
    for (const Param& p : op_.params) {
      names += (names.empty() ? "" : ", ") + p.name;
      const int d = edits(key, p.name, best - 1);
      if (d < best || (p.name.starts_with(key) && std::strlen(key) > 1)) best = d, nearest = p.name;
    }
    std::string text = format("%s: no argument \"%s\"; ", public_name(op_).c_str(), key);
    if (!nearest.empty()) text += "did you mean \"" + nearest + "\"? ";
    return text + "(it has: " + names + ")";
  }

  const Given& g_;
  lua_State* L;
  const Op& op_;
  Call& c_;
  KeptArguments& kept_;
  Mismatch* why_ = nullptr;
};

}  // namespace

bool read_arguments(const Given& given, const Op& op, Call& c, KeptArguments& kept, Mismatch* why) {
  return Reader(given, op, c, kept).read(why);
}

}  // namespace tycho::lua
