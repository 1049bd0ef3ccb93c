// Writing down a failing call: cheap enough for loops that catch errors, and no tensor is kept.
#include "bindings/core/failed_call.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tycho::lua {
namespace {

class Record {
 public:
  explicit Record(lua_State* L) : L(L) { text_.reserve(256); }

  // The user's frame: the innermost that is not C and not torch itself; fills `where`.
  std::string take(int top) {
    lua_Debug ar;
    std::string where;
    int user = -1, level = 0;
    for (; lua_getstack(L, level, &ar); ++level) {
      lua_getinfo(L, "Sl", &ar);
      if (ar.currentline <= 0) continue;
      const std::string_view source = ar.source;
      if (source.starts_with("=torch/nn/")) note_module(&ar);
      if (source.starts_with("=torch/") || source.starts_with("=shell/")) continue;
      where = std::string(ar.short_src) + ":" + std::to_string(ar.currentline);
      text_ += "S " + std::to_string(ar.currentline) + " " + one_line(ar.source) + "\n";
      user = level;
      break;
    }
    if (user < 0) return where;
    lua_Debug below;
    if (user > 0 && lua_getstack(L, user - 1, &below) && lua_getinfo(L, "nS", &below) &&
        below.name) {
      misspelt_ = !std::strcmp(below.namewhat, "metamethod") && !std::strcmp(below.name, "index") &&
                  top == 2 && lua_type(L, 2) == LUA_TSTRING;
      text_ += std::string("F ") + below.name + " " + below.namewhat + "\n";
      if (std::string_view(below.source).starts_with("=torch/nn/")) called_ = below.name;
    }
    const int inner = modules_;
    if (inner) {
      for (int more = level + 1; more < level + 60 && lua_getstack(L, more, &ar); ++more) {
        lua_getinfo(L, "S", &ar);
        if (std::string_view(ar.source).starts_with("=torch/nn/")) note_module(&ar);
      }
      name_layer(inner);
    }
    take_arguments(top, user);
    return where;
  }
  FailedCall result(std::string where) { return {std::move(where), layer_, text_}; }

 private:
  static std::string one_line(const char* s) {
    std::string out(s, strnlen(s, 4000));
    for (char& c : out)
      if (c == '\n') c = '\1';  // a chunk may be called by its whole text
    return out;
  }

  // A running module: local `module` of the function of torch.nn that calls it. Stays on the stack.
  void note_module(const lua_Debug* ar) {
    if (modules_ >= 24 || !lua_checkstack(L, 12)) return;
    const char* name = lua_getlocal(L, ar, 1);
    if (!name) return;
    bool fresh = !std::strcmp(name, "module") && lua_type(L, -1) == LUA_TTABLE &&
                 raw(lua_gettop(L), "_order");
    if (fresh) lua_pop(L, 1);
    fresh = fresh && !(modules_ && lua_rawequal(L, -1, -2));
    if (fresh)
      ++modules_;
    else
      lua_pop(L, 1);
  }
  // Pushes table[key] when it is not nil.
  bool raw(int table, const char* key) {
    lua_pushstring(L, key);
    if (lua_rawget(L, table) != LUA_TNIL) return true;
    lua_pop(L, 1);
    return false;
  }

  // The name of module `child` below `parent`, as in state_dict.
  bool find(int parent, int child, int depth, std::string* path) {
    if (depth > 4 || !lua_checkstack(L, 8)) return false;
    const int top = lua_gettop(L);
    const bool ordered = raw(parent, "_order");
    const int n = static_cast<int>(lua_rawlen(L, ordered ? top + 1 : parent));
    for (int pass = 0; pass < 2; ++pass)
      for (int i = 1; i <= n && i <= 4000; ++i) {
        lua_settop(L, top + ordered);
        if (ordered)
          lua_rawgeti(L, top + 1, i);
        else
          lua_pushinteger(L, i);
        std::string name;
        if (lua_isinteger(L, -1))
          name = std::to_string(lua_tointeger(L, -1) - 1);
        else if (lua_type(L, -1) == LUA_TSTRING)
          name = lua_tostring(L, -1);
        else
          continue;
        if (lua_rawget(L, parent) != LUA_TTABLE) continue;
        const bool same = lua_rawequal(L, -1, child);
        if (same || (pass == 1 && find(lua_gettop(L), child, depth + 1, path))) {
          *path = path->empty() ? name : name + "." + *path;
          lua_settop(L, top);
          return true;
        }
      }
    lua_settop(L, top);
    return false;
  }

  // Modules stand on the stack, innermost first.
  void name_layer(int below_user) {
    const int first = lua_gettop(L) - modules_ + 1;
    for (int k = modules_ - 1; k > 0; --k) {
      std::string part;
      if (!find(first + k, first + k - 1, 0, &part)) {
        layer_.clear();
        continue;
      }
      layer_ += (layer_.empty() ? "" : ".") + part;
    }
    if (layer_.empty() && modules_ == 1) layer_ = called_;  // fc1(x)
    std::string kind = "module";
    if (lua_getmetatable(L, first)) {
      if (raw(lua_gettop(L), "_name")) {
        if (lua_type(L, -1) == LUA_TSTRING) kind = one_line(lua_tostring(L, -1));
        lua_pop(L, 1);
      }
      lua_pop(L, 1);
    }
    lua_pop(L, modules_);
    text_ += "L " + std::to_string(below_user) + " " + kind + " " + layer_ + "\n";
  }

