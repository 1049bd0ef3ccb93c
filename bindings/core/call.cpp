// The dispatcher: one path from the Lua stack to apply and back, driven by the op table. A function
// value holds its op; arguments are read by the op's signature, positions first, then the named
// ones of a last table. Overloads of a name are tried in turn; the best error is reported.
#include <algorithm>
#include <cstring>
#include <map>

#include "bindings/core/arguments.h"
#include "bindings/core/lua.h"
#include "engine/base/interrupt.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/apply_into.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace {

// All signatures of one public name, in the order they are tried.
struct Overloads {
  std::string name;
  SmallVec<const Op*, 2> ops;
};

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

int push_results(lua_State* L, Call& c) {
  const int n = c.out.size();
  luaL_checkstack(L, n + 4, "too many results");
  if (c.op->scalar_result && n == 1 && c.out[0].numel() == 1) {
    const Impl* t = c.out[0].get();
    if (t->dtype == DType::Bool)
      lua_pushboolean(L, integer_at(t, 0) != 0);
    else if (is_floating(t->dtype))
      lua_pushnumber(L, number_at(t, 0));
    else
      lua_pushinteger(L, integer_at(t, 0));
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

// The tensor of out=, or undefined.
Tensor wanted_out(lua_State* L, int named, const Call& c) {
  lua_pushliteral(L, "out");
  const bool given = lua_rawget(L, named) != LUA_TNIL;
  Impl* out = given ? to_impl(L, -1) : nullptr;
  lua_pop(L, 1);  // the arguments hold it
  TYCHO_CHECK(
      Kind::Argument, !given || !c.inplace,
      "%s_: writes into its first argument, so it takes no out=", public_name(*c.op).c_str());
  TYCHO_CHECK(Kind::Argument, !given || out, "%s: argument \"out\" must be a tensor",
              public_name(*c.op).c_str());
  return out ? Tensor(out) : Tensor();
}

int call_op(lua_State* L) {
  pace_collector(L);
  const auto* overloads = static_cast<const Overloads*>(lua_touserdata(L, lua_upvalueindex(1)));
  bool inplace = lua_toboolean(L, lua_upvalueindex(2));
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
  // F.relu(x, {inplace=true}) is F.relu_(x).
  if (g.named && !inplace && overloads->ops[0]->inplace != Inplace::No &&
      overloads->ops[0]->inplace != Inplace::Only) {
    lua_pushliteral(L, "inplace");
    lua_rawget(L, g.named);
    inplace = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  Mismatch best;
  const int top = lua_gettop(L);
  size_t best_rank = 0;
  for (const Op* op : overloads->ops) {
    if (op->inplace == (inplace ? Inplace::No : Inplace::Only)) continue;
    Call c(*op);
    KeptArguments kept;
    Mismatch why;
    if (!read_arguments(g, *op, c, kept, &why)) {
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
      if (const Tensor out = g.named ? wanted_out(L, g.named, c) : Tensor()) {
        apply_into(c, out);
      } else {
        apply(c);
      }
      mark_leaf(c);
    } catch (Error& e) {
      if (e.op.empty()) e.op = overloads->name;
      lua_settop(L, top);  // what is told of the call are its own arguments
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
  pace_collector(L);  // before the result takes memory: what it replaces may be the next one's
  Call c(row_op(row));
  for (int i = 0; i < 2; ++i) {
    if (Impl* t = to_impl(L, i + 1)) {
      c.arg[i] = Value(t);
    } else if (lua_type(L, i + 1) == LUA_TNUMBER) {
      c.arg[i] = lua_isinteger(L, i + 1) ? Value(static_cast<int64_t>(lua_tointeger(L, i + 1)))
                                         : Value(static_cast<double>(lua_tonumber(L, i + 1)));
    } else if (lua_type(L, i + 1) == LUA_TBOOLEAN) {
      c.arg[i] = Value(lua_toboolean(L, i + 1) != 0);
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
  return 1;
}

int operator_neg(lua_State* L) {
  pace_collector(L);
  const Tensor y = fn::neg(check_tensor(L, 1, "-"));
  push(L, y);
  return 1;
}

int operator_not(lua_State* L) {  // Lua hands the operand of a unary operator over twice
  pace_collector(L);
  static const Op& op = get_op("bitwise_not");
  Call c(op);
  c.arg[c.n++] = Value(check_tensor(L, 1, "~"));
  apply(c);
  push(L, c.out[0]);
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
std::map<std::string, Overloads>& method_names() {
  static std::map<std::string, Overloads> map;
  return map;
}

}  // namespace

std::string name_in_namespace(const std::string& name) {
  for (std::string_view prefix : {"linalg_", "functional_"})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

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
  } else if (lua_type(L, i) == LUA_TLIGHTUSERDATA && !lua_touserdata(L, i)) {
    *room = "torch.none";
  } else if (lua_type(L, i) == LUA_TBOOLEAN) {
    *room = lua_toboolean(L, i) ? "true" : "false";
  } else {
    *room = std::string("a ") + luaL_typename(L, i);
  }
  return room->c_str();
}

// x:f(), which may be x.
static int call_unless_unchanged(lua_State* L) {
  const auto* overloads = static_cast<const Overloads*>(lua_touserdata(L, lua_upvalueindex(1)));
  const Impl* x = lua_gettop(L) == 1 ? to_impl(L, 1) : nullptr;
  return x && overloads->ops[0]->unchanged(x) ? 1 : call_op(L);
}

static void push_overloads(lua_State* L, const Overloads* o, bool inplace) {
  lua_pushlightuserdata(L, const_cast<Overloads*>(o));
  lua_pushboolean(L, inplace);
  lua_pushcclosure(L, o->ops[0]->unchanged ? guarded<call_unless_unchanged> : guarded<call_op>, 2);
}

void push_op(lua_State* L, const Op* op, bool inplace) {
  push_overloads(L, &names().find(public_name(*op))->second, inplace);
}

void open_ops(lua_State* L, int torch) {
  if (names().empty())
    for (const Op* op : all_ops()) {
      Overloads& o = names()[public_name(*op)];
      o.name = public_name(*op);
      o.ops.push_back(op);
      // x:where(condition, other) and torch.where(condition, x, other) have signatures apart.
      if (!(op->where & kMethod)) continue;
      Overloads& m = method_names()[public_name(*op)];
      m.name = o.name;
      m.ops.push_back(op);
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
    uint8_t shown = 0, inplace = 0;     // where op and op_ are found
    for (const Op* op : o.ops) {
      if (op->inplace != Inplace::Only) shown |= op->where;
      if (op->inplace != Inplace::No) inplace |= op->where;
    }
    const auto put = [&](int table, const std::string& as, bool in) {
      push_op(L, o.ops[0], in);
      lua_setfield(L, table, as.c_str());
    };
    if (shown & kFunction) put(torch, name, false);
    const auto put_method = [&](const std::string& as, bool in) {
      push_overloads(L, &method_names()[name], in);
      lua_setfield(L, methods, as.c_str());
    };
    if (shown & kMethod) put_method(name, false);
    if (shown & kFunctional) put(functional, name_in_namespace(name), false);
    if (shown & kLinalg) put(linalg, name_in_namespace(name), false);
    if (inplace & kMethod) put_method(name + "_", true);
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
