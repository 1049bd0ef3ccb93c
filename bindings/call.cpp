// The dispatcher: one path from the Lua stack to apply and back, driven by the op table. A function
// value holds its op; arguments are read by the op's signature, positions first, then the named
// ones of a last table. Overloads of a name are tried in turn; the best error is reported.
#include <algorithm>
#include <cstring>
#include <map>

#include "bindings/lua.h"
#include "engine/base/interrupt.h"
#include "engine/ops/apply.h"
#include "engine/ops/elementwise.h"

namespace tycho::lua {
namespace {

// All signatures of one public name, in the order they are tried.
struct Overloads {
  std::string name;
  SmallVec<const Op*, 2> ops;
};

// Names that PyTorch accepts for a parameter besides its own.
constexpr struct {
  const char *alias, *name;
} kAliases[] = {
    {"axis", "dim"},   {"input", "self"}, {"x", "self"},           {"dims", "dim"},
    {"dim", "dims"},   {"axes", "dim"},   {"keepdims", "keepdim"}, {"shape", "size"},
    {"sizes", "size"}, {"a", "self"},     {"b", "other"},
    {"stop", "end"},   {"self", "tensor"}, {"split_size", "split_size_or_sections"},
};

// The arguments of one Lua call before a signature is chosen.
struct Given {
  lua_State* L;
  int first, count;  // positional values: stack slots first .. first + count - 1
  int named = 0;     // the table of named arguments, 0: none
  int packed = 0;    // positional values that stand in the named table's list part
};

// What a converted call keeps alive, besides the Lua stack.
struct Room {
  SmallVec<int64_t, 24> numbers;  // list elements; never grows while in use
  std::vector<std::unique_ptr<int64_t[]>> long_lists;
  std::vector<std::vector<Tensor>> tensors;
};

bool is_plain_table(lua_State* L, int i) { return lua_type(L, i) == LUA_TTABLE; }

bool has_string_key(lua_State* L, int i) {
  // Begin after the list part: named arguments stand behind it.
  const auto n = static_cast<lua_Integer>(lua_rawlen(L, i));
  if (n > 0)
    lua_pushinteger(L, n);
  else
    lua_pushnil(L);
  while (lua_next(L, i)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) {
      lua_pop(L, 1);
      return true;
    }
  }
  return false;
}

// One value as a number that counts positions from 1, brought to the engine's count from 0.
bool position(int64_t x, int64_t* out) {
  *out = x > 0 ? x - 1 : x;
  return x != 0;
}

// A failed conversion says why; the message is built only when it is shown.
struct Mismatch {
  Kind kind = Kind::Argument;
  std::string text;
};

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
  Reader(const Given& g, const Op& op, Call& c, Room& room)
      : g_(g), L(g.L), op_(op), c_(c), room_(room) {}

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
    return !g_.named || check_names(given);
  }

 private:
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
    return p.take == Take::Tensors ? to_impl(L, i) != nullptr : lua_isinteger(L, i) || lua_type(L, i) == LUA_TNUMBER;
  }

  bool gather(const Param& p, int slot, int m, Value& v) {
    if (p.take == Take::Tensors) {
      auto& list = room_.tensors.emplace_back();
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
    if (room_.numbers.size() + n > 24)
      return room_.long_lists.emplace_back(std::make_unique<int64_t[]>(n)).get();
    const int at = room_.numbers.size();
    room_.numbers.resize(at + n);
    return room_.numbers.data() + at;
  }
  static void set_ints(Value& v, const int64_t* p, int n) {
    v.tag = Tag::Ints;
    v.n = static_cast<uint32_t>(n);
    v.ints = p;
  }

  // An integer, or a dimension, at stack slot i.
  bool element(const Param& p, int i, int64_t* out) {
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
      auto& tensors = room_.tensors.emplace_back();
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
          v = is_floating(t->dtype)     ? Value(read_double(t, 0))
              : t->dtype == DType::Bool ? Value(read_int(t, 0) != 0)
                                        : Value(read_int(t, 0));
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
      if (k < 0) return fail(Kind::Argument, [&] { return unknown(key); });
      if (k < given)
        return fail(Kind::Argument, [&] {
          return format("%s: argument \"%s\" is given twice", public_name(op_).c_str(), key);
        });
    }
    return true;
  }
  std::string unknown(const char* key) {
    std::string names, nearest;
    size_t best = 4;
    for (const Param& p : op_.params) {
      names += (names.empty() ? "" : ", ") + p.name;
      const size_t d = distance(key, p.name);
      if (d < best || (p.name.starts_with(key) && std::strlen(key) > 1)) best = d, nearest = p.name;
    }
    std::string text = format("%s: no argument \"%s\"; ", public_name(op_).c_str(), key);
    if (!nearest.empty()) text += "did you mean \"" + nearest + "\"? ";
    return text + "(it has: " + names + ")";
  }

 public:
  static size_t distance(std::string_view a, std::string_view b) {  // Levenshtein
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
      size_t corner = row[0]++;
      for (size_t j = 1; j <= b.size(); ++j) {
        const size_t up = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
        corner = up;
      }
    }
    return row[b.size()];
  }

 private:
  const Given& g_;
  lua_State* L;
  const Op& op_;
  Call& c_;
  Room& room_;
  Mismatch* why_ = nullptr;
};

