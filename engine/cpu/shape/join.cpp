// The kernel of cat: some rows of all tensors at a time, so that the result is written in order.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

void cat(Call& c) {
  constexpr int64_t kBlock = 16384, kFew = 64;  // bytes of a block; tensors
  const Tensor& out = c.out[0];
  const int d = static_cast<int>(c.integer(1)), count = c.count(0);
  int64_t before = 1, after = 1;
  for (int i = 0; i < out.rank(); ++i) (i < d ? before : after) *= i == d ? 1 : out.size(i);
  bool rows = out.numel() > 0 && out.contiguous() && before > 1 && count <= kFew;
  for (int k = 0; rows && k < count; ++k) rows = c.tensor(0, k).contiguous();
  if (!rows) return c.op->run(c);  // one tensor after the other
  const int size = dtype_size(out.dtype());
  const int64_t width = out.size(d) * after, block = std::max<int64_t>(1, kBlock / (width * size));
  const char* from[kFew];
  for (int k = 0; k < count; ++k) from[k] = c.tensor(0, k).data();
  char* to = out.data();
  parallel_for((before + block - 1) / block, std::max<int64_t>(1, 32768 / (block * width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t row = i * block, n = std::min(block, before - row);
                   int64_t at = row * width;
                   for (int k = 0; k < count; ++k) {
                     const int64_t own = c.arg[2].ints[k] * after;
                     if (own > 0)
                       level_of::copy_plane(size, to + at * size, width, 1,
                                            from[k] + row * own * size, own, 1, n, own);
                     at += own;
                   }
                 }
               });
}

BIND_KERNEL(Cpu, "cat_sized", cat);

}  // namespace tycho::cpu
