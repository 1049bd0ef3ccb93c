// Running sums and their kin along a dimension, as the host hands them to the kernels of scan.cu.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

enum class ScanPass : int32_t {
  Totals,   // of each part, into `partial`
  Carries,  // what came before each part, in their place
  Results,
};

// Row-major tensors of outer x n x inner elements, n cut into parts. Blocks: Totals and Results rows x
// parts where a block scans a row (256 threads), rows / 256 x parts where a thread does; Carries
// rows / 256.
struct Scan {
  ScanPass pass;
  int32_t by_block, reverse;
  int32_t in_dtype, out_dtype;
  const void* in;
  void* out;
  int64_t* positions;  // of extremes, or null
  void* partial;       // [parts][rows] states; null when there is one part
  int64_t rows, n, inner, parts, part;
};

}  // namespace tycho::cuda
