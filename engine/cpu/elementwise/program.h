// Programs: rows of the elementwise table run together over tiles of their operands. An instruction
// is one row; what it reads and writes are places: the result, the operands, and tiles between. A
// row called alone is a program of one instruction.
#pragma once
#include "engine/cpu/boxes.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/ops/elementwise/elementwise.h"

namespace tycho::cpu {

constexpr int64_t kTile = kBox;  // elements: 4 or 8 KB a tile

// One operand (or the result) as the executor sees it.
struct Slot {
  char* data;
  int dtype;
  int bytes;    // per element
  bool direct;  // lane-typed: a contiguous run needs no tile
};

constexpr int kMostSlots = 9;          // the result and eight operands
constexpr int kMostPlaces = 16;        // slots, and tiles that hold values between instructions
constexpr int kMostInstructions = 16;  // in a program

struct Instruction {
  RowFn fn;
  uint8_t to, n;  // where the result goes, and how many operands there are
  uint8_t from[kOperands];
};

struct alignas(64) Tiles {
  char place[kMostPlaces][kTile * 8];
};

// Slot 0 is the result; place k of an operand is its slot's number.
struct Program {
  Lanes lanes;
  bool truth;  // the last instruction writes bytes 0 and 1
  int n = 0;   // operands
  int count = 0;
  Instruction code[kMostInstructions];
  Slot slot[kMostSlots];
  bool single[kMostSlots];  // one value for all elements: a number, or a tensor of one element
  Value number[kMostSlots];

  // Appends a row that reads places `from` and writes place `to`.
  void add(RowFn fn, int to, std::initializer_list<int> from);
  // Bit k of `repeated`: place k is an operand that repeats one value (RowFn).
  void compute(void* const* place, int64_t m, unsigned repeated) const {
    if (count == 1) return code[0].fn(place, m, repeated);  // its places are in order
    compute_all(place, m, repeated);
  }
  void load(int k, void* tile, const void* from, int64_t stride, int64_t m) const {
    level_of::load_tile(static_cast<int>(lanes), slot[k].dtype, tile, from, stride, m);
  }
  void store(void* to, const void* tile, int64_t stride, int64_t m) const;
  // Are place k's elements, each by itself, what lanes are made of?
  bool in_lanes(int k) const { return slot[k].direct && value_lanes(lanes) == lanes; }
  // Where place k's one value for all elements is, in lanes: at `from`, or in the tile.
  void* one(int k, void* tile, void* from) const {
    if (in_lanes(k)) return from;
    level_of::load_tile(static_cast<int>(value_lanes(lanes)), slot[k].dtype, tile, from, 1, 1);
    return tile;
  }
  int lane_bytes() const { return dtype_size(lane_type_of(lanes)); }
  int result_bytes() const { return truth ? 1 : lane_bytes(); }

 private:
  void compute_all(void* const* place, int64_t m, unsigned repeated) const;
};

// Elements [begin, end) of operands that all are contiguous runs or single values; `stream`: the
// result goes past the caches.
void run_flat(const Program& r, int64_t begin, int64_t end, Tiles& tiles, bool stream);
// Can the walk's runs be read and written where they lie?
bool in_place(const Program& r, const Walk& walk, const int* walker);
// Elements [begin, end) of a walk with long runs, which are read in place where they can be.
// `walker` is the number of each slot in the walk.
void run_long(const Program& r, const Walk& walk, const int* walker, int64_t begin, int64_t end,
              Tiles& tiles);
// Boxes [begin, end) of any walk: gathered into tiles, computed, and scattered.
void run_boxes(const Program& r, const Boxes& boxes, const int* walker, int64_t begin, int64_t end,
               Tiles& tiles);

}  // namespace tycho::cpu
