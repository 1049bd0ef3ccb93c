// Boxes: how large they are, and moving them between memory and tiles.
#include "engine/cpu/boxes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kPlane = 16;  // elements of two dimensions from which on they are worth a call
constexpr int64_t kLine = 8;    // elements that lie in a cache line together, about
constexpr int64_t kTurn = 4;    // elements along either side that are worth turning together
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

Boxes::Boxes(const Walk& w, int bytes) : walk(&w) {
  if (!(bytes && cut_large(bytes))) cut();
  for (int d = 0; d < w.rank; ++d) {
    along[d] = (w.size[d] + extent[d] - 1) / extent[d];
    count *= along[d];
  }
}

void Boxes::take(int d, int64_t most) {
  const Walk& w = *walk;
  for (int k = 0; k < w.count; ++k)
    if (w.stride[k][d] != 0) most = std::min(most, kFar / std::abs(w.stride[k][d]) + 1);
  most = std::max<int64_t>(most, 1);
  const int64_t parts = (w.size[d] + most - 1) / most;
  numel /= extent[d];
  extent[d] = (w.size[d] + parts - 1) / parts;
  numel *= extent[d];
}

// Of each dimension in which some tensor's neighbours lie together, a cache line's worth; the rest is
// for the result's runs, which most operands share, and then for the dimensions around them.
void Boxes::cut() {
  const Walk& w = *walk;
  std::fill(extent, extent + w.rank, 1);
  bool near[kMaxDims] = {};
  for (int k = 0; k < w.count; ++k)
    if (const int d = nearest_dim(w, k); d >= 0) near[d] = true;
  const int last = w.rank - 1;
  for (int d = 0; d < last; ++d)
    if (near[d] && numel * kLine * kLine < kBox) take(d, w.size[d] < 2 * kLine ? w.size[d] : kLine);
  take(last, kBox / numel);
  grow(near, kBox);
}

void Boxes::grow(const bool* near, int64_t most) {
  for (int pass = 0; pass < 2; ++pass)
    for (int d = walk->rank - 2; d >= 0; --d)
      if ((near[d] || pass == 1) && numel * 2 <= most) take(d, most / (numel / extent[d]));
}

// Where one dimension is turned: long pieces of the result's runs, and of what lies along that
// dimension as much as the tile has room for.
bool Boxes::cut_large(int bytes) {
  constexpr int64_t kTileBytes = 256 << 10, kPieceBytes = 8192, kLineBytes = 64, kParts = 4;
  const Walk& w = *walk;
  const int64_t most = std::min(w.numel / (kParts * get_num_threads()), kTileBytes / bytes);
  if (most <= kBox) return false;
  const int last = w.rank - 1;
  int turned = -1;
  for (int k = 0; k < w.count; ++k) {
    const int d = nearest_dim(w, k);
    if (d < 0 || d == last || d == turned || w.size[d] < 4 * kLine) continue;
    if (turned >= 0) return false;
    turned = d;
  }
  if (turned < 0 || w.inner() < 4 * kLine) return false;
  std::fill(extent, extent + w.rank, 1);
  take(last, std::min(kPieceBytes / bytes, most * bytes / kLineBytes));
  take(turned, std::max<int64_t>(most / numel, 1));
  bool near[kMaxDims] = {};
  near[turned] = true;
  grow(near, most);
  return true;
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
  // A plane's rows are the dimension before the last, or that in which elements lie together.
  int row = std::max(0, last - 1);
  if (strides[last] != 1 && strides[row] != 1)
    for (int d = row - 1; d >= 0; --d)
      if (strides[d] == 1 && sizes[d] >= kTurn && sizes[last] >= kTurn) row = d;
  step_ = strides[last];
  rows_ = last > 0 ? sizes[row] : 1;
  cols_ = sizes[last];
  between_ = 1;
  for (int d = row + 1; d < last; ++d) between_ *= sizes[d];
  if (rank == 1) {
    kind_ = step_ == 1 ? Kind::Dense : step_ == 0 ? Kind::One : Kind::Step;
    return;
  }
  row_step_ = strides[row];
  kind_ = rows_ * cols_ >= kPlane ? Kind::Planes : Kind::Table;
  // Dimension by dimension from the innermost: each is what lies below, again and again. Planes need
  // the places where they begin only.
  const int64_t places = kind_ == Kind::Planes ? n_ / (rows_ * cols_) : n_;
  if (places > kBox) many_.resize(static_cast<size_t>(places));
  int32_t *const first = places > kBox ? many_.data() : few_, *at = first;
  at_ = first;
  *at++ = 0;
  for (int d = last; d >= 0; --d) {
    if (kind_ == Kind::Planes && (d == last || d == row)) continue;
    const int64_t below = at - first;
    for (int64_t i = 1; i < sizes[d]; ++i) {
      const int32_t shift = static_cast<int32_t>(i * strides[d]);
      for (int64_t j = 0; j < below; ++j) *at++ = first[j] + shift;
    }
  }
}

int64_t BoxPart::at(int64_t i) const {
  if (kind_ != Kind::Planes) return kind_ == Kind::Dense ? i : at_[i];
  const int64_t plane = rows_ * cols_, in_plane = i % plane;
  return at_[i / plane] + in_plane / cols_ * row_step_ + in_plane % cols_ * step_;
}

template <class F>
void BoxPart::each_plane(F&& f) const {
  const int64_t plane = rows_ * cols_;
  for (int64_t k = 0; k * plane < n_; ++k)
    f(k / between_ * between_ * plane + k % between_ * cols_, int64_t{at_[k]});
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
      return each_plane([&](int64_t in_tile, int64_t in_memory) {
        level_of::copy_plane(bytes, tile + in_tile * bytes, between_ * cols_, 1,
                             from + in_memory * bytes, row_step_, step_, rows_, cols_);
      });
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
      return each_plane([&](int64_t in_tile, int64_t in_memory) {
        level_of::copy_plane(bytes, to + in_memory * bytes, row_step_, step_,
                             tile + in_tile * bytes, between_ * cols_, 1, rows_, cols_);
      });
    case Kind::One:
      if (n_ > 0) std::memcpy(to, tile + (n_ - 1) * bytes, static_cast<size_t>(bytes));
      return;
    default: {
      return level_of::scatter(bytes, to, at_, tile, n_);
    }
  }
}

}  // namespace tycho::cpu
