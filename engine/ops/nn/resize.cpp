// Resizing and resampling of images and signals: interpolate, grid_sample, and the shuffles of
// channels and pixels. Compositions: each output is a weighted sum of inputs, dimension by
// dimension, so gradients of any order follow.
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
                 std::ceil(support_of(cubic, c.number(2))) * 2 + 1, static_cast<double>(in)));
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
  // Halves are summed in float32 and rounded once; bytes, too.
  const bool half = x.dtype() == DType::Float16 || x.dtype() == DType::BFloat16;
  Tensor y = half || (bytes && !near) ? Tensor(op<"to.dtype">(x, DType::Float32)) : x;
  const bool corners = has_corners && c.flag(4);
  for (int d = 0; d < spatial; ++d) {
    const int64_t in = x.size(d + 2), n = out[d];
    double scale = factor[d] > 0 ? 1 / factor[d] : static_cast<double>(in) / static_cast<double>(n);
    if (in == n && (corners || scale == 1)) continue;
    if (corners) scale = n > 1 ? static_cast<double>(in - 1) / static_cast<double>(n - 1) : 0;
    if (near) {
      y = op<"index_select">(
          y, d + 2,
          op<"nearest_positions">(in, n, scale, mode == "nearest-exact" ? 0.5 : 0.0, y.device()));
    } else {
      const auto taps = ops<"resample_taps">(in, n, scale, mode == "bicubic", corners, c.flag(6),
                                             y.dtype(), y.device());
      y = op<"resample">(y, taps[0], taps[1], d + 2, in, false);
    }
  }
  if (bytes && !near) y = op<"clamp">(op<"floor">(y + 0.5), 0, 255);
  if (y.dtype() != x.dtype()) y = op<"to.dtype">(y, x.dtype());
  if (prefers_channels_last(x))
    y = op<"contiguous">(y, x.rank() == 4 ? "channels_last" : "channels_last_3d");
  c.out.push_back(y.get() == x.get() ? op<"clone">(y) : y);
}

