// Folding a tensor of any layout over some of its dimensions (cpu/reduce/fold.h has the folds).
#pragma once
#include <type_traits>

#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/reduce/fold.h"
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

// Called with finished states: `n` results, the first at element `at` of the result and the others
// `step` apart. Component c of result j stands at s[c * cap + j]; the slots may be changed.
struct FoldSink {
  void (*call)(void* function, Slot* s, int64_t cap, int64_t n, int64_t at, int64_t step);
  void* function;
  template <class F>
  requires(!std::is_same_v<std::remove_const_t<F>, FoldSink>)
      FoldSink(F& f)  // NOLINT: made to be converted to
      : call([](void* p, Slot* s, int64_t cap, int64_t n, int64_t at, int64_t step) {
          (*static_cast<F*>(p))(s, cap, n, at, step);
        }),
        function(const_cast<void*>(static_cast<const void*>(&f))) {}
};

// Which lanes a fold of this dtype runs in: the ones that hold its values, but doubles for products
// of floats, where float32 could overflow on the way.
Lanes fold_lanes(FoldOp op, DType dtype);

// Folds `x` over the dimensions in `bits` (all others are kept, in order) and hands every result to
// `sink`, maybe on several threads. What is added to what depends on the shapes alone, never on the
// number of threads. Arg folds take one dimension, or all of a row-major tensor; their positions
// count from 0.
void fold(const Tensor& x, uint32_t bits, FoldOp op, Lanes lanes, FoldSink sink);

// Writes n finished slots (doubles, or integers for Lanes::I64) as elements of `out`.
void store_slots(const Tensor& out, Lanes lanes, const Slot* s, int64_t n, int64_t at,
                 int64_t step);

}  // namespace tycho::cpu
