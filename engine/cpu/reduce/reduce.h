// Folding a tensor of any layout over some of its dimensions (cpu/reduce/fold.h has the folds).
#pragma once
#include <memory>
#include <type_traits>
#include <vector>

#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/reduce/fold.h"
#include "engine/ops/elementwise/row_program.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/defer.h"
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

// Where results can go that are states as they are, or those divided: a fold of few rows then needs no
// slots.
struct Straight {
  char* data;
  DType type;
  double by;  // 1 unless the type is the lanes'
};

// Folds `x` over the dimensions in `bits` (all others are kept, in order) and hands every result to
// `sink`, maybe on several threads. What is added to what depends on the shapes alone, never on the
// number of threads. Arg folds take one dimension, or all of a row-major tensor; their positions
// count from 0.
void fold(const Tensor& x, uint32_t bits, FoldOp op, Lanes lanes, FoldSink sink,
          const Straight* straight = nullptr);

// What a fold's machine code is, and where small integers are taken as they lie (or null).
const Fold* find_fold(FoldOp op, Lanes lanes);
const Fold* small_fold(FoldOp op, DType dtype);

namespace fold_sizes {
constexpr int64_t kTile = 4096;    // elements converted at a time
constexpr int64_t kWork = 65536;   // elements of a part of a long fold
constexpr int64_t kFewTasks = 16;  // with fewer, long folds are split (by shape, not by threads)
constexpr int64_t kBlock = 256;    // results of runs that finish together
constexpr int64_t kShortRun = 32;  // elements of runs that are too short to fold by themselves
}  // namespace fold_sizes

// A fold as the end of held rows: all elements into one result, or whole rows into one each. It adds
// the same to the same as `fold`.
struct HeldFold : RowEnd {
  // False when the fold is none of these, or too small to gain.
  bool plan(const Tensor& x, uint32_t bits, FoldOp op, Lanes lanes);
  void take(const char* values, int64_t at, int64_t n) override;
  void done() override;
  virtual void finish(Slot* s, int64_t cap, int64_t n, int64_t at) = 0;

 private:
  void run(const char* values, int64_t n, Slot* s, int64_t cap) const;

  const Fold* f_;
  Lanes lanes_;
  DType dtype_;
  bool direct_, whole_;
  int64_t depth_;
  std::vector<Slot> slots_;  // of units whose results are not finished with them
};

// fold, at once or, where x is held, as its end: the sink is copied, and must not refer to the call.
template <class Sink>
void fold_or_hold(const Call& c, const Tensor& x, uint32_t bits, FoldOp op, Lanes lanes,
                  const Sink& sink, const Straight* straight = nullptr) {
  struct Held final : HeldFold {
    Sink sink;
    explicit Held(const Sink& s) : sink(s) {}
    void finish(Slot* s, int64_t cap, int64_t n, int64_t at) override { sink(s, cap, n, at, 1); }
  };
  if (rows_held && rows_may_end && deferral->holds(*x->storage)) [[unlikely]] {
    auto held = std::make_unique<Held>(sink);
    if (held->plan(x, bits, op, lanes)) {
      std::unique_ptr<RowEnd> end = std::move(held);
      if (deferral->end(x.get(), end, &c.out[0], c.out.size())) return;
    }
  }
  fold(x, bits, op, lanes, sink, straight);
}

// The memory of a result, which a fold may have to know when nobody may read it yet.
struct Target {
  char* data;
  DType type;
  Target(const Tensor& t) : data(t.data()), type(t.dtype()) {}  // NOLINT: made to be converted to
};

// Writes n finished slots (doubles, or integers for Lanes::I64) as elements of `out`.
void store_slots(const Target& out, Lanes lanes, const Slot* s, int64_t n, int64_t at,
                 int64_t step);

}  // namespace tycho::cpu
