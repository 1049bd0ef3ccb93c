// Distances between all rows of two matrices, and their gradients, on float and double lanes.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

// Distance (i, j) lies at [i * row + j * col]; of pairs (i < j) of one matrix's n rows, in a row
// without gaps, where `pairs` is n.
struct DistancePlace {
  int64_t row = 0, col = 0, pairs = 0;
};
constexpr int kDistanceCols = 64;  // rows of b that are held together

}  // namespace tycho::cpu

// Distances of a's n rows, the first of which is row i0 of all, to `cols` rows of b from row j0
// on, at most kDistanceCols of them; rows of d elements. `panel` has room for kDistanceCols * d.
TYCHO_LEVELS(void, distance_panel,
             (bool wide, double p, int64_t i0, int64_t n, int64_t j0, int64_t cols, int64_t d,
              const void* a, const void* b, void* panel, void* out,
              ::tycho::cpu::DistancePlace place))
// Rows i0 .. i0 + n of the gradient of a, where n is at most what distance_grad_rows() says, from
// the gradient g of the distances to b's m rows and the distances y themselves. `room` has space
// for as many times 2 * m + d elements.
TYCHO_LEVELS(int, distance_grad_rows, (bool wide))
TYCHO_LEVELS(void, distance_grad_block,
             (bool wide, double p, int64_t i0, int64_t n, int64_t m, int64_t d, const void* a,
              const void* b, const void* g, ::tycho::cpu::DistancePlace g_place, const void* y,
              ::tycho::cpu::DistancePlace y_place, void* room, void* out))
