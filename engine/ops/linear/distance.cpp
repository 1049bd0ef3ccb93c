// Distances and directions of vectors (normalize, cosine_similarity, pairwise_distance, cdist),
// composed of plain operations, so their gradients are of any order.
#include <string_view>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& normalize =
    add_op({.name = "normalize",
            .args = "self, p: number = 2, dim: dim = 1, eps: float = 1e-12",
            .doc = "The tensor divided by its p-norm along a dimension (2 unless given).",
            .where = kFunctional,
            .see = "linalg.vector_norm",
            .rule = "[.., n, ..] -> [.., n, ..]",
            .example = "F.normalize(torch.tensor{{3.0, 4.0}}) --> f32 [1, 2]\n"
                       " 0.6  0.8",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const int dim = wrap_dim(c.integer(2), x.rank());
                  const Sizes dims = x.rank() ? Sizes{dim} : Sizes();
                  const Tensor norm = op<"vector_norm">(x, c.arg[1], dims, true);
                  c.out.push_back(x / op<"clamp_min">(norm, c.number(3)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4})});
                  s.add({s.normal({2, 3, 4}), 3, -1});
                  s.add({s.normal({4}), 1, 0});
                }});

const Op& renorm =
    add_op({.name = "renorm",
            .args = "self, p: number, dim: dim, maxnorm: number",
            .doc = "Every part along a dimension whose p-norm is above maxnorm scaled down to it.",
            .amp = Amp::F32Cuda,
            .inplace = Inplace::Copy,
            .see = "nn.functional.normalize, linalg.vector_norm",
            .rule = "[.., n, ..] -> the same shape",
            .example = "torch.tensor{{3., 4.}, {0.3, 0.4}}:renorm(2, 1, 1) --> f32 [2, 2]\n"
                       " 0.6  0.8\n"
                       " 0.3  0.4",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, x.rank() >= 2,
                              "renorm: takes at least 2 dimensions, not shape %s",
                              to_string(x.shape()).c_str());
                  TYCHO_CHECK(Kind::Value, c.number(1) > 0 && c.number(3) >= 0,
                              "renorm: p must be above 0 and maxnorm at least 0, not %g and %g",
                              c.number(1), c.number(3));
                  const int dim = wrap_dim(c.integer(2), x.rank());
                  Sizes others;
                  for (int d = 0; d < x.rank(); ++d)
                    if (d != dim) others.push_back(d);
                  const Tensor norm = op<"vector_norm">(x, c.arg[1], others, true);
                  // As PyTorch: 1e-7 keeps the result below the limit.
                  const Tensor scale = Operand(c.arg[3]) / (norm + 1e-7);
                  c.out.push_back(x * op<"where">(fn::gt(norm, Operand(c.arg[3])), scale,
                                                  op<"ones_like">(norm)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), 2, 0, 1});
                  s.add({s.normal({2, 3, 2}), 1, 2, 0.5});
                }});

// A norm with elements below eps raised to it, whose gradient still is the norm's.
Tensor at_least(const Tensor& norm, double eps) {
  Tensor step;
  {
    NoGrad quiet;
    step = op<"clamp_min">(norm, eps) - norm;
  }
  return norm + step;
}

const Op& cosine_similarity =
    add_op({.name = "cosine_similarity",
            .args = "x1, x2, dim: dim = 1, eps: float = 1e-8",
            .doc = "The cosine of the angle between vectors along a dimension (2 unless given).",
            .where = kFunction | kFunctional,
            .amp = Amp::F32Cuda,
            .see = "pairwise_distance, normalize",
            .rule = "[.., n, ..], [.., n, ..] -> [.., ..]",
            .example = "F.cosine_similarity(torch.tensor{1.0, 0.0}, torch.tensor{1.0, 1.0}, "
                       "{dim=1}) --> f32 []  0.70711",
            .compose =
                [](Call& c) {
                  Tensor a = c.tensor(0), b = c.tensor(1);
                  TYCHO_CHECK(Kind::DType, is_floating(a.dtype()) && is_floating(b.dtype()),
                              "cosine_similarity: takes floating point numbers, not %s and %s",
                              dtype_name(a.dtype()), dtype_name(b.dtype()));
                  const Sizes shape = broadcast(a.shape(), b.shape());
                  a = op<"expand">(a, shape);
                  b = op<"expand">(b, shape);
                  const Sizes dims = shape.n ? Sizes{wrap_dim(c.integer(2), shape.n)} : Sizes();
                  const auto unit = [&](const Tensor& x) {
                    return x / at_least(op<"distance">(x, 2, dims, true), c.number(3));
                  };
                  become<"sum">(c, unit(a) * unit(b), dims, false);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.normal({3, 4})});
                  s.add({s.normal({2, 3, 4}), s.normal({4}), -1});
                }});

