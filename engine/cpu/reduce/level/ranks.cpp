// Folding the ranks of a group: tiles of the first two, then one rank after the other.
#include "engine/cpu/reduce/ranks.h"

#include "engine/cpu/lanes/convert.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int64_t kTile = 1024;

// The order of dist::RedOp.
enum class Way { Sum, Avg, Product, Min, Max, Band, Bor, Bxor };

template <Way W, class T>
TYCHO_INLINE T combine(T a, T b) {
  constexpr bool is_float = T(0.5) != 0;
  if constexpr (W == Way::Product) {
    return static_cast<T>(a * b);
  } else if constexpr (W == Way::Min) {
    if constexpr (is_float) return a < b || a != a ? a : b;
    return a < b ? a : b;
  } else if constexpr (W == Way::Max) {
    if constexpr (is_float) return a > b || a != a ? a : b;
    return a > b ? a : b;
  } else if constexpr (W == Way::Band) {
    return static_cast<T>(a & b);
  } else if constexpr (W == Way::Bor) {
    return static_cast<T>(a | b);
  } else if constexpr (W == Way::Bxor) {
    return static_cast<T>(a ^ b);
  } else {
    return static_cast<T>(a + b);
  }
}

template <Way W, class T>
[[gnu::noinline]] void fold_into(T* __restrict tile, const T* __restrict x, int64_t n) {
  for (int64_t k = 0; k < n; ++k) tile[k] = combine<W>(tile[k], x[k]);
}
template <class T>
[[gnu::noinline]] void divide(T* tile, T divisor, int64_t n) {
  for (int64_t k = 0; k < n; ++k) tile[k] = tile[k] / divisor;
}
// Between memory and tiles: halves are computed with as floats.
template <class S>
[[gnu::noinline]] void widened(float* tile, const S* from, int64_t n) {
  load_contiguous<float, S>(tile, from, n);
}
template <class S>
[[gnu::noinline]] void rounded(S* to, const float* tile, int64_t n) {
  store_contiguous<float, S>(to, tile, n);
}

template <Way W, class T>
void fold(T* out, const T* const* in, int ranks, int64_t n, double divisor) {
  if (W == Way::Sum && same<T, float> && ranks == 2) {  // gradients
    for (int64_t k = 0; k < n; ++k) out[k] = combine<W>(in[0][k], in[1][k]);
    return;
  }
  T tile[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t m = n - i < kTile ? n - i : kTile;
    memcpy(tile, in[0] + i, static_cast<size_t>(m) * sizeof(T));
    for (int r = 1; r < ranks; ++r) fold_into<W>(tile, in[r] + i, m);
    if constexpr (W == Way::Avg) divide(tile, static_cast<T>(divisor), m);
    memcpy(out + i, tile, static_cast<size_t>(m) * sizeof(T));
  }
}

template <Way W, class S>
void fold_short(S* out, const S* const* in, int ranks, int64_t n, double divisor) {
  float tile[kTile], next[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t m = n - i < kTile ? n - i : kTile;
    widened(tile, in[0] + i, m);
    for (int r = 1; r < ranks; ++r) {
      widened(next, in[r] + i, m);
      fold_into<W>(tile, static_cast<const float*>(next), m);
    }
    if constexpr (W == Way::Avg) divide(tile, static_cast<float>(divisor), m);
    rounded(out + i, tile, m);
  }
}

template <class T, Way... W>
void choose(void* out, const void* const* in, int ranks, int64_t n, int op, double divisor) {
  const auto run = [&]<Way V>() {
    if (static_cast<int>(V) != op) return;
    if constexpr (short_float<T>) {
      fold_short<V>(static_cast<T*>(out), reinterpret_cast<const T* const*>(in), ranks, n, divisor);
    } else {
      fold<V>(static_cast<T*>(out), reinterpret_cast<const T* const*>(in), ranks, n, divisor);
    }
  };
  (run.template operator()<W>(), ...);
}
// Sums, products and bits of signed integers are those of unsigned ones, and may overflow.
template <class T, class Unsigned>
void choose_integers(void* out, const void* const* in, int ranks, int64_t n, int op) {
  using enum Way;
  choose<Unsigned, Sum, Product, Band, Bor, Bxor>(out, in, ranks, n, op, 1);
  choose<T, Min, Max>(out, in, ranks, n, op, 1);
}
template <class T>
void choose_floats(void* out, const void* const* in, int ranks, int64_t n, int op, double divisor) {
  using enum Way;
  choose<T, Sum, Avg, Product, Min, Max>(out, in, ranks, n, op, divisor);
}

}  // namespace

void fold_ranks(void* out, const void* const* in, int ranks, int64_t n, int dtype, int op,
                double divisor) {
  switch (dtype) {  // the order of DType
    case 0: {       // bool: bytes of 0 and 1
      using enum Way;
      constexpr Way kOfBool[] = {Bor, Bor, Band, Band, Bor, Band, Bor, Bxor};
      return choose<uint8_t, Band, Bor, Bxor>(out, in, ranks, n, static_cast<int>(kOfBool[op]), 1);
    }
    case 1:
      return choose_integers<uint8_t, uint8_t>(out, in, ranks, n, op);
    case 2:
      return choose_integers<int8_t, uint8_t>(out, in, ranks, n, op);
    case 3:
      return choose_integers<int16_t, uint16_t>(out, in, ranks, n, op);
    case 4:
      return choose_integers<int32_t, uint32_t>(out, in, ranks, n, op);
    case 5:
      return choose_integers<int64_t, uint64_t>(out, in, ranks, n, op);
    case 6:
      return choose_floats<Half>(out, in, ranks, n, op, divisor);
    case 7:
      return choose_floats<BFloat16>(out, in, ranks, n, op, divisor);
    case 8:
      return choose_floats<float>(out, in, ranks, n, op, divisor);
    default:
      return choose_floats<double>(out, in, ranks, n, op, divisor);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
