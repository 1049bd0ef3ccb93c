// copy_raw: values from one tensor into another, whatever their layouts and types.
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/walk.h"
#include "engine/ops/apply.h"

namespace tycho {
namespace {

using namespace cpu;

constexpr int64_t kTile = 1024, kGrain = 65536;

// Which lanes hold every value of both types: int64 for integers, float64 only where it is needed.
Lanes lanes_between(DType from, DType to) {
  if (!is_floating(from) && !is_floating(to)) return Lanes::I64;
  if (!is_floating(from)) return to == DType::Float64 ? Lanes::F64 : Lanes::I64;
  if (from == DType::Float64) return Lanes::F64;
  return to == DType::Float64 || (!is_floating(to) && dtype_size(to) == 8) ? Lanes::F64
                                                                           : Lanes::F32;
}

}  // namespace

void copy_raw(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const int size = dtype_size(to.dtype()), from_size = dtype_size(from.dtype());
  const Impl* both[] = {to.get(), from.get()};
  const Walk walk = make_walk(both, 2);
  const bool same = to.dtype() == from.dtype();
  char* dst = to.data();
  const char* src = from.data();
  if (same && walk.rank == 1 && walk.stride[0][0] == 1 && walk.stride[1][0] == 1) {
    if (dst == src) return;
    parallel_for(walk.numel, 4 * kGrain, [&](int64_t begin, int64_t end) {
      std::memmove(dst + begin * size, src + begin * size, (end - begin) * size);
    });
    return;
  }
  const Lanes lanes = lanes_between(from.dtype(), to.dtype());
  const int last = walk.rank - 1;
  const int64_t s0 = walk.stride[0][last], s1 = walk.stride[1][last];
  parallel_for(walk.numel, kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) char tile[kTile * 8];
    each_run(walk, begin, end, [&](const int64_t* offset, int64_t run) {
      char* d = dst + offset[0] * size;
      const char* s = src + offset[1] * from_size;
      if (same && s0 == 1 && s1 == 1) {
        std::memmove(d, s, run * size);
        return;
      }
      for (int64_t i = 0; i < run; i += kTile) {
        const int64_t m = std::min(kTile, run - i);
        level_of::load_tile(static_cast<int>(lanes), static_cast<int>(from.dtype()), tile,
                            s + i * s1 * from_size, s1, m);
        level_of::store_tile(static_cast<int>(lanes), static_cast<int>(to.dtype()),
                             d + i * s0 * size, tile, s0, m);
      }
    });
  });
}

}  // namespace tycho
