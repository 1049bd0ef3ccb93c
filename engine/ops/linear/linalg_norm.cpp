// Norms of matrices, and the condition number that is made of them.
#include <cmath>
#include <cstring>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

// A matrix norm over two dimensions moved to the end: "fro", "nuc", 1, -1, 2, -2, inf or -inf.
Tensor matrix_norm_of(const Tensor& x, const Value& ord, bool keepdim, int first, int second) {
  Tensor out;
  const bool named = ord.tag == Tag::String;
  TYCHO_CHECK(Kind::Value, !named || !std::strcmp(ord.s, "fro") || !std::strcmp(ord.s, "nuc"),
              "matrix_norm: ord is \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf, not \"%s\"", ord.s);
  const Tensor m = op<"movedim">(x, Sizes{first, second}, Sizes{-2, -1});
  if (named && ord.s[0] == 'f') {
    out = op<"vector_norm">(m, 2, Sizes{-2, -1});
  } else if (named) {
    out = op<"sum">(op<"svdvals">(m), Sizes{-1});
  } else {
    const double p = ord.number();
    const bool largest = p > 0, rows = std::isinf(p);
    if (std::abs(p) == 2) {
      const Tensor s = op<"svdvals">(m);
      out = largest ? op<"amax">(s, Sizes{-1}) : op<"amin">(s, Sizes{-1});
    } else {
      TYCHO_CHECK(Kind::Value, rows || std::abs(p) == 1,
                  "matrix_norm: ord is \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf, not %g", p);
      const Tensor sums = op<"vector_norm">(m, 1, Sizes{rows ? -1 : -2});
      out = largest ? op<"amax">(sums, Sizes{-1}) : op<"amin">(sums, Sizes{-1});
    }
  }
  if (keepdim) {
    out = op<"unsqueeze">(out, std::min(first, second));
    out = op<"unsqueeze">(out, std::max(first, second));
  }
  return out;
}

void matrix_norm_call(Call& c) {
  Tensor x = c.tensor(0);
  TYCHO_CHECK(Kind::Shape, x.rank() >= 2,
              "matrix_norm: takes matrices (at least 2 dimensions), not shape %s",
              to_string(x.shape()).c_str());
  if (c.has(4)) x = op<"to.dtype">(x, c.arg[4].dtype);
  const Sizes dims = c.has(2) ? c.ints(2) : Sizes{-2, -1};
  TYCHO_CHECK(Kind::Dim, dims.n == 2, "matrix_norm: dim names 2 dimensions, not %d",
              static_cast<int>(dims.n));
  const int first = wrap_dim(dims[0], x.rank()), second = wrap_dim(dims[1], x.rank());
  TYCHO_CHECK(Kind::Dim, first != second, "matrix_norm: dimension %d is named twice", first + 1);
  c.out.push_back(matrix_norm_of(x, c.arg[1], c.flag(3), first, second));
}

void matrix_norm_samples(Samples& s, const Value& ord) {
  s.add({s.normal({3, 2}), ord});
  s.add({s.normal({2, 3, 2}), ord, s.ints({0, 2}), true});
}

const char kMatrixNorm[] = "A norm of matrices: \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf.";

const Op& matrix_norm =
    add_op({.name = "matrix_norm",
            .args = "self, ord: string = fro, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = kMatrixNorm,
            .where = kLinalg,
            .amp = Amp::F32,
            .see = "linalg.norm, linalg.vector_norm",
            .rule = "[.., m, n] -> [..]",
            .example = "torch.linalg.matrix_norm(torch.tensor{{3., 0.}, {0., 4.}}) --> f32 []  5",
            .compose = matrix_norm_call,
            .samples = [](Samples& s) {
              s.add({s.normal({3, 2})});
              matrix_norm_samples(s, "nuc");
            }});
const Op& matrix_norm_number = add_op(
    {.name = "matrix_norm.number",
     .args = "self, ord: number, dim: dims?, keepdim: bool = false, dtype: dtype?",
     .doc = kMatrixNorm,
     .where = kLinalg,
     .amp = Amp::F32,
     .see = "linalg.norm, linalg.vector_norm",
     .rule = "[.., m, n] -> [..]",
     .example = "torch.linalg.matrix_norm(torch.tensor{{3., 0.}, {0., 4.}}, 1) --> f32 []  4",
     .compose = matrix_norm_call,
     .samples = [](Samples& s) {
       for (double p : {1.0, -1.0, 2.0, __builtin_inf()}) matrix_norm_samples(s, p);
     }});

