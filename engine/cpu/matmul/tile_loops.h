// The loops over tiles: up to two by two of the result are summed at once, so that each one of a
// and b is loaded for two products. `Tiles` has the instructions; eight registers, named by number.
#pragma once
#include "engine/cpu/matmul/tiles.h"

namespace tycho::cpu {
namespace {

template <class Tiles, int R, int C>
void add_terms(const uint16_t* a, int64_t a_row, const uint16_t* b, int64_t b_panel) {
  Tiles::template load<4>(a, a_row * 2);
  if constexpr (R == 2) Tiles::template load<5>(a + kTileSide * a_row, a_row * 2);
  Tiles::template load<6>(b, kTileTerms * 2);
  if constexpr (C == 2) Tiles::template load<7>(b + b_panel, kTileTerms * 2);
  Tiles::template add_product<0, 4, 6>();
  if constexpr (R == 2) Tiles::template add_product<2, 5, 6>();
  if constexpr (C == 2) Tiles::template add_product<1, 4, 7>();
  if constexpr (R == 2 && C == 2) Tiles::template add_product<3, 5, 7>();
}

template <class Tiles, int R, int C>
void tile_sums(const TileBlock& t, int64_t i, const uint16_t* b, float* c) {
  const uint16_t* const a = t.a + i * t.a_row;
  float* const below = c + kTileSide * t.c_row;
  const auto begin = [&]<int I>(const float* from) {
    if (t.add)
      Tiles::template load<I>(from, t.c_row * 4);
    else
      Tiles::template zero<I>();
  };
  begin.template operator()<0>(c);
  if constexpr (C == 2) begin.template operator()<1>(c + kTileSide);
  if constexpr (R == 2) begin.template operator()<2>(below);
  if constexpr (R == 2 && C == 2) begin.template operator()<3>(below + kTileSide);
  for (int64_t k = 0; k < t.terms; k += kTileTerms)
    add_terms<Tiles, R, C>(a + (t.places ? t.places[k / kTileTerms] : k), t.a_row,
                           b + k * kTileSide, t.b_panel);
  if (t.rest)
    add_terms<Tiles, R, C>(t.rest + i * kTileTerms, kTileTerms, b + t.terms * kTileSide, t.b_panel);
  Tiles::template store<0>(c, t.c_row * 4);
  if constexpr (C == 2) Tiles::template store<1>(c + kTileSide, t.c_row * 4);
  if constexpr (R == 2) Tiles::template store<2>(below, t.c_row * 4);
  if constexpr (R == 2 && C == 2) Tiles::template store<3>(below + kTileSide, t.c_row * 4);
}

template <class Tiles>
void multiply_tiles(const TileBlock& t) {
  for (int64_t j = 0; j < t.cols; j += 2 * kTileSide)
    for (int64_t i = 0; i < t.rows; i += 2 * kTileSide) {
      const bool rows = t.rows - i > kTileSide, cols = t.cols - j > kTileSide;
      const uint16_t* const b = t.b + j / kTileSide * t.b_panel;
      float* const c = t.c + i * t.c_row + j;
      if (rows && cols)
        tile_sums<Tiles, 2, 2>(t, i, b, c);
      else if (rows)
        tile_sums<Tiles, 2, 1>(t, i, b, c);
      else if (cols)
        tile_sums<Tiles, 1, 2>(t, i, b, c);
      else
        tile_sums<Tiles, 1, 1>(t, i, b, c);
    }
}

}  // namespace
}  // namespace tycho::cpu
