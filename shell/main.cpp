// tycho: runs a script, code from the command line or standard input, or opens the prompt.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "bindings/lua.h"
#include "engine/base/interrupt.h"
#include "engine/cpu/level.h"
#include "shell/repl.h"

namespace tycho::shell {
namespace {

constexpr char kUsage[] =
    "usage: tycho [options] [FILE.lua [arguments]]\n"
    "  FILE.lua     run a script; `arg` holds its arguments\n"
    "  -            run what comes from standard input\n"
    "  -e CODE      run a piece of code\n"
    "  -i           open the prompt afterwards\n"
    "  --version    versions, libraries and the CPU features in use\n"
    "  --help       this text\n"
    "Without a file, the prompt opens.\n";

// Ctrl-C: native work looks at a flag; a hook stops Lua code at its next instruction, and stays
// armed until the error has reached the entry, so that a pcall in a loop cannot swallow it for
// ever.
void stop_lua(lua_State* L, lua_Debug*) {
  clear_interrupt();
  lua::raise(L, Error(Kind::Interrupt, "interrupted"));
}

void on_interrupt(int) {
  request_interrupt();
  if (lua::running)
    lua_sethook(lua::running, stop_lua, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

int traceback(lua_State* L) {
  if (lua_type(L, 1) == LUA_TTABLE || lua_type(L, 1) == LUA_TUSERDATA) {
    // An error object keeps its fields; the traceback joins them.
    if (lua_getmetatable(L, 1)) {
      lua_pop(L, 1);
      if (lua_type(L, 1) == LUA_TTABLE) {
        luaL_traceback(L, L, nullptr, 1);
        lua_setfield(L, 1, "traceback");
      }
      lua_settop(L, 1);
      return 1;
    }
  }
  const char* message = luaL_tolstring(L, 1, nullptr);
  luaL_traceback(L, L, message, 1);
  return 1;
}

void report(lua_State* L) {
  const char* text = luaL_tolstring(L, -1, nullptr);
  std::fprintf(stderr, "tycho: %s\n", text);
  lua_pop(L, 1);
  if (lua_type(L, -1) == LUA_TTABLE) {
    lua_getfield(L, -1, "traceback");
    if (lua_isstring(L, -1)) std::fprintf(stderr, "%s\n", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

bool is_interrupt(lua_State* L) {
  if (lua_type(L, -1) != LUA_TTABLE) return false;
  lua_getfield(L, -1, "kind");
  const bool yes = lua_isstring(L, -1) && !std::strcmp(lua_tostring(L, -1), "interrupt");
  lua_pop(L, 1);
  return yes;
}

// Runs the chunk on the stack with its arguments; the exit status.
int run(lua_State* L, int arguments) {
  const int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, traceback);
  lua_insert(L, base);
  const int status = lua_pcall(L, arguments, 0, base);
  lua_sethook(L, nullptr, 0, 0);
  clear_interrupt();
  lua_remove(L, base);
  if (status == LUA_OK) return 0;
  const bool interrupted = is_interrupt(L);
  report(L);
  return interrupted ? 130 : 1;
}

int load_failed(lua_State* L) {
  std::fprintf(stderr, "tycho: %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  return 1;
}

void set_arg(lua_State* L, int argc, char** argv, int script) {
  lua_createtable(L, argc - script, script + 1);
  for (int i = 0; i < argc; ++i) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

int version() {
  std::printf("tycho %s\n%s\n", TYCHO_VERSION, LUA_RELEASE);
  std::printf("%s\n", library_versions().c_str());
  std::printf("cpu level %s\n", cpu::level_name(cpu::level()));
  return 0;
}

struct Options {
  const char *code = nullptr, *file = nullptr;
  int script = 0;  // argv index of the file
  bool interactive = false;
};

int start(lua_State* L, int argc, char** argv) {
  Options o;
  int i = 1;
  for (; i < argc; ++i) {
    const char* a = argv[i];
    if (!std::strcmp(a, "--version")) return version();
    if (!std::strcmp(a, "--help") || !std::strcmp(a, "-h")) return std::fputs(kUsage, stdout), 0;
    if (!std::strcmp(a, "-i")) {
      o.interactive = true;
    } else if (!std::strcmp(a, "-e")) {
      if (++i == argc) return std::fputs("tycho: -e wants a piece of code\n", stderr), 1;
      o.code = argv[i];
    } else if (a[0] == '-' && a[1] && std::strcmp(a, "-")) {
      std::fprintf(stderr, "tycho: no option \"%s\"\n%s", a, kUsage);
      return 1;
    } else {
      o.file = a;
      o.script = i;
      break;
    }
  }
  set_arg(L, argc, argv, o.file ? o.script : 0);
  int status = 0;
  if (o.code) {
    if (luaL_loadbuffer(L, o.code, std::strlen(o.code), "=(command line)") != LUA_OK)
      return load_failed(L);
    status = run(L, 0);
  }
  if (o.file && status == 0) {
    const bool input = !std::strcmp(o.file, "-");
    if (luaL_loadfile(L, input ? nullptr : o.file) != LUA_OK) {
      status = load_failed(L);
    } else {
      for (int k = o.script + 1; k < argc; ++k) lua_pushstring(L, argv[k]);
      status = run(L, argc - o.script - 1);
    }
  }
  if (o.interactive || (!o.code && !o.file)) return repl(L);
  return status;
}

}  // namespace
}  // namespace tycho::shell

int main(int argc, char** argv) {
  using namespace tycho;
  lua_State* L = lua::new_state();
  if (!L) return std::fputs("tycho: out of memory\n", stderr), 1;
  luaL_openlibs(L);
  lua::open_torch(L);
  lua_settop(L, 0);
  struct sigaction action = {};
  action.sa_handler = shell::on_interrupt;
  action.sa_flags = 0;  // reads return, so that the hook comes to run
  sigaction(SIGINT, &action, nullptr);
  const int status = shell::start(L, argc, argv);
  std::fflush(stdout);
  lua_close(L);
  return status;
}
