// Folds as the end of held rows: what `fold` would add to what, in pieces that are still in the caches.
#include <algorithm>
#include <bit>

#include "engine/cpu/reduce/reduce.h"

namespace tycho::cpu {

using namespace fold_sizes;

namespace {

constexpr int64_t kPiece =
    16384;  // a multiple of what any fold takes through its registers at a time
constexpr int64_t kShortRows = 8;     // shorter rows are folded as columns
constexpr int64_t kLeastRows = 8192;  // elements of rows that are taken together

}  // namespace

bool HeldFold::plan(const Tensor& x, uint32_t bits, FoldOp op, Lanes lanes) {
  const int folded = std::popcount(bits);
  if (op == FoldOp::ArgMax || op == FoldOp::ArgMin || x.rank() == 0 ||
      bits != ((1u << folded) - 1) << (x.rank() - folded))
    return false;  // not the last dimensions
  op = shared_fold(op);
  f_ = find_fold(op, lanes);
  lanes_ = lanes;
  dtype_ = x.dtype();
  direct_ = dtype_ == lane_type_of(lanes);
  if (const Fold* small = lanes == Lanes::I64 ? small_fold(op, dtype_) : nullptr)
    f_ = small, direct_ = true;
  depth_ = 1;
  for (int d = x.rank() - folded; d < x.rank(); ++d) depth_ *= x.size(d);
  whole_ = depth_ == x.numel();
  if (whole_) {
    if (depth_ < 2 * kWork) return false;
    unit = kWork;
    piece = kPiece;
  } else {
    if (depth_ < kShortRows || (x.numel() / depth_ < kFewTasks && depth_ >= 2 * kWork))
      return false;
    const bool apart = depth_ > kLeastRows;
    unit = apart ? depth_ : kLeastRows / depth_ * depth_;
    piece = apart ? kPiece : unit;
  }
  if (piece < unit || whole_)
    slots_.resize(static_cast<size_t>((x.numel() + unit - 1) / unit * f_->components));
  return true;
}

// As Folder::fold_run does.
void HeldFold::run(const char* values, int64_t n, Slot* s, int64_t cap) const {
  if (direct_) return f_->run(values, n, 0, s, cap);
  alignas(64) char tile[kTile * 8];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t m = std::min(kTile, n - i);
    level_of::load_tile(static_cast<int>(lanes_), static_cast<int>(dtype_), tile,
                        values + i * dtype_size(dtype_), 1, m);
    f_->run(tile, m, 0, s, cap);
  }
}

void HeldFold::take(const char* values, int64_t at, int64_t n) {
  if (!slots_.empty()) {
    Slot* const s = &slots_[static_cast<size_t>(at / unit * f_->components)];
    if (at % unit == 0) f_->init(s, 1, 1);
    run(values, n, s, 1);
    if (!whole_ && at % unit + n == unit) finish(s, 1, 1, at / unit);
    return;
  }
  Slot s[3 * kBlock];
  const int64_t rows = n / depth_, bytes = depth_ * dtype_size(dtype_);
  for (int64_t i = 0; i < rows; i += kBlock) {
    const int64_t m = std::min(kBlock, rows - i);
    f_->init(s, kBlock, m);
    if (direct_ && depth_ <= kTile / 2)
      f_->each(values + i * bytes, depth_, m, depth_, s, kBlock);
    else
      for (int64_t k = 0; k < m; ++k) run(values + (i + k) * bytes, depth_, s + k, kBlock);
    finish(s, kBlock, m, at / depth_ + i);
  }
}

void HeldFold::done() {
  if (!whole_) return;
  const auto size = static_cast<size_t>(f_->components);
  for (size_t k = size; k < slots_.size(); k += size) f_->merge(&slots_[0], 1, &slots_[k], 1, 1);
  finish(&slots_[0], 1, 1, 0);
}

}  // namespace tycho::cpu
