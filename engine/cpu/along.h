// Kernels that work along one dimension of row-major tensors, whatever lies around it (softmax,
// scans): the lines are cut out, and those of other types than the lanes' pass through a copy.
#pragma once
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/boxes.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/table/op.h"

namespace tycho::cpu {

constexpr int64_t kAlongWork = 8192;  // elements that are worth a task

// A tensor cut along one dimension: `rows` lines of n elements, `inner` apart.
struct Cut {
  int64_t n, inner, rows;
  Cut(const Tensor& t, int64_t dim) {
    const int d = wrap_dim(dim, t.rank());
    n = t.rank() ? t.size(d) : 1;
    inner = 1;
    for (int k = d + 1; k < t.rank(); ++k) inner *= t.size(k);
    rows = n ? t.numel() / n : 0;
  }
  int64_t first(int64_t row) const { return row / inner * n * inner + row % inner; }
};

constexpr int kAlongTensors = 3;

// Lines that lie in memory in another way than columns() takes them are gathered first: short ones
// many at a time, so that each becomes a column; long ones as many as there are beside each other.
struct Gathered {
  const Tensor* const* t;
  int count;  // the result, and operands
  const Cut& cut;
  Lanes lanes;
  DType lane_type;

  char* at(int k, int64_t element) const {
    return t[k]->data() + element * dtype_size(t[k]->dtype());
  }
  template <class Columns>
  void short_lines(Columns&& columns) const {
    Walk w;
    w.rank = 3;
    w.count = 1;
    const int64_t sizes[] = {cut.n, cut.rows / cut.inner, cut.inner},
                  strides[] = {cut.inner, cut.n * cut.inner, 1};
    std::copy(sizes, sizes + 3, w.size);
    std::copy(strides, strides + 3, w.stride[0]);
    const int64_t beside = std::min(cut.inner, kBox / cut.n),
                  groups = std::min(sizes[1], std::max<int64_t>(1, kBox / cut.n / beside)),
                  parts = (cut.inner + beside - 1) / beside,
                  blocks = (sizes[1] + groups - 1) / groups * parts;
    parallel_for(blocks, std::max<int64_t>(1, kAlongWork / (cut.n * beside * groups)),
                 [&](int64_t begin, int64_t end) {
                   alignas(64) char tile[kAlongTensors][kBox * 8], raw[kBox * 8];
                   BoxPart part;
                   int64_t size[] = {0, 0, 0};
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t g = i / parts * groups, j = i % parts * beside;
                     const int64_t now[] = {cut.n, std::min(groups, sizes[1] - g),
                                            std::min(beside, cut.inner - j)};
                     if (!std::equal(now, now + 3, size)) {
                       std::copy(now, now + 3, size);
                       part.plan(w, 0, size);
                     }
                     const int64_t from = g * strides[1] + j, cols = size[1] * size[2];
                     char* p[kAlongTensors];
                     for (int k = 0; k < count; ++k) {
                       p[k] = tile[k];
                       if (k == 0) continue;
                       const DType type = t[k]->dtype();
                       const bool same = type == lane_type;
                       part.gather(dtype_size(type), same ? p[k] : raw, at(k, from));
                       if (!same)
                         level_of::load_tile(static_cast<int>(lanes), static_cast<int>(type), p[k],
                                             raw, 1, part.numel());
                     }
                     columns(p, cut.n, cols, cols);
                     const DType type = t[0]->dtype();
                     const bool same = type == lane_type;
                     if (!same)
                       level_of::store_tile(static_cast<int>(lanes), static_cast<int>(type), raw,
                                            p[0], 1, part.numel());
                     part.scatter(dtype_size(type), at(0, from), same ? p[0] : raw);
                   }
                 });
  }
  template <class Columns>
  void long_lines(Columns&& columns, int64_t most) const {
    const int64_t parts = (cut.inner + most - 1) / most, lane_bytes = dtype_size(lane_type);
    parallel_for(cut.rows / cut.inner * parts,
                 std::max<int64_t>(1, kAlongWork / (cut.n * std::min(most, cut.inner))),
                 [&](int64_t begin, int64_t end) {
                   const int64_t bytes = cut.n * std::min(most, cut.inner) * lane_bytes;
                   const Scratch scratch(static_cast<size_t>(count * bytes));
                   char* p[kAlongTensors];
                   for (int k = 0; k < count; ++k) p[k] = scratch.data() + k * bytes;
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t j = i % parts * most, from = i / parts * cut.n * cut.inner + j,
                                   cols = std::min(most, cut.inner - j);
                     // Whole lines lie in one piece.
                     const int64_t rows = cols == cut.inner ? 1 : cut.n, run = cut.n / rows * cols;
                     for (int k = 1; k < count; ++k)
                       for (int64_t r = 0; r < rows; ++r)
                         level_of::load_tile(
                             static_cast<int>(lanes), static_cast<int>(t[k]->dtype()),
                             p[k] + r * cols * lane_bytes, at(k, from + r * cut.inner), 1, run);
                     columns(p, cut.n, cols, cols);
                     for (int64_t r = 0; r < rows; ++r)
                       level_of::store_tile(
                           static_cast<int>(lanes), static_cast<int>(t[0]->dtype()),
                           at(0, from + r * cut.inner), p[0] + r * cols * lane_bytes, 1, run);
                   }
                 });
  }
};

