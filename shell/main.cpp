// tycho: runs a script, code from the command line or standard input, or opens the prompt.
#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/core/device.h"
#include "bindings/core/lua.h"
#include "bindings/dist/dist.h"
#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "shell/kernel.h"
#include "shell/launch.h"
#include "shell/line/editor.h"
#include "shell/native.h"
#include "shell/repl.h"
#include "shell/run.h"
#include "shell/status.h"

namespace tycho::shell {
namespace {

constexpr char kUsage[] =
    "usage: tycho [options] [FILE.lua [arguments]]\n"
    "  FILE.lua     run a script; `arg` holds its arguments\n"
    "  -            run what comes from standard input\n"
    "  -e CODE      run a piece of code\n"
    "  -i           open the prompt afterwards\n"
    "  --clean      open the prompt without ~/.config/tycho/init.lua\n"
    "  learn [NAME] a lesson at the prompt, or the course; --class DIR, --report FILE, --sheet "
    "LESSON\n"
    "  kernel -f FILE  the kernel of a notebook; kernel --install registers it\n"
    "  doctor       what is found on this machine, and what to install for the rest\n"
    "  run -n N FILE.lua  start N ranks that work together; tycho run --help\n"
    "  --check DIR  check lessons\n"
    "  --docs DIR   write the reference as pages for a browser\n"
    "  --lua-annotations DIR  write definition files for the Lua language server\n"
    "  --version    versions, libraries and the CPU features in use\n"
    "  --help       this text\n"
    "Without a file, the prompt opens.\n";

// Says on stderr what the error on top of the stack is, and where it happened; pops it.
void report(lua_State* L) {
  push_trace(L);
  if (push_module(L, "shell.report")) {
    lua_getfield(L, -1, "script");
    lua_replace(L, -2);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    if (call(L, 2, 1) == Outcome::Ok && lua_isstring(L, -1))
      std::fprintf(stderr, "%s\n", lua_tostring(L, -1));
  }
  lua_pop(L, 3);
}

// Waits for what devices have still to do; an error there that nobody has heard of is on the stack.
Outcome finish_devices(lua_State* L) {
  push_module(L, "torch");
  lua_getfield(L, -1, "cuda");
  lua_getfield(L, -1, "_finish");
  lua_replace(L, -3);
  lua_pop(L, 1);
  return call(L, 0, 0);
}

// The exit status after an error, which is on the stack and is told.
int failed(lua_State* L, Outcome outcome) {
  std::fflush(stdout);
  lua::script_failed(L);
  report(L);
  return outcome == Outcome::Interrupted ? 130 : 1;
}

// Runs the chunk on the stack with its arguments; the exit status.
int run(lua_State* L, int arguments) {
  Outcome outcome = call(L, arguments, 0);
  if (outcome == Outcome::Ok) outcome = finish_devices(L);
  return outcome == Outcome::Ok ? 0 : failed(L, outcome);
}

// os.exit(status, close): a device's error is told before, and takes the place of a good end.
int exit_program(lua_State* L) {
  lua_settop(L, 2);
  const Outcome outcome = finish_devices(L);
  if (outcome != Outcome::Ok) {
    const int status = failed(L, outcome);
    const bool good = lua_isnoneornil(L, 1) || (lua_isboolean(L, 1) && lua_toboolean(L, 1)) ||
                      (lua_isnumber(L, 1) && lua_tonumber(L, 1) == 0);
    if (good) {
      lua_pushinteger(L, status);
      lua_replace(L, 1);
    }
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 2, 0);
  return 0;
}

void watch_exits(lua_State* L) {
  lua_getglobal(L, "os");
  lua_getfield(L, -1, "exit");
  lua_pushcclosure(L, exit_program, 1);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}

// Says what does not compile: the message on top of the stack, with its line and what to write there.
int load_failed(lua_State* L) {
  if (push_module(L, "shell.report")) {
    lua_getfield(L, -1, "uncompiled");
    lua_pushvalue(L, -3);
    if (call(L, 1, 1) == Outcome::Ok && lua_isstring(L, -1)) lua_replace(L, -3);
  }
  lua_settop(L, 1);
  std::fprintf(stderr, "tycho: %s\n", lua_tostring(L, 1));
  lua_settop(L, 0);
  return 1;
}

// What error messages show of code that is no file's.
void remember_chunk(lua_State* L, const char* name, const std::string& text) {
  push_module(L, "torch");
  lua_getfield(L, -1, "_chunks");
  lua_pushlstring(L, text.data(), text.size());
  lua_setfield(L, -2, name);
  lua_settop(L, 0);
}

std::string rest_of(std::FILE* file) {
  std::string text;
  char room[16384];
  while (const size_t n = std::fread(room, 1, sizeof room, file)) text.append(room, n);
  return text;
}

// A list of lists in a script is a text to Lua, several names for x.shape get one value, and a tensor
// as a condition is always true: notes say so.
void look_for_lists(lua_State* L, const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (!file) return;
  const std::string text = rest_of(file);
  std::fclose(file);
  bool found = text.find(":any()") != text.npos || text.find(":all()") != text.npos;
  for (size_t at = text.find("[["); at != text.npos && !found; at = text.find("[[", at + 1))
    found = at + 2 < text.size() && std::strchr(" 0123456789.-[", text[at + 2]);
  for (const char* word : {".shape", ":size()"})
    for (size_t at = text.find(word); at != text.npos && !found; at = text.find(word, at + 1)) {
      const size_t line = text.rfind('\n', at) + 1;  // npos + 1: the first line
      const size_t equals = text.find('=', line), comma = text.find(',', line);
      found = comma < equals && equals < at;
    }
  if (!found || !push_module(L, "torch.foreign")) return;
  lua_getfield(L, -1, "lists");
  lua_pushlstring(L, text.data(), text.size());
  lua_pushstring(L, path);
  call(L, 2, 0);
}

// A chunk of standard input, as luaL_loadfile would load it.
int load_input(lua_State* L) {
  std::string text = rest_of(stdin);
  if (text[0] == '#') text.insert(0, "--");
  remember_chunk(L, "stdin", text);
  return luaL_loadbuffer(L, text.data(), text.size(), "=stdin");
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
  std::printf("cpu: kernels for %s (this CPU has %s), %d threads\n", cpu::level_name(cpu::level()),
              cpu::cpu_features(), get_num_threads());
  return 0;
}

struct Options {
  std::vector<const char*> code;
  const char* file = nullptr;
  int script = 0;  // argv index of the file
  bool interactive = false, clean = false;
};

// `--bold-name args` is the file shell/options/bold_name.lua, which returns a function of the words
// after it that returns the exit status, or true to open the prompt; a first word like `learn`
// works the same way.
bool push_program(lua_State* L, const char* word) {
  std::string name = word + std::strspn(word, "-");
  for (char& c : name) {
    if (c == '-') c = '_';
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  if (name.empty() || !push_module(L, ("shell.options." + name).c_str())) {
    const bool missing = name.empty() || std::strstr(lua_tostring(L, -1), "no embedded file");
    if (!missing) std::fprintf(stderr, "tycho: %s\n", lua_tostring(L, -1));
    lua_settop(L, 0);
    return false;
  }
  return true;
}

int run_program(lua_State* L, int argc, char** argv, int first) {
  for (int i = first; i < argc; ++i) lua_pushstring(L, argv[i]);
  if (call(L, argc - first, 1) == Outcome::Ok) {
    if (lua_isboolean(L, -1) && lua_toboolean(L, -1)) return repl(L, true, false);
    if (lua_isfunction(L, -1) && lua_pcall(L, 0, 1, 0) != LUA_OK) {
      std::fprintf(stderr, "tycho: %s\n", luaL_tolstring(L, -1, nullptr));
      return 1;
    }
    const int status = lua_isinteger(L, -1) ? static_cast<int>(lua_tointeger(L, -1)) : 0;
    return lua_settop(L, 0), status;
  }
  std::fflush(stdout);
  report(L);
  return 1;
}

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
      o.code.push_back(argv[i]);
    } else if (!std::strcmp(a, "--clean")) {
      o.clean = true;
    } else if (a[0] == '-' && a[1]) {
      if (!std::strncmp(a, "--", 2) && push_program(L, a)) return run_program(L, argc, argv, i + 1);
      std::fprintf(stderr, "tycho: no option \"%s\"\n%s", a, kUsage);
      return 1;
    } else {
      if (i == 1 && access(a, F_OK) != 0 && push_program(L, a))
        return run_program(L, argc, argv, i + 1);
      o.file = a;
      o.script = i;
      break;
    }
  }
  set_arg(L, argc, argv, o.file ? o.script : 0);
  int status = 0;
  for (const char* code : o.code) {
    if (status != 0) break;
    remember_chunk(L, "(command line)", code);
    if (luaL_loadbuffer(L, code, std::strlen(code), "=(command line)") != LUA_OK)
      status = load_failed(L);
    else
      status = run(L, 0);
  }
  if (o.file && status == 0) {
    const bool input = !std::strcmp(o.file, "-");
    if ((input ? load_input(L) : luaL_loadfile(L, o.file)) != LUA_OK) {
      status = load_failed(L);
    } else {
      if (!input) look_for_lists(L, o.file);
      lua_settop(L, 1);
      for (int k = o.script + 1; k < argc; ++k) lua_pushstring(L, argv[k]);
      keep_frame_values(o.interactive);  // for %debug at the prompt that follows
      status = run(L, argc - o.script - 1);
      keep_frame_values(false);
    }
  }
  if (o.interactive || (o.code.empty() && !o.file)) {
    status = repl(L, o.interactive, o.clean);
    if (const Outcome outcome = finish_devices(L); outcome != Outcome::Ok) {
      const int told = failed(L, outcome);
      if (status == 0) status = told;
    }
  }
  return status;
}

}  // namespace
}  // namespace tycho::shell

