// Error objects: what the engine throws becomes a table with kind, op, hint, where and the text.
#include <cstring>

#include "bindings/core/device.h"
#include "bindings/core/failed_call.h"
#include "bindings/core/interrupt.h"
#include "engine/dist/types.h"

namespace tycho::lua {
namespace {

const char kErrorMeta[] = "tycho.error";

// The text without any look at the source: what remains when torch.explain cannot run.
std::string plain_text(lua_State* L) {
  std::string text;
  const auto field = [&](const char* name) -> const char* {
    lua_pushstring(L, name);
    lua_rawget(L, 1);
    const char* s = lua_tostring(L, -1);
    lua_pop(L, 1);  // the table keeps the string
    return s;
  };
  if (lua_type(L, 1) != LUA_TTABLE) return "error";
  if (const char* where = field("where"); where && *where) text = std::string(where) + ": ";
  if (const char* message = field("message")) text += message;
  if (const char* hint = field("hint"); hint && *hint) text += std::string("\n  try: ") + hint;
  return text;
}

// Calls torch.explain's function `name` with the values on the stack; false leaves nothing.
bool explain(lua_State* L, const char* name, int arguments) {
  const int base = lua_gettop(L) - arguments;
  lua_pushvalue(L, lua_upvalueindex(1));  // require
  lua_pushliteral(L, "torch.explain");
  if (lua_pcall(L, 1, 1, 0) != LUA_OK || lua_type(L, -1) != LUA_TTABLE ||
      lua_getfield(L, -1, name) != LUA_TFUNCTION) {
    lua_settop(L, base);
    return false;
  }
  lua_insert(L, base + 1);
  lua_pop(L, 1);
  if (lua_pcall(L, arguments, 1, 0) == LUA_OK) return true;
  lua_settop(L, base);
  return false;
}

int error_tostring(lua_State* L) {
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  if (explain(L, "text", 1) && lua_type(L, -1) == LUA_TSTRING) return 1;
  const std::string text = plain_text(L);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// err.operands, err.fixes and the other fields that are worked out when they are first read.
int error_index(lua_State* L) {
  static constexpr const char* kLazy[] = {"operands", "shapes", "code", "line", "span", "fixes"};
  if (lua_type(L, 2) != LUA_TSTRING || lua_type(L, 1) != LUA_TTABLE) return 0;
  const char* key = lua_tostring(L, 2);
  for (const char* lazy : kLazy)
    if (!std::strcmp(key, lazy)) {
      lua_settop(L, 2);
      return explain(L, "field", 2) ? 1 : 0;
    }
  return 0;
}

void push_error(lua_State* L, const Error& e, int top) {
  luaL_checkstack(L, 8, nullptr);
  const FailedCall call = failed_call(L, top);
  lua_createtable(L, 0, 7);
  const auto set = [&](const char* name, const std::string& value) {
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, name);
  };
  set("kind", kind_name(e.kind));
  std::string op = e.op, text = e.text;
  if (op.empty()) {  // the text begins with the name, when it has one
    const size_t colon = text.find(": ");
    if (colon != text.npos && text.find(' ') > colon) op = text.substr(0, colon);
    if (!op.empty() && op.back() == '_') op.pop_back();
  } else if (e.kind == Kind::Distributed) {
    // "rank 2 died": who, not in what.
  } else if (text.compare(0, op.size(), op) != 0 ||
             (text[op.size()] != ':' && text[op.size()] != '_')) {
    text = op + ": " + text;
  } else if (const size_t colon = text.find(": "); text[op.size()] == '_' && colon != text.npos &&
                                                   colon > op.size() + 1 &&
                                                   text.find(' ') > colon) {
    text.replace(0, colon, op);  // a part of the operation: "scatter_number: .."
  }
  if (!call.layer.empty() && text.compare(0, op.size() + 1, op + ":") == 0)
    text.insert(op.size(), " '" + call.layer + "'");
  set("op", op);
  set("message", text);
  set("hint", e.hint);
  set("where", call.where);
  set("_call", call.text);
  if (const auto* d = dynamic_cast<const dist::DistError*>(&e)) {
    set("reason", dist::reason_name(d->reason));
    lua_pushinteger(L, d->seq);
    lua_setfield(L, -2, "seq");
    lua_createtable(L, static_cast<int>(d->ranks.size()), 0);
    for (size_t i = 0; i < d->ranks.size(); ++i) {
      lua_pushinteger(L, d->ranks[i]);
      lua_seti(L, -2, static_cast<lua_Integer>(i) + 1);
    }
    lua_setfield(L, -2, "ranks");
  }
  luaL_setmetatable(L, kErrorMeta);
}

}  // namespace

int raise(lua_State* L, const Error& e) {
  if (e.kind == Kind::Interrupt) note_stop(L);  // an operation saw the stop before the hook did
  if (e.kind == Kind::Oom) {
    Error more = e;
    Device device;
    const size_t at = e.text.find("out of memory on cuda:");
    if (at != std::string::npos)
      device.number = static_cast<int8_t>(std::atoi(e.text.c_str() + at + 22));
    if (const std::string holders = largest_holders_on(L, device); !holders.empty())
      more.text += "; most is held by " + holders;
    push_error(L, more, lua_gettop(L));
    return lua_error(L);
  }
  push_error(L, e, lua_gettop(L));
  return lua_error(L);
}

// torch._raise(text, level, kind), which stands for `error` in the half written in Lua: the text
// becomes an error object; the level is not needed, because the place is the user's line.
int raise_text(lua_State* L) {
  if (lua_type(L, 1) == LUA_TTABLE && luaL_getmetafield(L, 1, "__name") != LUA_TNIL) {
    lua_settop(L, 1);  // an error object on its way up
    return lua_error(L);
  }
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, 1) == LUA_TSTRING, "error: wants a text, not %s",
              describe_value(L, 1, &room));
  Kind kind = Kind::Argument;
  if (const char* name = lua_tostring(L, 3))
    for (int k = 0; k <= static_cast<int>(Kind::Interrupt); ++k)
      if (!std::strcmp(name, kind_name(static_cast<Kind>(k)))) kind = static_cast<Kind>(k);
  const Error e(kind, lua_tostring(L, 1));
  push_error(L, e, -1);
  return lua_error(L);
}

void open_error(lua_State* L) {
  luaL_newmetatable(L, kErrorMeta);
  static constexpr luaL_Reg kMethods[] = {
      {"__tostring", error_tostring}, {"__index", error_index}, {nullptr, nullptr}};
  lua_getglobal(L, "require");
  luaL_setfuncs(L, kMethods, 1);
  lua_pushliteral(L, "error");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}

}  // namespace tycho::lua