int push_results(lua_State* L, Call& c) {
  const int n = c.out.size();
  luaL_checkstack(L, n + 4, "too many results");
  if (c.op->scalar_result && n == 1 && c.out[0].numel() == 1) {
    const Impl* t = c.out[0].get();
    if (t->dtype == DType::Bool)
      lua_pushboolean(L, read_int(t, 0) != 0);
    else if (is_floating(t->dtype))
      lua_pushnumber(L, read_double(t, 0));
    else
      lua_pushinteger(L, read_int(t, 0));
    return 1;
  }
  for (int i = 0; i < n; ++i) {
    // A result that is an argument itself stays the same Lua value.
    if (c.out[i] && c.arg[0].tag == Tag::Tensor && c.out[i].get() == c.arg[0].t &&
        to_impl(L, 1) == c.arg[0].t)
      lua_pushvalue(L, 1);
    else
      push(L, c.out[i]);
  }
  pace_collector(L);
  return n;
}

// `requires_grad` among a maker's arguments: the new tensor becomes a leaf.
void mark_leaf(Call& c) {
  const auto& params = c.op->params;
  if (params.empty() || params.back().name != "requires_grad" || !c.flag(c.n - 1)) return;
  TYCHO_CHECK(Kind::DType, is_floating(c.out[0].dtype()),
              "%s: only floating point tensors can require grad, not %s",
              public_name(*c.op).c_str(), dtype_name(c.out[0].dtype()));
  c.out[0]->requires_grad = true;
}

void store_out(lua_State* L, int named, Call& c) {
  lua_getfield(L, named, "out");
  Impl* out = to_impl(L, -1);
  TYCHO_CHECK(Kind::Argument, out, "%s: argument \"out\" must be a tensor",
              public_name(*c.op).c_str());
  const Tensor to(out);
  TYCHO_CHECK(Kind::Autograd, !(mode.grad && (out->requires_grad || c.out[0]->requires_grad)),
              "%s: out= does not support gradients", public_name(*c.op).c_str());
  TYCHO_CHECK(Kind::Shape, to.shape() == c.out[0].shape(), "%s: out has shape %s, the result %s",
              public_name(*c.op).c_str(), to_string(to.shape()).c_str(),
              to_string(c.out[0].shape()).c_str());
  TYCHO_CHECK(Kind::DType, can_cast(c.out[0].dtype(), to.dtype()),
              "%s: the result is %s and cannot be stored in %s", public_name(*c.op).c_str(),
              dtype_name(c.out[0].dtype()), dtype_name(to.dtype()));
  if (c.out[0].get() != out) {
    copy_raw(to, c.out[0]);
    ++to->storage->version;
  }
  c.out.clear();
  c.out.push_back(to);
  lua_pop(L, 1);
}

