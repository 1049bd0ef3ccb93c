// Boxes: how large they are, and moving them between memory and tiles.
#include "engine/cpu/boxes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/cpu/elementwise/move.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kPlane = 16;  // elements of two dimensions from which on they are worth a call
constexpr int64_t kLine = 8;    // elements that lie in a cache line together, about
constexpr int64_t kFar = int64_t{1} << 30;  // beyond, distances are not kept

// The dimension in which tensor k's neighbours lie nearest, or -1 if it has one element only.
int nearest_dim(const Walk& w, int k) {
  int best = -1;
  for (int d = w.rank - 1; d >= 0; --d)
    if (w.stride[k][d] != 0 && (best < 0 || std::abs(w.stride[k][d]) < std::abs(w.stride[k][best])))
      best = d;
  return best;
}

}  // namespace

void order_by_first(Walk& w) {
  bool sorted = true;
  for (int d = 1; d < w.rank; ++d)
    sorted = sorted && std::abs(w.stride[0][d - 1]) >= std::abs(w.stride[0][d]);
  if (sorted) return;
  int order[kMaxDims];
  for (int d = 0; d < w.rank; ++d) {
    int k = d;
    for (; k > 0 && std::abs(w.stride[0][order[k - 1]]) < std::abs(w.stride[0][d]); --k)
      order[k] = order[k - 1];
    order[k] = d;
  }
  const Walk old = w;
  w.rank = 0;
  for (int i = 0; i < old.rank; ++i) {
    const int from = order[i];
    bool merge = w.rank > 0;
    for (int k = 0; merge && k < w.count; ++k)
      merge = w.stride[k][w.rank - 1] == old.stride[k][from] * old.size[from];
    if (merge)
      w.size[w.rank - 1] *= old.size[from];
    else
      w.size[w.rank++] = old.size[from];
    for (int k = 0; k < w.count; ++k) w.stride[k][w.rank - 1] = old.stride[k][from];
  }
}

bool wants_boxes(const Walk& w) {
  if (w.rank == 1) return false;
  if (w.inner() < kLongRun) return true;
  for (int k = 0; k < w.count; ++k)
    if (const int d = nearest_dim(w, k); d >= 0 && d != w.rank - 1 && w.stride[k][w.rank - 1] != 0)
      return true;
  return false;
}

Boxes::Boxes(const Walk& w) : walk(&w) {
  std::fill(extent, extent + w.rank, 1);
  const auto take = [&](int d, int64_t most) {
    for (int k = 0; k < w.count; ++k)
      if (w.stride[k][d] != 0) most = std::min(most, kFar / std::abs(w.stride[k][d]) + 1);
    most = std::max<int64_t>(most, 1);
    const int64_t parts = (w.size[d] + most - 1) / most;
    numel /= extent[d];
    extent[d] = (w.size[d] + parts - 1) / parts;
    numel *= extent[d];
  };
  // Where a tensor's neighbours lie together, a cache line's worth of them; the rest is for the
  // result's runs, which most operands share, and then for the dimensions around them.
  bool near[kMaxDims] = {};
  for (int k = 0; k < w.count; ++k)
    if (const int d = nearest_dim(w, k); d >= 0) near[d] = true;
  const int last = w.rank - 1;
  for (int d = 0; d < last; ++d)
    if (near[d] && numel * kLine * kLine < kBox) take(d, w.size[d] < 2 * kLine ? w.size[d] : kLine);
  take(last, kBox / numel);
  for (int pass = 0; pass < 2; ++pass)
    for (int d = last - 1; d >= 0; --d)
      if ((near[d] || pass == 1) && numel * 2 <= kBox) take(d, kBox / (numel / extent[d]));
  for (int d = 0; d < w.rank; ++d) {
    along[d] = (w.size[d] + extent[d] - 1) / extent[d];
    count *= along[d];
  }
}

bool Boxes::at(int64_t i, int64_t* offset, int64_t* size) const {
  const Walk& w = *walk;
  bool whole = true;
  std::fill(offset, offset + w.count, 0);
  for (int d = w.rank - 1; d >= 0; --d) {
    const int64_t from = i % along[d] * extent[d];
    i /= along[d];
    size[d] = std::min(extent[d], w.size[d] - from);
    whole = whole && size[d] == extent[d];
    for (int k = 0; k < w.count; ++k) offset[k] += from * w.stride[k][d];
  }
  return whole;
}

