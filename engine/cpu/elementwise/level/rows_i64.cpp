// Every row of elementwise.def in i64 lanes.
#include "engine/cpu/elementwise/level/rows.h"

namespace tycho::cpu::TYCHO_LEVEL {

RowFn row_i64(int row) {
  static constexpr RowFn table[] = {
#define ROW(name, operands, args, type, ...) \
  pick<int64_t, LevelType::type, Value_##name, operands>(),
#include "engine/ops/elementwise/elementwise.def"
  };
  return table[row];
}

}  // namespace tycho::cpu::TYCHO_LEVEL
