// The value column of elementwise.def as functions of lanes: Value_add::value(a, b, c, d), and
// which lanes each is for. It includes nothing but lanes, so other compilers take it too
// (vec_scalar.h).
#pragma once
#include "engine/cpu/lanes/math_rows.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Mirrors RowType in ops/elementwise/elementwise.h: which lanes a row's value is compiled for.
enum class LevelType { Same, Num, Counts, Float, Real, Test, Bits, Ints };
constexpr bool has_floats(LevelType t) { return t != LevelType::Bits && t != LevelType::Ints; }
constexpr bool has_ints(LevelType t) { return t != LevelType::Float && t != LevelType::Real; }

#define ROW(name, operands, args, type, amp, doc, expression, ...)               \
  struct Value_##name {                                                          \
    template <class L>                                                           \
    static TYCHO_INLINE auto value([[maybe_unused]] L a, [[maybe_unused]] L b,   \
                                   [[maybe_unused]] L c, [[maybe_unused]] L d) { \
      return expression;                                                         \
    }                                                                            \
  };
#include "engine/ops/elementwise/elementwise.def"

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
