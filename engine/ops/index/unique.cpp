// Distinct elements, positions of what is not zero, places in sorted lines, histograms. The shapes
// of most results depend on the values.
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// From here on the dimension counts from 0; a 0-d tensor has none.
void wrap_optional_dim(Call& c, int i) {
  if (!c.has(i)) return;
  const int rank = c.tensor(0).rank();
  const int d = wrap_dim(c.integer(i), rank);
  c.arg[i] = rank ? Value(d) : Value();
}

void unique_samples(Samples& s) {
  s.add({s.integers({9}, 0, 4)});
  s.add({s.integers({3, 4}, 0, 2), true, true, true});
  s.add({s.integers({4, 2}, 0, 1), true, true, true, 0});
  s.add({s.normal({5})});
}

const Op& unique = add_op(
    {.name = "unique",
     .args =
         "self, sorted: bool = true, return_inverse: bool = false, return_counts: bool = false, "
         "dim: dim?",
     .doc = "The distinct elements in order (or slices along a dimension); on wish the position "
            "of each element's value, and how often each value occurs.",
     .differentiable = false,
     .see = "unique_consecutive, bincount",
     .rule = "any shape -> [distinct elements]",
     .example = "torch.tensor{3, 1, 3}:unique() --> i64 [2]  1 3\n"
                "values, counts = torch.tensor{3, 1, 3}:unique{return_counts=true}\n"
                "counts --> i64 [2]  1 2",
     .size_from_values = true,
     .shape = [](Call& c) { wrap_optional_dim(c, 4); },
     .samples = unique_samples});

const Op& unique_consecutive = add_op(
    {.name = "unique_consecutive",
     .args = "self, return_inverse: bool = false, return_counts: bool = false, dim: dim?",
     .doc = "The elements (or slices along a dimension) without those that equal their neighbour "
            "before; on wish the position of each element's value, and the run lengths.",
     .differentiable = false,
     .see = "unique",
     .rule = "any shape -> [runs]",
     .example = "torch.tensor{1, 1, 2, 1}:unique_consecutive() --> i64 [3]  1 2 1",
     .size_from_values = true,
     .shape = [](Call& c) { wrap_optional_dim(c, 3); },
     .samples =
         [](Samples& s) {
           s.add({s.integers({9}, 0, 1)});
           s.add({s.integers({3, 4}, 0, 1), true, true});
           s.add({s.integers({4, 2}, 0, 1), true, true, 0});
         }});

const Op& nonzero = add_op(
    {.name = "nonzero",
     .args = "self, as_tuple: bool = false",
     .doc = "Positions of the elements that are not zero: one row each, or with as_tuple one "
            "tensor per dimension.",
     .differentiable = false,
     .see = "count_nonzero, where, masked_select",
     .rule = "[n, m, ..] -> [found, number of dims]",
     .example = "torch.tensor{0, 5, 7}:nonzero() --> i64 [2, 1]\n"
                " 2\n"
                " 3\n"
                "rows, columns = torch.tensor{{0, 5}, {7, 0}}:nonzero{as_tuple=true}\n"
                "columns --> i64 [2]  2 1",
     .size_from_values = true,
     .shape = [](Call&) {},
     .samples =
         [](Samples& s) {
           s.add({s.integers({9}, 0, 1)});
           s.add({s.integers({3, 4, 2}, 0, 1)});
           s.add({s.integers({3, 4}, 0, 1), true});
           s.add({s.of({}, {1})});
         }});

// torch.where(condition) alone asks for positions.
const Op& where_found =
    add_op({.name = "where.found",
            .args = "condition",
            .doc = "Positions where the condition holds, one tensor per dimension.",
            .where = kFunction,
            .differentiable = false,
            .see = "nonzero",
            .rule = "[n, m, ..] -> one [found] for each dimension",
            .example = "rows, columns = torch.where(torch.tensor{{0, 5}, {7, 0}})\n"
                       "rows --> i64 [2]  1 2",
            .size_from_values = true,
            .shape = [](Call&) {},
            .samples =
                [](Samples& s) {
                  s.add({s.integers({3, 4}, 0, 1)});
                }});