int call_op(lua_State* L) {
  const auto* overloads = static_cast<const Overloads*>(lua_touserdata(L, lua_upvalueindex(1)));
  const bool inplace = lua_toboolean(L, lua_upvalueindex(2));
  Given g{L, 1, lua_gettop(L)};
  // A last table is named arguments when it has string keys (an empty one where no list is
  // expected).
  if (g.count > 0 && lua_type(L, g.count) == LUA_TTABLE) {
    if (has_string_key(L, g.count)) {
      g.named = g.count--;
      g.packed = static_cast<int>(lua_rawlen(L, g.named));
    } else if (g.count == 1) {
      const Take first =
          overloads->ops[0]->params.empty() ? Take::Tensors : overloads->ops[0]->params[0].take;
      if (first != Take::Tensors && first != Take::Ints &&
          first != Take::Dims) {  // f{a, b}: all arguments
        g.named = g.count--;
        g.packed = static_cast<int>(lua_rawlen(L, g.named));
      }
    } else if (lua_rawlen(L, g.count) == 0) {
      // x:f({}): an empty list where one fits, else no named arguments.
      bool wants_list = false;
      for (const Op* op : overloads->ops)
        if (static_cast<int>(op->params.size()) >= g.count) {
          const Take t = op->params[g.count - 1].take;
          wants_list = wants_list || t == Take::Ints || t == Take::Dims || t == Take::Tensors;
        }
      if (!wants_list) --g.count;
    }
  }
  Mismatch best;
  const int top = lua_gettop(L);
  size_t best_rank = 0;
  for (const Op* op : overloads->ops) {
    if (op->inplace == (inplace ? Inplace::No : Inplace::Only)) continue;
    Call c(*op);
    Room room;
    Mismatch why;
    if (!Reader(g, *op, c, room).read(&why)) {
      lua_settop(L, top);
      // The most telling reason: not a mere count, and from the first signature.
      const size_t rank = why.kind != Kind::Argument                      ? 3
                          : why.text.find("no argument") != why.text.npos ? 1
                                                                          : 2;
      if (best.text.empty() || rank > best_rank) best = std::move(why), best_rank = rank;
      continue;
    }
    c.inplace = inplace;
    if (inplace)
      TYCHO_CHECK(Kind::Argument, c.arg[0].tag == Tag::Tensor,
                  "%s_: the first argument must be a tensor", overloads->name.c_str());
    try {
      apply(c);
      mark_leaf(c);
      if (g.named) {
        lua_pushliteral(L, "out");
        const bool out = lua_rawget(L, g.named) != LUA_TNIL;
        lua_pop(L, 1);
        if (out) store_out(L, g.named, c);
      }
    } catch (Error& e) {
      if (e.op.empty()) e.op = overloads->name;
      throw;
    }
    return push_results(L, c);
  }
  Error e(best.kind, best.text);
  e.op = overloads->name;
  throw e;
}

// Operators come here without names, tables or overloads: two values, one row.
template <Row row>
int operator_row(lua_State* L) {
  Call c(row_op(row));
  for (int i = 0; i < 2; ++i) {
    if (Impl* t = to_impl(L, i + 1)) {
      c.arg[i] = Value(t);
    } else if (lua_type(L, i + 1) == LUA_TNUMBER) {
      c.arg[i] = lua_isinteger(L, i + 1) ? Value(static_cast<int64_t>(lua_tointeger(L, i + 1)))
                                         : Value(static_cast<double>(lua_tonumber(L, i + 1)));
    } else {
      std::string room;
      fail(Kind::Argument, format("%s: the %s operand must be a tensor or a number, not %s",
                                  public_name(*c.op).c_str(), i ? "right" : "left",
                                  describe_value(L, i + 1, &room)));
    }
  }
  c.n = 2;
  try {
    apply(c);
  } catch (Error& e) {
    if (e.op.empty()) e.op = public_name(*c.op);
    throw;
  }
  push(L, c.out[0]);
  pace_collector(L);
  return 1;
}

int operator_neg(lua_State* L) {
  const Tensor y = fn::neg(check_tensor(L, 1, "-"));
  push(L, y);
  pace_collector(L);
  return 1;
}

int operator_not(lua_State* L) {  // Lua hands the operand of a unary operator over twice
  static const Op& op = get_op("bitwise_not");
  Call c(op);
  c.arg[c.n++] = Value(check_tensor(L, 1, "~"));
  apply(c);
  push(L, c.out[0]);
  pace_collector(L);
  return 1;
}

int compare_error(lua_State* L) {
  std::string room;
  describe_value(L, 1, &room);
  fail(
      Kind::Argument,
      "Lua makes one boolean of <, <=, > and >=, so they cannot compare tensors element by element",
      "a:lt(b)  -- also le, gt, ge: a mask; torch.equal(a, b): one boolean");
}

int tensor_eq(lua_State* L) {
  Impl *a = to_impl(L, 1), *b = to_impl(L, 2);
  if (a && a == b) {
    lua_pushboolean(L, true);
    return 1;
  }
  fail(Kind::Argument,
       "Lua makes one boolean of ==, so it cannot compare tensors element by element",
       "a:eq(b)  -- a mask; torch.equal(a, b): one boolean");
}

std::map<std::string, Overloads>& names() {
  static std::map<std::string, Overloads> map;
  return map;
}

}  // namespace

