// Products by tiles, registers of 16 rows of 64 bytes of bfloat16 (Intel AMX: TDPBF16PS in the
// instruction set reference). Terms are summed in float32, part after part, and rounded once. A
// number of float32 is the sum of two of bfloat16 where torch.set_float32_matmul_precision("high")
// allows 16 bits of it, of which three products are taken, and one where "medium" allows 8. What
// multiplies is a TileMachine, so that tests run the same loops where the processor has none.
#pragma once
#include <cstdint>

#include "engine/cpu/matmul/gemm.h"

namespace tycho::cpu {

constexpr int kTileSide = 16, kTileTerms = 32;  // rows of a and columns of b; terms of one step

// c (+)= a b, sizes in whole tiles. a's terms lie side by side; b lies in panels of 16 columns,
// each with the first two terms of its columns, then the next two ... Where `rest` is given, it has
// one more tile of terms of each of a's rows, row after row. Where `places` is, it says where each
// tile of a's terms begins.
struct TileBlock {
  const uint16_t* a;
  int64_t a_row;
  const uint16_t* b;
  int64_t b_panel;
  float* c;
  int64_t c_row;
  int64_t rows, cols, terms;
  bool add;
  const uint16_t* rest = nullptr;
  const int64_t* places = nullptr;
};

struct TileMachine {
  void (*begin)();  // on each thread, before its blocks
  void (*multiply)(const TileBlock&);
  void (*end)();
};

// A machine of the thread at hand, for as long as it lives.
struct TilesReady {
  const TileMachine& machine;
  explicit TilesReady(const TileMachine& m) : machine(m) { machine.begin(); }
  ~TilesReady() { machine.end(); }
  TilesReady(const TilesReady&) = delete;
  TilesReady& operator=(const TilesReady&) = delete;
  void multiply(const TileBlock& block) const { machine.multiply(block); }
};

// Null where this machine has no tiles or must not use them; why_no_tiles says why (and is null
// where it may). TYCHO_TILES=0 turns them off.
const TileMachine* tiles();
const char* why_no_tiles();
void use_tiles(const TileMachine*);  // for tests; null: this machine's again
// Or else products of pairs where they are quick: half of float32's time, not an eighth, so that
// few can afford to pack their operands for it. Null: neither.
const TileMachine* tiles_or_pairs();

// Whether tiles are the fastest way for a product of bfloat16, or a way that is allowed for one of
// float32; and that way. Any strides.
bool tiles_pay(const Product& p);
void gemm_tiles(const Product& p);

}  // namespace tycho::cpu

namespace tycho::cpu::v4 {

// Sixteen rows of a, or columns of b, `step` apart with `terms` numbers that are `term` apart, to
// where a tile is loaded from: `depth` terms, those that are missing are 0. `row` is the step from
// one row to the next, and of columns, of which there may be 32, from the tiles of the first
// sixteen to the others'.
enum class TilePart { Bits, High, Low };  // bfloat16 as it is; of float32, rounded or the rest
struct TilePack {
  TilePart part;
  const void* from;
  int64_t step, term, count, terms, depth;
  uint16_t* to;
  int64_t row;
};
void tile_pack_rows(const TilePack& p);
void tile_pack_columns(const TilePack& p);

// to = sums (+ bias) (+ to), rounded where to and bias are bfloat16.
struct TileStore {
  int64_t rows, cols;
  const float* sums;
  int64_t row;
  const void* bias;
  bool add;
  void* to;
  int64_t to_row;
};
void tile_store_bfloat16(const TileStore& s);
void tile_store_float32(const TileStore& s);

// Whole tiles of sums, rows and columns exchanged.
void tile_turn(const float* from, int64_t row, int64_t rows, int64_t cols, float* to,
               int64_t to_row);

// Whether all numbers are finite, of lines that lie `step` apart.
bool tile_finite(const float* x, int64_t lines, int64_t numbers, int64_t step);
bool tile_finite_halves(const uint16_t* x, int64_t numbers);

extern const TileMachine tile_machine;  // the processor's
extern const TileMachine pair_machine;  // by products of pairs (AVX512_BF16) in registers of lanes

}  // namespace tycho::cpu::v4