const Op& argwhere = add_op({.name = "argwhere",
                             .args = "self",
                             .doc = "Positions of the elements that are not zero, one row each.",
                             .differentiable = false,
                             .see = "nonzero",
                             .rule = "[n, m, ..] -> [found, number of dims]",
                             .example = "torch.tensor{{0, 5}, {7, 0}}:argwhere() --> i64 [2, 2]\n"
                                        " 1  2\n"
                                        " 2  1",
                             .size_from_values = true,
                             .shape = [](Call&) {},
                             .samples =
                                 [](Samples& s) {
                                   s.add({s.integers({3, 4}, 0, 1)});
                                 }});

bool right_side(const Call& c, int right, int side) {
  if (!c.has(side)) return c.flag(right);
  const std::string_view text = c.string(side);
  TYCHO_CHECK(Kind::Value, text == "left" || text == "right",
              "searchsorted: side is \"left\" or \"right\", not \"%s\"", c.string(side));
  TYCHO_CHECK(Kind::Value, !(c.flag(right) && text == "left"),
              "searchsorted: right = true and side = \"left\" say opposite things");
  return text == "right";
}

void search_shape(Call& c, const Sizes& values) {
  const Tensor& sorted = c.tensor(0);
  const Tensor& sorter = c.tensor(5);
  if (sorted.rank() != 1) {
    Sizes a = sorted.shape(), b = values;
    if (a.n) a[a.n - 1] = 0;
    if (b.n) b[b.n - 1] = 0;
    TYCHO_CHECK(Kind::Shape, sorted.rank() > 0 && a == b,
                "searchsorted: the sequence must have one dimension, or all sizes but the last as "
                "the values: %s against %s",
                to_string(sorted.shape()).c_str(), to_string(values).c_str());
  }
  if (sorter) {
    TYCHO_CHECK(Kind::Shape, sorter.shape() == sorted.shape(),
                "searchsorted: the sorter has shape %s, the sequence %s",
                to_string(sorter.shape()).c_str(), to_string(sorted.shape()).c_str());
    TYCHO_CHECK(Kind::DType, sorter.dtype() == DType::Int64,
                "searchsorted: the sorter holds positions (int64), not %s",
                dtype_name(sorter.dtype()));
  }
  const DType type = c.flag(2) ? DType::Int32 : DType::Int64;
  c.arg[3] = Value(right_side(c, 3, 4));  // from here on it says the side
  c.out.push_back(empty(values, type, sorted.device()));
}

const Op& searchsorted = add_op(
    {.name = "searchsorted",
     .args = "sorted_sequence, self, out_int32: bool = false, right: bool = false, side: string?, "
             "sorter: tensor?",
     .doc = "The position in an ascending sequence before which each value belongs, from 1 to "
            "n + 1: before its equals, or behind them when right.",
     .where = kFunction,
     .differentiable = false,
     .see = "bucketize, sort",
     .rule = "sequence [.., n], values [.., k] -> [.., k]",
     .example =
         "torch.searchsorted(torch.tensor{10, 20, 30}, torch.tensor{5, 20, 99}) --> i64 [3]  1 2 4",
     .shape = [](Call& c) { search_shape(c, c.tensor(1).shape()); },
     .samples =
         [](Samples& s) {
           s.add({s.of({4}, {1, 2, 2, 5}), s.uniform({2, 3}, 0, 6)});
           s.add({s.of({2, 3}, {1, 2, 3, 4, 5, 6}), s.integers({2, 4}, 0, 7), false, true});
         }});

const Op& searchsorted_number =
    add_op({.name = "searchsorted.number",
            .args = "sorted_sequence, self: number, out_int32: bool = false, right: bool = false, "
                    "side: string?, sorter: tensor?",
            .doc = "The position in an ascending sequence before which a number belongs.",
            .where = kFunction,
            .differentiable = false,
            .see = "bucketize",
            .rule = "sequence [n], a number -> []",
            .example = "torch.searchsorted(torch.tensor{10, 20, 30}, 25) --> i64 []  3",
            .shape = [](Call& c) { search_shape(c, {}); },
            .samples =
                [](Samples& s) {
                  s.add({s.of({4}, {1, 2, 2, 5}), 2});
                }});

