// One key from the terminal, without Enter: for lessons and examples that go on step by step.
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "shell/native.h"

namespace tycho::shell {

// read_key(): the key's bytes ("\3" for Ctrl-C, "\27[C" for an arrow), or nil when the input ended.
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
  char key[32];
  ssize_t n;
  do n = read(0, key, 1);
  while (n < 0 && errno == EINTR);
  if (n == 1 && key[0] == 27) {
    raw.c_cc[VMIN] = 0;
    tcsetattr(0, TCSADRAIN, &raw);
    const ssize_t more = read(0, key + 1, sizeof key - 1);
    if (more > 0) n += more;
  }
  tcsetattr(0, TCSADRAIN, &old);
  if (n > 0)
    lua_pushlstring(L, key, static_cast<size_t>(n));
  else
    lua_pushnil(L);
  return 1;
}

}  // namespace tycho::shell
