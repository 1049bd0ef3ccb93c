// Products of bfloat16 by tiles, registers of 16 rows of 64 bytes (Intel AMX: TDPBF16PS in the
// instruction set reference). Terms are summed in float32, part after part, and rounded once.
// What multiplies is a TileMachine, so that tests run the same loops where the processor has none.
#pragma once
#include <cstdint>

#include "engine/cpu/matmul/gemm.h"

namespace tycho::cpu {

constexpr int kTileSide = 16, kTileTerms = 32;  // rows of a and columns of b; terms of one step

// c (+)= a b, sizes in whole tiles. a's terms lie side by side; b lies in panels of 16 columns, each
// with the first two terms of its columns, then the next two ...
struct TileBlock {
  const uint16_t* a;
  int64_t a_row;
  const uint16_t* b;
  int64_t b_panel;
  float* c;
  int64_t c_row;
  int64_t rows, cols, terms;
  bool add;
};

struct TileMachine {
  void (*begin)();  // on each thread, before its blocks
  void (*multiply)(const TileBlock&);
  void (*end)();
};

// Null where this machine has no tiles or must not use them; why_no_tiles says why (and is null
// where it may). TYCHO_TILES=0 turns them off.
const TileMachine* tiles();
const char* why_no_tiles();
void use_tiles(const TileMachine*);  // for tests; null: this machine's again

// Whether tiles are the fastest way for a product of bfloat16; and that way. Any strides.
bool tiles_pay(const Product& p);
void gemm_tiles(const Product& p);

}  // namespace tycho::cpu

namespace tycho::cpu::v4 {

// Sixteen rows of a, or columns of b, `step` apart with `terms` numbers that are `term` apart, to
// where a tile is loaded from: `depth` terms, those that are missing are 0. For rows, `row` is the
// step from one to the next.
struct TilePack {
  const uint16_t* from;
  int64_t step, term, count, terms, depth;
  uint16_t* to;
  int64_t row;
};
void tile_pack_rows(const TilePack& p);
void tile_pack_columns(const TilePack& p);

// to = sums (+ bias) (+ to), rounded.
void tile_store(int64_t rows, int64_t cols, const float* sums, int64_t row, const uint16_t* bias,
                bool add, uint16_t* to, int64_t to_row);

extern const TileMachine tile_machine;  // the processor's

}  // namespace tycho::cpu::v4
