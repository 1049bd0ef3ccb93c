// The kernel of padding by a tensor's own elements: row by row of the result, whose sides are read
// from the row between them, so that everything is written once and in order.
#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/index/combine.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// For each place of a padded dimension, the place that it shows.
std::vector<int64_t> places(int64_t n, int64_t before, int64_t after, std::string_view mode) {
  std::vector<int64_t> all(static_cast<size_t>(before + n + after));
  for (int64_t i = -before; i < n + after; ++i)
    all[static_cast<size_t>(i + before)] = mode == "reflect"     ? (i < 0    ? -i
                                                                    : i >= n ? 2 * (n - 1) - i
                                                                             : i)
                                           : mode == "replicate" ? std::clamp<int64_t>(i, 0, n - 1)
                                                                 : (i + n) % n;
  return all;
}

}  // namespace

void pad_around(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const Tensor x = packed(c.tensor(0));
  const std::string_view mode = c.string(2);
  const int last = x.rank() - 1, pairs = c.count(1) / 2;
  const Value& pad = c.arg[1];
  // Where each row of a block of the padded dimensions comes from.
  std::vector<int64_t> rows{0};
  int64_t stride = x.size(last);
  for (int k = 1; k < pairs; ++k) {
    const std::vector<int64_t> at =
        places(x.size(last - k), pad.ints[2 * k], pad.ints[2 * k + 1], mode);
    std::vector<int64_t> more;
    more.reserve(rows.size() * at.size());
    for (const int64_t place : at)
      for (const int64_t row : rows) more.push_back(place * stride + row);
    rows = std::move(more);
    stride *= x.size(last - k);
  }
  const int64_t n = x.size(last), before = pad.ints[0], after = pad.ints[1];
  const std::vector<int64_t> at = places(n, before, after, mode);
  const int64_t width = before + n + after, block = static_cast<int64_t>(rows.size());
  with_size(x.dtype(), [&](auto kind) {
    using T = decltype(kind);
    const T* from = x.data<T>();
    T* to = out.data<T>();
    parallel_for(out.numel() / width, std::max<int64_t>(1, 32768 / width),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const T* f = from + i / block * stride + rows[static_cast<size_t>(i % block)];
                     T* t = to + i * width;
                     for (int64_t k = 0; k < before; ++k) t[k] = f[at[static_cast<size_t>(k)]];
                     level_of::copy_bytes(reinterpret_cast<char*>(t + before),
                                          reinterpret_cast<const char*>(f),
                                          n * static_cast<int64_t>(sizeof(T)));
                     for (int64_t k = before + n; k < width; ++k)
                       t[k] = f[at[static_cast<size_t>(k)]];
                   }
                 });
  });
}

BIND_KERNEL(Cpu, "pad_around", pad_around);

}  // namespace tycho::cpu
