// Linear systems: triangular and general solvers, inverse, determinants, Cholesky's factor. All work
// on batches; gradients are made of the same operations. The formulas are those of Giles, "An extended collection of matrix derivative results" (2008),
// and for Cholesky of Murray, "Differentiation of the Cholesky decomposition" (2016).
#include "engine/ops/linear/linalg.h"

#include <algorithm>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"

namespace tycho {

void check_matrix(const char* name, const Tensor& a) {
  TYCHO_CHECK(Kind::Shape, a.rank() >= 2,
              "%s: takes matrices (at least 2 dimensions), not shape %s", name,
              to_string(a.shape()).c_str());
  if (a.dtype() != DType::Float32 && a.dtype() != DType::Float64)
    fail(Kind::DType,
         format("%s: takes float32 or float64 matrices, not %s", name, dtype_name(a.dtype())),
         "x:float()");
}

void check_square(const char* name, const Tensor& a) {
  TYCHO_CHECK(Kind::Shape, a.rank() >= 2,
              "%s: takes matrices (at least 2 dimensions), not shape %s", name,
              to_string(a.shape()).c_str());
  TYCHO_CHECK(Kind::Shape, a.size(-1) == a.size(-2),
              "%s: takes square matrices, and these are %lld by %lld", name,
              static_cast<long long>(a.size(-2)), static_cast<long long>(a.size(-1)));
  check_matrix(name, a);
}

Sizes batch_of(const Tensor& a, int inner) { return Sizes(a.shape().v, a.rank() - inner); }

Sizes joined(const Sizes& batch, std::initializer_list<int64_t> inner) {
  Sizes out = batch;
  for (int64_t n : inner) out.push_back(n);
  return out;
}

void check_types(const char* name, const Tensor& a, const Tensor& b) {
  TYCHO_CHECK(Kind::DType, a.dtype() == b.dtype(),
              "%s: both tensors must have one type, not %s and %s", name, dtype_name(a.dtype()),
              dtype_name(b.dtype()));
}

Tensor turned(const Tensor& a) { return op<"transpose">(a, -2, -1); }
Tensor mm(const Tensor& a, const Tensor& b) { return op<"matmul">(a, b); }

Tensor copied(const Tensor& t) {
  const Tensor out = empty(t.shape(), t.dtype(), t.device());
  copy_raw(out, t);
  return out;
}

namespace {

Tensor expanded(const Tensor& a, const Sizes& shape) {
  return a.shape() == shape ? a : op<"expand">(a, shape);
}

// Is B a vector (or a batch of them) beside the matrices A? As PyTorch: one dimension, or the batch
// of A followed by one size.
bool is_vector(const Tensor& a, const Tensor& b) {
  if (b.rank() == 1) return true;
  if (b.rank() != a.rank() - 1) return false;
  for (int d = 0; d < b.rank(); ++d)
    if (b.size(d) != a.size(d)) return false;
  return true;
}

// Lower triangle of a square, with half the diagonal.
Tensor half_lower(const Tensor& x) {
  return op<"tril">(x) - op<"diag_embed">(op<"diagonal">(x, 0, -2, -1)) * 0.5;
}

const Op& cholesky = add_op(
    {.name = "cholesky",
     .args = "self, upper: bool = false",
     .doc = "Cholesky's factor L of a symmetric positive definite matrix: A = L L^T (or U^T U).",
     .where = kLinalg,
     .amp = Amp::F32,
     .saves = "out",
     .see = "cholesky_solve, linalg.eigh",
     .rule = "[.., n, n] -> [.., n, n]",
     .example =
         "torch.linalg.cholesky(torch.tensor{{4., 2.}, {2., 5.}}) --> f32 [2, 2]  by columns\n"
         " 2  0\n"
         " 1  2",
     .shape =
         [](Call& c) {
           check_square("cholesky", c.tensor(0));
           c.out.push_back(
               empty_columns(c.tensor(0).shape(), c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .grad =
         [](Backward& b) {
           const bool upper = b.flag(1);
           const Tensor l = upper ? turned(b.out(0)) : b.out(0), g = upper ? turned(b.g()) : b.g();
           const Tensor middle = half_lower(op<"matmul">(turned(l), op<"tril">(g)));
           // L^-T middle L^-1
           const Tensor left = op<"solve_triangular">(turned(l), middle, true);
           const Tensor s = op<"solve_triangular">(l, left, false, false);
           b.set(0, (s + turned(s)) * 0.5);
         },
     .samples =
         [](Samples& s) {
           // The gradient is that of a symmetric change, which no single element's step is.
           s.add({s.of({2, 2}, {4, 2, 2, 5})}, false);
           s.add({s.of({2, 2, 2}, {4, 2, 2, 5, 1, 0, 0, 1}), true}, false);
         }});

const Op& solve_triangular =
    add_op({.name = "solve_triangular",
            .args = "self, B, upper: bool, left: bool = true, unitriangular: bool = false",
            .doc = "X of A X = B (or X A = B with left = false) for a triangular A.",
            .where = kLinalg,
            .amp = Amp::F32,
            .saves = "self, out",
            .see = "linalg.solve",
            .rule = "[.., n, n], [.., n, k] -> [.., n, k]",
            .example = "torch.linalg.solve_triangular(torch.tensor{{2., 0.}, {1., 1.}}, "
                       "torch.tensor{{2.}, {3.}}, false) --> f32 [2, 1]\n"
                       " 1\n"
                       " 2",
            .shape =
                [](Call& c) {
                  const Tensor &a = c.tensor(0), &b = c.tensor(1);
                  check_square("solve_triangular", a);
                  check_matrix("solve_triangular", b);
                  check_types("solve_triangular", a, b);
                  TYCHO_CHECK(Kind::Shape, b.size(c.flag(3) ? -2 : -1) == a.size(-1),
                              "solve_triangular: shapes %s and %s do not fit %s",
                              to_string(a.shape()).c_str(), to_string(b.shape()).c_str(),
                              c.flag(3) ? "A X = B" : "X A = B");
                  const Sizes batch = broadcast(batch_of(a), batch_of(b));
                  c.set(0, expanded(a, joined(batch, {a.size(-2), a.size(-1)})));
                  c.set(1, expanded(b, joined(batch, {b.size(-2), b.size(-1)})));
                  c.out.push_back(empty_columns(c.tensor(1).shape(), b.dtype(), b.device()));
                },
            .grad =
                [](Backward& b) {
                  const bool upper = b.flag(2), left = b.flag(3), unit = b.flag(4);
                  const Tensor a = b.in(0), x = b.out(0);
                  const Tensor gb = op<"solve_triangular">(turned(a), b.g(), !upper, left, unit);
                  if (b.needs(1)) b.set(1, gb);
                  if (!b.needs(0)) return;
                  const Tensor ga =
                      -(left ? op<"matmul">(gb, turned(x)) : op<"matmul">(turned(x), gb));
                  b.set(0, upper ? op<"triu">(ga, unit ? 1 : 0) : op<"tril">(ga, unit ? -1 : 0));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({2, 2}, {2, 0, 1, 1.5}), s.normal({2, 3}), false});
                  s.add({s.of({2, 2}, {2, 1, 0, 1.5}), s.normal({2, 3, 2}), true, false});
                  s.add({s.of({2, 2}, {1, 1, 0, 1}), s.normal({2, 1}), true, true, true});
                }});

const Op& solve =
    add_op({.name = "solve",
            .args = "A, B, left: bool = true",
            .doc = "X of A X = B (or X A = B with left = false); B holds vectors or matrices.",
            .where = kLinalg,
            .amp = Amp::F32,
            .saves = "A, out",
            .see = "linalg.inv, linalg.lstsq",
            .rule = "[.., n, n], [.., n] or [.., n, k] -> as B",
            .example = "torch.linalg.solve(torch.tensor{{2., 0.}, {0., 4.}}, torch.tensor{2., 2.}) "
                       "--> f32 [2]   1  0.5",
            .shape =
                [](Call& c) {
                  const Tensor &a = c.tensor(0), &b = c.tensor(1);
                  check_square("solve", a);
                  check_types("solve", a, b);
                  const bool vector = is_vector(a, b), left = c.flag(2);
                  TYCHO_CHECK(Kind::Argument, left || !vector,
                              "solve: left = false takes a matrix B, not a vector of shape %s",
                              to_string(b.shape()).c_str());
                  TYCHO_CHECK(Kind::Shape,
                              vector ? b.size(-1) == a.size(-1)
                                     : b.rank() >= 2 && b.size(left ? -2 : -1) == a.size(-1),
                              "solve: shapes %s and %s do not fit %s", to_string(a.shape()).c_str(),
                              to_string(b.shape()).c_str(), left ? "A X = B" : "X A = B");
                  const Sizes batch = broadcast(batch_of(a), batch_of(b, vector ? 1 : 2));
                  c.set(0, expanded(a, joined(batch, {a.size(-2), a.size(-1)})));
                  const Sizes shape = vector ? joined(batch, {b.size(-1)})
                                             : joined(batch, {b.size(-2), b.size(-1)});
                  c.set(1, expanded(b, shape));
                  c.out.push_back((vector ? empty : empty_columns)(shape, b.dtype(), b.device()));
                },
            .grad =
                [](Backward& b) {
                  const bool left = b.flag(2);
                  const Tensor a = b.in(0), x = b.out(0), g = b.g();
                  const bool vector = x.rank() == a.rank() - 1;
                  const Tensor gb = op<"solve">(turned(a), g, left);
                  if (b.needs(1)) b.set(1, gb);
                  if (!b.needs(0)) return;
                  if (vector)
                    b.set(0, -op<"matmul">(op<"unsqueeze">(gb, -1), op<"unsqueeze">(x, -2)));
                  else
                    b.set(0, -(left ? op<"matmul">(gb, turned(x)) : op<"matmul">(turned(x), gb)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({2, 2}, {2, 1, 1, 3}), s.normal({2})});
                  s.add({s.of({2, 2}, {2, 1, 1, 3}), s.normal({2, 3})});
                  s.add({s.of({2, 2}, {2, 1, 0.5, 3}), s.normal({2, 4, 2}), false});
                  s.add({s.of({2, 2, 2}, {2, 1, 1, 3, 1, 0, 0, 4}), s.normal({2, 2})});
                }});

const Op& inv = add_op(
    {.name = "inv",
     .args = "A",
     .doc = "The inverse of a square matrix.",
     .where = kLinalg,
     .amp = Amp::F32,
     .saves = "out",
     .see = "linalg.solve, linalg.pinv",
     .rule = "[.., n, n] -> [.., n, n]",
     .example = "torch.linalg.inv(torch.tensor{{2., 0.}, {0., 4.}}) --> f32 [2, 2]  by columns\n"
                " 0.50  0.00\n"
                " 0.00  0.25",
     .shape =
         [](Call& c) {
           const Tensor& a = c.tensor(0);
           check_square("inv", a);
           c.out.push_back(empty_columns(a.shape(), a.dtype(), a.device()));
         },
     .grad =
         [](Backward& b) {
           const Tensor t = turned(b.out(0));
           b.set(0, -op<"matmul">(op<"matmul">(t, b.g()), t));
         },
     .samples =
         [](Samples& s) {
           s.add({s.of({2, 2}, {2, 1, 1, 3})});
           s.add({s.of({2, 2, 2}, {2, 1, 1, 3, 1, 0, 0, 4})});
         }});
const Op& inverse = add_op(
    {.name = "inverse",
     .args = "input",
     .doc = "The inverse of a square matrix: linalg.inv.",
     .see = "linalg.inv",
     .rule = "[.., n, n] -> [.., n, n]",
     .example = "torch.inverse(torch.tensor{{2., 0.}, {0., 4.}}) --> f32 [2, 2]  by columns\n"
                " 0.50  0.00\n"
                " 0.00  0.25",
     .compose = [](Call& c) { become<"inv">(c, c.tensor(0)); },
     .samples =
         [](Samples& s) {
           s.add({s.of({2, 2}, {2, 1, 1, 3})});
         }});

// Cofactors as determinants of the minors, which have gradients of any order: n^5 steps.
Tensor minors(const Tensor& a) {
  const int64_t n = a.size(-1), m = n - 1;
  if (n == 1) return filled(a.shape(), 1, a.dtype(), a.device());
  // Row r of minor (i, .) is row r of the matrix, or the next one from i on; columns likewise.
  const Tensor all_n = op<"arange">(n, DType::Int64, a.device()),
               all_m = op<"arange">(m, DType::Int64, a.device());
  const Tensor kept = op<"where">(fn::lt(all_m, op<"unsqueeze">(all_n, -1)), all_m, all_m + 1);
  const Tensor places =
      op<"reshape">(kept, Sizes{n, 1, m, 1}) * n + op<"reshape">(kept, Sizes{1, n, 1, m}) + 1;
  const Tensor odd = op<"remainder">(op<"unsqueeze">(all_n, -1) + all_n, 2);
  const Tensor signs = 1 - 2 * op<"to.dtype">(odd, a.dtype());
  const Tensor flat = op<"reshape">(a, joined(batch_of(a), {n * n}));
  const Tensor all = op<"index_select">(flat, flat.rank() - 1, op<"reshape">(places, Sizes{-1}));
  return op<"det">(op<"reshape">(all, joined(batch_of(a), {n, n, m, m}))) * signs;
}

// d det(A) = det(A) tr(A^-1 dA). Where A is singular the inverse is not there: the matrix of
// cofactors is, and comes from the singular vectors, or from minors where a second derivative may
// follow (above 32 rows there is none: the minors would take too much memory).
Tensor cofactors(const Tensor& a, const Tensor& det) {
  const Tensor zero = fn::eq(det, 0);
  bool any;
  {
    NoGrad quiet;
    any = item<bool>(op<"any">(zero));
  }
  if (!any) return op<"unsqueeze">(op<"unsqueeze">(det, -1), -1) * turned(op<"inv">(a));
  if (mode.grad && a.requires_grad() && a.size(-1) <= 32 && a.rank() <= 6) return minors(a);
  NoGrad quiet;
  const auto parts = ops<"svd">(a, true);
  const Tensor sign = op<"det">(parts[0]) * op<"det">(parts[2]);
  const int64_t n = a.size(-1);
  // Products of all the other singular values.
  const Tensor s = op<"expand">(op<"unsqueeze">(parts[1], -2), joined(batch_of(a), {n, n}));
  const Tensor eye = op<"eye">(n, Value(), DType::Bool, a.device());
  const Tensor others = op<"prod">(op<"masked_fill">(s, eye, 1), Sizes{-1});
  const Tensor scale = others * op<"unsqueeze">(sign, -1);
  return op<"matmul">(parts[0] * op<"unsqueeze">(scale, -2), parts[2]);
}

const Op& det = add_op(
    {.name = "det",
     .args = "A",
     .doc = "The determinant of a square matrix.",
     .where = kFunction | kMethod | kLinalg,
     .amp = Amp::F32,
     .saves = "A, out",
     .see = "linalg.slogdet",
     .rule = "[.., n, n] -> [..]",
     .example = "torch.tensor{{2., 1.}, {1., 3.}}:det() --> f32 []  5",
     .shape =
         [](Call& c) {
           check_square("det", c.tensor(0));
           c.out.push_back(empty(batch_of(c.tensor(0)), c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .grad =
         [](Backward& b) {
           const Tensor g = op<"unsqueeze">(op<"unsqueeze">(b.g(), -1), -1);
           b.set(0, g * cofactors(b.in(0), b.out(0)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.of({2, 2}, {2, 1, 1, 3})});
           s.add({s.of({2, 2, 2}, {2, 1, 1, 3, 1, 0, 0, 4})});
         }});

const Op& slogdet =
    add_op({.name = "slogdet",
            .args = "A",
            .doc = "The sign of the determinant, and the logarithm of its absolute value.",
            .where = kFunction | kMethod | kLinalg,
            .amp = Amp::F32,
            .saves = "A",
            .see = "linalg.det",
            .rule = "[.., n, n] -> [..], [..]",
            .example = "torch.tensor{{1., 0.}, {0., -1.}}:slogdet() --> f32 []  -1      f32 []  0",
            .shape =
                [](Call& c) {
                  const Tensor& a = c.tensor(0);
                  check_square("slogdet", a);
                  for (int i = 0; i < 2; ++i)
                    c.out.push_back(empty(batch_of(a), a.dtype(), a.device()));
                },
            .grad =
                [](Backward& b) {
                  const Tensor g = op<"unsqueeze">(op<"unsqueeze">(b.g(1), -1), -1);
                  b.set(0, g * turned(op<"inv">(b.in(0))));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({2, 2}, {2, 1, 1, 3})});
                  s.add({s.of({2, 2, 2}, {2, 1, 1, 3, 1, 0, 0, -4})});
                }});

const Op& logdet = add_op({.name = "logdet",
                           .args = "A",
                           .doc = "The logarithm of the determinant; nan where it is negative.",
                           .amp = Amp::F32,
                           .see = "linalg.slogdet",
                           .rule = "[.., n, n] -> [..]",
                           .example = "torch.tensor{{1., 0.}, {0., 1.}}:logdet() --> f32 []  0",
                           .compose =
                               [](Call& c) {
                                 const auto parts = ops<"slogdet">(c.tensor(0));
                                 c.out.push_back(fn::log(parts[0]) + parts[1]);
                               },
                           .samples =
                               [](Samples& s) {
                                 s.add({s.of({2, 2}, {2, 1, 1, 3})});
                               }});

const Op& cholesky_solve =
    add_op({.name = "cholesky_solve",
            .args = "self, input2, upper: bool = false",
            .doc = "X of A X = B for A given by its Cholesky factor: B:cholesky_solve(L).",
            .amp = Amp::F32,
            .saves = "input2, out",
            .see = "linalg.cholesky, linalg.solve",
            .rule = "[.., n, k], [.., n, n] -> [.., n, k]",
            .example = "torch.tensor{{4.}, {9.}}:cholesky_solve(torch.tensor{{2., 0.}, {0., 3.}}) "
                       "--> f32 [2, 1]\n"
                       " 1\n"
                       " 1",
            .shape =
                [](Call& c) {
                  const Tensor &b = c.tensor(0), &l = c.tensor(1);
                  check_square("cholesky_solve", l);
                  check_matrix("cholesky_solve", b);
                  check_types("cholesky_solve", l, b);
                  TYCHO_CHECK(Kind::Shape, b.size(-2) == l.size(-1),
                              "cholesky_solve: shapes %s and %s do not fit A X = B",
                              to_string(l.shape()).c_str(), to_string(b.shape()).c_str());
                  const Sizes batch = broadcast(batch_of(l), batch_of(b));
                  c.set(0, expanded(b, joined(batch, {b.size(-2), b.size(-1)})));
                  c.set(1, expanded(l, joined(batch, {l.size(-2), l.size(-1)})));
                  c.out.push_back(empty_columns(c.tensor(0).shape(), b.dtype(), b.device()));
                },
            .run =
                [](Call& c) {
                  const Tensor lower = c.flag(2) ? turned(c.tensor(1)) : c.tensor(1);
                  const Tensor y = op<"solve_triangular">(lower, c.tensor(0), false);
                  copy_raw(c.out[0], op<"solve_triangular">(turned(lower), y, true));
                },
            // As PyTorch: the gradient of the factor is not cut to its triangle.
            .grad =
                [](Backward& b) {
                  const bool upper = b.flag(2);
                  const Tensor l = b.in(1), x = b.out(0);
                  const Tensor gb = op<"cholesky_solve">(b.g(), l, upper);
                  if (b.needs(0)) b.set(0, gb);
                  if (!b.needs(1)) return;
                  const Tensor ga = op<"matmul">(gb, turned(x)), both = ga + turned(ga);
                  b.set(1, -(upper ? op<"matmul">(l, both) : op<"matmul">(both, l)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), s.of({2, 2}, {2, 0, 1, 1.5})}, false);
                  s.add({s.normal({2, 1}), s.of({2, 2}, {2, 1, 0, 1.5}), true}, false);
                }});

BATCH("inv", by_leading);
BATCH("det", by_leading);

}  // namespace
}  // namespace tycho
