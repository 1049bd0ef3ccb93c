// The read-evaluate-print loop: reads entries (several lines when one is incomplete), runs them,
// prints the values of expressions at a terminal, and survives every error.
#include "shell/repl.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "shell/line.h"
#include "shell/run.h"

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

// Values one after another, tensors on lines of their own.
Outcome print_values(lua_State* L) {
  const int n = lua_gettop(L);
  if (n == 0) return Outcome::Ok;
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  return call(L, n, 0);
}

// One line of input; false at its end. Ctrl-C drops the entry begun so far.
bool next_line(LineEditor& editor, std::string* entry) {
  const char* prompt = entry->empty() ? "> " : "...> ";
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
  if (isatty(0)) std::fputs(prompt, stdout), std::fflush(stdout);
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

// `nn F optim data` are at hand at the prompt, as in PyTorch's usual imports.
void set_shortcuts(lua_State* L) {
  static const char code[] =
      "nn = nn or torch.nn F = F or torch.nn.functional optim = optim or torch.optim data = data "
      "or torch.utils.data";
  if (luaL_loadstring(L, code) != LUA_OK || call(L, 0, 0) != Outcome::Ok)
    report(L, "error: ", false);
}

}  // namespace

int repl(lua_State* L, bool interactive) {
  const bool terminal = isatty(0);
  LineEditor editor;
  set_shortcuts(L);
  if (terminal) std::printf("tycho %s  %s\n", TYCHO_VERSION, LUA_RELEASE);
  std::string entry;
  while (next_line(editor, &entry)) {
    if (entry.find_first_not_of(" \n\t") == entry.npos) {
      entry.clear();
      continue;
    }
    const int status = compile(L, entry);
    if (status != LUA_OK && incomplete(L)) {
      lua_pop(L, 1);
      continue;
    }
    editor.remember(entry.substr(0, entry.find_last_not_of("\n") + 1));
    entry.clear();
    Outcome outcome = status == LUA_OK ? call(L, 0, LUA_MULTRET) : Outcome::Failed;
    if (outcome == Outcome::Ok && (terminal || interactive)) outcome = print_values(L);
    std::fflush(stdout);
    if (outcome != Outcome::Ok) {
      report(L, "error: ", false);
      // Input that is no terminal is a script: its first error ends it.
      if (!terminal) return outcome == Outcome::Interrupted ? 130 : 1;
    }
    lua_settop(L, 0);
  }
  if (!entry.empty() && !terminal) {
    std::fprintf(stderr, "error: the input ends inside an entry\n");
    return 1;
  }
  return 0;
}

}  // namespace tycho::shell
