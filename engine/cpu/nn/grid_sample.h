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

// Of m <= kGridPoints positions (g: `dims` numbers each, the last dimension first) in all channels of an image:
// what they read, where their gradient goes in the image (it is added), and the gradient of g. A channel of
// x has as many numbers as the image has places; one of y has `points`, of which m are taken.
// With a width (4, or 64 bytes of numbers), x and dx hold groups of so many channels instead: a row of them for each
// place, and one more, which is zero in x and where dx takes what lies outside. A spread takes one group.
TYCHO_LEVELS(void, grid_read_f32,
             (const ::tycho::cpu::GridSampler* s, const float* g, int m, const float* x,
              int64_t channels, float* y, int64_t points, int width))
TYCHO_LEVELS(void, grid_spread_f32,
             (const ::tycho::cpu::GridSampler* s, const float* g, int m, const float* dy,
              int64_t channels, float* dx, int64_t points, int width))
TYCHO_LEVELS(void, grid_slope_f32,
             (const ::tycho::cpu::GridSampler* s, const float* g, int m, const float* x,
              const float* dy, int64_t channels, int64_t points, float* dg, int width))
TYCHO_LEVELS(void, grid_turn_f32,
             (const float* from, int64_t rows, int64_t columns, int64_t from_step, float* to,
              int64_t to_step))
TYCHO_LEVELS(void, grid_read_f64,
             (const ::tycho::cpu::GridSampler* s, const double* g, int m, const double* x,
              int64_t channels, double* y, int64_t points, int width))
TYCHO_LEVELS(void, grid_spread_f64,
             (const ::tycho::cpu::GridSampler* s, const double* g, int m, const double* dy,
              int64_t channels, double* dx, int64_t points, int width))
TYCHO_LEVELS(void, grid_slope_f64,
             (const ::tycho::cpu::GridSampler* s, const double* g, int m, const double* x,
              const double* dy, int64_t channels, int64_t points, double* dg, int width))
TYCHO_LEVELS(void, grid_turn_f64,
             (const double* from, int64_t rows, int64_t columns, int64_t from_step, double* to,
              int64_t to_step))