// Weighted sums of neighbours along one dimension; `back` is the transpose, which is its gradient.
const Op& resample = add_op(
    {.name = "resample",
     .args = "input, first, weight, dim: dim, size: int, back: bool",
     .doc = "Weighted sums of neighbours along one dimension, or their transpose.",
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

// ---- grid_sample ----

// A coordinate folded back into [low, high] like a ball between walls.
Tensor reflected(const Tensor& x, double low, double high) {
  if (low == high) return x * 0;
  const double span = high - low;
  const Tensor away = op<"abs">(x - low);
  const Tensor flips = op<"floor">(away / span);
  const Tensor extra = away - flips * span;
  const Tensor even = fn::eq(op<"remainder">(flips, 2), 0);
  return op<"where">(even, extra + low, Operand(span) - extra + low);
}

struct Sampler {
  std::string mode, padding;
  bool corners;

  Tensor unnormalized(const Tensor& g, int64_t size) const {
    const double n = static_cast<double>(size);
    return corners ? (g + 1) * ((n - 1) / 2) : ((g + 1) * n - 1) * 0.5;
  }
  Tensor inside(const Tensor& x, int64_t size) const {
    const double n = static_cast<double>(size);
    if (padding == "border") return op<"clamp">(x, 0, n - 1);
    if (padding == "reflection") {
      const Tensor r = corners ? reflected(x, 0, n - 1) : reflected(x, -0.5, n - 0.5);
      return op<"clamp">(r, 0, n - 1);
    }
    return x;
  }
};

// The input's values at whole positions (tensors of numbers, one per dimension), zero outside.
Tensor picked(const Tensor& flat, const Sizes& spatial, const std::vector<Tensor>& at) {
  Tensor index, valid;
  {
    NoGrad quiet;
    for (int d = 0; d < spatial.n; ++d) {
      const Tensor ok = op<"logical_and">(fn::ge(at[d], 0), fn::lt(at[d], spatial[d]));
      valid = valid ? op<"logical_and">(valid, ok) : ok;
      const Tensor p = op<"to.dtype">(op<"clamp">(at[d], 0, spatial[d] - 1), DType::Int64);
      index = index ? index * spatial[d] + p : p;
    }
    index = op<"unsqueeze">(op<"flatten">(index, 1) + 1, 1);
    index = op<"expand">(index, Sizes{flat.size(0), flat.size(1), index.size(2)});
    valid = op<"unsqueeze">(op<"flatten">(valid, 1), 1);
  }
  return op<"masked_fill">(op<"gather">(flat, 2, index), op<"logical_not">(valid), 0);
}

Tensor along(const Tensor& w) { return op<"unsqueeze">(op<"flatten">(w, 1), 1); }

Tensor sample_linear(const Tensor& flat, const Sizes& spatial, const std::vector<Tensor>& x) {
  std::vector<Tensor> low;
  {
    NoGrad quiet;
    for (const Tensor& one : x) low.push_back(op<"floor">(one));
  }
  Tensor sum;
  for (int corner = 0; corner < 1 << spatial.n; ++corner) {
    std::vector<Tensor> at;
    Tensor weight;
    for (int d = 0; d < spatial.n; ++d) {
      const bool high = corner >> d & 1;
      at.push_back(high ? low[d] + 1 : low[d]);
      const Tensor t = x[d] - low[d], w = high ? t : Operand(1) - t;
      weight = weight ? weight * w : w;
    }
    const Tensor part = picked(flat, spatial, at) * along(weight);
    sum = sum ? sum + part : part;
  }
  return sum;
}

Tensor sample_cubic(const Tensor& flat, const Sizes& spatial, const std::vector<Tensor>& x,
                    const Sampler& s) {
  constexpr double kA = -0.75;
  std::vector<Tensor> low, weights[2];
  for (int d = 0; d < 2; ++d) {
    {
      NoGrad quiet;
      low.push_back(op<"floor">(x[d]));
    }
    const Tensor t = x[d] - low[d];
    const auto near = [&](const Tensor& v) { return ((v * (kA + 2)) - (kA + 3)) * v * v + 1; };
    const auto far = [&](const Tensor& v) { return ((v * kA - 5 * kA) * v + 8 * kA) * v - 4 * kA; };
    weights[d] = {far(t + 1), near(t), near(Operand(1) - t), far(Operand(2) - t)};
  }
  Tensor sum;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 4; ++k) {
      std::vector<Tensor> at;
      {
        NoGrad quiet;
        at = {s.inside(low[0] + (i - 1), spatial[0]), s.inside(low[1] + (k - 1), spatial[1])};
      }
      const Tensor part = picked(flat, spatial, at) * along(weights[0][i] * weights[1][k]);
      sum = sum ? sum + part : part;
    }
  return sum;
}

void grid_sample_call(Call& c) {
  const Tensor &x = c.tensor(0), &grid = c.tensor(1);
  const Sampler s{c.string(2), c.string(3), c.has(4) && c.flag(4)};
  const int n = x.rank() - 2;
  TYCHO_CHECK(
      Kind::Shape, (n == 2 || n == 3) && grid.rank() == x.rank() && grid.size(0) == x.size(0),
      "grid_sample: takes [n, c, h, w] and a grid [n, h, w, 2] (or one dimension more), not "
      "%s and %s",
      to_string(x.shape()).c_str(), to_string(grid.shape()).c_str());
  TYCHO_CHECK(Kind::Shape, grid.size(-1) == n,
              "grid_sample: the grid's last dimension must have size %d, its shape is %s", n,
              to_string(grid.shape()).c_str());
  TYCHO_CHECK(
      Kind::Value, s.mode == "bilinear" || s.mode == "nearest" || (s.mode == "bicubic" && n == 2),
      "grid_sample: mode is \"bilinear\", \"nearest\" or \"bicubic\" (of images), not \"%s\"",
      s.mode.c_str());
  TYCHO_CHECK(Kind::Value,
              s.padding == "zeros" || s.padding == "border" || s.padding == "reflection",
              "grid_sample: padding_mode is \"zeros\", \"border\" or \"reflection\", not \"%s\"",
              s.padding.c_str());
  Sizes spatial, out{x.size(0), x.size(1)};
  for (int d = 0; d < n; ++d) {
    spatial.push_back(x.size(d + 2));
    out.push_back(grid.size(d + 1));
  }
  std::vector<Tensor> at;  // in the order of the dimensions; the grid holds the last one first
  for (int d = 0; d < n; ++d) {
    const Tensor g = s.unnormalized(op<"select">(grid, -1, n - 1 - d), spatial[d]);
    at.push_back(s.mode == "bicubic" ? g : s.inside(g, spatial[d]));
  }
  const Tensor flat = op<"flatten">(x, 2);
  Tensor y;
  if (s.mode == "nearest") {
    for (Tensor& one : at) one = op<"round">(one);
    y = picked(flat, spatial, at);
  } else if (s.mode == "bicubic") {
    y = sample_cubic(flat, spatial, at, s);
  } else {
    y = sample_linear(flat, spatial, at);
  }
  c.out.push_back(op<"view">(y, out));
}

const Op& grid_sample = add_op(
    {.name = "grid_sample",
     .args = "input, grid, mode: string = bilinear, padding_mode: string = zeros, align_corners: "
             "bool?",
     .doc = "The input read at the positions of a grid, whose numbers go from -1 to 1 (x first).",
     .where = kFunctional | kFunction,
     .amp = Amp::Widest,
     .see = "nn.functional.interpolate",
     .rule = "[n, c, h, w], [n, h2, w2, 2] -> [n, c, h2, w2]",
     .example = "F.grid_sample(torch.tensor{{{{1., 2.}, {3., 4.}}}}, torch.zeros(1, 1, 1, 2), "
                "{align_corners = true}) --> f32 [1, 1, 1, 1]  view\n"
                "[1, 1, :, :]   2.5",
     .compose = grid_sample_call,
     .samples = [](Samples& s) {
       s.add({s.normal({1, 2, 3, 3}), s.uniform({1, 2, 2, 2}, -0.9, 0.9)});
       s.add(
           {s.normal({1, 1, 3, 4}), s.uniform({1, 2, 2, 2}, -0.9, 0.9), "bicubic", "border", true});
       s.add({s.normal({1, 1, 2, 3, 3}), s.uniform({1, 1, 2, 2, 3}, -0.9, 0.9), "nearest"});
     }});

// ---- shuffles ----

const Op& pixel_shuffle = add_op(
    {.name = "pixel_shuffle",
     .args = "input, upscale_factor: int",
     .doc = "Channels rearranged into a larger image: r x r channels become r x r pixels.",
     .where = kFunctional | kFunction,
     .see = "nn.functional.pixel_unshuffle",
     .rule = "[.., c * r * r, h, w] -> [.., c, h * r, w * r]",
     .example = "F.pixel_shuffle(torch.arange(4):view(1, 4, 1, 1), 2) --> i64 [1, 1, 2, 2]  view\n"
                "[1, 1, :, :]   0  1\n"
                "               2  3",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int64_t r = c.integer(1);
           TYCHO_CHECK(Kind::Shape, x.rank() >= 3,
                       "pixel_shuffle: takes at least 3 dimensions, not shape %s",
                       to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Value, r > 0 && r < 1 << 20,
                       "pixel_shuffle: upscale_factor must be above 0, not %lld",
                       static_cast<long long>(r));
           TYCHO_CHECK(Kind::Value, x.size(-3) % (r * r) == 0,
                       "pixel_shuffle: %lld channels are not divisible by %lld * %lld",
                       static_cast<long long>(x.size(-3)), static_cast<long long>(r),
                       static_cast<long long>(r));
           const int64_t n = x.size(-3) / (r * r), h = x.size(-2), w = x.size(-1);
           int64_t batch = 1;
           for (int d = 0; d < x.rank() - 3; ++d) batch *= x.size(d);
           Tensor y = op<"reshape">(x, Sizes{batch, n, r, r, h, w});
           y = op<"permute">(y, Sizes{0, 1, 4, 2, 5, 3});
           Sizes out(x.shape().v, x.rank() - 3);
           for (int64_t size : {n, h * r, w * r}) out.push_back(size);
           c.out.push_back(op<"reshape">(y, out));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({1, 8, 2, 3}), 2});
         }});