template <OpName Name>
void bucketize(Call& c) {
  const Tensor& boundaries = c.tensor(1);
  TYCHO_CHECK(Kind::Shape, boundaries.rank() == 1,
              "bucketize: the boundaries must have one dimension, not shape %s",
              to_string(boundaries.shape()).c_str());
  c.out = ops<Name>(boundaries, c.arg[0], c.flag(2), c.flag(3));
}

const Op& bucketize_op = add_op(
    {.name = "bucketize",
     .args = "self, boundaries, out_int32: bool = false, right: bool = false",
     .doc = "The number (from 1) of the bucket between ascending boundaries in which each value "
            "lies; a value on a boundary lies left of it, or right of it when right.",
     .where = kFunction,
     .differentiable = false,
     .see = "searchsorted, histc",
     .rule = "values of any shape, boundaries [n] -> the shape of the values",
     .example = "torch.bucketize(torch.tensor{0.5, 2.0, 9.0}, torch.tensor{1.0, 2.0, 3.0}) --> i64 "
                "[3]  1 2 4",
     .compose = bucketize<"searchsorted">,
     .samples = [](Samples& s) {
       s.add({s.uniform({2, 3}, 0, 6), s.of({3}, {1, 2, 5})});
     }});

const Op& bucketize_number =
    add_op({.name = "bucketize.number",
            .args = "self: number, boundaries, out_int32: bool = false, right: bool = false",
            .doc = "The number (from 1) of the bucket in which a number lies.",
            .where = kFunction,
            .differentiable = false,
            .see = "searchsorted",
            .rule = "a number, boundaries [n] -> []",
            .example = "torch.bucketize(2.5, torch.tensor{1.0, 2.0, 3.0}) --> i64 []  3",
            .compose = bucketize<"searchsorted.number">,
            .samples = [](Samples& s) {
              s.add({3, s.of({3}, {1, 2, 5})});
            }});

const Op& histc = add_op(
    {.name = "histc",
     .args = "self, bins: int = 100, min: number = 0, max: number = 0",
     .doc = "How many elements fall in each of equal bins between min and max (both 0: the data's "
            "own).",
     .differentiable = false,
     .see = "bincount, bucketize",
     .rule = "any shape -> [bins]",
     .example = "torch.tensor{1.0, 2.0, 2.0, 4.0}:histc(4, 1, 5) --> f32 [4]  1 2 0 1",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           if (!is_floating(x.dtype()))
             fail(Kind::DType,
                  format("histc: takes floating point numbers, not %s", dtype_name(x.dtype())),
                  "x:float()");
           TYCHO_CHECK(Kind::Shape, c.integer(1) > 0, "histc: bins must be positive, not %lld",
                       static_cast<long long>(c.integer(1)));
           TYCHO_CHECK(Kind::Value, c.number(2) <= c.number(3),
                       "histc: max (%g) must be larger than min (%g)", c.number(3), c.number(2));
           c.out.push_back(empty({c.integer(1)}, x.dtype(), x.device()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({20}), 4});
           s.add({s.normal({20}), 4, -1.0, 1.0});
         }});

const Op& bincount = add_op(
    {.name = "bincount",
     .args = "self, weights: tensor?, minlength: int = 0",
     .doc = "How often each value 0, 1, 2, ... occurs (or the sum of its weights).",
     .differentiable = false,
     .see = "histc, unique",
     .rule = "[n] -> [largest value + 1]",
     .example = "torch.tensor{1, 3, 3}:bincount() --> i64 [4]  0 1 0 2",
     .size_from_values = true,
     .shape =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &w = c.tensor(1);
           if (is_floating(x.dtype()) || x.dtype() == DType::Bool)
             fail(Kind::DType, format("bincount: counts integers, not %s", dtype_name(x.dtype())),
                  "x:long()");
           TYCHO_CHECK(Kind::Value, x.rank() == 1 || x.numel() == 0,
                       "bincount: takes one dimension, not shape %s", to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Shape, !w || w.shape() == x.shape(),
                       "bincount: weights have shape %s, the values %s",
                       w ? to_string(w.shape()).c_str() : "", to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Value, c.integer(2) >= 0, "bincount: minlength cannot be negative");
         },
     .samples =
         [](Samples& s) {
           s.add({s.integers({9}, 0, 4)});
           s.add({s.integers({9}, 0, 4), s.normal({9}), 7});
         }});

}  // namespace
}  // namespace tycho
