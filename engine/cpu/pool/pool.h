// Pooling of plain memory. One description serves all kinds: per axis and result position, where
// the window begins and which of its taps lie inside. Images are channels last with any number of
// channels, or single planes (channels 1, more images).
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

struct PoolAxis {
  int64_t in, out, kernel, dilation;
  int64_t stride;        // of windows along the axis; 0 when it varies (adaptive pooling)
  const int64_t* start;  // per result position: the first tap, may lie before the image
  const int64_t* first;  // taps [first, last) are inside
  const int64_t* last;
  const int64_t* count;  // what an average divides by
};

struct Pool {
  int64_t images, channels;
  PoolAxis axis[3];
  int64_t divisor;  // of averages; 0: the counts
  bool apart;       // windows do not overlap
  bool wide;        // tap numbers are int32, else uint8
};

// A scatter runs in lanes with at least so many channels and at most so many taps.
constexpr int64_t kScatterChannels = 4, kScatterTaps = 32;
constexpr int64_t kFewChannels = 8;  // at most half a lane's
constexpr int64_t kPoolRoom = 64;    // elements behind a line of working memory
// Lines of planes that are worked at beside each other: as long as working memory stays in the first cache.
constexpr int64_t lines_at_once(const Pool& p) { return p.axis[2].in <= 256 ? 8 : 1; }

}  // namespace tycho::cpu

// T by `type`: 0 float, 1 double, 2 int64; for max_pool_lines of several channels, and scatters in
// lanes whose windows do not overlap, also 3: bfloat16. Lines are (image, out0, out1), images whole
// images. `scratch` is working memory for lines with kPoolRoom behind each: of maxima two for each of
// lines_at_once, and four of all channels where there are at most kFewChannels; of averages one for each of
// lines_at_once; of avg_pool_spread for axis[2].in + axis[2].out.
TYCHO_LEVELS(void, max_pool_lines,
             (int type, const ::tycho::cpu::Pool* p, const void* x, void* y, void* taps,
              int64_t begin, int64_t end, void* scratch))
TYCHO_LEVELS(void, max_pool_scatter,
             (int type, const ::tycho::cpu::Pool* p, const void* g, const void* taps, void* x,
              int64_t begin, int64_t end))
TYCHO_LEVELS(void, max_pool_gather,
             (int type, const ::tycho::cpu::Pool* p, const void* x, const void* taps, void* y,
              int64_t begin, int64_t end))
TYCHO_LEVELS(void, avg_pool_lines,
             (int type, const ::tycho::cpu::Pool* p, const void* x, void* y, int64_t begin,
              int64_t end, void* scratch))
TYCHO_LEVELS(void, avg_pool_spread,
             (int type, const ::tycho::cpu::Pool* p, const void* g, void* x, int64_t begin,
              int64_t end, void* scratch))
