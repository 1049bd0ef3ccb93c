// Where Ctrl-C met the program.
#pragma once

namespace tycho::lua {

struct StoppedAt {
  char name[80];    // of the function, or ""
  char place[200];  // "train.lua:41", or ""
};
const StoppedAt& stopped_at();  // of the last stop: the innermost function of the user's

}  // namespace tycho::lua
