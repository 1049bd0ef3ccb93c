// One row of the elementwise table over its operands: where these lie, and the tiles through which those
// pass that cannot be read or written in place.
#pragma once
#include "engine/cpu/boxes.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/ops/elementwise/elementwise.h"

namespace tycho::cpu {

constexpr int64_t kTile = kBox;    // elements: 4 or 8 KB a tile
constexpr int64_t kGrain = 32768;  // elements of one unit of work each

// How long an element takes, as multiples of one at the speed of a cache.
int64_t row_work(int row, Lanes lanes);

// One operand (or the result) as the executor sees it.
struct Slot {
  char* data;
  int dtype;
  int bytes;    // per element
  bool direct;  // lane-typed: a contiguous run needs no tile
};

constexpr int kSlots = kOperands + 1;

struct alignas(64) Tiles {
  char place[kSlots][kTile * 8];
};

// Slot 0 is the result, and the others are the operands.
struct Program {
  Lanes lanes;
  bool truth;  // the row writes bytes 0 and 1
  RowFn fn;
  int n = 0;  // operands
  Slot slot[kSlots];
  bool single[kSlots];  // one value for all elements: a number, or a tensor of one element
  Value number[kSlots];

  // Bit k of `repeated`: operand k repeats one value (RowFn).
  void compute(void* const* place, int64_t m, unsigned repeated, bool past_caches = false) const {
    fn(place, m, repeated, past_caches ? kOncePast : kOnce);
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
};

// Elements [begin, end) of operands that all are contiguous runs or single values; `stream`: the
// result goes past the caches.
void run_flat(const Program& r, int64_t begin, int64_t end, Tiles& tiles, bool stream);
// Can the walk's runs be read and written where they lie?
bool in_place(const Program& r, const Walk& walk, const int* walker);
// Elements [begin, end) of such a walk. `walker` is the number of each slot in the walk.
void run_in_place(const Program& r, const Walk& walk, const int* walker, int64_t begin, int64_t end,
                  Tiles& tiles, bool stream);
// Elements [begin, end) of a walk with long runs, which are read in place where they can be.
void run_long(const Program& r, const Walk& walk, const int* walker, int64_t begin, int64_t end,
              Tiles& tiles, bool stream);
// Boxes [begin, end) of any walk: gathered into tiles, computed, and scattered.
void run_boxes(const Program& r, const Boxes& boxes, const int* walker, int64_t begin, int64_t end,
               Tiles& tiles, bool stream);

}  // namespace tycho::cpu
