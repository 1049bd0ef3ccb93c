// Tensors whose elements follow from their positions: eye, arange, linspace, logspace,
// tril_indices, triu_indices, vander.
#include <algorithm>
#include <cmath>

#include "engine/ops/shape/create.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& eye = add_op(
    {.name = "eye",
     .args = "n: int, m: int?, dtype: dtype?, device: device?, requires_grad: bool = false",
     .doc = "Ones on the diagonal of an n by m (or n by n) matrix, zeros elsewhere.",
     .where = kFunction,
     .differentiable = false,
     .see = "diag, zeros",
     .rule = "n, m -> [n, m]",
     .example = "torch.eye(2) --> f32 [2, 2]\n"
                " 1  0\n"
                " 0  1",
     .shape =
         [](Call& c) {
           const int64_t n = c.integer(0), m = c.has(1) ? c.integer(1) : n;
           TYCHO_CHECK(Kind::Value, n >= 0 && m >= 0, "eye: a matrix of %lld by %lld cannot be",
                       static_cast<long long>(n), static_cast<long long>(m));
           c.out.push_back(make(c, {n, m}, 2, default_dtype()));
         },
     .run =
         [](Call& c) {
           const Tensor& x = c.out[0];
           fill_raw(x, Value(int64_t{0}));
           const int64_t k = std::min(x.size(0), x.size(1));
           if (k)
             fill_raw(alias(x, {k}, {x.stride(0) + x.stride(1)}, x->offset), Value(int64_t{1}));
         },
     .samples =
         [](Samples& s) {
           s.add({3});
           s.add({2, 4});
           s.add({4, 2, DType::Int64});
         }});

// arange. `start` and `step` may be none.
int64_t arange_count(const Value& start, const Value& end, const Value& step) {
  const double a = start.number(), b = end.number(), s = step.number();
  TYCHO_CHECK(Kind::Value, std::isfinite(a) && std::isfinite(b) && std::isfinite(s),
              "arange: %g to %g by %g has no end", a, b, s);
  TYCHO_CHECK(Kind::Value, s != 0, "arange: the step cannot be 0");
  TYCHO_CHECK(Kind::Value, s > 0 ? b >= a : b <= a,
              "arange: a step of %g does not lead from %g to %g", s, a, b);
  const bool whole = start.tag == Tag::Int && end.tag == Tag::Int && step.tag == Tag::Int;
  if (whole) {
    const __int128 span = static_cast<__int128>(end.i) - start.i;
    const __int128 n = s > 0 ? (span + step.i - 1) / step.i : (span + step.i + 1) / step.i;
    TYCHO_CHECK(Kind::Value, n < (int64_t{1} << 56), "arange: %g elements are too many",
                static_cast<double>(n));
    return static_cast<int64_t>(n);
  }
  const double n = std::ceil((b - a) / s);
  TYCHO_CHECK(Kind::Value, n < 0x1p56, "arange: %g elements are too many", n);
  return static_cast<int64_t>(n);
}
bool is_whole(const Value& v) { return v.tag != Tag::Float; }

void make_arange(Call& c, const Value& start, const Value& end, const Value& step, int at) {
  const bool whole = is_whole(start) && is_whole(end) && is_whole(step);
  c.out.push_back(
      make(c, {arange_count(start, end, step)}, at, whole ? DType::Int64 : default_dtype()));
}
const Op& arange = add_op(
    {.name = "arange",
     .args = "end: number, dtype: dtype?, device: device?, requires_grad: bool = false",
     .doc = "The numbers 0, 1, 2, ... below `end`; whole numbers make int64.",
     .where = kFunction,
     .differentiable = false,
     .see = "linspace, randperm",
     .rule = "end -> [ceil(end)]",
     .example = "torch.arange(4) --> i64 [4]  0 1 2 3\n"
                "torch.arange(4):add(1) --> i64 [4]  1 2 3 4",
     .shape = [](Call& c) { make_arange(c, Value(int64_t{0}), c.arg[0], Value(int64_t{1}), 1); },
     .samples =
         [](Samples& s) {
           s.add({5});
           s.add({2.5});
           s.add({0});
         }});
const Op& arange_start =
    add_op({.name = "arange.start",
            .args = "start: number, end: number, step: number = 1, dtype: dtype?, device: device?, "
                    "requires_grad: bool = false",
            .doc = "The numbers from `start` by `step` before `end`; whole numbers make int64.",
            .where = kFunction,
            .differentiable = false,
            .see = "linspace, randperm",
            .rule = "start, end, step -> [ceil((end - start) / step)]",
            .example = "torch.arange(1, 10, 3) --> i64 [3]  1 4 7\n"
                       "torch.arange(0, 1, 0.25) --> f32 [4]   0  0.25  0.5  0.75",
            .shape = [](Call& c) { make_arange(c, c.arg[0], c.arg[1], c.arg[2], 3); },
            .samples =
                [](Samples& s) {
                  s.add({1, 8, 3});
                  s.add({1.0, 0.0, -0.25});
                  s.add({5, 0, -2, DType::Float64});
                }});

