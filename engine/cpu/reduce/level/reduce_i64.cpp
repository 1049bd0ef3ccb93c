// Folds of int64, and of bytes: masks are counted without widening them first.
#include "engine/cpu/reduce/level/fold_states.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <bool NonZero>
struct Bytes {
  static TYCHO_INLINE uint32_t value(uint8_t x) { return NonZero ? x != 0 : x; }
  static void init(Slot* s, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) s[j].i = 0;
  }
  static void merge(Slot* to, int64_t, const Slot* from, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) to[j].i += from[j].i;
  }
  static void run(const void* px, int64_t n, int64_t, Slot* s, int64_t) {
    const uint8_t* x = static_cast<const uint8_t*>(px);
    while (n > 0) {
      const int64_t m = n < 1 << 20 ? n : 1 << 20;
      uint32_t sum = 0;
      for (int64_t i = 0; i < m; ++i) sum += value(x[i]);
      s->i += sum;
      x += m;
      n -= m;
    }
  }
  static void rows(const void* px, int64_t step, int64_t count, int64_t cols, int64_t, Slot* s,
                   int64_t) {
    const uint8_t* x = static_cast<const uint8_t*>(px);
    uint32_t sum[kFoldCols];
    while (count > 0) {
      const int64_t m = count < 1 << 20 ? count : 1 << 20;
      for (int64_t j = 0; j < cols; ++j) sum[j] = 0;
      for (int64_t r = 0; r < m; ++r, x += step)
        for (int64_t j = 0; j < cols; ++j) sum[j] += value(x[j]);
      for (int64_t j = 0; j < cols; ++j) s[j].i += sum[j];
      count -= m;
    }
  }
  static constexpr Fold fold() { return {1, init, run, rows, merge}; }
};

}  // namespace

const Fold* fold_i64(int op) { return folds<int64_t> + op; }

const Fold* fold_u8(int op) {
  static constexpr Fold sum = Bytes<false>::fold(), nonzero = Bytes<true>::fold();
  return op == static_cast<int>(FoldOp::sum) ? &sum : &nonzero;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
