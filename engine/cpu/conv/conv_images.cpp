// Images brought into the layout and type that a convolution's kernels read.
#include "engine/cpu/conv/conv_images.h"

#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv_seen.h"
#include "engine/cpu/elementwise/transpose.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {

void transpose_images(const Tensor& from, const Tensor& to, bool to_last) {
  const int64_t images = from.size(0), channels = from.size(1);
  const int64_t pixels = from.numel() / (images * channels), each = channels * pixels;
  const int size = dtype_size(from.dtype());
  parallel_for(images, std::max<int64_t>(1, (1 << 16) / each), [&](int64_t begin, int64_t end) {
    level_of::transpose(size, end - begin, to_last ? channels : pixels, to_last ? pixels : channels,
                        static_cast<const void*>(from.data() + begin * each * size),
                        static_cast<void*>(to.data() + begin * each * size));
  });
}

Tensor channels_last(const Tensor& given, DType type) {
  if (given.dtype() == type && is_channels_last(given)) return given;
  Tensor to = empty_channels_last(given.shape(), type, given.device());
  Tensor t = given;
  if (t.contiguous() && t.dtype() != type && !is_channels_last(t)) {
    t = empty(t.shape(), type, t.device());
    copy_raw(t, given);
  }
  // A general copy turns tiles, where there are enough channels for them.
  if (t.contiguous() && t.dtype() == type && t.numel() && dtype_size(type) >= 4 && t.size(1) < 4)
    transpose_images(t, to, true);
  else
    copy_raw(to, t);
  return to;
}

namespace {

// Images whose lines are dense, in planes or with channels last, but lie apart.
bool lines_of(const Tensor& x, Pixels* p) {
  if (x.rank() != 4) return false;
  *p = {x.data(), x.stride(0), x.stride(3), x.stride(1), x.stride(2)};
  return (p->pixel == 1 || p->channel == 1) && p->line > 0;
}

}  // namespace

Tensor readable(const Tensor& t, DType type, Pixels* pixels, bool lines) {
  if (t.dtype() == type && (pixels_of(t, pixels) || (lines && lines_of(t, pixels)))) return t;
  // Planes stay planes: turning them would cost more than reading them does.
  const bool planes = t.stride(1) > t.stride(t.rank() - 1);
  const Tensor to = planes ? empty(t.shape(), type, t.device()) : channels_last(t, type);
  if (planes) copy_raw(to, t);
  const int64_t image = to.numel() / std::max<int64_t>(1, to.size(0)),
                plane = image / std::max<int64_t>(1, to.size(1));
  *pixels = planes ? Pixels{to.data(), image, 1, plane} : Pixels{to.data(), image, to.size(1), 1};
  return to;
}

bool wants_even(const Tensor& t, int64_t groups) {
  return t.dtype() == DType::BFloat16 && groups == 1 && t.size(1) % 2 != 0;
}
Tensor one_more_channel(const Tensor& t, bool last) {
  Sizes shape = t.shape();
  ++shape[1];
  const Tensor to = last ? empty_channels_last(shape, t.dtype(), t.device())
                         : empty(shape, t.dtype(), t.device());
  const Tensor all = as_it_lies(to);
  copy_raw(op<"narrow">(all, 1, int64_t{0}, t.size(1)), t);
  fill_raw(op<"narrow">(all, 1, t.size(1), int64_t{1}), Value(int64_t{0}));
  return to;
}

}  // namespace tycho::cpu
