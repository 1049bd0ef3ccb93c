// What reductions over dimensions share, and those that are no rows of reduce.def: means of what is a
// number, the product of all others. (Positions of extremes stand in extreme.cpp, variances and norms in
// moments.cpp.)
#include "engine/ops/reduce/reduce.h"

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {

Sizes reduced_shape(const Sizes& shape, uint32_t bits, bool keepdim) {
  Sizes out;
  for (int d = 0; d < shape.n; ++d) {
    if (!(bits >> d & 1))
      out.push_back(shape[d]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

Tensor& add_reduced(Call& c, int dims, bool keepdim, DType dtype) {
  const Tensor& x = c.tensor(0);
  const uint32_t bits = dim_bits(c, dims, x.rank());
  c.out.push_back(empty(reduced_shape(x.shape(), bits, keepdim), dtype, x.device()));
  return c.out.back();
}

Tensor unreduce(const Tensor& t, const Sizes& shape, uint32_t bits) {
  if (t.rank() == shape.n) return t;
  return op<"reshape">(t, reduced_shape(shape, bits, true));
}

uint32_t dims_of(const Backward& b, int dims, int rank) {
  if (!b.has(dims) || b.count(dims) == 0) return (1u << rank) - 1;
  uint32_t bits = 0;
  for (int64_t d : b.ints(dims)) bits |= one_dim(d, rank);
  return bits;
}

Sizes dim_list(uint32_t bits, int rank) {
  Sizes dims;
  for (int d = 0; d < rank; ++d)
    if (bits >> d & 1) dims.push_back(d);
  return dims;
}

uint32_t one_dim(int64_t dim, int rank) {
  const int d = wrap_dim(dim, rank);
  return rank ? 1u << d : 0;
}

void check_not_empty(const char* name, const Tensor& x, uint32_t bits) {
  for (int d = 0; d < x.rank(); ++d)
    TYCHO_CHECK(Kind::Dim, !(bits >> d & 1) || x.size(d) > 0,
                "%s: there is nothing to choose from: dimension %d of shape %s has no elements",
                name, d + 1, to_string(x.shape()).c_str());
}

Tensor product_of_others(const Tensor& x, uint32_t bits) {
  const Sizes dims = dim_list(bits, x.rank());
  if (dims.n == 1) return op<"prod_of_others">(x, dims[0]);
  // Several dimensions, and none, become one behind the others.
  Sizes order = dim_list(~bits, x.rank()), flat;
  for (int64_t d : order) flat.push_back(x.size(static_cast<int>(d)));
  int64_t n = 1;
  for (int64_t d : dims) n *= x.size(static_cast<int>(d)), order.push_back(d);
  flat.push_back(n);
  Sizes back = order;
  for (int d = 0; d < order.n; ++d) back[static_cast<int>(order[d])] = d;
  const Tensor moved = op<"permute">(x, order);
  const Tensor y = op<"prod_of_others">(op<"reshape">(moved, flat), -1);
  return op<"permute">(op<"reshape">(y, moved.shape()), back);
}

namespace {

const Op& nanmean =
    add_op({.name = "nanmean",
            .args = "self, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = "Mean of the elements that are not nan.",
            .see = "mean, nansum",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{1.0, 0/0, 3.0}:nanmean() --> f32 []  2",
            .compose =
                [](Call& c) {
                  mean_type(c, "nanmean", 3);
                  c.out.push_back(op<"nansum">(c.tensor(0), c.arg[1], c.arg[2], c.arg[3]) /
                                  op<"count_numbers">(c.tensor(0), c.arg[1], c.arg[2]));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4})});
                  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), true});
                }});

// Products. Each element's derivative is the product of the others, found without division.

// The gradient of prod_of_others with zeros anywhere: element (i, k) of a square is x[k], and 1 on the diagonal; row
// i's product is result i. It squares the memory, so it serves only x with zeros.
Tensor others_grad_with_zeros(const Tensor& g, const Tensor& x) {
  const int64_t n = x.size(-1);
  Sizes square = x.shape();
  square.insert(square.n - 1, n);
  const Tensor line = op<"cumsum">(filled({n}, 1, DType::Int64, x.device()), 0);
  const Tensor same = fn::eq(line, op<"unsqueeze">(line, -1));
  const Tensor wide = op<"where">(same, 1.0, op<"expand">(op<"unsqueeze">(x, -2), square));
  const Tensor part = op<"unsqueeze">(g, -1) * op<"prod_of_others">(wide, -1);
  return op<"sum">(op<"where">(same, 0.0, part), Sizes{-2});
}

const Op& prod_of_others = add_op(
    {.name = "prod_of_others",
     .args = "self, dim: dim",
     .doc = "For each element the product of all others along a dimension.",
     .where = kHidden,
     .saves = "self",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           wrap_dim(c.integer(1), x.rank());
           c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) { b.set(0, op<"prod_of_others_backward">(b.g(), b.in(0), b.integer(1))); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), 1});
           s.add({s.of({2, 3}, {1, 0, 2, 0, 0, 3}), 1});
         }});

const Op& prod_of_others_backward =
    add_op({.name = "prod_of_others_backward",
            .args = "grad, self, dim: dim",
            .doc = "The gradient of prod_of_others.",
            .where = kHidden,
            .compose =
                [](Call& c) {
                  const Tensor &g = c.tensor(0), &x = c.tensor(1);
                  if (x.rank() == 0) {
                    c.out.push_back(op<"zeros_like">(g));
                    return;
                  }
                  const int64_t d = c.integer(2);
                  bool zeros;
                  {
                    NoGrad quiet;
                    zeros = !item<bool>(op<"all">(x));
                  }
                  if (zeros) {
                    const Tensor moved = others_grad_with_zeros(op<"transpose">(g, d, -1),
                                                                op<"transpose">(x, d, -1));
                    c.out.push_back(op<"transpose">(moved, d, -1));
                  } else {
                    const Tensor part = g * op<"prod_of_others">(x, d);
                    c.out.push_back((op<"sum">(part, Sizes{d}, true) - part) / x);
                  }
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.normal({3, 4}), 1});
                  s.add({s.normal({2, 3}), s.of({2, 3}, {1, 0, 2, 0, 0, 3}), 1});
                }});

const Op& sum_to_size = add_op(
    {.name = "sum_to_size",
     .args = "self, size: ints",
     .doc =
         "The tensor summed over the dimensions along which `size` would broadcast to its shape.",
     .where = kMethod,
     .see = "sum, expand",
     .rule = "a shape that size broadcasts to -> size",
     .example = "torch.ones(2, 3):sum_to_size{1, 3} --> f32 [1, 3]\n"
                " 2  2  2",
     .compose =
         [](Call& c) {
           Tensor x = c.tensor(0);
           const Sizes want = c.ints(1);
           const int lead = x.rank() - want.n;
           TYCHO_CHECK(Kind::Broadcast, lead >= 0 && broadcast(want, x.shape()) == x.shape(),
                       "sum_to_size: %s does not broadcast to %s", to_string(want).c_str(),
                       to_string(x.shape()).c_str());
           // One sum, which rounds once.
           Sizes dims;
           for (int d = 0; d < lead; ++d) dims.push_back(d);
           for (int d = lead; d < x.rank(); ++d)
             if (want[d - lead] == 1 && x.size(d) != 1) dims.push_back(d);
           const bool keep = dims.n > lead;
           if (dims.n) x = op<"sum">(x, dims, keep);
           if (keep && lead) x = op<"reshape">(x, want);
           c.out.push_back(x);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), s.ints({3, 1})});
         }});

}  // namespace
}  // namespace tycho
