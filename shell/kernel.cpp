// The kernel's streams and its wire to the notebook, which a module brings (kernel_wire.h).
#include "shell/kernel.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include "engine/base/interrupt.h"
#include "engine/base/module.h"
#include "shell/kernel_wire.h"
#include "shell/run.h"

namespace tycho::shell {
namespace {

struct Kernel {
  const pid_t owner = getpid();
  std::unique_ptr<KernelWire> wire;
  int old_out = -1, old_err = -1;  // where the standard streams went before
  int from_out = -1, from_err = -1, log = -1;
  bool may_ask = false;
  std::string typed;  // and not read yet
};
Kernel* kernel = nullptr;

// Not in a process that was forked off: its copy of the wire has nobody behind it.
bool connected() { return kernel && kernel->owner == getpid(); }

void flush() {
  std::fflush(stdout);
  std::fflush(stderr);
}

ssize_t read_input(void*, char* room, size_t n) {
  if (!kernel) return read(0, room, n);
  std::string& typed = kernel->typed;
  if (typed.empty()) {
    flush();
    if (!connected()) return 0;
    if (!kernel->may_ask) {
      std::fputs("note: this notebook has nobody to ask; io.read gives nil\n", stderr);
      return 0;
    }
    if (!kernel->wire->ask("", &typed)) {
      errno = EINTR;
      return -1;
    }
    typed += '\n';
  }
  const size_t taken = std::min(n, typed.size());
  std::memcpy(room, typed.data(), taken);
  typed.erase(0, taken);
  return static_cast<ssize_t>(taken);
}

std::string text_at(lua_State* L, int i) {
  size_t n = 0;
  const char* s = lua_tolstring(L, i, &n);
  return s ? std::string(s, n) : std::string();
}
std::string text_field(lua_State* L, const char* name) {
  lua_getfield(L, 1, name);
  const std::string s = text_at(L, -1);
  lua_pop(L, 1);
  return s;
}
int number_field(lua_State* L, const char* name) {
  lua_getfield(L, 1, name);
  const int n = static_cast<int>(lua_tointeger(L, -1));
  lua_pop(L, 1);
  return n;
}

// Programs that the kernel has started stop as they would at a terminal, when the group is ours.
void interrupt(pthread_t main) {
  if (getpgrp() == getpid())
    kill(0, SIGINT);
  else
    pthread_kill(main, SIGINT);
}

void redirect(int fd, int* to, int* old) {
  *old = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  dup2(*to, fd);
  close(*to);
}

OpenKernelWire* module_function(std::string* why) {
  if (!has_module("jupyter")) {
    *why =
        "this program was built without libzmq; install libzmq3-dev and libssl-dev, and build it "
        "again";
    return nullptr;
  }
  return reinterpret_cast<OpenKernelWire*>(module_symbol("jupyter", "tycho_open_kernel_wire", why));
}

int kernel_available(lua_State* L) {
  std::string why;
  if (module_function(&why)) return lua_pushboolean(L, 1), 1;
  lua_pushnil(L);
  lua_pushlstring(L, why.data(), why.size());
  return 2;
}

int kernel_open(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  std::string why;
  OpenKernelWire* const open = module_function(&why);
  int out[2], err[2];
  if (open && (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0))
    why = std::strerror(errno);
  if (!why.empty()) {
    lua_pushnil(L);
    lua_pushlstring(L, why.data(), why.size());
    return 2;
  }
  for (const int fd : {out[0], err[0]}) fcntl(fd, F_SETFL, O_NONBLOCK);
  const KernelConnection connection = {
      text_field(L, "transport"), text_field(L, "address"), text_field(L, "key"),
      text_field(L, "digest"),    number_field(L, "shell"), number_field(L, "control"),
      number_field(L, "iopub"),   number_field(L, "input"), number_field(L, "heartbeat")};
  const int log = fcntl(2, F_DUPFD_CLOEXEC, 3);
  KernelHooks hooks;
  hooks.interrupt = [main = pthread_self()] { interrupt(main); };
  hooks.interrupted = interrupt_pending;
  hooks.remark = [log](const char* text) { dprintf(log, "tycho kernel: %s\n", text); };
  hooks.info = text_field(L, "info");
  hooks.out = out[0];
  hooks.err = err[0];
  std::unique_ptr<KernelWire> wire(open(connection, hooks, &why));
  if (!wire) {
    for (const int fd : {out[0], out[1], err[0], err[1], log}) close(fd);
    lua_pushnil(L);
    lua_pushlstring(L, why.data(), why.size());
    return 2;
  }
  kernel = new Kernel;
  kernel->wire = std::move(wire);
  kernel->from_out = out[0];
  kernel->from_err = err[0];
  kernel->log = log;
  std::fflush(stdout);
  redirect(1, &out[1], &kernel->old_out);
  redirect(2, &err[1], &kernel->old_err);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) {
    dup2(nothing, 0);
    close(nothing);
  }
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  setvbuf(stderr, nullptr, _IOLBF, BUFSIZ);  // a line, and not each of its pieces, is a message
  stay_on_interrupts();
  lua_pushboolean(L, 1);
  return 1;
}

int push_request(lua_State* L, const KernelMessage* m) {
  if (!m) return 0;
  lua_pushlstring(L, m->type.data(), m->type.size());
  lua_pushlstring(L, m->content.data(), m->content.size());
  lua_pushboolean(L, m->control);
  return 3;
}
int kernel_next(lua_State* L) { return push_request(L, kernel->wire->next()); }
int kernel_at_hand(lua_State* L) { return push_request(L, kernel->wire->next_at_hand()); }
int kernel_waiting(lua_State* L) {
  lua_pushinteger(L, kernel->wire->waiting());
  return 1;
}

int kernel_reply(lua_State* L) {
  flush();
  if (connected()) kernel->wire->reply(text_at(L, 1), text_at(L, 2));
  return 0;
}
int kernel_publish(lua_State* L) {
  flush();
  if (connected()) kernel->wire->publish(text_at(L, 1), text_at(L, 2));
  return 0;
}

int kernel_allow_input(lua_State* L) {
  kernel->may_ask = lua_toboolean(L, 1);
  kernel->typed.clear();
  __fpurge(stdin);
  return 0;
}

int kernel_close(lua_State*) {
  flush();
  if (!connected()) return 0;
  kernel->wire.reset();  // sends what is left
  dup2(kernel->old_out, 1);
  dup2(kernel->old_err, 2);
  for (const int fd :
       {kernel->old_out, kernel->old_err, kernel->from_out, kernel->from_err, kernel->log})
    close(fd);
  delete kernel;
  kernel = nullptr;
  return 0;
}

}  // namespace

void prepare_kernel() {
  if (FILE* in = fopencookie(nullptr, "r", {read_input, nullptr, nullptr, nullptr})) stdin = in;
}

void push_kernel(lua_State* L) {
  static const luaL_Reg functions[] = {
      {"available", kernel_available}, {"open", kernel_open},
      {"next", kernel_next},           {"at_hand", kernel_at_hand},
      {"waiting", kernel_waiting},     {"reply", kernel_reply},
      {"publish", kernel_publish},     {"allow_input", kernel_allow_input},
      {"close", kernel_close},         {nullptr, nullptr}};
  luaL_newlib(L, functions);
}

}  // namespace tycho::shell
