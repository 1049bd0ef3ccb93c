// A convolution's weight between the user's layout [out, in, taps] and the layouts of blocks that
// oneDNN's kernels read (16 or more outputs side by side) and write. Its own reorders of these take
// up to half the time of a convolution of many channels.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

struct ConvPack {
  static constexpr int64_t kMostTaps = 128;
  int64_t out, in, taps;
  int64_t block;     // outputs side by side; the last block may be longer than what is left
  int64_t out_step;  // between blocks of outputs, in elements of the packed layout
  int64_t in_step;   // packing: between inputs (or pairs); unpacking: blocks of 16 inputs
  int64_t tap_at[kMostTaps];  // where a tap lies
  int64_t in_units() const { return (in + 15) / 16; }
  int64_t units() const { return (out + 15) / 16 * in_units(); }  // 16 outputs of 16 inputs each
};

}  // namespace tycho::cpu

// Units [begin, end) of the weight. Packing keeps the type: `bytes` is 4, or 2 for bfloat16, which
// has pairs of inputs inside; unpacking reads floats and writes either.
TYCHO_LEVELS(void, conv_pack,
             (int bytes, const ::tycho::cpu::ConvPack* p, const void* from, void* to, int64_t begin,
              int64_t end))
TYCHO_LEVELS(void, conv_unpack,
             (int bytes, const ::tycho::cpu::ConvPack* p, const void* from, void* to, int64_t begin,
              int64_t end))
