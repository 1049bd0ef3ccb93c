// Whatever an entry did to the terminal, and however it ended, the settings come back.
#include "shell/terminal.h"

#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "shell/line/editor.h"

namespace tycho::shell {
namespace {

termios settings;
bool known = false;
char signal_stack[1 << 16];  // for a stack that is full; the state of AMX tiles takes 11 KB

// Safe in a signal handler.
void put_back() {
  if (!known || tcgetpgrp(0) != getpgrp()) return;  // in the background it is somebody else's
  termios now;
  if (tcgetattr(0, &now) == 0 &&
      (now.c_lflag != settings.c_lflag || now.c_iflag != settings.c_iflag ||
       now.c_oflag != settings.c_oflag || std::memcmp(now.c_cc, settings.c_cc, sizeof now.c_cc)))
    tcsetattr(0, TCSADRAIN, &settings);
}

void on_fatal(int signal) {
  line::restore_terminal();
  put_back();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

void guard_terminal() {
  if (!isatty(0) || tcgetattr(0, &settings) != 0) return;
  known = true;
  std::atexit(put_back);
  stack_t stack = {};
  if (sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE)) {
    stack = {};
    stack.ss_sp = signal_stack;
    stack.ss_size = sizeof signal_stack;
    sigaltstack(&stack, nullptr);
  }
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    struct sigaction before;
    // A sanitizer that watches a signal keeps it; nohup's ignored SIGHUP stays ignored.
    if (sigaction(s, nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) ||
        before.sa_handler != SIG_DFL)
      continue;
    struct sigaction action = {};
    action.sa_handler = on_fatal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    sigaction(s, &action, nullptr);
  }
}

void restore_settings() { put_back(); }

}  // namespace tycho::shell
