// The read-evaluate-print loop: reads entries and hands them to the session
// (shell/lua/session.lua), which runs them.
#include "shell/repl.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "shell/line.h"
#include "shell/terminal.h"

namespace tycho::shell {
namespace {

// Calls session.NAME(text); results many values stay on the stack. False when it raised.
bool ask(lua_State* L, const char* name, const std::string& text, int results) {
  lua_getfield(L, 1, name);
  lua_pushlstring(L, text.data(), text.size());
  if (lua_pcall(L, 1, results, 0) == LUA_OK) return true;
  std::fprintf(stderr, "tycho: %s: %s\n", name, luaL_tolstring(L, -1, nullptr));
  lua_settop(L, 1);
  return false;
}

std::string prompt_text(lua_State* L) {
  std::string text = "> ";
  if (ask(L, "prompt", "", 1) && lua_isstring(L, -1)) text = lua_tostring(L, -1);
  lua_settop(L, 1);
  return text;
}

bool is_done(lua_State* L, const std::string& text) {
  const bool done = !ask(L, "is_done", text, 1) || lua_toboolean(L, -1);
  lua_settop(L, 1);
  return done;
}

// Was the last error a stop by Ctrl-C?
bool interrupted(lua_State* L) {
  bool yes = false;
  if (lua_getfield(L, 1, "last_error") == LUA_TTABLE) {
    lua_getfield(L, -1, "interrupted");
    yes = lua_toboolean(L, -1);
  }
  lua_settop(L, 1);
  return yes;
}

// One line of input; false at its end. Ctrl-C drops the entry begun so far.
bool next_line(lua_State* L, LineEditor& editor, std::string* entry) {
  const std::string prompt = entry->empty() ? prompt_text(L) : "...> ";
  std::string line;
  if (editor.usable()) {
    switch (editor.read(prompt, &line)) {
      case Key::End:
        return false;
      case Key::Cancel:
        entry->clear();
        return true;
      case Key::Line:
        break;
    }
    *entry += line + "\n";
    return true;
  }
  if (isatty(0)) std::fputs(prompt.c_str(), stdout), std::fflush(stdout);
  for (int c; (c = std::getchar()) != EOF;) {
    line += static_cast<char>(c);
    if (c == '\n') break;
  }
  if (line.empty() && std::ferror(stdin) && errno == EINTR) {  // Ctrl-C while waiting
    std::clearerr(stdin);
    entry->clear();
    return true;
  }
  *entry += line;
  return !line.empty();
}

}  // namespace

int repl(lua_State* L, bool interactive, bool clean) {
  const bool terminal = isatty(0);
  LineEditor editor;
  lua_settop(L, 0);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "shell.session");
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    std::fprintf(stderr, "tycho: %s\n", lua_tostring(L, -1));
    return 1;
  }
  lua_getfield(L, 1, "start");
  lua_pushboolean(L, terminal || interactive);
  lua_pushboolean(L, terminal);
  lua_pushboolean(L, clean);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    std::fprintf(stderr, "tycho: %s\n", luaL_tolstring(L, -1, nullptr));
    return 1;
  }
  std::fflush(stdout);
  std::string entry;
  while (next_line(L, editor, &entry)) {
    if (!is_done(L, entry)) continue;
    const std::string text = entry.substr(0, entry.find_last_not_of("\n") + 1);
    entry.clear();
    editor.remember(text);
    const bool ok = ask(L, "run", text, 1) && lua_toboolean(L, -1);
    lua_settop(L, 1);
    std::fflush(stdout);
    restore_settings();
    lua_getfield(L, 1, "ended");
    const bool ended = lua_toboolean(L, -1);
    lua_settop(L, 1);
    if (ended) return 0;
    // Input that is no terminal is a script: its first error ends it.
    if (!ok && !terminal) return interrupted(L) ? 130 : 1;
  }
  if (!entry.empty() && !terminal) {
    std::fprintf(stderr, "error: the input ends inside an entry\n");
    return 1;
  }
  return 0;
}

}  // namespace tycho::shell