Tensor distance(const Tensor& a, const Tensor& b, const Value& p, double eps, bool keepdim) {
  const Tensor d = a - b + eps;
  return op<"vector_norm">(d, p, d.rank() ? Sizes{-1} : Sizes(), keepdim);
}

const Op& pairwise_distance = add_op(
    {.name = "pairwise_distance",
     .args = "x1, x2, p: number = 2, eps: float = 1e-6, keepdim: bool = false",
     .doc = "The p-norm of x1 - x2 + eps along the last dimension.",
     .where = kFunction | kFunctional,
     .see = "cdist, cosine_similarity",
     .rule = "[.., n], [.., n] -> [..]",
     .example =
         "F.pairwise_distance(torch.tensor{{0.0, 0.0}}, torch.tensor{{3.0, 4.0}}) --> f32 [1]  5",
     .compose =
         [](Call& c) {
           c.out.push_back(distance(c.tensor(0), c.tensor(1), c.arg[2], c.number(3), c.flag(4)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({3, 4})});
           s.add({s.normal({3, 4}), s.normal({4}), 3, 1e-6, true});
         }});

// The gradient of a distance y for its differences x, which it takes from `g` (moments.cpp), by
// plain operations.
Tensor slope_of(const Tensor& g, const Tensor& x, const Tensor& y, double p) {
  const Tensor wide = op<"unsqueeze">(g, -1), size = op<"unsqueeze">(y, -1);
  return distance_slope(wide, x, size, p);
}

Tensor differences(const Tensor& a, const Tensor& b) {
  return op<"unsqueeze">(a, -2) - op<"unsqueeze">(b, -3);
}
Tensor norm_of(const Tensor& x, const Value& p) { return op<"distance">(x, p, Sizes{-1}, false); }

