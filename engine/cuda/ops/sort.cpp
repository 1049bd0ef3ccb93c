// Sorting along a dimension on a device, and what follows from sorted rows: the first k, the k-th,
// medians, the most frequent element.
#include "engine/cuda/kernels/sort.cuh"

#include <algorithm>
#include <bit>

#include "engine/cuda/ops/index_walk.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

class Sorter {
 public:
  Sorter(const Tensor& x, int64_t dim, bool descending, int64_t kept)
      : device_(x.device()), cut_(x.shape(), dim) {
    s_.in = x.data<void>();
    s_.dtype = number_of(x);
    s_.bytes = dtype_size(x.dtype());
    s_.descending = descending;
    s_.rows = cut_.rows();
    s_.n = s_.length = cut_.n;
    s_.inner = cut_.inner;
    s_.kept = kept;
    long_ = x.dtype() == DType::Int64 || x.dtype() == DType::Float64 || cut_.n > INT32_MAX;
  }

  // The first ones of each row.
  void run(void* values, int64_t* positions) {
    if (s_.rows == 0 || s_.kept == 0) return;
    s_.values = values;
    s_.positions = positions;
    const bool few = s_.kept <= kSortTile / 4;
    const int64_t first = s_.n <= kSortTile ? 0 : few ? tiles() * s_.kept : s_.n;
    const size_t bytes =
        static_cast<size_t>(s_.rows * first) * (long_ ? sizeof(LongItem) : sizeof(ShortItem));
    const Scratch one(device_, bytes), other(device_, bytes);
    spare_[0] = one.as();
    spare_[1] = other.as();
    if (few || s_.n <= kSortTile)
      best_of_tiles();
    else
      all();
  }

 private:
  int64_t tiles() const { return (s_.n + kSortTile - 1) / kSortTile; }
  void start(const char* short_name, const char* long_name, Grid grid) const {
    launch(device_, {"sort", long_ ? long_name : short_name}, grid, {kSortThreads}, 0, s_);
  }
  // From items to items.
  void step() {
    s_.from = s_.to;
    s_.to = s_.from == spare_[0] ? spare_[1] : spare_[0];
  }
  void sort_tiles() {
    s_.tiles = tiles();
    const auto rounded = std::bit_ceil(static_cast<uint64_t>(s_.n));
    s_.segment = static_cast<int32_t>(std::min<uint64_t>(rounded, kSortTile));
    start("sort_tiles_short", "sort_tiles_long",
          {blocks_for(s_.rows * s_.tiles, kSortTile / s_.segment)});
  }
  // The best of each tile go on to the next round.
  void best_of_tiles() {
    while (s_.n > kSortTile) {
      step();
      s_.out_n = tiles() * s_.kept;
      sort_tiles();
      s_.n = s_.out_n;
    }
    s_.from = s_.to;
    s_.to = nullptr;
    s_.out_n = s_.kept;
    sort_tiles();
  }
  void all() {
    const int64_t kept = s_.kept;
    step();
    s_.kept = kSortTile;
    s_.out_n = s_.n;
    sort_tiles();
    s_.kept = kept;
    for (s_.run = kSortTile; s_.run < s_.n; s_.run *= 2) {
      step();
      start("sort_merge_short", "sort_merge_long", grid_for(device_, s_.rows * (s_.n + 7) / 8));
    }
    step();
    start("sort_leave_short", "sort_leave_long", grid_for(device_, s_.rows * kept));
  }

  Device device_;
  Cut cut_;
  Sort s_{};
  bool long_;
  void* spare_[2];
};

void first_ones(Call& c, int64_t dim, bool descending, int64_t kept) {
  const Tensor x = packed(c.tensor(0));
  const Written values(c.out[0]), positions(c.out[1]);
  Sorter(x, dim, descending, kept).run(values.data(), positions.data<int64_t>());
  values.finish();
  positions.finish();
}

void sort(Call& c) {
  const Tensor& x = c.tensor(0);
  first_ones(c, c.integer(1), c.flag(2), Cut(x.shape(), c.integer(1)).n);
}

