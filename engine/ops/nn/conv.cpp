// conv1d, conv2d, conv3d and the transposed convolutions: arguments checked and spread over the
// spatial dimensions, single images given a batch, then one product of conv_products.cpp.
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/spatial.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {

namespace {

// Raises where the tensors do not fit; the input with a batch.
Images check(const char* name, const Tensor& x, const Tensor& w, const Tensor& bias, int spatial,
             int64_t groups, bool transposed) {
  if (w.rank() != spatial + 2)
    fail(Kind::Shape,
         format("%s: the weight must have %d dimensions (%s, kernel), not shape %s", name,
                spatial + 2, transposed ? "in, out / groups" : "out, in / groups",
                to_string(w.shape()).c_str()));
  check_images(name, x, spatial, "x = x:unsqueeze(1)  -- one channel");
  if (x.dtype() != w.dtype())
    fail(Kind::DType, format("%s: input and weight must have one type, these are %s and %s", name,
                             dtype_name(x.dtype()), dtype_name(w.dtype())));
  if (x.dtype() == DType::Bool) fail(Kind::DType, format("%s: takes numbers, not bool", name));
  TYCHO_CHECK(Kind::Value, groups >= 1, "%s: groups must be at least 1, not %lld", name,
              static_cast<long long>(groups));
  TYCHO_CHECK(Kind::Shape, w.size(0) % groups == 0,
              "%s: the weight's first size %lld does not divide into %lld groups", name,
              static_cast<long long>(w.size(0)), static_cast<long long>(groups));
  const bool single = x.rank() == spatial + 1;
  const int64_t channels = x.size(single ? 0 : 1),
                want = transposed ? w.size(0) : w.size(1) * groups;
  if (channels != want)
    fail(
        Kind::Shape,
        format("%s: the input has %lld channels (dimension %d of %s), the weight expects %lld "
               "(shape %s is %s x kernel, groups = %lld)",
               name, static_cast<long long>(channels), single ? 1 : 2, to_string(x.shape()).c_str(),
               static_cast<long long>(want), to_string(w.shape()).c_str(),
               transposed ? "in x out/groups" : "out x in/groups", static_cast<long long>(groups)));
  const int64_t out = transposed ? w.size(1) * groups : w.size(0);
  if (bias) {
    if (bias.dtype() != x.dtype())
      fail(Kind::DType, format("%s: input and bias must have one type, these are %s and %s", name,
                               dtype_name(x.dtype()), dtype_name(bias.dtype())));
    TYCHO_CHECK(Kind::Shape, bias.rank() == 1 && bias.size(0) == out,
                "%s: the bias must have shape [%lld], one number per output channel, not %s", name,
                static_cast<long long>(out), to_string(bias.shape()).c_str());
  }
  for (int d = 2; d < w.rank(); ++d)
    TYCHO_CHECK(Kind::Shape, w.size(d) > 0, "%s: the kernel is empty: %s", name,
                to_string(w.shape()).c_str());
  return with_batch(x, spatial);
}

void run(Call& c, int spatial, const Sizes& stride, const Sizes& padding, const Sizes& dilation) {
  const Images k =
      check(c.op->name, c.tensor(0), c.tensor(1), c.tensor(2), spatial, c.integer(6), false);
  c.out.push_back(k.back(
      op<"convolution">(k.x, c.tensor(1), c.arg[2], stride, padding, dilation, c.integer(6))));
}

template <int spatial>
void conv(Call& c) {
  const char* name = c.op->name;
  const Sizes stride = spread(name, "stride", c.ints(3), spatial, 1);
  const Sizes dilation = spread(name, "dilation", c.ints(5), spatial, 1);
  Sizes padding = spread(name, "padding", c.ints(4), spatial, 0);
  for (int d = 0; d < spatial; ++d) padding.push_back(padding[d]);
  run(c, spatial, stride, padding, dilation);
}

// padding = "valid" (none) or "same" (results as large as the input; an odd one goes behind).
template <int spatial>
void conv_named(Call& c) {
  const std::string name = std::string(c.op->name).substr(0, 6);
  const std::string_view mode = c.string(4);
  TYCHO_CHECK(Kind::Value, mode == "same" || mode == "valid",
              "%s: padding is a number, a list, \"same\" or \"valid\", not \"%s\"", name.c_str(),
              c.string(4));
  const Sizes stride = spread(name.c_str(), "stride", c.ints(3), spatial, 1);
  const Sizes dilation = spread(name.c_str(), "dilation", c.ints(5), spatial, 1);
  Sizes padding = repeated(2 * spatial, 0);
  if (mode == "same" && c.tensor(1).rank() == spatial + 2)
    for (int d = 0; d < spatial; ++d) {
      TYCHO_CHECK(Kind::Value, stride[d] == 1,
                  "%s: padding \"same\" needs stride 1, the stride of spatial dimension %d is %lld",
                  name.c_str(), d + 1, static_cast<long long>(stride[d]));
      const int64_t total = dilation[d] * (c.tensor(1).size(d + 2) - 1);
      padding[d] = total / 2;
      padding[spatial + d] = total - total / 2;
    }
  run(c, spatial, stride, padding, dilation);
}

template <int spatial>
void conv_transposed(Call& c) {
  const char* name = c.op->name;
  const Sizes stride = spread(name, "stride", c.ints(3), spatial, 1);
  Sizes padding = spread(name, "padding", c.ints(4), spatial, 0);
  const Sizes extra = spread(name, "output_padding", c.ints(5), spatial, 0);
  const Sizes dilation = spread(name, "dilation", c.ints(7), spatial, 1);
  const Tensor& w = c.tensor(1);
  const Images k = check(name, c.tensor(0), w, c.tensor(2), spatial, c.integer(6), true);
  Sizes size;
  for (int d = 0; d < spatial; ++d) {
    TYCHO_CHECK(Kind::Value, extra[d] < stride[d] || extra[d] < dilation[d],
                "%s: output_padding must be smaller than stride or dilation, not %lld", name,
                static_cast<long long>(extra[d]));
    const int64_t n = (k.x.size(d + 2) - 1) * stride[d] - 2 * padding[d] +
                      dilation[d] * (w.size(d + 2) - 1) + extra[d] + 1;
    TYCHO_CHECK(Kind::Shape, n > 0 && k.x.size(d + 2) > 0,
                "%s: the result's dimension %d would have size %lld", name, d + 3,
                static_cast<long long>(n));
    size.push_back(n);
  }
  for (int d = 0; d < spatial; ++d) padding.push_back(padding[d]);
  Tensor y = op<"convolution_input">(k.x, w, size, stride, padding, dilation, c.integer(6));
  if (c.has(2)) {
    Sizes shape{c.tensor(2).size(0)};
    for (int d = 0; d < spatial; ++d) shape.push_back(1);
    y = y + op<"reshape">(c.tensor(2), shape);
  }
  c.out.push_back(k.back(y));
}

const Op& add_conv(const char* name, const char* args, const char* doc, const Help& help,
                   void (*compose)(Call&), void (*samples)(Samples&)) {
  return add_spatial(name, args, doc, help, Amp::Low, compose, samples);
}

#define CONV_ARGS(padding, rest) \
  "input, weight, bias: tensor?, stride: ints = 1, padding: " padding ", " rest
constexpr const char kArgs[] = CONV_ARGS("ints = 0", "dilation: ints = 1, groups: int = 1");
constexpr const char kNamedArgs[] = CONV_ARGS("string", "dilation: ints = 1, groups: int = 1");
constexpr const char kTransposedArgs[] =
    CONV_ARGS("ints = 0", "output_padding: ints = 0, groups: int = 1, dilation: ints = 1");
constexpr const char kNamedDoc[] =
    "Convolution with padding \"same\" (result as large as the input) or \"valid\" (none).";

const Op& conv1d = add_conv(
    "conv1d", kArgs, "Convolution of signals [batch, in, length] with a weight [out, in, kernel].",
    {.see = "conv_transpose1d, conv2d",
     .rule = "[N, in, L], [out, in / groups, k] -> [N, out, (L + 2 padding - dilation (k - 1) - 1) "
             "// stride + 1]",
     .example = "F.conv1d(torch.tensor{{{1.0, 2.0, 3.0, 4.0}}}, torch.tensor{{{1.0, "
                "1.0}}}):flatten() --> f32 [3]  view  3 5 7"},
    conv<1>, [](Samples& s) {
      s.add({s.normal({2, 3, 6}), s.normal({4, 3, 3}), s.normal({4})});
      s.add({s.normal({2, 4, 7}), s.normal({4, 2, 3}), nullptr, s.ints({2}), s.ints({1}),
             s.ints({1}), 2});
      s.add({s.normal({3, 6}), s.normal({4, 3, 3})});
    });
const Op& conv2d = add_conv(
    "conv2d", kArgs,
    "Convolution of images [batch, in, height, width] with a weight [out, in, h, w].",
    {.see = "conv_transpose2d, max_pool2d, unfold",
     .rule = "[N, in, H, W], [out, in / groups, kh, kw] -> [N, out, (H + 2 padding - dilation (kh "
             "- 1) - 1) // stride + 1, the same of W]",
     .example =
         "F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))[{1, 1}] --> f32 [2, 2]  view\n"
         " 4  4\n"
         " 4  4\n"
         "F.conv2d(torch.ones(8, 3, 28, 28), torch.ones(16, 3, 5, 5), {padding=2}).shape --> [8, "
         "16, 28, 28]"},
    conv<2>, [](Samples& s) {
      s.add({s.normal({2, 3, 5, 4}), s.normal({4, 3, 3, 3}), s.normal({4}), s.ints({1}),
             s.ints({1})});
      s.add({s.normal({1, 4, 5, 5}), s.normal({6, 2, 2, 3}), s.normal({6}), s.ints({2, 1}),
             s.ints({1, 2}), s.ints({1, 2}), 2});
      s.add({s.normal({2, 5, 5}), s.normal({3, 2, 1, 1})});
      s.add({s.normal({1, 3, 4, 4}), s.normal({3, 1, 3, 3}), s.normal({3}), s.ints({1}),
             s.ints({1}), s.ints({1}), 3});
    });
const Op& conv3d = add_conv(
    "conv3d", kArgs,
    "Convolution of volumes [batch, in, depth, height, width] with a weight [out, in, d, h, w].",
    {.see = "conv_transpose3d, conv2d",
     .rule = "[N, in, D, H, W], [out, in / groups, kd, kh, kw] -> [N, out, and each size (n + 2 "
             "padding - dilation (k - 1) - 1) // stride + 1]",
     .example = "F.conv3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2)):flatten() --> f32 "
                "[1]  view  8"},
    conv<3>, [](Samples& s) {
      s.add({s.normal({1, 2, 3, 4, 3}), s.normal({2, 2, 2, 3, 2}), s.normal({2}), s.ints({1}),
             s.ints({1})});
    });
const Op& conv1d_named = add_conv(
    "conv1d.mode", kNamedArgs, kNamedDoc,
    {.see = "conv_transpose1d, conv2d",
     .rule = "padding \"same\", stride 1: [N, in, L] -> [N, out, L]",
     .example = "F.conv1d(torch.tensor{{{1.0, 2.0, 3.0}}}, torch.ones(1, 1, 3), "
                "{padding=\"same\"}):flatten() --> f32 [3]  view  3 6 5"},
    conv_named<1>, [](Samples& s) {
      s.add({s.normal({2, 3, 6}), s.normal({4, 3, 4}), s.normal({4}), s.ints({1}), "same"});
    });
const Op& conv2d_named = add_conv(
    "conv2d.mode", kNamedArgs, kNamedDoc,
    {.see = "conv_transpose2d",
     .rule = "padding \"same\", stride 1: [N, in, H, W] -> [N, out, H, W]",
     .example = "F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), {padding=\"same\"})[{1, "
                "1}] --> f32 [3, 3]  view\n"
                " 4  6  4\n"
                " 6  9  6\n"
                " 4  6  4"},
    conv_named<2>, [](Samples& s) {
      s.add({s.normal({1, 2, 5, 4}), s.normal({3, 2, 3, 2}), s.normal({3}), s.ints({1}), "same"});
      s.add({s.normal({1, 2, 5, 4}), s.normal({3, 2, 3, 2}), nullptr, s.ints({1}), "valid"});
    });
const Op& conv3d_named = add_conv(
    "conv3d.mode", kNamedArgs, kNamedDoc,
    {.see = "conv_transpose3d",
     .rule = "padding \"same\", stride 1: [N, in, D, H, W] -> [N, out, D, H, W]",
     .example = "F.conv3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 1, 1, 1), "
                "{padding=\"same\"}).shape --> [1, 1, 2, 2, 2]"},
    conv_named<3>, [](Samples& s) {
      s.add({s.normal({1, 2, 3, 4, 3}), s.normal({2, 2, 2, 3, 2}), nullptr, s.ints({1}), "same"});
    });
const Op& conv_transpose1d = add_conv(
    "conv_transpose1d", kTransposedArgs,
    "Transposed convolution of signals [batch, in, length], weight [in, out, kernel].",
    {.see = "conv1d",
     .rule = "[N, in, L], [in, out / groups, k] -> [N, out, (L - 1) stride - 2 padding + dilation "
             "(k - 1) + output_padding + 1]",
     .example = "F.conv_transpose1d(torch.tensor{{{1.0, 2.0}}}, torch.tensor{{{1.0, 1.0}}}, "
                "{stride=2}):flatten() --> f32 [4]  view  1 1 2 2"},
    conv_transposed<1>, [](Samples& s) {
      s.add({s.normal({2, 3, 4}), s.normal({3, 2, 3}), s.normal({2}), s.ints({2}), s.ints({1})});
    });
const Op& conv_transpose2d = add_conv(
    "conv_transpose2d", kTransposedArgs,
    "Transposed convolution of images [batch, in, height, width], weight [in, out, h, w].",
    {.see = "conv2d",
     .rule = "[N, in, H, W], [in, out / groups, kh, kw] -> [N, out, (H - 1) stride - 2 padding + "
             "dilation (kh - 1) + output_padding + 1, the same of W]",
     .example = "F.conv_transpose2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))[{1, 1}] --> "
                "f32 [3, 3]  view\n"
                " 1  2  1\n"
                " 2  4  2\n"
                " 1  2  1"},
    conv_transposed<2>, [](Samples& s) {
      s.add({s.normal({2, 3, 3, 4}), s.normal({3, 2, 3, 2}), s.normal({2}), s.ints({2, 1}),
             s.ints({1, 0}), s.ints({1, 0})});
      s.add({s.normal({1, 4, 3, 3}), s.normal({4, 1, 2, 2}), nullptr, s.ints({2}), s.ints({0}),
             s.ints({0}), 2});
    });
const Op& conv_transpose3d = add_conv(
    "conv_transpose3d", kTransposedArgs,
    "Transposed convolution of volumes [batch, in, depth, height, width].",
    {.see = "conv3d",
     .rule = "[N, in, D, H, W], [in, out / groups, kd, kh, kw] -> [N, out, each size (n - 1) "
             "stride - 2 padding + dilation (k - 1) + output_padding + 1]",
     .example = "F.conv_transpose3d(torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 2, 2, 2)).shape "
                "--> [1, 1, 2, 2, 2]"},
    conv_transposed<3>, [](Samples& s) {
      s.add(
          {s.normal({1, 2, 2, 3, 2}), s.normal({2, 2, 2, 3, 2}), s.normal({2}), s.ints({1, 2, 1})});
    });

}  // namespace
}  // namespace tycho