const Op& pixel_unshuffle = add_op(
    {.name = "pixel_unshuffle",
     .args = "input, downscale_factor: int",
     .doc = "The reverse of pixel_shuffle: r x r pixels become r x r channels.",
     .where = kFunctional | kFunction,
     .see = "nn.functional.pixel_shuffle",
     .rule = "[.., c, h * r, w * r] -> [.., c * r * r, h, w]",
     .example = "F.pixel_unshuffle(torch.arange(4):view(1, 1, 2, 2), 2).shape --> [1, 4, 1, 1]",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int64_t r = c.integer(1);
           TYCHO_CHECK(Kind::Shape, x.rank() >= 3,
                       "pixel_unshuffle: takes at least 3 dimensions, not shape %s",
                       to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Value, r > 0, "pixel_unshuffle: downscale_factor must be above 0");
           TYCHO_CHECK(Kind::Value, x.size(-2) % r == 0 && x.size(-1) % r == 0,
                       "pixel_unshuffle: height %lld and width %lld must be divisible by %lld",
                       static_cast<long long>(x.size(-2)), static_cast<long long>(x.size(-1)),
                       static_cast<long long>(r));
           const int64_t n = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
           int64_t batch = 1;
           for (int d = 0; d < x.rank() - 3; ++d) batch *= x.size(d);
           Tensor y = op<"reshape">(x, Sizes{batch, n, h, r, w, r});
           y = op<"permute">(y, Sizes{0, 1, 3, 5, 2, 4});
           Sizes out(x.shape().v, x.rank() - 3);
           for (int64_t size : {n * r * r, h, w}) out.push_back(size);
           c.out.push_back(op<"reshape">(y, out));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({1, 2, 4, 6}), 2});
         }});

