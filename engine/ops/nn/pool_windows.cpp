// Pooling's hidden ops. Max pooling keeps, beside each result, the number of the tap that won; its
// gradient scatters by these, and the gradient of that gathers. Averages spread and average.
// Public names (max_pool2d, ...) are compositions in pool.cpp.
#include "engine/grad/node.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/nn/pool.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

// The end of every signature here.
#define WINDOWS "kernel: ints, stride: ints, padding: ints"

namespace tycho {

Tensor empty_pooled(const Tensor& like, const Sizes& shape, DType dtype) {
  if (!like.contiguous() && is_channels_last(like))
    return empty_channels_last(shape, dtype, like.device(), !like->inner);
  return empty(shape, dtype, like.device());
}

namespace {

// For gradients: where the pooled tensor is in both layouts (one pixel a plane), channels last,
// because convolutions come before it.
Tensor empty_unpooled(const Tensor& pooled, const Sizes& shape, DType dtype) {
  if (!is_channels_last(pooled)) return empty(shape, dtype, pooled.device());
  return empty_channels_last(shape, dtype, pooled.device(), !shown_contiguous(pooled.get()));
}

Sizes with_spatial(const Tensor& x, const Sizes& spatial) {
  Sizes shape{x.size(0), x.size(1)};
  for (int64_t s : spatial) shape.push_back(s);
  return shape;
}
Sizes spatial_of(const Sizes& shape) { return Sizes(shape.v + 2, shape.n - 2); }

// Bytes where tap numbers fit into them.
DType tap_type(const Tensor& x, const Sizes& size, const Sizes& kernel) {
  int64_t taps = 1;
  for (int d = 0; d < x.rank() - 2; ++d)
    taps *= kernel.n ? kernel[d] : (x.size(d + 2) + size[d] - 1) / size[d] + 1;
  return taps <= 256 ? DType::UInt8 : DType::Int32;
}

const Op& max_pool_windows =
    add_op({.name = "max_pool",
            .args = "self, size: ints, with_taps: bool, " WINDOWS ", dilation: ints",
            .doc = "The largest element of each window, and the number of its tap.",
            .where = kHidden,
            .saves = "out2",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const Sizes shape = with_spatial(x, c.ints(1));
                  c.out.push_back(empty_pooled(x, shape, x.dtype()));
                  if (c.flag(2))
                    c.out.push_back(empty_pooled(x, shape, tap_type(x, c.ints(1), c.ints(3))));
                },
            .grad =
                [](Backward& b) {
                  b.set(0, op<"max_pool_scatter">(b.g(), b.out(1), spatial_of(b.shape(0)),
                                                  b.ints(3), b.ints(4), b.ints(5), b.ints(6)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 5, 6}), s.ints({3, 3}), true, s.ints({3, 2}),
                         s.ints({2, 2}), s.ints({1, 0}), s.ints({1, 1})});
                }});

const Op& max_pool_scatter =
    add_op({.name = "max_pool_scatter",
            .args = "grad, taps, size: ints, " WINDOWS ", dilation: ints",
            .doc = "Zeros with each result's gradient added where its window's maximum stood.",
            .where = kHidden,
            .saves = "taps",
            .shape =
                [](Call& c) {
                  const Tensor& taps = c.tensor(1);
                  c.out.push_back(
                      empty_unpooled(taps, with_spatial(taps, c.ints(2)), c.tensor(0).dtype()));
                },
            .grad =
                [](Backward& b) {
                  b.set(0, op<"max_pool_gather">(b.g(), b.in(1), b.ints(3), b.ints(4), b.ints(5),
                                                 b.ints(6)));
                }});

const Op& max_pool_gather =
    add_op({.name = "max_pool_gather",
            .args = "self, taps, " WINDOWS ", dilation: ints",
            .doc = "The elements that stood at the maxima of a max pooling.",
            .where = kHidden,
            .saves = "taps",
            .shape =
                [](Call& c) {
                  const Tensor& taps = c.tensor(1);
                  c.out.push_back(empty_pooled(taps, taps.shape(), c.tensor(0).dtype()));
                },
            .grad =
                [](Backward& b) {
                  b.set(0, op<"max_pool_scatter">(b.g(), b.in(1), spatial_of(b.shape(0)), b.ints(2),
                                                  b.ints(3), b.ints(4), b.ints(5)));
                }});

const Op& pool_positions =
    add_op({.name = "pool_positions",
            .args = "taps, size: ints, " WINDOWS ", dilation: ints",
            .doc = "Tap numbers as positions in one plane of the input, from 1.",
            .where = kHidden,
            .differentiable = false,
            .shape = [](Call& c) {
              const Tensor& taps = c.tensor(0);
              c.out.push_back(empty_pooled(taps, taps.shape(), DType::Int64));
            }});

// divisor 0: by the window's size; `padded`: padding counts in it.
const Op& avg_pool_windows =
    add_op({.name = "avg_pool",
            .args = "self, size: ints, divisor: int, padded: bool, " WINDOWS,
            .doc = "The mean of each window.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  c.out.push_back(empty_pooled(x, with_spatial(x, c.ints(1)), x.dtype()));
                },
            .grad =
                [](Backward& b) {
                  b.set(0, op<"avg_pool_spread">(b.g(), spatial_of(b.shape(0)), b.integer(2),
                                                 b.flag(3), b.ints(4), b.ints(5), b.ints(6)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 5, 6}), s.ints({3, 3}), 0, true, s.ints({3, 2}),
                         s.ints({2, 2}), s.ints({1, 0})});
                }});

const Op& avg_pool_spread =
    add_op({.name = "avg_pool_spread",
            .args = "grad, size: ints, divisor: int, padded: bool, " WINDOWS,
            .doc = "Each result's gradient, divided, added to every element of its window.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  const Tensor& g = c.tensor(0);
                  c.out.push_back(empty_unpooled(g, with_spatial(g, c.ints(1)), g.dtype()));
                },
            .grad =
                [](Backward& b) {
                  b.set(0, op<"avg_pool">(b.g(), spatial_of(b.shape(0)), b.integer(2), b.flag(3),
                                          b.ints(4), b.ints(5), b.ints(6)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 3, 3}), s.ints({5, 6}), 0, false, s.ints({3, 2}),
                         s.ints({2, 2}), s.ints({1, 0})});
                }});

BATCH("max_pool", by_images);
BATCH("max_pool_scatter", by_images);
BATCH("max_pool_gather", by_images);
BATCH("avg_pool", by_images);
BATCH("avg_pool_spread", by_images);

}  // namespace
}  // namespace tycho
