// One key from the terminal, without Enter: for lessons and examples that go on step by step.
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "shell/native.h"

namespace tycho::shell {

// read_key(): the byte pressed as a string ("\3" for Ctrl-C), or nil when the input ended. The rest
// of a longer key, such as an arrow, is dropped.
int lua_read_key(lua_State* L) {
  termios old;
  if (tcgetattr(0, &old) != 0) {
    lua_pushnil(L);
    return 1;
  }
  termios raw = old;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  tcsetattr(0, TCSADRAIN, &raw);
  char c = 0;
  ssize_t n;
  do n = read(0, &c, 1);
  while (n < 0 && errno == EINTR);
  if (n == 1 && c == 27) {
    raw.c_cc[VMIN] = 0;
    tcsetattr(0, TCSADRAIN, &raw);
    char rest[16];
    if (read(0, rest, sizeof rest) < 0) rest[0] = 0;
  }
  tcsetattr(0, TCSADRAIN, &old);
  if (n == 1)
    lua_pushlstring(L, &c, 1);
  else
    lua_pushnil(L);
  return 1;
}

}  // namespace tycho::shell