void space_shape(Call& c, int at) {
  const int64_t n = c.integer(2);
  TYCHO_CHECK(Kind::Value, n >= 0, "%s: the number of steps cannot be %lld", c.op->name,
              static_cast<long long>(n));
  for (int i : {0, 1})
    TYCHO_CHECK(Kind::Shape, !c.tensor(i) || c.tensor(i).rank() == 0,
                "%s: %s must be a number or a 0-d tensor, not %s", c.op->name, i ? "end" : "start",
                describe(c.tensor(i)).c_str());
  c.out.push_back(make(c, {n}, at, default_dtype()));
}
const Op& linspace =
    add_op({.name = "linspace",
            .args = "start: operand, end: operand, steps: int, dtype: dtype?, device: device?, "
                    "requires_grad: bool = false",
            .doc = "Evenly spaced numbers, both ends included.",
            .where = kFunction,
            .differentiable = false,
            .see = "arange, logspace",
            .rule = "start, end, steps -> [steps]",
            .example = "torch.linspace(0, 1, 5) --> f32 [5]   0  0.25  0.5  0.75  1",
            .shape = [](Call& c) { space_shape(c, 3); },
            .samples =
                [](Samples& s) {
                  s.add({0.0, 1.0, 5});
                  s.add({3, -2, 4});
                  s.add({2, 7, 1});
                  s.add({1, 2, 0});
                }});
const Op& logspace =
    add_op({.name = "logspace",
            .args = "start: operand, end: operand, steps: int, base: number = 10.0, dtype: dtype?, "
                    "device: device?, "
                    "requires_grad: bool = false",
            .doc = "Powers of `base`, with evenly spaced exponents, both ends included.",
            .where = kFunction,
            .differentiable = false,
            .see = "linspace",
            .rule = "start, end, steps -> [steps]",
            .example = "torch.logspace(0, 3, 4) --> f32 [4]  1 10 100 1000",
            .shape = [](Call& c) { space_shape(c, 4); },
            .samples =
                [](Samples& s) {
                  s.add({0.0, 2.0, 5});
                  s.add({0, 3, 4, 2.0});
                }});

// Positions (from 1) of the lower and the upper triangle of a matrix.
int64_t triangle_count(bool lower, int64_t rows, int64_t cols, int64_t offset) {
  int64_t n = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t edge = std::clamp<int64_t>(lower ? r + offset + 1 : r + offset, 0, cols);
    n += lower ? edge : cols - edge;
  }
  return n;
}
void triangle_shape(Call& c, bool lower) {
  const int64_t rows = c.integer(0), cols = c.integer(1), offset = c.integer(2);
  TYCHO_CHECK(Kind::Value,
              rows >= 0 && cols >= 0 && rows < (int64_t{1} << 31) && cols < (int64_t{1} << 31),
              "%s: a matrix of %lld by %lld cannot be", c.op->name, static_cast<long long>(rows),
              static_cast<long long>(cols));
  const int64_t clamped = std::clamp<int64_t>(offset, -rows - 1, cols + 1);
  c.arg[2] = Value(clamped);
  const DType dtype = c.dtype(3, DType::Int64);
  TYCHO_CHECK(Kind::DType, dtype == DType::Int64 || dtype == DType::Int32,
              "%s: positions are int64 or int32, not %s", c.op->name, dtype_name(dtype));
  c.out.push_back(make(c, {2, triangle_count(lower, rows, cols, clamped)}, 3, DType::Int64));
}
const Op& tril_indices =
    add_op({.name = "tril_indices",
            .args = "row: int, col: int, offset: int = 0, dtype: dtype?, device: device?",
            .doc = "Positions of a matrix' lower triangle: a row of row numbers over a row of "
                   "column numbers.",
            .where = kFunction,
            .differentiable = false,
            .see = "tril",
            .rule = "row, col -> [2, elements in the triangle]",
            .example = "torch.tril_indices(2, 2) --> i64 [2, 3]\n"
                       " 1  2  2\n"
                       " 1  1  2",
            .shape = [](Call& c) { triangle_shape(c, true); },
            .samples =
                [](Samples& s) {
                  s.add({3, 4});
                  s.add({4, 3, -1});
                  s.add({2, 2, 5});
                }});
const Op& triu_indices =
    add_op({.name = "triu_indices",
            .args = "row: int, col: int, offset: int = 0, dtype: dtype?, device: device?",
            .doc = "Positions of a matrix' upper triangle: a row of row numbers over a row of "
                   "column numbers.",
            .where = kFunction,
            .differentiable = false,
            .see = "triu",
            .rule = "row, col -> [2, elements in the triangle]",
            .example = "torch.triu_indices(2, 2) --> i64 [2, 3]\n"
                       " 1  1  2\n"
                       " 1  2  2",
            .shape = [](Call& c) { triangle_shape(c, false); },
            .samples =
                [](Samples& s) {
                  s.add({3, 4});
                  s.add({4, 3, -1});
                  s.add({2, 2, 5});
                }});

const Op& vander =
    add_op({.name = "vander",
            .args = "x, N: int?, increasing: bool = false",
            .doc = "Vandermonde's matrix: the powers of each element, falling unless increasing.",
            .where = kFunction,
            .see = "pow",
            .rule = "[n] -> [n, N]",
            .example = "torch.vander(torch.tensor{1, 2, 3}) --> i64 [3, 3]\n"
                       " 1  1  1\n"
                       " 4  2  1\n"
                       " 9  3  1",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, x.rank() == 1, "vander: takes a vector, not shape %s",
                              to_string(x.shape()).c_str());
                  const int64_t n = c.has(1) ? c.integer(1) : x.size(0);
                  TYCHO_CHECK(Kind::Value, n >= 0, "vander: N must be at least 0, not %lld",
                              static_cast<long long>(n));
                  Tensor powers = op<"arange">(n, DType::Int64, x.device());
                  if (!c.flag(2)) powers = op<"flip">(powers, Sizes{0});
                  become<"pow">(c, op<"unsqueeze">(x, -1), powers);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3})});
                  s.add({s.normal({3}), 4, true});
                }});

}  // namespace
}  // namespace tycho
