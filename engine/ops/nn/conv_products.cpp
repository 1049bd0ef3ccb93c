// The three products of a convolution, each linear in both of its tensors: the result, the
// input's gradient, the weight's gradient. Their gradients are the other two, so derivatives of
// any order exist. Public names (conv1d, ...) are compositions in conv.cpp.
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/flops.h"
#include "engine/ops/table/samples.h"

// The end of every signature here.
#define PLACES "stride: ints, padding: ints, dilation: ints, groups: int"

namespace tycho {

constinit ConvolutionSettings convolution_settings;

Tensor empty_channels_last(const Sizes& shape, DType dtype, Device device, bool shown) {
  return (shown ? empty_strided : empty_inner)(shape, channels_last_strides(shape), dtype, device);
}

namespace {

bool either_shown(const Tensor& a, const Tensor& b) {
  return prefers_channels_last(a) || prefers_channels_last(b);
}

// Spatial sizes of the result; `padding` holds what is added in front, then what is added behind.
Sizes result_sizes(const Tensor& x, const Tensor& w, const Sizes& stride, const Sizes& padding,
                   const Sizes& dilation) {
  const int spatial = stride.n;
  Sizes out;
  for (int d = 0; d < spatial; ++d) {
    const int64_t have = x.size(d + 2) + padding[d] + padding[spatial + d];
    const int64_t need = dilation[d] * (w.size(d + 2) - 1) + 1;
    TYCHO_CHECK(Kind::Shape, have >= need && w.size(d + 2) > 0,
                "convolution: the kernel covers %lld positions of dimension %d, the input has "
                "%lld there, padding included",
                static_cast<long long>(need), d + 3, static_cast<long long>(have));
    out.push_back((have - need) / stride[d] + 1);
  }
  return out;
}

void convolution_shape(Call& c) {
  const Tensor &x = c.tensor(0), &w = c.tensor(1);
  Sizes shape{x.size(0), w.size(0)};
  for (int64_t s : result_sizes(x, w, c.ints(3), c.ints(4), c.ints(5))) shape.push_back(s);
  c.out.push_back(empty_channels_last(shape, x.dtype(), x.device(), either_shown(x, w)));
}

Sizes spatial(const Sizes& shape) { return Sizes(shape.v + 2, shape.n - 2); }

Sizes bias_dims(int rank) {
  Sizes dims{0};
  for (int d = 2; d < rank; ++d) dims.push_back(d);
  return dims;
}

// Each element of `sums` is a sum of one product per element of a weight's one output channel.
double products_with(const Tensor& sums, const Tensor& weight) {
  const double channels = static_cast<double>(weight.size(0));
  return channels > 0 ? 2 * count_of(sums) * count_of(weight) / channels : 0;
}

const Op& convolution_layout =
    add_op({.name = "convolution_layout",
            .args = "input",
            .doc = "The same images with channels side by side in memory, unseen by the user.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  c.out.push_back(empty_channels_last(x.shape(), x.dtype(), x.device()));
                },
            .run = [](Call& c) { copy_raw(c.out[0], c.tensor(0)); },
            .grad = [](Backward& b) { b.set(0, b.g()); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 5, 4})});
                }});

// A row-major gradient that both products of it would bring into their layout.
Tensor laid_out_once(const Tensor& g) {
  constexpr int64_t kSmall = 1 << 12;
  const bool plain = g->contiguous && g.device().is_cpu() && g.numel() >= kSmall && g.size(1) > 1;
  return plain && !is_channels_last(g) ? op<"convolution_layout">(g) : g;
}

const Op& convolution =
    add_op({.name = "convolution",
            .args = "input, weight, bias: tensor?, " PLACES,
            .doc = "Convolution in one to three dimensions; padding is in front, then behind.",
            .where = kHidden,
            .saves = "input, weight",
            .shape = convolution_shape,
            .grad =
                [](Backward& b) {
                  const Tensor given = b.g();
                  const Tensor g = b.needs(0) && b.needs(1) ? laid_out_once(given) : given;
                  if (b.needs(0))
                    b.set(0, op<"convolution_input">(g, b.in(1), spatial(b.shape(0)), b.ints(3),
                                                     b.ints(4), b.ints(5), b.integer(6)));
                  if (b.needs(1))
                    b.set(1, op<"convolution_weight">(g, b.in(0), spatial(b.shape(1)), b.ints(3),
                                                      b.ints(4), b.ints(5), b.integer(6)));
                  if (b.needs(2)) b.set(2, op<"sum">(given, bias_dims(g.rank())));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 5, 4}), s.normal({4, 3, 3, 2}), s.normal({4}),
                         s.ints({2, 1}), s.ints({1, 0, 1, 1}), s.ints({1, 2}), 1});
                },
            .flops =
                [](const Call& c) {
                  return products_with(c.out[0], c.tensor(1)) + (c.has(2) ? count_of(c.out[0]) : 0);
                }});