// The element at `rank` (from 0) of each sorted row; a number, or a tensor with one for each row.
struct Sorted {
  Tensor values, positions;
  int64_t dim, n;
  Sorted(const Tensor& x, int64_t d) : dim(x.rank() ? wrap_dim(d, x.rank()) : 0) {
    const Tensor line = x.rank() ? x : alias(x, {1}, {1}, x->offset);
    const auto both = ops<"sort">(line, dim, false, true);
    values = both[0];
    positions = both[1];
    n = line.size(static_cast<int>(dim));
  }
  void give(Call& c, const Tensor& at) const {  // at positions from 1
    copy_raw(c.out[0], op<"reshape">(op<"gather">(values, dim, at), c.out[0].shape()));
    copy_raw(c.out[1], op<"reshape">(op<"gather">(positions, dim, at), c.out[1].shape()));
  }
};

void kthvalue(Call& c) {
  const int64_t k = c.integer(1);
  const Tensor& x = c.tensor(0);
  const Tensor line = x.rank() ? packed(x) : packed(alias(x, {1}, {1}, x->offset));
  const int64_t dim = wrap_dim(c.integer(2), line.rank());
  if (c.out[0].numel() == 0) return;
  const auto first = ops<"topk">(
      as(line, line.dtype() == DType::Bool ? DType::UInt8 : line.dtype()), k, dim, false, true);
  for (int i = 0; i < 2; ++i)
    copy_raw(c.out[i], op<"reshape">(op<"select">(first[i], dim, k - 1), c.out[i].shape()));
}

void median(Call& c, bool skip_nan) {
  const Sorted sorted(c.tensor(0), c.integer(1));
  if (c.out[0].numel() == 0) return;
  const int64_t n = sorted.n;
  const Tensor numbers = op<"sum">(op<"eq">(sorted.values, sorted.values), Sizes{sorted.dim}, true);
  const Tensor middle = op<"floor_divide">(op<"add">(op<"clamp">(numbers, 1, Value()), 1), 2);
  sorted.give(c,
              skip_nan ? middle : op<"where">(op<"lt">(numbers, n), op<"add">(numbers, 1), middle));
}

// Of the elements in order, the last of the longest run; of equally long ones the first.
void mode(Call& c) {
  const Sorted sorted(c.tensor(0), c.integer(1));
  if (c.out[0].numel() == 0) return;
  const int64_t d = sorted.dim, n = sorted.n;
  const Tensor& x = sorted.values;
  Sizes along;
  for (int k = 0; k < x.rank(); ++k) along.push_back(k == d ? n : 1);
  const Tensor number =
      op<"expand">(op<"reshape">(op<"arange">(n, DType::Int64, x.device()), along), x.shape());
  const Tensor start = filled(x.shape(), 0, DType::Int64, x.device());
  if (n > 1) {
    const Tensor now = op<"narrow">(x, d, 1, n - 1), last = op<"narrow">(x, d, 0, n - 1);
    Tensor differs = op<"ne">(now, last);
    if (is_floating(x.dtype()))  // nans are alike here
      differs =
          op<"logical_and">(differs, op<"logical_or">(op<"eq">(now, now), op<"eq">(last, last)));
    copy_raw(op<"narrow">(start, d, 1, n - 1),
             op<"mul">(op<"narrow">(number, d, 1, n - 1), differs));
  }
  const Tensor length = op<"sub">(number, ops<"cummax">(start, d)[0]);
  sorted.give(c, ops<"max.dim">(length, d, true)[1]);
}

BIND_KERNEL(Cuda, "sort", sort);
BIND_KERNEL(Cuda, "topk", [](Call& c) { first_ones(c, c.integer(2), c.flag(3), c.integer(1)); });
BIND_KERNEL(Cuda, "kthvalue", kthvalue);
BIND_KERNEL(Cuda, "median.dim", [](Call& c) { median(c, false); });
BIND_KERNEL(Cuda, "nanmedian.dim", [](Call& c) { median(c, true); });
BIND_KERNEL(Cuda, "mode", mode);

}  // namespace
}  // namespace tycho::cuda
