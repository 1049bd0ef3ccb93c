// Lua's side of showing: torch._show(x, options), torch._print_options(table), torch._summary(x)
// and torch._terminal().
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "bindings/show/show.h"
#include "engine/cpu/reduce/summary.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace {

bool flag(lua_State* L, int table, const char* name, bool otherwise) {
  if (lua_type(L, table) != LUA_TTABLE) return otherwise;
  const bool given = lua_getfield(L, table, name) != LUA_TNIL;
  const bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return given ? on : otherwise;
}

double number(lua_State* L, int table, const char* name, double otherwise) {
  if (lua_type(L, table) != LUA_TTABLE) return otherwise;
  lua_getfield(L, table, name);
  const double x = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : otherwise;
  lua_pop(L, 1);
  return x;
}

// {nan = {"\27[31m", "\27[0m"}, ..} on the stack's top.
Mark mark(lua_State* L, const char* name) {
  Mark m;
  if (lua_getfield(L, -1, name) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    if (const char* s = lua_tostring(L, -2)) m.before = s;
    if (const char* s = lua_tostring(L, -1)) m.after = s;
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
  return m;
}

int lua_show(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "_show");
  lua_settop(L, 2);
  ShowStyle style;
  const int window = print_options.width > 0 ? print_options.width : window_columns();
  style.width = static_cast<int>(number(L, 2, "width", window > 0 ? window : 80));
  style.width = std::min(std::max(style.width, 20), 100000);
  style.lines = static_cast<int64_t>(number(L, 2, "lines", static_cast<double>(window_lines())));
  style.full = flag(L, 2, "full", std::isinf(print_options.threshold));
  style.line = flag(L, 2, "line", false);
  style.values = flag(L, 2, "values", true);
  if (lua_type(L, 2) == LUA_TTABLE) {
    lua_getfield(L, 2, "name");
    if (const char* name = lua_tostring(L, -1)) style.name = name;
    lua_pop(L, 1);
    if (lua_getfield(L, 2, "marks") == LUA_TTABLE) {
      style.nan = mark(L, "nan");
      style.inf = mark(L, "inf");
      style.label = mark(L, "label");
      style.faint = mark(L, "faint");
    }
    lua_pop(L, 1);
  }
  const std::string text =
      print_options.pytorch && !style.line ? show_as_pytorch(x) : show_tensor(x, style);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// Sets what the table holds, and returns a table of all options; for "pytorch", whether that style is set, which
// the text of every module asks.
int lua_print_options(lua_State* L) {
  PrintOptions& o = print_options;
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushboolean(L, o.pytorch);
    return 1;
  }
  if (lua_type(L, 1) == LUA_TTABLE) {
    o.precision = static_cast<int>(number(L, 1, "precision", o.precision));
    o.threshold = number(L, 1, "threshold", o.threshold);
    o.edge = static_cast<int>(number(L, 1, "edgeitems", o.edge));
    o.width = static_cast<int>(number(L, 1, "linewidth", o.width));
    o.scientific = static_cast<int>(number(L, 1, "sci_mode", o.scientific));
    o.pytorch = flag(L, 1, "pytorch", o.pytorch);
  }
  lua_createtable(L, 0, 6);
  const auto integer = [&](const char* name, int value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
  };
  integer("precision", o.precision);
  integer("edgeitems", o.edge);
  integer("linewidth", o.width);
  integer("sci_mode", o.scientific);
  lua_pushnumber(L, o.threshold);
  lua_setfield(L, -2, "threshold");
  lua_pushboolean(L, o.pytorch);
  lua_setfield(L, -2, "pytorch");
  return 1;
}

int lua_summary(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "_summary");
  TYCHO_CHECK(Kind::Value, has_values(x.get()), "_summary: a tensor without values");
  const cpu::Summary s = cpu::summarize(fetch(x).get());
  lua_createtable(L, 0, 10);
  const auto count = [&](const char* name, int64_t n) {
    lua_pushinteger(L, n);
    lua_setfield(L, -2, name);
  };
  const auto real = [&](const char* name, double v) {
    lua_pushnumber(L, v);
    lua_setfield(L, -2, name);
  };
  count("nan", s.nan);
  count("plus", s.plus);
  count("minus", s.minus);
  count("zero", s.zero);
  count("finite", s.finite);
  real("min", s.min);
  real("max", s.max);
  real("mean", s.mean);
  real("std", s.spread);
  lua_createtable(L, cpu::kSummaryBins, 0);
  for (int i = 0; i < cpu::kSummaryBins; ++i) {
    lua_pushinteger(L, s.bins[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "bins");
  return 1;
}

// {terminal = is standard output one?, colours = may they be used?, columns =, rows =}; columns and
// rows are absent where they are unknown.
int lua_terminal(lua_State* L) {
  lua_createtable(L, 0, 3);
  const bool terminal = isatty(STDOUT_FILENO);
  lua_pushboolean(L, terminal);
  lua_setfield(L, -2, "terminal");
  const char *term = std::getenv("TERM"), *no = std::getenv("NO_COLOR");
  lua_pushboolean(L, terminal && term && *term && std::strcmp(term, "dumb") != 0 && !(no && *no));
  lua_setfield(L, -2, "colours");
  winsize size;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    lua_pushinteger(L, size.ws_col);
    lua_setfield(L, -2, "columns");
    lua_pushinteger(L, size.ws_row);
    lua_setfield(L, -2, "rows");
  }
  return 1;
}

}  // namespace

int window_columns() {
  winsize size;
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

// The header, the hint and the next prompt are in sight, too.
int64_t window_lines() {
  winsize size;
  const bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return std::max(7, (known && size.ws_row > 0 ? size.ws_row : 24) - 4);
}

void open_show(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_show", guarded<lua_show>},
                                       {"_print_options", guarded<lua_print_options>},
                                       {"_summary", guarded<lua_summary>},
                                       {"_terminal", guarded<lua_terminal>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  open_pictures(L, torch);
  open_images(L, torch);
  open_csv(L, torch);
  open_text(L, torch);
  open_directories(L, torch);
}

}  // namespace tycho::lua
