// The kernels of padding, by one value and by a tensor's own elements: row by row of the result, so that
// everything is written once and in order; sides of the second kind are read from the row between them.
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

// Of large results, whose memory is dearer than a look at each row, where nothing is cropped. Others are
// filled and then copied into.
void pad_constant(Call& c) {
  constexpr int64_t kLarge = 1 << 20, kLeastRow = 64;  // bytes
  const Tensor &x = c.tensor(0), &out = c.out[0];
  const Value& pad = c.arg[1];
  const int64_t bytes = dtype_size(out.dtype());
  bool grows = x.contiguous() && out.contiguous() && x.numel() > 0 && c.count(1) > 0 &&
               out.numel() * bytes >= kLarge && out.size(-1) * bytes >= kLeastRow;
  for (int k = 0; k < c.count(1); ++k) grows = grows && pad.ints[k] >= 0;
  if (!grows) return c.op->run(c);
  const int last = x.rank() - 1, pairs = c.count(1) / 2;
  // Where each row of a block of the padded dimensions comes from, -1 where from nowhere.
  std::vector<int64_t> rows{0};
  int64_t stride = x.size(last);
  for (int k = 1; k < pairs; ++k) {
    const int64_t n = x.size(last - k);
    std::vector<int64_t> more;
    for (int64_t i = -pad.ints[2 * k]; i < n + pad.ints[2 * k + 1]; ++i)
      for (const int64_t row : rows)
        more.push_back(i < 0 || i >= n || row < 0 ? -1 : i * stride + row);
    rows = std::move(more);
    stride *= n;
  }
  const int64_t n = x.size(last), before = pad.ints[0], after = pad.ints[1],
                width = before + n + after, block = static_cast<int64_t>(rows.size());
  const Tensor one = empty({1}, x.dtype());
  fill_raw(one, c.arg[2]);
  with_size(x.dtype(), [&](auto kind) {
    using T = decltype(kind);
    constexpr int64_t kShort = 128 / static_cast<int64_t>(sizeof(T));  // not worth a call
    const T value = *one.data<T>();
    const T* from = x.data<T>();
    T* to = out.data<T>();
    parallel_for(
        out.numel() / width, std::max<int64_t>(1, 32768 / width), [&](int64_t begin, int64_t end) {
          const T* f = from + begin / block * stride;
          T* t = to + begin * width;
          for (int64_t i = begin, r = begin % block; i < end; ++i, ++r, t += width) {
            if (r == block) r = 0, f += stride;
            if (rows[static_cast<size_t>(r)] < 0) {
              int64_t empties = 1;
              while (i + empties < end && r + empties < block &&
                     rows[static_cast<size_t>(r + empties)] < 0)
                ++empties;
              level_of::fill_run(sizeof(T), reinterpret_cast<char*>(t),
                                 reinterpret_cast<const char*>(&value), empties * width, false);
              i += empties - 1, r += empties - 1, t += (empties - 1) * width;
              continue;
            }
            const T* const row = f + rows[static_cast<size_t>(r)];
            for (int64_t k = 0; k < before; ++k) t[k] = value;
            if (n < kShort)
              for (int64_t k = 0; k < n; ++k) t[before + k] = row[k];
            else
              level_of::copy_bytes(reinterpret_cast<char*>(t + before),
                                   reinterpret_cast<const char*>(row),
                                   n * static_cast<int64_t>(sizeof(T)));
            for (int64_t k = before + n; k < width; ++k) t[k] = value;
          }
        });
  });
}

BIND_KERNEL(Cpu, "pad_around", pad_around);
BIND_KERNEL(Cpu, "pad_constant", pad_constant);

}  // namespace tycho::cpu
