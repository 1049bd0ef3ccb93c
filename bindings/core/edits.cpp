// The distance between two names (see edits.h).
#include "bindings/core/edits.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "bindings/tools/check.h"

namespace tycho::lua {
namespace {

// A bit for each character that occurs (some share one).
uint64_t characters(std::string_view text) {
  uint64_t bits = 0;
  for (const char c : text) bits |= uint64_t{1} << (static_cast<unsigned char>(c) & 63);
  return bits;
}

}  // namespace

int edits(std::string_view a, std::string_view b, int most) {
  constexpr int kLongest = 64;  // what follows is not looked at: names are shorter
  const int n = static_cast<int>(std::min<size_t>(a.size(), kLongest));
  const int m = static_cast<int>(std::min<size_t>(b.size(), kLongest));
  const int far = most + 1;
  if (std::abs(n - m) > most) return far;
  // One edit brings, or takes away, one character at most.
  const uint64_t in_a = characters(a.substr(0, kLongest)), in_b = characters(b.substr(0, kLongest));
  if (std::popcount(in_a & ~in_b) > most || std::popcount(in_b & ~in_a) > most) return far;
  int rows[3][kLongest + 1];
  int *two = rows[0], *one = rows[1], *row = rows[2];
  for (int j = 0; j <= m; ++j) one[j] = j;
  for (int i = 1; i <= n; ++i) {
    int least = row[0] = i;
    for (int j = 1; j <= m; ++j) {
      row[j] = std::min({one[j - 1] + (a[i - 1] != b[j - 1]), one[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least > most) return far;
    int* const oldest = std::exchange(two, one);
    one = std::exchange(row, oldest);
  }
  return one[m];
}

int lua_edits(lua_State* L) {
  const std::string_view a = check_text(L, 1, "_edits"), b = check_text(L, 2, "_edits");
  const int64_t most = std::clamp<int64_t>(check_integer(L, 3, "_edits"), 0, 1000);
  lua_pushinteger(L, edits(a, b, static_cast<int>(most)));
  return 1;
}

int lua_near(lua_State* L) {
  const std::string_view name = check_text(L, 1, "_near");
  luaL_checktype(L, 2, LUA_TTABLE);
  const auto most = static_cast<int>(std::clamp<int64_t>(check_integer(L, 3, "_near"), 0, 64));
  const auto small = [](std::string_view text, char* room) {
    std::transform(text.begin(), text.end(), room,
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::string_view(room, text.size());
  };
  char rooms[2][256];
  lua_newtable(L);
  if (name.size() > sizeof rooms[0]) return 1;
  const std::string_view wanted = small(name, rooms[0]);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) continue;
    size_t size;
    const char* key = lua_tolstring(L, -2, &size);
    if (size > sizeof rooms[1] || key == name) continue;
    const int d = edits(wanted, small({key, size}, rooms[1]), most);
    if (d > most) continue;
    lua_pushvalue(L, -2);
    lua_pushinteger(L, d);
    lua_rawset(L, 4);
  }
  return 1;
}

}  // namespace tycho::lua