// Runs over `count` inputs and the result: run(p, n) on lane-typed rows, columns(p, n, cols, step)
// on lane-typed blocks; p[0] is the result.
template <class Run, class Columns>
void over_rows(const Tensor* const* t, int count, const Cut& cut, Lanes lanes, Run&& run,
               Columns&& columns, int64_t block = 256) {
  if (cut.rows == 0) return;
  const DType lane_type = lanes == Lanes::F64   ? DType::Float64
                          : lanes == Lanes::F32 ? DType::Float32
                                                : DType::Int64;
  bool direct = true;
  for (int k = 0; k < count; ++k) direct = direct && t[k]->dtype() == lane_type;
  const auto at = [&](int k, int64_t element) {
    return t[k]->data() + element * dtype_size(t[k]->dtype());
  };
  if (direct && cut.inner >= 8) {
    const int64_t blocks = (cut.inner + block - 1) / block;
    parallel_for(cut.rows / cut.inner * blocks,
                 std::max<int64_t>(1, kAlongWork / (cut.n * std::min(block, cut.inner))),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t j = i % blocks * block,
                                   from = i / blocks * cut.n * cut.inner + j;
                     char* p[kAlongTensors];
                     for (int k = 0; k < count; ++k) p[k] = at(k, from);
                     columns(p, cut.n, std::min(block, cut.inner - j), cut.inner);
                   }
                 });
    return;
  }
  const Gathered gathered{t, count, cut, lanes, lane_type};
  // A box holds few columns of longer lines, of which there may be more side by side.
  constexpr int64_t kManyBeside = 32, kVeryShort = 16;
  if (cut.rows > 1 && (cut.inner < kManyBeside || cut.n <= kVeryShort) &&
      cut.n <= (direct && cut.inner == 1 ? 24 : 64))
    return gathered.short_lines(columns);
  if (cut.inner >= 8 && cut.n <= 16384) {
    // As many as the second cache holds, for conversions like long rows; fewer where threads would idle.
    constexpr int64_t kNear = 1 << 17, kFewest = 32;
    const int64_t slabs = cut.rows / cut.inner, each = (get_num_threads() + slabs - 1) / slabs,
                  fair = (cut.inner + each - 1) / each;
    return gathered.long_lines(columns, std::max(kFewest, std::min(kNear / cut.n, fair)));
  }
  const int64_t lane_bytes = dtype_size(lane_type);
  parallel_for(cut.rows, std::max<int64_t>(1, kAlongWork / cut.n), [&](int64_t begin, int64_t end) {
    char* p[kAlongTensors];
    if (direct && cut.inner == 1) {
      for (int64_t row = begin; row < end; ++row) {
        for (int k = 0; k < count; ++k) p[k] = at(k, row * cut.n);
        run(p, cut.n);
      }
      return;
    }
    const Scratch scratch(static_cast<size_t>(count * cut.n * lane_bytes));
    for (int k = 0; k < count; ++k) p[k] = scratch.data() + k * cut.n * lane_bytes;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = cut.first(row);
      for (int k = 1; k < count; ++k)
        level_of::load_tile(static_cast<int>(lanes), static_cast<int>(t[k]->dtype()), p[k],
                            at(k, from), cut.inner, cut.n);
      run(p, cut.n);
      level_of::store_tile(static_cast<int>(lanes), static_cast<int>(t[0]->dtype()), at(0, from),
                           p[0], cut.inner, cut.n);
    }
  });
}

}  // namespace tycho::cpu
