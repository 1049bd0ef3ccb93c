// Walking several tensors of one broadcast shape together: dimensions of size 1 dropped, neighbours
// merged, so that most walks have one or two dimensions left.
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

constexpr int kWalkers = 5;  // a result and four operands

struct Walk {
  int rank = 0;   // after merging; at least 1
  int count = 0;  // tensors
  int64_t numel = 1;
  int64_t size[kMaxDims];
  int64_t stride[kWalkers][kMaxDims];  // in elements; 0 where broadcast
  int64_t inner() const { return size[rank - 1]; }
};

// The first tensor gives the shape; the others broadcast to it.
inline Walk make_walk(const Impl* const* tensors, int count) {
  Walk w;
  w.count = count;
  const Impl* shape = tensors[0];
  w.numel = shape->numel;
  for (int d = 0; d < shape->rank; ++d) {
    const int64_t size = shape->shape[d];
    if (size == 1) continue;
    int64_t step[kWalkers];
    for (int k = 0; k < count; ++k) {
      const int at = d - (shape->rank - tensors[k]->rank);
      step[k] = at < 0 || tensors[k]->shape[at] == 1 ? 0 : tensors[k]->stride[at];
    }
    bool merge = w.rank > 0;
    for (int k = 0; merge && k < count; ++k) merge = w.stride[k][w.rank - 1] == step[k] * size;
    if (merge) {
      w.size[w.rank - 1] *= size;
    } else {
      w.size[w.rank++] = size;
    }
    for (int k = 0; k < count; ++k) w.stride[k][w.rank - 1] = step[k];
  }
  if (w.rank == 0) {
    w.rank = 1;
    w.size[0] = w.numel;  // 1, or 0
    for (int k = 0; k < count; ++k) w.stride[k][0] = 1;
  }
  return w;
}

// Calls f(offsets, rows, n) for so many runs of n elements along the innermost dimension, one after the
// other along the dimension before it, covering elements [begin, end) of the walk; offsets[k] is tensor
// k's element offset at the first run's start.
template <class F>
inline void each_plane(const Walk& w, int64_t begin, int64_t end, F&& f) {
  if (begin >= end) return;
  int64_t index[kMaxDims], offset[kWalkers] = {};
  int64_t rest = begin;
  for (int d = w.rank - 1; d >= 0; --d) {
    index[d] = rest % w.size[d];
    rest /= w.size[d];
    for (int k = 0; k < w.count; ++k) offset[k] += index[d] * w.stride[k][d];
  }
  const int last = w.rank - 1;
  while (begin < end) {
    int64_t n = w.size[last] - index[last], rows = 1;
    if (n > end - begin) n = end - begin;
    const bool whole = last > 0 && n == w.size[last];
    const int along = whole ? last - 1 : last;
    if (whole) {
      rows = w.size[along] - index[along];
      if (rows > (end - begin) / n) rows = (end - begin) / n;
    }
    f(offset, rows, n);
    begin += rows * n;
    const int64_t by = whole ? rows : n;
    index[along] += by;
    for (int k = 0; k < w.count; ++k) offset[k] += by * w.stride[k][along];
    for (int d = along; d > 0 && index[d] == w.size[d]; --d) {
      for (int k = 0; k < w.count; ++k) offset[k] += w.stride[k][d - 1] - index[d] * w.stride[k][d];
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

// As each_plane, each run by itself: f(offsets, n).
template <class F>
inline void each_run(const Walk& w, int64_t begin, int64_t end, F&& f) {
  each_plane(w, begin, end, [&](const int64_t* first, int64_t rows, int64_t n) {
    int64_t offset[kWalkers];
    for (int k = 0; k < w.count; ++k) offset[k] = first[k];
    f(offset, n);
    for (int64_t r = 1; r < rows; ++r) {
      for (int k = 0; k < w.count; ++k) offset[k] += w.stride[k][w.rank - 2];
      f(offset, n);
    }
  });
}

}  // namespace tycho::cpu
