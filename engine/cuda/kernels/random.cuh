// Random numbers from counters, as the host hands them to the kernels of random.cu.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

enum class Drawn : int32_t { Uniform, Normal, LogNormal, Exponential, Geometric, Cauchy };

// n elements one after the other; the block of element i comes from counter first + i / (4 or 2).
struct Draw {
  void* out;
  int64_t n;
  uint64_t key, first;
  const uint64_t* replayed;  // in a graph: what is to be added to both, which each replay sets
  double a, b;  // from and to; mean and deviation; a factor; median and scale; gamma's least
  uint64_t low, count,
      limit;  // integers low .. low + count - 1 (0: all); words below `limit` are 1
  const void*
      chances;         // of each element, instead of `limit`; rates of Poisson counts, gamma shapes
  const void* counts;  // of each element's trials, of the type of `chances`
  int32_t dtype, chances_dtype;
  Drawn what;
};

struct MaskedScale {
  int64_t n;
  const void* in;
  const uint8_t* mask;
  void* out;
  int32_t in_dtype, out_dtype;
  double scale;
};

}  // namespace tycho::cuda
