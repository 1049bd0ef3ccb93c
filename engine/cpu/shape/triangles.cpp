// The kernels of tril and triu.
#include <algorithm>
#include <cstring>

#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The part of each row of the last two dimensions that a triangle keeps is copied, the rest is 0.
void triangle(Call& c, bool lower) {
  const Tensor x = packed(c.tensor(0));
  const Tensor& out = c.out[0];
  const int64_t rows = x.size(-2), cols = x.size(-1), size = dtype_size(x.dtype());
  if (x.numel() == 0) return;
  const int64_t k = std::clamp<int64_t>(c.integer(1), -rows, cols);
  for (int64_t r = 0, all = x.numel() / cols; r < all; ++r) {
    const int64_t edge = std::clamp<int64_t>(r % rows + k + (lower ? 1 : 0), 0, cols);
    const int64_t begin = lower ? 0 : edge, end = lower ? edge : cols;
    char* to = out.data() + r * cols * size;
    std::memset(to, 0, static_cast<size_t>(begin * size));
    std::memcpy(to + begin * size, x.data() + (r * cols + begin) * size,
                static_cast<size_t>((end - begin) * size));
    std::memset(to + end * size, 0, static_cast<size_t>((cols - end) * size));
  }
}

}  // namespace

void tril(Call& c) { triangle(c, true); }
void triu(Call& c) { triangle(c, false); }

BIND_KERNEL(Cpu, "tril", tril);
BIND_KERNEL(Cpu, "triu", triu);

}  // namespace tycho::cpu
