// Folds: how a reduction takes in elements, as machine code per lane type and instruction set: the
// rows of ops/reduce/reduce.def, and those whose state is more than a number. A fold keeps its
// state in slots of 8 bytes: component c of column j stands at slots[c * cap + j]. Elements arrive
// either as a run that folds into one column, or as rows, element j of each folding into column j.
// Sums of float32 run in registers for at most 128 steps and are then added in float64, so they are
// more exact than a plain float32 sum and do not depend on the thread count.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

enum class FoldOp : int {
#define FOLD(name, ...) name,  // 1 component
#include "engine/ops/reduce/reduce.def"
  ArgMax,  // value, position of the first such (-1: none yet)
  ArgMin,
  Moments,  // count, mean, sum of squared differences from the mean
  Count_
};

// How the values of elements meet.
enum class Combine : int {
  Sum,       // of floats: in registers for a while, then in double
  WideSum,   // of floats: in double wherever single values may be too large or too small
  Count,     // a sum of zeros and ones
  Product,   // of floats: in double wherever floats could not hold it on the way
  Largest,   // nan wins
  Smallest,  // nan wins
};
enum class FoldLanes : int { All, Floats };

struct FoldRow {
  FoldLanes lanes;
  Combine combine;
  const char* value;  // as written
};
constexpr FoldRow fold_rows[] = {
#define FOLD(name, lanes, value, combine) {FoldLanes::lanes, Combine::combine, #value},
#include "engine/ops/reduce/reduce.def"
};
constexpr int kFoldRows = sizeof fold_rows / sizeof *fold_rows;

// The first row that has the same machine code.
constexpr int shared_fold(int row) {
  for (int k = 0; k < row && row < kFoldRows; ++k) {
    const FoldRow &a = fold_rows[k], &b = fold_rows[row];
    const char *p = a.value, *q = b.value;
    while (*p && *p == *q) ++p, ++q;
    if (*p == *q && a.lanes == b.lanes && a.combine == b.combine) return k;
  }
  return row;
}
constexpr FoldOp shared_fold(FoldOp op) {
  return static_cast<FoldOp>(shared_fold(static_cast<int>(op)));
}

union Slot {
  double d;
  int64_t i;
};

enum class SmallKind : int { U8, I8, I16, I32 };

constexpr int kFoldCols = 1024;  // columns that one call of `rows` takes at most

struct Fold {
  int components;
  void (*init)(Slot* s, int64_t cap, int64_t n);
  // n elements, the first of them at position `at`, into the column at s.
  void (*run)(const void* x, int64_t n, int64_t at, Slot* s, int64_t cap);
  // `count` runs of n elements, `step` elements apart, run k into the column at s + k.
  void (*each)(const void* x, int64_t step, int64_t count, int64_t n, Slot* s, int64_t cap);
  // Rows `step` elements apart; `at` is the first row's position.
  void (*rows)(const void* x, int64_t step, int64_t rows, int64_t cols, int64_t at, Slot* s,
               int64_t cap);
  // The states of n columns, of later elements, into earlier ones.
  void (*merge)(Slot* to, int64_t to_cap, const Slot* from, int64_t from_cap, int64_t n);
  // At most kShallow rows, in registers, straight to what they come to: elements as x has, each divided
  // by `by`. Null where a state is more than a result.
  void (*shallow)(const void* x, int64_t step, int64_t rows, int64_t cols, double by, void* to);
  // As run, of n / kHalves * kHalves elements as they lie, bfloat16 or float16; how many they were. Null
  // where they must be widened first.
  int64_t (*halves)(bool bfloat16, const void* x, int64_t n, Slot* s) = nullptr;
};
constexpr int64_t kShallow = 128, kHalves = 2048;

}  // namespace tycho::cpu

// Null members where a fold has no meaning in a lane type, or where its code is another row's
// (shared_fold). float32 folds keep double slots; int64 folds integer ones.
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_f32, (int op))
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_f64, (int op))
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_i64, (int op))
// Of small integers (SmallKind) as they lie: sum, amax, amin, and count_nonzero of bytes; integer slots.
// Null for others.
TYCHO_LEVELS(const ::tycho::cpu::Fold*, fold_small, (int kind, int op))
