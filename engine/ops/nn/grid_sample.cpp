// grid_sample: images read at positions that are given one by one. One pass where there is a kernel, with a gradient
// in one pass; the composition serves where there is none, and for gradients of gradients.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/grad/backward.h"
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"

namespace tycho {
namespace {

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
    if (padding == "zeros") return x;
    const Tensor r = padding == "border" ? x
                     : corners           ? reflected(x, 0, n - 1)
                                         : reflected(x, -0.5, n - 0.5);
    return op<"hardtanh">(r, 0, n - 1);  // its gradient is 0 at the border itself
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

Sizes sampled_shape(const Tensor& x, const Tensor& grid) {
  Sizes out{x.size(0), x.size(1)};
  for (int d = 0; d < x.rank() - 2; ++d) out.push_back(grid.size(d + 1));
  return out;
}

// The definition, by other operations.
Tensor composed(const Tensor& x, const Tensor& grid, const Sampler& s) {
  Sizes spatial;
  std::vector<Tensor> at;  // in the order of the dimensions; the grid holds the last one first
  const int n = x.rank() - 2;
  for (int d = 0; d < n; ++d) {
    spatial.push_back(x.size(d + 2));
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
  return op<"view">(y, sampled_shape(x, grid));
}

#define GRID_OPTIONS "mode: string, padding_mode: string, align_corners: bool"

// The gradients of input and grid, those that are wanted, by the composition of what does not hang on
// what made them; `graph`: they have one of their own.
std::vector<Tensor> composed_grads(const Tensor& g, const Tensor& x, const Tensor& grid,
                                   const Sampler& s, bool of_input, bool of_grid, bool graph) {
  const NoGrad before;  // comes back
  mode.grad = true;
  const bool needs[] = {of_input, of_grid};
  std::vector<Tensor> in{x, grid}, out(2), wanted;
  for (size_t i = 0; i < 2; ++i) {
    in[i] = graph ? op<"clone">(in[i]) : op<"detach">(in[i]);
    if (!needs[i]) continue;
    if (!graph) in[i]->requires_grad = true;
    wanted.push_back(in[i]);
  }
  const auto wide = [](const Tensor& t) {  // halves are computed in float32, as in one pass
    const bool half = t.dtype() == DType::Float16 || t.dtype() == DType::BFloat16;
    return half ? Tensor(op<"to.dtype">(t, DType::Float32)) : t;
  };
  const Tensor y = composed(wide(in[0]), wide(in[1]), s);
  const std::vector<Tensor> found =
      grad::gradients({y}, wanted, {wide(g)}, {.create_graph = graph, .allow_unused = true});
  for (size_t i = 0, k = 0; i < 2; ++i) {
    if (!needs[i]) continue;
    const Tensor& one = found[k++];  // none of a grid that is rounded
    out[i] = one ? one : op<"zeros_like">(in[i]);
  }
  return out;
}

const Op& grid_sample_backward = add_op(
    {.name = "grid_sample_backward",
     .args = "grad, input, grid, " GRID_OPTIONS ", of_input: bool, of_grid: bool",
     .doc = "The gradients of grid_sample's input and grid, those that are wanted.",
     .where = kHidden,
     .differentiable = false,
     .shape =
         [](Call& c) {
           for (int i = 1; i <= 2; ++i) {
             const Tensor& t = c.tensor(i);
             c.out.push_back(empty(c.flag(i + 5) ? t.shape() : Sizes{0}, t.dtype(), t.device()));
           }
         },
     .compose =
         [](Call& c) {
           const std::vector<Tensor> both = composed_grads(
               c.tensor(0), c.tensor(1), c.tensor(2), Sampler{c.string(3), c.string(4), c.flag(5)},
               c.flag(6), c.flag(7), false);
           for (int i = 0; i < 2; ++i) {
             const Tensor& t = c.tensor(i + 1);
             c.out.push_back(both[static_cast<size_t>(i)] ? both[static_cast<size_t>(i)]
                                                          : empty(Sizes{0}, t.dtype(), t.device()));
           }
         },
     .samples =
         [](Samples& s) {
           for (const char* mode : {"nearest", "bilinear", "bicubic"})
             for (const char* padding : {"zeros", "border", "reflection"})
               s.add({s.normal({2, 2, 3, 30}), s.normal({2, 2, 3, 4}),
                      s.uniform({2, 3, 30, 2}, -1.6, 1.6), mode, padding, false, true, true});
           s.add({s.normal({1, 2, 1, 2, 2}), s.normal({1, 2, 2, 3, 3}),
                  s.uniform({1, 1, 2, 2, 3}, -1, 1), "bilinear", "zeros", true, true, true});
         }});

void forward_grad(Backward& b) {
  const Tensor x = b.in(0), grid = b.in(1);
  const auto set = [&](const auto& both) {
    for (int i = 0; i < 2; ++i)
      if (b.needs(i)) b.set(i, both[static_cast<size_t>(i)]);
  };
  if (mode.grad)
    set(composed_grads(b.g(), x, grid, Sampler{b.string(2), b.string(3), b.flag(4)}, b.needs(0),
                       b.needs(1), true));
  else
    set(ops<"grid_sample_backward">(b.g(), x, grid, b.string(2), b.string(3), b.flag(4), b.needs(0),
                                    b.needs(1)));
}

const Op& grid_sample_forward =
    add_op({.name = "grid_sample_forward",
            .args = "input, grid, " GRID_OPTIONS,
            .doc = "grid_sample in one pass.",
            .where = kHidden,
            .saves = "input, grid",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  c.out.push_back(empty(sampled_shape(x, c.tensor(1)), x.dtype(), x.device()));
                },
            .grad = forward_grad,
            .samples =
                [](Samples& s) {
                  for (const char* mode : {"nearest", "bilinear", "bicubic"})
                    for (const char* padding : {"zeros", "border", "reflection"})
                      s.add({s.normal({2, 2, 3, 4}), s.uniform({2, 3, 30, 2}, -1.6, 1.6), mode,
                             padding, false});
                  s.add({s.normal({1, 2, 2, 3, 3}), s.uniform({1, 1, 2, 2, 3}, -1, 1), "bilinear",
                         "zeros", true});
                }});

BATCH("grid_sample_forward", by_images);
BATCH("grid_sample_backward", by_images);

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
  int64_t places = 1;
  for (int d = 0; d < n; ++d) places *= x.size(d + 2);
  if (grid_sample_forward.kernel_on(kernels_of(x.device())) && is_floating(x.dtype()) &&
      x.dtype() == grid.dtype() && places > 0 && places <= INT32_MAX)
    c.out.push_back(
        op<"grid_sample_forward">(x, grid, s.mode.c_str(), s.padding.c_str(), s.corners));
  else
    c.out.push_back(composed(x, grid, s));
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
                "{align_corners = true}) --> f32 [1, 1, 1, 1]\n"
                "[1, 1, :, :]   2.5",
     .compose = grid_sample_call,
     .samples = [](Samples& s) {
       s.add({s.normal({1, 2, 3, 3}), s.uniform({1, 2, 2, 2}, -0.9, 0.9)});
       s.add(
           {s.normal({1, 1, 3, 4}), s.uniform({1, 2, 2, 2}, -0.9, 0.9), "bicubic", "border", true});
       s.add({s.normal({1, 1, 2, 3, 3}), s.uniform({1, 1, 2, 2, 3}, -0.9, 0.9), "nearest"});
     }});

}  // namespace
}  // namespace tycho
