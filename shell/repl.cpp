// The read-evaluate-print loop: reads entries and hands them to the session
// (shell/lua/session.lua), which runs them.
#include "shell/repl.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "shell/native.h"
#include "shell/reader.h"
#include "shell/status.h"
#include "shell/terminal.h"

namespace tycho::shell {
namespace {

line::History* history = nullptr;

class Repl {
 public:
  // The session is at the bottom of the stack.
  Repl(lua_State* L, bool terminal)
      : L_(L),
        terminal_(terminal),
        history_(terminal ? line::History::default_file() : std::string()),
        reader_(make_reader(L, kSession)) {
    history = &history_;
  }
  ~Repl() { history = nullptr; }
  Repl(const Repl&) = delete;

  int loop() {
    std::string entry;
    size_t cursor = std::string::npos;
    while (true) {
      prepare();
      switch (line::read_entry({prompt(), "...> "}, reader_, history_, &entry, cursor)) {
        case line::Ended::End:
          if (entry.empty() || terminal_) return 0;
          std::fprintf(stderr, "error: the input ends inside an entry\n");
          return say_place();
        case line::Ended::Cancel:
          cancelled(entry);
          break;
        case line::Ended::Entry:
          cancels_ = 0;
          if (const size_t wrong = run(entry); wrong != 0) {
            cursor = wrong - 1;
            continue;  // it comes back for editing
          }
          if (field("ended")) return 0;
          // Input that is no terminal is a script: its first error ends it.
          if (!ok_ && !terminal_) return interrupted() ? 130 : say_place();
          line_ += 1 + std::count(entry.begin(), entry.end(), '\n');
      }
      entry.clear();
      cursor = std::string::npos;
    }
  }

 private:
  static constexpr int kSession = 1;

  void prepare() {
    std::fflush(stdout);
    restore_settings();
    if (const std::string text = reader_failure(); !text.empty())
      std::fprintf(stderr, "note: %s\n", text.c_str());
    start_of_line();
    if (said_trouble_ || history_.trouble().empty()) return;
    said_trouble_ = true;
    std::fprintf(stderr, "note: history is not kept: %s\n", history_.trouble().c_str());
  }

  bool call(const char* name, int arguments, int results) {
    lua_getfield(L_, kSession, name);
    lua_insert(L_, -1 - arguments);
    if (lua_pcall(L_, arguments, results, 0) == LUA_OK) return true;
    std::fprintf(stderr, "tycho: %s: %s\n", name, luaL_tolstring(L_, -1, nullptr));
    lua_settop(L_, kSession);
    return false;
  }

  std::string prompt() {
    std::string text = "> ";
    if (call("prompt", 0, 1) && lua_isstring(L_, -1)) text = lua_tostring(L_, -1);
    lua_settop(L_, kSession);
    return text;
  }

  bool field(const char* name) {
    lua_getfield(L_, kSession, name);
    const bool yes = lua_toboolean(L_, -1);
    lua_settop(L_, kSession);
    return yes;
  }

  bool interrupted() {
    bool yes = false;
    if (lua_getfield(L_, kSession, "last_error") == LUA_TTABLE) {
      lua_getfield(L_, -1, "interrupted");
      yes = lua_toboolean(L_, -1);
    }
    lua_settop(L_, kSession);
    return yes;
  }

  // 0, or the byte of the wrong token, from 1.
  size_t run(const std::string& entry) {
    lua_pushlstring(L_, entry.data(), entry.size());
    size_t wrong = 0;
    ok_ = call("typed", 1, 2) && lua_toboolean(L_, -2);
    if (!ok_ && lua_istable(L_, -1)) {
      lua_getfield(L_, -1, "at");
      wrong = lua_isinteger(L_, -1) ? static_cast<size_t>(lua_tointeger(L_, -1)) : entry.size() + 1;
    }
    lua_settop(L_, kSession);
    return terminal_ ? wrong : 0;
  }

  int say_place() const {
    std::fprintf(stderr, "   in the entry at line %td of the input\n", line_);
    return 1;
  }

  void cancelled(const std::string& entry) {
    const auto lines = [](const std::string& s) {
      size_t n = 0;
      bool text = false;
      for (char c : s) {
        if (c != '\n' && c != ' ') n += !text, text = true;
        if (c == '\n') text = false;
      }
      return n;
    };
    if (lines(entry) == 0 && call("cancel", 0, 1)) {  // an inner prompt was left
      const bool left = lua_toboolean(L_, -1);
      lua_settop(L_, kSession);
      if (left) return;
    }
    if (lines(entry) == 0) {
      std::fputs(++cancels_ % 2 == 0 ? "  Ctrl-D or %quit ends the session\n" : "\n", stdout);
      return;
    }
    cancels_ = 0;
    history_.add(entry, !field("private"));
    if (entry.find('\n') == std::string::npos)
      std::fputs("\n", stdout);
    else
      std::printf("  cancelled (%zu line%s kept in history)\n", lines(entry),
                  lines(entry) == 1 ? "" : "s");
  }

  lua_State* L_;
  bool terminal_, ok_ = true, said_trouble_ = false;
  ptrdiff_t line_ = 1;  // of input that is no terminal, where the entry begins
  int cancels_ = 0;     // of an empty entry, one after the other
  line::History history_;
  line::Reader reader_;
};

}  // namespace

line::History* repl_history() { return history; }

int repl(lua_State* L, bool interactive, bool clean) {
  const bool terminal = isatty(0);
  lua_settop(L, 0);
  if (!push_module(L, "shell.session")) {
    std::fprintf(stderr, "tycho: %s\n", lua_tostring(L, -1));
    return 1;
  }
  if (terminal) guard_terminal();
  lua_getfield(L, 1, "start");
  lua_pushboolean(L, terminal || interactive);
  lua_pushboolean(L, terminal);
  lua_pushboolean(L, clean);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    std::fprintf(stderr, "tycho: %s\n", luaL_tolstring(L, -1, nullptr));
    return 1;
  }
  std::fflush(stdout);
  Repl loop(L, terminal);
  return loop.loop();
}

}  // namespace tycho::shell
