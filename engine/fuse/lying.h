// Programs walk memory from one end to the other. Tensors that lie densely in another order than row
// by row, as those with channels last do, are seen through views of dimensions in the order of memory.
#pragma once
#include <utility>

#include "engine/tensor/tensor.h"

namespace tycho::fuse {

// How a row's result lies: as `like`, which is dense.
class Lying {
 public:
  explicit Lying(const Impl* like) : like_(like) {
    if (like->contiguous) return;
    for (int d = 0; d < like->rank; ++d) {
      order_[d] = d;
      for (int k = d; k > 0 && like->stride[order_[k - 1]] < like->stride[order_[k]]; --k)
        std::swap(order_[k - 1], order_[k]);
    }
    seen_ = view(const_cast<Impl*>(like));
  }

  const Impl* own() const { return like_; }
  const Impl* seen() const { return seen_ ? seen_.get() : like_; }  // row by row
  // An operand, with its dimensions in that order.
  Tensor of(Impl* t) const { return seen_ && t->numel != 1 ? view(t) : Tensor(t); }

 private:
  Tensor view(Impl* t) const {
    Sizes shape, stride;
    const int lead = like_->rank - t->rank;
    for (int i = 0; i < like_->rank; ++i) {
      const int d = order_[i] - lead;
      shape.push_back(d < 0 ? 1 : t->shape[d]);
      stride.push_back(d < 0 ? 0 : t->stride[d]);
    }
    return alias(Tensor(t), shape, stride, t->offset);
  }

  const Impl* like_;
  int order_[kMaxDims];
  Tensor seen_;
};

}  // namespace tycho::fuse