const Op& channel_shuffle = add_op(
    {.name = "channel_shuffle",
     .args = "input, groups: int",
     .doc = "Channels dealt out over groups: group by group becomes one of each group in turn.",
     .where = kFunctional | kFunction,
     .see = "nn.functional.pixel_shuffle",
     .rule = "[n, c, ..] -> [n, c, ..]",
     .example = "F.channel_shuffle(torch.arange(4):view(1, 4, 1), 2) --> i64 [1, 4, 1]  view\n"
                "[1, :, :]   0\n"
                "            2\n"
                "            1\n"
                "            3",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int64_t groups = c.integer(1);
           TYCHO_CHECK(Kind::Shape, x.rank() >= 3,
                       "channel_shuffle: takes at least 3 dimensions, not shape %s",
                       to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Value, groups > 0, "channel_shuffle: groups must be above 0");
           TYCHO_CHECK(Kind::Shape, x.size(1) % groups == 0,
                       "channel_shuffle: %lld channels are not divisible by %lld groups",
                       static_cast<long long>(x.size(1)), static_cast<long long>(groups));
           int64_t rest = 1;
           for (int d = 2; d < x.rank(); ++d) rest *= x.size(d);
           Tensor y = op<"reshape">(x, Sizes{x.size(0), groups, x.size(1) / groups, rest});
           c.out.push_back(op<"reshape">(op<"transpose">(y, 1, 2), x.shape()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 6, 3}), 3});
         }});

}  // namespace
}  // namespace tycho
