// Every row of elementwise.def in f32 lanes.
#include "engine/cpu/elementwise/level/links.h"

namespace tycho::cpu::TYCHO_LEVEL {

RowFn row_f32(int row) {
  static constexpr RowFn table[] = {
#define ROW(name, operands, args, type, ...) pick<float, LevelType::type, Value_##name, operands>(),
#include "engine/ops/elementwise/elementwise.def"
  };
  return table[row];
}

bool is_short_row(int row) {
  static constexpr bool table[] = {
#define ROW(name, ...) is_short<Value_##name>,
#include "engine/ops/elementwise/elementwise.def"
  };
  return table[row];
}

LinkFn link_f32(int row, int place) { return link_of<float>(row, place); }
int64_t run_links_f32(const Link* first, int64_t n) { return run_links<float>(first, n); }

}  // namespace tycho::cpu::TYCHO_LEVEL
