// The machine of tiles.h where there are no tiles but quick products of pairs of bfloat16 (AVX512_BF16):
// a block of sums stays in registers while its terms run, two at a time.
#ifdef TYCHO_LEVEL_v4
#include "engine/cpu/lanes/vec.h"
#include "engine/cpu/matmul/tiles.h"

namespace tycho::cpu::v4 {
namespace {

constexpr int kPairRows = 8;  // with two lanes of columns: sums enough that none waits for itself

// In assembly: not every processor of the level has it.
TYCHO_INLINE F32 add_pairs(F32 a, F32 b, F32 sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
  return sum;
}

// Rows from i on, C tiles of columns.
template <int C>
void pair_sums(const TileBlock& t, int64_t i, const uint16_t* b, float* c) {
  F32 sum[kPairRows][C];
#pragma GCC unroll 8
  for (int r = 0; r < kPairRows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j)
      sum[r][j] = t.add ? F32::load(c + r * t.c_row + j * kTileSide) : F32(0.f);
  // Terms of a, whose rows lie `row` apart, and the next ones of b's panels.
  const auto add = [&](const uint16_t* a, int64_t row, int64_t terms)
      __attribute__((always_inline)) {
    for (int64_t k = 0; k < terms; k += 2, a += 2, b += 2 * kTileSide) {
      const F32 by = F32::load(reinterpret_cast<const float*>(b)),
                by_next = F32::load(reinterpret_cast<const float*>(b + (C - 1) * t.b_panel));
#pragma GCC unroll 8
      for (int r = 0; r < kPairRows; ++r) {
        float two;
        memcpy(&two, a + r * row, sizeof two);
        const F32 x(two);
        sum[r][0] = add_pairs(x, by, sum[r][0]);
        if constexpr (C > 1) sum[r][1] = add_pairs(x, by_next, sum[r][1]);
      }
    }
  };
  const uint16_t* const a = t.a + i * t.a_row;
  if (t.places)
    for (int64_t k = 0; k < t.terms; k += kTileTerms)
      add(a + t.places[k / kTileTerms], t.a_row, kTileTerms);
  else
    add(a, t.a_row, t.terms);
  if (t.rest) add(t.rest + i * kTileTerms, kTileTerms, kTileTerms);
#pragma GCC unroll 8
  for (int r = 0; r < kPairRows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) sum[r][j].store(c + r * t.c_row + j * kTileSide);
}

void multiply_pairs(const TileBlock& t) {
  for (int64_t j = 0; j < t.cols; j += 2 * kTileSide) {
    const uint16_t* const b = t.b + j / kTileSide * t.b_panel;
    for (int64_t i = 0; i < t.rows; i += kPairRows) {
      float* const c = t.c + i * t.c_row + j;
      if (t.cols - j > kTileSide)
        pair_sums<2>(t, i, b, c);
      else
        pair_sums<1>(t, i, b, c);
    }
  }
}

void nothing() {}

}  // namespace

const TileMachine pair_machine{nothing, multiply_pairs, nothing};

}  // namespace tycho::cpu::v4
#endif