const Op& distances = add_op(
    {.name = "distances",
     .args = "x1, x2, p: number",
     .doc = "cdist of tensors with one type and the same leading dimensions.",
     .where = kHidden,
     .saves = "x1, x2, out",
     .shape =
         [](Call& c) {
           Sizes shape = c.tensor(0).shape();
           shape.v[shape.n - 1] = c.tensor(1).size(-2);
           c.out.push_back(empty(shape, c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .compose =
         [](Call& c) { c.out.push_back(norm_of(differences(c.tensor(0), c.tensor(1)), c.arg[2])); },
     .grad =
         [](Backward& b) {
           const Tensor x1 = b.in(0), x2 = b.in(1), g = b.g(), y = b.out();
           const double p = b.number(2);
           if (mode.grad) {
             const Tensor slope = slope_of(g, differences(x1, x2), y, p);
             if (b.needs(0)) b.set(0, op<"sum">(slope, Sizes{-2}, false));
             if (b.needs(1)) b.set(1, op<"neg">(op<"sum">(slope, Sizes{-3}, false)));
             return;
           }
           const auto turned = [](const Tensor& t) { return op<"transpose">(t, -2, -1); };
           if (b.needs(0)) b.set(0, op<"distances_backward">(g, x1, x2, p, y));
           if (b.needs(1)) b.set(1, op<"distances_backward">(turned(g), x2, x1, p, turned(y)));
         },
     .samples =
         [](Samples& s) {
           for (double p : {1.0, 2.0, 2.5, __builtin_inf()})
             s.add({s.normal({2, 3, 5}), s.normal({2, 4, 5}), p});
         }});

void shape_of_rows(Call& c) {
  const Tensor& x = c.tensor(1);
  c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
}

const Op& distances_backward =
    add_op({.name = "distances_backward",
            .args = "grad, x1, x2, p: number, result",
            .doc = "The gradient of distances' x1.",
            .where = kHidden,
            .differentiable = false,
            .shape = shape_of_rows,
            .compose = [](Call& c) {
              const Tensor slope = slope_of(c.tensor(0), differences(c.tensor(1), c.tensor(2)),
                                            c.tensor(4), c.number(3));
              become<"sum">(c, slope, Sizes{-2}, false);
            }});

// The rows of all pairs of [n, d], their differences, and what goes to them, put back.
struct Pairs {
  Tensor first, second;
  Pairs(int64_t n, Device device) {
    NoGrad quiet;
    const Tensor all = op<"to.device">(op<"triu_indices">(n, n, 1), device);
    first = op<"select">(all, 0, 0);
    second = op<"select">(all, 0, 1);
  }
  Tensor differences(const Tensor& x) const {
    return op<"index_select">(x, 0, first) - op<"index_select">(x, 0, second);
  }
  Tensor put_back(const Tensor& slope, const Tensor& x) const {
    const Tensor zero = op<"zeros_like">(x);
    return op<"index_add">(zero, 0, first, slope) - op<"index_add">(zero, 0, second, slope);
  }
};

const Op& pair_distances = add_op(
    {.name = "pair_distances",
     .args = "self, p: number",
     .doc = "pdist of [n, d].",
     .where = kHidden,
     .saves = "self, out",
     .shape =
         [](Call& c) {
           const int64_t n = c.tensor(0).size(0);
           c.out.push_back(empty({n * (n - 1) / 2}, c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           c.out.push_back(norm_of(Pairs(x.size(0), x.device()).differences(x), c.arg[1]));
         },
     .grad =
         [](Backward& b) {
           const Tensor x = b.in(0);
           if (!mode.grad)
             return b.set(0, op<"pair_distances_backward">(b.g(), x, b.number(1), b.out()));
           const Pairs pairs(x.size(0), x.device());
           b.set(0, pairs.put_back(slope_of(b.g(), pairs.differences(x), b.out(), b.number(1)), x));
         },
     .samples =
         [](Samples& s) {
           for (double p : {1.0, 2.0, 2.5, __builtin_inf()}) s.add({s.normal({5, 3}), p});
         }});

const Op& pair_distances_backward =
    add_op({.name = "pair_distances_backward",
            .args = "grad, self, p: number, result",
            .doc = "The gradient of pair_distances.",
            .where = kHidden,
            .differentiable = false,
            .shape = shape_of_rows,
            .compose = [](Call& c) {
              const Tensor& x = c.tensor(1);
              const Pairs pairs(x.size(0), x.device());
              c.out.push_back(pairs.put_back(
                  slope_of(c.tensor(0), pairs.differences(x), c.tensor(3), c.number(2)), x));
            }});

// |a - b|^2 = |a|^2 - 2 a b + |b|^2 as one product, which is what PyTorch does for many rows: it is
// faster by far, and less exact for points that lie close together.
bool by_products(const Value& mode, int64_t n, int64_t m) {
  const std::string_view told = mode.tag == Tag::String ? mode.s : "";
  if (told == "use_mm_for_euclid_dist") return true;
  return told != "donot_use_mm_for_euclid_dist" && (n > 25 || m > 25);
}
Tensor euclidean(const Tensor& a, const Tensor& b) {
  const auto squares = [](const Tensor& x) { return op<"sum">(fn::square(x), Sizes{-1}, true); };
  const Tensor x = squares(a), y = squares(b);
  const auto join = [](const Tensor& p, const Tensor& q, const Tensor& r) {
    const std::vector<Tensor> parts = {p, q, r};
    return op<"cat">(parts, -1);
  };
  const Tensor left = join(a * -2, x, op<"ones_like">(x)), right = join(b, op<"ones_like">(y), y);
  const Tensor product = op<"matmul">(left, op<"transpose">(right, -2, -1));
  if (product->requires_grad) return fn::root(op<"clamp_min">(product, 0));
  op_<"clamp_min">(product, 0);  // nobody else has it
  return fn::root(product);
}

const Op& cdist = add_op(
    {.name = "cdist",
     .args = "x1, x2, p: number = 2, compute_mode: string?",
     .doc = "The p-norm distance between each row of x1 and each row of x2.",
     .where = kFunction,
     .amp = Amp::F32,
     .see = "pairwise_distance",
     .rule = "[.., n, d], [.., m, d] -> [.., n, m]",
     .example = "torch.cdist(torch.tensor{{0.0, 0.0}}, torch.tensor{{3.0, 4.0}, {0.0, 1.0}}) --> "
                "f32 [1, 2]\n"
                " 5  1",
     .compose =
         [](Call& c) {
           const Tensor &a = c.tensor(0), &b = c.tensor(1);
           TYCHO_CHECK(Kind::Dim, a.rank() >= 2 && b.rank() >= 2,
                       "cdist: both tensors need at least 2 dimensions, got shapes %s and %s",
                       to_string(a.shape()).c_str(), to_string(b.shape()).c_str());
           TYCHO_CHECK(Kind::Shape, a.size(-1) == b.size(-1),
                       "cdist: rows have %lld elements in x1 and %lld in x2",
                       static_cast<long long>(a.size(-1)), static_cast<long long>(b.size(-1)));
           TYCHO_CHECK(Kind::DType, is_floating(a.dtype()) && is_floating(b.dtype()),
                       "cdist: takes floating point numbers, not %s and %s", dtype_name(a.dtype()),
                       dtype_name(b.dtype()));
           TYCHO_CHECK(Kind::Value, c.number(2) >= 0, "cdist: p must not be negative, got %g",
                       c.number(2));
           if (c.number(2) == 2 && by_products(c.arg[3], a.size(-2), b.size(-2))) {
             c.out.push_back(euclidean(a, b));
             return;
           }
           const DType type = promote(a.dtype(), b.dtype());
           Sizes lead[2];
           for (int i = 0; i < 2; ++i)
             for (int d = 0; d < c.tensor(i).rank() - 2; ++d)
               lead[i].push_back(c.tensor(i).size(d));
           const Sizes all = broadcast(lead[0], lead[1]);
           const auto rows = [&](const Tensor& t, const Sizes& own) {
             const Tensor x = t.dtype() == type ? t : op<"to.dtype">(t, type);
             if (own == all) return x;
             Sizes shape = all;
             for (int d : {-2, -1}) shape.push_back(t.size(d));
             return Tensor(op<"expand">(x, shape));
           };
           become<"distances">(c, rows(a, lead[0]), rows(b, lead[1]), c.arg[2]);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({2, 4})});
           s.add({s.normal({2, 3, 2}), s.normal({1, 4, 2}), 1});
         }});

const Op& pdist =
    add_op({.name = "pdist",
            .args = "self, p: number = 2",
            .doc = "The p-norm distances of all pairs of rows, as a vector.",
            .where = kFunction | kFunctional,
            .amp = Amp::F32,
            .see = "cdist, pairwise_distance",
            .rule = "[n, d] -> [n * (n - 1) / 2]",
            .example = "torch.pdist(torch.tensor{{0.0, 0.0}, {3.0, 4.0}, {0.0, 1.0}}) --> "
                       "f32 [3]   5  1  4.24",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, x.rank() == 2, "pdist: wants 2 dimensions, not shape %s",
                              to_string(x.shape()).c_str());
                  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()),
                              "pdist: takes floating point numbers, not %s", dtype_name(x.dtype()));
                  TYCHO_CHECK(Kind::Value, c.number(1) >= 0,
                              "pdist: p must not be negative, got %g", c.number(1));
                  become<"pair_distances">(c, x, c.arg[1]);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({4, 3})});
                  s.add({s.normal({3, 2}), 1});
                }});

}  // namespace
}  // namespace tycho
