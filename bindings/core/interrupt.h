// Where Ctrl-C met the program. The state of a stop belongs to the thread that is stopped.
#pragma once

struct lua_State;

namespace tycho::lua {

struct StoppedAt {
  char name[80];    // of the function, or ""
  char place[200];  // "train.lua:41", or ""
};
const StoppedAt& stopped_at();  // of the last stop: the innermost function of the user's
void note_stop(lua_State* L);   // a stop is being raised here: by an operation, or by the hook
bool stop_under_way();          // it has not arrived yet at what lets the code go on

// A Ctrl-C that ended a program which this thread had started is meant for the main thread, too.
void pass_interrupt();

// The __close of a loop over a loader with workers (worker.cpp) and of processes that stand and fall
// together (processes/child.cpp): the functions that a stop lets run, so that what works for the
// code that it ends is ended too.
int close_workers(lua_State* L);
int close_children(lua_State* L);

// torch.until_interrupt(f, ...): true and f's results; or, when Ctrl-C stopped f, false and where.
// What called it goes on: a training loop that is stopped can still be saved.
int until_interrupt(lua_State* L);

// torch.uninterrupted(f, ...): f's results. A first Ctrl-C waits until f has ended; a second one
// stops it as any other code.
int uninterrupted(lua_State* L);

// torch._hold_interrupt(on): the same for what is no function; turned off, a Ctrl-C that waited
// acts. Gives what was set before. With "stop" one acts, whether it has come or not.
int hold_interrupt(lua_State* L);

// torch._interrupt_waits(): whether a Ctrl-C has come that is held.
int interrupt_waits(lua_State* L);

}  // namespace tycho::lua
