// Every row of elementwise.def in f64 lanes.
#include "engine/cpu/elementwise/level/links.h"

namespace tycho::cpu::TYCHO_LEVEL {

RowFn row_f64(int row) {
  static constexpr RowFn table[] = {
#define ROW(name, operands, args, type, ...) \
  pick<double, LevelType::type, Value_##name, operands>(),
#include "engine/ops/elementwise/elementwise.def"
  };
  return table[row];
}

LinkFn link_f64(int row, int place) { return link_of<double>(row, place); }
int64_t run_links_f64(const Link* first, int64_t n) { return run_links<double>(first, n); }

}  // namespace tycho::cpu::TYCHO_LEVEL