// Without the places that only a transposed convolution's extra padding makes: they have no
// gradient to give.
Tensor cut(Tensor y, const Sizes& shape) {
  for (int d = 2; d < y.rank(); ++d)
    if (y.size(d) > shape[d]) y = op<"narrow">(y, d, 0, shape[d]);
  return y;
}

const Op& convolution_input = add_op(
    {.name = "convolution_input",
     .args = "grad, weight, size: ints, " PLACES,
     .doc = "The gradient of a convolution's input: a transposed convolution.",
     .where = kHidden,
     .saves = "grad, weight",
     .shape =
         [](Call& c) {
           const Tensor &g = c.tensor(0), &w = c.tensor(1);
           Sizes shape{g.size(0), w.size(1) * c.integer(6)};
           for (int64_t s : c.ints(2)) shape.push_back(s);
           c.out.push_back(empty_channels_last(shape, g.dtype(), g.device(), either_shown(g, w)));
         },
     .grad =
         [](Backward& b) {
           const Tensor g = b.g();
           if (b.needs(0))
             b.set(0, cut(op<"convolution">(g, b.in(1), Value(), b.ints(3), b.ints(4), b.ints(5),
                                            b.integer(6)),
                          b.shape(0)));
           if (b.needs(1))
             b.set(1, op<"convolution_weight">(b.in(0), g, spatial(b.shape(1)), b.ints(3),
                                               b.ints(4), b.ints(5), b.integer(6)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 4, 3, 3}), s.normal({4, 3, 3, 2}), s.ints({5, 4}), s.ints({2, 1}),
                  s.ints({1, 0, 1, 1}), s.ints({1, 2}), 1});
         },
     .flops = [](const Call& c) { return products_with(c.tensor(0), c.tensor(1)); }});

const Op& convolution_weight =
    add_op({.name = "convolution_weight",
            .args = "grad, input, kernel: ints, " PLACES,
            .doc = "The gradient of a convolution's weight.",
            .where = kHidden,
            .saves = "grad, input",
            .shape =
                [](Call& c) {
                  const Tensor &g = c.tensor(0), &x = c.tensor(1);
                  Sizes shape{g.size(1), x.size(1) / c.integer(6)};
                  for (int64_t s : c.ints(2)) shape.push_back(s);
                  c.out.push_back(empty(shape, g.dtype(), g.device()));
                },
            .grad =
                [](Backward& b) {
                  const Tensor g = b.g();
                  if (b.needs(0))
                    b.set(0, cut(op<"convolution">(b.in(1), g, Value(), b.ints(3), b.ints(4),
                                                   b.ints(5), b.integer(6)),
                                 b.shape(0)));
                  if (b.needs(1))
                    b.set(1, op<"convolution_input">(b.in(0), g, spatial(b.shape(1)), b.ints(3),
                                                     b.ints(4), b.ints(5), b.integer(6)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 4, 3, 3}), s.normal({2, 3, 5, 4}), s.ints({3, 2}),
                         s.ints({2, 1}), s.ints({1, 0, 1, 1}), s.ints({1, 2}), 1});
                },
            .flops = [](const Call& c) { return products_with(c.tensor(0), c.out[0]); }});

// Examples as groups: [n, images, channels, ..] as [images, n channels, ..], and back.
Tensor as_groups(const Spread& s, int i) {
  return op<"flatten">(op<"transpose">(s.repeated(s.one.tensor(i)), 0, 1), 1, 2);
}
Tensor from_groups(const Tensor& t, int64_t examples) {
  return op<"transpose">(op<"unflatten">(t, 1, Sizes{examples, t.size(1) / examples}), 0, 1);
}
Tensor of_all_examples(const Spread& s, int i) {
  return s.one.has(i) ? op<"flatten">(s.repeated(s.one.tensor(i)), 0, 1) : Tensor();
}
void set_groups(Spread& s) { s.all.arg[6] = Value(s.one.integer(6) * s.examples); }

BATCH("convolution_layout", by_images);
BATCH("convolution", [](Spread& s) -> BatchResults {
  if (!s.batched(1) && !s.batched(2)) return by_images(s, true);
  s.all.set(0, as_groups(s, 0));
  s.all.set(1, of_all_examples(s, 1));
  s.all.set(2, of_all_examples(s, 2));
  set_groups(s);
  return {from_groups(s.run()[0], s.examples)};
});
BATCH("convolution_input", [](Spread& s) -> BatchResults {
  if (!s.batched(1)) return by_images(s, true);
  s.all.set(0, as_groups(s, 0));
  s.all.set(1, of_all_examples(s, 1));
  set_groups(s);
  return {from_groups(s.run()[0], s.examples)};
});
BATCH("convolution_weight", [](Spread& s) -> BatchResults {
  s.all.set(0, as_groups(s, 0));
  s.all.set(1, as_groups(s, 1));
  set_groups(s);
  const Tensor w = s.run()[0];
  return {op<"unflatten">(w, 0, Sizes{s.examples, w.size(0) / s.examples})};
});

}  // namespace
}  // namespace tycho