std::string public_name(const Op& op) {
  const std::string_view name = op.name;
  return std::string(name.substr(0, name.find('.')));
}

const char* describe_value(lua_State* L, int i, std::string* room) {
  if (Impl* t = to_impl(L, i)) {
    *room = "a tensor (" + describe(Tensor(t)) + ")";
  } else if (lua_type(L, i) == LUA_TSTRING) {
    *room = "the string \"" + std::string(lua_tostring(L, i)).substr(0, 40) + "\"";
  } else if (lua_type(L, i) == LUA_TNUMBER) {
    lua_pushvalue(L, i);
    *room = "the number " + std::string(lua_tostring(L, -1));
    lua_pop(L, 1);
  } else if (lua_isnoneornil(L, i)) {
    *room = "nil";
  } else if (lua_type(L, i) == LUA_TBOOLEAN) {
    *room = lua_toboolean(L, i) ? "true" : "false";
  } else {
    *room = std::string("a ") + luaL_typename(L, i);
  }
  return room->c_str();
}

void push_op(lua_State* L, const Op* op, bool inplace) {
  const auto it = names().find(public_name(*op));
  lua_pushlightuserdata(L, &it->second);
  lua_pushboolean(L, inplace);
  lua_pushcclosure(L, guarded<call_op>, 2);
}

void open_ops(lua_State* L, int torch) {
  if (names().empty())
    for (const Op* op : all_ops()) {
      Overloads& o = names()[public_name(*op)];
      o.name = public_name(*op);
      o.ops.push_back(op);
    }
  torch = lua_absindex(L, torch);
  const auto space = [&](const char* name) {
    if (lua_getfield(L, torch, name) != LUA_TTABLE) {
      lua_pop(L, 1);
      lua_newtable(L);
      lua_pushvalue(L, -1);
      lua_setfield(L, torch, name);
    }
    return lua_gettop(L);
  };
  space("nn");
  if (lua_getfield(L, -1, "functional") != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "functional");
  }
  const int functional = lua_gettop(L), linalg = space("linalg");
  push_methods(L);
  const int methods = lua_gettop(L);
  for (auto& entry : names()) {
    const std::string& name = entry.first;
    const Overloads& o = entry.second;  // no structured binding: clang 14 cannot capture those
    uint8_t shown = 0, inplace = 0;  // where op and op_ are found
    for (const Op* op : o.ops) {
      if (op->inplace != Inplace::Only) shown |= op->where;
      if (op->inplace != Inplace::No) inplace |= op->where;
    }
    const auto put = [&](int table, const std::string& as, bool in) {
      push_op(L, o.ops[0], in);
      lua_setfield(L, table, as.c_str());
    };
    if (shown & kFunction) put(torch, name, false);
    if (shown & kMethod) put(methods, name, false);
    if (shown & kFunctional) put(functional, name, false);
    if (shown & kLinalg) put(linalg, name, false);
    if (inplace & kMethod) put(methods, name + "_", true);
    if (inplace & kFunction) put(torch, name + "_", true);
    if (inplace & kFunctional) put(functional, name + "_", true);
  }
  // Operators, into the tensors' metatable.
  luaL_getmetatable(L, "tycho.tensor");
  static const luaL_Reg operators[] = {{"__add", guarded<operator_row<Row::add>>},
                                       {"__sub", guarded<operator_row<Row::sub>>},
                                       {"__mul", guarded<operator_row<Row::mul>>},
                                       {"__div", guarded<operator_row<Row::div>>},
                                       {"__pow", guarded<operator_row<Row::pow>>},
                                       {"__unm", guarded<operator_neg>},
                                       {"__bnot", guarded<operator_not>},
                                       {"__lt", guarded<compare_error>},
                                       {"__le", guarded<compare_error>},
                                       {"__eq", guarded<tensor_eq>},
                                       {nullptr, nullptr}};
  luaL_setfuncs(L, operators, 0);
  static const struct {
    const char *event, *op;
  } by_name[] = {{"__idiv", "floor_divide"},      {"__mod", "remainder"},
                 {"__band", "bitwise_and"},       {"__bor", "bitwise_or"},
                 {"__bxor", "bitwise_xor"},       {"__shl", "bitwise_left_shift"},
                 {"__shr", "bitwise_right_shift"}};
  for (const auto& o : by_name)
    if (const Op* op = find_op(o.op)) {
      push_op(L, op, false);
      lua_setfield(L, -2, o.event);
    }
  lua_settop(L, torch);
}

}  // namespace tycho::lua
