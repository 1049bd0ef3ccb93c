// The read-evaluate-print loop: reads entries (several lines when one is incomplete), runs them,
// prints the values of expressions, and survives every error.
#include "shell/repl.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "engine/base/interrupt.h"

namespace tycho::shell {
namespace {

bool incomplete(lua_State* L) {
  size_t n;
  const char* text = lua_tolstring(L, -1, &n);
  return n >= 5 && !std::strcmp(text + n - 5, "<eof>");
}

// Compiles an entry, as an expression when it is one; leaves the chunk or the message on the stack.
int compile(lua_State* L, const std::string& entry) {
  const std::string expression = "return " + entry + "\n";
  if (luaL_loadbuffer(L, expression.data(), expression.size(), "=stdin") == LUA_OK) return LUA_OK;
  lua_pop(L, 1);
  const std::string chunk = entry + "\n";
  return luaL_loadbuffer(L, chunk.data(), chunk.size(), "=stdin");
}

void print_error(lua_State* L) {
  std::fprintf(stderr, "error: %s\n", luaL_tolstring(L, -1, nullptr));
  lua_pop(L, 2);
}

}  // namespace

int repl(lua_State* L) {
  const bool terminal = isatty(0);
  if (terminal) std::printf("tycho %s  %s\n", TYCHO_VERSION, LUA_RELEASE);
  std::string entry;
  char line[4096];
  while (true) {
    if (terminal) std::fputs(entry.empty() ? "> " : "...> ", stdout), std::fflush(stdout);
    if (!std::fgets(line, sizeof line, stdin)) break;
    entry += line;
    if (entry.back() == '\n' && entry.find_first_not_of(" \n\t") == entry.npos) {
      entry.clear();
      continue;
    }
    const int status = compile(L, entry);
    if (status != LUA_OK && incomplete(L)) {
      lua_pop(L, 1);
      continue;
    }
    entry.clear();
    if (status != LUA_OK) {
      print_error(L);
      continue;
    }
    const int base = lua_gettop(L);
    const int result = lua_pcall(L, 0, LUA_MULTRET, 0);
    lua_sethook(L, nullptr, 0, 0);
    clear_interrupt();
    if (result != LUA_OK) {
      print_error(L);
      lua_settop(L, 0);
      continue;
    }
    for (int i = base, n = lua_gettop(L); i <= n; ++i)
      std::printf("%s%s", luaL_tolstring(L, i, nullptr), i < n ? "\t" : "\n"), lua_pop(L, 1);
    std::fflush(stdout);
    lua_settop(L, 0);
  }
  if (terminal) std::puts("");
  return 0;
}

}  // namespace tycho::shell