  void take_arguments(int top, int user) {
    lua_Debug ar;
    lua_getstack(L, 0, &ar);
    lua_getinfo(L, "S", &ar);
    int parameters = 0;
    if (top < 0) {  // raised from Lua: the arguments of the function of torch that did
      if (user < 2 || !lua_getstack(L, 1, &ar) || !lua_getinfo(L, "u", &ar)) return;
      parameters = ar.nparams;
    }
    for (int i = 1; i <= (top < 0 ? parameters : top) && i <= 8; ++i) {
      if (top < 0) {
        if (!lua_getlocal(L, &ar, i)) break;
      } else {
        lua_pushvalue(L, i);
      }
      value(std::to_string(i), 0);
      lua_pop(L, 1);
    }
    name_tensors(user);
    for (Line& l : lines_) {
      text_ += "A " + l.slot + " " + l.what;
      if (l.tensor) text_ += " " + l.name;
      text_ += "\n";
    }
  }

  static std::string tensor_text(const Impl* t) {
    const Tensor x(const_cast<Impl*>(t));
    return std::string("T ") + dtype_name(t->dtype) + " " + device_name(t->device) +
           (shown_contiguous(t) ? " 1 " : " 0 ") + (t->requires_grad || t->node ? "1 " : "0 ") +
           to_string(x.shape()) + " " + to_string(shown_strides(t));
  }

  // The value on top of the stack.
  void value(const std::string& slot, int depth) {
    if (lines_.size() >= 24) return;
    Line l{slot, {}, {}, nullptr};
    if (const Impl* t = to_impl(L, -1)) {
      l.what = tensor_text(t);
      l.tensor = t;
    } else if (lua_type(L, -1) == LUA_TNUMBER) {
      lua_pushvalue(L, -1);
      l.what = std::string("N ") + lua_tostring(L, -1);
      lua_pop(L, 1);
    } else if (lua_type(L, -1) == LUA_TSTRING) {
      l.what = "S " + one_line(lua_tostring(L, -1)).substr(0, 80);
    } else if (lua_type(L, -1) == LUA_TBOOLEAN) {
      l.what = lua_toboolean(L, -1) ? "B true" : "B false";
    } else if (lua_type(L, -1) == LUA_TTABLE && raw(lua_gettop(L), "_order")) {
      lua_pop(L, 1);
      l.what = "? module";
    } else if (lua_type(L, -1) == LUA_TTABLE && depth == 0) {
      const int n = static_cast<int>(lua_rawlen(L, -1));
      l.what = "{ " + std::to_string(n);
      lines_.push_back(std::move(l));
      for (int i = 1; i <= n && i <= 12; ++i) {
        lua_rawgeti(L, -1, i);
        value(slot + "." + std::to_string(i), 1);
        lua_pop(L, 1);
      }
      lua_pushnil(L);
      for (int k = 0; k < 24 && lua_next(L, -2); ++k) {
        if (lua_type(L, -2) == LUA_TSTRING)
          value(slot + "." + one_line(lua_tostring(L, -2)).substr(0, 40), 1);
        lua_pop(L, 1);
        if (k == 23) lua_pop(L, 1);
      }
      return;
    } else if (lua_type(L, -1) == LUA_TTABLE && list_of_numbers(&l.what)) {
    } else if (lua_type(L, -1) == LUA_TNIL) {
      l.what = "-";
    } else if (DType t; lua_type(L, -1) == LUA_TUSERDATA && to_dtype(L, -1, &t)) {
      l.what = std::string("D ") + dtype_name(t);
    } else {
      l.what = std::string("? ") + luaL_typename(L, -1);
    }
    lines_.push_back(std::move(l));
  }
  bool list_of_numbers(std::string* out) {
    const int n = static_cast<int>(lua_rawlen(L, -1));
    std::string text = "I [";
    for (int i = 1; i <= n && i <= 16; ++i) {
      const bool number = lua_rawgeti(L, -1, i) == LUA_TNUMBER;
      if (number) text += std::string(i > 1 ? ", " : "") + lua_tostring(L, -1);
      lua_pop(L, 1);
      if (!number) return false;
    }
    *out = text + "]";
    return true;
  }

  // Names of the user's locals and upvalues that hold one of the tensors.
  void name_tensors(int user) {
    // With no tensor among the arguments (x.sum(), a misspelt method) any variable may be meant.
    const bool all = misspelt_ || std::none_of(lines_.begin(), lines_.end(),
                                               [](const Line& l) { return l.tensor; });
    int left = 30;
    const auto give = [&](const char* name) {
      const Impl* t = name[0] == '(' ? nullptr : to_impl(L, -1);
      if (t && all && left-- > 0) text_ += "V " + std::string(name) + " " + tensor_text(t) + "\n";
      if (t)
        for (Line& l : lines_)
          if (l.tensor == t) l.name = name;
      lua_pop(L, 1);
    };
    lua_Debug ar;
    if (!lua_checkstack(L, 4) || !lua_getstack(L, user, &ar)) return;
    const char* name;
    if (lua_getinfo(L, "f", &ar)) {
      for (int i = 1; (name = lua_getupvalue(L, -1, i)); ++i) give(name);
      lua_pop(L, 1);
    }
    for (int i = 1; (name = lua_getlocal(L, &ar, i)); ++i) give(name);
  }

  struct Line {
    std::string slot, what, name;
    const Impl* tensor;
  };
  lua_State* L;
  std::string text_, layer_, called_;
  std::vector<Line> lines_;
  int modules_ = 0;
  bool misspelt_ = false;
};

}  // namespace

FailedCall failed_call(lua_State* L, int top) {
  if (!lua_checkstack(L, 30)) return {};
  Record record(L);
  std::string where = record.take(top);
  return record.result(std::move(where));
}

}  // namespace tycho::lua
