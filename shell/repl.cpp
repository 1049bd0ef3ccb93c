// The read-evaluate-print loop: reads entries (several lines when one is incomplete), runs them,
// prints the values of expressions, and survives every error.
#include "shell/repl.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/interrupt.h"
#include "shell/line.h"

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

// Values one after another, tensors on lines of their own. A __tostring that fails is an error, not
// the end.
void print_values(lua_State* L) {
  const int n = lua_gettop(L);
  if (n == 0) return;
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  if (lua_pcall(L, n, 0, 0) != LUA_OK) print_error(L);
  std::fflush(stdout);
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
    clear_interrupt();
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
  if (luaL_dostring(L, code) != LUA_OK) print_error(L);
}

}  // namespace

int repl(lua_State* L) {
  LineEditor editor;
  set_shortcuts(L);
  if (isatty(0)) std::printf("tycho %s  %s\n", TYCHO_VERSION, LUA_RELEASE);
  std::string entry;
  bool failed = false;
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
    if (status != LUA_OK) {
      print_error(L);
      failed = true;
      continue;
    }
    const int result = lua_pcall(L, 0, LUA_MULTRET, 0);
    lua_sethook(L, nullptr, 0, 0);
    clear_interrupt();
    if (result != LUA_OK) {
      print_error(L);
      failed = true;
    } else {
      print_values(L);
    }
    lua_settop(L, 0);
    // Input that is no terminal is a script: its first error ends it.
    if (failed && !isatty(0)) break;
  }
  if (!entry.empty() && !isatty(0)) {
    std::fprintf(stderr, "error: the input ends inside an entry\n");
    failed = true;
  }
  return failed && !isatty(0) ? 1 : 0;
}

}  // namespace tycho::shell