namespace {

// A closed standard stream must not become the first file that is opened: reading one ends at once,
// writing to one fails.
void hold_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

// Will the prompt open at a terminal that can move its cursor?
bool will_edit(int argc, char** argv) {
  bool prompt = argc == 1 || !std::strcmp(argv[1], "learn");
  for (int i = 1; i < argc; ++i)
    prompt = prompt || !std::strcmp(argv[i], "-i") || !std::strcmp(argv[i], "--clean");
  return prompt && tycho::line::can_edit();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tycho;
  hold_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the user's limit is an error, not the end
  if (shell::is_run(argc, argv)) {
    const shell::RunOptions run = shell::read_run_options({argv + 2, argv + argc});
    return run.status >= 0 ? run.status : shell::launch(run);
  }
  if (will_edit(argc, argv)) shell::prepare_status();
  if (argc > 1 && !std::strcmp(argv[1], "kernel")) shell::prepare_kernel();
  lua_State* L = lua::new_state();
  if (!L) return std::fputs("tycho: out of memory\n", stderr), 1;
  luaL_openlibs(L);
  lua::open_torch(L);
  shell::open_native(L);
  lua_settop(L, 0);
  shell::watch_exits(L);
  shell::install_interrupts();
  int status = shell::start(L, argc, argv);
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    // After an earlier failure its reason may be gone: a question whether something is a terminal
    // leaves another one.
    const bool known = errno != 0 && errno != ENOTTY;
    std::fprintf(stderr, "tycho: cannot write to standard output%s%s\n", known ? ": " : "",
                 known ? std::strerror(errno) : "");
    if (status == 0) status = 1;
  }
  shell::stop_listening();
  lua_close(L);
  return status;
}
