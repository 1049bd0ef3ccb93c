// Folds: how a reduction takes in elements, as machine code per lane type and instruction set. A
// fold keeps its state in slots of 8 bytes: component c of column j stands at slots[c * cap + j].
// Elements arrive either as a run that folds into one column, or as rows, element j of each folding
// into column j. Sums of float32 run in registers for at most 128 steps and are then added in
// float64, so they are more exact than a plain float32 sum and do not depend on the thread count.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

enum class FoldOp : int {
  Sum,        // 1 component, as all below that do not say otherwise
  SumFinite,  // nan counts as 0
  SumAbs,
  SumSquare,
  CountNonzero,
  CountNumbers,  // elements that are not nan
  Prod,
  Max,  // nan wins
  Min,
  MaxAbs,
  MinAbs,
  ArgMax,  // value, position of the first such (-1: none yet)
  ArgMin,
  Moments,  // count, mean, sum of squared differences from the mean
  Count_
};

union Slot {
  double d;
  int64_t i;
};

constexpr int kFoldCols = 1024;  // columns that one call of `rows` takes at most

struct Fold {
  int components;
  void (*init)(Slot* s, int64_t cap, int64_t n);
  // n elements, the first of them at position `at`, into the column at s.
  void (*run)(const void* x, int64_t n, int64_t at, Slot* s, int64_t cap);
  // Rows `step` elements apart; `at` is the first row's position.
  void (*rows)(const void* x, int64_t step, int64_t rows, int64_t cols, int64_t at, Slot* s,
               int64_t cap);
  // The states of n columns, of later elements, into earlier ones.
  void (*merge)(Slot* to, int64_t to_cap, const Slot* from, int64_t from_cap, int64_t n);
};

}  // namespace tycho::cpu

// Null members where a fold has no meaning in a lane type. float32 folds keep double slots; int64
// folds integer ones, Moments apart.
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_f32, (int op))
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_f64, (int op))
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_i64, (int op))
// Of bytes: Sum and CountNonzero, integer slots.
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_u8, (int op))
