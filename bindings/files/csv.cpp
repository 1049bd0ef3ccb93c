// Tables as text from Lua: torch._csv_open(path, options), which gives a reader with columns, set,
// read and close; torch/utils/tables.lua makes it into data.read_csv and data.CsvDataset. And whole texts.
#include "engine/io/csv.h"

#include <limits>

#include "bindings/show/show.h"
#include "bindings/tools/check.h"

namespace tycho::lua {
namespace {

constexpr char kReader[] = "tycho.csv_reader";

io::CsvReader*& slot(lua_State* L) {
  return *static_cast<io::CsvReader**>(luaL_checkudata(L, 1, kReader));
}
io::CsvReader& reader(lua_State* L) {
  io::CsvReader* const r = slot(L);
  TYCHO_CHECK(Kind::Io, r, "the table is closed");
  return *r;
}

char one_byte(lua_State* L, const char* name, char otherwise) {
  lua_getfield(L, 2, name);
  if (const char* text = lua_tostring(L, -1)) otherwise = *text;
  lua_pop(L, 1);
  return otherwise;
}

int csv_open(lua_State* L) {
  const std::string path(check_text(L, 1, "_csv_open"));
  io::CsvOptions o;
  TYCHO_CHECK(Kind::Argument, lua_istable(L, 2), "_csv_open: wants a table of options");
  o.delimiter = one_byte(L, "delimiter", 0);
  o.quote = one_byte(L, "quote", '"');
  o.comment = one_byte(L, "comment", 0);
  o.decimal = one_byte(L, "decimal", '.');
  if (lua_getfield(L, 2, "header") != LUA_TNIL) o.header = lua_toboolean(L, -1);
  if (lua_getfield(L, 2, "encoding") == LUA_TSTRING) o.encoding = lua_tostring(L, -1);
  lua_getfield(L, 2, "skip_rows");
  o.skip_rows = lua_tointeger(L, -1);
  if (lua_getfield(L, 2, "missing") == LUA_TTABLE)
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TSTRING; ++i, lua_pop(L, 1))
      o.missing.emplace(lua_tostring(L, -1));
  lua_settop(L, 2);
  io::CsvReader** const at =
      static_cast<io::CsvReader**>(lua_newuserdatauv(L, sizeof(io::CsvReader*), 0));
  *at = nullptr;
  luaL_setmetatable(L, kReader);
  *at = new io::CsvReader(path, o);
  return 1;
}

// reader:columns() -> the names, and whether the file has them
int csv_columns(lua_State* L) {
  const io::CsvReader& r = reader(L);
  lua_createtable(L, static_cast<int>(r.columns.size()), 0);
  for (size_t i = 0; i < r.columns.size(); ++i) {
    lua_pushlstring(L, r.columns[i].name.data(), r.columns[i].name.size());
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  lua_pushboolean(L, r.has_header());
  return 2;
}

// reader:set(i, kind, name, classes): kind is "guess", "skip", "bool", "int", "float32", "float64",
// "text" or "class"
int csv_set(lua_State* L) {
  io::CsvReader& r = reader(L);
  const int64_t i = check_integer(L, 2, "set");
  const std::string_view kind = check_text(L, 3, "set");
  TYCHO_CHECK(Kind::Index, i >= 1 && i <= static_cast<int64_t>(r.columns.size()),
              "set: there is no column %lld", static_cast<long long>(i));
  io::CsvColumn& c = r.columns[static_cast<size_t>(i - 1)];
  using Column = io::CsvColumn;
  static const struct {
    std::string_view name;
    Column::Kind kind;
  } kKinds[] = {{"guess", Column::Guess},   {"guess64", Column::Guess}, {"skip", Column::Skip},
                {"bool", Column::Bool},     {"int", Column::Int},       {"float32", Column::Float},
                {"float64", Column::Float}, {"text", Column::Text},     {"class", Column::Class}};
  for (const auto& row : kKinds)
    if (row.name == kind) c.kind = row.kind;
  c.fixed = c.kind != Column::Guess;
  c.short_float = kind != "float64" && kind != "guess64";
  c.name = check_text(L, 4, "set");
  if (lua_istable(L, 5)) {
    c.listed = true;
    for (lua_Integer k = 1; lua_rawgeti(L, 5, k) == LUA_TSTRING; ++k, lua_pop(L, 1)) {
      c.classes.emplace_back(lua_tostring(L, -1));
      c.codes.emplace(c.classes.back(), k);
    }
  }
  return 0;
}

// reader:read(most, pass) -> rows, and for each column its tensor, a list of texts, or {codes,
// classes}; false for one that is left out. With `pass` the rows are only passed over.
int csv_read(lua_State* L) {
  io::CsvReader& r = reader(L);
  const bool whole = lua_isnoneornil(L, 2);
  const int64_t rows =
      r.read(whole ? std::numeric_limits<int64_t>::max() : check_integer(L, 2, "read"));
  const bool pass = lua_toboolean(L, 3);
  lua_settop(L, 1);
  lua_pushinteger(L, rows);
  if (pass) return 1;
  lua_createtable(L, static_cast<int>(r.columns.size()), 0);
  for (size_t i = 0; i < r.columns.size(); ++i) {
    io::CsvColumn& c = r.columns[i];
    switch (c.kind) {
      case io::CsvColumn::Skip:
        lua_pushboolean(L, false);
        break;
      case io::CsvColumn::Text:
        TYCHO_CHECK(Kind::Oom, rows < std::numeric_limits<int>::max(), "too many texts for a list");
        lua_createtable(L, static_cast<int>(rows), 0);
        for (int64_t k = 0; k < rows; ++k) {
          const std::string_view s = r.text(c, k);
          lua_pushlstring(L, s.data(), s.size());
          lua_rawseti(L, -2, k + 1);
        }
        break;
      case io::CsvColumn::Class:
        lua_createtable(L, 2, 0);
        push(L, r.tensor(c));
        lua_rawseti(L, -2, 1);
        lua_createtable(L, static_cast<int>(c.classes.size()), 0);
        for (size_t k = 0; k < c.classes.size(); ++k) {
          lua_pushlstring(L, c.classes[k].data(), c.classes[k].size());
          lua_rawseti(L, -2, static_cast<lua_Integer>(k + 1));
        }
        lua_rawseti(L, -2, 2);
        break;
      default:
        push(L, r.tensor(c));
    }
    if (whole) c.cells.reset();
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  if (whole) {
    delete slot(L);
    slot(L) = nullptr;
  }
  pace_collector(L);
  return 2;
}

int csv_close(lua_State* L) {
  delete slot(L);
  slot(L) = nullptr;
  return 0;
}

// torch._read_text(path, encoding) -> the file's text as UTF-8
int read_text(lua_State* L) {
  const std::string path(check_text(L, 1, "_read_text"));
  const std::string encoding(lua_isnoneornil(L, 2) ? "" : check_text(L, 2, "_read_text"));
  const std::string text = io::read_text(path, encoding);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// torch._looks_like_gbk(bytes)
int looks_like_gbk(lua_State* L) {
  lua_pushboolean(L, io::looks_like_gbk(check_text(L, 1, "_looks_like_gbk")));
  return 1;
}

}  // namespace

void open_csv(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg methods[] = {
      {"columns", guarded<csv_columns>}, {"set", guarded<csv_set>},    {"read", guarded<csv_read>},
      {"close", guarded<csv_close>},     {"__gc", guarded<csv_close>}, {nullptr, nullptr}};
  luaL_newmetatable(L, kReader);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, false);  // hidden: its methods take nothing else as their reader
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  lua_pushcfunction(L, guarded<looks_like_gbk>);
  lua_setfield(L, torch, "_looks_like_gbk");
  lua_pushcfunction(L, guarded<read_text>);
  lua_setfield(L, torch, "_read_text");
  lua_pushcfunction(L, guarded<csv_open>);
  lua_setfield(L, torch, "_csv_open");
}

}  // namespace tycho::lua
