// The inner loops of grid_sample: what some positions read and with which weights, and reading it.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

constexpr int kGridPoints = 64, kGridTaps = 16;

struct GridSampler {
  enum Mode : int { Nearest, Linear, Cubic } mode;
  enum Padding : int { Zeros, Border, Reflection } padding;
  bool corners;  // -1 and 1 are the middles of the outermost elements, not their outer edges
  int dims;
  int64_t size[3];

  int taps() const { return mode == Nearest ? 1 : mode == Cubic ? kGridTaps : 1 << dims; }
};

}  // namespace tycho::cpu

// The taps of m <= kGridPoints positions (g: `dims` numbers each, the last dimension first), tap k of point i at
// k * kGridPoints + i. Outside, the place is 0 and the weight 0, or nan.
TYCHO_LEVELS(void, grid_taps_f32,
             (const ::tycho::cpu::GridSampler* s, const float* g, int m, int32_t* place,
              float* weight))
TYCHO_LEVELS(void, grid_taps_f64,
             (const ::tycho::cpu::GridSampler* s, const double* g, int m, int32_t* place,
              double* weight))
// y[i] = the sum over taps of plane[place] * weight.
TYCHO_LEVELS(void, grid_read_f32,
             (const float* plane, const int32_t* place, const float* weight, int taps, int m,
              float* y))
TYCHO_LEVELS(void, grid_read_f64,
             (const double* plane, const int32_t* place, const double* weight, int taps, int m,
              double* y))
