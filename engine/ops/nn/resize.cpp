// Resizing of images and signals: interpolate. Each output is a weighted sum of inputs, dimension by
// dimension, a composition, so gradients of any order follow.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"

namespace tycho {
namespace {

// How far around an output's place an antialiased resize looks, in inputs.
double support_of(bool cubic, double scale) { return (cubic ? 2 : 1) * std::max(scale, 1.0); }

// Output i along a dimension is the sum of weight[i][k] times input first[i] + k (from 0).
const Op& resample_taps = add_op(
    {.name = "resample_taps",
     .args = "size: int, out: int, scale: float, cubic: bool, corners: bool, antialias: bool, "
             "dtype: dtype, device: device",
     .doc = "The first input and the weights of each output of a resize along one dimension.",
     .where = kHidden,
     .differentiable = false,
     .shape =
         [](Call& c) {
           const int64_t in = c.integer(0), out = c.integer(1);
           const bool cubic = c.flag(3);
           int64_t width = cubic ? 4 : 2;
           if (c.flag(5))
             width = static_cast<int64_t>(std::min<double>(
                 std::floor(support_of(cubic, c.number(2)) * 2) + 1, static_cast<double>(in)));
           c.out.push_back(empty({out}, DType::Int64, c.device(7)));
           c.out.push_back(
               empty({out, std::min(width, in)}, c.dtype(6, DType::Float32), c.device(7)));
         },
     .samples =
         [](Samples& s) {
           s.add({7, 3, 7.0 / 3, false, false, false, DType::Float64, Device()});
           s.add({7, 9, 7.0 / 9, true, true, false, DType::Float32, Device()});
           s.add({9, 4, 9.0 / 4, true, false, true, DType::Float32, Device()});
         }});

const Op& nearest_positions = add_op(
    {.name = "nearest_positions",
     .args = "size: int, out: int, scale: float, shift: float, device: device",
     .doc = "The position of the input that each output of a nearest resize shows.",
     .where = kHidden,
     .differentiable = false,
     .shape = [](Call& c) { c.out.push_back(empty({c.integer(1)}, DType::Int64, c.device(4))); },
     .samples =
         [](Samples& s) {
           s.add({7, 3, 7.0 / 3, 0.5, Device()});
         }});

void interpolate_call(Call& c) {
  const Tensor& x = c.tensor(0);
  const std::string mode = c.string(3);
  const int spatial = x.rank() - 2;
  TYCHO_CHECK(Kind::Shape, spatial >= 1 && spatial <= 3,
              "interpolate: takes [batch, channels, 1 to 3 spatial dimensions], not shape %s",
              to_string(x.shape()).c_str());
  static const struct {
    const char* name;
    int spatial;
  } kModes[] = {{"nearest", 0},  {"nearest-exact", 0}, {"area", 0},     {"linear", 1},
                {"bilinear", 2}, {"bicubic", 2},       {"trilinear", 3}};
  bool known = false;
  for (const auto& m : kModes) {
    if (mode != m.name) continue;
    known = true;
    TYCHO_CHECK(Kind::Value, m.spatial == 0 || m.spatial == spatial,
                "interpolate: mode \"%s\" takes %d spatial dimensions, shape %s has %d", m.name,
                m.spatial, to_string(x.shape()).c_str(), spatial);
  }
  TYCHO_CHECK(
      Kind::Value, known,
      "interpolate: no mode \"%s\"; the modes are nearest, nearest-exact, linear, bilinear, "
      "bicubic, trilinear, area",
      mode.c_str());
  TYCHO_CHECK(Kind::Shape, c.has(1) != c.has(2), "interpolate: give %s of size and scale_factor",
              c.has(1) ? "only one" : "one");
  constexpr int64_t kLongest = int64_t{1} << 40;  // positions are counted in doubles
  Sizes out;
  double factor[3] = {0, 0, 0};
  out.n = spatial;
  if (c.has(1)) {
    const Sizes size = c.ints(1);
    TYCHO_CHECK(Kind::Shape, size.n == 1 || size.n == spatial,
                "interpolate: size takes one number or %d, not %d", spatial, size.n);
    for (int d = 0; d < spatial; ++d) out[d] = size[size.n == 1 ? 0 : d];
  } else {
    const bool list = c.arg[2].tag == Tag::Ints;
    TYCHO_CHECK(Kind::Shape, !list || c.count(2) == 1 || c.count(2) == spatial,
                "interpolate: scale_factor takes one number or %d, not %d", spatial,
                list ? c.count(2) : 1);
    for (int d = 0; d < spatial; ++d) {
      factor[d] = list ? static_cast<double>(c.ints(2)[c.count(2) == 1 ? 0 : d]) : c.number(2);
      const double n = std::floor(static_cast<double>(x.size(d + 2)) * factor[d]);
      out[d] = n >= 0 && n <= kLongest ? static_cast<int64_t>(n) : n > 0 ? kLongest + 1 : 0;
    }
    if (c.has(5) && c.flag(5))  // scales are those of the sizes
      for (double& f : factor) f = 0;
  }
  for (int d = 0; d < spatial; ++d) {
    TYCHO_CHECK(Kind::Shape, out[d] > 0 && x.size(d + 2) > 0,
                "interpolate: sizes must be above 0, input %s to output %s",
                to_string(x.shape()).c_str(), to_string(out).c_str());
    TYCHO_CHECK(Kind::Shape, out[d] <= kLongest, "interpolate: a size of %lld is too large",
                static_cast<long long>(out[d]));
  }
  TYCHO_CHECK(Kind::Value, !c.flag(6) || mode == "bilinear" || mode == "bicubic",
              "interpolate: antialias = true is for mode \"bilinear\" and \"bicubic\", not \"%s\"",
              mode.c_str());
  const bool has_corners = c.has(4);
  TYCHO_CHECK(Kind::Value,
              !has_corners || !(mode.starts_with("nearest") || mode == "area") || !c.flag(4),
              "interpolate: align_corners has no meaning for mode \"%s\"", mode.c_str());
  if (mode == "area") {
    c.out.push_back(spatial == 1   ? op<"adaptive_avg_pool1d">(x, out)
                    : spatial == 2 ? op<"adaptive_avg_pool2d">(x, out)
                                   : op<"adaptive_avg_pool3d">(x, out));
    return;
  }
  const bool near = mode.starts_with("nearest"), bytes = x.dtype() == DType::UInt8;
  TYCHO_CHECK(
      Kind::DType, near || bytes || is_floating(x.dtype()),
      "interpolate: mode \"%s\" takes floating point or uint8, not %s; x:float() makes it so",
      mode.c_str(), dtype_name(x.dtype()));
  // Halves are summed in float32 and rounded once; bytes stay bytes between the dimensions, of which
  // the last comes first (as PyTorch and Pillow). Pixels whose channels lie side by side stay so.
  const bool half = x.dtype() == DType::Float16 || x.dtype() == DType::BFloat16;
  const bool pixels = prefers_channels_last(x);
  Tensor y = half && !near ? Tensor(op<"to.dtype">(x, DType::Float32)) : x;
  if (pixels) y = op<"movedim">(y, Sizes{1}, Sizes{x.rank() - 1});
  const bool corners = has_corners && c.flag(4);
  bool view = !half || near;  // of the input
  for (int n = 0; n < spatial; ++n) {
    const int d = bytes ? spatial - 1 - n : n, dim = d + (pixels ? 1 : 2);
    const int64_t from = x.size(d + 2), to = out[d];
    double scale =
        factor[d] > 0 ? 1 / factor[d] : static_cast<double>(from) / static_cast<double>(to);
    if (from == to && (corners || scale == 1)) continue;
    if (corners) scale = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
    if (near) {
      const double shift = mode == "nearest-exact" ? 0.5 : 0.0;
      const int64_t step = static_cast<int64_t>(scale), begin = static_cast<int64_t>(shift * scale),
                    end = begin + (to - 1) * step + 1;
      if (scale >= 1 && scale == std::floor(scale) && end <= from)  // every so many pixels
        y = op<"slice">(y, dim, begin, end, step), view = true;
      else
        y = op<"index_select">(y, dim, op<"nearest_positions">(from, to, scale, shift, y.device())),
        view = false;
    } else {
      const auto taps = ops<"resample_taps">(from, to, scale, mode == "bicubic", corners, c.flag(6),
                                             bytes ? DType::Float64 : y.dtype(), y.device());
      y = op<"resample">(y, taps[0], taps[1], dim, from, false);
      view = false;
    }
  }
  if (view) y = op<"clone">(y);
  if (pixels) y = op<"movedim">(y, Sizes{x.rank() - 1}, Sizes{1});
  if (y.dtype() != x.dtype()) y = op<"to.dtype">(y, x.dtype());
  c.out.push_back(y);
}

// Weighted sums of neighbours along one dimension; `back` is the transpose, which is its gradient.
const Op& resample = add_op(
    {.name = "resample",
     .args = "input, first, weight, dim: dim, size: int, back: bool",
     .doc =
         "Weighted sums of neighbours along one dimension, or their transpose; bytes are rounded.",
     .where = kHidden,
     .saves = "first, weight",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           Sizes shape = x.shape();
           shape[static_cast<int>(c.integer(3))] = c.flag(5) ? c.integer(4) : c.tensor(2).size(0);
           c.out.push_back(empty(shape, x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) {
           b.set(0,
                 op<"resample">(b.g(), b.in(1), b.in(2), b.integer(3), b.integer(4), !b.flag(5)));
         }});

#define INTERPOLATE_REST                                                                          \
  "mode: string = nearest, align_corners: bool?, recompute_scale_factor: bool?, antialias: bool " \
  "= false"

void interpolate_samples(Samples& s) {
  s.add({s.normal({1, 2, 4}), s.ints({6})});
  s.add({s.normal({1, 2, 4}), s.ints({3}), Value(), "linear"});
  s.add({s.normal({1, 1, 3, 4}), s.ints({5, 6}), Value(), "bilinear", true});
  s.add({s.normal({1, 1, 3, 4}), Value(), 2, "bicubic"});
  s.add({s.normal({1, 1, 4, 4}), s.ints({2, 2}), Value(), "area"});
  s.add({s.normal({1, 1, 7, 6}), s.ints({3, 4}), Value(), "bilinear", Value(), Value(), true});
  s.add({s.normal({1, 1, 9, 4}), s.ints({2, 6}), Value(), "bicubic", Value(), Value(), true});
}

const Op& interpolate = add_op(
    {.name = "interpolate",
     .args = "input, size: ints?, scale_factor: number?, " INTERPOLATE_REST,
     .doc =
         "A signal, image or volume resized: nearest, linear, bilinear, bicubic, trilinear, area; "
         "antialias (bilinear and bicubic) takes all pixels into account where images shrink.",
     .where = kFunctional,
     .see = "nn.functional.grid_sample, nn.functional.pixel_shuffle",
     .rule = "[n, c, ..] -> [n, c, size..]",
     .example = "F.interpolate(torch.tensor{{{1., 2.}}}, {size = 4}) --> f32 [1, 1, 4]\n"
                "[1, :, :]   1  1  2  2",
     .compose = interpolate_call,
     .samples = interpolate_samples});
const Op& interpolate_list = add_op(
    {.name = "interpolate.list",
     .args = "input, size: ints?, scale_factor: ints?, " INTERPOLATE_REST,
     .doc = "A signal, image or volume resized, by one factor for each dimension.",
     .where = kFunctional,
     .see = "nn.functional.grid_sample, nn.functional.pixel_shuffle",
     .rule = "[n, c, ..] -> [n, c, size..]",
     .example =
         "F.interpolate(torch.ones(1, 1, 2, 2), {scale_factor = {1, 2}}) --> f32 [1, 1, 2, 4]\n"
         "[1, 1, :, :]   1  1  1  1\n"
         "               1  1  1  1",
     .compose = interpolate_call,
     .samples = [](Samples& s) {
       s.add({s.normal({1, 1, 3, 4}), Value(), s.ints({2, 1}), "bilinear"});
     }});

}  // namespace
}  // namespace tycho