bool Boxes::same_in_all(int k) const {
  for (int d = 0; d < walk->rank; ++d)
    if (along[d] > 1 && walk->stride[k][d] != 0) return false;
  return true;
}

void BoxPart::plan(const Walk& w, int tensor, const int64_t* size) {
  int64_t sizes[kMaxDims], strides[kMaxDims];
  int rank = 0;
  n_ = 1;
  for (int d = 0; d < w.rank; ++d) {
    if (size[d] == 1) continue;
    const int64_t stride = w.stride[tensor][d];
    n_ *= size[d];
    if (rank > 0 && strides[rank - 1] == stride * size[d])
      sizes[rank - 1] *= size[d];
    else
      sizes[rank++] = size[d];
    strides[rank - 1] = stride;
  }
  if (rank == 0) rank = 1, sizes[0] = 1, strides[0] = 1;
  const int last = rank - 1;
  step_ = strides[last];
  rows_ = last > 0 ? sizes[last - 1] : 1;
  cols_ = sizes[last];
  if (rank == 1) {
    kind_ = step_ == 1 ? Kind::Dense : step_ == 0 ? Kind::One : Kind::Step;
    return;
  }
  row_step_ = strides[last - 1];
  kind_ = rows_ * cols_ >= kPlane ? Kind::Planes : Kind::Table;
  // Dimension by dimension from the innermost: each is what lies below, again and again. Planes need
  // the places where they begin only.
  int32_t* at = at_;
  *at++ = 0;
  for (int d = kind_ == Kind::Planes ? last - 2 : last; d >= 0; --d) {
    const int64_t below = at - at_;
    for (int64_t i = 1; i < sizes[d]; ++i) {
      const int32_t shift = static_cast<int32_t>(i * strides[d]);
      for (int64_t j = 0; j < below; ++j) *at++ = at_[j] + shift;
    }
  }
}

int64_t BoxPart::at(int64_t i) const {
  if (kind_ != Kind::Planes) return kind_ == Kind::Dense ? i : at_[i];
  const int64_t plane = rows_ * cols_, in_plane = i % plane;
  return at_[i / plane] + in_plane / cols_ * row_step_ + in_plane % cols_ * step_;
}

void BoxPart::gather(int bytes, char* tile, const char* from) const {
  switch (kind_) {
    case Kind::Dense:
      return level_of::copy_bytes(tile, from, n_ * bytes);
    case Kind::One:
      return level_of::fill_run(bytes, tile, from, n_, false);
    case Kind::Step:
      return level_of::copy_plane(bytes, tile, n_, 1, from, 0, step_, 1, n_);
    case Kind::Planes:
      for (int64_t i = 0, k = 0; i < n_; i += rows_ * cols_, ++k)
        level_of::copy_plane(bytes, tile + i * bytes, cols_, 1, from + at_[k] * int64_t{bytes},
                             row_step_, step_, rows_, cols_);
      return;
    case Kind::Table:
      return level_of::gather(bytes, tile, from, at_, n_);
  }
}

void BoxPart::scatter(int bytes, char* to, const char* tile) const {
  switch (kind_) {
    case Kind::Dense:
      return level_of::copy_bytes(to, tile, n_ * bytes);
    case Kind::Step:
      return level_of::copy_strided(bytes, to, step_, tile, 1, n_);
    case Kind::Planes:
      for (int64_t i = 0, k = 0; i < n_; i += rows_ * cols_, ++k)
        level_of::copy_plane(bytes, to + at_[k] * int64_t{bytes}, row_step_, step_,
                             tile + i * bytes, cols_, 1, rows_, cols_);
      return;
    case Kind::One:
      if (n_ > 0) std::memcpy(to, tile + (n_ - 1) * bytes, static_cast<size_t>(bytes));
      return;
    default: {
      return level_of::scatter(bytes, to, at_, tile, n_);
    }
  }
}

}  // namespace tycho::cpu
