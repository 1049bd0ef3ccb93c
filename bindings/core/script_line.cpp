// The line of the user's script that is running, for errors, nodes and notes.
#include <cstring>

#include "bindings/core/autograd.h"
#include "bindings/core/insides.h"
#include "engine/base/where.h"

namespace tycho::lua {
namespace {

constexpr int kLevels = 12;

bool is_ours(const lua_Debug& ar) { return !std::strncmp(ar.source, "=torch/", 7); }

Where place(const lua_Debug& ar) {
  // The same chunk as last time, almost always: compare before looking up.
  static thread_local std::string last;
  static thread_local uint32_t last_id = 0;
  if (last != ar.short_src) {
    last = ar.short_src;
    last_id = intern_source(ar.short_src);
  }
  return {last_id, ar.currentline};
}

Where look_up_line(lua_State* L) {
  lua_Debug ar;
  for (int level = 1; level < kLevels && lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0 && !is_ours(ar)) return place(ar);
  }
  return {};
}

// Finding a line costs as much as making a node, so lines are kept by the program counter, where that
// can be found; of torch's own Lua code it is kept that it is no line of the user's. Code that is
// freed may be followed by other code at its place: code_epoch counts what the collector frees.
Where line_by_program_counter() {
  struct Kept {
    const void* pc;
    uint64_t epoch;
    Where where;
    bool ours;
  };
  static thread_local Kept kept[64];
  lua_State* L = running;
  lua_Debug ar;
  for (int level = 1; level < kLevels && lua_getstack(L, level, &ar); ++level) {
    const void* pc = insides::program_counter(ar);
    Kept& k = kept[(reinterpret_cast<uintptr_t>(pc) >> 2) % 64];
    if (k.pc != pc || k.epoch != code_epoch || !pc) {
      lua_getinfo(L, "Sl", &ar);
      if (ar.currentline <= 0) continue;  // C code, whose place there is no program counter
      const bool ours = is_ours(ar);
      k = {pc, code_epoch, ours ? Where{} : place(ar), ours};
    }
    if (!k.ours) return k.where;
  }
  return {};
}
Where line_looked_up() { return look_up_line(running); }

}  // namespace

void open_script_line(lua_State* L) {
  if (!current_where)
    current_where = insides::knows_program_counter(L) ? line_by_program_counter : line_looked_up;
}

}  // namespace tycho::lua