// As PyTorch's linalg.norm: without dim and ord, the 2-norm of all elements; two dims (or a matrix
// with an ord) are a matrix norm; else a vector norm.
void general_norm(Call& c) {
  const Tensor& x = c.tensor(0);
  const bool has_dims = c.has(2), keepdim = c.flag(3);
  const int count = has_dims ? c.ints(2).n : x.rank();
  const bool named = c.arg[1].tag == Tag::String;
  if (c.has(1) && (has_dims ? count == 2 : x.rank() == 2)) {
    Tensor m = c.has(4) ? Tensor(op<"to.dtype">(x, c.arg[4].dtype)) : x;
    const int first = has_dims ? wrap_dim(c.ints(2)[0], x.rank()) : 0;
    const int second = has_dims ? wrap_dim(c.ints(2)[1], x.rank()) : 1;
    c.out.push_back(matrix_norm_of(m, c.arg[1], keepdim, first, second));
    return;
  }
  TYCHO_CHECK(Kind::Value, !named,
              "linalg.norm: ord \"%s\" is a norm of matrices; the input has shape %s and dim names "
              "%d dimensions",
              c.string(1), to_string(x.shape()).c_str(), count);
  TYCHO_CHECK(Kind::Dim, !c.has(1) || has_dims || x.rank() <= 2,
              "linalg.norm: with ord, and without dim, the input has 1 or 2 dimensions, not %d",
              x.rank());
  c.out.push_back(
      op<"vector_norm">(x, c.has(1) ? c.arg[1] : Value(2), c.arg[2], keepdim, c.arg[4]));
}

const Op& linalg_norm =
    add_op({.name = "linalg_norm",
            .args = "self, ord: number?, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = "A norm of vectors or matrices, by ord and the number of dimensions.",
            .where = kLinalg,
            .amp = Amp::F32,
            .see = "linalg.vector_norm, linalg.matrix_norm",
            .rule = "[.., m, n] -> [..]",
            .example = "torch.linalg.norm(torch.tensor{3., 4.}) --> f32 []  5",
            .compose = general_norm,
            .samples = [](Samples& s) {
              s.add({s.normal({4})});
              s.add({s.normal({3, 2}), 1});
              s.add({s.normal({3, 2}), 3, s.ints({1}), true});
            }});
const Op& linalg_norm_named =
    add_op({.name = "linalg_norm.named",
            .args = "self, ord: string, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = "A norm of vectors or matrices, by ord and the number of dimensions.",
            .where = kLinalg,
            .amp = Amp::F32,
            .see = "linalg.vector_norm, linalg.matrix_norm",
            .rule = "[.., m, n] -> [..]",
            .example = "torch.linalg.norm(torch.tensor{{3., 0.}, {0., 4.}}, \"nuc\") --> f32 []  7",
            .compose = general_norm,
            .samples = [](Samples& s) { matrix_norm_samples(s, "fro"); }});

void condition(Call& c) {
  const Tensor& a = c.tensor(0);
  check_matrix("cond", a);
  const bool two = !c.has(1) || (c.arg[1].is_number() && std::abs(c.number(1)) == 2);
  if (two) {
    const Tensor s = op<"svdvals">(a);
    const Tensor largest = op<"select">(s, -1, 0), least = op<"select">(s, -1, -1);
    const bool turn = c.has(1) && c.number(1) < 0;
    c.out.push_back(turn ? least / largest : largest / least);
    return;
  }
  check_square("cond", a);
  const int first = a.rank() - 2, second = a.rank() - 1;
  c.out.push_back(matrix_norm_of(a, c.arg[1], false, first, second) *
                  matrix_norm_of(op<"inv">(a), c.arg[1], false, first, second));
}

const char kCondition[] = "The condition number: the norm of a matrix times that of its inverse.";

const Op& cond =
    add_op({.name = "cond",
            .args = "self, p: number?",
            .doc = kCondition,
            .where = kLinalg,
            .amp = Amp::F32,
            .see = "linalg.svdvals, linalg.matrix_norm",
            .rule = "[.., m, n] -> [..]",
            .example = "torch.linalg.cond(torch.tensor{{2., 0.}, {0., 1.}}) --> f32 []  2",
            .compose = condition,
            .samples = [](Samples& s) {
              s.add({s.of({2, 2}, {2, 1, 1, 3})});
              s.add({s.of({2, 2}, {2, 1, 1, 3}), 1});
            }});
const Op& cond_named = add_op(
    {.name = "cond.named",
     .args = "self, p: string",
     .doc = kCondition,
     .where = kLinalg,
     .amp = Amp::F32,
     .see = "linalg.svdvals, linalg.matrix_norm",
     .rule = "[.., m, n] -> [..]",
     .example = "torch.linalg.cond(torch.tensor{{2., 0.}, {0., 1.}}, \"fro\") --> f32 []  2.5",
     .compose = condition,
     .samples = [](Samples& s) {
       s.add({s.of({2, 2}, {2, 1, 1, 3}), "fro"});
     }});

}  // namespace
}  // namespace tycho
